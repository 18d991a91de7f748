"""What callbacks have returned while a program ran, so that the search for a fault, which runs it
again, does not call them again.

A program that looks for faults calls Python through `remembered` functions, which write into the
log of their run, or read from it, on the thread that runs the program. Results of functions with
side effects are found by their order; those of pure ones by their operands, since the compiler may
leave calls out, or make one of two.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from pyjax.core.jaxpr import Jaxpr, JaxprEqn, bind_eqn, subjaxprs
from pyjax.lax.buffer_callbacks import buffer_callback_p
from pyjax.lax.callbacks import FlatCallback, io_callback_p, pure_callback_p

# Positions in the results of each function with side effects, by its number.
Mark = dict[int, int]


class CannotRepeat(Exception):
    """A search has come to a call with side effects whose results nobody knows."""


class CallLog:
    """The calls of one run."""

    def __init__(self) -> None:
        self._in_order: dict[int, list[list[np.ndarray]]] = {}
        self._by_operands: dict[Any, list[np.ndarray]] = {}
        self._next: Mark = {}
        self._replays = False

    def mark(self) -> Mark:
        """Where a replay is."""
        return dict(self._next)

    def go_to(self, mark: Mark) -> None:
        """Let a replay go on from there."""
        self._next = dict(mark)

    def call(self, callback: FlatCallback, is_pure: bool, args: Sequence[Any]) -> list[np.ndarray]:
        """What the function returns, or has returned."""
        return self._pure(callback, args) if is_pure else self._impure(callback, args)

    def _pure(self, callback: FlatCallback, args: Sequence[Any]) -> list[np.ndarray]:
        hosts = [np.asarray(x) for x in args]
        key = (callback.number, *[(x.shape, x.dtype.str, x.tobytes()) for x in hosts])
        if key not in self._by_operands:
            self._by_operands[key] = _copies(callback.function(*args))
        return self._by_operands[key]

    def _impure(self, callback: FlatCallback, args: Sequence[Any]) -> list[np.ndarray]:
        known = self._in_order.setdefault(callback.number, [])
        if not self._replays:
            known.append(_copies(callback.function(*args)))
            return known[-1]
        position = self._next.get(callback.number, 0)
        if position == len(known):
            raise CannotRepeat(callback.name)
        self._next[callback.number] = position + 1
        return known[position]


def _copies(results: Sequence[Any]) -> list[np.ndarray]:
    return [np.array(x) for x in results]


class _Runs(threading.local):
    logs: list[CallLog]  # of programs that run, the innermost last: callbacks may run programs

    def __init__(self) -> None:
        self.logs = []


_runs = _Runs()
_of_all_threads: list[CallLog] = []


def _current() -> CallLog:
    """That of the program which runs on this thread. Those of several devices run on threads of
    their own, too, for a caller whose log was begun last."""
    return (_runs.logs or _of_all_threads)[-1]


@contextmanager
def writing(log: CallLog) -> Iterator[None]:
    """While a program runs for its caller."""
    _runs.logs.append(log)
    _of_all_threads.append(log)
    try:
        yield
    finally:
        _of_all_threads.remove(log)
        _runs.logs.remove(log)


@contextmanager
def replaying(log: CallLog) -> Iterator[None]:
    """While a search runs it again."""
    log._replays = True
    with writing(log):
        yield


_CALLS = (io_callback_p, pure_callback_p, buffer_callback_p)


def calls_python(eqn: JaxprEqn) -> bool:
    """Whether an equation has results that Python gives."""
    return eqn.primitive in _CALLS


def _returned(
    callback: FlatCallback, results: list[np.ndarray], *operands: np.ndarray
) -> list[np.ndarray]:
    """What a function writes, as results."""
    written = [np.empty_like(x) for x in results]
    callback.function(list(operands), written)
    return written


def holds_calls(jaxpr: Jaxpr) -> bool:
    """Whether there is such an equation in a program, or in one that it holds."""
    return any(map(calls_python, jaxpr.eqns)) or any(map(holds_calls, subjaxprs(jaxpr)))


def bind_remembered(eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """Apply an equation that calls Python, through the log of the run."""
    callback: FlatCallback = eqn.params["callback"]
    is_pure = not eqn.effects

    def function(*args: Any) -> list[np.ndarray]:
        return _current().call(callback, is_pure, args)

    def writing_function(operands: list[np.ndarray], results: list[np.ndarray]) -> None:
        log = _current()
        returning = callback.with_function(partial(_returned, callback, results))
        for result, known in zip(results, log.call(returning, is_pure, operands)):
            np.copyto(result, known)

    writes = eqn.primitive is buffer_callback_p
    remembered = FlatCallback(callback.name, writing_function if writes else function)
    return bind_eqn(eqn.replace(params={**eqn.params, "callback": remembered}), values)
