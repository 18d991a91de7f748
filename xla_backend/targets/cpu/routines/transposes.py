"""Transposes of any shape: one routine for each size of what is moved.

  void pyjax_transpose_<bytes>(ptr in, ptr out, ptr plan)     units of up to 16 bytes
  void pyjax_transpose_units(...)                             of any other number of bytes
  void pyjax_apart_<k>_<bytes>(...)                           k units that take turns come apart
  void pyjax_together_<k>_<bytes>(...)                        and the other way round
  void pyjax_swapped_<m>_<k>_<bytes>(...)                     [k, m] and [m, k] of such units
        plan: the numbers of `transpose_plans`

A block is made side by side in memory that stays in the nearest cache, and is then written row by
row, or as one where its rows follow each other without room between them: whole lines of the
result, past the caches where it is larger than they are. So powers of two between rows do no harm,
and what is made may be wider than what is kept. Rows of the operand that the next block reads are
asked for while this one is made.

Units that are no power of two are padded in registers: squares are those of the next one, whose
rows are spread as they are read, and pushed together as they are written. So more is read than the
units are, but not written.

Units of one and two bytes have too few in a part for whole registers of the result, where a
register holds several parts: then parts of several rows are put together in it as they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xla_backend.llvm.bytes import copy_bytes
from xla_backend.llvm.transposes import exchange, interleaved
from xla_backend.llvm.types import bits_of, element, vector
from xla_backend.llvm.types import lanes as lanes_of
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.transpose_plans import (
    LINE,
    PART,
    SPARE_BYTES,
    SQUARES,
    WOVEN,
    swapped_blocks,
)
from xla_backend.targets.cpu.routines.transpose_tasks import (
    Fill,
    Task,
    addresses,
    ask_for,
    emit_routine,
)
from xla_backend.targets.cpu.routines.transpose_writing import make_places, write, write_rows

# Of two registers of four parts: the first or last two of each; every other one.
_HALVES = ((0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
_ALTERNATE = ((0, 1, 4, 5, 8, 9, 12, 13), (2, 3, 6, 7, 10, 11, 14, 15))
_PART = vector("i8", PART)
# Bytes of units that are copied as memory is.
_LONG_UNIT = 1 << 12


# -- squares ---------------------------------------------------------------------------------------


def _squares(unit: int, task: Task) -> None:
    """A block in squares: rows of registers, transposed within parts of them, then part by part."""
    w = task.w
    padded = SQUARES[unit]
    lanes = PART // padded
    parts = task.width // PART
    # As many squares below each other as half of the registers hold, and as parts can be exchanged.
    registers = 32 if task.width == 64 or w.target.is_aarch64 else 16
    groups = min(parts, max(1, registers // 2 // lanes))
    source = w.gep("i8", task.source_start, w.imul(task.across_start, unit))
    addresses(task, task.sources, source, "along", task.along_start, task.along)
    target = w.gep("i8", task.target_start, w.imul(task.along_start, unit))
    addresses(task, task.targets, target, "across", task.across_start, task.across)
    row = w.imul(task.along, unit)
    joined = w.cmp("eq", "i64", task.pitch, row)
    places = make_places(task, task.across, lanes, joined)
    if padded == unit:
        _end_of_operand(task, lanes, unit)
        _all_squares(task, unit, groups, places)
    else:

        def here() -> list[str]:
            _several_times(task, lanes)
            _all_squares(task, unit, groups, places)
            return []

        one_by_one = lambda: _one_by_one(task, unit, places)
        w.if_else(_near_end(task, unit), [], one_by_one, here)
    with w.if_(task.staged):
        rows = w.select(joined, "i64", "1", task.across)
        size = w.select(joined, "i64", w.imul(task.across, row), row)
        write_rows(task, rows, size)


def _all_squares(task: Task, unit: int, groups: int, places: str) -> None:
    """All squares of a block, in the order of the operand, or in that of the result."""
    if unit < PART:
        _down_and_right(task, unit, groups, places)
        return

    def in_order(all_squares: Callable[[Task, int, int, str], None]) -> list[str]:
        all_squares(task, unit, groups, places)
        return []

    w = task.w
    tall = w.cmp("ne", "i64", task.number("tall"), "0")
    w.if_else(tall, [], partial(in_order, _right_and_down), partial(in_order, _down_and_right))


def _right_and_down(task: Task, unit: int, groups: int, places: str) -> None:
    """All squares of a block of units of a part, in the order of the result."""
    w, parts = task.w, task.width // PART
    wide = w.op("and", "i64", task.across, str(-parts))
    high = w.op("and", "i64", task.along, str(-groups))
    with w.loop("0", wide, parts) as right:
        with w.loop("0", high, groups) as down:
            _square(task, unit, groups, parts, down.index, right.index, places)
        with w.loop(high, task.along) as down:
            _square(task, unit, 1, parts, down.index, right.index, places)
    with w.loop(wide, task.across) as right, w.loop("0", task.along) as down:
        _square(task, unit, 1, 1, down.index, right.index, places)


def _down_and_right(task: Task, unit: int, groups: int, places: str) -> None:
    """All squares of a block in the operand's order: most are as large as registers are wide."""
    w, lanes = task.w, PART // SQUARES[unit]
    parts, rows = task.width // PART, lanes * groups
    wide = w.op("and", "i64", task.across, str(-(lanes * parts)))
    last_across = w.imax(w.isub(task.across, lanes), 0)
    last_along = w.imax(w.isub(task.along, lanes), 0)
    narrow = w.op("and", "i1", w.cmp("eq", "i64", wide, "0"), _asks(task))

    def ask_if_narrow(row: str, count: int) -> None:
        with w.if_(narrow):
            for k in range(count):
                ask_for(task, task.source(w.iadd(row, k)))

    done = "0"
    if groups < parts:
        # No square has rows enough for a whole register of the result, so parts of more rows do.
        done = w.op("and", "i64", task.along, str(-lanes * parts))
        done = w.select(w.cmp("ne", "i64", task.number("tall"), "0"), "i64", done, "0")
        with w.loop("0", done, lanes * parts) as down:
            with w.if_(_asks(task)):
                _ask_for_rows(task, unit, down.index, lanes * parts)
            with w.loop("0", task.across, lanes) as right:
                at = w.imin(right.index, last_across)
                _tall_square(task, unit, down.index, at, places)
    if groups > 1:
        begin, done = done, w.op("and", "i64", task.along, str(-rows))
        with w.loop(begin, done, rows) as down:
            ask_if_narrow(down.index, rows)
            with w.loop("0", wide, lanes * parts) as right:
                _square(task, unit, groups, parts, down.index, right.index, places)
            with w.loop(wide, task.across, lanes) as right:
                at = w.imin(right.index, last_across)
                with w.loop("0", str(rows), lanes) as group:
                    _square(task, unit, 1, 1, w.iadd(down.index, group.index), at, places)
    with w.loop(done, task.along, lanes) as down:
        row = w.imin(down.index, last_along)
        ask_if_narrow(row, lanes)
        with w.loop("0", wide, lanes * parts) as right:
            _square(task, unit, 1, parts, row, right.index, places)
        with w.loop(wide, task.across, lanes) as right:
            _square(task, unit, 1, 1, row, w.imin(right.index, last_across), places)


def _square(task: Task, unit: int, groups: int, parts: int, row: str, at: str, places: str) -> None:
    """Registers of `parts` parts, from `groups` times as many rows as a part has units."""
    w, padded = task.w, SQUARES[unit]
    lanes = PART // padded
    ty = _register(padded, parts * lanes)
    offset = w.imul(at, unit)
    made: list[list[str]] = []
    if parts > 1:
        with w.if_(_asks(task)):
            for k in range(groups * lanes):
                ask_for(task, w.gep("i8", task.source(w.iadd(row, k)), offset))
    for group in range(groups):
        registers = []
        for k in range(lanes):
            place = w.gep("i8", task.source(w.iadd(row, group * lanes + k)), offset)
            registers.append(_spread(w, ty, unit, place))
        made.append(interleaved(w, ty, registers, lanes))
    whole = vector("i64", parts * 2)
    columns = [[w.cast("bitcast", ty, group[k], whole) for group in made] for k in range(lanes)]
    columns = [_by_parts(w, whole, column) for column in columns]
    for k, registers in enumerate(columns):
        for i, register in enumerate(registers):
            for high in range(parts // groups):
                number = (high * groups + i) * lanes + k
                place = w.load("ptr", w.gep("ptr", places, w.iadd(at, number)))
                place = w.gep("i8", place, w.imul(row, unit))
                first = high * groups * 2
                kept = register
                if groups < parts:
                    kept = w.shuffle(whole, register, "poison", range(first, first + 2 * groups))
                _pushed_together(w, unit, groups, kept, place)


def _tall_square(task: Task, unit: int, row: str, at: str, places: str) -> None:
    """A part of as many rows as a register has units. They are put together as they are read, so
    that whole registers are written."""
    w, lanes, parts = task.w, PART // unit, task.width // PART
    ty, offset = _register(unit, parts * lanes), w.imul(at, unit)
    registers = []
    for k in range(lanes):
        rows = [w.iadd(row, part * lanes + k) for part in range(parts)]
        read = [w.load(_PART, w.gep("i8", task.source(r), offset), 1) for r in rows]
        register = _joined(w, read)
        registers.append(w.cast("bitcast", vector("i8", task.width), register, ty))
    for k, register in enumerate(interleaved(w, ty, registers, lanes)):
        place = w.load("ptr", w.gep("ptr", places, w.iadd(at, k)))
        w.store(ty, register, w.gep("i8", place, w.imul(row, unit)), 1)


def _asks(task: Task) -> str:
    """Whether what the next block reads is asked for."""
    return task.w.cmp("ne", "i64", task.number("ahead"), "0")


def _ask_for_rows(task: Task, unit: int, row: str, count: int) -> None:
    """Ask for some rows of the next block."""
    w = task.w
    with w.loop(row, w.iadd(row, count)) as loop:
        place = task.source(loop.index)
        with w.loop("0", w.imul(task.across, unit), LINE) as line:
            ask_for(task, w.gep("i8", place, line.index))


def _joined(w: FunctionWriter, registers: list[str], size: int = PART) -> str:
    """Registers of so many bytes, side by side in one."""
    while len(registers) > 1:
        pairs = zip(registers[::2], registers[1::2])
        ty = vector("i8", size)
        registers = [w.shuffle(ty, a, b, range(2 * size)) for a, b in pairs]
        size *= 2
    return registers[0]


def _spread(w: FunctionWriter, ty: str, unit: int, place: str) -> str:
    """A register of units, each padded where it is no power of two."""
    padded, parts = SQUARES[unit], lanes_of(ty) * bits_of(element(ty)) // (8 * PART)
    if padded == unit:
        return w.load(ty, place, 1)
    lanes = PART // padded
    at_once = 1 if not w.target.permutes_wide_bytes else parts
    whole = vector("i8", PART * at_once)
    picks = [
        n * unit + byte if byte < unit else -1
        for n in range(at_once * lanes)
        for byte in range(padded)
    ]
    registers = []
    for part in range(0, parts, at_once):
        read = w.load(whole, w.gep("i8", place, part * lanes * unit), 1)
        registers.append(w.shuffle(whole, read, "poison", picks))
    return w.cast("bitcast", vector("i8", PART * parts), _joined(w, registers, PART * at_once), ty)


def _pushed_together(w: FunctionWriter, unit: int, parts: int, register: str, place: str) -> None:
    """Stores the units of so many parts, without what they are padded with, and nothing else."""
    ty, padded = vector("i64", 2 * parts), SQUARES[unit]
    if padded == unit:
        w.store(ty, register, place, 1)
        return
    lanes, whole = PART // padded, vector("i8", PART * parts)
    units = w.cast("bitcast", ty, register, whole)
    at_once = 1 if not w.target.permutes_wide_bytes else parts
    for part in range(0, parts, at_once):
        picks = [
            n * padded + byte
            for n in range(part * lanes, (part + at_once) * lanes)
            for byte in range(unit)
        ]
        here = w.gep("i8", place, part * lanes * unit)
        if w.target.has_masked_moves(8):
            ty, size = vector("i8", PART * at_once), len(picks)
            stored = w.shuffle(whole, units, "poison", picks + [-1] * (PART * at_once - size))
            mask = ", ".join(f"i1 {str(k < size).lower()}" for k in range(PART * at_once))
            w.masked_store(ty, stored, here, f"<{mask}>")
            continue
        done = 0
        while done < len(picks):  # in pieces that are powers of two
            size = 1 << (len(picks) - done).bit_length() - 1
            ty, here_picks = vector("i8", size), picks[done : done + size]
            if size == 1:
                piece = w.extract(whole, units, here_picks[0])
            else:
                piece = w.shuffle(whole, units, "poison", here_picks)
            w.store(ty, piece, w.gep("i8", here, done), 1)
            done += size


def _register(unit: int, count: int) -> str:
    """A register of so many units."""
    bits = min(unit, 8)
    return vector(f"i{8 * bits}", count * unit // bits)


def _by_parts(w: FunctionWriter, ty: str, registers: list[str]) -> list[str]:
    """Parts that lie in the same place of several registers, side by side in one."""
    groups, parts = len(registers), lanes_of(ty) // 2
    if groups == parts == 4:
        # Two parts of each of two registers at a time: that needs no tables.
        a, b, c, d = registers
        low, high, low2, high2 = (
            w.shuffle(ty, x, y, pick) for x, y in ((a, b), (c, d)) for pick in _HALVES
        )
        ends = ((low, low2), (high, high2))
        return [w.shuffle(ty, x, y, pick) for x, y in ends for pick in _ALTERNATE]
    step = 1
    while step < groups:
        registers = exchange(w, ty, registers, step, unit=2)
        step *= 2
    return registers


def _end_of_operand(task: Task, lanes: int, unit: int) -> None:
    """Where there are fewer rows than a square has, the last is read several times. Rows that are
    shorter than a part, at the end of the operand, are read from a copy: nobody may read beyond
    it."""
    if lanes == 1:
        return
    w = task.w
    edge = w.alloca("i8", PART * PART, 16)
    end = w.gep("i8", task.context["in"], w.isub(task.number("size"), PART))
    with w.if_(w.cmp("slt", "i64", task.number("across"), str(lanes))):
        size = w.imul(task.number("across"), unit)
        with w.loop("0", task.along, 1, [("i64", "0")]) as loop:
            row = task.source(loop.index)
            place = w.gep("i8", edge, w.imul(loop.carried[0], PART))

            def copied() -> list[str]:
                copy_bytes(w, place, row, size)
                w.store("ptr", place, w.gep("ptr", task.sources, loop.index))
                return [w.iadd(loop.carried[0], 1)]

            near = w.cmp("ugt", "ptr", row, end)
            loop.next = w.if_else(near, ["i64"], copied, lambda: [loop.carried[0]])
    _several_times(task, lanes)


def _several_times(task: Task, lanes: int) -> None:
    """The last row of a block stands for those that a square has more."""
    w = task.w
    with w.if_(w.cmp("slt", "i64", task.along, str(lanes))):
        last = task.source(w.isub(task.along, 1))
        with w.loop(task.along, str(lanes)) as loop:
            w.store("ptr", last, w.gep("ptr", task.sources, loop.index))


def _near_end(task: Task, unit: int) -> str:
    """Whether the last register of a row may go beyond the end of the operand."""
    w, lanes = task.w, PART // SQUARES[unit]
    width = w.iadd(w.imul(w.imax(task.across, lanes), unit), task.width)
    end = w.gep("i8", task.context["in"], task.number("size"))
    left = w.cast("ptrtoint", "ptr", end, "i64")
    with w.loop("0", task.along, 1, [("i64", left)]) as loop:
        row = w.cast("ptrtoint", "ptr", task.source(loop.index), "i64")
        loop.next = [w.imin(loop.carried[0], w.isub(left, row))]
    return w.cmp("slt", "i64", loop.results[0], width)


def _one_by_one(task: Task, unit: int, places: str) -> list[str]:
    """All units of a block, where nothing beyond them may be read."""
    w = task.w
    with w.loop("0", task.along) as down:
        row, column = task.source(down.index), w.imul(down.index, unit)
        with w.loop("0", task.across) as right:
            place = w.gep("i8", w.load("ptr", w.gep("ptr", places, right.index)), column)
            copy_bytes(w, place, w.gep("i8", row, w.imul(right.index, unit)), str(unit))
    return []


# -- woven -----------------------------------------------------------------------------------------


def _gathered(w: FunctionWriter, ty: str, registers: Sequence[str], numbers: Sequence[int]) -> str:
    """The register whose lanes are those of these numbers, counted through several registers."""
    n = lanes_of(ty)
    each = n // (len(numbers))
    numbers = [number * each + j for number in numbers for j in range(each)]
    found = "poison"
    for k in range(len(registers)):
        here = [number // n == k for number in numbers]
        if any(here):
            picks = [n + x % n if own else j for j, (x, own) in enumerate(zip(numbers, here))]
            found = w.shuffle(ty, found, registers[k], picks)
    return found


def _windows(task: Task, count: str, lanes: int, step: Callable[[str], None]) -> None:
    """Steps of so many units: the last one begins where it ends with the block."""
    w = task.w
    last = w.isub(count, lanes)
    with w.loop("0", count, lanes) as loop:
        step(w.imin(loop.index, last))


def _apart(few: int, unit: int, task: Task) -> None:
    w = task.w
    lanes = task.width // unit
    ty = _register(unit, lanes)
    source = w.gep("i8", task.source_start, w.imul(task.along_start, few * unit))
    target = w.gep("i8", task.target_start, w.imul(task.along_start, unit))
    addresses(task, task.targets, target, "across", "0", str(few))

    def step(at: str) -> None:
        here = w.gep("i8", source, w.imul(at, few * unit))
        read = [w.load(ty, w.gep("i8", here, k * task.width), 1) for k in range(few)]
        for k in range(few):
            made = _gathered(w, ty, read, [j * few + k for j in range(lanes)])
            row = w.load("ptr", w.gep("ptr", places, k))
            w.store(ty, made, w.gep("i8", row, w.imul(at, unit)), 1)

    places = make_places(task, str(few), few)
    _windows(task, task.along, lanes, step)
    with w.if_(task.staged):
        write_rows(task, str(few), w.imul(task.along, unit))


def _together(few: int, unit: int, task: Task) -> None:
    w = task.w
    lanes = task.width // unit
    ty = _register(unit, lanes)
    source = w.gep("i8", task.source_start, w.imul(task.across_start, unit))
    addresses(task, task.sources, source, "along", "0", str(few))

    def step(at: str) -> None:
        offset = w.imul(at, unit)
        read = [w.load(ty, w.gep("i8", task.source(k), offset), 1) for k in range(few)]
        here = w.gep("i8", place, w.imul(at, few * unit))
        for k in range(few):
            numbers = [(k * lanes + j) % few * lanes + (k * lanes + j) // few for j in range(lanes)]
            w.store(ty, _gathered(w, ty, read, numbers), w.gep("i8", here, k * task.width), 1)

    target = w.gep("i8", task.target_start, w.imul(task.across_start, few * unit))
    place = w.select(task.staged, "ptr", task.stage, target)
    _windows(task, task.across, lanes, step)
    with w.if_(task.staged):
        write(task, target, task.stage, w.imul(task.across, few * unit))


def _swapped(across: int, along: int, unit: int, task: Task) -> None:
    """Blocks that stay where they are, with two small dimensions exchanged within each."""
    w, size = task.w, across * along
    start = w.imul(task.along_start, size * unit)
    source, target = w.gep("i8", task.source_start, start), w.gep("i8", task.target_start, start)
    place = w.select(task.staged, "ptr", task.stage, target)
    turn = max(1, task.width // unit // size)

    def exchange_all(blocks: int, at: str) -> None:
        offset = w.imul(at, size * unit)
        _exchange_within(
            task,
            (across, along, unit),
            blocks,
            w.gep("i8", source, offset),
            w.gep("i8", place, offset),
        )

    whole = w.isub(task.along, w.op("urem", "i64", task.along, str(turn)))
    with w.loop("0", whole, turn) as loop:
        exchange_all(turn, loop.index)
    with w.loop(whole, task.along) as loop:
        exchange_all(1, loop.index)
    with w.if_(task.staged):
        write(task, target, task.stage, w.imul(task.along, size * unit))


def _exchange_within(
    task: Task, sizes: tuple[int, int, int], blocks: int, source: str, target: str
) -> None:
    """Some blocks at once: register by register, the last of which ends with them."""
    w = task.w
    across, along, unit = sizes
    size = across * along
    count, lanes = blocks * size, task.width // unit
    lanes = min(lanes, count)
    ty = _register(unit, lanes)
    starts = [min(k, count - lanes) for k in range(0, count, lanes)]
    read = [w.load(ty, w.gep("i8", source, k * unit), 1) for k in starts]
    for start in starts:
        numbers = []
        for place in range(start, start + lanes):
            block, rest = divmod(place, size)
            there = block * size + rest % along * across + rest // along
            register = min(there // lanes, len(starts) - 1)
            numbers.append(register * lanes + there - starts[register])
        made = _gathered(w, ty, read, numbers)
        w.store(ty, made, w.gep("i8", target, start * unit), 1)


# -- units of any size -----------------------------------------------------------------------------


def _units(task: Task) -> None:
    w, unit = task.w, task.number("unit")
    source = w.gep("i8", task.source_start, w.imul(task.across_start, unit))
    addresses(task, task.sources, source, "along", task.along_start, task.along)
    target = w.gep("i8", task.target_start, w.imul(task.along_start, unit))
    addresses(task, task.targets, target, "across", task.across_start, task.across)
    places = make_places(task, task.across, 0)

    def each(move: Callable[[str, str], None]) -> Callable[[], list[str]]:
        def loops() -> list[str]:
            with w.loop("0", task.along) as down:
                one_row(down.index, move)
            return []

        return loops

    def one_row(number: str, move: Callable[[str, str], None]) -> None:
        row, column = task.source(number), w.imul(number, unit)
        _ask_for_all(task, row, w.imul(task.across, unit))
        with w.loop("0", task.across) as right:
            place = w.load("ptr", w.gep("ptr", places, right.index))
            move(w.gep("i8", place, column), w.gep("i8", row, w.imul(right.index, unit)))

    def by_columns(move: Callable[[str, str], None]) -> Callable[[], list[str]]:
        """Large units, in the order of the result: there are more of them along than across."""

        def loops() -> list[str]:
            with w.loop("0", task.across) as right:
                place = w.load("ptr", w.gep("ptr", places, right.index))
                column = w.imul(right.index, unit)
                with w.loop("0", task.along) as down:
                    here = w.gep("i8", place, w.imul(down.index, unit))
                    there = w.gep("i8", task.source(down.index), column)
                    _ask_for_all(task, there, unit)
                    move(here, there)
            return []

        return loops

    def pieces(place: str, source: str, size: int) -> None:
        """In pieces, of which the last one ends with the unit."""
        ty = vector("i8", size)
        last = w.isub(unit, size)
        with w.loop("0", unit, size) as loop:
            at = w.imin(loop.index, last)
            w.store(ty, w.load(ty, w.gep("i8", source, at), 1), w.gep("i8", place, at), 1)

    def two(size: int, place: str, source: str) -> None:
        ty = vector("i8", size)
        last = w.isub(unit, size)
        values = [w.load(ty, w.gep("i8", source, at), 1) for at in ("0", last)]
        for at, value in zip(("0", last), values):
            w.store(ty, value, w.gep("i8", place, at), 1)

    sizes = [size for size in (16, 32, 64) if size <= task.width]
    classes = []
    for size in sizes:
        order = each if size < LINE else by_columns
        classes.append((2 * size + 1, order(partial(two, size))))
    otherwise = by_columns(lambda place, source: pieces(place, source, sizes[-1]))
    for limit, move in reversed(classes):
        otherwise = _choice(w, w.cmp("slt", "i64", unit, str(limit)), move, otherwise)
    otherwise()
    with w.if_(task.staged):
        write_rows(task, task.across, w.imul(task.along, unit))


def _choice(
    w: FunctionWriter, condition: str, then: Callable[[], list[str]], other: Callable[[], list[str]]
) -> Callable[[], list[str]]:
    return lambda: w.if_else(condition, [], then, other)


def _rows(task: Task) -> None:
    """Units that are rows of their own, in the order of the operand."""
    w, unit = task.w, task.number("unit")
    source = w.gep("i8", task.source_start, w.imul(task.across_start, unit))
    addresses(task, task.sources, source, "along", task.along_start, task.along)
    target = w.gep("i8", task.target_start, w.imul(task.along_start, unit))
    addresses(task, task.targets, target, "across", task.across_start, task.across)
    with w.loop("0", task.along) as down, w.loop("0", task.across) as right:
        place = w.gep("i8", task.target(right.index), w.imul(down.index, unit))
        there = w.gep("i8", task.source(down.index), w.imul(right.index, unit))

        def copied() -> list[str]:
            copy_bytes(w, place, there, unit)
            return []

        def written() -> list[str]:
            _ask_for_all(task, there, unit)
            write(task, place, there, unit)
            return []

        # The processor itself asks for what is that long, and to ask for every line takes longer.
        long = w.cmp("sge", "i64", unit, str(_LONG_UNIT))
        within = w.op("xor", "i1", task.past, "true")
        w.if_else(w.op("and", "i1", long, within), [], copied, written)


def _ask_for_all(task: Task, place: str, size: str) -> None:
    """Ask for what the next block reads in place of so many bytes."""
    with task.w.loop("0", size, LINE) as line:
        ask_for(task, task.w.gep("i8", place, line.index))


def register() -> None:
    """Declares the transposes."""

    def declare(name: str, fill: Fill, spare: int) -> None:
        symbol = f"pyjax_{name}"
        register_group(name, (symbol,), partial(emit_routine, fill, spare, symbol))

    for unit in SQUARES:
        declare(f"transpose_{unit}", partial(_squares, unit), PART // SQUARES[unit] - 1)
    declare("transpose_units", _units, 0)
    declare("transpose_rows", _rows, 0)
    for unit, most in WOVEN.items():
        for few in range(2, most + 1):
            spare = SPARE_BYTES // unit - 1
            declare(f"apart_{few}_{unit}", partial(_apart, few, unit), spare)
            declare(f"together_{few}_{unit}", partial(_together, few, unit), spare)
    for across, along, unit in swapped_blocks():
        declare(f"swapped_{across}_{along}_{unit}", partial(_swapped, across, along, unit), 0)
