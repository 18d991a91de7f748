"""Everything that a module computes, as a digest: without names, and without source locations
unless asked for. Equal in every process, for modules whose instructions stand in the same order.

The text of the style "fingerprint" says the same, for people; it is several times slower, writes
constants in decimal, and trusts any string.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from xla_backend.hlo.attributes import NO_ATTRIBUTES, CustomCallAttributes, Value
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape

# Their configuration is an address in this process.
_CUSTOM_PARTITIONING = frozenset({"CustomSPMDPartitioning"})
# Messages at run time name these instructions.
_NAMED = frozenset(
    {Opcode.INFEED, Opcode.OUTFEED, Opcode.SEND, Opcode.RECV, Opcode.SEND_DONE, Opcode.RECV_DONE}
)
_NO_TEXT = f"{type(NO_ATTRIBUTES).__name__}()"
_PLAIN = (int, str, float, bool, type(None))


class OnlyHere(Exception):
    """The module holds an object that means something in this process only, such as a Python
    function that it calls."""


def module_fingerprint(
    module: HloModule,
    *,
    metadata: bool = False,
    pointers: bool = True,
    objects: list[Hashable] | None = None,
) -> str:
    """Digest of a module.

    Args:
      metadata: source locations and operation names count, too.
      pointers: addresses in calls of custom partitioning count.
      objects: gets the objects that mean something in this process only. With a list, modules are
        equal here if digests and lists are.
    Raises:
      OnlyHere: no other process can have the same module, and no list was given.
    """
    return _Fingerprint(metadata, pointers, objects).of(module)


class _Fingerprint:
    def __init__(self, metadata: bool, pointers: bool, objects: list[Hashable] | None) -> None:
        self.metadata = metadata
        self.pointers = pointers
        self.objects = objects
        self.shapes: dict[Shape, str] = {}
        self.computations: dict[Computation, int] = {}

    def of(self, module: HloModule) -> str:
        parts = [
            self.text(
                (
                    module.is_scheduled,
                    tuple((a.output_index, a.parameter) for a in module.aliases),
                    tuple((a.parameter_index, a.must_alias) for a in module.aliases),
                    module.replica_count,
                    module.num_partitions,
                    module.entry_layout,
                    module.attributes,
                )
            )
        ]
        if self.metadata:
            parts.append(repr(module.source_tables))
        for number, computation in enumerate(module.post_order()):
            self.computations[computation] = number
            parts += self.computation(computation)
        return hashlib.sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()

    def computation(self, computation: Computation) -> list[str]:
        numbers = {node: number for number, node in enumerate(computation)}
        lines = [self.instruction(node, numbers) for node in numbers]
        root = numbers[computation.root] if computation.root is not None else -1
        return [f"{{ {computation.execution_thread}", *lines, f"}} {root}"]

    def instruction(self, node: Instruction, numbers: Mapping[Instruction, int]) -> str:
        operands = ",".join([str(numbers[o]) for o in node.operands])
        shape = self.shapes.get(node.shape) or self.shape(node.shape)
        parts = [node.opcode._value_, shape, operands, self.attributes(node)]
        if node.called:
            parts.append(",".join([str(self.computations[c]) for c in node.called]))
        if node.annotations:
            parts.append(self.annotations(node, numbers))
        if node.opcode in _NAMED:
            parts.append(node.name)
        if self.metadata:
            parts.append(repr(node.metadata))
        return "|".join(parts)

    def attributes(self, node: Instruction) -> str:
        attributes = node.attributes
        if attributes is NO_ATTRIBUTES:  # most have these
            return _NO_TEXT
        if (
            not self.pointers
            and isinstance(attributes, CustomCallAttributes)
            and attributes.target in _CUSTOM_PARTITIONING
        ):
            values = {n: attributes.__dict__[n] for n in attributes._fields}
            return self.text({**values, "backend_config": None})
        return self.text(attributes)

    def annotations(self, node: Instruction, numbers: Mapping[Instruction, int]) -> str:
        assert node.annotations is not None
        texts = dict(node.annotations)
        if "control-predecessors" in texts:
            before = node.control_predecessors
            texts["control-predecessors"] = tuple(numbers[p] for p in before)
        return self.text(texts)

    def shape(self, shape: Shape) -> str:
        known = self.shapes.get(shape)
        if known is None:
            known = self.shapes[shape] = shape.to_text(layout=True)
        return known

    def text(self, value: Any) -> str:
        """A value as text that says its types, too."""
        kind = type(value)
        if kind in _PLAIN:
            return repr(value)
        if kind is tuple or kind is list:
            if all(type(v) is int for v in value):
                return repr(value)
            return f"{kind.__name__}({','.join([self.text(v) for v in value])})"
        if isinstance(value, Value):
            fields = value.__dict__
            return f"{kind.__name__}({','.join([self.text(fields[n]) for n in value._fields])})"
        if isinstance(value, Literal):
            return self.literal(value)
        if isinstance(value, Shape):
            return self.shape(value)
        if isinstance(value, enum.Enum):
            return f"{kind.__name__}.{value.name}"
        if isinstance(value, Mapping):
            items = [f"{self.text(k)}:{self.text(v)}" for k, v in value.items()]
            return f"{{{','.join(sorted(items))}}}"
        if isinstance(value, frozenset | set):
            return f"{{{','.join(sorted([self.text(v) for v in value]))}}}"
        if isinstance(value, np.ndarray | np.generic):
            return f"{value.dtype}{value.shape}{_bytes_text(value)}"
        name = f"{kind.__module__}.{kind.__qualname__}"
        if self.objects is None:
            raise OnlyHere(name)
        self.objects.append(value)
        return f"{name} {len(self.objects)}"

    def literal(self, literal: Literal) -> str:
        leaves = [f"{self.shape(a.shape)}{_bytes_text(a.array)}" for a in literal.leaves()]
        return f"Literal({','.join(leaves)})"


def _bytes_text(array: Any) -> str:
    data = array.tobytes()
    return data.hex() if len(data) <= 64 else hashlib.sha256(data).hexdigest()
