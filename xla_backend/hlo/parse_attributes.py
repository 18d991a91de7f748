"""Attributes behind an instruction in HLO text, sorted into its own, common ones, and calls."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Protocol

from xla_backend.hlo.annotation_text import ANNOTATIONS, is_braced, read_backend_config
from xla_backend.hlo.attribute_text import (
    CODECS,
    COMMON,
    CONDITIONAL_FALSE,
    CONDITIONAL_INDEXED,
    CONDITIONAL_LIST,
    CONDITIONAL_PRED,
    CONDITIONAL_TRUE,
    REQUIRED,
    Codec,
)
from xla_backend.hlo.attributes import NO_ATTRIBUTES, Attributes, CustomCallAttributes
from xla_backend.hlo.instruction import NO_METADATA, Computation, OpMetadata
from xla_backend.hlo.op_metadata import read_metadata
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.text_cursor import Cursor, unescape
from xla_backend.process.light_dataclasses import dataclass


@dataclass(slots=True)
class Reference:
    """Something named before it is known, resolved later."""

    name: str
    position: int


class ComputationReader(Protocol):
    """What reads a computation written in place of its name.

    Attributes:
      frames: numbers of the stack frames that the module has; None if it has none.
    """

    frames: Container[int] | None

    def inline_computation(self) -> Computation: ...


class AttributeReader:
    """Reads `, name=value` until there are no more, sorted into the opcode's own and the common
    ones."""

    def __init__(
        self, cursor: Cursor, computations: ComputationReader, opcode: Opcode, more: tuple[str, ...]
    ) -> None:
        """`more` names further attributes of words or strings, kept as text in `annotations`."""
        self.cursor = cursor
        self.computations = computations
        self.opcode = opcode
        self.more = more
        self.codec: Codec = CODECS[opcode]
        self.values: dict[str, Any] = {}
        self.calls: dict[str, list[Reference | Computation]] = {}
        self.called: list[Reference | Computation] = []
        self.annotations: dict[str, Any] = {}
        self.predecessors: list[Reference] = []
        self.metadata: OpMetadata = NO_METADATA
        self.backend_config = ""

    def read(self) -> None:
        seen: set[str] = set()
        cursor = self.cursor
        kinds = {f.name: f.kind for f in self.codec.fields}
        while cursor.accept(","):
            cursor.skip_space()
            start = cursor.position
            name = cursor.read_name("an attribute name")
            if name in seen:
                cursor.fail(f"attribute '{name}' is given twice", start)
            seen.add(name)
            cursor.expect("=")
            cursor.skip_space()
            if name in kinds:
                self.values[name] = kinds[name].read(cursor)
            elif name in self.codec.calls or (
                self.opcode is Opcode.CONDITIONAL and name in (CONDITIONAL_TRUE, CONDITIONAL_FALSE)
            ):
                self.calls[name] = [self._callee()]
            elif name == self.codec.call_list or (
                self.opcode is Opcode.CONDITIONAL and name == CONDITIONAL_LIST
            ):
                self.calls[name] = self._callee_list()
            elif name in self.codec.raw or name in self.more:
                self.annotations[name] = cursor.read_value_text()
            elif name in COMMON:
                self._common(name)
            else:
                allowed = ", ".join([*self.codec.allowed(), *COMMON])
                cursor.fail(f"{self.opcode} has no attribute '{name}'; allowed: {allowed}", start)

    def _common(self, name: str) -> None:
        cursor = self.cursor
        if name == "metadata":
            self.metadata = read_metadata(cursor, self.computations.frames)
        elif name == "control-predecessors":
            self._read_predecessors()
        elif name == "backend_config":
            self.backend_config = read_backend_config(cursor)
        else:
            text = ANNOTATIONS[name](cursor)
            if text:
                self.annotations[name] = text

    def _read_predecessors(self) -> None:
        cursor = self.cursor
        cursor.expect("{")
        while not cursor.accept("}"):
            cursor.skip_space()
            start = cursor.position
            self.predecessors.append(Reference(cursor.read_name("an instruction name"), start))
            if not cursor.accept(",") and not cursor.at("}"):
                cursor.fail("expected ',' or '}'")

    def _callee(self) -> Reference | Computation:
        cursor = self.cursor
        if cursor.at("{"):
            return self.computations.inline_computation()
        start = cursor.position
        return Reference(cursor.read_name("a computation name"), start)

    def _callee_list(self) -> list[Reference | Computation]:
        cursor = self.cursor
        cursor.expect("{")
        callees: list[Reference | Computation] = []
        while not cursor.accept("}"):
            callees.append(self._callee())
            if not cursor.accept(",") and not cursor.at("}"):
                cursor.fail("expected ',' or '}'")
        return callees

    def build(self, position: int) -> Attributes:
        """The typed attributes; sets `called`. Complains about what is missing."""
        if self.opcode is Opcode.CONDITIONAL:
            return self._conditional(position)
        for name in self.codec.calls:
            if name in self.calls:
                self.called += self.calls[name]
            elif not self.codec.calls_optional:
                self._missing(name, position)
        self.called += self.calls.get(self.codec.call_list, [])
        if self.backend_config and self.opcode is not Opcode.CUSTOM_CALL:
            self.annotations["backend_config"] = self.backend_config
        if not self.codec.fields:
            return NO_ATTRIBUTES if not self.codec.calls else self.codec.make({})
        values = {}
        for item in self.codec.fields:
            if item.name in self.values:
                values[item.name] = self.values[item.name]
            elif item.default is REQUIRED:
                self._missing(item.name, position)
            else:
                values[item.name] = item.default
        attributes = self.codec.make(values)
        if isinstance(attributes, CustomCallAttributes) and self.backend_config:
            text = self.backend_config
            config = text if is_braced(text) else unescape(text[1:-1])
            attributes = CustomCallAttributes(
                attributes.target,
                config,
                attributes.has_side_effect,
                attributes.operand_layouts,
                attributes.output_to_operand_aliasing,
                attributes.api_version,
                attributes.schedule,
            )
        return attributes

    def _conditional(self, position: int) -> Attributes:
        if self.backend_config:
            self.annotations["backend_config"] = self.backend_config
        if CONDITIONAL_LIST in self.calls:
            self.called = self.calls[CONDITIONAL_LIST]
            return CONDITIONAL_INDEXED
        for name in (CONDITIONAL_TRUE, CONDITIONAL_FALSE):
            if name not in self.calls:
                self._missing(f"{CONDITIONAL_LIST} (or {name})", position)
            self.called += self.calls[name]
        return CONDITIONAL_PRED

    def _missing(self, name: str, position: int) -> None:
        self.cursor.fail(f"{self.opcode} needs the attribute {name}", position)
