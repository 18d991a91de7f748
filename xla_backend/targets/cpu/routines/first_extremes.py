"""The first largest or smallest element of each row, and its place; a NaN comes before all others.

  void pyjax_first_<max|min>_<t>(ptr in, ptr values, ptr places, ptr work, i64 outer, i64 n)
        in: [outer, n]; values: [outer]; places: s32 [outer]; 0 < n < 2^31
        work: s64 [outer * parts], parts = ceil(n / PART)

A part of a row goes block by block: the extreme of a block is compared with that of the blocks
before, and the block that holds the extreme of all is searched at the end. Parts run in parallel.
Of truth values the first that is wanted is all there is to find: no part is searched that comes
behind one in which it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm import elemental
from xla_backend.llvm.bit_counts import first_one
from xla_backend.llvm.bytes import FAR_BYTES, prefetch
from xla_backend.llvm.types import const, mask_of, memory_type, register_type, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.row_types import EXTREME_TYPES, EXTREMES, PART
from xla_backend.targets.cpu.routines.task_context import TaskContext, run_many_tasks

_BLOCK_BYTES = 1 << 12
_UNROLL = 4
_AHEAD = 1 << 12
# Fewer are done before another thread has woken.
_PARALLEL = 1 << 17
_PARALLEL_TRUTH = 1 << 20
_NOWHERE = (1 << 31) - 1
_CONTEXT = TaskContext(("in", "values", "places", "work", "outer", "n"), pointers=4)


class _Row:
    """Elements as they are compared: truth values are bytes of 0 and 1."""

    def __init__(self, w: FunctionWriter, t: P, extreme: str) -> None:
        self.w, self.extreme = w, extreme
        self.t = P.U8 if t is P.PRED else t
        self.element = memory_type(self.t)
        self.lanes = max(1, w.target.lanes(8 * t.byte_size))

    def load(self, place: str, lanes: int, row: str = "%row") -> str:
        return elemental.load(self.w, self.t, lanes, row, place)

    def better(self, a: str, b: str, lanes: int) -> str:
        return elemental.emit(self.w, EXTREMES[self.extreme], self.t, lanes, a, b)

    def type(self, lanes: int) -> str:
        return vector(register_type(self.t), lanes)

    def is_better(self, a: str, b: str, lanes: int = 1) -> str:
        """Whether elements come before others that are earlier in the row."""
        w, ty, mask = self.w, self.type(lanes), mask_of(self.type(lanes))
        less, greater = ("olt", "ogt") if self.t.is_floating else self._orders()
        found = w.cmp(greater if self.extreme == "max" else less, ty, a, b)
        if self.t.is_floating:
            only = w.op("and", mask, w.cmp("uno", ty, a, a), w.cmp("ord", ty, b, b))
            found = w.op("or", mask, found, only)
        return found

    def is_it(self, values: str, wanted: str, lanes: int) -> str:
        """Which elements are the wanted one: any zero for a zero, any NaN for a NaN."""
        w, ty = self.w, self.type(lanes)
        if not self.t.is_floating:
            return w.cmp("eq", ty, values, w.splat(ty, wanted))
        is_nan = w.splat(mask_of(ty), w.cmp("uno", self.type(1), wanted, wanted))
        nan = w.op("and", mask_of(ty), is_nan, w.cmp("uno", ty, values, values))
        return w.op("or", mask_of(ty), nan, w.cmp("oeq", ty, values, w.splat(ty, wanted)))

    def _orders(self) -> tuple[str, str]:
        return ("slt", "sgt") if self.t.is_signed_integral else ("ult", "ugt")


def _of_lanes(r: _Row, best: str) -> str:
    """The extreme of the lanes of a vector."""
    w, lanes = r.w, r.lanes
    while lanes > 1:
        half, ty = lanes // 2, r.type(lanes)
        if half == 1:
            ends = [w.extract(ty, best, k) for k in range(2)]
        else:
            halves = (range(half), range(half, lanes))
            ends = [w.shuffle(ty, best, "poison", list(places)) for places in halves]
        lanes = half
        best = r.better(ends[0], ends[1], lanes)
    return best


def _emit_extreme(module: ModuleWriter, t: P, extreme: str) -> str:
    """T extreme(ptr row, i64 n): of some elements; the name."""
    name = f"{extreme}.{t}"
    shown = "i8" if t is P.PRED else register_type(t)
    w = module.function(name, [("ptr", "row"), ("i64", "n")], shown, internal=True)
    r = _Row(w, t, extreme)
    ty, some = r.type(r.lanes), _UNROLL * r.lanes
    start = w.splat(ty, r.load("0", 1))
    most, whole = (w.op("and", "i64", "%n", str(-size)) for size in (some, r.lanes))
    with w.loop("0", most, some, [(ty, start)] * _UNROLL) as loop:
        places = [w.iadd(loop.index, k * r.lanes) for k in range(_UNROLL)]
        values = [r.load(place, r.lanes) for place in places]
        loop.next = [r.better(a, b, r.lanes) for a, b in zip(loop.carried, values)]
    together = reduce(lambda a, b: r.better(a, b, r.lanes), loop.results)
    with w.loop(most, whole, r.lanes, [(ty, together)]) as loop:
        loop.next = [r.better(loop.carried[0], r.load(loop.index, r.lanes), r.lanes)]
    best = _of_lanes(r, loop.results[0])
    with w.loop(whole, "%n", 1, [(r.type(1), best)]) as loop:
        loop.next = [r.better(loop.carried[0], r.load(loop.index, 1), 1)]
    w.ret(shown, loop.results[0])
    return name


def _emit_search(module: ModuleWriter, t: P, extreme: str) -> str:
    """i64 search(ptr row, T wanted): the first place of an element that is there; the name."""
    name = f"search.{extreme}.{t}"
    shown = "i8" if t is P.PRED else register_type(t)
    params = [("ptr", "row"), (shown, "wanted"), ("i64", "n")]
    w = module.function(name, params, "i64", internal=True)
    r = _Row(w, t, extreme)
    bits = f"i{r.lanes}"
    whole = w.op("and", "i64", "%n", str(-r.lanes))

    def found(place: str) -> str:
        here = r.is_it(r.load(place, r.lanes), "%wanted", r.lanes)
        return here if r.lanes == 1 else w.cast("bitcast", mask_of(r.type(r.lanes)), here, bits)

    def step(state: list[str]) -> list[str]:
        return [w.iadd(state[0], r.lanes), found(state[0])]

    def goes_on(state: list[str]) -> str:
        none = w.cmp("eq", bits, state[1], "0")
        return w.op("and", "i1", none, w.cmp("slt", "i64", state[0], whole))

    zero = "false" if r.lanes == 1 else "0"
    end, hits = w.while_([("i64", "0"), (bits, zero)], goes_on, step)
    inside = w.cmp("ne", bits, hits, "0")
    done, rest = w.new_label("done"), w.new_label("rest")
    w.cond_br(inside, done, rest)
    w.label(done)
    with w.scope():
        lane = first_one(w, bits, hits, is_there=True)
        w.ret("i64", w.iadd(w.isub(end, r.lanes), lane))
    w.label(rest)
    last = w.isub("%n", 1)

    def other(state: list[str]) -> str:
        differs = w.not_("i1", r.is_it(r.load(state[0], 1), "%wanted", 1))
        return w.op("and", "i1", differs, w.cmp("slt", "i64", state[0], last))

    def one_by_one() -> list[str]:
        return w.while_([("i64", whole)], other, lambda state: [w.iadd(state[0], 1)])

    def of_last_vector() -> list[str]:
        """Which begins earlier: what it shares with the one before is not wanted."""
        begin = w.isub("%n", r.lanes)
        return [w.imin(w.iadd(begin, first_one(w, bits, found(begin))), last)]

    if r.lanes > 1:
        fits = w.cmp("sge", "i64", "%n", str(r.lanes))
        (place,) = w.if_else(fits, ["i64"], of_last_vector, one_by_one)
    else:
        (place,) = one_by_one()
    w.ret("i64", place)
    return name


def _ask_for(w: FunctionWriter, place: str) -> None:
    """Ask for what is a page behind: the processor itself does not look beyond the end of one."""
    ahead = w.pure(f"getelementptr i8, ptr {place}, i64 {_AHEAD}", place)
    prefetch(w, ahead, far=True)


def _emit_part(module: ModuleWriter, t: P, extreme: str) -> str:
    """void part(ptr ctx, i64 task): the place of the extreme of a part of a row, to `work`."""
    of_block, search = _emit_extreme(module, t, extreme), _emit_search(module, t, extreme)
    name = f"part.{extreme}.{t}"
    w = module.function(name, [("ptr", "ctx"), ("i64", "task")], internal=True)
    r = _Row(w, t, extreme)
    source, _, _, work, outer, n = _CONTEXT.fields(w)
    far = w.cmp("sge", "i64", w.imul(outer, n), str(FAR_BYTES // t.byte_size))
    parts = w.op("udiv", "i64", w.iadd(n, PART - 1), str(PART))
    number = w.op("udiv", "i64", "%task", parts)
    start = w.imul(w.isub("%task", w.imul(number, parts)), PART)
    count = w.imin(w.isub(n, start), PART)
    row = w.gep(r.element, source, w.iadd(w.imul(number, n), start))
    block = _BLOCK_BYTES // t.byte_size
    ty = r.type(1)

    whole = w.op("and", "i64", count, str(-block))
    wide, mask, bits = r.type(r.lanes), mask_of(r.type(r.lanes)), f"i{r.lanes}"

    def better_of(kept: str, best: str, at: str, value: str) -> list[str]:
        better = r.is_better(value, best, 1)
        return [w.select(better, "i64", at, kept), w.select(better, ty, value, best)]

    first = w.call(of_block, ty, [("ptr", row), ("i64", w.imin(count, block))])
    with w.loop(str(block), whole, block, [("i64", "0"), (ty, first)]) as loop:
        at, (kept, best) = loop.index, loop.carried
        firsts = [r.load(w.iadd(at, k * r.lanes), r.lanes, row) for k in range(_UNROLL)]

        def ends_of_block(asks: bool, at: str = at, firsts: Sequence[str] = firsts) -> list[str]:
            carried = [(wide, value) for value in firsts]
            with w.loop(r.lanes * _UNROLL, block, r.lanes * _UNROLL, carried) as inner:
                places = [w.iadd(w.iadd(at, inner.index), k * r.lanes) for k in range(_UNROLL)]
                values = [r.load(place, r.lanes, row) for place in places]
                for place in places if asks else ():
                    _ask_for(w, w.gep(r.element, row, place))
                inner.next = [r.better(a, b, r.lanes) for a, b in zip(inner.carried, values)]
            return list(inner.results)

        kinds = [wide] * _UNROLL
        ends = w.if_else(far, kinds, partial(ends_of_block, True), partial(ends_of_block, False))
        while True:
            if len(ends) <= 1:
                break
            ends = [r.better(a, b, r.lanes) for a, b in zip(ends[::2], ends[1::2])]
        some = r.is_better(ends[0], w.splat(wide, best), r.lanes)
        if r.lanes > 1:
            some = w.cmp("ne", bits, w.cast("bitcast", mask, some, bits), "0")

        def improved(
            at: str = at, kept: str = kept, best: str = best, end: str = ends[0]
        ) -> list[str]:
            return better_of(kept, best, at, _of_lanes(r, end))

        old = [kept, best]
        loop.next = w.if_else(some, ["i64", ty], improved, partial(list, old), likely=False)
    rest = w.op("and", "i1", w.cmp("sgt", "i64", count, whole), w.cmp("sgt", "i64", whole, "0"))

    def last() -> list[str]:
        given = [("ptr", w.gep(r.element, row, whole)), ("i64", w.isub(count, whole))]
        kept, best = loop.results
        return better_of(kept, best, whole, w.call(of_block, ty, given))

    kept, best = w.if_else(rest, ["i64", ty], last, lambda: list(loop.results))
    size = w.imin(w.isub(count, kept), block)
    given = [("ptr", w.gep(r.element, row, kept)), (ty, best), ("i64", size)]
    place = w.iadd(w.iadd(start, kept), w.call(search, "i64", given))
    w.store("i64", place, w.gep("i64", work, "%task"))
    w.ret()
    return name


def _emit_truth_part(module: ModuleWriter, extreme: str) -> str:
    """void part(ptr ctx, i64 task): the first wanted truth value of a part of a row; its place goes
    to `places` unless an earlier one is there."""
    search, wanted = _emit_search(module, P.PRED, extreme), str(int(extreme == "max"))
    name = f"part.{extreme}.{P.PRED}"
    w = module.function(name, [("ptr", "ctx"), ("i64", "task")], internal=True)
    source, _, places, _, _, n = _CONTEXT.fields(w)
    parts = w.op("udiv", "i64", w.iadd(n, PART - 1), str(PART))
    number = w.op("udiv", "i64", "%task", parts)
    start = w.imul(w.isub("%task", w.imul(number, parts)), PART)
    cell = w.gep("i32", places, number)
    found = w.value(f"load atomic i32, ptr {cell} monotonic, align 4")
    with w.if_(w.cmp("sgt", "i64", w.cast("sext", "i32", found, "i64"), start)):
        row = w.gep("i8", source, w.iadd(w.imul(number, n), start))
        count = w.imin(w.isub(n, start), PART)
        skipped = _others(w, row, count, extreme)
        with w.if_(w.cmp("slt", "i64", skipped, count)):
            begin = w.gep("i8", row, skipped)
            given = [("ptr", begin), ("i8", wanted), ("i64", w.isub(count, skipped))]
            place = w.call(search, "i64", given)
            with w.if_(w.cmp("eq", "i8", w.load("i8", w.gep("i8", begin, place)), wanted)):
                here = w.iadd(w.iadd(start, skipped), place)
                here = w.cast("trunc", "i64", here, "i32")
                w.value(f"atomicrmw umin ptr {cell}, i32 {here} monotonic")
    w.ret()
    return name


def _others(w: FunctionWriter, row: str, count: str, extreme: str) -> str:
    """How many truth values at the begin of a row, some vectors at a time, have none wanted."""
    lanes = w.target.lanes(8)
    ty, bits, some = vector("i8", lanes), f"i{lanes}", _UNROLL * lanes
    join, without = ("or", const(ty, 0)) if extreme == "max" else ("and", const(ty, 1))
    whole = w.op("and", "i64", count, str(-some))

    def step(state: list[str]) -> list[str]:
        places = [w.gep("i8", row, w.iadd(state[0], k * lanes)) for k in range(_UNROLL)]
        joined = reduce(partial(w.op, join, ty), [w.load(ty, place) for place in places])
        wanted = w.cast("bitcast", mask_of(ty), w.cmp("ne", ty, joined, without), bits)
        return [w.iadd(state[0], some), wanted]

    def goes_on(state: list[str]) -> str:
        none = w.cmp("eq", bits, state[1], "0")
        return w.op("and", "i1", none, w.cmp("slt", "i64", state[0], whole))

    end, hits = w.while_([("i64", "0"), (bits, "0")], goes_on, step)
    return w.select(w.cmp("eq", bits, hits, "0"), "i64", end, w.isub(end, some))


def _in_first_vector(w: FunctionWriter, row: str, extreme: str) -> str:
    """Where the first wanted truth value is, if it is there."""
    lanes = w.target.lanes(8)
    if lanes == 1:
        return str(_NOWHERE)
    ty, bits = vector("i8", lanes), f"i{lanes}"

    def look() -> list[str]:
        wanted = const(ty, int(extreme == "max"))
        hits = w.cmp("eq", ty, w.load(ty, row, 1), wanted)
        place = first_one(w, bits, w.cast("bitcast", mask_of(ty), hits, bits))
        found = w.cmp("slt", "i64", place, str(lanes))
        return [w.select(found, "i32", w.cast("trunc", "i64", place, "i32"), str(_NOWHERE))]

    fits = w.cmp("sge", "i64", "%n", str(lanes))
    return w.if_else(fits, ["i32"], look, lambda: [str(_NOWHERE)])[0]


def _emit_truth_group(extreme: str, module: ModuleWriter) -> None:
    part = _emit_truth_part(module, extreme)
    w = module.function(f"pyjax_first_{extreme}_{P.PRED}", _CONTEXT.parameters())
    context = _CONTEXT.make(w, [f"%{name}" for name in _CONTEXT.names])
    parts = w.op("udiv", "i64", w.iadd("%n", PART - 1), str(PART))
    tasks, size = w.imul("%outer", parts), w.imul("%outer", "%n")
    with w.loop("0", "%outer") as number:
        cell = w.gep("i32", "%places", number.index)
        place = _in_first_vector(w, w.gep("i8", "%in", w.imul(number.index, "%n")), extreme)
        w.store("i32", place, cell)
        with w.if_(w.cmp("eq", "i32", place, str(_NOWHERE))):
            # Where it comes early, nobody else is asked for help.
            first = w.imul(number.index, parts)
            w.call(part, "void", [("ptr", context), ("i64", first)])

    def rest() -> None:
        many = w.cmp("sge", "i64", size, str(_PARALLEL_TRUTH))
        run_many_tasks(w, many, part, context, tasks)

    with w.loop("0", "%outer", 1, [("i64", "0")]) as number:
        place = w.load("i32", w.gep("i32", "%places", number.index))
        missing = w.cmp("eq", "i32", place, str(_NOWHERE))
        number.next = [w.iadd(number.carried[0], w.cast("zext", "i1", missing, "i64"))]
    several = w.cmp("sgt", "i64", parts, "1")
    with w.if_(w.op("and", "i1", several, w.cmp("ne", "i64", number.results[0], "0"))):
        rest()
    with w.loop("0", "%outer") as number:
        cell = w.gep("i32", "%places", number.index)
        place = w.load("i32", cell)
        missing = w.cmp("eq", "i32", place, str(_NOWHERE))
        w.store("i32", w.select(missing, "i32", "0", place), cell)
        is_max = "1" if extreme == "max" else "0"
        found = w.cast("zext", "i1", missing, "i8")
        w.store("i8", w.op("xor", "i8", found, is_max), w.gep("i8", "%values", number.index))
    w.ret()


def _emit_group(t: P, extreme: str, module: ModuleWriter) -> None:
    if t is P.PRED:
        return _emit_truth_group(extreme, module)
    part = _emit_part(module, t, extreme)
    w = module.function(f"pyjax_first_{extreme}_{t}", _CONTEXT.parameters())
    r = _Row(w, t, extreme)
    ty = r.type(1)
    context = _CONTEXT.make(w, [f"%{name}" for name in _CONTEXT.names])
    parts = w.op("udiv", "i64", w.iadd("%n", PART - 1), str(PART))
    tasks = w.imul("%outer", parts)

    many = w.cmp("sge", "i64", w.imul("%outer", "%n"), str(_PARALLEL))
    run_many_tasks(w, many, part, context, tasks)
    with w.loop("0", "%outer") as number:
        row = w.gep(r.element, "%in", w.imul(number.index, "%n"))
        found = w.gep("i64", "%work", w.imul(number.index, parts))

        def at(place: str, row: str = row) -> str:
            return elemental.load(w, r.t, 1, row, place)

        place = w.load("i64", found)
        with w.loop("1", parts, 1, [("i64", place), (ty, at(place))]) as loop:
            place = w.load("i64", w.gep("i64", found, loop.index))
            value = at(place)
            better = r.is_better(value, loop.carried[1])
            pairs = zip(("i64", ty), (place, value), loop.carried, strict=True)
            loop.next = [w.select(better, kind, new, old) for kind, new, old in pairs]
        place, value = loop.results
        elemental.store(w, r.t, 1, value, "%values", number.index)
        w.store("i32", w.cast("trunc", "i64", place, "i32"), w.gep("i32", "%places", number.index))
    w.ret()


def register() -> None:
    """Declares the searches for extremes."""
    for t in EXTREME_TYPES:
        for extreme in EXTREMES:
            emit = partial(_emit_group, t, extreme)
            register_group(f"first_{extreme}_{t}", (f"pyjax_first_{extreme}_{t}",), emit)
