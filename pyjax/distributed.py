"""Programs of several processes, which MPI starts and carries their arrays."""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from pyjax._config import config, options
from pyjax.core.errors import fail, new_error
from pyjax.core.source_info import warn_user
from pyjax.runtime.devices import are_initialised
from pyjax.runtime.processes import DistributedClient
from xla_backend.runtime.processes.errors import ProcessTimeout
from xla_backend.runtime.processes.joined import joined, set_joined

logger = logging.getLogger(__name__)
_initialized = [False]
# For the others to end; and until a silent process counts as gone.
_shutdown_seconds = [300.0, 100.0]


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

    On CPUs processes exchange arrays through MPI. Start them with `mpiexec -n 4 python program.py`,
    or Slurm's `srun`, and call `initialize()` in each: MPI knows the rest.

    Args:
      coordinator_address: `host:port` of process 0, as other engines need it; MPI does not.
      num_processes: how many there are.   process_id: number of this one, from 0. If they are
        given, they must be what MPI says.
      local_device_ids: numbers of the GPUs that this process may use (`jax_cuda_visible_devices`).
      cluster_detection_method: "mpi4py" asks MPI; "ompi" and "slurm" expect that Open MPI, or
        Slurm, has started this; None: MPI, if the environment tells that a launcher (Open MPI,
        MPICH and its kin, Slurm) has, or with `jax_cpu_collectives_implementation="mpi"`;
        "deactivate": nobody is asked.
      initialization_timeout: seconds to wait for the other processes.
      heartbeat_timeout_seconds: a process that is silent for so long counts as gone.
      shutdown_timeout_seconds: to wait for the others at the end.
      coordinator_bind_address, slice_index, partition_index: where process 0 listens, and groups of
        processes. MPI listens by itself: these have no effect.
    Raises:
      ValueError: an argument is missing, process_id is not below num_processes, MPI knows other
        numbers, a time is not positive, the detection method is unknown, or finds nothing.
      ImportError: MPI is asked for, and mpi4py or the library of MPI is missing.
      RuntimeError: called twice, or after devices were used; the others do not come in time; MPI is
        of another make than what started the processes.
      NotImplementedError: there is more than one process, and MPI has not started them.

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
    launcher = _launcher(cluster_detection_method)
    asks_mpi = _engine() == "mpi" or cluster_detection_method == "mpi4py" or launcher is not None
    if asks_mpi:
        num_processes, process_id = _numbers_of_mpi(num_processes, process_id, launcher)
    elif coordinator_address is None or num_processes is None or process_id is None:
        fail(
            ValueError,
            "distributed.initialize needs coordinator_address, num_processes and process_id",
            "no launcher (mpiexec, srun) has started this process, and "
            f"jax_cpu_collectives_implementation={options.cpu_collectives_implementation.value!r} "
            "asks nobody",
            "start the program with mpiexec -n 2, or initialize('localhost:1234', num_processes=1, "
            "process_id=0)",
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
    if num_processes > 1 and not asks_mpi:
        fail(
            NotImplementedError,
            f"a program of {num_processes} processes that MPI has not started",
            "processes exchange arrays through MPI, which has to start them",
            f"mpiexec -n {num_processes} python program.py, with distributed.initialize() in it; "
            "pip install 'pyjax[mpi]' brings both",
        )
    if num_processes > 1:
        _join(initialization_timeout, heartbeat_timeout_seconds, shutdown_timeout_seconds)
    if local_device_ids is not None:
        ids = [local_device_ids] if isinstance(local_device_ids, int) else local_device_ids
        config.update("jax_cuda_visible_devices", ",".join(str(int(i)) for i in ids))
    _initialized[0] = True


def _join(initialization_timeout: float, heartbeat: float, shutdown_timeout: float) -> None:
    room = importlib.import_module("xla_backend.runtime.processes.join")
    try:
        shared = room.join(_mpi(), initialization_timeout, heartbeat)
    except ProcessTimeout as error:
        raise new_error(
            RuntimeError,
            f"distributed.initialize: {error}",
            f"initialization_timeout={initialization_timeout} seconds have passed",
            "look for what holds them up, or ends them",
        ) from error
    _shutdown_seconds[:] = [shutdown_timeout, heartbeat]
    atexit.register(_at_exit)
    logger.info("process %d of %d has joined", shared.world.index, shared.world.count)


def shutdown() -> None:
    """Leave the program that was joined, if one was, when all its processes do. What is on devices
    of several processes can only be read in part from then on.

    Raises:
      RuntimeError: others have not come to their end within `shutdown_timeout_seconds`, or are
        gone.

    >>> shutdown()
    """
    _initialized[0] = False
    shared = joined()
    if shared is None:
        return
    shared.world.end("has shut down")
    seconds = _shutdown_seconds[0]
    if shared.world.close(seconds):
        set_joined(None)
        return
    _shutdown_seconds[:] = [0, 0]  # they were waited for
    fail(
        RuntimeError,
        f"distributed.shutdown: {shared.world.absent()}",
        f"the processes of a program end together, within {seconds:g} s (shutdown_timeout_seconds)",
        "look for what holds them up, or has ended them",
    )


def _at_exit() -> None:
    """The interpreter ends. Where another process is gone, or does not end, MPI could not be ended
    in order either: then all of them are ended at once."""
    shared = joined()
    if shared is None or shared.world.is_inherited:
        return
    error = getattr(sys, "last_value", None)
    shutdown_seconds, patience = _shutdown_seconds
    if error is None:
        shared.world.end("has ended")
        whole = shared.world.close(shutdown_seconds)
    else:
        first_line = str(error).partition("\n")[0]
        shared.world.end(f"has ended with {type(error).__name__}: {first_line}")
        whole = shared.world.close(patience)
    set_joined(None)
    if not whole:
        logger.error("%s: all processes are ended", shared.world.absent())
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        shared.world.abort()


def is_initialized() -> bool:
    """Whether this process has joined a program.

    >>> is_initialized()
    False
    """
    return _initialized[0]


def client() -> DistributedClient | None:
    """What processes tell each other by keys and barriers; None: this process has joined no others.

    >>> client() is None
    True
    """
    shared = joined()
    return None if shared is None else DistributedClient(shared.store)


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


class _Launcher(NamedTuple):
    """What has started this process, as the environment tells.

    Attributes:
      size: how many processes there are.
    """

    name: str
    size: int


# Name of a launcher, the method that expects it, and where it says how many processes there are.
_LAUNCHERS = (
    ("Open MPI", "ompi", "OMPI_COMM_WORLD_SIZE"),
    ("MPICH", "mpich", "PMI_SIZE"),
    ("Slurm", "slurm", "SLURM_STEP_NUM_TASKS"),
)
_METHODS = ("mpi4py", "deactivate", *(method for _, method, _ in _LAUNCHERS))


def _launcher(method: str | None) -> _Launcher | None:
    """What has started this process; None: nothing that says so, or nobody is to look.

    Raises:
      ValueError: the method is unknown, or its launcher was not used.
    """
    if method not in (None, *_METHODS):
        fail(
            ValueError,
            f"distributed.initialize: cluster_detection_method={method!r}",
            f"these are known: {', '.join(map(repr, _METHODS))}",
            "leave it out, or pass addresses and numbers",
        )
    if method == "deactivate":
        return None
    for name, own, variable in _LAUNCHERS:
        count = os.environ.get(variable, "")
        if method in (None, "mpi4py", own) and count.isdigit():
            return _Launcher(name, int(count))
    if method not in (None, "mpi4py"):
        fail(
            ValueError,
            f"distributed.initialize: cluster_detection_method={method!r} finds nothing",
            "the environment has none of the launcher's variables",
            "start the program with it, or leave cluster_detection_method out",
        )
    return None


def _numbers_of_mpi(
    num_processes: int | None, process_id: int | None, launcher: _Launcher | None
) -> tuple[int, int]:
    """How many processes MPI's world has, and which one this is.

    Raises:
      ImportError: mpi4py, or the library of MPI that it loads, is missing.
      ValueError: the caller expects other numbers.
      RuntimeError: the launcher is not of that library.
    """
    mpi = _mpi()
    world = mpi.COMM_WORLD
    size, rank = world.Get_size(), world.Get_rank()
    if launcher is not None and launcher.size != size:
        library = mpi.Get_library_version().split("\n")[0]
        fail(
            RuntimeError,
            f"distributed.initialize: {launcher.name} has started {launcher.size} processes, and "
            f"MPI knows {size}",
            f"the library that mpi4py loads is of another make: {library}",
            "start the program with the mpiexec of that library, or let mpi4py load the "
            "launcher's (its variable MPI4PY_MPIABI, or its folder first in LD_LIBRARY_PATH)",
        )
    for name, given, known in (
        ("num_processes", num_processes, size),
        ("process_id", process_id, rank),
    ):
        if given not in (None, known):
            fail(
                ValueError,
                f"distributed.initialize: {name} is {given}, and {known} according to MPI",
                "MPI's world is the program's",
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
            "processes exchange arrays through mpi4py, and the library of MPI that it loads",
            "install both: pip install 'pyjax[mpi]'",
        ) from error


def _warn_of_proxies() -> None:
    proxies = sorted(name for name in os.environ if "_proxy" in name.lower())
    if proxies and options.check_proxy_envs.value:
        logger.warning(
            "proxy variables are set: %s. Processes that look for each other through a proxy may "
            "wait for ever; unset them, or set jax_check_proxy_envs=False to see this no more",
            " ".join(proxies),
        )
