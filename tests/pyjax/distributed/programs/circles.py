"""Three processes wait for each other in a circle, and go on together afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import P, lax
from pyjax.experimental.multihost_utils import sync_global_devices
from pyjax.sharding import Mesh, NamedSharding

pyjax.distributed.initialize()
ME = pyjax.process_index()
NEXT = (ME + 1) % 3
DEVICES = pyjax.devices()
Error = pyjax.errors.JaxRuntimeError


def over(*numbers: int) -> Any:
    """An array over devices of these processes."""
    mesh = Mesh(np.array([DEVICES[n] for n in numbers]), ("i",))
    return pyjax.device_put(np.ones(6, np.float32), NamedSharding(mesh, P("i")))


pairs = [over(0, 1), over(1, 2), over(0, 2)]
everywhere = over(0, 1, 2)
total, largest = pyjax.jit(jnp.sum), pyjax.jit(jnp.max)


@pyjax.jit
@pyjax.shard_map(mesh=everywhere.sharding.mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
def different_groups(x: Any) -> Any:
    """Each device exchanges with the next one first."""
    exchanges = [
        lambda x, p=((a, b), (b, a)): lax.ppermute(x, "i", p) for a, b in ((0, 1), (1, 2), (2, 0))
    ]
    return lax.switch(lax.axis_index("i"), exchanges, x)


def circle(f: Callable[[], object], *texts: str) -> None:
    """What this process waits in, and those behind it, are named in a moment."""
    start = time.monotonic()
    with pytest.raises(Error) as caught:
        f()
    assert time.monotonic() - start < 30  # a second, where nobody else is at work
    for text in texts:
        assert text in str(caught.value), (text, str(caught.value))
    pyjax.distributed.client().wait_at_barrier("after", 20_000)
    assert float(total(everywhere)) == 6
    sync_global_devices("after")


def waits(what: str) -> list[str]:
    return [f"process {n} waits in %{what}" for n in range(3)]


# Each runs a program with the next one, of three that nobody begins in the same order.
circle(lambda: float(total(pairs[ME])), *waits("all-reduce"), "same programs in the same order")

# Groups of one program.
circle(
    lambda: different_groups(everywhere),
    *waits("collective-permute"),
    "same collectives in the same order",
)

# Two of three wait for each other, and have given up when the third comes; which has an error, too.


def late(third: Callable[[], object]) -> None:
    if ME == 0:
        float(largest(everywhere))
    elif ME == 1:
        sync_global_devices("elsewhere")
    else:
        time.sleep(2)
        third()


circle(lambda: late(lambda: float(largest(everywhere))))
circle(lambda: late(lambda: sync_global_devices("elsewhere")))

print(f"process {ME} is through")
