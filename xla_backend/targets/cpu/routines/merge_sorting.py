"""A merge sort of row numbers with any comparator, for whoever writes functions that sort."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.llvm.writer import FunctionWriter

# Of two elements, by their numbers in the array: whether the first comes before the second, an i1.
Less = Callable[[str, str], str]


def merge_rows(w: FunctionWriter, less: Less) -> None:
    """Bottom-up stable merge sort of every row of [outer, n, inner], in a function with the
    parameters %perm, %work, %outer, %n and %inner; `work` holds two rows of i32."""
    row_bytes = w.imul("%n", 4)
    second = w.gep("i8", "%work", row_bytes)
    with w.loop(0, "%outer") as outer, w.loop(0, "%inner") as inner:
        base = w.iadd(w.imul(w.imul(outer.index, "%n"), "%inner"), inner.index)
        with w.loop(0, "%n") as fill:
            number = w.cast("trunc", "i64", fill.index, "i32")
            w.store("i32", number, w.gep("i32", "%work", fill.index))

        def element(row: str) -> str:
            return w.iadd(base, w.imul(w.cast("zext", "i32", row, "i64"), "%inner"))

        def comes_first(x: str, y: str) -> str:
            return less(element(x), element(y))

        def merge_all(state: list[str]) -> list[str]:
            width, source, target = state
            double = w.imul(width, 2)
            with w.loop(0, "%n", double) as run:
                low = run.index
                middle = w.imin(w.iadd(low, width), "%n")
                high = w.imin(w.iadd(low, double), "%n")
                _merge_run(w, source, target, (low, middle, high), comes_first)
            return [double, target, source]

        _, sorted_row, _ = w.while_(
            [("i64", "1"), ("ptr", "%work"), ("ptr", second)],
            lambda state: w.cmp("slt", "i64", state[0], "%n"),
            merge_all,
        )
        with w.loop(0, "%n") as copy:
            row = w.load("i32", w.gep("i32", sorted_row, copy.index))
            place = w.iadd(base, w.imul(copy.index, "%inner"))
            w.store("i32", row, w.gep("i32", "%perm", place))


def _merge_run(
    w: FunctionWriter,
    source: str,
    target: str,
    bounds: tuple[str, str, str],
    comes_first: Callable[[str, str], str],
) -> None:
    low, middle, high = bounds

    def step(state: list[str]) -> list[str]:
        left, right, out = state
        some_left = w.cmp("slt", "i64", left, middle)
        some_right = w.cmp("slt", "i64", right, high)

        def compare() -> list[str]:
            x = w.load("i32", w.gep("i32", source, left))
            y = w.load("i32", w.gep("i32", source, right))
            return [comes_first(y, x)]  # equal elements keep their order

        both = w.op("and", "i1", some_left, some_right)
        (take_right,) = w.if_else(both, ["i1"], compare, lambda: [w.not_("i1", some_left)])
        taken = w.select(take_right, "i64", right, left)
        w.store("i32", w.load("i32", w.gep("i32", source, taken)), w.gep("i32", target, out))
        moved = w.cast("zext", "i1", take_right, "i64")
        return [
            w.iadd(left, w.isub("1", moved)),
            w.iadd(right, moved),
            w.iadd(out, 1),
        ]

    w.while_(
        [("i64", low), ("i64", middle), ("i64", low)],
        lambda state: w.cmp("slt", "i64", state[2], high),
        step,
    )
