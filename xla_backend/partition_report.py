"""What the program of each of several devices computes, moves and holds: counted, without code.

counted = count_program(module, "cuda", options)     # as lowered: its arrays have shardings
counted.transfers, counted.work, counted.memory
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.cost_analysis import CostAnalysis
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.exchanges import COLLECTIVES
from xla_backend.hlo.executions import executions, open_loops
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import Pipeline
from xla_backend.passes.buffer_assignment import BufferAssignment, BufferKind, assign_buffers
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.spmd.pipeline import prepare_and_partition
from xla_backend.spmd.traffic import Transfer, transfers
from xla_backend.targets.cpu.pipeline import build_pipeline as cpu_pipeline
from xla_backend.targets.gpu.pipeline import build_pipeline as gpu_pipeline

_PIPELINES: Mapping[str, Callable[[CompileOptions], Pipeline]] = {
    "cpu": cpu_pipeline,
    "cuda": gpu_pipeline,
}
# Done on matrix units where there are such.
_PRODUCTS = frozenset({Opcode.DOT, Opcode.CONVOLUTION, Opcode.RAGGED_DOT, Opcode.SCALED_DOT})
# Counted as transfers; and what only names values.
_NO_WORK = COLLECTIVES | {Opcode.TUPLE}


class Work(NamedTuple):
    """An instruction that computes.

    Fields:
      times: how often a run executes it.
      products: flops of matrix products in one execution, by the type of what is multiplied.
      flops: of all else.  bytes: read and written.
    """

    node: Instruction
    times: int
    products: Mapping[str, float]
    flops: float
    bytes: float


class Memory(NamedTuple):
    """Bytes of a device.

    Fields:
      aliased: of results that take the memory of donated arguments.
      largest: what takes most of the temporary memory, largest first: bytes, and who writes it.
    """

    arguments: int
    results: int
    aliased: int
    constants: int
    temporaries: int
    largest: Sequence[tuple[int, Instruction]]


@dataclass(frozen=True, slots=True)
class CountedProgram:
    """A program of one device of several.

    Fields:
      module: optimised, scheduled.
      transfers, work: in the order of the program.
      open_loops: loops of which it is not known how many rounds they have; counted once.
    """

    module: HloModule
    transfers: Sequence[Transfer]
    work: Sequence[Work]
    memory: Memory
    open_loops: Sequence[Instruction]


def count_program(module: HloModule, platform: str, options: CompileOptions) -> CountedProgram:
    """Partition and optimise a module (in place), as for devices of a platform, and count.

    Raises:
      UnimplementedError: it cannot be partitioned, or the platform is none of cpu and cuda.
    """
    if platform not in _PIPELINES:
        raise UnimplementedError(
            f"programs are counted as for {' or '.join(_PIPELINES)}, not for {platform!r}"
        )
    prepare_and_partition(module)
    _PIPELINES[platform](options).run(module)
    return CountedProgram(
        module, transfers(module), _work(module), _memory(module), open_loops(module)
    )


def _work(module: HloModule) -> list[Work]:
    costs = CostAnalysis()
    found = []
    for node, times in executions(module):
        cost = costs.instruction(node)
        if cost.bytes_accessed and node.opcode not in _NO_WORK:
            products = _products(node, costs)
            others = cost.flops + cost.transcendentals - sum(products.values())
            found.append(Work(node, times, products, others, cost.bytes_accessed))
    return found


def _products(node: Instruction, costs: CostAnalysis) -> Counter[str]:
    found: Counter[str] = Counter()
    if node.opcode in _PRODUCTS:
        element_type = str(node.operands[0].shape.element_type)
        found[element_type] += costs.instruction(node).flops  # type: ignore[assignment]
    elif node.opcode is Opcode.FUSION:
        for inner in node.called[0]:
            found += _products(inner, costs)
    return found


def _memory(module: HloModule) -> Memory:
    assert module.entry is not None and module.entry.root is not None
    assignment = assign_buffers(module)
    parameters = [leaf for p in module.entry.parameters for leaf in p.shape.flatten()]
    results = module.entry.root.shape.flatten()
    return Memory(
        sum(leaf.byte_size for leaf in parameters),
        sum(leaf.byte_size for leaf in results),
        sum(results[number].byte_size for number in assignment.aliases),
        sum(array.nbytes for array in assignment.constants),
        assignment.temp_size,
        _largest(assignment),
    )


def _largest(assignment: BufferAssignment, count: int = 8) -> list[tuple[int, Instruction]]:
    writers: dict[tuple[int, int], Instruction] = {}
    for node, leaves in assignment.slices.items():
        for place in leaves:
            if place is not None and place.kind is BufferKind.TEMP:
                writers.setdefault((place.size, place.offset), node)
    return [(size, writers[size, offset]) for size, offset in sorted(writers, reverse=True)][:count]
