"""A merge sort of row numbers with any comparator, written into the program that sorts."""

from __future__ import annotations

from xla_backend.kernels.ir import BufferRole, Kernel, Load, Store
from xla_backend.program.ir import passed_buffers
from xla_backend.targets.cpu.kernel_functions import KernelFunctions, function_name
from xla_backend.targets.cpu.routines.merge_sorting import merge_rows


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
    pointers = [("ptr", f"p{k}") for k in range(operands)]
    sizes = [("i64", s) for s in ("outer", "n", "inner")]
    w = kernels.module.function(
        name, [*pointers, ("ptr", "perm"), ("ptr", "work"), *sizes], internal=True
    )

    def comes_first(a: str, b: str) -> str:
        given = [(ty, f"%{name}") for ty, name in pointers]
        return w.call(less, "i1", [*given, ("i64", a), ("i64", b)])

    merge_rows(w, comes_first)
    w.ret()
