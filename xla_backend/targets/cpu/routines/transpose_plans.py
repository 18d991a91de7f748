"""How a transpose is done: the routine, and the numbers that it takes.

Neighbouring dimensions that stay neighbours are one, and those that end in both arrays are part of
the unit that is moved. Of what is left, two groups of dimensions matter: `across`, whose units lie
side by side in the operand, and `along`, side by side in the result. A block is some of both, for
one place in all other dimensions. A group is one dimension, or a few where the first is small.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Bytes of units whose squares are transposed in registers, and of what is transposed for them: they
# are padded where they are no power of two.
SQUARES = {unit: 1 << (unit - 1).bit_length() for unit in range(1, 17)}
# Bytes of units of which few are woven together or apart, and how few at most.
WOVEN = {1: 15, 2: 12, 4: 8, 8: 8, 16: 8}
# Small blocks in which two dimensions are exchanged: sizes of these, and bytes of a block.
_SWAPPED, _SWAPPED_BYTES = (*range(2, 13), 16, 32), 512
# Blocks within which dimensions are put into any other order: the routine, and bytes of a block. As
# many are permuted together as fill a register, MOST_TOGETHER at most. Units of 4 bytes and more
# are moved as quickly one by one.
SHUFFLED, SHUFFLED_BYTES = "shuffled_blocks", 640
_LEAST_SHUFFLED, MOST_TOGETHER, _FEWEST_SHUFFLED, _SHUFFLED_ALONE = 64, 32, 8, 4
# Bytes of registers that are transposed in parts of so many.
PART = 16
# Dimensions of a group, and others.
DIGITS = 3
OTHERS = 8
# Of a cache, in bytes; and what is that far apart meets in the same places of the nearest one.
LINE = 64
_PAGE = 1 << 12
_WAYS = 12
# Bytes of a block's rows in the result and in the operand, by those of a unit: where a block is
# written at once, and where it is made first. (Measured; other sizes are within a few percent.)
_AT_ONCE = {1: (512, 256), 2: (512, 256)}
_MADE_FIRST = {16: (256, 512)}
_AT_ONCE_OF_OTHERS, _MADE_FIRST_OF_OTHERS = (512, 512), (128, 512)
_AT_ONCE_OF_LARGE = (2048, 1024)
# Squares of these units write whole lines.
_WHOLE_LINES = 4
# Rows that are so many bytes apart, or a multiple, meet more often than a square has rows.
_MEETING = 1 << 10
# Bytes of a block that is worth it, of units of up to 4 bytes and of larger ones, and of one that
# whole squares make up.
_SMALLEST_BLOCK, _SMALLEST_OF_LARGE, _EVEN_BLOCK = 1 << 9, 1 << 10, 1 << 13
# Rows that are long enough.
_ROW_BYTES = 256
# Rows of a block in either direction, at most, and bytes of one that is all in one piece.
MOST_ROWS = 1 << 10
BLOCK_BYTES = 5 << 12
# Memory in which blocks are made.
STAGE_BYTES = 1 << 18
# What the last block may have more than others, rather than that there is a very small one.
SPARE_BYTES = 64
# Units of more bytes are copied one after another along the result, and large ones in whole lines,
# past caches: to make a block of others first takes longer than to write them where they belong.
_SHORT_UNIT, _LARGE_UNIT = 128, 512
# So are units of whole lines if they go past the caches, some from each of some stretches of the
# operand at a time.
_LINES_AT_ONCE = 16
# Results of more bytes than caches hold are written past them if they have rows of this many.
_PAST_CACHES = 8 << 20
_LONG_ROW = 1 << 10
# Blocks of shorter rows, if these follow each other, are written as one, and read so many lines of
# each row of the operand.
_LINES_OF_PIECE = 4
# Few rows that come apart are written from one end to the other anyway, so that lines of so large
# results are still worth keeping.
_PAST_CACHES_OF_FEW = 16 << 20

FIELDS = (
    "unit", "staged", "past", "tall", "size",
    "across", "along", "most_across", "most_along", "pitch", "ahead",
    *(f"{name}{k}" for k in range(DIGITS) for name in ("across_size", "across_step")),
    *(f"{name}{k}" for k in range(DIGITS) for name in ("along_size", "along_step")),
    "others",
    *(f"{name}{k}" for k in range(OTHERS) for name in ("size", "from", "to")),
)  # fmt: skip
# Behind these: blocks that are permuted together, and their bytes.
SHUFFLE_FIELDS = ("together", "bytes")


class Plan(NamedTuple):
    """A routine and what it is told."""

    routine: str
    numbers: tuple[int, ...]


def routine_names() -> list[str]:
    """Of all routines that plans name."""
    names = [f"transpose_{unit}" for unit in SQUARES] + [
        "transpose_units",
        "transpose_rows",
        SHUFFLED,
    ]
    for unit, most in WOVEN.items():
        for few in range(2, most + 1):
            names += [f"apart_{few}_{unit}", f"together_{few}_{unit}"]
    return names + [f"swapped_{a}_{b}_{unit}" for a, b, unit in swapped_blocks()]


def swapped_blocks() -> list[tuple[int, int, int]]:
    """Sizes of small blocks, and bytes of their units."""
    return [
        (a, b, unit)
        for unit in WOVEN
        for a in _SWAPPED
        for b in _SWAPPED
        if a * b * unit <= _SWAPPED_BYTES
    ]


class _Dim(NamedTuple):
    """A dimension: its size, and bytes from one element to the next in operand and result."""

    size: int
    source: int
    target: int


def plan(
    dims: Sequence[int], permutation: Sequence[int], element: int, *, in_tiles: bool = True
) -> Plan | None:
    """The plan of a transpose; None: there is nothing to move, or another way is better.

    Args:
      dims: of the operand.
      permutation: dimension i of the result is dimension `permutation[i]` of the operand.
      element: bytes of one.
      in_tiles: whether code for the sizes moves squares of elements in registers.
    """
    if 0 in dims:
        return None
    merged = _merged(dims, permutation, element)
    unit = element
    if merged and merged[-1].source == merged[-1].target:
        unit *= merged.pop().size
    if len(merged) < 2:
        return None
    by_source = sorted(merged, key=lambda d: d.source)
    by_target = merged[::-1]
    found = _woven(by_source, by_target, unit) or _shuffled(by_source, by_target, unit)
    return found or _squares(by_source, by_target, unit, in_tiles and unit == element)


def _merged(dims: Sequence[int], permutation: Sequence[int], element: int) -> list[_Dim]:
    """The dimensions of the result, outermost first, without those of size 1, neighbours joined."""
    source, target = [element] * len(dims), [element] * len(dims)
    for d in range(len(dims) - 2, -1, -1):
        source[d] = source[d + 1] * dims[d + 1]
        target[d] = target[d + 1] * dims[permutation[d + 1]]
    merged: list[_Dim] = []
    for place, d in enumerate(permutation):
        dim = _Dim(dims[d], source[d], target[place])
        if dim.size == 1:
            continue
        if merged and merged[-1].source == dim.size * dim.source:
            dim = dim._replace(size=merged.pop().size * dim.size)
        merged.append(dim)
    return merged


def _squares(
    by_source: list[_Dim], by_target: list[_Dim], unit: int, in_tiles: bool
) -> Plan | None:
    """In squares of units."""
    across, along = by_source[:1], by_target[:1]
    lanes = _lanes(unit)
    wanted = max(lanes, -(-_ROW_BYTES // unit))
    size = unit * _count(by_target)
    # As long rows they are written past the caches; smaller units gain nothing by that.
    large = size >= _PAST_CACHES and PART // 2 <= unit <= PART
    long = -(-_LONG_ROW // unit) if large else wanted

    def grow(group: list[_Dim], order: list[_Dim], other: list[_Dim], wanted: int) -> bool:
        if _count(group) >= wanted or len(group) == min(DIGITS, len(order)):
            return False
        following = order[len(group)]
        if following in other:
            return False
        group.append(following)
        return True

    def grown() -> bool:
        return (
            grow(across, by_source, along, lanes)
            or grow(along, by_target, across, wanted)
            or grow(across, by_source, along, wanted)
            or grow(along, by_target, across, long)
        )

    while grown():
        pass
    if unit % LINE == 0 and _goes_past(size, unit, along):
        some, others = (min(_LINES_AT_ONCE, _count(group)) for group in (across, along))
        return _numbers("transpose_rows", unit, by_target, across, along, some, others, LINE)
    if not _worth_blocks(across, along, unit, in_tiles):
        return None
    if unit > _SHORT_UNIT:
        most = max(1, BLOCK_BYTES // unit)
        routine = "transpose_rows" if unit >= _LARGE_UNIT else "transpose_units"
        pitch = _pitch(most, unit)
        return _numbers(routine, unit, by_target, across, along, 1, most, pitch)
    if size >= _PAST_CACHES:
        wanted_along, wanted_across = _MADE_FIRST.get(unit, _MADE_FIRST_OF_OTHERS)
    elif unit > PART:
        wanted_along, wanted_across = _AT_ONCE_OF_LARGE
    else:
        wanted_along, wanted_across = _AT_ONCE.get(unit, _AT_ONCE_OF_OTHERS)
    most_along = max(1, min(_count(along), -(-wanted_along // unit), MOST_ROWS))
    most_across = max(1, min(_count(across), wanted_across // unit, MOST_ROWS))
    area = wanted_along * wanted_across // (unit * unit)
    if _count(along) < wanted_along // unit:
        most_across = max(1, min(_count(across), area // most_along, MOST_ROWS))
    elif _count(across) < wanted_across // unit:
        most_along = max(1, min(_count(along), area // most_across, MOST_ROWS))
    tall = _fit(along[0], "source", LINE // unit, 1) is None
    if size >= _PAST_CACHES and _is_one_piece(unit, across, along):
        return _in_one_piece(unit, by_target, across, along)
    tall = tall and unit != PART
    most_across, staged = _rows_of_block(unit, across, along, most_across, tall)
    if unit <= PART or size >= _PAST_CACHES:
        # Maybe they are made first.
        rows = min(_count(across), PART) + PART
        most_along = min(most_along, (STAGE_BYTES // rows - 4 * LINE) // unit)
        most_across = min(most_across, STAGE_BYTES // _pitch(most_along, unit) - PART)
    pitch = _pitch(most_along, unit)
    routine = f"transpose_{unit}" if unit in SQUARES else "transpose_units"
    return _numbers(
        routine, unit, by_target, across, along, most_across, most_along, pitch, staged, tall
    )


def _is_one_piece(unit: int, across: Sequence[_Dim], along: Sequence[_Dim]) -> bool:
    """Whether a block's rows are short and lie one behind the other in the result, with room for
    all that a square writes."""
    row = unit * along[0].size
    behind = len(along) == 1 and across[0].target == row <= _LONG_ROW
    whole = _WHOLE_LINES <= unit <= PART and SQUARES[unit] == unit
    return behind and whole and min(across[0].size, along[0].size) >= _lanes(unit)


def _in_one_piece(
    unit: int, by_target: Sequence[_Dim], across: Sequence[_Dim], along: Sequence[_Dim]
) -> Plan | None:
    """In blocks of whole rows, made as they lie in the result and written as one row. Units of a
    part go in the order of the result where the rows that are read do not meet in caches."""
    (row,) = along
    most = min(_count(across), _LINES_OF_PIECE * LINE // unit)
    tall = unit == PART and _fit(row, "source", row.size, 1) is None
    return _numbers(
        f"transpose_{unit}",
        unit,
        by_target,
        across,
        along,
        most,
        row.size,
        unit * row.size,  # no room between rows: so the routine knows
        tall=tall,
        joined=True,
    )


def _lanes(unit: int) -> int:
    """Units that a part has room for."""
    return PART // SQUARES[unit] if unit in SQUARES else 1


def _worth_blocks(across: Sequence[_Dim], along: Sequence[_Dim], unit: int, in_tiles: bool) -> bool:
    """Whether blocks are large enough that what each takes to begin does not matter. Units of whole
    lines are left to code for their sizes (within the caches), and so are blocks that whole squares
    of elements make up, if they are small or have rows that meet in caches, where it goes through
    them square by square (`in_tiles`); not units of several elements, which would be loops of so
    few rounds."""
    lanes = _lanes(unit)
    if 2 * min(_count(across), _count(along)) <= lanes:
        return False
    size = unit * _count(across) * _count(along)
    smallest = _SMALLEST_BLOCK if unit <= _WHOLE_LINES else _SMALLEST_OF_LARGE
    if size < smallest or unit % LINE == 0:
        return False
    even = all(_count(group) * unit % LINE == 0 for group in (across, along))
    even = even and _WHOLE_LINES <= unit <= PART and in_tiles
    meet = across[0].target % _MEETING == 0
    return not even or (size >= _EVEN_BLOCK and not meet)


def _rows_of_block(
    unit: int, across: Sequence[_Dim], along: Sequence[_Dim], most_across: int, tall: bool
) -> tuple[int, bool]:
    """How many rows of the result a block has, `most_across` at most, and whether it is to be made
    before it is written: more may be made than is wanted, and rows that meet in the same places of
    a cache are there no more when they go on."""
    step, least = across[0].target, max(LINE // unit, _lanes(unit))
    # Rows that do not begin with a line have two lines where a square goes on. (Of small units,
    # which stay longer in one, that makes no difference.)
    small = unit < _WHOLE_LINES
    fit = _fit(across[0], "target", most_across, 1 if small or step % LINE == 0 else 2)
    if unit not in SQUARES:
        return max(fit or most_across, least), False
    staged = min(_count(across), _count(along)) < _lanes(unit)
    if fit is None or fit >= least:
        return fit or most_across, staged
    if unit * _count(along) <= LINE:
        return min(most_across, least), staged
    if tall and small and step % LINE == 0 and math.gcd(step, _PAGE) <= _MEETING:
        return min(most_across, least), staged  # whole lines, written once
    return min(most_across, max(LINE, least)), True


def _fit(dim: _Dim, array: str, rows: int, lines: int) -> int | None:
    """Of so many rows, which are lines of the nearest cache, how many it has room for where they
    begin; None: for all."""
    step, starts, before = getattr(dim, array), Counter[int](), -1
    for row in range(min(rows, dim.size)):
        line = row * step // LINE
        if line == before:
            continue
        place, before = line % (_PAGE // LINE), line
        starts[place] += lines
        if starts[place] > _WAYS:
            return row
    return None


def _pitch(along: int, unit: int) -> int:
    """Bytes from row to row of a block: no power of two where rows are long."""
    size = along * unit + 2 * SPARE_BYTES + PART
    return (-(-size // LINE) | 1) * LINE


def _woven(by_source: list[_Dim], by_target: list[_Dim], unit: int) -> Plan | None:
    """Few rows that become one, or one that becomes few: their units take turns."""
    if unit not in WOVEN:
        return None
    across, along = by_source[0], by_target[0]
    apart = along.source == across.size * unit
    together = across.target == along.size * unit
    if apart and together and across.size in _SWAPPED and along.size in _SWAPPED:
        return _swapped(by_source, by_target, unit)
    apart, together = (
        apart and across.size <= WOVEN[unit],
        together and along.size <= WOVEN[unit],
    )
    if not apart and not together:
        return None
    few, many = (across, along) if apart else (along, across)
    if many.size * unit < SPARE_BYTES:
        return None
    most = BLOCK_BYTES // unit // few.size // SPARE_BYTES * SPARE_BYTES
    pitch = _pitch(most, unit)
    name = f"{'apart' if apart else 'together'}_{few.size}_{unit}"
    sizes = (few.size, most) if apart else (most, few.size)
    groups = (by_target, [across], [along])
    return _numbers(name, unit, *groups, *sizes, pitch, past_from=_PAST_CACHES_OF_FEW)


def _swapped(by_source: list[_Dim], by_target: list[_Dim], unit: int) -> Plan | None:
    """In blocks that stay where they are."""
    across, along = by_source[0], by_target[0]
    size = across.size * along.size * unit
    if size > _SWAPPED_BYTES:
        return None
    name = f"swapped_{across.size}_{along.size}_{unit}"
    others = [d for d in by_target if d not in (across, along)]
    blocks = [d for d in others if d.source == d.target == size]
    if not blocks:  # maybe larger ones do
        found = _shuffled(by_source, by_target, unit)
        if found is not None:
            return found
        blocks = [_Dim(1, size, size)]
    rest = [d for d in others if d not in blocks]
    most = BLOCK_BYTES // size
    return _numbers(name, size, [*blocks, *rest], [], blocks, 1, most, LINE)


def _shuffled(by_source: list[_Dim], by_target: list[_Dim], unit: int) -> Plan | None:
    """In blocks that stay as they are, of any order of any dimensions."""
    if unit % _SHUFFLED_ALONE == 0:
        return None
    # The smallest blocks of which there are enough side by side in the result, and in the operand
    # if several are permuted together.
    for count in range(2, len(by_source)):
        size, blocks = unit * _count(by_source[:count]), by_target[count]
        if blocks.target != size or {*by_source[:count]} != {*by_target[:count]}:
            continue
        if size >= _LEAST_SHUFFLED and blocks.size >= _FEWEST_SHUFFLED:
            break
        if blocks.source == size and blocks.size >= MOST_TOGETHER:
            break
    else:
        return None
    if size > SHUFFLED_BYTES:
        return None
    together = -(-_LEAST_SHUFFLED // size)
    most = BLOCK_BYTES // size
    found = _numbers(SHUFFLED, size, by_target[count:], [], [blocks], 1, most, LINE)
    if found is None:
        return None
    places = np.arange(together, dtype=np.int64) * size
    within = [*((d.size, d.source) for d in by_target[count - 1 :: -1]), (unit, 1)]
    for extent, step in within:
        places = places[..., None] + np.arange(extent) * step
    packed = np.zeros(-(-places.size // 4) * 4, np.int16)
    packed[: places.size] = places.reshape(-1)
    table = (together, together * size, *packed.view(np.int64).tolist())
    return found._replace(numbers=found.numbers + table)


def _count(group: Sequence[_Dim]) -> int:
    return math.prod(d.size for d in group)


def _goes_past(size: int, unit: int, along: Sequence[_Dim], past_from: int = _PAST_CACHES) -> bool:
    """Whether a result of so many bytes is written past the caches."""
    return size >= past_from and unit * _count(along) >= _LONG_ROW


def _numbers(
    routine: str,
    unit: int,
    by_target: Sequence[_Dim],
    across: Sequence[_Dim],
    along: Sequence[_Dim],
    most_across: int,
    most_along: int,
    pitch: int,
    staged: bool = False,
    tall: bool = False,
    past_from: int = _PAST_CACHES,
    joined: bool = False,
) -> Plan | None:
    others = [d for d in reversed(by_target) if d not in across and d not in along]
    if len(others) > OTHERS:
        return None
    size = unit * _count(by_target)
    one_by_one = routine == "transpose_units" and unit > _SHORT_UNIT
    past = joined or (_goes_past(size, unit, along, past_from) and not one_by_one)
    staged = staged or past
    ahead = 0
    if size >= past_from or unit > PART:  # squares in the caches the processor asks for itself
        behind = (staged and not joined) or _count(across) <= most_across
        ahead = most_along * along[0].source if behind else most_across * unit
    numbers = [unit, int(staged), int(past), int(tall), size, _count(across), _count(along)]
    numbers += [most_across, most_along, pitch, ahead]
    for group, step in ((across, "target"), (along, "source")):
        digits = [(d.size, getattr(d, step)) for d in group]
        for digit in digits + [(1, 0)] * (DIGITS - len(digits)):
            numbers += digit
    numbers.append(len(others))
    for d in [*reversed(others), *[_Dim(1, 0, 0)] * (OTHERS - len(others))]:
        numbers += d
    return Plan(routine, tuple(numbers))
