"""Program: a loaded executable with the arrays it takes and makes; the code that every call runs
through.

Compiling, and what is kept of it, is the business of pyjax.runtime.dispatch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from pyjax.core.debug_info import UNKNOWN, DebugInfo
from pyjax.core.errors import fail
from pyjax.runtime.array import ArraySpec, DeviceArray, deleted_error, moved, out_of_memory
from xla_backend.runtime.buffer import OutOfMemory
from xla_backend.runtime.client import Device, DirectCall, ExecutionContext, LoadedExecutable
from xla_backend.runtime.host_buffer import HostBufferKind

Call = Callable[[Sequence[DeviceArray]], list[DeviceArray]]


def bringing(call: Call, devices: Sequence[Device], target: Device) -> Call:
    """A call that moves those of its arguments, which come from these devices, that lie in memory
    which `target` does not reach."""
    away = [i for i, device in enumerate(devices) if not device.shares_memory_with(target)]
    if not away:
        return call

    def bring(arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
        here = list(arguments)
        for i in away:
            here[i] = moved(here[i], target)
        return call(here)

    return bring


class Program:
    """A loaded executable together with the arrays it takes and makes.

    Whoever runs it keeps the buffers it is given until it is back: another thread may delete or
    donate the same arrays meanwhile.

    Attributes:
      executable: the compiled program.
      constants: arrays passed after the arguments at each call (values the function closed over).
      out_specs: kind of each output.
      donated: numbers of the donated arguments: those whose memory an output takes over.
      call: runs on arrays whose specs are those the program was compiled for, returns a list of
        arrays. Raises RuntimeError if an argument or constant was deleted or donated before,
        ValueError if a donated argument is passed twice, MemoryError if there is no memory for a
        result: the arguments are as they were then. If the program itself fails, donated arguments
        are gone.
    """

    def __init__(
        self,
        executable: LoadedExecutable,
        device: Device,
        constants: Sequence[DeviceArray],
        out_specs: Sequence[ArraySpec],
        debug: DebugInfo = UNKNOWN,
    ) -> None:
        self.executable = executable
        self.constants = tuple(moved(constant, device) for constant in constants)
        self._device = device
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
        self.call: Call
        direct = executable.direct
        if self.donated:
            self.call = self._call_donating
        elif direct is not None and len(self.out_specs) == 1 and not self.constants:
            self.call = self._one_output_call(direct)
        else:
            self.call = self._call_general

    def wrap(self, wrapper: Callable[[Call], Call]) -> None:
        """Calls go through what `wrapper` makes of the way it was called so far."""
        self._wrappers += (wrapper,)
        self.call = wrapper(self.call)

    def replace(self, executable: LoadedExecutable) -> Call:
        """Run another executable of the same program from now on; calls under way end with the one
        they began with. Returns how that is called, without the wrappers."""
        other = Program(executable, self._device, self.constants, self.out_specs, self._debug)
        call = other.call
        for wrapper in self._wrappers:
            call = wrapper(call)
        self.executable = executable
        self.call = call
        return other.call

    def bring_from(self, devices: Sequence[Device]) -> None:
        """Arguments come from these devices: from now on each call moves those that lie in memory
        which the program does not reach."""
        self.wrap(lambda call: bringing(call, devices, self._device))

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
        native, pack_arguments, pack_outputs = direct

        def call(arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
            try:
                blocks = [a.buffer for a in arguments]
            except AttributeError:
                raise self._find_deleted(arguments) from None
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
        buffers = self._buffers(arguments)
        try:
            results = self._execute(buffers, (), self._context())
        except OutOfMemory as error:
            del buffers
            raise out_of_memory(error) from None
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
        """Memory of the arguments and constants."""
        try:
            buffers = [a.buffer for a in arguments]
            if self.constants:
                buffers += [c.buffer for c in self.constants]
        except AttributeError:
            raise self._find_deleted(arguments) from None
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

    # -- donation --------------------------------------------------------------------------------

    def _call_donating(self, arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
        buffers = self._buffers(arguments)
        if len({id(buffer) for buffer in buffers}) != len(buffers):
            self._check_donated_once(buffers)
        claimed: list[int] = []
        try:
            # Of two threads that donate one array, one wins.
            for number in self.donated:
                donor = arguments[number]
                try:
                    del donor.buffer
                except AttributeError:
                    raise deleted_error(donor) from None
                claimed += (number,)  # no call before it, after which a signal handler could raise
            results = self._execute(buffers, self.donated, self._context())
        except BaseException as error:
            # What the program did not take out of the list is as it was.
            for number in claimed:
                if buffers[number] is not None:
                    arguments[number].buffer = buffers[number]
            gone = [self._name(number) for number in claimed if buffers[number] is None]
            if gone:
                error.add_note(
                    f"The donated arguments of {self.function} ({', '.join(gone)}) are deleted: "
                    "the program may have written over them before it failed. Its other arguments "
                    "are as they were."
                )
            del buffers
            if isinstance(error, OutOfMemory):
                raise out_of_memory(error) from None
            raise
        return self._arrays(results)

    def _check_donated_once(self, buffers: Sequence[Any]) -> None:
        """Raise if a donated argument is the same memory as another argument or a constant."""
        for number in self.donated:
            for other, buffer in enumerate(buffers):
                if other == number or buffer is not buffers[number]:
                    continue
                fail(
                    ValueError,
                    f"the same array was passed to {self.function} as {self._name(number)}, "
                    f"which is donated, and as {self._name(other)}",
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
