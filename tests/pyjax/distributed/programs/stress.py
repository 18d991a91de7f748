"""Steps that all processes do together, each with delays of its own: products, laid out anew,
donated, trained, with processes that fail in a program, that miss one, and that are interrupted
anywhere. After each step they agree on how it went, and go on. No wrong value, and nobody waits for
somebody who never comes.

mpiexec -n N python stress.py SEED SECONDS
"""

from __future__ import annotations

import random
import signal
import sys
import time
import traceback
from types import FrameType
from typing import Any

import numpy as np

import pyjax
import pyjax.numpy as jnp
from pyjax import P, lax
from pyjax.experimental.multihost_utils import process_allgather
from pyjax.sharding import Mesh, NamedSharding

SEED, SECONDS = int(sys.argv[1]), float(sys.argv[2])
pyjax.distributed.initialize()
ME, COUNT = pyjax.process_index(), pyjax.process_count()
DEVICES = np.array(pyjax.devices())
SIZE = len(DEVICES)
# What all do, and what this process does by itself.
common, own = random.Random(SEED), random.Random(SEED * COUNT + ME)
DATA = np.arange(4 * SIZE * SIZE, dtype=np.float32).reshape(2 * SIZE, 2 * SIZE) / 100
# Of processes that are elsewhere; the second, of those that gather other values.
ERRORS = (pyjax.errors.JaxRuntimeError, ValueError)


class Alarm(Exception):
    """What the handler of this program raises."""


class Fault(Exception):
    """What a process fails with."""


# Where the handler interrupted this process, and what Python printed and forgot of what it raised.
alarms: list[str] = []
forgotten: list[str] = []


def alarm(number: int, frame: FrameType | None) -> None:
    alarms.append("".join(traceback.format_stack(frame)))
    raise Alarm


def unraisable(found: sys.UnraisableHookArgs) -> None:
    """Nothing that is raised in a finalizer arrives; the standard library has some in Python."""
    if isinstance(found.exc_value, Alarm):
        forgotten.append(f"{found.object}")
    else:
        sys.__unraisablehook__(found)


def comes_from_alarm(error: BaseException | None) -> bool:
    """Whether it is what the handler raised, or came of it."""
    if error is None or isinstance(error, Alarm):
        return error is not None
    return comes_from_alarm(error.__cause__) or comes_from_alarm(error.__context__)


def mesh() -> Mesh:
    order = list(DEVICES)
    common.shuffle(order)
    return Mesh(np.array(order).reshape(2, -1), ("a", "b"))


def entries() -> tuple[Any, ...]:
    return common.choice([("a",), ("a", "b"), ("b", "a"), (None, "a"), (("b", "a"),), ()])


def put(x: np.ndarray, over: Mesh, spec: tuple[Any, ...]) -> Any:
    return pyjax.device_put(x, NamedSharding(over, P(*spec)))


def whole(x: Any) -> np.ndarray:
    return np.asarray(process_allgather(x, tiled=True))


def product() -> None:
    over = mesh()
    x, y = put(DATA, over, entries()), put(DATA.T, over, entries())
    np.testing.assert_allclose(whole(pyjax.jit(jnp.matmul)(x, y)), DATA @ DATA.T, rtol=1e-5)


def laid_out() -> None:
    over = mesh()
    x = put(DATA, over, entries())
    for _ in range(3):
        x = pyjax.device_put(x, NamedSharding(over, P(*entries())))
    np.testing.assert_array_equal(whole(x), DATA)


_add = pyjax.jit(lambda x, y: x + y, donate_argnums=0)


def donated() -> None:
    x = put(DATA, mesh(), entries())
    for _ in range(5):
        x = _add(x, 1.0)
        time.sleep(own.random() * 1e-3)
    np.testing.assert_allclose(whole(x), DATA + 5, rtol=1e-6)


def delayed() -> None:
    """Each device sleeps before it meets the others."""
    over = mesh()
    late = own.random() * 0.01

    def sleep(x: np.ndarray) -> np.ndarray:
        time.sleep(late)
        return np.asarray(x)

    def body(x: Any) -> Any:
        for _ in range(3):
            x = pyjax.pure_callback(sleep, x, x)
            x = x + lax.psum(x, ("a", "b")) / SIZE
        return x

    run = pyjax.shard_map(body, mesh=over, in_specs=P(("a", "b")), out_specs=P(("a", "b")))
    parts = DATA.reshape(SIZE, 2, -1)
    for _ in range(3):
        parts = parts + parts.sum(0) / SIZE
    np.testing.assert_allclose(whole(pyjax.jit(run)(DATA)), parts.reshape(DATA.shape), rtol=1e-4)


def trained() -> None:
    over = mesh()
    x, w = DATA[:, :4] / 10, np.zeros((4, 3), np.float32)

    def loss(w: Any, x: Any) -> Any:
        return ((x @ w - 1) ** 2).mean()

    step = pyjax.jit(lambda w, x: w - 0.01 * pyjax.grad(loss)(w, x))
    parameters, data = put(w, over, ()), put(x, over, (("a", "b"),))
    for _ in range(3):
        parameters = step(parameters, data)
        residual = x @ w - 1
        w = w - 0.01 * 2 * x.T @ residual / residual.size
    np.testing.assert_allclose(np.asarray(parameters), w, rtol=1e-4, atol=1e-6)


def failing() -> None:
    """One raises in the program: all get an error."""
    over, which = mesh(), common.randrange(COUNT)

    def check(x: np.ndarray) -> np.ndarray:
        if which == ME:
            raise Fault
        return np.asarray(x)

    def body(x: Any) -> Any:
        return lax.psum(pyjax.pure_callback(check, x, x), ("a", "b"))

    run = pyjax.shard_map(body, mesh=over, in_specs=P("a", "b"), out_specs=P(), check_vma=False)
    try:
        np.asarray(pyjax.jit(run)(DATA))
    except pyjax.errors.JaxRuntimeError:
        raise Fault from None
    raise AssertionError("no error")


def missed() -> None:
    """One does not call the program, and waits for the others at the end of the step."""
    if common.randrange(COUNT) == ME:
        raise Fault
    np.asarray(pyjax.jit(lambda x: x.sum())(put(DATA, mesh(), ("a", "b"))))
    raise AssertionError("no error")


PIECES = (product, laid_out, donated, delayed, trained, failing, missed)
FAILING = (failing, missed)


def agreed(good: bool) -> bool:
    """Whether all did the step. Whoever waits in it for others gets an error, and comes here."""
    for _ in range(10):
        try:
            return bool(np.all(process_allgather(np.bool_(good))))
        except ERRORS as error:
            good, last = False, error
    raise last


signal.signal(signal.SIGALRM, alarm)
sys.unraisablehook = unraisable
done = dict.fromkeys(PIECES, 0)
interrupts = steps = 0
end = time.monotonic() + SECONDS
while True:
    piece = common.choice(PIECES)
    interrupted = common.random() < 0.5 and common.randrange(COUNT) == ME
    good, heard, text = False, False, ""
    alarms.clear()
    forgotten.clear()
    time.sleep(own.choice([0, 1e-3, 1e-2]) * own.random())
    state = common.getstate()
    try:
        try:
            if interrupted:
                signal.setitimer(signal.ITIMER_REAL, own.choice([1e-3, 1e-2, 0.1]) * own.random())
            piece()
            good = True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except (Alarm, Fault, *ERRORS) as error:  # the last two of this process, or of another one
        heard = comes_from_alarm(error)
        text = "".join(traceback.format_exception(error))
        interrupts += heard
    lost = len(alarms) - heard - len(forgotten)
    assert lost == 0, f"an alarm was lost; it came at\n{''.join(alarms)}and this arrived\n{text}"
    # The same draws follow, wherever the step ended.
    common.setstate(state)
    common.random()
    steps += 1
    if agreed(good):
        assert piece not in FAILING
        done[piece] += 1
    if not agreed(time.monotonic() < end):
        break
counts = ", ".join(f"{n} {piece.__name__}" for piece, n in done.items())
print(f"process {ME} is through: {steps} steps, {interrupts} interrupts; {counts}")
