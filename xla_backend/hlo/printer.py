"""HLO text of modules, computations and instructions.

Printing is done by functions, not methods: `instruction.py` and `module.py` lie below this file.
Use
`module_to_text(module)` where `str(module)` would be tempting. Everything printed with large
constants parses back to an equal module; without them constants of more than 10 elements are
`{...}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from xla_backend.hlo.attribute_text import (
    CODECS,
    COMMON_BEFORE_METADATA,
    CONDITIONAL_FALSE,
    CONDITIONAL_LIST,
    CONDITIONAL_TRUE,
    attribute_texts,
)
from xla_backend.hlo.attributes import (
    ConditionalAttributes,
    ConstantAttributes,
    CustomCallAttributes,
)
from xla_backend.hlo.computation import Computation
from xla_backend.hlo.instruction import Instruction, OpMetadata
from xla_backend.hlo.literal_text import literal_text
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.text_cursor import quote


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """What the text shows. LONG is the default; SHORT is JAX's `as_text('hlo')`; CANONICAL has
    neutral names and inlines called computations, so equal graphs give equal text; FINGERPRINT
    leaves out all names but parameters' positions and all metadata."""

    percent: bool = True
    operand_shapes: bool = False
    signature: bool = True
    layouts: bool = True
    metadata: bool = True
    backend_config: bool = True
    large_constants: bool = True
    canonical_names: bool = False
    inline_called: bool = False
    indent: int = 2


LONG = PrintOptions()
SHORT = PrintOptions(percent=False, signature=False)
CANONICAL = PrintOptions(
    operand_shapes=True, metadata=False, canonical_names=True, inline_called=True, signature=False
)
FINGERPRINT = replace(CANONICAL, backend_config=False, layouts=False)
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
    if options.inline_called:
        computations = [module.entry] if module.entry is not None else []
    else:
        computations = [c for c in module.computations if c is not module.entry]
        computations += [module.entry] if module.entry is not None else []
    for computation in computations:
        blocks.append(
            printer.computation(
                computation, entry=computation is module.entry, scheduled=module.is_scheduled
            )
        )
    return "\n\n".join(blocks) + "\n\n"


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
    """Operands before users, starting from the instructions nobody uses, in insertion order."""
    order: list[Instruction] = []
    seen: set[Instruction] = set()
    for start in computation:
        if start.users or start in seen:
            continue
        stack: list[tuple[Instruction, int]] = [(start, 0)]
        seen.add(start)
        while stack:
            node, i = stack.pop()
            operands = node.operands
            while i < len(operands) and operands[i] in seen:
                i += 1
            if i == len(operands):
                order.append(node)
                continue
            seen.add(operands[i])
            stack.append((node, i + 1))
            stack.append((operands[i], 0))
    return order if len(order) == len(computation) else computation.post_order()


class _Printer:
    def __init__(self, options: PrintOptions) -> None:
        self.options = options
        self.sigil = "%" if options.percent else ""
        self.names: dict[Instruction, str] = {}

    # -- module ------------------------------------------------------------------------------------

    def header(self, module: HloModule) -> str:
        parts = [f"HloModule {module.name}"]
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
        for name in ("buffer_donor", "alias_passthrough_params"):
            if name in other:
                parts.append(f"{name}={other.pop(name)}")
        if module.entry is not None and module.entry.root is not None:
            parameters, root = module.entry.program_shape
            parts.append(
                f"entry_computation_layout={{({self._listed(map(self.shape, parameters))})"
                f"->{self.shape(root)}}}"
            )
        for name in (
            "allow_spmd_sharding_propagation_to_parameters",
            "allow_spmd_sharding_propagation_to_output",
        ):
            if name in other:
                parts.append(f"{name}={other.pop(name)}")
        if module.replica_count != 1:
            parts.append(f"replica_count={module.replica_count}")
        if module.num_partitions != 1:
            parts.append(f"num_partitions={module.num_partitions}")
        parts += [f"{name}={text}" for name, text in other.items()]
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
        if depth == 0:
            head += f"{self.sigil}{computation.name} "
        if self.options.signature and computation.root is not None:
            parameters = self._listed(
                f"{p.name}: {p.shape.to_text()}" for p in computation.parameters
            )
            head += f"({parameters}) -> {computation.root.shape.to_text()} "
        indent = " " * (self.options.indent * (depth + 1))
        lines = []
        for node in order:
            root = "ROOT " if node is computation.root else ""
            lines.append(f"{indent}{root}{self.instruction(node, depth)}")
        return "\n".join([head + "{", *lines, " " * (self.options.indent * depth) + "}"])

    # -- instruction -------------------------------------------------------------------------------

    def shape(self, shape: Shape) -> str:
        return shape.to_text(layout=self.options.layouts)

    def name(self, node: Instruction) -> str:
        return self.sigil + self.names.get(node, node.name)

    def instruction(self, node: Instruction, depth: int = 0) -> str:
        parts = [
            f"{self.name(node)} = {self.shape(node.shape)} "
            f"{node.opcode.value}({self._operands(node)})"
        ]
        parts += self._attributes(node, depth)
        return ", ".join(parts)

    def _operands(self, node: Instruction) -> str:
        if node.opcode is Opcode.PARAMETER:
            return str(node.parameter_number)
        if isinstance(node.attributes, ConstantAttributes):
            return literal_text(
                node.attributes.literal, large_constants=self.options.large_constants
            )
        if self.options.operand_shapes:
            return self._listed(f"{self.shape(o.shape)} {self.name(o)}" for o in node.operands)
        return self._listed(map(self.name, node.operands))

    @staticmethod
    def _listed(texts: Iterable[str]) -> str:
        """Joined by commas, with `/*index=5*/` before every fifth but the first."""
        parts = list(texts)
        for i in range(5, len(parts), 5):
            parts[i] = f"/*index={i}*/{parts[i]}"
        return ", ".join(parts)

    def _callee(self, computation: Computation, depth: int) -> str:
        if self.options.inline_called:
            return self.computation(computation, depth=depth + 1)
        return self.sigil + computation.name

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

    def _predecessors(self, node: Instruction, text: str) -> str:
        """The names in `{%a, %b}` as this style writes them."""
        if not self.options.canonical_names or node.parent is None:
            return text if self.options.percent else text.replace("%", "")
        by_name = {n.name: n for n in node.parent}
        names = [name.strip().lstrip("%") for name in text[1:-1].split(",")]
        return "{" + ", ".join(self.name(by_name[n]) if n in by_name else n for n in names) + "}"

    def _attributes(self, node: Instruction, depth: int) -> list[str]:
        annotations = node.annotations or {}
        codec = CODECS[node.opcode]
        own = attribute_texts(node.opcode, node.attributes)
        raw = [f"{name}={annotations[name]}" for name in codec.raw if name in annotations]
        calls = self._calls(node, depth)
        if node.opcode is Opcode.CUSTOM_CALL:
            # Window and labels come first, called computations after has_side_effect.
            late = ("output_to_operand_aliasing=", "schedule=", "api_version=")
            first = [t for t in own if not t.startswith(late)]
            parts = raw + first + calls + [t for t in own if t.startswith(late)]
        elif node.opcode is Opcode.CALL:
            parts = calls + own
        else:
            parts = own + raw + calls
        for name in COMMON_BEFORE_METADATA:
            if name in annotations:
                text = annotations[name]
                if name == "control-predecessors":
                    text = self._predecessors(node, text)
                parts.append(f"{name}={text}")
        if self.options.metadata:
            text = metadata_text(node.metadata)
            if text:
                parts.append(f"metadata={{{text}}}")
        # A custom call's configuration is part of what it computes.
        if self.options.backend_config or node.opcode is Opcode.CUSTOM_CALL:
            parts += _backend_config(node, annotations.get("backend_config", ""))
        return parts


def _backend_config(node: Instruction, text: str) -> list[str]:
    if isinstance(node.attributes, CustomCallAttributes):
        config = node.attributes.backend_config
        if not config:
            return []
        braced = config.startswith("{") and config.endswith("}")
        text = config if braced else quote(config)
    return [f"backend_config={text}"] if text else []


_METADATA_FIELDS = (
    ("op_type", True),
    ("op_name", True),
    ("source_file", True),
    ("source_line", False),
    ("source_end_line", False),
    ("source_column", False),
    ("source_end_column", False),
    ("deduplicated_name", True),
    ("scheduling_name", True),
)


def metadata_text(metadata: OpMetadata) -> str:
    """The fields that are set, blank separated."""
    parts = []
    for name, is_string in _METADATA_FIELDS:
        value = getattr(metadata, name)
        if value:
            parts.append(f"{name}={quote(value) if is_string else value}")
    return " ".join(parts)


def _index(index: Sequence[int]) -> str:
    return "{" + ",".join(map(str, index)) + "}"
