"""What is done once, though all devices run the program: calls with side effects and random numbers
of a device's own. The first device does it, and the others get its results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xla_backend.hlo.attributes import ComparisonDirection, ConditionalAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.emit import Emit
from xla_backend.spmd.exchange import PartBuilder

Make = Callable[[Emit, Sequence[Instruction]], list[Instruction]]


def done_once(
    b: PartBuilder, module: HloModule, name: str, operands: Sequence[Instruction], make: Make
) -> list[Instruction]:
    """The leaves of what `make` adds, on every device.

    Args:
      operands: which all devices have alike.
      make: adds the operation to a computation, for operands there; arrays.
    """
    given = b.tuple(operands)
    done = Computation(f"{name}_once")
    inside = Emit.into(done, b.metadata)
    parameter = inside.parameter(0, given.shape, "operands")
    leaves = make(inside, [inside.gte(parameter, k) for k in range(len(operands))])
    shapes = [leaf.shape for leaf in leaves]
    done.set_root(inside.tuple(leaves))
    left_out = Computation(f"{name}_elsewhere")
    outside = Emit.into(left_out, b.metadata)
    outside.parameter(0, given.shape, "operands")
    left_out.set_root(outside.tuple([outside.splat(shape, 0) for shape in shapes]))
    called = [module.add_computation(c) for c in (done, left_out)]
    chosen = b.add(
        Opcode.CONDITIONAL,
        (_is_first(b), given, given),
        ConditionalAttributes(False),
        called,
        Shape.tuple(shapes),
    )
    return list(_from_first(b, chosen))


def _is_first(b: PartBuilder) -> Instruction:
    device = b.add(Opcode.PARTITION_ID, shape=Shape.array(PrimitiveType.U32))
    zero = b.splat(device.shape, 0)
    return b.compare(device, zero, ComparisonDirection.EQ)


def _from_first(b: PartBuilder, chosen: Instruction) -> Iterator[Instruction]:
    for k in range(len(chosen.shape.tuple_shapes)):
        yield b.from_first(b.gte(chosen, k))
