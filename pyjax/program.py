"""Program: a loaded executable with the arrays it takes and makes; the code that every call runs
through.

Compiling, and what is kept of it, is the business of pyjax.dispatch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from pyjax.array import Array, ArraySpec, deleted_error
from pyjax.core import dtypes
from pyjax.core.errors import four_parts
from pyjax.core.source_info import user_frame
from xla_backend.runtime.executable import LoadedExecutable
from xla_backend.runtime.memory import POOL


class Program:
    """A loaded executable together with the arrays it takes and makes.

    Attributes:
      executable: the compiled program.
      constants: arrays passed after the arguments at each call (values the function closed over).
      out_specs: kind of each output.
      donated: for each donated argument, (argument number, output it becomes).
      call: runs on arrays whose specs are those the program was compiled for, returns a list of
        arrays;
        RuntimeError if an argument was deleted or donated before.
    """

    def __init__(
        self,
        executable: LoadedExecutable,
        constants: Sequence[Array],
        out_specs: Sequence[ArraySpec],
        donated: Sequence[tuple[int, int]] = (),
        nan_check: str | None = None,
    ) -> None:
        self.executable = executable
        self.constants = tuple(constants)
        self.out_specs = tuple(out_specs)
        self.donated = tuple(donated)
        self._native = getattr(executable, "call", None) or executable.run
        self._pack_arguments = getattr(executable, "pack_arguments", None) or _as_tuple
        self._pack_outputs = getattr(executable, "pack_outputs", None) or _as_tuple
        self.call: Callable[[Sequence[Array]], list[Array]]
        if self.donated:
            self.call = self._call_donating
        elif len(self.out_specs) == 1 and not self.constants:
            self.call = self._one_output_call()
        else:
            self.call = self._call_general
        if nan_check is not None:
            self.call = _checking_nans(self.call, nan_check)

    def __call__(self, arguments: Sequence[Array]) -> list[Array]:
        return self.call(arguments)

    def _one_output_call(self) -> Callable[[Sequence[Array]], list[Array]]:
        """The common case with every lookup done ahead: each one costs at every call."""
        (spec,) = self.out_specs
        pop, nbytes, grow, new = spec.free.pop, spec.nbytes, POOL.grow, Array.__new__
        native, pack_arguments = self._native, self._pack_arguments
        pack_outputs = self._pack_outputs

        def call(arguments: Sequence[Array]) -> list[Array]:
            try:
                pointers = pack_arguments(*[a.ptr for a in arguments])
            except AttributeError:
                raise _find_deleted(arguments) from None
            out = new(Array)
            try:
                out.ptr = address = pop()
            except IndexError:
                out.ptr = address = grow(nbytes)
            out.spec = spec
            out._owner = None
            native(pointers, pack_outputs(address))
            return [out]

        return call

    def _call_general(self, arguments: Sequence[Array]) -> list[Array]:
        try:
            pointers = [a.ptr for a in arguments]
        except AttributeError:
            raise _find_deleted(arguments) from None
        if self.constants:
            pointers += [c.ptr for c in self.constants]
        new = Array.__new__
        results: list[Array] = []
        addresses: list[int] = []
        for spec in self.out_specs:
            out = new(Array)
            try:
                out.ptr = address = spec.free.pop()
            except IndexError:
                out.ptr = address = POOL.grow(spec.nbytes)
            out.spec = spec
            out._owner = None
            results.append(out)
            addresses.append(address)
        self._native(self._pack_arguments(*pointers), self._pack_outputs(*addresses))
        return results

    def _call_donating(self, arguments: Sequence[Array]) -> list[Array]:
        for argument in arguments:
            if argument.is_deleted():
                raise deleted_error(argument)
        by_output = {output: arguments[number] for number, output in self.donated}
        if len({id(a) for a in by_output.values()}) != len(by_output):
            raise ValueError(
                "the same array was passed for two donated arguments; pass a copy for one of them"
            )
        pointers = [a.ptr for a in arguments]
        results: list[Array] = []
        for i, spec in enumerate(self.out_specs):
            out = Array.__new__(Array)
            donor = by_output.get(i)
            if donor is not None and donor._owner is None and donor.spec.nbytes == spec.nbytes:
                out.ptr = donor.ptr
                donor.forget()
            else:
                try:
                    out.ptr = spec.free.pop()
                except IndexError:
                    out.ptr = POOL.grow(spec.nbytes)
                if donor is not None:  # foreign memory: the program works on a copy of it
                    ctypes.memmove(out.ptr, donor.ptr, spec.nbytes)
            out.spec = spec
            out._owner = None
            results.append(out)
        for number, output in self.donated:
            pointers[number] = results[output].ptr
            if not arguments[number].is_deleted():
                arguments[number].delete()
        pointers += [c.ptr for c in self.constants]
        self._native(self._pack_arguments(*pointers), self._pack_outputs(*[r.ptr for r in results]))
        return results


def _checking_nans(
    call: Callable[[Sequence[Array]], list[Array]], what: str
) -> Callable[[Sequence[Array]], list[Array]]:
    def checked(arguments: Sequence[Array]) -> list[Array]:
        results = call(arguments)
        check_nans(what, results)
        return results

    return checked


def _as_tuple(*values: int) -> tuple[int, ...]:
    return values


def _find_deleted(arguments: Sequence[Array]) -> Exception:
    for argument in arguments:
        if argument.is_deleted():
            return deleted_error(argument)
    return AssertionError("an argument is not an Array")


def check_nans(what: str, results: Sequence[Array]) -> None:
    """Raise if a floating-point result has a NaN.

    Raises:
      FloatingPointError: names what was computed and the user's line.
    """
    for result in results:
        if not dtypes.issubdtype(result.dtype, np.inexact):
            continue
        if bool(np.isnan(result._view()).any()):
            raise FloatingPointError(
                four_parts(
                    f"invalid value (nan) encountered in {what}, result {result.aval.str_short()}",
                    user_frame(),
                    "the option jax_debug_nans checks every result",
                    "look at the operands of this operation; pyjax.debug_nans(False) allows NaNs",
                )
            )
