"""Parser of HLO text: hand-written recursive descent over a Cursor.

Reads what XLA prints: long, short and canonical style, optimised and unoptimised. Computations may
be named before they are defined, operand shapes, `%` and signatures are optional, a result shape
may be left out where operands imply it. The parser does not check that shapes fit together; that
is the verifier's work. Names are made unique in the module, as XLA does on load.

Malformed text raises ParseError, never anything else.
"""

from __future__ import annotations

import re
from collections.abc import Container

from xla_backend.hlo.async_text import (
    EXECUTION_THREAD,
    is_start_shape,
    split_async,
    start_attributes,
    start_of,
    wrap_operation,
)
from xla_backend.hlo.attributes import Attributes, ConstantAttributes, ParameterAttributes
from xla_backend.hlo.errors import ShapeInferenceError
from xla_backend.hlo.instruction import MAIN_THREAD, Computation, Instruction
from xla_backend.hlo.literal_text import parse_literal
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.name_uniquer import NameUniquer
from xla_backend.hlo.op_metadata import read_tables
from xla_backend.hlo.opcode import BY_TEXT, Opcode
from xla_backend.hlo.parse_attributes import AttributeReader, Reference
from xla_backend.hlo.parse_header import apply_header_attribute
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_inference import infer_shape
from xla_backend.hlo.text_cursor import MAX_NESTING, Cursor
from xla_backend.process.light_dataclasses import dataclass, field

_SIMPLE_OPERANDS = re.compile(
    r"\(\s*(?:%?[A-Za-z_][\w.\-]*(?:\s*,\s*(?:/\*index=\d+\*/\s*)?%?[A-Za-z_][\w.\-]*)*)?\s*\)",
    re.ASCII,
)
_OPERAND_NAME = re.compile(r"(?:/\*[^*]*\*/)?\s*%?([A-Za-z_][\w.\-]*)", re.ASCII)
_COMPUTATION_START = re.compile(r"%?[\w.\-]+\s*[({]", re.ASCII)
_OPCODE = re.compile(r"(?!b\()[a-z][a-z0-9\-]*(?=\()")
_ROOT = re.compile(r"ROOT(?=\s)")
_ENTRY = re.compile(r"ENTRY(?=\s)")
_MAX_PARAMETERS = 1 << 16


@dataclass(slots=True)
class _Scope:
    """A computation under construction."""

    computation: Computation
    by_name: dict[str, Instruction] = field(default_factory=dict)
    parameter_numbers: dict[int, Instruction] = field(default_factory=dict)
    # Instructions that wait for others, with the names of those.
    waiting: list[tuple[Instruction, list[Reference]]] = field(default_factory=list)
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
        self.pending: dict[Instruction, list[Reference | Computation]] = {}
        self.wrapped: list[Computation] = []  # of asynchronous operations, without a name yet
        self.names = NameUniquer()
        self.nesting = 0
        self.frames: Container[int] | None = None  # numbers of those that the text has

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
            module.source_tables = read_tables(cursor)
            self.frames = module.source_tables.frames or None
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
            or _COMPUTATION_START.match(cursor.text, cursor.position) is not None
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
        for node, references in self.pending.items():
            node.called = [self._resolve(r) for r in references]
        module.entry = entry
        for computation in self.wrapped:
            computation.name = _unused(computation.name, self.computations)
            computation.rename(self.names.unique)
            self.computations[computation.name] = computation
        order = self._callees_first()
        for computation in order:
            computation.module = module
        module.computations = order

    def _resolve(self, reference: Reference | Computation) -> Computation:
        if isinstance(reference, Computation):
            return reference
        found = self.computations.get(reference.name)
        if found is None:
            self.cursor.fail(
                f"computation '{reference.name}' does not exist", position=reference.position
            )
        return found

    def _callees_first(self) -> list[Computation]:
        """Callees before callers, from the computations nobody calls, in the order of the text.

        The callees of one instruction come in the order they are called; one that is called twice
        by it comes where it is called last. XLA prints them so.
        """
        callees = {c: _distinct_callees(c) for c in self.computations.values()}
        called = {callee for found in callees.values() for callee in found}
        starts = [c for c in callees if c not in called]
        order: list[Computation] = []
        state: dict[Computation, int] = {}  # 1: being visited, 2: done
        for start in [*starts, *callees]:  # a computation in a cycle has a caller
            if start in state:
                continue
            state[start] = 1
            stack = [(start, iter(callees[start]))]
            while stack:
                computation, remaining = stack[-1]
                for callee in remaining:
                    if state.get(callee) == 1:
                        self.cursor.fail(f"computation '{callee.name}' calls itself", position=0)
                    if callee not in state:
                        state[callee] = 1
                        stack.append((callee, iter(callees[callee])))
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
                scope.computation.execution_thread = cursor.read_string() or MAIN_THREAD
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
        for node, references in scope.waiting:
            assert node.annotations is not None
            node.annotations["control-predecessors"] = tuple(
                dict.fromkeys(self._instruction_named(scope, r) for r in references)
            )
        computation.rename(self.names.unique)
        computation.set_root(scope.root or computation.instructions[-1])
        self.computations[computation.name] = computation
        return computation

    def _instruction_named(self, scope: _Scope, reference: Reference) -> Instruction:
        found = scope.by_name.get(reference.name)
        if found is None:
            self.cursor.fail(f"instruction '{reference.name}' does not exist", reference.position)
        return found

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
        opcode, wrapped = self._opcode(cursor.read(_OPCODE, "an opcode followed by '('")[0])
        attributes: Attributes | None = None
        operands: list[Instruction] = []
        if opcode is Opcode.PARAMETER:
            attributes = self._parameter_number(scope)
        elif opcode is Opcode.CONSTANT:
            if shape is None:
                cursor.fail("a constant needs its shape before the opcode", start)
            cursor.expect("(")
            literal = parse_literal(cursor, shape)
            attributes = ConstantAttributes(literal)
            shape = literal.shape
            cursor.expect(")")
        else:
            operands = self._operands(scope, nested)
        described = opcode  # whose attributes the text gives
        if wrapped is not None and opcode is Opcode.ASYNC_START:
            described = wrapped
        self._check_arity(described, operands, opcode_at)
        more = (EXECUTION_THREAD,) if described is not opcode else ()
        reader = AttributeReader(cursor, self, described, more)
        if not nested:
            reader.read()
        own = reader.build(opcode_at)
        if attributes is None:
            attributes = own
        if described is not opcode:
            attributes = self._wrap(described, shape, operands, reader, attributes, opcode_at)
        if shape is None:
            shape = self._inferred(opcode, operands, attributes, reader.called, opcode_at)
        metadata = reader.metadata
        node = Instruction(
            opcode,
            shape,
            operands,
            attributes,
            (),
            metadata,
            name,
            reader.annotations or None,
        )
        scope.computation.add(node, name)
        scope.by_name[node.name] = node
        if isinstance(attributes, ParameterAttributes):
            scope.parameter_numbers[attributes.number] = node
        if reader.predecessors:
            node.annotations = reader.annotations
            scope.waiting.append((node, reader.predecessors))
        if reader.called:
            self.pending[node] = reader.called
        if wrapped is not None and described is opcode:
            self._check_chain(node, wrapped, opcode_at)
        return node

    def _check_arity(self, opcode: Opcode, operands: list[Instruction], position: int) -> None:
        arity = opcode.arity
        if arity is not None and len(operands) != arity:
            self.cursor.fail(f"{opcode} takes {arity} operand(s), got {len(operands)}", position)

    def _opcode(self, text: str) -> tuple[Opcode, Opcode | None]:
        """The opcode, and for `negate-start` and its like the operation that is started."""
        opcode = BY_TEXT.get(text)
        if opcode is not None:
            return opcode, None
        found = split_async(text)
        if found is None:
            self.cursor.fail(f"unknown opcode '{text}'", self.cursor.position - len(text))
        return found

    def _wrap(
        self,
        opcode: Opcode,
        shape: Shape | None,
        operands: list[Instruction],
        reader: AttributeReader,
        attributes: Attributes,
        position: int,
    ) -> Attributes:
        """Move what was read of an `<opcode>-start` into a computation that the start calls."""
        if shape is None or not is_start_shape(shape, len(operands)):
            self.cursor.fail(
                f"{opcode}-start has a shape of the form ((operands), result, state)", position
            )
        thread = reader.annotations.pop(EXECUTION_THREAD, None)
        computation = wrap_operation(opcode, shape.tuple_shapes[1], operands, attributes)
        if thread is not None:
            computation.execution_thread = thread[1:-1]
        if reader.called:
            assert computation.root is not None
            self.pending[computation.root] = reader.called
        reader.called = [computation]
        self.wrapped.append(computation)
        return start_attributes(thread)

    def _check_chain(self, node: Instruction, opcode: Opcode, position: int) -> None:
        """`negate-done` must finish a negate."""
        start = start_of(node)
        called = self.pending.get(start, []) if start is not None else []
        if len(called) != 1:
            self.cursor.fail("its operand is no asynchronous operation", position)
        computation = called[0]
        if isinstance(computation, Reference):
            computation = self._resolve(computation)
        if computation.root is None or computation.root.opcode is not opcode:
            self.cursor.fail(f"its operand does not start an operation {opcode}", position)

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
        called: list[Reference | Computation],
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
        name = _unused("_", self.computations)
        # Hold the name while the body is read: inline computations nest.
        self.computations[name] = Computation(name)
        body = self._body(name, self.cursor.position)
        del self.computations[name]  # registered again, after the ones inside it
        self.computations[name] = body
        return body


def _distinct_callees(computation: Computation) -> list[Computation]:
    callees: list[Computation] = []
    for node in computation:
        if len(node.called) == 1:
            callees += node.called
        elif node.called:
            # XLA keeps the body of a while before its condition.
            in_order = node.called[::-1] if node.opcode is Opcode.WHILE else node.called
            callees += reversed(dict.fromkeys(reversed(in_order)))
    return callees


def _unused(base: str, names: Container[str]) -> str:
    """`base`, or `base.N` with the lowest N that is no name yet."""
    name = base
    number = 0
    while name in names:
        number += 1
        name = f"{base}.{number}"
    return name
