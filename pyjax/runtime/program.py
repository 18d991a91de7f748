"""Program: a loaded executable with the arrays it takes and makes; the code that every call runs
through.

Compiling, and what is kept of it, is the business of pyjax.runtime.dispatch.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.debug_info import UNKNOWN, DebugInfo
from pyjax.core.errors import fail
from pyjax.runtime.array import ArraySpec, DeviceArray, deleted_error
from xla_backend.runtime.executable import LoadedExecutable
from xla_backend.runtime.memory import Block


class Program:
    """A loaded executable together with the arrays it takes and makes.

    Whoever runs native code keeps the blocks of memory it is given until it is back: another
    thread may delete or donate the same arrays meanwhile.

    Attributes:
      executable: the compiled program.
      constants: arrays passed after the arguments at each call (values the function closed over).
      out_specs: kind of each output.
      donated: for each donated argument, (argument number, output it becomes).
      call: runs on arrays whose specs are those the program was compiled for, returns a list of
        arrays. Raises RuntimeError if an argument or constant was deleted or donated before,
        ValueError if a donated argument is passed twice, MemoryError if there is no memory for a
        result: the arguments are as they were then. If the program itself fails, donated arguments
        are gone.
    """

    def __init__(
        self,
        executable: LoadedExecutable,
        constants: Sequence[DeviceArray],
        out_specs: Sequence[ArraySpec],
        donated: Sequence[tuple[int, int]] = (),
        nan_check: str | None = None,
        debug: DebugInfo = UNKNOWN,
    ) -> None:
        self.executable = executable
        self.constants = tuple(constants)
        self.out_specs = tuple(out_specs)
        self.donated = tuple(donated)
        # Looked up ahead: it is done for each result of each call.
        self._makers = tuple([(s, s.take, s.grow) for s in self.out_specs])
        self._taken_over = frozenset(output for _, output in self.donated)
        self._debug = debug
        self._native = getattr(executable, "call", None) or executable.run
        self._pack_arguments = getattr(executable, "pack_arguments", None) or _as_tuple
        self._pack_outputs = getattr(executable, "pack_outputs", None) or _as_tuple
        self.call: Callable[[Sequence[DeviceArray]], list[DeviceArray]]
        if self.donated:
            self.call = self._call_donating
        elif len(self.out_specs) == 1 and not self.constants:
            self.call = self._one_output_call()
        else:
            self.call = self._call_general
        if nan_check is not None:
            self.call = _checking_nans(self.call, nan_check)

    def __call__(self, arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
        return self.call(arguments)

    def _one_output_call(self) -> Callable[[Sequence[DeviceArray]], list[DeviceArray]]:
        """The common case with every lookup done ahead: each one costs at every call."""
        (spec,) = self.out_specs
        take, grow, new = spec.take, spec.grow, DeviceArray.__new__
        native, pack_arguments = self._native, self._pack_arguments
        pack_outputs = self._pack_outputs

        def call(arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
            try:
                blocks = [a.ptr for a in arguments]
            except AttributeError:
                raise self._find_deleted(arguments) from None
            out = new(DeviceArray)
            try:
                out.ptr = result = take()
            except IndexError:
                out.ptr = result = grow()
            out.spec = spec
            try:
                native(pack_arguments(*blocks), pack_outputs(result))
            except BaseException:
                del blocks, out, result  # the traceback would keep their memory
                raise
            return [out]

        return call

    def _call_general(self, arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
        blocks = self._blocks(arguments)
        results, memory = self._new_results()
        try:
            self._native(self._pack_arguments(*blocks), self._pack_outputs(*memory))
        except BaseException:
            del blocks, results, memory
            raise
        return results

    def _new_results(self) -> tuple[list[DeviceArray], list[Block]]:
        new = DeviceArray.__new__
        results: list[DeviceArray] = []
        memory: list[Block] = []
        for spec, take, grow in self._makers:
            out = new(DeviceArray)
            try:
                out.ptr = result = take()
            except IndexError:
                out.ptr = result = grow()
            out.spec = spec
            results.append(out)
            memory.append(result)
        return results, memory

    def _blocks(self, arguments: Sequence[DeviceArray]) -> list[Block]:
        """Memory of the arguments and constants."""
        try:
            blocks = [a.ptr for a in arguments]
            if self.constants:
                blocks += [c.ptr for c in self.constants]
        except AttributeError:
            raise self._find_deleted(arguments) from None
        return blocks

    def _find_deleted(self, arguments: Sequence[DeviceArray]) -> Exception:
        for argument in arguments:
            if argument.is_deleted():
                return deleted_error(argument)
        for constant in self.constants:
            if constant.is_deleted():
                return deleted_error(constant, f"{self._function} closes over it")
        return AssertionError("an argument is not an Array")

    @property
    def _function(self) -> str:
        return self._debug.function

    # -- donation --------------------------------------------------------------------------------

    def _call_donating(self, arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
        # First whatever may fail with all arguments as they were.
        blocks = self._blocks(arguments)
        if len({id(block) for block in blocks}) != len(blocks):
            self._check_donated_once(blocks)
        memory: list[Any] = [
            None if i in self._taken_over else new_block(spec)
            for i, spec in enumerate(self.out_specs)
        ]
        claimed: list[int] = []
        try:
            # Of two threads that donate one array, one wins.
            for number, _ in self.donated:
                donor = arguments[number]
                try:
                    del donor.ptr
                except AttributeError:
                    raise deleted_error(donor) from None
                claimed += (number,)  # no call before it, after which a signal handler could raise
            for number, output in self.donated:
                memory[output] = _taken_over(blocks, number, self.out_specs[output])
            results = list(map(_array_over, memory, self.out_specs))
        except BaseException:  # also if there is no memory for a copy
            for number in claimed:
                arguments[number].ptr = blocks[number]
            raise
        try:
            for number, output in self.donated:
                blocks[number] = memory[output]
            self._native(self._pack_arguments(*blocks), self._pack_outputs(*memory))
        except BaseException as error:
            names = ", ".join(self._name(number) for number, _ in self.donated)
            error.add_note(
                f"The donated arguments of {self._function} ({names}) are deleted: the program may "
                "have written over them before it failed. Its other arguments are as they were."
            )
            del blocks, memory, results
            raise
        return results

    def _check_donated_once(self, blocks: Sequence[Block]) -> None:
        """Raise if a donated argument is the same memory as another argument or a constant."""
        for number, _ in self.donated:
            for other, block in enumerate(blocks):
                if other == number or block is not blocks[number]:
                    continue
                fail(
                    ValueError,
                    f"the same array was passed to {self._function} as {self._name(number)}, "
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


def new_block(spec: ArraySpec) -> Block:
    """Memory for one array.

    Raises:
      MemoryError: there is none.
    """
    try:
        return spec.take()
    except IndexError:
        return spec.grow()


def _array_over(block: Block, spec: ArraySpec) -> DeviceArray:
    array = DeviceArray.__new__(DeviceArray)
    array.ptr = block
    array.spec = spec
    return array


def _references(blocks: Sequence[Block], number: int) -> int:
    return sys.getrefcount(blocks[number])


# What _references says if nothing but the list refers to a block; it depends on the interpreter.
_LIST_ONLY = _references([Block(0)], 0)


def _taken_over(blocks: list[Block], number: int, spec: ArraySpec) -> Block:
    """Memory for a result that starts as the donated argument `number`: its own, or a copy if
    anybody else refers to it (a view, a call in another thread) or it is not the pool's."""
    if _references(blocks, number) == _LIST_ONLY and _counts_are_exact():
        if blocks[number].from_pool:
            return blocks[number]
    copy = new_block(spec)
    ctypes.memmove(copy, blocks[number], spec.nbytes)
    return copy


def _counts_are_exact() -> bool:
    """Without a global lock, another thread may be about to take a reference."""
    return getattr(sys, "_is_gil_enabled", _always)()


def _always() -> bool:
    return True


def _checking_nans(
    call: Callable[[Sequence[DeviceArray]], list[DeviceArray]], what: str
) -> Callable[[Sequence[DeviceArray]], list[DeviceArray]]:
    def checked(arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
        results = call(arguments)
        check_nans(what, results)
        return results

    return checked


def _as_tuple(*values: int) -> tuple[int, ...]:
    return values


def check_nans(what: str, results: Sequence[DeviceArray]) -> None:
    """Raise if a floating-point result has a NaN.

    Raises:
      FloatingPointError: names what was computed and the user's line.
    """
    for result in results:
        if not dtypes.issubdtype(result.dtype, np.inexact):
            continue
        if bool(np.isnan(result._view()).any()):
            fail(
                FloatingPointError,
                f"invalid value (nan) encountered in {what}, result {result.aval.str_short()}",
                "the option jax_debug_nans checks every result",
                "look at the operands of this operation; pyjax.debug_nans(False) allows NaNs",
            )
