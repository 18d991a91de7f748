"""SciPy's LAPACK, called by native code for every matrix of a batch.

  void pyjax_lapack_<routine>_<t>(numbers, arrays, ptr work)      see `lapack_table`

Matrices lie by rows here and by columns there: they are transposed on the way in and out. Problems
of a batch go on the threads of the pool, and LAPACK has one thread then; it has more where one
problem is large (`library_threads`). Each task has memory of its own, in which all of its problems
are computed: results do not depend on how many threads there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.bytes import copy_bytes
from xla_backend.llvm.types import const, element, mask_of
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.runtime.host_libraries.lapack_arguments import PREFIX
from xla_backend.runtime.host_libraries.lapack_functions import typed_name
from xla_backend.targets.cpu.routines.lapack_table import LAPACK, LapackRoutine
from xla_backend.targets.cpu.routines.matrix_facts import REALS
from xla_backend.targets.cpu.routines.matrix_lanes import element_of
from xla_backend.targets.cpu.routines.matrix_rows import Rows, emit_transpose
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.task_context import read_table, run_tasks, table_of_parameters

_REAL_TYPES = {P.F32: "float", P.F64: "double"}


class _Problem:
    """The code for one problem: its numbers, arrays and memory by name."""

    def __init__(
        self,
        w: FunctionWriter,
        t: P,
        routine: LapackRoutine,
        given: Mapping[str, str],
        number: str,
        memory: str,
    ) -> None:
        self.w, self.t, self.routine, self.given = w, t, routine, given
        self.is_complex = t.is_complex
        self.real = _REAL_TYPES[REALS[t]]
        self._number, self._memory = number, memory
        self._arrays = {array.name: array for array in routine.arrays}

    def array(self, name: str) -> str:
        """This problem's part of an array."""
        array = self._arrays[name]
        nbytes: str | int = array.type_for(self.t).byte_size
        for size in array.sizes:
            nbytes = self.w.imul(self.given[size], nbytes)
        return self.w.gep("i8", self.given[name], self.w.imul(self._number, nbytes))

    def area(self, name: str) -> str:
        return self.w.gep("i8", self._memory, self.given[f"at_{name}"])

    def __getitem__(self, name: str) -> str:
        return self.given[name]

    # -- arguments of LAPACK -----------------------------------------------------------------------

    def integer(self, value: str) -> str:
        """The address of an int."""
        place = self.w.alloca("i32")
        narrow = value if value[0] != "%" else self.w.cast("trunc", "i64", value, "i32")
        self.w.store("i32", narrow, place)
        return place

    def leading(self, rows: str) -> str:
        return self.integer(self.w.imax(rows, 1))

    def letter(self, code: str) -> str:
        """The address of a letter, from its code or the letter itself."""
        place = self.w.alloca("i8")
        value = self.w.cast("trunc", "i64", code, "i8") if code[0] == "%" else str(ord(code))
        self.w.store("i8", value, place)
        return place

    def call(self, *arguments: str) -> None:
        """Of the routine itself, by addresses."""
        name = PREFIX + typed_name(self.routine.name, self.t.numpy_dtype)
        self.w.call(name, "void", [("ptr", argument) for argument in arguments])

    def info(self) -> str:
        """Where info goes: it may be left out."""
        if not self._arrays["info"].optional:
            return self.array("info")
        given = self.w.cmp("ne", "ptr", self.given["info"], "null")
        return self.w.select(given, "ptr", self.array("info"), self.w.alloca("i32"))

    # -- memory ------------------------------------------------------------------------------------

    def by_columns(self, source: str, rows: str, columns: str, target: str) -> str:
        """Transposes an array that has as many rows and columns; the copy."""
        values = [("ptr", source), ("i64", rows), ("i64", columns), ("i64", "0")]
        self.w.call("rows.transpose", "void", [*values, ("ptr", target)])
        return target

    def by_rows(self, source: str, rows: str, columns: str, target: str) -> None:
        """Back: it has so many rows and columns for LAPACK."""
        self.by_columns(source, columns, rows, target)

    def copy(self, source: str, target: str, *counts: str) -> None:
        copy_bytes(self.w, target, source, self._bytes(*counts))

    def zero(self, target: str, *counts: str, nbytes: int | None = None) -> None:
        w = self.w
        w.module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
        size = self._bytes(*counts, nbytes=nbytes)
        w.line(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {size}, i1 false)")

    def _bytes(self, *counts: str, nbytes: int | None = None) -> str:
        size: str | int = self.t.byte_size if nbytes is None else nbytes
        for count in counts:
            size = self.w.imul(count, size)
        return str(size)

    def is_letter(self, option: str, letter: str) -> str:
        return self.w.cmp("eq", "i64", self.given[option], str(ord(letter)))

    def either(self, condition: str, yes: Callable[[], None], no: Callable[[], None]) -> None:
        def arm(work: Callable[[], None]) -> list[str]:
            work()
            return []

        self.w.if_else(condition, [], partial(arm, yes), partial(arm, no))


# -- the routines ----------------------------------------------------------------------------------


def _potrf(p: _Problem) -> None:
    """By columns a is its conjugate, and a lower factor of a the upper one of that."""
    n, factor = p["n"], p.array("factor")
    p.copy(p.array("a"), factor, n, n)
    other = p.w.isub(str(ord("L") + ord("U")), p["uplo"])
    p.call(p.letter(other), p.integer(n), factor, p.leading(n), p.info())


def _geqp3(p: _Problem) -> None:
    m, n, matrix, pivots = p["m"], p["n"], p.area("matrix"), p.array("pivots")
    p.by_columns(p.array("a"), m, n, matrix)
    copy_bytes(p.w, pivots, p.array("fixed"), p.w.imul(n, 4))
    work = [p.area("work"), p.integer(p["lwork"])]
    work += [p.area("rwork")] if p.is_complex else []
    taus = p.array("taus")
    p.call(p.integer(m), p.integer(n), matrix, p.leading(m), pivots, taus, *work, p.info())
    p.by_rows(matrix, m, n, p.array("packed"))


def _ormqr(p: _Problem) -> None:
    w, m, n, matrix, reflectors = p.w, p["m"], p["n"], p.area("matrix"), p.area("reflectors")
    p.by_columns(p.array("a"), p["r"], p["p"], reflectors)
    p.by_columns(p.array("c"), m, n, matrix)
    left = w.cmp("ne", "i64", p["left"], "0")
    side = p.letter(w.select(left, "i64", str(ord("L")), str(ord("R"))))
    adjoint = str(ord("C" if p.is_complex else "T"))
    turned = w.cmp("ne", "i64", p["transpose"], "0")
    trans = p.letter(w.select(turned, "i64", adjoint, str(ord("N"))))
    sizes = p.integer(m), p.integer(n), p.integer(p["p"])
    given = reflectors, p.leading(p["r"]), p.array("taus"), matrix, p.leading(m)
    p.call(side, trans, *sizes, *given, p.area("work"), p.integer(p["lwork"]), p.info())
    p.by_rows(matrix, m, n, p.array("product"))


def _gesdd(p: _Problem) -> None:
    """It may never end if a number is not finite."""
    w, m, n, few = p.w, p["m"], p["n"], p["k"]
    a, matrix, left, right = p.array("a"), p.area("matrix"), p.area("left"), p.area("right")
    p.copy(a, p.array("copy"), m, n)
    finite = w.call("lapack.finite", "i1", [("ptr", a), ("i64", w.imul(m, n))])
    s, u, vh, info = p.array("s"), p.array("u"), p.array("vh"), p.info()
    wanted = w.not_("i1", p.is_letter("mode", "N"))
    l, r = p["l"], p["r"]

    def found() -> None:
        p.by_columns(a, m, n, matrix)
        # The factors that it does not compute have one row.
        leading_right = w.select(wanted, "i64", r, "1")
        work = [p.area("work"), p.integer(p["lwork"])]
        work += [p.area("rwork")] if p.is_complex else []
        p.call(
            p.letter(p["mode"]), p.integer(m), p.integer(n), matrix, p.leading(m), s,
            left, p.leading(m), right, p.leading(leading_right), *work, p.area("iwork"), info,
        )  # fmt: skip

        def vectors() -> None:
            p.by_rows(left, m, l, u)
            p.by_rows(right, r, n, vh)

        def none() -> None:
            p.zero(u, m, l)
            p.zero(vh, r, n)

        p.either(wanted, vectors, none)

    def unknown() -> None:
        parts = 2 if p.is_complex else 1
        lefts, rights = (w.imul(w.imul(*size), parts) for size in ((m, l), (r, n)))
        for target, count in ((s, few), (u, lefts), (vh, rights)):
            w.call("lapack.nan", "void", [("ptr", target), ("i64", count)])
        w.store("i32", "1", info)

    p.either(finite, found, unknown)


def _syevd(p: _Problem) -> None:
    n, matrix = p["n"], p.area("matrix")
    p.by_columns(p.array("a"), n, n, matrix)
    work = [p.area("work"), p.integer(p["lwork"])]
    reals = p.w.iadd(p.w.imul(n, p.w.iadd(p.w.imul(n, 2), 5)), 1)
    work += [p.area("rwork"), p.integer(reals)] if p.is_complex else []
    work += [p.area("iwork"), p.integer(p.w.iadd(p.w.imul(n, 5), 3))]
    letters = p.letter(p["mode"]), p.letter(p["uplo"])
    p.call(*letters, p.integer(n), matrix, p.leading(n), p.array("w"), *work, p.info())
    p.either(
        p.is_letter("mode", "V"),
        lambda: p.by_rows(matrix, n, n, p.array("vectors")),
        lambda: p.copy(p.array("a"), p.array("vectors"), n, n),
    )


def _geev(p: _Problem) -> None:
    """What it says of numbers that are not finite differs between versions."""
    w, n, a, matrix = p.w, p["n"], p.array("a"), p.area("matrix")
    finite = w.call("lapack.finite", "i1", [("ptr", a), ("i64", w.imul(n, n))])
    sides = [("compute_left", p.area("left"), "vl"), ("compute_right", p.area("right"), "vr")]
    values = [p.array(name) for name in (["values"] if p.is_complex else ["wr", "wi"])]

    def found() -> None:
        p.by_columns(a, n, n, matrix)
        arguments = [p.letter(p[option]) for option, _, _ in sides]
        arguments += [p.integer(n), matrix, p.leading(n), *values]
        for _, area, _ in sides:
            arguments += [area, p.leading(n)]
        arguments += [p.area("work"), p.integer(p["lwork"])]
        arguments += [p.area("rwork")] if p.is_complex else []
        p.call(*arguments, p.info())
        for option, area, name in sides:
            target = p.array(name)

            def vectors(area: str = area, target: str = target) -> None:
                if p.is_complex:
                    p.by_rows(area, n, n, target)
                else:
                    given = [("i64", n), ("ptr", p.array("wi")), ("ptr", area), ("ptr", target)]
                    w.call("lapack.pairs", "void", given)

            def none(target: str = target) -> None:
                p.zero(target, n, n, nbytes=2 * REALS[p.t].byte_size)

            p.either(p.is_letter(option, "V"), vectors, none)

    def unknown() -> None:
        for target in values:
            count = w.imul(n, 2) if p.is_complex else n
            w.call("lapack.nan", "void", [("ptr", target), ("i64", count)])
        for _, _, name in sides:
            count = w.imul(w.imul(n, n), 2)
            w.call("lapack.nan", "void", [("ptr", p.array(name)), ("i64", count)])
        w.store("i32", "1", p.info())

    p.either(finite, found, unknown)


def _gees(p: _Problem) -> None:
    n, matrix, schur = p["n"], p.area("matrix"), p.area("left")
    p.by_columns(p.array("a"), n, n, matrix)
    values = ["values"] if p.is_complex else ["wr", "wi"]
    work = [p.area("work"), p.integer(p["lwork"])]
    work += [p.area("rwork")] if p.is_complex else []
    p.call(
        p.letter(p["mode"]), p.letter("N"), "null", p.integer(n), matrix, p.leading(n),
        p.array("selected"), *map(p.array, values), schur, p.leading(n), *work, p.area("iwork"),
        p.info(),
    )  # fmt: skip
    p.by_rows(matrix, n, n, p.array("triangle"))
    vectors = p.array("vectors")
    p.either(
        p.is_letter("mode", "V"),
        lambda: p.by_rows(schur, n, n, vectors),
        lambda: p.zero(vectors, n, n),
    )


def _gehrd(p: _Problem) -> None:
    n, matrix = p["n"], p.area("matrix")
    p.by_columns(p.array("a"), n, n, matrix)
    sizes = p.integer(n), p.integer(p["low"]), p.integer(p["high"])
    work = p.area("work"), p.integer(p["lwork"])
    p.call(*sizes, matrix, p.leading(n), p.array("taus"), *work, p.info())
    p.by_rows(matrix, n, n, p.array("packed"))


def _sytrd(p: _Problem) -> None:
    n, matrix = p["n"], p.area("matrix")
    p.by_columns(p.array("a"), n, n, matrix)
    found = p.array("d"), p.array("e"), p.array("taus")
    work = p.area("work"), p.integer(p["lwork"])
    p.call(p.letter(p["uplo"]), p.integer(n), matrix, p.leading(n), *found, *work, p.info())
    p.by_rows(matrix, n, n, p.array("packed"))


def _gtsv(p: _Problem) -> None:
    """The diagonals below and above are one shorter for LAPACK."""
    w, n, m, matrix = p.w, p["n"], p["m"], p.area("matrix")
    size = p.t.byte_size
    fewer = w.isub(n, 1)
    low, mid, up = (p.array(name) for name in ("low", "mid", "up"))
    second = w.gep("i8", low, size)
    p.copy(w.gep("i8", p.array("lower"), size), second, fewer)
    p.copy(p.array("diagonal"), mid, n)
    p.copy(p.array("upper"), up, fewer)
    p.zero(low, "1")
    p.zero(w.gep("i8", up, w.imul(fewer, size)), "1")
    p.by_columns(p.array("b"), n, m, matrix)
    p.call(p.integer(n), p.integer(m), second, mid, up, matrix, p.leading(n), p.info())
    p.by_rows(matrix, n, m, p.array("x"))


_BODIES: Mapping[str, Callable[[_Problem], None]] = {
    "potrf": _potrf,
    "geqp3": _geqp3,
    "ormqr": _ormqr,
    "gesdd": _gesdd,
    "syevd": _syevd,
    "geev": _geev,
    "gees": _gees,
    "gehrd": _gehrd,
    "sytrd": _sytrd,
    "gtsv": _gtsv,
}


# -- helpers ---------------------------------------------------------------------------------------


def emit_finite(module: ModuleWriter, t: P) -> None:
    """i1 lapack.finite(ptr x, i64 count): whether all elements are finite."""
    w = module.function("lapack.finite", [("ptr", "x"), ("i64", "count")], "i1", internal=True)
    v = Rows(w, t)
    ty = v.lanes.ty
    with w.loop("0", "%count", v.lanes.count, [(ty, const(ty, 0.0))]) as loop:
        x = v.load("%x", loop.index, v.mask(loop.index, "%count"))
        loop.next = [v.lanes.largest(loop.carried[0], x)]
    below = v.lanes.is_finite(loop.results[0])
    w.ret("i1", w.reduce("and", mask_of(ty), below))


def emit_nan(module: ModuleWriter, t: P) -> None:
    """void lapack.nan(ptr x, i64 count): of reals."""
    w = module.function("lapack.nan", [("ptr", "x"), ("i64", "count")], internal=True)
    v = Rows(w, REALS[t])
    nan = element_of([const(v.lanes.ty, float("nan"))])
    with w.loop("0", "%count", v.lanes.count) as loop:
        v.store("%x", loop.index, nan, v.mask(loop.index, "%count"))
    w.ret()


def _emit_pairs(module: ModuleWriter, t: P) -> None:
    """void lapack.pairs(n, ptr imaginary, ptr vectors, ptr target): complex eigenvectors by rows,
    from LAPACK's reals by columns: a conjugate pair shares two columns."""
    w = module.function(
        "lapack.pairs",
        [("i64", "n"), ("ptr", "imaginary"), ("ptr", "vectors"), ("ptr", "target")],
        internal=True,
    )
    real = element(Rows(w, t).lanes.ty)
    zero = const(real, 0.0)
    with w.loop("0", "%n", 1, [("i1", "false")]) as columns:
        j, is_second = columns.index, columns.carried[0]
        turns = w.cmp("une", real, w.load(real, w.gep(real, "%imaginary", j)), zero)
        more = w.cmp("slt", "i64", w.iadd(j, 1), "%n")
        starts = w.op("and", "i1", w.op("and", "i1", turns, more), w.not_("i1", is_second))
        first = w.isub(j, w.cast("zext", "i1", is_second, "i64"))
        in_pair = w.op("or", "i1", starts, is_second)
        # Of a vector that stands alone both are the same column, and the second does not count.
        second = w.iadd(first, w.cast("zext", "i1", in_pair, "i64"))
        sign = w.select(is_second, real, const(real, -1.0), const(real, 1.0))
        sources = [w.gep(real, "%vectors", w.imul(column, "%n")) for column in (first, second)]
        with w.loop("0", "%n") as rows:
            x, y = (w.load(real, w.gep(real, source, rows.index)) for source in sources)
            y = w.select(in_pair, real, w.op("fmul", real, y, sign), zero)
            place = w.gep(real, "%target", w.imul(w.iadd(w.imul(rows.index, "%n"), j), 2))
            w.store(real, x, place)
            w.store(real, y, w.gep(real, place, 1))
        columns.next = [starts]
    w.ret()


# -- functions -------------------------------------------------------------------------------------


def _emit(name: str, t: P, module: ModuleWriter) -> None:
    routine = LAPACK[name, t]
    emit_transpose(module, t)
    if name in ("geev", "gesdd"):
        emit_finite(module, t)
        emit_nan(module, t)
    if name == "geev" and not t.is_complex:
        _emit_pairs(module, t)
    parameters = [("i64", number) for number in routine.numbers]
    parameters += [("ptr", array.name) for array in routine.arrays] + [("ptr", "memory")]
    task = f"lapack.{name}.task"
    _emit_task(module, t, routine, parameters, task)
    w = module.function(f"{PREFIX}{name}_{t}", parameters)
    run_tasks(w, task, table_of_parameters(w, parameters), "%tasks")
    w.ret()


def _emit_task(
    module: ModuleWriter,
    t: P,
    routine: LapackRoutine,
    parameters: list[tuple[str, str]],
    task: str,
) -> None:
    """The problems of one of `tasks` equal parts."""
    w = module.function(task, [("ptr", "context"), ("i64", "task")], internal=True)
    given = read_table(w, "%context", parameters)
    memory = w.gep("i8", given["memory"], w.imul("%task", given["pitch"]))
    first, stop = (
        w.op("udiv", "i64", w.imul(given["batches"], number), given["tasks"])
        for number in ("%task", w.iadd("%task", 1))
    )
    wanted = w.cast("trunc", "i64", given["threads"], "i32")
    all_of_ours = w.cmp("eq", "i32", wanted, "0")
    threads = w.select(all_of_ours, "i32", w.call("pyjax_num_threads", "i32"), wanted)
    w.call("pyjax_blas_enter", "void", [("i32", threads)])
    with w.loop(first, stop) as problems:
        problem = _Problem(w, t, routine, given, problems.index, memory)
        _BODIES[routine.name](problem)
    w.call("pyjax_blas_leave", "void")
    w.ret()


def register() -> None:
    """Declares the routines of every element type."""
    for name, t in LAPACK:
        register_group(f"lapack_{name}_{t}", (f"{PREFIX}{name}_{t}",), partial(_emit, name, t))
