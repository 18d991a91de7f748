"""Reading modules: functions, regions, operations in pretty and generic form."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence

from xla_backend.stablehlo.attributes import (
    Attribute,
    Location,
)
from xla_backend.stablehlo.format_directives import Directive, directives
from xla_backend.stablehlo.format_values import READ_KINDS
from xla_backend.stablehlo.ir import Block, Operation, Region, Value
from xla_backend.stablehlo.module import Module
from xla_backend.stablehlo.op_table import FORMATS, INHERENT
from xla_backend.stablehlo.read_attributes import AttributeReader
from xla_backend.stablehlo.reader import STRING, unescape
from xla_backend.stablehlo.special_forms import SPECIAL_READERS
from xla_backend.stablehlo.structure import structure_error
from xla_backend.stablehlo.types import Type

_VALUE = re.compile(r"%([\w$.\-]+)(?:#(\d+))?")
_VALUE_NAME = re.compile(r"[\w$.\-]+")
_RESULTS = re.compile(r"%[\w$.\-]+(?::\d+)?(?:[ \t]*,[ \t]*%[\w$.\-]+(?::\d+)?)*[ \t]*=(?!=)")
_RESULT = re.compile(r"%([\w$.\-]+)(?::(\d+))?")
_LABEL = re.compile(r"\^([\w$.\-]+)")
_SPLIT_MARK = re.compile(r"^// -----.*$", re.MULTILINE)

# A block argument as written: name, type, location.
Argument = tuple[str, Type, Location]


class OperationReader(AttributeReader):
    """Reads operations; knows the values defined so far, by name and scope."""

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

    # -- operations ------------------------------------------------------------------------------

    def read_operation(self) -> Operation:
        """One operation with its result names and location; defines the results."""
        start = self.skip_space()
        names = self._result_names()
        at = self.skip_space()
        operation = self._generic() if self.at('"') else self._pretty(at)
        error = structure_error(operation)
        if error is not None:
            self.fail(error, at)
        operation.line = self.line_number(at)
        operation.location = self.read_optional_location()
        total = sum(count for _, count in names)
        if names and total != len(operation.results):
            self.fail(
                f"{operation.name} has {len(operation.results)} results, {total} are named", start
            )
        first = 0
        for name, count in names:
            self.define(name, operation.results[first : first + count], start)
            first += count
        return operation

    def _result_names(self) -> list[tuple[str, int]]:
        match = self.match(_RESULTS)
        if match is None:
            if self.at("%"):
                self.fail("expected '%name = operation'")
            return []
        return [(m[1], int(m[2] or 1)) for m in _RESULT.finditer(match[0])]

    def _generic(self) -> Operation:
        """`"dialect.name"(%a) <{..}> ({..}) {..} : (..) -> ..`."""
        start = self.position
        name = unescape(self.read(STRING, "an operation name")[1])
        if name.startswith(("stablehlo.", "chlo.")) and name not in INHERENT:
            self._unknown(name, start)
        self.expect("(")
        operands = self.read_operands()
        self.expect(")")
        if self.at("["):
            self.fail("branches between blocks are not supported: use stablehlo.if or while")
        attributes: dict[str, Attribute] = {}
        if self.accept("<"):
            attributes = self.read_dictionary()
            self.expect(">")
        regions: list[Region] = []
        if self.accept("("):
            regions.append(self.read_region(isolated=name == "func.func"))
            while self.accept(","):
                regions.append(self.read_region())
            self.expect(")")
        if self.at("{"):
            attributes = {**attributes, **self.read_dictionary()}
        self.expect(":", "and the type of the operation")
        return Operation(name, operands, self.read_signature(operands), attributes, regions)

    def _unknown(self, name: str, start: int) -> None:
        near = difflib.get_close_matches(name, [*INHERENT, *SPECIAL_READERS], 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        self.fail(f"there is no operation '{name}'{hint}", start)

    def _pretty(self, start: int) -> Operation:
        name = self.read_operation_name()
        special = SPECIAL_READERS.get(name)
        if special is not None:
            return special(self, name)
        form = FORMATS.get(name)
        if form is None:
            if name in INHERENT:
                self.fail(f'{name} has no pretty form; write "{name}"(...) : (...) -> ...', start)
            self._unknown(name, start)
            raise AssertionError
        return self._read_format(name, directives(form))

    def read_operation_name(self) -> str:
        """With dialect: `call` and `return` stand for those of `func`."""
        word = self.read(_NAME, "an operation")[0]
        return f"func.{word}" if "." not in word else word

    def _read_format(self, name: str, form: Sequence[Directive]) -> Operation:
        operands: list[Value] = []
        attributes: dict[str, Attribute] = {}
        types: tuple[Type, ...] = ()
        for directive in form:
            what, text = directive.what, directive.text
            if what == "operand":
                operands.append(self.read_operand())
            elif what == "operands":
                operands += self.read_operands()
            elif what == "text":
                self.expect_word(text) if text.isalpha() else self.expect(text)
            elif what == "attribute":
                self._read_format_attribute(directive, attributes)
            elif what == "dictionary":
                if self.at("{"):
                    attributes.update(self.read_dictionary())
            else:
                types = _TYPE_READERS[text](self, operands)
        return Operation(name, operands, types, attributes)

    def _read_format_attribute(
        self, directive: Directive, attributes: dict[str, Attribute]
    ) -> None:
        if directive.optional:
            here = self.position
            if not self.accept(","):
                return
            if directive.keyword:
                if not self.accept_word(directive.keyword):
                    self.position = here
                    return
                self.expect("=")
        attributes[directive.text] = READ_KINDS[directive.kind](self, directive)


_NAME = re.compile(r"[A-Za-z_][\w$]*(?:\.[\w$.\-]+)?")


# -- types at the end of a pretty form -------------------------------------------------------------


def _functional(reader: OperationReader, operands: Sequence[Value]) -> tuple[Type, ...]:
    reader.expect(":", "and the type of the operation")
    return reader.read_signature(operands)


def _same(reader: OperationReader, operands: Sequence[Value]) -> tuple[Type, ...]:
    reader.expect(":", "and the type of the operation")
    if reader.at("("):
        return reader.read_signature(operands)
    start = reader.skip_space()
    type_ = reader.read_type()
    reader.check_operand_types(operands, [type_] * len(operands), start)
    return (type_,)


def _result(reader: OperationReader, operands: Sequence[Value]) -> tuple[Type, ...]:
    reader.expect(":", "and the type of the result")
    return (reader.read_type(),)


def read_type_list(reader: OperationReader) -> list[Type]:
    types = [reader.read_type()]
    while reader.accept(","):
        types.append(reader.read_type())
    return types


def _operand_types(reader: OperationReader, operands: Sequence[Value]) -> tuple[Type, ...]:
    """Types of the operands. Operations written so either have no results, or as many of the same
    types (optimization_barrier)."""
    if not operands:
        if reader.accept("("):
            reader.expect(")")
        return ()
    reader.expect(":", "and the types of the operands")
    start = reader.skip_space()
    reader.check_operand_types(operands, read_type_list(reader), start)
    return ()


def _arrow(reader: OperationReader, operands: Sequence[Value]) -> tuple[Type, ...]:
    reader.expect(":", "and the type of the operation")
    start = reader.skip_space()
    if reader.at("("):
        return reader.read_signature(operands)
    inputs = read_type_list(reader)
    reader.check_operand_types(operands, inputs, start)
    if not reader.accept("->"):
        return (inputs[0],)
    if not reader.accept("("):
        return (reader.read_type(),)
    results = read_type_list(reader)
    reader.expect(")")
    return tuple(results)


def _barrier_types(reader: OperationReader, operands: Sequence[Value]) -> tuple[Type, ...]:
    _operand_types(reader, operands)
    return tuple(o.type for o in operands)


_TYPE_READERS: dict[str, Callable[[OperationReader, Sequence[Value]], tuple[Type, ...]]] = {
    "fn": _functional,
    "same": _same,
    "result": _result,
    "operands": _operand_types,
    "barrier": _barrier_types,
    "arrow": _arrow,
}


# -- modules ---------------------------------------------------------------------------------------


def _read_top_level(reader: OperationReader, module: Module, closing: str) -> None:
    while not (reader.at(closing) if closing else reader.at_end()):
        if reader.at_end():
            reader.fail("the text ends inside the module: '}' is missing")
        if not reader.skip_alias_definition():
            module.append(reader.read_operation())


def _read_module(reader: OperationReader) -> Module:
    name = reader.read_symbol() if reader.at("@") else ""
    attributes = reader.read_dictionary() if reader.accept_word("attributes") else {}
    module = Module(name, attributes)
    reader.expect("{")
    _read_top_level(reader, module, "}")
    reader.expect("}")
    module.location = reader.read_optional_location()
    return module


def parse_module(text: str) -> Module:
    """Read a module of the textual dialect; functions without a module around them make one.

    Raises:
      ParseError: malformed text; the message has line and column, the line, a caret, and what was
        expected.

    >>> module = parse_module("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {"
    ...                       "  %0 = stablehlo.add %x, %x : tensor<2xf32>"
    ...                       "  return %0 : tensor<2xf32> }")
    >>> [op.name for op in module.functions["main"].regions[0].walk()]
    ['stablehlo.add', 'func.return']
    """
    reader = OperationReader(text)
    while reader.skip_alias_definition():
        pass
    start = reader.skip_space()
    if reader.accept_word("module") or reader.accept_word("builtin.module"):
        module = _read_module(reader)
        while not reader.at_end():
            if not reader.skip_alias_definition():
                reader.fail(f"expected the end of the text after the module, got {reader.found()}")
        return module
    if reader.at_end():
        reader.fail("expected a module or a function, got an empty text", start)
    module = Module()
    _read_top_level(reader, module, "")
    return module


def split_input(text: str) -> list[str]:
    """The parts of a text between lines that start with `// -----`."""
    return [part for part in _SPLIT_MARK.split(text) if part.strip()]
