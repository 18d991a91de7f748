"""Reading values, signatures and regions: what the forms of operations are made of."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from xla_backend.stablehlo.attributes import Location
from xla_backend.stablehlo.ir import Block, Operation, Region, Value
from xla_backend.stablehlo.read_attributes import AttributeReader
from xla_backend.stablehlo.types import Type

_VALUE = re.compile(r"%([\w$.\-]+)(?:#(\d+))?")
_VALUE_NAME = re.compile(r"[\w$.\-]+")
_NAME = re.compile(r"[A-Za-z_][\w$]*(?:\.[\w$.\-]+)?")
_LABEL = re.compile(r"\^([\w$.\-]+)")

# A block argument as written: name, type, location.
Argument = tuple[str, Type, Location]


class RegionReader(AttributeReader):
    """Reads regions; knows the values defined so far, by name and scope. How an operation is read,
    a subclass says."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._scopes: list[dict[str, list[Value]]] = [{}]

    # -- values ----------------------------------------------------------------------------------

    def at_operand(self) -> bool:
        return self.at("%")

    def read_operand(self) -> Value:
        """A use of a value defined before."""
        start = self.skip_space()
        match = self.read(_VALUE, "a value such as %0")
        name = match[1]
        for scope in reversed(self._scopes):
            values = scope.get(name)
            if values is not None:
                break
        else:
            known = [n for scope in self._scopes for n in scope]
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean %{near[0]}?" if near else ""
            self.fail(f"%{name} is not defined before this use{hint}", start)
        index = int(match[2] or 0)
        if index >= len(values):
            self.fail(f"%{name} has {len(values)} results, there is no #{index}", start)
        return values[index]

    def read_value_name(self) -> str:
        """The name after a `%` that was read already."""
        return self.read(_VALUE_NAME, "a name")[0]

    def read_operands(self) -> list[Value]:
        """`%a, %b`, maybe none."""
        values: list[Value] = []
        if not self.at_operand():
            return values
        values.append(self.read_operand())
        while True:
            here = self.position
            if not self.accept(",") or not self.at_operand():
                self.position = here
                return values
            values.append(self.read_operand())

    def define(self, name: str, values: list[Value], start: int) -> None:
        scope = self._scopes[-1]
        if name in scope:
            self.fail(f"%{name} is defined twice", start)
        scope[name] = values

    # -- types of operations ---------------------------------------------------------------------

    def read_signature(self, operands: Sequence[Value]) -> tuple[Type, ...]:
        """`(operand types) -> result types`, checked against the operands; the result types."""
        start = self.skip_space()
        found = self.read_function_type()
        self.check_operand_types(operands, found.inputs, start)
        return found.results

    def check_operand_types(
        self, operands: Sequence[Value], types: Sequence[Type], start: int
    ) -> None:
        if len(operands) != len(types):
            self.fail(f"{len(types)} operand types for {len(operands)} operands", start)
        for i, (operand, written) in enumerate(zip(operands, types)):
            if operand.type != written:
                self.fail(f"operand {i} has type {operand.type}, not {written}", start)

    # -- regions ---------------------------------------------------------------------------------

    def read_region(self, arguments: Sequence[Argument] = (), isolated: bool = False) -> Region:
        """`{ operations }`, the first block with or without a label. `arguments` are those of the
        entry block that the operation has named already."""
        self.enter()
        outer = self._scopes
        self._scopes = [{}] if isolated else [*outer, {}]
        region = Region()
        self.expect("{")
        start = self.skip_space()
        if not self.at("^"):
            self._read_block(region.append(self._entry_block(arguments, start)))
        elif arguments:
            self.fail("this entry block has its arguments already", start)
        while self.at("^"):
            self._read_block(region.append(self._read_label()))
        self.expect("}", "or an operation")
        self._scopes = outer
        self.leave()
        return region

    def _entry_block(self, arguments: Sequence[Argument], start: int) -> Block:
        block = Block()
        for name, type_, location in arguments:
            self.define(name, [block.add_argument(type_, location)], start)
        return block

    def _read_label(self) -> Block:
        self.read(_LABEL, "a block label such as ^bb0")
        start = self.skip_space()
        block = self._entry_block(self.read_arguments() if self.at("(") else (), start)
        self.expect(":", "after a block label")
        return block

    def read_arguments(self) -> list[Argument]:
        """`(%a: type, %b: type)`."""
        self.expect("(")
        arguments: list[Argument] = []
        if self.accept(")"):
            return arguments
        while True:
            name = self.read(_VALUE, "an argument such as %arg0")[1]
            self.expect(":", "and the type of the argument")
            arguments.append((name, self.read_type(), self.read_optional_location()))
            if self.accept(")"):
                return arguments
            self.expect(",", "or ')'")

    def _read_block(self, block: Block) -> None:
        while not self.at("}") and not self.at("^"):
            if self.at_end():
                self.fail("the text ends inside a region: '}' is missing")
            block.append(self.read_operation())

    def read_operation(self) -> Operation:
        """One operation with its result names and location; defines the results."""
        raise NotImplementedError

    def read_operation_name(self) -> str:
        """With dialect: `call` and `return` stand for those of `func`."""
        word = self.read(_NAME, "an operation")[0]
        return f"func.{word}" if "." not in word else word
