"""The ways in which a GPU could compute a product, and which of them should be the fastest: a table
and a small model of time, for where nothing can be measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xla_backend.hlo.instruction import Instruction
from xla_backend.kernels.library.dots import FEW
from xla_backend.kernels.library.factors import Sizes
from xla_backend.kernels.library.group_product import GroupTiling
from xla_backend.kernels.library.matrix_product import Tiling
from xla_backend.kernels.library.recipes import Recipe
from xla_backend.kernels.library.skinny_product import AT_ONCE, SkinnyTiling
from xla_backend.kernels.lines import LINE
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.targets.gpu.architectures import WARP, Architecture


@dataclass(frozen=True)
class Loops:
    """Plain loops: one thread for each element of the result."""


@dataclass(frozen=True)
class Cublas:
    """A call of the library, by the name of a row of its table."""

    type: str


Candidate = Tiling | GroupTiling | SkinnyTiling | Loops | Cublas
# Chooses one of the candidates for an instruction; those that should be the fastest come first.
Choose = Callable[[Instruction, Sequence[Candidate]], Candidate]

# Products with fewer multiplications take as long on tiles of warps, and may stay in a loop on the
# device, which those by groups of 128 threads cannot.
WORTH_GROUPS = 1 << 26
# Products with fewer multiplications, or shorter sums, are plain loops.
_TINY = 1 << 12
_SHORT_SUM = 8

# Rows, columns, and warps that share them. Slabs have as many bytes of each row as a sector.
_TILES = (
    (128, 128, 2, 4),
    (128, 64, 4, 2),
    (64, 128, 2, 4),
    (64, 64, 2, 2),
    (64, 32, 2, 2),
    (32, 64, 2, 2),
    (32, 32, 2, 2),
    (16, 64, 1, 4),
    (64, 16, 4, 1),
)
_SLAB_BYTES = 64
# Rows, columns, groups of 128 threads that share them, and slabs in shared memory: as many as leave
# room for two blocks, which finish and begin at other times, where one thread has few sums.
GROUP_TILES = (
    GroupTiling(128, 256, 2, stages=4),
    GroupTiling(256, 128, 2, stages=4),
    GroupTiling(128, 128, 2, stages=3),
    GroupTiling(64, 128, 1, stages=4),
    GroupTiling(128, 64, 2, stages=4),
    GroupTiling(64, 64, 1, stages=4),
)
# Rows, columns, and threads that share them.
_THREADS = ((128, 128, 16, 16), (64, 64, 16, 16), (32, 32, 8, 8), (16, 64, 4, 16))
_SLAB_ELEMENTS = 16
_WIDE_SUM_BYTES = 8

# Rows of a block of a skinny product, and threads that share a sum.
_IN_WARPS = ((4, 32), (1, 256))
_IN_ROWS = ((64, 4), (32, 8))

_SPLITS = (1, 2, 4, 8, 16, 32)
_SHORTEST_PART = 256

# Of one multiprocessor, per cycle: multiplications by tensor cores for factors of 16 bits, and by
# threads in f32; bytes from the second-level cache.
_TENSOR_16 = 1024.0
# The same of groups of 128 threads: seven tenths of what data sheets say (2048), as nobody has
# measured these kernels.
_GROUP_16 = 1434.0
_THREAD_32 = 128.0
_CACHE_BYTES = 48.0
_SLAB_CYCLES = 60.0
_GROUP_SLAB_CYCLES = 30.0
_LATENCY_CYCLES = 600.0
_BLOCK_CYCLES = 1500.0
_LAUNCH_CYCLES = 4000.0
# The library's kernels have what ours lack: products and copies that run by themselves (sm_90).
_LIBRARY_GAIN = 1.6
_LIBRARY_TILES = (Tiling(128, 256, 64, 2, 4), Tiling(128, 128, 64, 2, 4), Tiling(64, 64, 64, 2, 2))
_LIBRARY_CYCLES = 8000.0
_MEMORY_BYTES = 16.0


def candidates(
    sizes: Sizes, recipe: Recipe, *, inner_first: bool, groups: bool = False
) -> list[Candidate]:
    """What is worth a try. `inner_first`: neighbours in the sum are neighbours in the memory of the
    larger factor. `groups`: groups of 128 threads can multiply, too."""
    work = sizes.batch * sizes.m * sizes.n * sizes.k
    if work < _TINY or sizes.k < _SHORT_SUM:
        return [Loops()]
    if min(sizes.m, sizes.n) < FEW:
        return [
            SkinnyTiling(rows, parts, splits)
            for rows, parts in (_IN_WARPS if inner_first else _IN_ROWS)
            for splits in _splits(sizes)
        ]
    found: list[Candidate] = []
    in_groups = GROUP_TILES if groups and work >= WORTH_GROUPS else ()
    for tiling in [*in_groups, *_tilings(recipe)]:
        # A block that is mostly beyond the edges is for larger products.
        if tiling.rows > 2 * max(sizes.m, FEW) or tiling.columns > 2 * max(sizes.n, FEW):
            continue
        found += [replace(tiling, splits=splits) for splits in _splits(sizes)]
    return found


def _tilings(recipe: Recipe) -> list[Tiling]:
    if recipe.tile is not None:
        depth = max(recipe.tile[2], _SLAB_BYTES // recipe.factor.byte_size)
        return [Tiling(rows, columns, depth, *warps) for rows, columns, *warps in _TILES]
    wide = recipe.sums.byte_size >= _WIDE_SUM_BYTES
    depth = _SLAB_ELEMENTS // 2 if wide else _SLAB_ELEMENTS
    return [
        Tiling(rows, columns, depth if rows < 128 else depth // 2, *threads)
        for rows, columns, *threads in _THREADS[1 if wide else 0 :]
    ]


def _splits(sizes: Sizes) -> list[int]:
    return [s for s in _SPLITS if s == 1 or sizes.k // s >= _SHORTEST_PART]


def fastest(
    found: Sequence[Candidate], sizes: Sizes, recipe: Recipe, architecture: Architecture
) -> Candidate:
    """The candidate that takes the least time by the model; the first of equals."""
    return min(found, key=lambda c: estimated_cycles(c, sizes, recipe, architecture))


def ranked(
    found: Sequence[Candidate], sizes: Sizes, recipe: Recipe, architecture: Architecture
) -> list[Candidate]:
    """The candidates by the model, the fastest first."""
    return sorted(found, key=lambda c: estimated_cycles(c, sizes, recipe, architecture))


def estimated_cycles(
    candidate: Candidate, sizes: Sizes, recipe: Recipe, architecture: Architecture
) -> float:
    """Cycles that a candidate takes: what one multiprocessor does one after the other."""
    processors = architecture.multiprocessors
    size = recipe.factor.byte_size
    elements = sizes.batch * sizes.m * sizes.n
    if isinstance(candidate, Loops):
        return elements * sizes.k / (processors * WARP)
    if isinstance(candidate, Cublas):
        cycles = min(_tiled_cycles(t, sizes, recipe, processors) for t in _LIBRARY_TILES)
        return _LIBRARY_CYCLES + cycles / _LIBRARY_GAIN
    finishing = 0.0
    if candidate.splits > 1:
        partial = elements * recipe.sums.byte_size * (candidate.splits + 1)
        finishing = _LAUNCH_CYCLES + partial / (processors * _CACHE_BYTES)
    if isinstance(candidate, SkinnyTiling):
        rows, few = max(sizes.m, sizes.n), min(sizes.m, sizes.n)
        blocks = -(-rows // candidate.rows) * sizes.batch * candidate.splits
        threads = blocks * candidate.rows * candidate.parts
        waves = -(-threads // (processors * architecture.threads_per_multiprocessor))
        steps = -(-sizes.k // (candidate.splits * candidate.parts * AT_ONCE))
        moved = sizes.batch * rows * sizes.k * size / (processors * _CACHE_BYTES)
        return max(moved, waves * steps * (_LATENCY_CYCLES + few * AT_ONCE)) + finishing
    if isinstance(candidate, GroupTiling):
        return _group_cycles(candidate, sizes, recipe, processors) + finishing
    return _tiled_cycles(candidate, sizes, recipe, processors) + finishing


def pass_cycles(bytes_moved: int, architecture: Architecture) -> float:
    """Cycles of a kernel that does no more than to read and write so much."""
    return _LAUNCH_CYCLES + bytes_moved / (architecture.multiprocessors * _MEMORY_BYTES)


def _group_cycles(t: GroupTiling, sizes: Sizes, recipe: Recipe, processors: int) -> float:
    waves = -(-t.blocks(sizes) // processors)
    assert recipe.tile is not None
    depth = LINE // recipe.factor.byte_size
    slabs = -(-sizes.k // (depth * t.splits))
    rate = _GROUP_16 * recipe.tile[2] / 16
    slab = max(t.rows * t.columns * depth / rate, t.slab_bytes / _CACHE_BYTES)
    return waves * (_BLOCK_CYCLES + slabs * (slab + _GROUP_SLAB_CYCLES))


def _tiled_cycles(t: Tiling, sizes: Sizes, recipe: Recipe, processors: int) -> float:
    waves = -(-t.blocks(sizes) // processors)
    slabs = -(-sizes.k // (t.depth * t.splits))
    bytes_of_slab = (t.rows + t.columns) * t.depth * recipe.factor.byte_size
    multiplied = t.rows * t.columns * t.depth * len(recipe.terms)
    if recipe.tile is not None:
        rate = _TENSOR_16 * recipe.tile[2] / 16
    else:
        rate = _THREAD_32 * min(1.0, 4 / recipe.sums.byte_size)
    slab = max(multiplied / rate, bytes_of_slab / _CACHE_BYTES) + _SLAB_CYCLES
    return waves * (_BLOCK_CYCLES + slabs * slab)
