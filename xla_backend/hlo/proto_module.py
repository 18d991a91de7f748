"""Modules, computations and instructions as protobuf messages, both ways."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from xla_backend.hlo.async_text import EXECUTION_THREAD, start_of
from xla_backend.hlo.attribute_text import CODECS, CONDITIONAL_INDEXED, CONDITIONAL_PRED
from xla_backend.hlo.attributes import (
    Attributes,
    ConstantAttributes,
    CustomCallAttributes,
    ParameterAttributes,
    RawAttributes,
)
from xla_backend.hlo.instruction import MAIN_THREAD, Computation, Instruction
from xla_backend.hlo.module import HloModule, InputOutputAlias
from xla_backend.hlo.name_uniquer import NameUniquer
from xla_backend.hlo.opcode import BY_TEXT, Opcode
from xla_backend.hlo.printer import print_order
from xla_backend.hlo.proto_annotations import (
    annotations_from_message,
    frontend_from_message,
    frontend_to_message,
    raw_from_message,
    texts_to_message,
)
from xla_backend.hlo.proto_attributes import attributes_from_message, attributes_to_message
from xla_backend.hlo.proto_values import (
    metadata_from_message,
    metadata_to_message,
    shape_from_message,
    shape_to_message,
)
from xla_backend.hlo.proto_wire import Message, ProtoError
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.source_tables import (
    FileLocation,
    SourceTables,
    StackFrame,
)

_PREDECESSORS = "control-predecessors"
_MAX_PARAMETERS = 1 << 16
_LOCATION_FIELDS = (
    "file_name_id",
    "function_name_id",
    "line",
    "end_line",
    "column",
    "end_column",
)
_FRAME_FIELDS = ("file_location_id", "parent_frame_id")
_DONOR = re.compile(r"\((\d+), \{([\d,]*)\}\)")  # as the parser writes the attribute


# -- writing ---------------------------------------------------------------------------------------


def module_to_message(module: HloModule) -> Message:
    """An HloModuleProto: callees before callers, instructions numbered from 1."""
    entry = module.entry
    if entry is None or entry.root is None:
        raise ProtoError(f"module {module.name} has no entry computation")
    computations = _callees_first(module)
    writer = _Writer(computations)
    message: Message = {
        "name": module.name,
        "entry_computation_name": entry.name,
        "entry_computation_id": writer.computation_ids[entry],
        "computations": [writer.computation(c) for c in computations],
        "host_program_shape": _program_shape(module),
        "input_output_alias": {"entries": [_alias_to(a) for a in module.aliases]},
    }
    if module.is_scheduled:
        message["schedule"] = writer.schedule(computations)
    if "frontend_attributes" in module.attributes:
        text = module.attributes["frontend_attributes"]
        message["frontend_attributes"] = frontend_to_message(text)
    if "buffer_donor" in module.attributes:
        found = _DONOR.findall(module.attributes["buffer_donor"])
        message["buffer_donor"] = {
            "entries": [
                {"parameter_number": int(n), "parameter_shape_index": _numbers(index)}
                for n, index in found
            ]
        }
    if module.source_tables.frames:
        message["stack_frame_index"] = _tables_to(module.source_tables)
    return message


def _callees_first(module: HloModule) -> list[Computation]:
    """As the module has them, if callees come before callers."""
    seen: set[Computation] = set()
    for computation in module.computations:
        if any(callee not in seen for node in computation for callee in node.called):
            return module.post_order()
        seen.add(computation)
    return module.computations


def _program_shape(module: HloModule) -> Message:
    assert module.entry is not None
    parameters, result = module.entry_layout or module.entry.program_shape
    return {
        "parameters": [shape_to_message(p) for p in parameters],
        "result": shape_to_message(result),
        "parameter_names": [p.name for p in module.entry.parameters],
    }


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def _alias_to(alias: InputOutputAlias) -> Message:
    return {
        "output_shape_index": list(alias.output_index),
        "parameter_number": alias.parameter,
        "parameter_shape_index": list(alias.parameter_index),
        "kind": 2 if alias.must_alias else 1,
    }


def _tables_to(tables: SourceTables) -> Message:
    """Rows are numbered by their position, from 1."""

    def rows(table: Mapping[int, Any], missing: Any) -> list[Any]:
        return [table.get(n, missing) for n in range(1, max(table, default=0) + 1)]

    return {
        "file_names": rows(tables.files, ""),
        "function_names": rows(tables.functions, ""),
        "file_locations": rows(
            {n: dict(zip(_LOCATION_FIELDS, row)) for n, row in tables.locations.items()}, {}
        ),
        "stack_frames": rows(
            {n: dict(zip(_FRAME_FIELDS, row)) for n, row in tables.frames.items()}, {}
        ),
    }


class _Writer:
    """Numbers computations and instructions, then writes them."""

    def __init__(self, computations: list[Computation]) -> None:
        self.computation_ids = {c: n for n, c in enumerate(computations, 1)}
        self.orders = {
            c: c.instructions if c.module is not None and c.module.is_scheduled else print_order(c)
            for c in computations
        }
        nodes = [node for c in computations for node in self.orders[c]]
        self.ids = {node: n for n, node in enumerate(nodes, 1)}
        uniquer = NameUniquer()
        self.names = {node: uniquer.unique(node.name) for node in nodes}

    def computation(self, computation: Computation) -> Message:
        assert computation.root is not None
        parameters, result = computation.program_shape
        message: Message = {
            "name": computation.name,
            "instructions": [self.instruction(n) for n in self.orders[computation]],
            "program_shape": {
                "parameters": [shape_to_message(p) for p in parameters],
                "result": shape_to_message(result),
                "parameter_names": [self.names[p] for p in computation.parameters],
            },
            "id": self.computation_ids[computation],
            "root_id": self.ids[computation.root],
            "execution_thread": computation.execution_thread,
        }
        return message

    def schedule(self, computations: list[Computation]) -> Message:
        entries = [
            {
                "key": self.computation_ids[c],
                "value": {"instruction_ids": [self.ids[n] for n in self.orders[c]]},
            }
            for c in computations
        ]
        return {"sequences": entries}

    def instruction(self, node: Instruction) -> Message:
        opcode = node.opcode.value
        called = node.called[::-1] if node.opcode is Opcode.WHILE else node.called
        message: Message = {
            "name": self.names[node],
            "opcode": opcode,
            "shape": shape_to_message(node.shape),
            "id": self.ids[node],
            "operand_ids": [self.ids[o] for o in node.operands],
            "control_predecessor_ids": [self.ids[p] for p in node.control_predecessors],
            "called_computation_ids": [self.computation_ids[c] for c in called],
            "metadata": metadata_to_message(node.metadata),
            **attributes_to_message(node.attributes),
        }
        texts = dict(node.annotations or {})
        if isinstance(node.attributes, RawAttributes):
            texts.update(node.attributes.items)
        message.update(texts_to_message(opcode, texts))
        start = start_of(node)
        if start is not None:  # its updates and its end name the thread, too
            thread = dict(getattr(start.attributes, "items", ())).get(EXECUTION_THREAD)
            message["async_execution_thread"] = thread.strip('"') if thread else MAIN_THREAD
        return message


# -- reading ---------------------------------------------------------------------------------------


def module_from_message(message: Message) -> HloModule:
    """The module of an HloModuleProto.

    Raises:
      ProtoError: unknown opcodes, ids that name nothing, computations that call each other in a
      circle or have no root.
    """
    module = HloModule(message.get("name", ""))
    reader = _Reader(message)
    for found in message.get("computations", ()):
        computation = reader.computation(found)
        computation.module = module
        module.computations.append(computation)
    module.entry = reader.computations.get(message.get("entry_computation_id", 0))
    if module.entry is None:
        raise ProtoError(f"module {module.name} has no entry computation")
    reader.order(module, message.get("schedule"))
    _read_header(module, message)
    return module


def _read_header(module: HloModule, message: Message) -> None:
    aliases = message.get("input_output_alias", {}).get("entries", ())
    module.aliases = tuple(
        InputOutputAlias(
            tuple(a.get("output_shape_index", ())),
            a.get("parameter_number", 0),
            tuple(a.get("parameter_shape_index", ())),
            a.get("kind", 0) == 2,
        )
        for a in aliases
    )
    donors = message.get("buffer_donor", {}).get("entries", ())
    if donors:
        texts = [
            f"({d.get('parameter_number', 0)}, "
            f"{{{','.join(map(str, d.get('parameter_shape_index', ())))}}})"
            for d in donors
        ]
        module.attributes["buffer_donor"] = "{ " + ", ".join(texts) + " }"
    text = frontend_from_message(message.get("frontend_attributes", {}))
    if text:
        module.attributes["frontend_attributes"] = text
    if "host_program_shape" in message:
        shape = message["host_program_shape"]
        wanted = tuple(shape_from_message(p) for p in shape.get("parameters", ()))
        module.entry_layout = (wanted, shape_from_message(shape.get("result", {})))
    tables = message.get("stack_frame_index", {})
    module.source_tables = SourceTables(
        dict(enumerate(tables.get("file_names", ()), 1)),
        dict(enumerate(tables.get("function_names", ()), 1)),
        {n: FileLocation(*row) for n, row in _records(tables, "file_locations", _LOCATION_FIELDS)},
        {n: StackFrame(*row) for n, row in _records(tables, "stack_frames", _FRAME_FIELDS)},
    )
    _check_frames(module)


def _records(
    tables: Message, name: str, fields: tuple[str, ...]
) -> Iterator[tuple[int, list[int]]]:
    """The rows of a table that are there, with their numbers; what is left out is 0."""
    for number, row in enumerate(tables.get(name, ()), 1):
        if row:
            yield number, [row.get(field, 0) for field in fields]


def _check_frames(module: HloModule) -> None:
    """Numbers of stack frames are those of rows; without any rows they mean nothing, and go."""
    tables = module.source_tables
    problem = tables.problem()
    if problem is not None:
        raise ProtoError(f"stack_frame_index: {problem}")
    for computation in module.computations:
        for node in computation:
            number = node.metadata.stack_frame_id
            if not number or number in tables.frames:
                continue
            if tables.frames:
                raise ProtoError(f"stack frame {number} of {node.name} is not in stack_frame_index")
            node.metadata = node.metadata._replace(stack_frame_id=0)


class _Reader:
    """Builds computations in the order of the message: callees come before callers."""

    def __init__(self, message: Message) -> None:
        self.computations: dict[int, Computation] = {}
        self.nodes: dict[int, Instruction] = {}

    def computation(self, message: Message) -> Computation:
        name = message.get("name", "")
        computation = Computation(name)
        computation.execution_thread = message.get("execution_thread", "") or MAIN_THREAD
        for found in message.get("instructions", ()):
            try:
                self.instruction(computation, found)
            except ProtoError as error:
                where = f"instruction {found.get('name', '')} of computation {name}"
                raise ProtoError(f"{where}: {error}") from None
        root = self.nodes.get(message.get("root_id", 0))
        if root is None or root.parent is not computation:
            raise ProtoError(f"computation {name} has no root")
        computation.set_root(root)
        numbers = {p.parameter_number for p in computation.parameters}
        if numbers != set(range(len(computation.parameters))):
            raise ProtoError(f"computation {name} lacks parameters or numbers them twice")
        self.computations[message.get("id", 0)] = computation
        return computation

    def instruction(self, computation: Computation, message: Message) -> None:
        text = message.get("opcode", "")
        opcode = BY_TEXT.get(text)
        if opcode is None:
            raise ProtoError(f"unknown opcode '{text}'")
        operands = [self._node(n, computation) for n in message.get("operand_ids", ())]
        arity = opcode.arity
        if arity is not None and len(operands) != arity:
            raise ProtoError(f"{opcode} takes {arity} operand(s), got {len(operands)}")
        called = [self._callee(n) for n in message.get("called_computation_ids", ())]
        shape = shape_from_message(message.get("shape", {}))
        annotations = annotations_from_message(text, message)
        waits_for = message.get("control_predecessor_ids", ())
        if waits_for:
            annotations[_PREDECESSORS] = tuple(self._node(n, computation) for n in waits_for)
        attributes = _attributes(opcode, shape, operands, message)
        if isinstance(attributes, ParameterAttributes) and not (
            0 <= attributes.number < _MAX_PARAMETERS
        ):
            raise ProtoError(f"parameter number {attributes.number} is out of range")
        if isinstance(attributes, CustomCallAttributes):
            annotations.pop("backend_config", None)  # it is among the attributes
        node = Instruction(
            opcode,
            shape,
            operands,
            attributes,
            called[::-1] if opcode is Opcode.WHILE else called,
            metadata_from_message(message.get("metadata", {})),
            message.get("name", ""),
            annotations or None,
        )
        computation.add(node)
        self.nodes[message.get("id", 0)] = node

    def _node(self, number: int, computation: Computation) -> Instruction:
        node = self.nodes.get(number)
        if node is None or node.parent is not computation:
            raise ProtoError(f"instruction number {number} does not come before it")
        return node

    def _callee(self, number: int) -> Computation:
        found = self.computations.get(number)
        if found is None:
            raise ProtoError(f"computation number {number} does not come before its caller")
        return found

    def order(self, module: HloModule, schedule: Message | None) -> None:
        """Put the instructions in the order of the schedule."""
        if schedule is None:
            return
        module.is_scheduled = True
        for entry in schedule.get("sequences", ()):
            computation = self.computations.get(entry.get("key", 0))
            numbers = entry.get("value", {}).get("instruction_ids", ())
            if computation is None or len(set(numbers)) != len(computation):
                raise ProtoError("the schedule does not fit the computations")
            computation.reorder([self._node(n, computation) for n in numbers])


def _attributes(
    opcode: Opcode, shape: Shape, operands: list[Instruction], message: Message
) -> Attributes:
    if opcode is Opcode.PARAMETER:
        return attributes_from_message(ParameterAttributes, message)
    if opcode is Opcode.CONSTANT:
        return attributes_from_message(ConstantAttributes, message)
    if opcode is Opcode.CONDITIONAL:
        indexed = not operands or operands[0].shape.element_type.value != "pred"
        return CONDITIONAL_INDEXED if indexed else CONDITIONAL_PRED
    cls = CODECS[opcode].cls
    if cls is RawAttributes:
        return RawAttributes(tuple(raw_from_message(opcode.value, message).items()))
    return attributes_from_message(cls, message)
