"""The rows of `python -m benchmarks --platform gpu`: pyjax beside JAX and CuPy on one card.

Loops and reductions are compared with a copy of as many bytes by CuPy, products with cuBLAS through
CuPy, whole programs and calls with JAX.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks import programs
from benchmarks.harness import Row, Step
from benchmarks.programs import Framework

Frameworks = dict[str, Framework]
Program = Callable[[Framework], tuple[Callable[..., Any], tuple[Any, ...]]]


@dataclass(frozen=True)
class GpuRow:
    """One line: what is measured, with whom it is compared, and what is wanted of the ratio."""

    row: Row
    against: str
    wanted: float


def cupy() -> Any | None:
    """CuPy, if it is installed and sees a device."""
    if importlib.util.find_spec("cupy") is None:
        return None
    found = importlib.import_module("cupy")
    return found if found.cuda.is_available() else None


def rows(frameworks: Frameworks, *, small: bool = False) -> list[Callable[[], GpuRow]]:
    """Makers of the rows. `small`: sizes that an emulator gets through, to rehearse all of it."""
    n, side, product = (64, 32, 32) if small else (1 << 26, 8192, 8192)
    moved = functools.partial(_moved, frameworks)
    return [
        moved("x * 2 + 1, {}", lambda f, x: x * 2 + 1, (n,), 2),
        moved("x.sum(), {}", lambda f, x: x.sum(), (n,), 1),
        moved("x.sum(axis=1), {}", lambda f, x: x.sum(axis=1), (side, side), 1),
        moved("x.sum(axis=0), {}", lambda f, x: x.sum(axis=0), (side, side), 1),
        moved("transpose, {}", lambda f, x: x.T + 0, (side, side), 2),
        moved("softmax, {}", lambda f, x: f.top.nn.softmax(x, axis=-1), (side, side), 2),
        moved("layer norm, {}", _layer_norm, (side, side), 2),
        moved("cumsum, {}", lambda f, x: f.numpy.cumsum(x), (n,), 2),
        moved("take of rows, {}", _take_rows, (side, side), 2),
        *(_product(frameworks, product // k, kind) for k in (1, 2) for kind in ("bf16", "f32")),
        lambda: _program(frameworks, f"sort {n // 4}", _sort(n // 4)),
        # These have one size, which is too large to rehearse.
        *([] if small else [_step(frameworks, name, make) for name, make in _STEPS.items()]),
        lambda: _dispatch(frameworks),
    ]


def table(done: list[GpuRow]) -> str:
    """The measured rows as a Markdown table; what somebody lacks is a dash."""
    lines = [
        "| what | JAX | CuPy | pyjax | compared with | ratio | wanted | met |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for gpu in done:
        row = gpu.row
        ours, theirs = row.results["pyjax"], row.results.get(gpu.against)
        ratio = ours / theirs if theirs else None
        met = "-"
        if ratio is not None:
            met = "yes" if (ratio >= gpu.wanted if row.rate else ratio <= gpu.wanted) else "no"
        cells = [
            row.name,
            *(_figure(row, name) for name in ("jax", "cupy", "pyjax")),
            gpu.against,
            "-" if ratio is None else f"{ratio:.2f}",
            f"{'≥' if row.rate else '≤'} {gpu.wanted:.2f}",
            met,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _figure(row: Row, name: str) -> str:
    return f"{row.results[name]:.3g} {row.unit}" if name in row.results else "-"


def _steps(frameworks: Frameworks, program: Program) -> dict[str, Step]:
    def make(f: Framework) -> Step:
        fun, args = program(f)
        compiled = f.top.jit(fun)
        return lambda: f.ready(compiled(*args))

    return {name: make(f) for name, f in frameworks.items()}


def _array(f: Framework, shape: tuple[int, ...], kind: Any = np.float32) -> Any:
    values = np.random.default_rng(0).standard_normal(shape, np.float32)
    return f.numpy.asarray(values.astype(kind))


def _moved(
    frameworks: Frameworks,
    name: str,
    fun: Callable[[Framework, Any], Any],
    shape: tuple[int, ...],
    passes: int,
) -> Callable[[], GpuRow]:
    """Bytes per second of a program that must move its argument so many times."""
    nbytes = 4 * int(np.prod(shape))

    def make() -> GpuRow:
        steps = _steps(frameworks, lambda f: (functools.partial(fun, f), (_array(f, shape),)))
        library = cupy()
        if library is not None:
            # As many bytes in all, half of them read and half written.
            source = library.zeros(passes * nbytes // 8, np.float32)
            target = library.empty_like(source)

            def copy() -> None:
                library.copyto(target, source)
                library.cuda.get_current_stream().synchronize()

            steps["cupy"] = copy
        label = name.format("×".join(map(str, shape)))
        rate = lambda seconds: passes * nbytes / seconds / 1e9
        return GpuRow(Row(label, steps, "GB/s", rate=rate), "cupy", 0.85)

    return make


def _layer_norm(f: Framework, x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * f.lax.rsqrt(variance + 1e-5)


def _take_rows(f: Framework, x: Any) -> Any:
    order = np.random.default_rng(1).permutation(x.shape[0]).astype(np.int32)
    return x[f.numpy.asarray(order)]


def _product(frameworks: Frameworks, n: int, kind: str) -> Callable[[], GpuRow]:
    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bf16" else np.float32)

    def make() -> GpuRow:
        steps = _steps(frameworks, lambda f: (f.numpy.matmul, (_array(f, (n, n), dtype),) * 2))
        library = cupy()
        if library is not None:
            # cuBLAS multiplies f16 as fast as bf16, which not every CuPy has.
            a = library.ones((n, n), np.float16 if kind == "bf16" else np.float32)

            def multiply() -> None:
                library.matmul(a, a)
                library.cuda.get_current_stream().synchronize()

            steps["cupy"] = multiply
        rate = lambda seconds: 2 * n**3 / seconds / 1e12
        return GpuRow(Row(f"matmul {n} {kind}", steps, "TFLOP/s", rate=rate), "cupy", 0.9)

    return make


def _sort(n: int) -> Program:
    return lambda f: (f.numpy.sort, (_array(f, (n,)),))


def _program(frameworks: Frameworks, name: str, program: Program) -> GpuRow:
    return GpuRow(Row(name, _steps(frameworks, program), "ms"), "jax", 1.1)


_STEPS: dict[str, Program] = {
    "MLP step": programs.mlp_step,
    "GPT step": programs.gpt_step,
    "LSTM scan gradient": programs.lstm_gradient,
}


def _step(frameworks: Frameworks, name: str, program: Program) -> Callable[[], GpuRow]:
    return lambda: _program(frameworks, name, program)


def _dispatch(frameworks: Frameworks) -> GpuRow:
    """What a call takes until the caller may go on; the device works meanwhile."""

    def make(f: Framework) -> Step:
        x, y = _array(f, (4,)), _array(f, (4,))
        call = f.top.jit(lambda x, y: x + y)
        return lambda: call(x, y)

    steps = {name: make(f) for name, f in frameworks.items()}
    return GpuRow(Row("jit call, 2 arguments, not waited for", steps, "us"), "jax", 1.0)
