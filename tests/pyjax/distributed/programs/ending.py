"""One of two processes ends early, in the way that the argument says."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np

import pyjax
from pyjax import P
from pyjax.sharding import NamedSharding

how = sys.argv[1]
pyjax.distributed.initialize(heartbeat_timeout_seconds=6)
mesh = pyjax.make_mesh((pyjax.device_count(),), ("i",))
x = pyjax.device_put(np.ones(6, np.float32), NamedSharding(mesh, P("i")))
total = pyjax.jit(lambda x: x.sum())
assert total(x) == 6
if pyjax.process_index() == 1:
    if how == "raise":
        raise ValueError("the data ran out")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(60)
start = time.monotonic()
try:
    total(x)
finally:
    print(f"an error after {time.monotonic() - start:.1f} s")
