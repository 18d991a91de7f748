"""Running a module on all its replicas and partitions in lockstep."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from xla_backend.hlo.evaluator.arguments import bind_arguments, result_leaves
from xla_backend.hlo.evaluator.interpreter import CustomCall, Interpreter
from xla_backend.hlo.evaluator.participants import Lockstep, Participant
from xla_backend.hlo.host_queues import Host
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.topology import Topology
from xla_backend.process.waits import LOOK_EVERY


def evaluate_partitioned(
    module: HloModule,
    arguments: Sequence[Sequence[np.ndarray]],
    *,
    replica_count: int | None = None,
    num_partitions: int | None = None,
    custom_calls: Mapping[str, CustomCall] | None = None,
    seed: int | None = None,
    hosts: Sequence[Host] | None = None,
) -> list[list[np.ndarray]]:
    """Run a module with NumPy on every replica and partition; collectives exchange their values.

    Participant `replica * num_partitions + partition` runs with `arguments` of that number. Each
    has a thread of its own, but waits at collectives, so results do not depend on timing.

    Args:
      arguments: for each participant its flat parameter leaves, as for `evaluate`.
      replica_count, num_partitions: instead of the module's own.
      custom_calls, seed: as for `evaluate`; participants draw different numbers from `rng`.
      hosts: the host's end of infeed, outfeed and host transfers, one per participant.
    Returns:
      For each participant the leaves of its result.
    Raises:
      ValueError: not one list of arguments (or host) per participant, or one that does not fit.
      RuntimeFailure: participants wait for partners that never come.
      UnimplementedError: an opcode or custom call has no meaning here.
    """
    topology = Topology(
        module.replica_count if replica_count is None else replica_count,
        module.num_partitions if num_partitions is None else num_partitions,
    )
    for what, given in (("lists of arguments", arguments), ("hosts", hosts)):
        if given is not None and len(given) != topology.size:
            raise ValueError(
                f"{module.name} runs on {topology.replica_count} replica(s) x "
                f"{topology.num_partitions} partition(s), got {len(given)} {what}"
            )
    bound = [bind_arguments(module, a) for a in arguments]
    lockstep = Lockstep(topology.size)
    results: list[list[np.ndarray]] = [[] for _ in range(topology.size)]

    def run(number: int) -> None:
        failure: BaseException | None = None
        try:
            interpreter = Interpreter(
                custom_calls,
                None if seed is None else seed + number,
                Participant(number, topology, lockstep),
                hosts[number] if hosts is not None else None,
            )
            with np.errstate(all="ignore"):
                assert module.entry is not None
                results[number] = result_leaves(interpreter.run(module.entry, bound[number]))
        except BaseException as error:  # kept for the caller's thread, which raises it
            failure = error
        finally:
            lockstep.finish(failure)

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(topology.size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(LOOK_EVERY)
    if lockstep.failure is not None:
        raise lockstep.failure
    return results
