"""Writing modules as MLIR's printer does: pretty forms where there are some, else the generic
form."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Protocol

from xla_backend.hlo.text_position import quote
from xla_backend.stablehlo.attribute_text import (
    dictionary_text,
    symbol_name_text,
)
from xla_backend.stablehlo.attributes import Attribute, Location
from xla_backend.stablehlo.format_directives import Directive, directives
from xla_backend.stablehlo.format_values import WRITE_KINDS
from xla_backend.stablehlo.ir import Operation, Region
from xla_backend.stablehlo.location_aliases import LocationAliases
from xla_backend.stablehlo.op_table import FORMATS, INHERENT
from xla_backend.stablehlo.special_forms import SPECIAL_WRITERS
from xla_backend.stablehlo.types import FunctionType
from xla_backend.stablehlo.write_regions import Writer


class PrintedModule(Protocol):
    """What a module is made of; `module.Module` prints itself, so that it stands above."""

    name: str
    attributes: dict[str, Attribute]
    location: Location
    body: Region


class OperationWriter(Writer):
    """Writes operations, each in its pretty form if it has one."""

    def __init__(
        self, module: PrintedModule, *, debug_info: bool = False, generic: bool = False
    ) -> None:
        aliases = LocationAliases(module.location, module.body) if debug_info else None
        super().__init__(module.body, locations=aliases)
        self._generic = generic

    def operation(self, op: Operation, dialect: str = "") -> None:
        if op.results:
            self.write(f"{self.names.groups[op]} = ")
        special = SPECIAL_WRITERS.get(op.name)
        if special is not None and not self._generic:
            special(self, op)
        elif op.name in FORMATS and not self._generic:
            shown = op.name
            if dialect == "func" and shown.startswith("func."):
                shown = shown.removeprefix("func.")
            self.write(self._format(op, shown, directives(FORMATS[op.name])))
        else:
            self._generic_form(op)
        self.write(self.location(op.location))

    def _generic_form(self, op: Operation) -> None:
        self.write(f"{quote(op.name)}({self.operands(op.operands)})")
        inherent = INHERENT.get(op.name, frozenset())
        if op.name == "func.func":
            inherent = frozenset(op.attributes)
        own = {k: v for k, v in op.attributes.items() if k in inherent}
        others = {k: v for k, v in op.attributes.items() if k not in inherent}
        if own:
            self.write(f" <{dictionary_text(own)}>")
        if op.regions:
            self.write(" (")
            for i, region in enumerate(op.regions):
                self.write(", " if i else "")
                self.region(region)
            self.write(")")
        if others:
            self.write(f" {dictionary_text(others)}")
        self.write(f" : {self.signature(op)}")

    def _format(self, op: Operation, name: str, form: Sequence[Directive]) -> str:
        """Words are separated by blanks, but for commas and brackets."""
        shown = {d.text for d in form if d.what == "attribute"}
        remaining = iter(op.operands)
        words = [name]
        for directive in form:
            what, text = directive.what, directive.text
            if what == "operand":
                words.append(self.name(next(remaining)))
            elif what == "operands":
                operands = self.operands(list(remaining))
                if operands:
                    words.append(operands)
            elif what == "text":
                words.append(text)
            elif what == "attribute":
                self._format_attribute(op, directive, words)
            elif what == "dictionary":
                others = self.dictionary(op, tuple(shown)).strip()
                if others:
                    words.append(others)
            else:
                words.append(_TYPE_WRITERS[text](self, op))
        return _joined(words)

    @staticmethod
    def _format_attribute(op: Operation, directive: Directive, words: list[str]) -> None:
        value = op.attributes.get(directive.text)
        if value is None and directive.optional:
            return
        text = WRITE_KINDS[directive.kind](value)
        if directive.optional:
            words.append(",")
            if directive.keyword:
                words += [directive.keyword, "="]
        words.append(text)

    def module(self, module: PrintedModule) -> str:
        self.write("module")
        if module.name:
            self.write(f" {symbol_name_text(module.name)}")
        if module.attributes:
            self.write(f" attributes {dictionary_text(module.attributes)}")
        self.write(" ")
        self.region(module.body, label=False)
        self.write(self.location(module.location) + "\n")
        if self.locations is not None:
            self.write(self.locations.text())
        return "".join(self.parts)


def _joined(words: Sequence[str]) -> str:
    text = words[0]
    for previous, word in itertools.pairwise(words):
        glued = not word or word in (",", ")") or word == "(" or previous == "("
        text += word if glued else f" {word}"
    return text


def _operand_types(writer: Writer, op: Operation) -> str:
    return f": {', '.join(map(str, op.operand_types))}" if op.operands else ""


def _arrow(writer: Writer, op: Operation) -> str:
    results = FunctionType((), op.result_types)
    return f": {', '.join(map(str, op.operand_types))} {str(results).removeprefix('() ')}"


_TYPE_WRITERS: dict[str, Callable[[Writer, Operation], str]] = {
    "fn": lambda writer, op: f": {writer.signature(op)}",
    "same": lambda writer, op: f": {writer.same_type(op)}",
    "result": lambda writer, op: f": {op.result.type}",
    "operands": _operand_types,
    "barrier": lambda writer, op: _operand_types(writer, op) or "()",
    "arrow": _arrow,
}


def module_to_text(
    module: PrintedModule, *, debug_info: bool = False, generic: bool = False
) -> str:
    """The module as text.

    Args:
      debug_info: with locations, `loc(...)`.
      generic: every operation in the quoted generic form.

    >>> from xla_backend.stablehlo.parser import parse_module
    >>> text = "func.func @f(%x: tensor<i32>) -> tensor<i32> { return %x : tensor<i32> }"
    >>> print(module_to_text(parse_module(text)), end="")
    module {
      func.func @f(%arg0: tensor<i32>) -> tensor<i32> {
        return %arg0 : tensor<i32>
      }
    }
    """
    return OperationWriter(module, debug_info=debug_info, generic=generic).module(module)
