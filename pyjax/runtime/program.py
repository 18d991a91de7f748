"""Program: a loaded executable with the arrays it takes and makes; the code that every call runs
through.

Compiling, and what is kept of it, is the business of pyjax.runtime.dispatch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import repeat
from time import perf_counter
from typing import Any, Protocol

from pyjax._config import options
from pyjax.core.debug_info import UNKNOWN, DebugInfo
from pyjax.core.errors import JaxRuntimeError, fail, new_error
from pyjax.core.refs import AbstractRef
from pyjax.core.source_info import Frame, python_user_frame, summarize
from pyjax.runtime.array import DeviceArray, deleted_error, moved, out_of_memory, out_of_reach
from pyjax.runtime.array_spec import ArraySpec
from pyjax.sharding.shardings import Sharding
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.runtime.buffer import OutOfMemory
from xla_backend.runtime.client import Device, DirectCall, ExecutionContext, LoadedExecutable
from xla_backend.runtime.device_group import DeviceGroup
from xla_backend.runtime.host_buffer import HostBufferKind
from xla_backend.runtime.pending import Job, Origin

# Programs that take longer go on while their callers do. Handing one over and waiting for it takes
# some 20 us, and on a machine that is busy with others several times that.
LONG_SECONDS = 1e-3

Call = Callable[[Sequence[DeviceArray]], list[DeviceArray]]


def bringing(
    call: Call,
    given: Sequence[ArraySpec],
    device: Device,
    wanted: Sequence[Sharding | None] = (),
    donated: Collection[int] = (),
) -> Call:
    """A call that moves those of its arguments, which are of the kinds `given`, that a program on a
    device does not reach; a group takes them as `wanted` says. References stay where they are. A
    donated array of which each device of a group gets all is gone after the call, as if the device
    that has it had given it away."""
    wanted = wanted or [None] * len(given)
    pairs = [*zip(given, wanted)]
    away = [
        (i, how)
        for i, (own, how) in enumerate(pairs)
        if not isinstance(own.aval, AbstractRef) and out_of_reach(own, device, how)
    ]
    if not away:
        return call
    gone = [
        i
        for i, how in away
        if i in donated
        and isinstance(device, DeviceGroup)
        and given[i].device in device.devices
        and (how is None or how.is_fully_replicated)
    ]

    def bring(arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
        here = list(arguments)
        for i, how in away:
            here[i] = moved(here[i], device, how)
        results = call(here)
        for i in gone:
            arguments[i].delete()
        return results

    return bring


def for_user(error: OutOfMemory | RuntimeFailure) -> Exception:
    """What the user gets to see for it, with the line of the call."""
    if isinstance(error, OutOfMemory):
        return out_of_memory(error)
    return new_error(JaxRuntimeError, str(error))


class _Call(Origin):
    """One call of a program that goes on when it is back."""

    __slots__ = ("_frame", "_program")

    def __init__(self, program: Program) -> None:
        frame = python_user_frame()
        self._program = program
        self._frame = None if frame is None else Frame(frame.f_code, frame.f_lasti)

    def error(self, message: str) -> Exception:
        if self._program.executable.asynchronous:
            who, option = "programs on GPUs", ""
            fix = "run it on the platform 'cpu' to see whether the program is at fault"
        else:
            who, option = "long programs", " (option jax_cpu_enable_async_dispatch)"
            fix = "call it again"
        return new_error(
            JaxRuntimeError,
            f"{self._program.function} did not compute its results: {message}",
            f"the call came back before, as calls of {who} do, and left the results to whoever "
            f"reads them{option}",
            fix,
            where=summarize(self._frame),
        )

    def took(self, nanoseconds: int) -> None:
        self._program.seconds = nanoseconds * 1e-9
        for watcher in watchers:
            watcher.took(self._program, nanoseconds)


class Watcher(Protocol):
    """What sees all programs, while it is in `watchers`: a recorder of traces."""

    def made(self, program: Program) -> None:
        """There is a new program, which may be wrapped."""

    def took(self, program: Program, nanoseconds: int) -> None:
        """A run has ended that went on when its call was back."""


watchers: list[Watcher] = []


class Program:
    """A loaded executable together with the arrays it takes and makes.

    Whoever runs it keeps the buffers it is given until it is back: another thread may delete or
    donate the same arrays meanwhile.

    Attributes:
      executable: the compiled program.
      constants: arrays passed after the arguments at each call (values the function closed over).
      out_specs: kind of each output.
      in_shardings: how each argument and constant lies, of a program on a group of devices.
      donated: numbers of the donated arguments: those whose memory an output takes over.
      is_for_now: another executable takes its place after some calls.
      seconds: that the last run took of one that may be long, or an estimate.
      call: runs on arrays whose specs are those the program was compiled for, returns a list of
        arrays. Raises RuntimeError if an argument or constant was deleted or donated before,
        JaxRuntimeError if a donated argument is passed twice, MemoryError if there is no memory
        for a result: the arguments are as they were then. If the program itself fails, donated
        arguments are gone. Long programs may go on when the call is back, and so do those that use
        their results: then whoever reads a result waits, and gets to know what failed.
    """

    def __init__(
        self,
        executable: LoadedExecutable,
        device: Device,
        constants: Sequence[DeviceArray],
        out_specs: Sequence[ArraySpec],
        debug: DebugInfo = UNKNOWN,
        in_shardings: Sequence[Sharding | None] = (),
    ) -> None:
        self.executable = executable
        self._device = device
        self.in_shardings = tuple(in_shardings)
        ends = self.in_shardings[len(self.in_shardings) - len(constants) :]
        wanted = ends or [None] * len(constants)
        self.constants = tuple(moved(c, device, how) for c, how in zip(constants, wanted))
        self.out_specs = tuple(out_specs)
        self.donated = frozenset(executable.aliases.values())
        self._debug = debug
        self._execute = executable.execute
        self._context: Callable[[], ExecutionContext]
        if executable.uses_context:
            self._context = lambda: ExecutionContext(device)
        else:
            self._context = repeat(ExecutionContext(device)).__next__
        self._wrappers: tuple[Callable[[Call], Call], ...] = ()
        self.is_for_now = False
        self._at_once: Call
        direct = executable.direct
        if self.donated:
            self._at_once = self._call_donating
        elif direct is not None and len(self.out_specs) == 1 and not self.constants:
            self._at_once = self._one_output_call(direct)
        else:
            self._at_once = self._call_general
        self.call: Call = self._at_once
        self.seconds = executable.seconds
        if executable.asynchronous:
            self.call = self._call_started
        elif self.seconds >= LONG_SECONDS:
            self.call = self._long_call(self._at_once)
        for watcher in watchers:
            watcher.made(self)

    def wrap(self, wrapper: Callable[[Call], Call]) -> None:
        """Calls go through what `wrapper` makes of the way it was called so far."""
        self._wrappers += (wrapper,)
        self.call = wrapper(self.call)

    def replace(
        self, executable: LoadedExecutable, constants: Sequence[DeviceArray] | None = None
    ) -> Call:
        """Run another executable of the same program from now on; calls under way end with the one
        they began with. Returns how that is called, without the wrappers.

        Args:
          constants: that it takes, where these are not those of the one before.
        """
        taken = self.constants if constants is None else constants
        other = Program(
            executable, self._device, taken, self.out_specs, self._debug, self.in_shardings
        )
        call = other.call
        for wrapper in self._wrappers:
            call = wrapper(call)
        self.executable = executable
        self.is_for_now = False
        self._at_once = other._at_once
        self.call = call
        return other.call

    def bring_from(self, given: Sequence[ArraySpec]) -> None:
        """Arguments are of these kinds: from now on each call moves those that lie in memory which
        the program does not reach."""
        wanted, device, donated = self.in_shardings[: len(given)], self._device, self.donated
        # It does not hold the program, which holds it: what nobody runs any more goes at once.
        self.wrap(lambda call: bringing(call, given, device, wanted, donated))

    @property
    def is_plain(self) -> bool:
        """Whether a call does no more than run the program: nobody has wrapped it, it is not so
        long that it goes on while its caller does, and nothing is donated."""
        return self.call is self._at_once and not self.donated

    @property
    def held_bytes(self) -> int:
        """Memory that the program keeps, for caches."""
        return self.executable.held_bytes

    def __call__(self, arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
        return self.call(arguments)

    def _one_output_call(self, direct: DirectCall) -> Call:
        """The common case where buffers are host addressable, with every lookup done ahead: each
        one costs at every call."""
        (spec,) = self.out_specs
        assert isinstance(spec.kind, HostBufferKind)
        take, grow, new = spec.kind.take, spec.kind.grow, DeviceArray.__new__
        native, pack_arguments, pack_outputs, _ = direct

        def call(arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
            try:
                blocks = [a.buffer for a in arguments]
            except AttributeError:
                return self._call_pending(arguments)
            out = result = None
            try:
                out = new(DeviceArray)
                try:
                    out.buffer = result = take()
                except IndexError:
                    out.buffer = result = grow()
                out.spec = spec
                native(pack_arguments(*blocks), pack_outputs(result))
            except BaseException as error:
                del blocks, out, result  # the traceback would keep their memory
                if isinstance(error, OutOfMemory):
                    raise out_of_memory(error) from None
                raise
            return [out]

        return call

    def _call_general(self, arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
        try:
            buffers = self._buffers(arguments)
        except AttributeError:
            return self._call_pending(arguments)
        try:
            results = self._execute(buffers, (), self._context())
        except (OutOfMemory, RuntimeFailure) as error:
            del buffers
            raise for_user(error) from None
        except BaseException:
            del buffers
            raise
        return self._arrays(results)

    def _arrays(self, buffers: Sequence[Any]) -> list[DeviceArray]:
        new = DeviceArray.__new__
        arrays: list[DeviceArray] = []
        for spec, buffer in zip(self.out_specs, buffers):
            array = new(DeviceArray)
            array.buffer = buffer
            array.spec = spec
            arrays.append(array)
        return arrays

    def _buffers(self, arguments: Sequence[DeviceArray]) -> list[Any]:
        """Memory of the arguments and constants. AttributeError: one has none, or none yet."""
        buffers = [a.buffer for a in arguments]
        if self.constants:
            buffers += [c.buffer for c in self.constants]
        return buffers

    def _find_deleted(self, arguments: Sequence[DeviceArray]) -> Exception:
        for argument in arguments:
            if argument.is_deleted():
                return deleted_error(argument)
        for constant in self.constants:
            if constant.is_deleted():
                return deleted_error(constant, f"{self.function} closes over it")
        return AssertionError("an argument is not an Array")

    @property
    def function(self) -> str:
        """What messages call the function that it was compiled from."""
        return self._debug.function

    # -- while the caller goes on ----------------------------------------------------------------

    def _long_call(self, at_once: Call) -> Call:
        """Of a program that may be long: nothing tells how long some loops are, so it is what it
        was the last time."""
        clock, long = perf_counter, LONG_SECONDS

        def call(arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
            if self.seconds >= long and options.cpu_enable_async_dispatch.value:
                started = self._start(arguments)
                if started is not None:
                    return started
            start = clock()
            results = at_once(arguments)
            self.seconds = clock() - start
            return results

        return call

    def _call_started(self, arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
        """On a device that computes apart from the host."""
        started = self._start(arguments)
        return self._at_once(arguments) if started is None else started

    def _call_pending(self, arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
        """Arguments are still being computed, or were deleted."""
        if options.cpu_enable_async_dispatch.value:
            started = self._start(arguments)
            if started is not None:
                return started
        for array in (*arguments, *self.constants):
            array.settle()
        if any(a.is_deleted() for a in (*arguments, *self.constants)):
            raise self._find_deleted(arguments)
        return self._at_once(arguments)

    def _start(self, arguments: Sequence[DeviceArray]) -> list[DeviceArray] | None:
        """The results, which may be computed later; None: not by this program, or not now."""
        origin = _Call(self)
        buffers, after = self._buffers_to_come(arguments)
        if self.donated and len({id(buffer) for buffer in buffers}) != len(buffers):
            self._check_donated_once(buffers)
        claimed: dict[int, Job | None] = {}
        try:
            self._claim(arguments, claimed)
            jobs = tuple(after.values())
            started = self.executable.start(buffers, self.donated, self._context(), jobs, origin)
            if started is None:
                self._give_back(arguments, buffers, claimed)
                return None
        except BaseException as error:
            self._fail(error, arguments, buffers, claimed)
            del buffers
            if isinstance(error, OutOfMemory):
                raise out_of_memory(error) from None
            raise
        results, job = started
        if job is None:
            return self._arrays(results)
        new = DeviceArray.__new__
        arrays: list[DeviceArray] = []
        for spec, buffer in zip(self.out_specs, results):
            array = new(DeviceArray)
            array.pending = (buffer, job)
            array.spec = spec
            arrays.append(array)
        return arrays

    def _buffers_to_come(
        self, arguments: Sequence[DeviceArray]
    ) -> tuple[list[Any], dict[int, Job]]:
        """Memory of the arguments and constants, and the jobs that are computing some of it, by
        their ids."""
        buffers: list[Any] = []
        after: dict[int, Job] = {}
        for array in (*arguments, *self.constants):
            try:
                buffer, job = array.memory()
            except AttributeError:
                raise self._find_deleted(arguments) from None
            buffers.append(buffer)
            del buffer  # who takes it over must be alone with it
            if job is not None:
                after[id(job)] = job
        return buffers, after

    # -- donation --------------------------------------------------------------------------------

    def _call_donating(self, arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
        try:
            buffers = self._buffers(arguments)
        except AttributeError:
            return self._call_pending(arguments)
        if len({id(buffer) for buffer in buffers}) != len(buffers):
            self._check_donated_once(buffers)
        claimed: dict[int, Job | None] = {}
        try:
            self._claim(arguments, claimed)
            results = self._execute(buffers, self.donated, self._context())
        except BaseException as error:
            self._fail(error, arguments, buffers, claimed)
            del buffers
            if isinstance(error, (OutOfMemory, RuntimeFailure)):
                raise for_user(error) from None
            raise
        return self._arrays(results)

    def _claim(self, arguments: Sequence[DeviceArray], claimed: dict[int, Job | None]) -> None:
        """Take their memory from the donated arguments, noting what was still computing it. Of two
        threads that donate one array, one wins."""
        for number in self.donated:
            donor = arguments[number]
            try:
                job = donor.pending[1]
            except AttributeError:
                job = None
            # No call between taking and noting, after which a signal handler could raise.
            try:
                if job is None:
                    del donor.buffer
                else:
                    del donor.pending
                claimed[number] = job
            except AttributeError:
                raise deleted_error(donor) from None

    def _give_back(
        self, arguments: Sequence[DeviceArray], buffers: list[Any], claimed: dict[int, Job | None]
    ) -> None:
        """What the program did not take out of the list is as it was."""
        for number, job in claimed.items():
            if buffers[number] is None:
                continue
            if job is None:
                arguments[number].buffer = buffers[number]
            else:
                arguments[number].pending = (buffers[number], job)

    def _fail(
        self,
        error: BaseException,
        arguments: Sequence[DeviceArray],
        buffers: list[Any],
        claimed: dict[int, Job | None],
    ) -> None:
        """The program was not started, or failed: give back what is as it was, and name what is
        not."""
        self._give_back(arguments, buffers, claimed)
        gone = [self._name(number) for number in claimed if buffers[number] is None]
        if gone:
            error.add_note(
                f"The donated arguments of {self.function} ({', '.join(gone)}) are deleted: "
                "the program may have written over them before it failed. Its other arguments "
                "are as they were."
            )

    def _check_donated_once(self, buffers: Sequence[Any]) -> None:
        """Raise if a donated argument is the same memory as another argument or a constant."""
        for number in self.donated:
            for other, buffer in enumerate(buffers):
                if other == number or buffer is not buffers[number]:
                    continue
                fail(
                    JaxRuntimeError,
                    f"the same array, {self.executable.parameter_shapes[number]}, was passed to "
                    f"{self.function} as {self._name(number)}, which is donated, and as "
                    f"{self._name(other)}",
                    "the result takes over the memory of a donated argument while the program "
                    "may still read the other one",
                    "pass a copy for one of them (x.copy()), or do not donate it",
                )

    def _name(self, number: int) -> str:
        """What messages call an argument."""
        names = self._debug.names()
        taken = len(self.executable.parameter_shapes) - len(self.constants)
        if number >= taken:
            return "a value that the function closes over"
        return f"argument {names[number]!r}" if len(names) == taken else f"argument {number}"
