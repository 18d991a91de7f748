"""What goes wrong between two processes, and that they go on together afterwards."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any

import numpy as np
import pytest

import pyjax
from pyjax import P, lax
from pyjax.experimental.multihost_utils import sync_global_devices
from pyjax.sharding import NamedSharding

pyjax.distributed.initialize()
ME = pyjax.process_index()
OTHER = 1 - ME
MESH = pyjax.make_mesh((2,), ("i",), (pyjax.sharding.AxisType.Auto,))
X, LONGER = (
    pyjax.device_put(np.arange(size, dtype=np.float32), NamedSharding(MESH, P("i")))
    for size in (8, 16)
)
Error = pyjax.errors.JaxRuntimeError


def mapped(f: Any) -> Any:
    return pyjax.jit(pyjax.shard_map(f, mesh=MESH, in_specs=P("i"), out_specs=P("i")))


@mapped
def summed(x: Any) -> Any:
    return lax.psum(x, "i")  # the line of the sum


# Of one name and the same shapes.
total, largest = (mapped(lambda x, f=f: f(x, "i")) for f in (lax.psum, lax.pmax))


@mapped
def moved(x: Any) -> Any:
    return lax.ppermute(x, "i", [(0, 1), (1, 0)])


def check() -> None:
    """Both go on together."""
    pyjax.distributed.client().wait_at_barrier("here", 20_000)
    assert float(summed(X)[0]) == 4


line = next(n for n, text in enumerate(open(__file__), 1) if text.endswith("of the sum\n"))
check()

# Other programs, or shapes.
for mine in (
    (summed, moved)[ME],
    (total, largest)[ME],
    lambda x: summed((x, LONGER)[ME]),
):
    found = None
    try:
        mine(X)
    except Error as error:
        found = str(error)
    assert found is not None
    for text in (f"process {ME} waits in", f"process {OTHER} runs %", "same programs in the same"):
        assert text in found, (text, found)
    assert "failures.py" in found
    check()

# One fails, and says so.


def refuse(x: Any) -> Any:
    if ME == 1:
        raise ValueError("these numbers are bad")
    return x


@mapped
def checked(x: Any) -> Any:
    x = pyjax.pure_callback(refuse, pyjax.ShapeDtypeStruct(x.shape, x.dtype), x)
    return lax.psum(x, "i")


with pytest.raises(Error) as caught:
    checked(X)
assert "these numbers are bad" in str(caught.value)
assert (f"process {OTHER} failed in this run" in str(caught.value)) == (ME == 0)
check()

# One does not come: the times after which it warns, and gives up, are XLA's flags.
warnings: list[str] = []
handler = logging.Handler()
handler.emit = lambda record: warnings.append(record.getMessage())  # type: ignore[method-assign]
logging.getLogger("xla_backend.runtime.processes.crossing").addHandler(handler)
if ME == 0:
    start = time.monotonic()
    with pytest.raises(Error) as caught:
        summed(X)
    assert 3 <= time.monotonic() - start < 20
    for text in ("process 0 waits in", "all-reduce", "process 1 did not come within 3 s"):
        assert text in str(caught.value), text
    assert f"failures.py:{line}" in str(caught.value)
    (warning,) = warnings
    assert warning.startswith("process 0 waits in %all-reduce (all-reduce) of jit_summed(f32[4])")
    assert warning.endswith(" for more than 1 s: processes 1 are missing")
pyjax.distributed.client().wait_at_barrier("given up", 20_000)
if ME == 1:
    with pytest.raises(Error, match="process 0 failed in this run: ProcessTimeout"):
        summed(X)
check()

# Both are in the same program, and wait for each other in different places.


def apart(x: Any) -> Any:
    first = lax.axis_index("i") == 0
    return lax.cond(
        first, lambda x: lax.psum(x, "i"), lambda x: lax.ppermute(x, "i", [(0, 1), (1, 0)]), x
    )


def unchecked(f: Any) -> Any:
    return pyjax.jit(
        pyjax.shard_map(f, mesh=MESH, in_specs=P("i"), out_specs=P("i"), check_vma=False)
    )


names = ["%all-reduce", "%collective-permute"]
theirs = rf"(process {OTHER} waits in|ProcessFailure: process {OTHER} waits in) {names[OTHER]}"
with pytest.raises(Error, match=f"process {ME} waits in {names[ME]}.*{theirs}") as caught:
    unchecked(apart)(X)
assert "collectives in the same order" in str(caught.value)
check()

# One exchanges values of processes, the other runs a program.
with pytest.raises(Error) as caught:
    sync_global_devices("a place") if ME == 0 else summed(X)
for text in (
    f"process {ME} waits in {('multihost_utils.sync_global_devices', '%all-reduce')[ME]}",
    "process 0 waits in multihost_utils.sync_global_devices('a place') for process 1",
    "process 1 waits in %all-reduce (all-reduce) of jit_summed(f32[4]) for process 0",
    "must run the same programs in the same order",
):
    assert text in str(caught.value), (text, caught.value)
check()

# One does not come to a program, or an exchange of values, at all: the next are the same for both.
for missed in (lambda: summed(X), lambda: sync_global_devices("missed")):
    if ME == 0:
        with pytest.raises(Error, match="process 1 did not come within 3 s"):
            missed()
    pyjax.distributed.client().wait_at_barrier("missed", 20_000)
    assert moved(X).shape == (8,)
    sync_global_devices("not missed")
    check()

# Programs of one name and the same shapes that compute something else: a constant, an argument that
# is static, an array that the function closes over; and devices in another order.


@partial(pyjax.jit, static_argnums=1)
def static(x: Any, n: int) -> Any:
    return (x * n).sum()


order = pyjax.sharding.Mesh(MESH.devices[:: 1 - 2 * ME], ("i",))
halves = [pyjax.device_put(np.ones(4, np.float32), d) for d in pyjax.local_devices()]
backwards = pyjax.make_array_from_single_device_arrays((8,), NamedSharding(order, P("i")), halves)
for differs, text in (
    (lambda: pyjax.jit(lambda x: (x * (1 + ME)).sum())(X), "computes something else there"),
    (lambda: static(X, 2 + ME), "computes something else there"),
    (lambda: pyjax.jit(lambda x: x.sum())(backwards), "meshes must have the same order"),
):
    with pytest.raises(Error, match=f"process {OTHER} runs .*{text}"):
        differs()
    check()

# What the compiler adds, to lay out a result as it is asked for, has the line of the call.
call = lambda: pyjax.jit(lambda x: x * 2, out_shardings=NamedSharding(MESH, P()))(X)
if ME == 0:
    line = next(n for n, text in enumerate(open(__file__), 1) if text.startswith("call = "))
    with pytest.raises(Error, match=rf"(?s)lays out arrays as.*failures.py:{line}"):
        call()
pyjax.distributed.client().wait_at_barrier("laid out", 20_000)
check()

# One has gone on, and sends nothing more for what the other waits in.


def once_more(x: Any) -> Any:
    return lax.cond(lax.axis_index("i") == 0, lambda x: lax.psum(x, "i"), lambda x: x, x)


unequal = unchecked(once_more)
if ME == 0:
    with pytest.raises(
        Error, match=r"waits in .*jit_once_more.*process 1 has left it, and runs %al"
    ):
        unequal(X)
else:
    unequal(X)
assert summed(X).shape == (8,)
check()
print(f"process {ME} is through")
