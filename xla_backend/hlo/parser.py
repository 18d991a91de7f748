"""Parser of HLO text: hand-written recursive descent over a Cursor.

Reads what XLA prints: long, short and canonical style, optimised and unoptimised. Computations may
be named before they are defined, operand shapes, `%` and signatures are optional, a result shape
may be left out where operands imply it. The parser does not check that shapes fit together; that
is the verifier's work.
Malformed text raises
ParseError, never anything else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

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
from xla_backend.hlo.attributes import (
    NO_ATTRIBUTES,
    Attributes,
    ConstantAttributes,
    CustomCallAttributes,
    ParameterAttributes,
)
from xla_backend.hlo.computation import Computation
from xla_backend.hlo.errors import ShapeInferenceError
from xla_backend.hlo.instruction import NO_METADATA, Instruction, OpMetadata
from xla_backend.hlo.literal_text import parse_literal
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import BY_TEXT, Opcode
from xla_backend.hlo.parse_header import (
    SourceTables,
    apply_header_attribute,
    read_frontend_attributes,
    read_metadata,
    read_tables,
)
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_inference import infer_shape
from xla_backend.hlo.text_cursor import MAX_NESTING, Cursor, unescape

_SIMPLE_OPERANDS = re.compile(
    r"\(\s*(?:%?[A-Za-z_][\w.\-]*(?:\s*,\s*(?:/\*index=\d+\*/\s*)?%?[A-Za-z_][\w.\-]*)*)?\s*\)"
)
_OPERAND_NAME = re.compile(r"(?:/\*[^*]*\*/)?\s*%?([A-Za-z_][\w.\-]*)")
_OPCODE = re.compile(r"[a-z][a-z0-9\-]*(?=\()")
_ROOT = re.compile(r"ROOT(?=\s)")
_ENTRY = re.compile(r"ENTRY(?=\s)")
_MAX_PARAMETERS = 1 << 16


@dataclass(slots=True)
class _Reference:
    """A called computation by name, resolved when all of them are known."""

    name: str
    position: int


@dataclass(slots=True)
class _Scope:
    """A computation under construction."""

    computation: Computation
    by_name: dict[str, Instruction] = field(default_factory=dict)
    parameter_numbers: dict[int, Instruction] = field(default_factory=dict)
    predecessors: list[_Reference] = field(default_factory=list)  # named by control-predecessors
    root: Instruction | None = None
    # A lone instruction declares its typed operands as parameters.
    declares_operands: bool = False


def parse_module(text: str) -> HloModule:
    """The module that `text` spells: a whole module, a list of computations, or one instruction
    with typed operands.

    Raises:
      ParseError: with line and column, what was expected, the source line and a caret.
    """
    return _Parser(text).module()


def parse_shape(text: str) -> Shape:
    """A shape alone, such as `f32[2,3]{0,1}`."""
    cursor = Cursor(text)
    shape = cursor.read_shape()
    if not cursor.at_end():
        cursor.fail("unexpected text after the shape")
    return shape


class _Parser:
    def __init__(self, text: str) -> None:
        self.cursor = Cursor(text)
        self.computations: dict[
            str, Computation
        ] = {}  # in text order, inline ones before their caller
        self.pending: list[tuple[Instruction, list[_Reference | Computation]]] = []
        self.tables = SourceTables()
        self.nesting = 0

    # -- module ------------------------------------------------------------------------------------

    def module(self) -> HloModule:
        cursor = self.cursor
        module: HloModule | None = None
        if cursor.accept("HloModule"):
            module = HloModule(cursor.read_name("a module name"))
            while cursor.accept(","):
                cursor.skip_space()
                start = cursor.position
                name = cursor.read_name("an attribute name")
                cursor.expect("=")
                apply_header_attribute(cursor, module, name, start)
            self.tables = read_tables(cursor)
        elif not self._at_computation():
            return self._lone_instruction()
        entry: Computation | None = None
        last: Computation | None = None
        while not cursor.at_end():
            start = cursor.position
            is_entry = _ENTRY.match(cursor.text, cursor.position) is not None
            if is_entry:
                if entry is not None:
                    cursor.fail("only one computation may be marked ENTRY")
                cursor.position += len("ENTRY")
            last = self._computation(start)
            if is_entry:
                entry = last
        if last is None:
            cursor.fail("expected a computation: [ENTRY] name { ... }")
        entry = entry or last
        if module is None:
            module = HloModule(f"module_{entry.name}")
        self._finish(module, entry)
        return module

    def _at_computation(self) -> bool:
        cursor = self.cursor
        cursor.skip_space()
        return (
            _ENTRY.match(cursor.text, cursor.position) is not None
            or re.compile(r"%?[\w.\-]+\s*[({]").match(cursor.text, cursor.position) is not None
        )

    def _lone_instruction(self) -> HloModule:
        scope = _Scope(Computation("_"), declares_operands=True)
        scope.root = self._instruction_body(scope, "_")
        if not self.cursor.at_end():
            self.cursor.fail("unexpected text after the instruction")
        entry = self._close(scope, 0)
        module = HloModule("_", is_scheduled=True)
        self._finish(module, entry)
        return module

    def _finish(self, module: HloModule, entry: Computation) -> None:
        for node, references in self.pending:
            node.called = [self._resolve(r) for r in references]
        module.entry = entry
        order = self._callees_first()
        order.remove(entry)
        order.append(entry)
        for computation in order:
            computation.module = module
        module.computations = order

    def _resolve(self, reference: _Reference | Computation) -> Computation:
        if isinstance(reference, Computation):
            return reference
        found = self.computations.get(reference.name)
        if found is None:
            self.cursor.fail(
                f"computation '{reference.name}' does not exist", position=reference.position
            )
        return found

    def _callees_first(self) -> list[Computation]:
        """Topological order of the call graph, text order where that is possible."""
        order: list[Computation] = []
        state: dict[Computation, int] = {}  # 1: being visited, 2: done
        for start in self.computations.values():
            if start in state:
                continue
            state[start] = 1
            stack = [(start, iter(_callees(start)))]
            while stack:
                computation, callees = stack[-1]
                for callee in callees:
                    if state.get(callee) == 1:
                        self.cursor.fail(f"computation '{callee.name}' calls itself", position=0)
                    if callee not in state:
                        state[callee] = 1
                        stack.append((callee, iter(_callees(callee))))
                        break
                else:
                    state[computation] = 2
                    order.append(computation)
                    stack.pop()
        return order

    # -- computation -------------------------------------------------------------------------------

    def _computation(self, start: int) -> Computation:
        cursor = self.cursor
        name_at = cursor.position
        name = cursor.read_name("a computation name")
        if name in self.computations:
            cursor.fail(f"computation '{name}' already exists", name_at)
        result: Shape | None = None
        if cursor.at("("):
            cursor.skip_balanced()
            cursor.expect("->")
            result = cursor.read_shape()
        computation = self._body(name, start)
        root = computation.root
        if result is not None and root is not None and not root.shape.compatible(result):
            cursor.fail(
                f"the signature of '{name}' returns {result}, its root is {root.shape}", name_at
            )
        return computation

    def _body(self, name: str, start: int) -> Computation:
        """`{ instructions }` with what may follow it."""
        cursor = self.cursor
        if self.nesting > MAX_NESTING // 2:
            cursor.fail(f"computations are nested more than {MAX_NESTING // 2} deep")
        self.nesting += 1
        scope = _Scope(Computation(name))
        cursor.expect("{")
        while not cursor.accept("}"):
            if cursor.at_end():
                cursor.fail(f"the body of '{name}' is never closed", start)
            self._instruction(scope)
        self.nesting -= 1
        after = cursor.position
        if cursor.accept(","):
            cursor.skip_space()
            if cursor.text.startswith("execution_thread", cursor.position):
                cursor.read_name()
                cursor.expect("=")
                cursor.read_string()  # names of execution threads carry no meaning on one host
            else:
                cursor.position = after
        return self._close(scope, start)

    def _close(self, scope: _Scope, start: int) -> Computation:
        """Check what only the end of a computation shows, and register it."""
        computation = scope.computation
        if not scope.by_name:
            self.cursor.fail(f"computation '{computation.name}' has no instructions", start)
        for number in range(len(scope.parameter_numbers)):
            if number not in scope.parameter_numbers:
                self.cursor.fail(
                    f"computation '{computation.name}' lacks parameter({number})", start
                )
        for predecessor in scope.predecessors:
            if predecessor.name not in scope.by_name:
                self.cursor.fail(
                    f"instruction '{predecessor.name}' does not exist", predecessor.position
                )
        computation.set_root(scope.root or computation.instructions[-1])
        self.computations[computation.name] = computation
        return computation

    # -- instruction -------------------------------------------------------------------------------

    def _instruction(self, scope: _Scope) -> None:
        cursor = self.cursor
        cursor.skip_space()
        root = _ROOT.match(cursor.text, cursor.position)
        if root is not None:
            if scope.root is not None:
                cursor.fail("only one instruction may be marked ROOT")
            cursor.position = root.end()
            cursor.skip_space()
        start = cursor.position
        name = cursor.read_name("an instruction: name = shape opcode(operands)")
        if name in scope.by_name:
            cursor.fail(f"instruction '{name}' already exists in this computation", start)
        cursor.expect("=")
        node = self._instruction_body(scope, name)
        if root is not None:
            scope.root = node

    def _instruction_body(self, scope: _Scope, name: str, nested: int = 0) -> Instruction:
        """`shape opcode(operands), attributes`, from behind the `=`."""
        cursor = self.cursor
        shape: Shape | None = None
        cursor.skip_space()
        start = cursor.position
        if _OPCODE.match(cursor.text, cursor.position) is None:
            shape = cursor.read_shape()
        cursor.skip_space()
        opcode_at = cursor.position
        opcode = self._opcode(cursor.read(_OPCODE, "an opcode followed by '('")[0], opcode_at)
        attributes: Attributes | None = None
        operands: list[Instruction] = []
        if opcode is Opcode.PARAMETER:
            attributes = self._parameter_number(scope)
        elif opcode is Opcode.CONSTANT:
            if shape is None:
                cursor.fail("a constant needs its shape before the opcode", start)
            cursor.expect("(")
            attributes = ConstantAttributes(parse_literal(cursor, shape))
            cursor.expect(")")
        else:
            operands = self._operands(scope, nested)
            arity = opcode.info.arity
            if arity is not None and len(operands) != arity:
                cursor.fail(f"{opcode} takes {arity} operand(s), got {len(operands)}", opcode_at)
        attribute_reader = _AttributeReader(self, scope, opcode)
        if not nested:
            attribute_reader.read()
        own = attribute_reader.build(opcode_at)
        if attributes is None:
            attributes = own
        if shape is None:
            shape = self._inferred(opcode, operands, attributes, attribute_reader.called, opcode_at)
        node = Instruction(
            opcode,
            shape,
            operands,
            attributes,
            (),
            attribute_reader.metadata,
            name,
            attribute_reader.annotations or None,
        )
        scope.computation.add(node, name)
        scope.by_name[node.name] = node
        if isinstance(attributes, ParameterAttributes):
            scope.parameter_numbers[attributes.number] = node
        if attribute_reader.called:
            self.pending.append((node, attribute_reader.called))
        return node

    def _opcode(self, text: str, position: int) -> Opcode:
        opcode = BY_TEXT.get(text)
        if opcode is None:
            base, _, stage = text.rpartition("-")
            if stage in ("start", "update", "done") and base in BY_TEXT:
                self.cursor.fail(
                    f"'{text}': write async-{stage} with calls=a computation of one {base}",
                    position,
                )
            self.cursor.fail(f"unknown opcode '{text}'", position)
        return opcode

    def _parameter_number(self, scope: _Scope) -> ParameterAttributes:
        cursor = self.cursor
        cursor.expect("(")
        cursor.skip_space()
        start = cursor.position
        number = cursor.read_integer("a parameter number")
        if not 0 <= number < _MAX_PARAMETERS:
            cursor.fail(f"parameter number {number} is out of range", start)
        if number in scope.parameter_numbers:
            cursor.fail(f"parameter({number}) already exists in this computation", start)
        cursor.expect(")")
        return ParameterAttributes(number)

    def _inferred(
        self,
        opcode: Opcode,
        operands: list[Instruction],
        attributes: Attributes,
        called: list[_Reference | Computation],
        position: int,
    ) -> Shape:
        """Result shape where the text leaves it out."""
        callees = []
        for reference in called:
            callee = (
                reference
                if isinstance(reference, Computation)
                else self.computations.get(reference.name)
            )
            if callee is None:
                self.cursor.fail(
                    "the result shape is needed here: a called computation is defined later",
                    position,
                )
            callees.append(callee)
        try:
            return infer_shape(opcode, operands, attributes, callees)
        except ShapeInferenceError as error:
            self.cursor.fail(str(error), position)

    # -- operands ----------------------------------------------------------------------------------

    def _operands(self, scope: _Scope, nested: int) -> list[Instruction]:
        cursor = self.cursor
        simple = _SIMPLE_OPERANDS.match(cursor.text, cursor.position)
        if simple is not None and not scope.declares_operands:
            names = _OPERAND_NAME.findall(simple[0][1:-1])
            found = [scope.by_name.get(n) for n in names]
            if None not in found:
                cursor.position = simple.end()
                return found  # type: ignore[return-value]
        cursor.expect("(")
        operands: list[Instruction] = []
        if cursor.accept(")"):
            return operands
        while True:
            operands.append(self._operand(scope, nested))
            if cursor.accept(")"):
                return operands
            cursor.expect(",")

    def _operand(self, scope: _Scope, nested: int) -> Instruction:
        """`name`, `shape name`, or a nested instruction `[shape] opcode(operands)`."""
        cursor = self.cursor
        cursor.skip_space()
        start = cursor.position
        shape = cursor.read_shape() if cursor.at_shape() else None
        cursor.skip_space()
        if _OPCODE.match(cursor.text, cursor.position) is not None:
            if nested > MAX_NESTING:
                cursor.fail(f"instructions are nested more than {MAX_NESTING} deep")
            opcode = _OPCODE.match(cursor.text, cursor.position)
            assert opcode is not None
            cursor.position = start
            name = scope.computation.unique_name(f"{opcode[0]}.anon")
            return self._instruction_body(scope, name, nested + 1)
        name_at = cursor.position
        name = cursor.read_name("an operand: name, shape name, or opcode(...)")
        found = scope.by_name.get(name)
        if found is None and scope.declares_operands and shape is not None:
            attributes = ParameterAttributes(len(scope.parameter_numbers))
            found = scope.computation.add(
                Instruction(Opcode.PARAMETER, shape, (), attributes, name=name), name
            )
            scope.by_name[found.name] = found
            scope.parameter_numbers[attributes.number] = found
        if found is None:
            cursor.fail(f"instruction '{name}' does not exist above", name_at)
        if shape is not None and not shape.compatible(found.shape):
            cursor.fail(f"operand '{name}' has shape {found.shape}, not {shape}", name_at)
        return found

    def inline_computation(self) -> Computation:
        """A computation written where its name could stand."""
        name = "_"
        number = 0
        while name in self.computations:
            number += 1
            name = f"_.{number}"
        # Hold the name while the body is read: inline computations nest.
        self.computations[name] = Computation(name)
        body = self._body(name, self.cursor.position)
        del self.computations[name]  # registered again, after the ones inside it
        self.computations[name] = body
        return body


class _AttributeReader:
    """Reads `, name=value` until there are no more, sorted into the opcode's own and the common
    ones."""

    def __init__(self, parser: _Parser, scope: _Scope, opcode: Opcode) -> None:
        self.parser = parser
        self.cursor = parser.cursor
        self.scope = scope
        self.opcode = opcode
        self.codec: Codec = CODECS[opcode]
        self.values: dict[str, Any] = {}
        self.calls: dict[str, list[_Reference | Computation]] = {}
        self.called: list[_Reference | Computation] = []
        self.annotations: dict[str, str] = {}
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
            elif name in self.codec.raw:
                self.annotations[name] = cursor.read_value_text()
            elif name in COMMON:
                self._common(name)
            else:
                allowed = ", ".join([*self.codec.allowed(), *COMMON])
                cursor.fail(f"{self.opcode} has no attribute '{name}'; allowed: {allowed}", start)

    def _common(self, name: str) -> None:
        cursor = self.cursor
        if name == "metadata":
            self.metadata = read_metadata(cursor, self.parser.tables)
        elif name == "frontend_attributes":
            self.annotations[name] = read_frontend_attributes(cursor)
        elif name == "control-predecessors":
            self.annotations[name] = self._predecessors()
        elif name == "backend_config":
            self.backend_config = cursor.read_value_text()
        else:
            self.annotations[name] = cursor.read_value_text()

    def _predecessors(self) -> str:
        cursor = self.cursor
        cursor.expect("{")
        names = []
        while not cursor.accept("}"):
            cursor.skip_space()
            start = cursor.position
            name = cursor.read_name("an instruction name")
            self.scope.predecessors.append(_Reference(name, start))
            names.append(f"%{name}")
            if not cursor.accept(",") and not cursor.at("}"):
                cursor.fail("expected ',' or '}'")
        return "{" + ", ".join(names) + "}"

    def _callee(self) -> _Reference | Computation:
        cursor = self.cursor
        if cursor.at("{"):
            return self.parser.inline_computation()
        start = cursor.position
        return _Reference(cursor.read_name("a computation name"), start)

    def _callee_list(self) -> list[_Reference | Computation]:
        cursor = self.cursor
        cursor.expect("{")
        callees: list[_Reference | Computation] = []
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
            config = unescape(text[1:-1]) if text.startswith('"') else text
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


def _callees(computation: Computation) -> list[Computation]:
    return [callee for node in computation for callee in node.called]
