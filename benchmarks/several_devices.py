"""Programs over several CPU devices: python -m benchmarks.several_devices [pattern].

Weak scaling of data-parallel training (every device has as many rows, whatever their number), what
it exchanges alone, and collectives by size, pyjax beside JAX where that is installed. Devices of
one process share its cores: with more devices than cores a step takes longer by as much as there is
more to do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.__main__ import each, frameworks
from benchmarks.harness import Row, Step, measure
from benchmarks.programs import Framework

DEVICES = (1, 2, 4, 8)
ROWS = 256  # of each device
SIZES = (1 << 10, 1 << 14, 1 << 18, 1 << 22)  # floats of each device
GROUPS = (2, 8)


def mesh_of(f: Framework, count: int) -> Any:
    return f.top.sharding.Mesh(np.array(f.top.devices()[:count]), ("i",))


def training(f: Framework, count: int) -> Step:
    """A step of three layers of 512 by plain gradient descent."""
    jnp, spec = f.numpy, f.top.sharding.PartitionSpec
    mesh = mesh_of(f, count)
    put = lambda x, s: f.top.device_put(x, f.top.sharding.NamedSharding(mesh, s))
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32) * 0.04
    weights = put([normal(512, 512) for _ in range(3)], spec())
    x = put(normal(count * ROWS, 512), spec("i"))

    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = jnp.tanh(x @ w)
        return jnp.mean(x * x)

    @f.top.jit
    def step(weights: Any, x: Any) -> Any:
        gradient = f.top.grad(loss)(weights, x)
        return [w - 0.1 * g for w, g in zip(weights, gradient)]

    return lambda: f.ready(step(weights, x))


def exchange(f: Framework, count: int) -> Step:
    """What such a step exchanges, alone: the sums of the gradients."""
    mesh, spec = mesh_of(f, count), f.top.sharding.PartitionSpec("i")
    rng = np.random.default_rng(0)
    sharding = f.top.sharding.NamedSharding(mesh, spec)
    make = lambda: rng.normal(size=(count * 512, 512)).astype(np.float32)
    gradients = f.top.device_put([make() for _ in range(3)], sharding)
    sums = lambda parts: [f.lax.psum(part, "i") for part in parts]
    whole = f.top.sharding.PartitionSpec()
    run = f.top.jit(
        f.top.shard_map(sums, mesh=mesh, in_specs=spec, out_specs=whole, check_vma=False)
    )
    return lambda: f.ready(run(gradients))


def _over_ring(f: Framework, x: Any, count: int) -> Any:
    return f.lax.ppermute(x, "i", [(d, (d + 1) % count) for d in range(count)])


# Each from a device's array to something that all of the exchange goes into.
COLLECTIVES: dict[str, Callable[[Framework, Any, int], Any]] = {
    "all-reduce": lambda f, x, n: f.lax.psum(x, "i"),
    "all-gather": lambda f, x, n: f.lax.all_gather(x, "i", tiled=True),
    "reduce-scatter": lambda f, x, n: f.lax.psum_scatter(x, "i", tiled=True),
    "all-to-all": lambda f, x, n: f.lax.all_to_all(x, "i", 0, 0, tiled=True),
    "permute": _over_ring,
}


def collective(f: Framework, name: str, count: int, size: int) -> Step:
    """A program of one collective, on `size` floats of each device."""
    spec = f.top.sharding.PartitionSpec("i")
    mesh = mesh_of(f, count)
    part = lambda x: COLLECTIVES[name](f, x, count)
    run = f.top.jit(
        f.top.shard_map(part, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    )
    x = f.top.device_put(
        np.ones(count * size, np.float32), f.top.sharding.NamedSharding(mesh, spec)
    )
    return lambda: f.ready(run(x))


def rows() -> Iterator[tuple[str, Callable[[Framework], Step], float]]:
    """Name of a row, what makes its program, and the seconds to spend on each contender."""
    for count in DEVICES:
        yield f"training, {count} x {ROWS} rows", partial(training, count=count), 0.6
    for count in DEVICES[1:]:
        yield f"its sums alone, {count} devices", partial(exchange, count=count), 0.3
    for name in COLLECTIVES:
        for count in GROUPS:
            for size in SIZES:
                make = partial(collective, name=name, count=count, size=size)
                yield f"{name} of {count} x {_bytes(4 * size)}", make, 0.3


def _bytes(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def main() -> None:
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    for f in frameworks().values():
        f.top.config.update("jax_num_cpu_devices", max(DEVICES))
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs\n")
    print("| what | JAX | pyjax | pyjax / JAX |\n|---|---|---|---|")
    for name, make, seconds in rows():
        if pattern not in name:
            continue
        row = Row(name, each(make), "ms", seconds=seconds)
        measure(row)
        ours, theirs = row.results["pyjax"], row.results.get("jax")
        cells = ["-", f"{ours:.3g} ms", "-"]
        if theirs is not None:
            cells = [f"{theirs:.3g} ms", f"{ours:.3g} ms", f"{ours / theirs:.2f}"]
        print(f"| {row.name} | {' | '.join(cells)} |", flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
