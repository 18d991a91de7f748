"""Programs of several processes. One process is all there is so far: `initialize` takes it, with
the checks that it would make for more."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Sequence
from typing import Any

from pyjax._config import config, options
from pyjax.core.errors import fail, new_error
from pyjax.core.source_info import warn_user
from pyjax.runtime.devices import are_initialised

logger = logging.getLogger(__name__)
_initialized = [False]


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
) -> None:
    """Join the other processes of a program; before devices are used.

    Args:
      coordinator_address: `host:port` where process 0 waits for the others.
      num_processes: how many there are.   process_id: number of this one, from 0.
        With `jax_cpu_collectives_implementation="mpi"` MPI knows all three, through mpi4py: start
        the program with `mpiexec`, and leave them out.
      local_device_ids: numbers of the GPUs that this process may use (`jax_cuda_visible_devices`).
      cluster_detection_method: "mpi4py" asks MPI as above; "deactivate", or None, nobody.
      initialization_timeout, heartbeat_timeout_seconds, shutdown_timeout_seconds: positive seconds.
      coordinator_bind_address, slice_index, partition_index: where process 0 listens, and groups of
        processes. One process waits for nobody and listens nowhere: these have no effect yet.
    Raises:
      ValueError: an argument is missing, process_id is not below num_processes, MPI knows other
        numbers, a time is not positive, or the detection method is unknown.
      ImportError: MPI is asked for, and mpi4py or the library of MPI is missing.
      RuntimeError: called twice, or after devices were used.
      NotImplementedError: there is more than one process.

    >>> initialize.__name__
    'initialize'
    """
    for name, seconds in (
        ("initialization_timeout", initialization_timeout),
        ("heartbeat_timeout_seconds", heartbeat_timeout_seconds),
        ("shutdown_timeout_seconds", shutdown_timeout_seconds),
    ):
        if seconds <= 0:
            fail(ValueError, f"distributed.initialize: {name}={seconds}", "it counts seconds")
    if cluster_detection_method not in (None, "mpi4py", "deactivate"):
        fail(
            ValueError,
            f"distributed.initialize: cluster_detection_method={cluster_detection_method!r}",
            "this library asks MPI or nobody",
            "cluster_detection_method='mpi4py', or pass addresses and numbers",
        )
    engine = "mpi" if cluster_detection_method == "mpi4py" else _engine()
    if engine == "mpi":
        num_processes, process_id = _numbers_of_mpi(num_processes, process_id)
    elif coordinator_address is None or num_processes is None or process_id is None:
        fail(
            ValueError,
            "distributed.initialize needs coordinator_address, num_processes and process_id",
            f"with jax_cpu_collectives_implementation={engine!r} nobody is asked for them",
            "initialize('localhost:1234', num_processes=1, process_id=0), or mpi as engine",
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
    if local_device_ids is not None:
        ids = [local_device_ids] if isinstance(local_device_ids, int) else local_device_ids
        config.update("jax_cuda_visible_devices", ",".join(str(int(i)) for i in ids))
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


def _engine() -> str | None:
    """What exchanges arrays between processes on CPUs; with a warning about older names."""
    if options.cpu_enable_gloo_collectives.value:
        warn_user(
            "jax_cpu_enable_gloo_collectives is deprecated: set "
            "jax_cpu_collectives_implementation to 'gloo'",
            DeprecationWarning,
        )
        return "gloo"
    engine = options.cpu_collectives_implementation.value
    if engine == "megascale":
        warn_user(
            "jax_cpu_collectives_implementation='megascale' has no effect: that engine is not part "
            "of pyjax",
        )
    return engine


def _numbers_of_mpi(num_processes: int | None, process_id: int | None) -> tuple[int, int]:
    """How many processes MPI's world has, and which one this is.

    Raises:
      ImportError: mpi4py, or the library of MPI that it loads, is missing.
      ValueError: the caller expects other numbers.
    """
    world = _mpi().COMM_WORLD
    size, rank = world.Get_size(), world.Get_rank()
    for name, given, known in (
        ("num_processes", num_processes, size),
        ("process_id", process_id, rank),
    ):
        if given not in (None, known):
            fail(
                ValueError,
                f"distributed.initialize: {name} is {given}, and {known} according to MPI",
                "with jax_cpu_collectives_implementation='mpi' MPI's world is the program's",
                f"leave {name} out, or start the program with mpiexec -n {num_processes or size}",
            )
    return size, rank


def _mpi() -> Any:
    """The module `mpi4py.MPI`, which loads and starts the library of MPI."""
    try:
        return importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise new_error(
            ImportError,
            f"distributed.initialize cannot ask MPI: {error}",
            "jax_cpu_collectives_implementation='mpi' needs mpi4py, and the library of MPI that it "
            "loads",
            "install both (pip install 'pyjax[mpi]'), or set the option to 'gloo'",
        ) from error


def _warn_of_proxies() -> None:
    proxies = sorted(name for name in os.environ if "_proxy" in name.lower())
    if proxies and options.check_proxy_envs.value:
        logger.warning(
            "proxy variables are set: %s. Processes that look for each other through a proxy may "
            "wait for ever; unset them, or set jax_check_proxy_envs=False to see this no more",
            " ".join(proxies),
        )
