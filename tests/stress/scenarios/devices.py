"""Eight devices: threads run programs over all of them, or some, with delays of single devices,
errors of single devices, donation and cleared caches; the main thread trains, is interrupted, and
forks children that run such programs. No wrong value, no deadlock, no crash."""

from __future__ import annotations

import random
import signal
import time
from functools import partial
from types import FrameType

import numpy as np

import pyjax
from pyjax import lax
from pyjax.sharding import Mesh, NamedSharding
from pyjax.sharding import PartitionSpec as P
from tests.stress import work

_DATA = np.arange(64, dtype=np.float32).reshape(8, 8)


class _Alarm(Exception):
    pass


def _mesh(draw: random.Random) -> Mesh:
    """Over all devices, or over some; two meshes may share devices."""
    devices = np.array(pyjax.devices())
    if draw.random() < 0.3:
        devices = devices[draw.choice([slice(0, 4), slice(2, 6), slice(4, 8)])]
    return Mesh(devices.reshape(2, -1), ("a", "b"))


def _put(x: object, mesh: Mesh, *entries: object) -> pyjax.Array:
    return pyjax.device_put(x, NamedSharding(mesh, P(*entries)))


def _delayed(draw: random.Random) -> None:
    """Each device sleeps for a time of its own before it meets the others."""
    mesh = _mesh(draw)
    late = [draw.uniform(0, 0.01) for _ in range(mesh.size)]

    def sleep(number: np.ndarray, x: np.ndarray) -> np.ndarray:
        time.sleep(late[int(number)])
        return np.asarray(x)

    def body(x: pyjax.Array) -> pyjax.Array:
        number = lax.axis_index(("a", "b"))
        for _ in range(3):
            x = pyjax.pure_callback(sleep, x, number, x)
            x = x + lax.psum(x, ("a", "b"))
        return x

    run = pyjax.shard_map(
        body, mesh=mesh, in_specs=P("a", "b"), out_specs=P("a", "b"), check_vma=False
    )
    n = mesh.size
    parts = _DATA.reshape(2, 4, n // 2, 16 // n).transpose(0, 2, 1, 3).reshape(n, -1)
    for _ in range(3):
        parts = parts + parts.sum(0)
    got = np.asarray(pyjax.jit(run)(_DATA))
    got = got.reshape(2, 4, n // 2, 16 // n).transpose(0, 2, 1, 3).reshape(n, -1)
    work.check(got / 1e4, parts / 1e4)


def _failing(draw: random.Random) -> None:
    """One device raises; the others do not wait for it for ever, and the next program runs."""
    mesh = _mesh(draw)
    which = draw.randrange(mesh.size)

    def check(number: np.ndarray, x: np.ndarray) -> np.ndarray:
        if number == which:
            raise ZeroDivisionError
        return np.asarray(x)

    def body(x: pyjax.Array) -> pyjax.Array:
        number = lax.axis_index(("a", "b"))
        return lax.psum(pyjax.pure_callback(check, x, number, x), ("a", "b"))

    run = pyjax.shard_map(body, mesh=mesh, in_specs=P("a", "b"), out_specs=P(), check_vma=False)
    try:
        np.asarray(pyjax.jit(run)(_DATA))
    except pyjax.errors.JaxRuntimeError:
        return
    raise AssertionError("no error")


def _product(draw: random.Random) -> None:
    mesh = _mesh(draw)
    entries = draw.choice([("a",), ("a", "b"), ("b", "a"), (None, "a"), ()])
    x, y = _put(_DATA, mesh, *entries), _put(_DATA.T, mesh, *entries[::-1])
    work.check((x @ y) / 1e4, _DATA @ _DATA.T / 1e4)
    other = NamedSharding(mesh, P(*draw.choice([("b",), ("b", "a"), ()])))
    np.testing.assert_array_equal(pyjax.device_put(x, other), _DATA)


_add = pyjax.jit(lambda x, y: x + y, donate_argnums=0)


def _donated(draw: random.Random) -> None:
    mesh = _mesh(draw)
    x = _put(_DATA, mesh, "a", "b")
    view = x.addressable_shards[0].data if draw.random() < 0.5 else None
    for _ in range(5):
        x = _add(x, 1.0)
    np.testing.assert_array_equal(x, _DATA + 5)
    if view is not None:
        np.testing.assert_array_equal(view, _DATA[:4, : 16 // mesh.size])


def _some_axes(draw: random.Random) -> None:
    """A loop whose rounds differ from device to device."""
    mesh = _mesh(draw)
    rounds = draw.randrange(1, 50)

    def body(x: pyjax.Array) -> pyjax.Array:
        turns = rounds * (1 + lax.axis_index("a"))
        x = lax.fori_loop(0, turns, lambda i, c: c + 1, x)
        return x + lax.ppermute(x, "a", [(0, 1), (1, 0)])

    run = pyjax.shard_map(
        body, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a"}, check_vma=False
    )
    both = _DATA[:4] + _DATA[4:] + 3 * rounds
    got = pyjax.jit(run)(_put(_DATA, mesh, None, "b"))
    np.testing.assert_array_equal(got, np.concatenate([both, both]))


_PIECES = (_delayed, _failing, _product, _donated, _some_axes, work.clear_caches, work.new_program)


@pyjax.jit
def _step(w: pyjax.Array, x: pyjax.Array) -> tuple[pyjax.Array, pyjax.Array]:
    loss, slope = pyjax.value_and_grad(lambda w: ((x @ w - 1) ** 2).mean())(w)
    return w - 0.1 * slope, loss


def _train(mesh: Mesh, stop: float, draw: random.Random) -> int:
    """Steps with parameters and data in parts; interrupted at any moment it goes on from the last
    whole step."""
    x = np.linspace(-1, 1, 128, dtype=np.float32).reshape(16, 8)
    w = np.zeros((8, 4), np.float32)
    here, data = _put(w, mesh, None, "b"), _put(x, mesh, "a")
    steps = 0
    while time.monotonic() < stop or steps < 5:
        delay = draw.choice([0.001, 0.01, 0.1]) * draw.random()
        new: pyjax.Array | None = None
        loss = 0.0
        try:
            if draw.random() < 0.3:
                signal.setitimer(signal.ITIMER_REAL, delay)
            made = _step(here, data)
            loss = float(made[1])
            new = made[0]
            signal.setitimer(signal.ITIMER_REAL, 0)
        except _Alarm:
            pass
        if new is None:
            continue
        residual = x @ w - 1
        assert abs(loss - float((residual**2).mean())) < 1e-3
        w = w - 0.1 * 2 * x.T @ residual / residual.size
        here, steps = new, steps + 1
    work.check(here, w)
    return steps


def _child_work(seed: int) -> None:
    draw = random.Random(seed)
    for piece in (_product, _some_axes, _delayed):
        piece(draw)


def _alarm(number: int, frame: FrameType | None) -> None:
    raise _Alarm


def main() -> None:
    seed, seconds = work.arguments()
    pyjax.config.update("jax_num_cpu_devices", 8)
    mesh = Mesh(np.array(pyjax.devices()).reshape(2, 4), ("a", "b"))
    signal.signal(signal.SIGALRM, _alarm)
    end = time.monotonic() + seconds
    workers, draw = work.Workers(4, seed, _PIECES), random.Random(seed)
    steps = forks = 0
    while time.monotonic() < end or not forks:
        steps += _train(mesh, time.monotonic() + min(1.0, seconds / 4), draw)
        work.fork(f"child {forks}", partial(_child_work, seed + forks))
        forks += 1
        if workers.failures:
            break
    workers.finish()
    print(f"{workers.done} pieces of work, {steps} steps, {forks} forks")


if __name__ == "__main__":
    main()
