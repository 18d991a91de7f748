"""Mutable references with memory, and programs that use references.

What a reference holds is an array of its own, whose memory programs that write to it take over as
that of a donated argument. A read shares the memory, and whoever still has it when somebody writes
keeps it: the program works on a copy then. A thread that writes has the reference for itself until
its program has ended; others wait.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyjax._config import options
from pyjax.core.avals import register_aval_rule
from pyjax.core.debug_info import DebugInfo
from pyjax.core.effects import written_inputs
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr, Var
from pyjax.core.refs import AbstractRef, Ref
from pyjax.interpreters.dead_code import dce_jaxpr
from pyjax.interpreters.discharge import discharged, holds_refs
from pyjax.interpreters.ref_checks import check_aliases
from pyjax.runtime.array import DeviceArray, from_numpy, sharing
from pyjax.runtime.array_spec import ArraySpec, array_spec, laid_out
from pyjax.runtime.program import Call
from pyjax.runtime.result_layouts import ProgramLayouts, Shardings
from pyjax.sharding.shardings import Sharding, SingleDeviceSharding
from xla_backend.process.bounded_cache import InternTable
from xla_backend.runtime.client import Device
from xla_backend.runtime.device_group import DeviceGroup


class RefSpec:
    """What references of one kind share: their type, and the spec of the arrays that they hold.

    Interned, as the specs of arrays are.
    """

    __slots__ = ("__weakref__", "array", "aval", "committed", "device", "sharding")

    def __init__(self, aval: AbstractRef, array: ArraySpec) -> None:
        self.aval = aval
        self.array = array
        self.device = array.device
        self.sharding = array.sharding
        self.committed = True  # programs run where the references lie that they write to


_specs: InternTable[tuple[AbstractRef, ArraySpec], RefSpec] = InternTable()


def _spec(aval: AbstractRef, array: ArraySpec) -> RefSpec:
    known = _specs.refs.get((aval, array))
    spec = None if known is None else known()
    return _specs.intern((aval, array), RefSpec(aval, array)) if spec is None else spec


# References that a program writes to now: after a fork, the threads that do are gone in the child.
_written_now: set[DeviceRef] = set()


class DeviceRef(Ref):
    """A reference to an array in the memory of a device, or of several."""

    __slots__ = ("__weakref__", "_array", "lock", "spec")

    def __init__(self, array: DeviceArray, aval: AbstractRef) -> None:
        self.lock: Any = threading.RLock()
        held = array_spec(aval.inner_aval, array.spec.device, True)
        if isinstance(held.device, DeviceGroup):
            held = laid_out(held, array.spec.sharding)
        self.spec = _spec(aval, held)
        self._array = sharing(array, self.spec.array)

    @property
    def aval(self) -> AbstractRef:
        return self.spec.aval

    @property
    def device(self) -> Device:
        return self.spec.device

    @property
    def sharding(self) -> SingleDeviceSharding:
        return SingleDeviceSharding(self.spec.device)

    @property
    def format(self) -> SingleDeviceSharding:
        return self.sharding

    @property
    def committed(self) -> bool:
        """References stay where they are: computations follow them."""
        return self.spec.committed

    def unsafe_buffer_pointer(self) -> int:
        """Address of the first element; of use until somebody writes to the reference."""
        return self.snapshot().unsafe_buffer_pointer()

    def block_until_ready(self) -> DeviceRef:
        """Wait until what was written is there; returns the reference."""
        self.snapshot().block_until_ready()
        return self

    def snapshot(self) -> DeviceArray:
        """What the reference holds now, as an array that shares the memory for as long as nobody
        writes to the reference."""
        with self.lock:
            return sharing(self.held(), self.spec.array)

    def held(self) -> DeviceArray:
        """The array itself, for the thread that has the lock.

        Raises:
          RuntimeError: it is lost, or a program that this thread is running has it.
        """
        array = self._array
        if array.is_deleted():
            fail(
                RuntimeError,
                f"{self.aval.str_short()} holds nothing.",
                "a program that writes to it has not ended: it failed and left nothing, or it is "
                "what calls this function (a callback, a signal handler)",
                "Pass what the function needs as an argument, or make a new Ref.",
            )
        return array

    def store(self, array: DeviceArray) -> None:
        """Replace what the reference holds, for the thread that has the lock."""
        self._array = array

    def __array__(
        self, dtype: Any = None, context: Any = None, copy: bool | None = None
    ) -> np.ndarray:
        fail(
            TypeError,
            f"a Ref, {self.aval.str_short()}, was taken for an array.",
            "what it holds may change",
            "Did you forget to load from it? Write ref[...].",
        )

    def __repr__(self) -> str:
        return "Ref" + repr(self.snapshot())[len("Array") :]

    def __reduce__(self) -> Any:
        return _unpickle, (self.snapshot(), self.aval.memory_space, self.aval.kind)

    def __copy__(self) -> DeviceRef:
        return DeviceRef(self.snapshot(), self.aval)

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceRef:
        copy = memo[id(self)] = self.__copy__()
        return copy


register_aval_rule(DeviceRef, lambda ref: ref.spec.aval)


def _unpickle(array: DeviceArray, memory_space: Any, kind: str | None) -> DeviceRef:
    return DeviceRef(array, AbstractRef(array.aval, memory_space, kind))


def _free_in_child() -> None:
    for ref in list(_written_now):
        if not ref.lock._is_owned():
            ref.lock = threading.RLock()
            _written_now.discard(ref)


os.register_at_fork(after_in_child=_free_in_child)


# -- programs --------------------------------------------------------------------------------------


class RefProgram(NamedTuple):
    """A program that uses references, as one of values.

    Attributes:
      closed: takes what the references hold, then the other arguments; returns what those hold that
        are written to, then the results.
      donated: of its inputs: those that are written to, and what the user donates.
      positions: which arguments of the original program are references.
      constants: references that the function closes over.
      written: of all references, whether they are written to.
      debug: of the function, for messages.
    """

    closed: ClosedJaxpr
    donated: tuple[bool, ...]
    positions: tuple[int, ...]
    constants: tuple[DeviceRef, ...]
    written: tuple[bool, ...]
    debug: DebugInfo

    def layouts(self, original: ProgramLayouts) -> ProgramLayouts:
        """How its arguments and results lie, from how those of the program with references do."""
        count = len(self.closed.in_avals) - len(self.constants)
        inputs = [*original.inputs, *[None] * (count - len(original.inputs))]
        of_refs = [inputs[i] for i in self.positions]
        of_refs += [ref.spec.sharding for ref in self.constants]
        others = [s for i, s in enumerate(inputs) if i not in {*self.positions}]
        after = [s for s, written in zip(of_refs, self.written) if written]
        return ProgramLayouts([*of_refs, *others], [*after, *original.results], original.mesh)

    def of_arguments(self, found: Shardings) -> list[Sharding | None]:
        """How the arguments of the original program lie, references and all, from how those of
        this one do."""
        if not found:
            return []
        others = iter(found[len(self.written) :])
        count = len(self.positions) + len(self.closed.in_avals) - len(self.written)
        return [None if i in {*self.positions} else next(others) for i in range(count)]

    def wrap(self, call: Call) -> Call:
        """How to call it with references in the places of arguments."""
        positions, constants, written = self.positions, self.constants, self.written
        places = frozenset(positions)
        checks = options.mutable_array_checks.value
        count = sum(written)

        def run(arguments: Sequence[Any]) -> list[DeviceArray]:
            refs = [*[arguments[i] for i in positions], *constants]
            others = [a for i, a in enumerate(arguments) if i not in places]
            if checks and len({id(ref) for ref in refs}) != len(refs):
                check_aliases(self.debug, arguments, constants)
            targets = [ref for ref, w in zip(refs, written) if w]

            def go() -> list[DeviceArray]:
                arrays = [ref.held() if w else ref.snapshot() for ref, w in zip(refs, written)]
                _own(arrays, others, written)
                _written_now.update(targets)
                try:
                    results = call([*arrays, *others])
                    # Who waits for the lock waits for the program, also where others run it.
                    for value in results:
                        value.settle()
                finally:
                    _written_now.difference_update(targets)
                for ref, value in zip(targets, results):
                    ref.store(value)
                return results[count:]

            return _holding(sorted(targets, key=id), go)

        return run


def _holding(refs: Sequence[DeviceRef], go: Callable[[], list[DeviceArray]]) -> list[DeviceArray]:
    """`go()`, with the locks of references, which everybody takes in one order."""
    if not refs:
        return go()
    with refs[0].lock:
        return _holding(refs[1:], go)


def _own(arrays: list[DeviceArray], others: Sequence[DeviceArray], written: Sequence[bool]) -> None:
    """What is written to must be no other argument's memory: it is a copy where it would be."""
    buffers = [_memory_id(a) for a in (*arrays, *others)]
    for i, w in enumerate(written):
        if w and buffers.count(buffers[i]) > 1:
            arrays[i] = from_numpy(np.asarray(arrays[i].stored_array), arrays[i].spec)
            buffers[i] = _memory_id(arrays[i])


def _memory_id(array: DeviceArray) -> int:
    try:
        return id(array.memory()[0])
    except AttributeError:
        return id(array)  # it was deleted, which the program says


def ref_program(closed: ClosedJaxpr, donated: Sequence[bool]) -> RefProgram | None:
    """A program as one of values; None if it uses no references."""
    if not holds_refs(closed):
        return None
    jaxpr = closed.jaxpr
    constants = [c for c in closed.consts if type(c) is DeviceRef]
    of_constants = [v for v, c in zip(jaxpr.constvars, closed.consts) if type(c) is DeviceRef]
    kept: list[tuple[Var, Any]] = [
        (v, c) for v, c in zip(jaxpr.constvars, closed.consts) if type(c) is not DeviceRef
    ]
    positions = [i for i, v in enumerate(jaxpr.invars) if type(v.aval) is AbstractRef]
    of_refs = [*[jaxpr.invars[i] for i in positions], *of_constants]
    others = [i for i, v in enumerate(jaxpr.invars) if type(v.aval) is not AbstractRef]
    inputs_first = jaxpr.replace(
        constvars=[v for v, _ in kept], invars=[*of_refs, *[jaxpr.invars[i] for i in others]]
    )
    is_cell = [True] * len(of_refs) + [False] * len(others)
    found = written_inputs(inputs_first.effects)
    written = [len(kept) + i in found for i in range(len(of_refs))]
    pure, _ = discharged(
        ClosedJaxpr(inputs_first, [c for _, c in kept]), is_cell, [*written, *[False] * len(others)]
    )
    n = len(jaxpr.outvars)
    outvars = pure.jaxpr.outvars
    results_last = pure.jaxpr.replace(outvars=[*outvars[n:], *outvars[:n]])
    # What writes give, which was there before, is seldom used.
    used, _ = dce_jaxpr(results_last, [True] * len(outvars), True)
    pure = pure.replace(jaxpr=used)
    of_others = [bool(donated) and donated[i] for i in others]
    return RefProgram(
        pure,
        (*written, *of_others),
        tuple(positions),
        tuple(constants),
        tuple(written),
        jaxpr.debug_info,
    )
