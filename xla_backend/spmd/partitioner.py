"""The SPMD partitioner: from a program on whole arrays to the one that every device runs on its
parts.

Each instruction is done on parts along its factors, as far as its operands and its result are cut
along them. Operands are brought into that form first; sums of which devices have parts are
combined; the result gets the form that was propagated for it. What has no factors is computed as a
whole on every device. So every program can be partitioned; `factor_rules` says which do it well,
`local_forms` how.
"""

from __future__ import annotations

from collections.abc import Iterator

from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.module import HloModule, InputOutputAlias
from xla_backend.hlo.shape import Shape
from xla_backend.passes.base import HloPass
from xla_backend.spmd.plan import Partition, Plan
from xla_backend.spmd.transforms import split_transforms
from xla_backend.spmd.writer import Writer


class SpmdPartitioner(HloPass):
    """A module for `num_partitions` devices, whose arrays are whole -> the program of each device.

    Parameters, the root and `Sharding` calls say how arrays are cut; for the others it is
    propagated. Parameters that say nothing are whole.

    Needs: no calls but those of control flow, no fusions.  Leaves: local shapes, collectives with
    channels, no sharding.
    """

    name = "spmd-partitioner"

    def run(self, module: HloModule) -> bool:
        return partition(module) is not None


def partition(module: HloModule) -> Partition | None:
    """Make a module the program of each device; None: it is one already."""
    if not needs_partitioning(module):
        return None
    plan = Plan(module)
    if split_transforms(plan):
        plan = Plan(module)
    _rewrite(module, plan)
    return plan.partition


def needs_partitioning(module: HloModule) -> bool:
    """Modules for several partitions that have no sharding are programs of a device already."""
    return module.num_partitions > 1 and any(
        "sharding" in (node.annotations or {})
        for c in module.computations
        for node in c.instructions
    )


def _rewrite(module: HloModule, plan: Plan) -> None:
    assert module.entry is not None
    entry = Writer(plan, module.entry, f"{module.entry.name}_spmd").write_entry()
    plan.new.add_computation(entry, entry=True)
    module.aliases = tuple(_aliases(module, entry))
    module.entry_layout = None
    module.computations = plan.new.computations
    module.entry = entry
    module._names = plan.new._names
    for computation in module.computations:
        computation.module = module


def _aliases(module: HloModule, entry: Computation) -> Iterator[InputOutputAlias]:
    """Those of whole arrays whose parts have one shape, too. Who loses its result gets another one
    whose parts it has room for, if there is one."""
    assert entry.root is not None
    results = dict(_leaves(entry.root.shape))
    without = []
    for alias in module.aliases:
        if results.get(alias.output_index) == _given(entry, alias):
            del results[alias.output_index]
            yield alias
        elif not alias.must_alias:
            without.append(alias)
    for alias in without:
        wanted = _given(entry, alias)
        found = next((index for index, shape in results.items() if shape == wanted), None)
        if found is not None:
            del results[found]
            yield InputOutputAlias(found, alias.parameter, alias.parameter_index)


def _given(entry: Computation, alias: InputOutputAlias) -> Shape:
    """The shape of the part of a donated array."""
    shape = entry.parameters[alias.parameter].shape
    for i in alias.parameter_index:
        shape = shape.tuple_shapes[i]
    return shape


def _leaves(shape: Shape, index: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Shape]]:
    if not shape.is_tuple:
        yield index, shape
        return
    for i, member in enumerate(shape.tuple_shapes):
        yield from _leaves(member, (*index, i))
