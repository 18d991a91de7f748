"""HLO text of modules, computations and instructions.

Printing is done by functions, not methods: `instruction.py` and `module.py` lie below this file
(`str(module)` comes here, too). Everything printed with large constants parses back to an equal
module; without them constants of more than 10 elements are `{...}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from xla_backend.hlo.annotation_text import ANNOTATIONS, config_text
from xla_backend.hlo.async_text import (
    EXECUTION_THREAD,
    async_opcode_text,
    wrapped_operation,
)
from xla_backend.hlo.attribute_text import (
    CODECS,
    CONDITIONAL_FALSE,
    CONDITIONAL_LIST,
    CONDITIONAL_TRUE,
    attribute_texts,
)
from xla_backend.hlo.attributes import (
    ConditionalAttributes,
    ConstantAttributes,
    CustomCallAttributes,
    RawAttributes,
)
from xla_backend.hlo.instruction import MAIN_THREAD, Computation, Instruction
from xla_backend.hlo.literal_text import literal_text
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.op_metadata import metadata_text, tables_text
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parse_header import AFTER_LAYOUT, BEFORE_LAYOUT
from xla_backend.hlo.shape import Shape
from xla_backend.process.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """What the text shows.

    LONG is the default; SHORT is JAX's `as_text('hlo')`; CANONICAL has neutral names and repeats
    called computations where they are called, so equal graphs give equal text; FINGERPRINT leaves
    out the names of module and computations too.
    """

    percent: bool = True
    operand_shapes: bool = False
    index_comments: bool = True  # `/*index=5*/` in long lists of operands
    signature: bool = True
    layouts: bool = True
    metadata: bool = True
    backend_config: bool = True
    control_predecessors: bool = True
    large_constants: bool = True
    canonical_names: bool = False
    inline_called: bool = False
    computation_names: bool = True
    indent: int = 2


LONG = PrintOptions()
SHORT = PrintOptions(
    percent=False,
    index_comments=False,
    signature=False,
    metadata=False,
    control_predecessors=False,
)
CANONICAL = replace(
    SHORT,
    operand_shapes=True,
    backend_config=False,
    large_constants=False,
    canonical_names=True,
    inline_called=True,
)
FINGERPRINT = replace(CANONICAL, computation_names=False)
STYLES = {"long": LONG, "short": SHORT, "canonical": CANONICAL, "fingerprint": FINGERPRINT}


def module_to_text(
    module: HloModule,
    style: str | PrintOptions = LONG,
    *,
    large_constants: bool | None = None,
    metadata: bool | None = None,
) -> str:
    """The whole module.

    Args:
      style: PrintOptions, or one of "long", "short", "canonical", "fingerprint".
      large_constants: False writes constants of more than 10 elements as `{...}` (not to be parsed
      back).
      metadata: False leaves out where instructions come from.
    Raises:
      KeyError: no such style.
    """
    options = STYLES[style] if isinstance(style, str) else style
    if large_constants is not None:
        options = replace(options, large_constants=large_constants)
    if metadata is not None:
        options = replace(options, metadata=metadata)
    printer = _Printer(options)
    blocks = [printer.header(module)]
    tables = tables_text(module.source_tables) if options.metadata else ""
    if tables:
        blocks.append(tables + "\n")
    hidden = _wrapped_computations(module)
    for computation in _computation_order(module):
        if computation not in hidden:
            blocks.append(
                printer.computation(
                    computation, entry=computation is module.entry, scheduled=module.is_scheduled
                )
            )
    return "\n\n".join(blocks) + "\n\n"


def _computation_order(module: HloModule) -> list[Computation]:
    """As the module has them, but the entry behind all it calls."""
    computations, entry = module.computations, module.entry
    if entry is None or not computations or computations[-1] is entry:
        return computations
    after = computations[computations.index(entry) :] if entry in computations else [entry]
    if len(after) > 1 and not set(module.post_order()).intersection(after[1:]):
        return computations
    return [c for c in computations if c is not entry] + [entry]


def _wrapped_computations(module: HloModule) -> set[Computation]:
    """Computations that the text of asynchronous operations stands for."""
    wrapped: set[Computation] = set()
    others: set[Computation] = set()
    for computation in module.computations:
        for node in computation:
            if node.called:
                (wrapped if wrapped_operation(node) is not None else others).update(node.called)
    return wrapped - others


def computation_to_text(computation: Computation, style: str | PrintOptions = LONG) -> str:
    """One computation; those it calls are named, not printed."""
    options = STYLES[style] if isinstance(style, str) else style
    scheduled = computation.module is not None and computation.module.is_scheduled
    return _Printer(options).computation(computation, scheduled=scheduled)


def instruction_to_text(instruction: Instruction, style: str | PrintOptions = LONG) -> str:
    """One instruction, without indentation."""
    options = STYLES[style] if isinstance(style, str) else style
    return _Printer(options).instruction(instruction)


def print_order(computation: Computation) -> list[Instruction]:
    """Operands before users, starting from the instructions nobody uses, in insertion order.

    What an instruction must wait for comes before it, too.
    """
    order: list[Instruction] = []
    seen: set[Instruction] = set()
    for start in computation:
        if start.users or start in seen:
            continue
        stack: list[tuple[Instruction, int]] = [(start, 0)]
        seen.add(start)
        while stack:
            node, i = stack.pop()
            before = node.operands
            if node.annotations is not None:
                before = [*before, *node.control_predecessors]
            while i < len(before) and before[i] in seen:
                i += 1
            if i == len(before):
                order.append(node)
                continue
            seen.add(before[i])
            stack.append((node, i + 1))
            stack.append((before[i], 0))
    return order if len(order) == len(computation) else computation.post_order()


class _Printer:
    def __init__(self, options: PrintOptions) -> None:
        self.options = options
        self.sigil = "%" if options.percent else ""
        self.names: dict[Instruction, str] = {}

    # -- module ------------------------------------------------------------------------------------

    def header(self, module: HloModule) -> str:
        parts = [f"HloModule {module.name if self.options.computation_names else ''}"]
        if module.is_scheduled:
            parts.append("is_scheduled=true")
        if module.aliases:
            entries = []
            for a in module.aliases:
                kind = "must-alias" if a.must_alias else "may-alias"
                entries.append(
                    f"{_index(a.output_index)}: ({a.parameter}, {_index(a.parameter_index)}, "
                    f"{kind})"
                )
            parts.append("input_output_alias={ " + ", ".join(entries) + " }")
        other = dict(module.attributes)
        parts += [f"{n}={other.pop(n)}" for n in BEFORE_LAYOUT if n in other]
        if module.entry is not None and module.entry.root is not None:
            parameters, result = _entry_layout(module)
            parts.append(
                f"entry_computation_layout={{({self._shape_list(map(self.shape, parameters))})"
                f"->{self.shape(result)}}}"
            )
        parts += [f"{n}={other.pop(n)}" for n in AFTER_LAYOUT if n in other]
        if module.replica_count != 1:
            parts.append(f"replica_count={module.replica_count}")
        if module.num_partitions != 1:
            parts.append(f"num_partitions={module.num_partitions}")
        recovery = other.pop("origin_recovery_table", None)
        parts += [f"{name}={text}" for name, text in other.items()]
        if recovery is not None:
            parts.append(f"origin_recovery_table={recovery}\n")
        return ", ".join(parts)

    # -- computation -------------------------------------------------------------------------------

    def computation(
        self,
        computation: Computation,
        *,
        entry: bool = False,
        scheduled: bool = False,
        depth: int = 0,
    ) -> str:
        order = computation.instructions if scheduled else print_order(computation)
        if self.options.canonical_names:
            for i, node in enumerate(order):
                self.names[node] = f"tmp_{i}"
        head = "ENTRY " if entry else ""
        if depth == 0 and self.options.computation_names:
            head += f"{self.sigil}{computation.name} "
        if self.options.signature and computation.root is not None:
            parameters = ", ".join(f"{p.name}: {p.shape.to_text()}" for p in computation.parameters)
            head += f"({parameters}) -> {computation.root.shape.to_text()} "
        indent = " " * (self.options.indent * (depth + 1))
        lines = []
        for node in order:
            root = "ROOT " if node is computation.root else ""
            lines.append(f"{indent}{root}{self.instruction(node, depth)}")
        end = " " * (self.options.indent * depth) + "}"
        if computation.execution_thread != MAIN_THREAD:
            end += f', execution_thread="{computation.execution_thread}"'
        return "\n".join([head + "{", *lines, end])

    # -- instruction -------------------------------------------------------------------------------

    def shape(self, shape: Shape) -> str:
        return shape.to_text(layout=self.options.layouts)

    def name(self, node: Instruction) -> str:
        return self.sigil + self.names.get(node, node.name)

    def instruction(self, node: Instruction, depth: int = 0) -> str:
        wrapped = wrapped_operation(node)
        text = node.opcode.value
        if wrapped is not None:
            text = async_opcode_text(node.opcode, wrapped.opcode)
        parts = [f"{self.name(node)} = {self.shape(node.shape)} {text}({self._operands(node)})"]
        if wrapped is None:
            parts += self._own_attributes(node, depth)
        elif node.called:  # the start; what it does is said once
            assert isinstance(node.attributes, RawAttributes)
            thread = node.attributes.get(EXECUTION_THREAD)
            if thread:
                parts.append(f"{EXECUTION_THREAD}={thread}")
            parts += self._own_attributes(wrapped, depth)
        parts += self._annotations(node)
        if self.options.metadata:
            metadata = metadata_text(node.metadata)
            if metadata:
                parts.append(f"metadata={{{metadata}}}")
        if self.options.backend_config:
            described = wrapped if wrapped is not None and node.called else node
            config = _backend_config(described) or _backend_config(node)
            if config:
                parts.append(f"backend_config={config}")
        return ", ".join(parts)

    def _operands(self, node: Instruction) -> str:
        if node.opcode is Opcode.PARAMETER:
            return str(node.parameter_number)
        if isinstance(node.attributes, ConstantAttributes):
            return literal_text(
                node.attributes.literal, large_constants=self.options.large_constants
            )
        if self.options.operand_shapes:
            texts = [f"{self.shape(o.shape)} {self.name(o)}" for o in node.operands]
        else:
            texts = [self.name(o) for o in node.operands]
        return self._shape_list(texts) if self.options.index_comments else ", ".join(texts)

    @staticmethod
    def _shape_list(texts: Iterable[str]) -> str:
        """Joined by commas, with `/*index=5*/` before every fifth but the first."""
        parts = list(texts)
        for i in range(5, len(parts), 5):
            parts[i] = f"/*index={i}*/{parts[i]}"
        return ", ".join(parts)

    def _callee(self, computation: Computation, depth: int) -> str:
        if self.options.inline_called:
            return self._inlined(computation, depth)
        return self.sigil + computation.name

    def _inlined(self, computation: Computation, depth: int) -> str:
        names, self.names = self.names, {}  # the numbers start anew inside
        body = self.computation(computation, depth=depth + 1)
        self.names = names
        return "\n" + " " * (self.options.indent * (depth + 1)) + body

    def _calls(self, node: Instruction, depth: int) -> list[str]:
        if not node.called:
            return []
        callees = [self._callee(c, depth) for c in node.called]
        if isinstance(node.attributes, ConditionalAttributes):
            if not node.attributes.is_indexed and len(callees) == 2:
                return [f"{CONDITIONAL_TRUE}={callees[0]}", f"{CONDITIONAL_FALSE}={callees[1]}"]
            return [f"{CONDITIONAL_LIST}={{{', '.join(callees)}}}"]
        codec = CODECS[node.opcode]
        if codec.call_list:
            return [f"{codec.call_list}={{{', '.join(callees)}}}"]
        return [f"{name}={callee}" for name, callee in zip(codec.calls, callees)]

    def _own_attributes(self, node: Instruction, depth: int) -> list[str]:
        annotations = node.annotations or {}
        codec = CODECS[node.opcode]
        own = attribute_texts(node.opcode, node.attributes)
        raw = [f"{name}={annotations[name]}" for name in codec.raw if name in annotations]
        calls = self._calls(node, depth)
        if node.opcode is Opcode.CUSTOM_CALL:
            # Window and labels come first, called computations after has_side_effect.
            late = ("output_to_operand_aliasing=", "schedule=", "api_version=")
            first = [t for t in own if not t.startswith(late)]
            return raw + first + calls + [t for t in own if t.startswith(late)]
        return calls + own if node.opcode is Opcode.CALL else own + raw + calls

    def _annotations(self, node: Instruction) -> list[str]:
        annotations = node.annotations
        if annotations is None:
            return []
        parts = []
        for name in _ANNOTATION_ORDER:
            if name not in annotations:
                continue
            if name != _PREDECESSORS:
                parts.append(f"{name}={annotations[name]}")
            elif self.options.control_predecessors and node.control_predecessors:
                names = ", ".join(map(self.name, node.control_predecessors))
                parts.append(f"{_PREDECESSORS}={{{names}}}")
        return parts


_PREDECESSORS = "control-predecessors"
_ANNOTATION_ORDER = [*ANNOTATIONS]
_ANNOTATION_ORDER.insert(_ANNOTATION_ORDER.index("frontend_attributes") + 1, _PREDECESSORS)


def _backend_config(node: Instruction) -> str:
    if isinstance(node.attributes, CustomCallAttributes):
        return config_text(node.attributes.backend_config)
    return (node.annotations or {}).get("backend_config", "")


def _entry_layout(module: HloModule) -> tuple[Sequence[Shape], Shape]:
    """Shapes of the entry with the layouts its caller wants, where they still fit."""
    assert module.entry is not None
    parameters, result = module.entry.program_shape
    if module.entry_layout is None:
        return parameters, result
    wanted, wanted_result = module.entry_layout
    fits = len(wanted) == len(parameters) and wanted_result.compatible(result)
    if fits and all(a.compatible(b) for a, b in zip(wanted, parameters)):
        return wanted, wanted_result
    return parameters, result


def _index(index: Sequence[int]) -> str:
    return "{" + ",".join(map(str, index)) + "}"
