"""Exchanges of two processes that are objects of one: messages wait in lists, no thread looks."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest

from xla_backend.hlo.exchanges import Exchange
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.runtime.processes.crossing import Run
from xla_backend.runtime.processes.errors import ProcessFailure
from xla_backend.runtime.processes.exchanges import Exchanges
from xla_backend.runtime.processes.gatherings import Gatherings
from xla_backend.runtime.processes.identity import Identity, Site
from xla_backend.runtime.processes.world import World

_SHAPE = Shape.of(np.zeros(4, np.float32))
_SITE = Site("%all-reduce", Exchange(Opcode.ALL_REDUCE, ((0, 1),)), (_SHAPE,), 1)
_PROGRAM = Identity("program", "0, 1", "content")


class _Sent:
    done = True


class _Transport:
    """One end of messages between two."""

    count = 2
    is_busy = is_sending = False

    def __init__(self, index: int, mail: tuple[deque, deque]) -> None:
        self.index = index
        self._mail = mail

    def send(self, to: int, message: np.ndarray) -> _Sent:
        self._mail[to].append((self.index, message))
        return _Sent()

    def receive(self) -> list[tuple[int, np.ndarray]]:
        own = self._mail[self.index]
        return [own.popleft() for _ in range(len(own))]


class _Sends(Exception):
    """Nobody waits for an answer."""


class _Process:
    def __init__(self, index: int, mail: tuple[deque, deque]) -> None:
        self.index = index
        self.world = World(_Transport(index, mail), 1000.0)
        self.exchanges = Exchanges(self.world, Gatherings(self.world))

    def run(self, watch: Callable[[], int] = lambda: 1) -> Run:
        run = Run(self.exchanges, "program()", _PROGRAM, (0, 1), watch)
        run.begin()
        return run

    def only_send(self, operand: np.ndarray) -> None:
        """A run for which the other one may have sent nothing."""

        def watch() -> int:
            raise _Sends

        run = self.run(watch)
        with suppress(_Sends):
            self.reduce(run, operand)
        run.end(None)

    def reduce(self, run: Run, operand: np.ndarray) -> np.ndarray:
        """What the other one shows in a sum."""
        table = (ctypes.c_void_p * 2)(operand.ctypes.data, None)
        tables = (ctypes.c_void_p * 2)()
        tables[self.index] = ctypes.addressof(table)
        run.exchange(1, _SITE, 0, ctypes.addressof(tables))
        other = ctypes.c_void_p.from_address(tables[1 - self.index]).value
        return np.array(np.ctypeslib.as_array((ctypes.c_float * 4).from_address(other)))


@pytest.fixture
def processes() -> tuple[_Process, _Process]:
    mail: tuple[deque, deque] = (deque(), deque())
    return _Process(0, mail), _Process(1, mail)


def test_a_message_that_came_since_the_last_look_is_not_missing(processes) -> None:
    """Another thread takes it, and the first one of the next run, after one that waits for it has
    looked: the sender has not left without a word."""
    first, second = processes
    operand = np.arange(4, dtype=np.float32)

    def other_thread() -> int:
        if not came:
            came.append(1)
            for _ in range(2):
                second.only_send(operand + 10)
            first.world.progress()
        return 1

    came: list[int] = []
    run = first.run(other_thread)
    np.testing.assert_array_equal(first.reduce(run, operand), operand + 10)
    run.end(None)


def test_who_has_left_without_a_message_is_named(processes) -> None:
    first, second = processes
    second.run().end(None)
    second.only_send(np.zeros(4, np.float32))
    run = first.run()
    with pytest.raises(ProcessFailure, match="process 1 has left it, and runs %all-reduce"):
        first.reduce(run, np.zeros(4, np.float32))
