"""What the programs here share: the devices, arrays over them, and what is printed at the end."""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

# How many processes there are, as the launchers of MPI say it.
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS")


def start(description: str | None, **counts: int) -> argparse.Namespace:
    """The options of a program, `--devices` and `counts`, after as many CPU devices as it asks for
    have been made: in this process, or, under `mpiexec`, in all of them together."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--devices", type=int, default=8)
    for name, default in counts.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    processes = next((int(os.environ[name]) for name in _SIZES if name in os.environ), 1)
    if options.devices % processes:
        parser.error(f"--devices {options.devices}: {processes} processes have equally many")
    jax.config.update("jax_num_cpu_devices", options.devices // processes)
    if processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "mpi")
        jax.distributed.initialize(cluster_detection_method="mpi4py")
    return options


def mesh_of(**sizes: int) -> Mesh:
    """All devices along named axes."""
    return Mesh(np.array(jax.devices()).reshape(*sizes.values()), tuple(sizes))


def mesh_of_one(*names: str) -> Mesh:
    """One device of this process, with the same axes."""
    return Mesh(np.array(jax.local_devices()[:1]).reshape([1] * len(names)), names)


def put(mesh: Mesh, values: Any, specs: Any) -> Any:
    """Arrays over a mesh, from values that every process has.

    Args:
      specs: one PartitionSpec for all, or a pytree of them like `values`.
    """

    def one(value: Any, spec: PartitionSpec) -> jax.Array:
        value = np.asarray(value)
        sharding = NamedSharding(mesh, spec)
        return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])

    if isinstance(specs, PartitionSpec):
        specs = jax.tree.map(lambda _: specs, values)
    return jax.tree.map(one, values, specs)


class Runs:
    """Calls a step again and again, and knows what it exchanges."""

    def __init__(self, step: Callable[..., Any], mesh: Mesh) -> None:
        self.mesh = mesh
        self.values: list[float] = []
        self.seconds: list[float] = []
        self._step = jax.jit(step)
        self._lowered: Any = None

    def call(self, *args: Any) -> Any:
        """`step(*args)`, whose last result is a number for the report."""
        if self._lowered is None:
            self._lowered = self._step.lower(*args)
            self._compiled = self._lowered.compile()
        begun = time.perf_counter()
        *results, value = self._compiled(*args)
        self.values.append(float(value))
        self.seconds.append(time.perf_counter() - begun)
        return results

    def exchanged(self) -> tuple[Counter[str], int]:
        """How many collectives of each kind a step has, and the bytes of their results on a
        device."""
        kinds: Counter[str] = Counter()
        total = 0
        for shape, kind in re.findall(_COLLECTIVE, self._compiled.as_text()):
            kinds[kind] += 1
            total += sum(map(_bytes, re.findall(r"[a-z]\w*\[[\d,]*\]", shape)))
        return kinds, total

    def share(self) -> float:
        """Of the bytes that a device moves, the part that it exchanges."""
        cost = self._lowered.cost_analysis()
        own = cost["bytes accessed"] / self.mesh.size
        exchanged = self.exchanged()[1]
        return exchanged / (exchanged + own)


_COLLECTIVE = re.compile(
    r" = (.*?) (all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)"
    r"(?:-start)?\("
)
_WIDTHS = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "f32": 4, "s32": 4, "u32": 4, "f64": 8}


def _bytes(shape: str) -> int:
    name, _, sizes = shape[:-1].partition("[")
    return _WIDTHS[name] * math.prod(int(size) for size in sizes.split(",") if size)


def report(several: Runs, alone: Runs) -> None:
    """Prints both results of the last step, by the first process only."""
    if jax.process_index():
        return
    pairs = list(zip(several.values, alone.values))
    kinds, total = several.exchanged()
    print(f"{several.mesh.size} devices, in a step: {_listed(kinds)}, {total / 1e3:.1f} kB")
    print(f"result: {several.values[-1]:.6g}")
    print(f"alone: {alone.values[-1]:.6g}")
    print(f"difference: {max(abs(a - b) / abs(b) for a, b in pairs):.1e}")
    print(f"communication_share: {several.share():.3g}")
    for name, runs in (("step", several), ("step_alone", alone)):
        print(f"{name}: {1e3 * statistics.median(runs.seconds[1:]):.2f} ms")


def _listed(kinds: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "no exchange"


def adam(
    weights: Any, state: tuple[Any, Any, Any], gradient: Any, rate: float = 3e-3
) -> tuple[Any, tuple[Any, Any, Any]]:
    """One step of Adam; the state is the number of steps and two moments of each weight."""
    count, means, squares = state
    count = count + 1
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradient)
    squares = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, squares, gradient)
    scale = rate * (1 - 0.99**count) ** 0.5 / (1 - 0.9**count)
    moved = jax.tree.map(lambda w, m, s: w - scale * m / (s**0.5 + 1e-8), weights, means, squares)
    return moved, (count, means, squares)


def adam_state(weights: Any) -> tuple[Any, Any, Any]:
    """Its state at the beginning, on the host."""
    zeros = jax.tree.map(lambda w: np.zeros(w.shape, w.dtype), weights)
    return np.zeros((), np.float32), zeros, zeros


def normal(shape: Sequence[int], seed: int, scale: float = 1.0) -> np.ndarray:
    """Random numbers, the same in every process."""
    drawn = np.random.default_rng(seed).standard_normal(shape)
    return (scale * drawn).astype(np.float32)
