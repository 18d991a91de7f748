"""A merge sort of row numbers with any comparator, written into the program that sorts."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.kernels.ir import BufferRole, Kernel, Load, Store
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.program.ir import passed_buffers
from xla_backend.targets.cpu.kernel_functions import KernelFunctions, function_name


def merge_argsort_function(kernels: KernelFunctions, comparator: Kernel) -> str:
    """The name of void merge(operands..., ptr perm, ptr work, i64 outer, i64 n, i64 inner), emitted
    on first use."""
    less = function_name(comparator)
    name = f"{less}.merge"
    if comparator.name not in kernels.functions:
        kernels.functions[comparator.name] = [less]
        _comparator_function(kernels, comparator, less)
        _merge_function(kernels, name, less, len(passed_buffers(comparator)))
    return name


def _comparator_function(kernels: KernelFunctions, comparator: Kernel, name: str) -> None:
    """i1 less(operands..., i64 a, i64 b): does the element at a come before the one at b."""
    operands = passed_buffers(comparator)
    params = [("ptr", buffer.name) for buffer in operands] + [("i64", "a"), ("i64", "b")]
    w = kernels.module.function(name, params, result="i1", internal=True)
    emitter = kernels.body(w, comparator, {buffer: f"%{buffer.name}" for buffer in operands})
    *statements, result = comparator.stages
    assert isinstance(result, Store)
    emitter.preloaded = {
        s: f"%{s.buffer.name}"
        for s in statements
        if isinstance(s, Load) and s.buffer.role is BufferRole.SCRATCH
    }
    emitter.emit(statements)
    w.ret("i1", emitter.get(result.values[0]))


def _merge_function(kernels: KernelFunctions, name: str, less: str, operands: int) -> None:
    """Bottom-up stable merge sort of every row of [outer, n, inner]; `work` holds two rows of
    i32."""
    pointers = [("ptr", f"p{k}") for k in range(operands)]
    sizes = [("i64", s) for s in ("outer", "n", "inner")]
    w = kernels.module.function(
        name, [*pointers, ("ptr", "perm"), ("ptr", "work"), *sizes], internal=True
    )
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
            arguments = [("ptr", f"%p{k}") for k in range(operands)]
            return w.call(less, "i1", [*arguments, ("i64", element(x)), ("i64", element(y))])

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
    w.ret()


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
