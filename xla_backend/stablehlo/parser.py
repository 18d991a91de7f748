"""Reading modules: functions, regions, operations in pretty and generic form."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence

from xla_backend.stablehlo.attributes import Attribute
from xla_backend.stablehlo.format_directives import Directive, directives
from xla_backend.stablehlo.format_values import READ_KINDS
from xla_backend.stablehlo.ir import Operation, Region, Value
from xla_backend.stablehlo.module import Module
from xla_backend.stablehlo.op_table import FORMATS, INHERENT
from xla_backend.stablehlo.read_regions import RegionReader
from xla_backend.stablehlo.reader import STRING, unescape
from xla_backend.stablehlo.special_forms import SPECIAL_READERS
from xla_backend.stablehlo.structure import structure_error
from xla_backend.stablehlo.types import Type

_RESULTS = re.compile(r"%[\w$.\-]+(?::\d+)?(?:[ \t]*,[ \t]*%[\w$.\-]+(?::\d+)?)*[ \t]*=(?!=)")
_RESULT = re.compile(r"%([\w$.\-]+)(?::(\d+))?")
_SPLIT_MARK = re.compile(r"^// -----.*$", re.MULTILINE)


class OperationReader(RegionReader):
    """Reads operations, each in its pretty or in the generic form."""

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
