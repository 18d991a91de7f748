"""What is done once, though several devices run the program: calls with side effects and random
numbers of a device's own. The first device does it, and the others get its results.
"""

from __future__ import annotations

from xla_backend.hlo.attributes import ComparisonDirection, ConditionalAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.emit import Emit
from xla_backend.spmd.exchange import PartBuilder
from xla_backend.spmd.specs import Axes


def done_once(
    b: PartBuilder, module: HloModule, given: Instruction, done: Computation, axes: Axes
) -> list[Instruction]:
    """The leaves of what a computation gives, on every device: each of those that are first along
    these axes does it for the others.

    Args:
      given: its operand, a tuple which all devices have alike.
      done: gives a tuple of arrays.
    """
    assert done.root is not None
    shape = done.root.shape
    left_out = Computation(f"{done.name}_elsewhere")
    outside = Emit.into(left_out, b.metadata)
    outside.parameter(0, given.shape, "operands")
    left_out.set_root(outside.tuple([outside.splat(leaf, 0) for leaf in shape.tuple_shapes]))
    called = [module.add_computation(c) for c in (done, left_out)]
    attributes = ConditionalAttributes(False)
    chosen = b.add(
        Opcode.CONDITIONAL, (_is_first(b, axes), given, given), attributes, called, shape
    )
    return [b.from_first(b.gte(chosen, k), axes) for k in range(len(shape.tuple_shapes))]


def _is_first(b: PartBuilder, axes: Axes) -> Instruction:
    place = b.position(axes, 1)
    return b.compare(place, b.splat(place.shape, 0), ComparisonDirection.EQ)
