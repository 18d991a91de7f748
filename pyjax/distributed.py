"""Programs of several processes. One process is all there is so far: `initialize` takes it, with
the checks that it would make for more."""

from __future__ import annotations

import logging
import os

from pyjax._config import options
from pyjax.core.errors import fail
from pyjax.runtime.devices import are_initialised

logger = logging.getLogger(__name__)
_initialized = [False]


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
) -> None:
    """Join the other processes of a program; before devices are used.

    Args:
      coordinator_address: `host:port` where process 0 waits for the others.
      num_processes: how many there are.   process_id: number of this one, from 0.
    Raises:
      ValueError: an argument is missing, or process_id is not below num_processes.
      RuntimeError: called twice, or after devices were used.
      NotImplementedError: there is more than one process.

    >>> initialize.__name__
    'initialize'
    """
    if coordinator_address is None or num_processes is None or process_id is None:
        fail(
            ValueError,
            "distributed.initialize needs coordinator_address, num_processes and process_id",
            "no cluster manager is asked for them",
            "initialize('localhost:1234', num_processes=1, process_id=0)",
        )
    if not 0 <= process_id < num_processes:
        fail(
            ValueError,
            f"distributed.initialize: process_id {process_id} of {num_processes} processes",
            "processes are numbered from 0",
        )
    if _initialized[0]:
        fail(
            RuntimeError,
            "distributed.initialize should only be called once",
            "this process has joined already",
            "call pyjax.distributed.shutdown() first",
        )
    if are_initialised():
        fail(
            RuntimeError,
            "distributed.initialize must be called before any device is used",
            "devices of other processes could not be added any more",
            "call it at the start of the program",
        )
    _warn_of_proxies()
    if num_processes > 1:
        fail(
            NotImplementedError,
            f"a program of {num_processes} processes",
            "this library has no collectives between processes yet",
            "run one process with several devices (jax_num_cpu_devices)",
        )
    _initialized[0] = True


def shutdown() -> None:
    """Leave the program that was joined, if one was.

    >>> shutdown()
    """
    _initialized[0] = False


def is_initialized() -> bool:
    """Whether this process has joined a program.

    >>> is_initialized()
    False
    """
    return _initialized[0]


def _warn_of_proxies() -> None:
    proxies = sorted(name for name in os.environ if "_proxy" in name.lower())
    if proxies and options.check_proxy_envs.value:
        logger.warning(
            "proxy variables are set: %s. Processes that look for each other through a proxy may "
            "wait for ever; unset them, or set jax_check_proxy_envs=False to see this no more",
            " ".join(proxies),
        )
