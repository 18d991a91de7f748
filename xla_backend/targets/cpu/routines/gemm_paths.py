"""Ways of a product. Programs know sizes and strides, and call a routine that has one way only,
such as `pyjax_gemm_f32.direct_even`, which is little code; one without a suffix chooses at run
time.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import NamedTuple

from xla_backend.llvm.target import TargetInfo
from xla_backend.targets.cpu.routines.gemm_parts import SPLIT, split_of, splits
from xla_backend.targets.cpu.routines.gemm_tiles import GemmType, Tile, tile_for

# A B of up to this many bytes stays in the first-level cache and needs no packing; nor is packing
# any worth for so few tiles of rows.
DIRECT_BYTES = 16 * 1024
DIRECT_TILES = 8
# What must be 1 for each of the kernels for vectors: for dot products with rows of the matrix, and
# for combinations of them.
_VECTOR_CASES = {
    "vector": (("N", "csA", "rsB"), ("M", "rsB", "csA")),
    "vector_columns": (("M", "csB", "csA"), ("N", "rsA", "rsB", "ldc")),
}
VECTOR_WAYS = tuple(_VECTOR_CASES)
# Dot products of the rows of A with each of few columns of B, both contiguous along K: columns do
# not fill a vector, and the product does not pay for packing them. So many rows at most, so long.
DOTS = "dots"
DOT_ROWS, DOT_DEPTH = 64, 256
# Or any number of rows, as many at once, by so few columns: of these a contiguous copy is made,
# which stays in the first-level cache.
FEW_COLUMNS, FEW_DEPTH, FEW_ELEMENTS = 4, 64, 4096
_IN_PLACE = ("direct", "transposed")
_EVEN, _NARROW, _HALF, _TURNED, _ANY_WIDTH = "_even", "_narrow", "_half", "_turned", "_any"
# Columns fill panels of a tile's vectors, or of one fewer.
WIDE, SLIM = "_wide", "_slim"
# Rows of products that have micro-kernels of this height only: less than a tile's.
_FEW_ROWS = (2, 4)


class Path(NamedTuple):
    """What a routine is for. Everything, unless it says otherwise.

    Attributes:
      way: "vector", "vector_columns", "dots", "direct", "transposed" or "packed"; None: any.
      split: K in parts, each of which goes this way.
      even: rows fill tiles, so that there are none of fewer rows.
      narrow: columns are one vector; False: more than one; None: any.
      half: that vector is one of half the bits, of which processors may do two where they do one of
        all bits.
      turned: rows of B are not contiguous, where it is packed; False: they are; None: any.
      rows: exactly so many rows, fewer than a tile has; None: any.
      panels: WIDE or SLIM, where they are all so; None: of both kinds, or any.
    """

    way: str | None = None
    split: bool = False
    even: bool = False
    narrow: bool | None = None
    turned: bool | None = None
    rows: int | None = None
    panels: str | None = None
    half: bool = False

    @property
    def name(self) -> str:
        """The suffix of a routine's name."""
        split = SPLIT if self.split else ""
        any_width = self.narrow is None and not is_vector(self)
        words = (
            (_EVEN, self.even), (_NARROW, self.narrow), (_HALF, self.half),
            (_ANY_WIDTH, any_width), (_TURNED, self.turned),
        )  # fmt: skip
        rows = "" if self.rows is None else f"_rows{self.rows}"
        rows += self.panels or ""
        return f"{split}{self.way}{rows}{''.join(word for word, has in words if has)}"

    def tile(self, t: GemmType, target: TargetInfo) -> Tile:
        """The tile that it multiplies by."""
        tile = tile_for(t, target)
        return tile._replace(lanes=tile.lanes // 2) if self.half else tile

    def heights(self, tile: Tile) -> list[int]:
        """Rows of the micro-kernels: of a tile, and halves of what is left."""
        if self.rows is not None:
            return [self.rows]
        return [tile.rows, *(h for h in (4, 2, 1) if h < tile.rows and not self.even)]

    def widths(self, tile: Tile) -> list[int]:
        """Vectors of the micro-kernels: columns are dealt out evenly to as few as there can be."""
        if self.narrow:
            return [1]
        least = 1 if self.narrow is None else max(1, tile.vectors - 1)
        if self.panels is not None:
            return [tile.vectors if self.panels == WIDE else least]
        return list(range(least, tile.vectors + 1))


ANY = Path()


def _paths() -> list[Path]:
    found = [Path(way) for way in (*_VECTOR_CASES, DOTS)]
    for even, narrow in itertools.product((False, True), repeat=2):
        found += [Path(way, False, even, narrow) for way in _IN_PLACE]
        found += [Path("packed", False, even, narrow, turned) for turned in (False, True)]
    for way, narrow, rows in itertools.product(_IN_PLACE, (False, True), _FEW_ROWS):
        found.append(Path(way, False, False, narrow, rows=rows))
    uniform = [
        path._replace(panels=panels)
        for path in found
        if path.way in _IN_PLACE and path.narrow is False and path.rows is None
        for panels in (WIDE, SLIM)
    ]
    halves = [
        path._replace(half=True)
        for path in found
        if path.way in _IN_PLACE and path.narrow and path.rows is None
    ]
    split = [path._replace(split=True) for path in found if path.way not in _VECTOR_CASES]
    return [*found, *split, *uniform, *halves]


def is_vector(path: Path) -> bool:
    """Whether it goes by kernels for a matrix and a vector."""
    return path.way in _VECTOR_CASES or path.way == DOTS


PATHS = _paths()
# For routines that know how operands lie and how many rows there are, but not how many columns.
ANY_WIDTH_PATHS = [
    path._replace(narrow=None)
    for path in PATHS
    if path.narrow is False and path.rows is None and not path.split and path.panels is None
]


def is_way(t: GemmType, path: Path) -> bool:
    """Whether products of a type can go a way, on some machine."""
    if is_vector(path):
        return has_vector_kernels(t) and (splits(t) or not path.split)
    return not (t.needs_packing and path.way in _IN_PLACE) and (splits(t) or not path.split)


def paths_of(t: GemmType, target: TargetInfo) -> list[Path]:
    """Those that products of a type can have."""
    found = [path for path in PATHS if is_way(t, path)]
    if not has_direct_kernels(t, target):
        found = [path for path in found if path.way not in _IN_PLACE]
    tile = tile_for(t, target)
    if tile.vectors < 3:  # one vector is narrow
        found = [path for path in found if path.panels != SLIM]
    if not _has_halves(target):
        found = [path for path in found if not path.half]
    return [path for path in found if (path.rows or 0) < tile.rows]


def path_of(t: GemmType, target: TargetInfo, numbers: Mapping[str, int]) -> Path:
    """The way that a product of these sizes and strides takes, as the routine with all of them
    would choose."""
    parts, depth = split_of(t, *(numbers[name] for name in "MNK"))
    if parts == 1:
        return _whole_path_of(t, target, numbers)
    whole = _whole_path_of(t, target, {**numbers, "K": depth})
    return whole._replace(split=True, panels=None, half=False)


def _whole_path_of(t: GemmType, target: TargetInfo, numbers: Mapping[str, int]) -> Path:
    one = {name for name, number in numbers.items() if number == 1}
    for way, cases in _VECTOR_CASES.items():
        if has_vector_kernels(t) and any(one.issuperset(names) for names in cases):
            return Path(way)
    tile = tile_for(t, target)
    short = numbers["N"] < tile.lanes and numbers["M"] <= DOT_ROWS and numbers["K"] >= DOT_DEPTH
    if has_vector_kernels(t) and short and one.issuperset(("csA", "rsB")):
        return Path(DOTS)
    if has_tall_dots(t, target) and "csA" in one and _is_tall(numbers):
        return Path(DOTS)
    even = numbers["M"] % tile.rows == 0
    narrow = numbers["N"] <= tile.lanes
    if has_direct_kernels(t, target) and "csB" in one and one & {"csA", "rsA"}:
        near = numbers["K"] * numbers["N"] * t.source.byte_size <= DIRECT_BYTES
        if near or numbers["M"] <= DIRECT_TILES * tile.rows or numbers["N"] <= tile.columns:
            way = "direct" if "csA" in one else "transposed"
            if numbers["M"] in _FEW_ROWS and not even:
                return Path(way, even=even, narrow=narrow, rows=numbers["M"])
            panels = None if narrow else _panels_of(tile, numbers["N"])
            half = _has_halves(target) and 2 * numbers["N"] <= tile.lanes
            return Path(way, even=even, narrow=narrow, panels=panels, half=half)
    return Path("packed", even=even, narrow=narrow, turned="csB" not in one)


def _has_halves(target: TargetInfo) -> bool:
    return target.vector_bits == 512


def _is_tall(numbers: Mapping[str, int]) -> bool:
    m, n, k = (numbers[name] for name in "MNK")
    return m > DOT_ROWS and n <= FEW_COLUMNS and k >= FEW_DEPTH and n * k <= FEW_ELEMENTS


def _panels_of(tile: Tile, columns: int) -> str | None:
    """What so many columns fill if they are dealt out evenly to as few panels as there can be."""
    vectors = -(-columns // tile.lanes)
    each, left = divmod(vectors, -(-vectors // tile.vectors))
    if left:
        return None
    return WIDE if each == tile.vectors else SLIM if each == tile.vectors - 1 else None


def has_vector_kernels(t: GemmType) -> bool:
    return not t.compute.is_integral


def has_tall_dots(t: GemmType, target: TargetInfo) -> bool:
    """Whether tall matrices by few columns are dot products: of reals that need no conversion."""
    return t.compute.is_floating and t.source == t.compute and target.has_masks


def has_direct_kernels(t: GemmType, target: TargetInfo) -> bool:
    """Access to B in place needs masked vectors for the last columns."""
    return not t.needs_packing and target.has_masks


def symbol_of(t: GemmType, form: str, path: Path) -> str:
    """The routine of a form: "", "fused_", "batched_" or "fused_batched_"."""
    return f"pyjax_gemm_{form}{t.name}" + ("" if path is ANY else f".{path.name}")
