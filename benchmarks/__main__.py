"""`python -m benchmarks [pattern]`: the rows of the budget table, pyjax beside JAX (if installed)
and NumPy; with `--platform gpu` the rows of `gpu_rows`, beside JAX and CuPy.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

import pyjax
import pyjax.lax
import pyjax.numpy
from benchmarks import gpu_rows, programs
from benchmarks.harness import Row, Step, measure, table
from benchmarks.programs import Framework

# Names of platforms of GPUs; JAX has the same.
GPUS = ("cuda", "gpu")


@functools.cache
def frameworks(with_jax: bool = True) -> dict[str, Framework]:
    """pyjax, and JAX where it is installed."""
    found = {"pyjax": Framework(pyjax, pyjax.numpy, pyjax.lax)}
    if with_jax and importlib.util.find_spec("jax") is not None:
        found["jax"] = Framework(
            *(importlib.import_module(n) for n in ("jax", "jax.numpy", "jax.lax"))
        )
    return found


def each(make: Callable[[Framework], Step]) -> dict[str, Step]:
    return {name: make(f) for name, f in frameworks().items()}


def jitted(
    program: Callable[[Framework], tuple[Callable[..., Any], tuple[Any, ...]]],
) -> dict[str, Step]:
    """Run time of a compiled program."""

    def make(f: Framework) -> Step:
        fun, args = program(f)
        compiled = f.top.jit(fun)
        return lambda: f.ready(compiled(*args))

    return each(make)


def cold(
    program: Callable[[Framework], tuple[Callable[..., Any], tuple[Any, ...]]],
) -> dict[str, Step]:
    """Trace, lower and compile a program that was not seen before.

    pyjax keeps object code on disk, which would answer from the second time on: each compilation
    gets an empty cache directory. The kernel library is loaded before.
    """

    def make(f: Framework) -> Step:
        fun, args = program(f)
        f.ready(f.top.jit(fun)(*args))

        def step() -> object:
            fresh = lambda *a: fun(*a)  # a new function object has no cached trace
            with tempfile.TemporaryDirectory() as directory:
                os.environ["PYJAX_CACHE_DIR"] = directory
                try:
                    return f.top.jit(fresh).lower(*args).compile()
                finally:
                    del os.environ["PYJAX_CACHE_DIR"]

        return step

    return each(make)


def import_time() -> dict[str, Step]:
    """Time of a fresh process, its start included, with byte code cached as after installing."""
    cache = tempfile.mkdtemp()
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = cache

    def run(module: str) -> Step:
        command = [sys.executable, "-c", f"import {module}"]
        subprocess.run(command, check=True, env=environment)  # writes the byte code
        return lambda: subprocess.run(command, check=True, env=environment)

    contenders = {"pyjax": run("pyjax.numpy"), "numpy": run("numpy")}
    if "jax" in frameworks():
        contenders["jax"] = run("jax.numpy")
    return contenders


def new_shapes() -> dict[str, Step]:
    def make(f: Framework) -> Step:
        sizes = iter(range(1000, 10_000_000))

        def step() -> Any:
            x = f.numpy.asarray(np.ones(next(sizes), np.float32))
            return f.ready(f.numpy.exp(x))

        return step

    return each(make)


def array(f: Framework, *shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return f.numpy.asarray(rng.normal(size=shape).astype(np.float32))


def on_array(
    fun: Callable[[Framework, Any], Any], *shape: int, jit: bool = True
) -> dict[str, Step]:
    def make(f: Framework) -> Step:
        x = array(f, *shape)
        call = f.top.jit(lambda x: fun(f, x)) if jit else (lambda x: fun(f, x))
        return lambda: f.ready(call(x))

    return each(make)


def on_two(
    fun: Callable[[Framework, Any, Any], Any], *shape: int, jit: bool = True
) -> dict[str, Step]:
    def make(f: Framework) -> Step:
        x, y = array(f, *shape), array(f, *shape, seed=1)
        call = f.top.jit(lambda x, y: fun(f, x, y)) if jit else (lambda x, y: fun(f, x, y))
        return lambda: f.ready(call(x, y))

    return each(make)


def tree_call() -> dict[str, Step]:
    def make(f: Framework) -> Step:
        tree = {f"k{i}": array(f, 4, seed=i) for i in range(20)}
        call = f.top.jit(lambda t: {k: v + 1 for k, v in t.items()})
        return lambda: f.ready(call(tree))

    return each(make)


def normals() -> dict[str, Step]:
    def make(f: Framework) -> Step:
        key = f.top.random.key(0)
        call = f.top.jit(lambda k: f.top.random.normal(k, (1_000_000,)))
        return lambda: f.ready(call(key))

    return each(make)


def gflops(n: int) -> Callable[[float], float]:
    return lambda seconds: 2 * n**3 / seconds / 1e9


def numpy_matmul(n: int) -> Step:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(n, n)).astype(np.float32) for _ in range(2))
    return lambda: a @ b


def numpy_sort() -> Step:
    x = np.random.default_rng(0).normal(size=1_000_000).astype(np.float32)
    return lambda: np.sort(x)


ROWS: list[Callable[[], Row]] = [
    lambda: Row("import", import_time(), "s", 0.25, 0.68, once=True),
    lambda: Row("eager x + y, 4 elements", on_two(lambda f, x, y: x + y, 4, jit=False), "us", 2, 5),
    lambda: Row("jit call, 2 arguments", on_two(lambda f, x, y: x + y, 4), "us", 2, 3.5),
    lambda: Row("jit call, 20-leaf tree", tree_call(), "us", 15, 26),
    lambda: Row("x[0]", on_array(lambda f, x: x[0], 8, jit=False), "us", 10, 29),
    lambda: Row("x.reshape", on_array(lambda f, x: x.reshape(2, 4), 8, jit=False), "us", 5, 12),
    lambda: Row(
        "eager grad(sum(v*v))",
        on_array(lambda f, x: f.top.grad(lambda v: (v * v).sum())(x), 8, jit=False),
        "us",
        300,
        628,
    ),
    lambda: Row("first eager op on a new shape", new_shapes(), "ms", 3, 30),
    lambda: Row(
        "MLP step: trace + lower + compile", cold(programs.mlp_step), "ms", 90, 182, once=True
    ),
    lambda: Row("MLP step: run", jitted(programs.mlp_step), "us", 250, 358),
    lambda: Row(
        "GPT step: trace + lower + compile", cold(programs.gpt_step), "s", 0.6, 1.06, once=True
    ),
    lambda: Row("GPT step: run", jitted(programs.gpt_step), "ms", 90, 94, seconds=2),
    lambda: Row("depthwise 3×3 conv, 8×56×56×64", jitted(programs.depthwise_conv), "ms", 5, 32),
    lambda: Row(
        "argmax over the middle axis, 64×512×128",
        on_array(lambda f, x: f.numpy.argmax(x, axis=1), 64, 512, 128),
        "ms",
        2,
        9.1,
    ),
    lambda: Row("wave stencil 512², 100 steps", jitted(programs.wave), "ms", 12, 15),
    lambda: Row("rolled stencil 2048²", jitted(programs.rolled_stencil), "ms", 3, 5),
    lambda: Row(
        "roll by one + roll back, 4M",
        on_array(lambda f, x: f.numpy.roll(x, 1) + f.numpy.roll(x, -1) - 2 * x, 4_000_000),
        "ms",
        3,
        5,
    ),
    lambda: Row(
        "transpose (2,0,1) of 128×256×128",
        on_array(lambda f, x: f.numpy.transpose(x, (2, 0, 1)), 128, 256, 128),
        "ms",
        5,
        5,
    ),
    lambda: Row(
        "transpose (2,1,0) of 128×256×128",
        on_array(lambda f, x: f.numpy.transpose(x, (2, 1, 0)), 128, 256, 128),
        "ms",
        5,
        5,
    ),
    lambda: Row("x.T + x, 2048²", on_array(lambda f, x: x.T + x, 2048, 2048), "ms", 5, 5),
    lambda: Row(
        "vmap(while_loop), 100 updates of 4×100,000",
        jitted(programs.updates_in_lanes),
        "ms",
        0.3,
        0.3,
    ),
    lambda: Row(
        "vmap of nested loops, 90 updates of 4×100,000",
        jitted(programs.nested_updates_in_lanes),
        "ms",
        0.3,
        0.3,
    ),
    lambda: Row("LSTM scan gradient", jitted(programs.lstm_gradient), "ms", 15, 18),
    lambda: Row(
        "sum(a + b*exp(-a)*tanh(b)), 4M",
        on_two(lambda f, a, b: (a + b * f.numpy.exp(-a) * f.numpy.tanh(b)).sum(), 4_000_000),
        "ms",
        1.5,
        1.7,
    ),
    lambda: Row(
        "a*b + sin(a), 4M", on_two(lambda f, a, b: a * b + f.numpy.sin(a), 4_000_000), "ms", 2, 4.7
    ),
    lambda: Row(
        "sort 1M f32",
        {**on_array(lambda f, x: f.numpy.sort(x), 1_000_000), "numpy": numpy_sort()},
        "ms",
        12,
        227,
    ),
    lambda: Row(
        "top_k of 1M, k = 10", on_array(lambda f, x: f.lax.top_k(x, 10), 1_000_000), "ms", 1, 1
    ),
    lambda: Row(
        "top_k of 100×10000, k = 50",
        on_array(lambda f, x: f.lax.top_k(x, 50), 100, 10_000),
        "ms",
        2.4,
        2.4,
    ),
    lambda: Row(
        "matmul 128 f32",
        {**on_two(lambda f, a, b: a @ b, 128, 128), "numpy": numpy_matmul(128)},
        "GFLOP/s",
        200,
        107,
        rate=gflops(128),
    ),
    lambda: Row(
        "matmul 1024 f32",
        {**on_two(lambda f, a, b: a @ b, 1024, 1024), "numpy": numpy_matmul(1024)},
        "GFLOP/s",
        400,
        461,
        rate=gflops(1024),
    ),
    lambda: Row("conv 8×32×32×32 by 64×32×3×3", jitted(programs.dense_conv), "ms", 1.6, 1.64),
    lambda: Row("4×4096 times 4096×4096 f32", jitted(programs.few_rows), "ms", 1.5, 1.5),
    lambda: Row("scan that stacks and rotates", jitted(programs.rotating_scan), "ms", 0.1, 0.14),
    lambda: Row("segment_sum of 1M into 1000", jitted(programs.segment_sums), "ms", 0.45, 0.46),
    lambda: Row("bincount of 1M into 1000", jitted(programs.counts), "ms", 0.35, 0.35),
    lambda: Row("512×512 times 512×512 s8", jitted(programs.products_of_bytes), "ms", 0.5, 0.5),
    lambda: Row("max over axis 1, 100×1000×200", jitted(programs.middle_maxima), "ms", 1.9, 1.9),
    lambda: Row("FFT, 1000 of length 97", jitted(programs.transforms_of_primes), "ms", 0.5, 0.5),
    lambda: Row("eigh, svd, qr, 1000 of 3x3", jitted(programs.small_spectra), "ms", 0.3, 2.3),
    lambda: Row("normal(1M)", normals(), "ms", 2.5, 2.5),
    lambda: Row("fori_loop, 1000 scalar steps", jitted(programs.scalar_loop), "us", 7.5, 7.5),
]


def arguments_of(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="part of the names of rows")
    parser.add_argument(
        "--platform", default="cpu", help="where programs run: cpu (the default), gpu, a plugin's"
    )
    parser.add_argument("--seconds", type=float, help="begin no row after so many seconds")
    parser.add_argument(
        "--small",
        action="store_true",
        help="rows of GPUs in sizes that an emulator gets through: a rehearsal, no measurement",
    )
    return parser.parse_args(words)


def use_platform(platform: str) -> None:
    """Let both frameworks compute there; JAX is not imported yet."""
    pyjax.config.update("jax_platforms", platform)
    os.environ["JAX_PLATFORMS"] = "cuda" if platform in GPUS else "cpu"


def in_time(makers: Iterable[Callable[[], Any]], seconds: float | None) -> Iterator[Any]:
    """What the makers make, until the time is over; says so of the others."""
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    left = list(makers)
    while left and time.monotonic() < deadline:
        yield left.pop(0)()
    if left:
        print(f"not run: {len(left)} rows, for the {seconds:g} seconds are over", flush=True)


def measured_rows(chosen: argparse.Namespace) -> str:
    """The table of the rows that are asked for, each printed as it is ready."""
    done: list[Row] = []
    for row in in_time(ROWS, chosen.seconds):
        if chosen.pattern in row.name:
            measure(row)
            done.append(row)
            print(table([row]).splitlines()[-1], flush=True)
    return table(done)


def measured_gpu_rows(chosen: argparse.Namespace) -> str:
    """The same for platforms of GPUs. A row that fails is named, and the others go on."""
    with_jax = chosen.platform in GPUS
    done: list[gpu_rows.GpuRow] = []
    makers = gpu_rows.rows(frameworks(with_jax), small=chosen.small)
    failed = 0
    for gpu in in_time(makers, chosen.seconds):
        if chosen.pattern not in gpu.row.name:
            continue
        try:
            measure(gpu.row)
        except Exception as error:
            failed += 1
            print(f"failed: {gpu.row.name}: {type(error).__name__}: {error}", flush=True)
            continue
        done.append(gpu)
        print(gpu_rows.table([gpu]).splitlines()[-1], flush=True)
    if failed:
        raise SystemExit(f"{failed} rows failed\n\n{gpu_rows.table(done)}")
    return gpu_rows.table(done)


def main(words: Sequence[str] | None = None) -> None:
    chosen = arguments_of(words)
    use_platform(chosen.platform)
    rows = measured_rows if chosen.platform == "cpu" else measured_gpu_rows
    printed = rows(chosen)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(
        f"\n{pyjax.devices()[0].device_kind}, {platform.processor() or platform.machine()}, "
        f"{os.cpu_count()} CPUs, load {load:.1f}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}\n"
    )
    print(printed)


if __name__ == "__main__":
    main()
