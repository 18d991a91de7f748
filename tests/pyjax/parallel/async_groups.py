"""Programs over devices that go on while their callers do: order, waiting, donation, errors,
interrupts, threads, forks, and the end of the process. Prints "done".

python async_groups.py
"""

import gc
import os
import signal
import threading
import weakref

import numpy as np
import pytest

import pyjax
from pyjax import P, lax
from pyjax.sharding import Mesh, NamedSharding
from xla_backend.runtime import group_queue as groups

pyjax.config.update("jax_num_cpu_devices", 4)
MESH = Mesh(np.array(pyjax.devices()), ("i",))
X = pyjax.device_put(np.zeros(8, np.float32), NamedSharding(MESH, P("i")))
LONG = 4_000_000


def mapped(f, **kinds):
    over = pyjax.shard_map(f, mesh=MESH, in_specs=(P("i"), P()), out_specs=P("i"), check_vma=False)
    return pyjax.jit(over, **kinds)


def _turns(x, n):
    x = lax.fori_loop(0, n, lambda i, c: c + 0.5, x)
    return x + 0 * lax.psum(x, "i")


turns, turns_in_place = mapped(_turns), mapped(_turns, donate_argnums=0)
short = mapped(_turns)  # each goes by how long its last run took
endless = mapped(lambda x, n: lax.while_loop(lambda c: c[0] >= n, lambda c: c * 0.5 + 1, x))
for f in (turns, turns_in_place):
    f(X + 0, LONG).block_until_ready()
short(X, 10).block_until_ready()


def started(x, n=LONG, f=turns):
    """The result of a program that does not begin before the call is back."""
    with groups._one_at_a_time:
        result = f(x, n)
        assert not result.is_ready(), "the call waited"
    return result


# In the order of the calls, one after another, and nobody waits but who reads.
y = started(X)
z = started(y, f=turns_in_place)
assert y.is_deleted()
pair = z + 1
np.testing.assert_array_equal(pair, np.full(8, LONG + 1))
assert z.is_ready() and short(X, 10).sum() == 40

# Memory of what is donated is taken over, though it was not there yet.
y = started(X)
view = y.addressable_shards[0].data  # waits
where = view.unsafe_buffer_pointer()
del view
gc.collect()
z = started(y, f=turns_in_place)
assert z.addressable_shards[0].data.unsafe_buffer_pointer() == where

# The option, and who has nobody to wait for him.
pyjax.config.update("jax_cpu_enable_async_dispatch", False)
assert turns(X, LONG).is_ready()
pyjax.config.update("jax_cpu_enable_async_dispatch", True)
kept = weakref.ref(started(X))
gc.collect()
assert kept() is None
groups.group_queue().drain(60)

# An error is told where a result is read, with the line of the call, each time.
wrong = mapped(
    lambda x, n: lax.cond(
        lax.axis_index("i") == 0,
        lambda: lax.psum(x, "i"),
        lambda: lax.fori_loop(0, n, lambda i, c: c + 0.5, x),
    )
)
failed = wrong(X, LONG)  # the line of the call
line = next(n for n, text in enumerate(open(__file__), 1) if text.endswith("line of the call\n"))
later = failed + 1
for result in (failed, later, failed):
    with pytest.raises(
        pyjax.errors.JaxRuntimeError, match=rf"(?s)never come.*async_groups.py:{line}"
    ):
        result.block_until_ready()
assert short(X, 10).sum() == 40


class Alarm(Exception):
    pass


def alarm(*_):
    raise Alarm


# An interrupt ends the wait. What nobody has any more ends for the next program.
signal.signal(signal.SIGALRM, alarm)
y = endless(X, 0)
signal.setitimer(signal.ITIMER_REAL, 0.2)
with pytest.raises(Alarm):
    y.block_until_ready()
assert short(X, 10).sum() == 40 and not y.is_ready()
del y
assert turns(X, LONG).sum() == 4 * LONG
assert not groups.group_queue()._runs


# Threads: one has the queue, others compute next to it.
def work():
    for _ in range(5):
        totals.append(float(short(turns(X, LONG // 10), 10).sum()))


totals: list = []
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(60)
assert totals == [4.0 * (LONG // 10 + 10)] * 15, totals

# A child waits for what is under way before it is made, and runs programs itself.
turns(X, LONG).block_until_ready()
y = started(X)
pid = os.fork()
if pid == 0:
    status = 1
    try:
        good = y.sum() == 4 * LONG and turns(y, LONG).sum() == 8 * LONG
        status = 0 if good else 2
    finally:
        os._exit(status)
assert os.waitpid(pid, 0)[1] == 0
assert y.sum() == 4 * LONG

# What goes on when the process ends is stopped.
print("done", flush=True)
rest = [endless(X, 0), started(X)]
