"""What handlers may ask for while they run: the table of functions of XLA's foreign function
interface.

Handlers get numbers for what belongs to us (an execution, an error, a future) and hand them back.
All functions are safe from any thread.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from typing import Any

from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.runtime.client import ExecutionContext
from xla_backend.runtime.ffi import structures as s
from xla_backend.runtime.ffi.structures import ErrorCode, Stage
from xla_backend.runtime.host_threads import num_threads

_numbers = itertools.count(1)


class Table:
    """Objects that libraries know by number."""

    def __init__(self) -> None:
        self._held: dict[int, Any] = {}

    def add(self, value: Any) -> int:
        number = next(_numbers)
        self._held[number] = value
        return number

    def get(self, number: int | None) -> Any:
        return self._held.get(number or 0)

    def take(self, number: int | None) -> Any:
        return self._held.pop(number or 0, None)


class Failure:
    """An error that a handler made."""

    def __init__(self, code: int, message: bytes) -> None:
        self.code = code
        self.message = ctypes.create_string_buffer(message)

    def __str__(self) -> str:
        known = self.code in ErrorCode._value2member_map_
        name = ErrorCode(self.code).name if known else f"error {self.code}"
        return f"{name}: {self.message.value.decode(errors='replace')}"


class Future:
    """What a handler that goes on after it is back sets at its end."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.failure: Failure | None = None


class Run:
    """What a handler may ask about the run that calls it.

    Attributes:
      states: what handlers keep, by stage: that of INSTANTIATE for good, others for one run.
    """

    def __init__(self, context: ExecutionContext | None, kept: dict[Stage, Any]) -> None:
        self.context = context
        self.states: dict[Stage, Any] = dict(kept)
        self.memory: dict[int, Any] = {}


errors, runs, futures = Table(), Table(), Table()
# Types of states and of users' data: numbers by name, and the functions that delete states.
type_ids: dict[str, int] = {}
user_data: dict[int, int] = {}
_type_numbers = itertools.count(1)


def type_number(name: str, wanted: int = 0) -> int:
    """The number of a type, which a library may have chosen.

    Raises:
      ValueError: the name has another number.
    """
    number = type_ids.setdefault(name, wanted or next(_type_numbers))
    if wanted and number != wanted:
        raise ValueError(f"the type {name!r} has the number {number}, not {wanted}")
    return number


def _error_create(args: Any) -> int:
    return errors.add(Failure(args.errc, args.message or b""))


def _error_message(args: Any) -> None:
    failure = errors.get(args.error)
    args.message = ctypes.addressof(failure.message) if failure is not None else None


def _error_destroy(args: Any) -> None:
    errors.take(args.error)


def _handler_register(args: Any) -> None:
    register = _registrar[0]
    bundle = {stage: getattr(args.bundle, stage.name.lower()) for stage in Stage}
    register(args.name.text(), args.platform.text(), {k: v for k, v in bundle.items() if v})


# `register(name, platform, handlers by stage)`: set by the module that keeps targets.
_registrar: list[Callable[[str, str, dict[Stage, int]], None]] = []


def set_registrar(register: Callable[[str, str, dict[Stage, int]], None]) -> None:
    """Where handlers go that libraries register by themselves."""
    _registrar[:] = [register]


def _stream_get(args: Any) -> None:
    raise _Refused(ErrorCode.UNIMPLEMENTED, "programs on CPUs have no stream")


def _type_register(args: Any) -> None:
    wanted = args.type_id.contents.type_id
    args.type_id.contents.type_id = type_number(args.name.text(), max(wanted, 0))


def _context_get(args: Any) -> None:
    number = args.type_id.contents.type_id
    if number not in user_data:
        raise _Refused(ErrorCode.NOT_FOUND, f"no data of type {number} is in the context")
    args.data = user_data[number]


def _state_set(args: Any) -> None:
    _run(args).states[Stage(args.stage)] = (args.type_id.contents.type_id, args.state)


def _state_get(args: Any) -> None:
    kind, state = _run(args).states.get(Stage(args.stage), (None, None))
    if kind is None:
        name = Stage(args.stage).name.lower()
        raise _Refused(ErrorCode.NOT_FOUND, f"no state was set in the stage {name}")
    if kind != args.type_id.contents.type_id:
        raise _Refused(ErrorCode.INVALID_ARGUMENT, f"the state has type {kind}")
    args.state = state


def _allocate(args: Any) -> None:
    alignment = max(args.alignment, 1)
    block = ctypes.create_string_buffer(args.size + alignment)
    start = -(-ctypes.addressof(block) // alignment) * alignment
    _run(args).memory[start] = block
    args.data = start


def _free(args: Any) -> None:
    _run(args).memory.pop(args.data, None)


def _schedule(args: Any) -> None:
    task = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(args.task)
    threading.Thread(target=task, args=(args.data,), daemon=True).start()


def _num_threads(args: Any) -> None:
    args.num_threads[0] = num_threads()


def _future_create(args: Any) -> None:
    args.future = futures.add(Future())


def _future_set(args: Any) -> None:
    futures.get(args.future).done.set()


def _future_fail(args: Any) -> None:
    future = futures.get(args.future)
    future.failure = errors.take(args.error)
    future.done.set()


def _run_id(args: Any) -> None:
    context = _run(args).context
    args.run_id = 0 if context is None else context.run


def _ordinal(args: Any) -> None:
    context = _run(args).context
    args.device_ordinal = 0 if context is None else context.device.id


def _run(args: Any) -> Run:
    run = runs.get(args.ctx)
    if run is None:
        raise _Refused(ErrorCode.FAILED_PRECONDITION, "the run of this context is over")
    return run


class _Refused(Exception):
    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


_MEANINGS: dict[type[ctypes.Structure], Callable[[Any], int | None]] = {
    s.ErrorCreate: _error_create,
    s.ErrorGetMessage: _error_message,
    s.ErrorDestroy: _error_destroy,
    s.HandlerRegister: _handler_register,
    s.StreamGet: _stream_get,
    s.TypeRegister: _type_register,
    s.ContextGet: _context_get,
    s.StateSet: _state_set,
    s.StateGet: _state_get,
    s.MemoryAllocate: _allocate,
    s.MemoryFree: _free,
    s.Schedule: _schedule,
    s.NumThreads: _num_threads,
    s.FutureCreate: _future_create,
    s.FutureSetAvailable: _future_set,
    s.FutureSetError: _future_fail,
    s.RunIdGet: _run_id,
    s.OrdinalGet: _ordinal,
}


def _entry(kind: type[ctypes.Structure]) -> Any:
    """A function of the interface for C: exceptions become errors."""
    meaning = _MEANINGS[kind]

    def call(address: int) -> int | None:
        try:
            return meaning(kind.from_address(address))
        except _Refused as error:
            return errors.add(Failure(error.code, str(error).encode()))
        except Exception as error:  # nothing may pass through C
            return errors.add(Failure(ErrorCode.INTERNAL, repr(error).encode()))

    return s.FUNCTION(call)


API = s.made(
    s.Api,
    api_version=s.made(s.ApiVersion, major_version=s.MAJOR, minor_version=s.MINOR),
    **{kind.__name__: _entry(kind) for kind in s.FUNCTIONS},
)


def check(target: str, stage: Stage, error: int | None) -> None:
    """Raise what a handler returned.

    Raises:
      RuntimeFailure: it returned an error.
    """
    if error:
        failure = errors.take(error)
        raise RuntimeFailure(f"{failure} (the {stage.name.lower()} handler of {target!r})")
