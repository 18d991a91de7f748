"""Keys with values, and barriers, for all processes of a program; process 0 has them.

Its thread answers, whatever the program does there meanwhile. Who waits for a key or for others
asks again and again. As all that sends messages, this is for threads on which no handler of a
signal raises.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np

from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.runtime.participant_threads import Interrupted, check_interrupt
from xla_backend.runtime.processes.errors import ProcessTimeout
from xla_backend.runtime.processes.world import World

Value = TypeVar("Value", str, bytes)
_ASK, _ANSWER = "ask", "answer"
_SERVER = 0
# Seconds that the server may take for an answer, and between two questions.
_PATIENCE, _FIRST_PAUSE, _LONGEST_PAUSE = 60.0, 1e-3, 2e-2


class KeyValueStore:
    """Names and meanings are those of the client of JAX's coordination service."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._numbers = itertools.count(1)
        # Of questions that somebody waits for.
        self._asked: set[int] = set()
        self._answers: dict[int, tuple[bool, Any]] = {}
        self._server = _Server()
        world.on(_ASK, self._serve)
        world.on(_ANSWER, self._keep_answer)

    # -- keys --------------------------------------------------------------------------------------

    def key_value_set(self, key: str, value: str, allow_overwrite: bool = False) -> None:
        """Give a key a value.

        Raises:
          RuntimeFailure: it has one, and is not to get another.
        """
        self._ask("set", key, str(value), allow_overwrite)

    def key_value_set_bytes(self, key: str, value: bytes, allow_overwrite: bool = False) -> None:
        """`key_value_set`, of bytes."""
        self._ask("set", key, bytes(value), allow_overwrite)

    def key_value_try_get(self, key: str) -> str:
        """The value of a key.

        Raises:
          RuntimeFailure: it has none.
        """
        return self._found(key, str)

    def key_value_try_get_bytes(self, key: str) -> bytes:
        """`key_value_try_get`, of bytes."""
        return self._found(key, bytes)

    def blocking_key_value_get(self, key: str, timeout_in_ms: int) -> str:
        """The value of a key, when it has one.

        Raises:
          ProcessTimeout: it has none for so long.
        """
        return self._awaited(key, timeout_in_ms, str)

    def blocking_key_value_get_bytes(self, key: str, timeout_in_ms: int) -> bytes:
        """`blocking_key_value_get`, of bytes."""
        return self._awaited(key, timeout_in_ms, bytes)

    def key_value_dir_get(self, key: str) -> list[tuple[str, str]]:
        """Keys below `key/`, with their values."""
        return [(name, _as(str, value)) for name, value in self._ask("list", key)]

    def key_value_dir_get_bytes(self, key: str) -> list[tuple[str, bytes]]:
        """`key_value_dir_get`, of bytes."""
        return [(name, _as(bytes, value)) for name, value in self._ask("list", key)]

    def key_value_delete(self, key: str) -> None:
        """Forget a key, and those below `key/`."""
        self._ask("delete", key)

    def key_value_increment(self, key: str, increment: int = 1) -> int:
        """Add to the number that a key has, 0 if it has none; the sum."""
        return self._ask("increment", key, increment)

    def _found(self, key: str, kind: type[Value]) -> Value:
        value = self._ask("get", key)
        if value is None:
            raise RuntimeFailure(f"NOT_FOUND: no process has set the key {key!r}")
        return _as(kind, value)

    def _awaited(self, key: str, milliseconds: int, kind: type[Value]) -> Value:
        def look() -> Any:
            return self._ask("get", key)

        value = _until(look, milliseconds / 1e3)
        if value is None:
            raise ProcessTimeout(
                f"DEADLINE_EXCEEDED: no process has set the key {key!r} within {milliseconds} ms"
            )
        return _as(kind, value)

    # -- processes ---------------------------------------------------------------------------------

    def wait_at_barrier(
        self, barrier_id: str, timeout_in_ms: int, process_ids: Sequence[int] | None = None
    ) -> None:
        """Wait until all these processes (all there are, if it is None) wait here.

        Raises:
          ProcessTimeout: some have not come; the message names them.
        """
        members = tuple(range(self._world.count) if process_ids is None else sorted(process_ids))
        generation = self._ask("come", barrier_id, members)
        missing: list[tuple[int, ...]] = [members]

        def look() -> bool | None:
            missing[0] = self._ask("absent", barrier_id, generation)
            gone = [n for n in missing[0] if n in self._world.ended]
            if gone:
                reason = self._world.ended[gone[0]]
                self._ask("withdraw", barrier_id, generation)
                raise RuntimeFailure(f"barrier {barrier_id!r}: process {gone[0]} {reason}")
            return None if missing[0] else True

        try:
            came = _until(look, timeout_in_ms / 1e3)
        except Interrupted:
            with suppress(Interrupted):  # nobody waits for the answer
                self._ask("withdraw", barrier_id, generation)
            raise
        if came is None:
            self._ask("withdraw", barrier_id, generation)
            raise ProcessTimeout(
                f"DEADLINE_EXCEEDED: barrier {barrier_id!r}: of {len(members)} processes "
                f"{', '.join(map(str, missing[0]))} did not come within {timeout_in_ms} ms"
            )

    def get_live_nodes(self, process_ids: Sequence[int]) -> dict[int, int]:
        """Those of these processes that run, each with a number of this life of it."""
        return {n: n + 1 for n in process_ids if n not in self._world.ended}

    # -- questions and answers ---------------------------------------------------------------------

    def _ask(self, question: str, *arguments: Any) -> Any:
        world = self._world
        if world.index == _SERVER:
            with world.lock:
                good, value = self._server.answer(world.index, question, arguments)
        else:
            number = next(self._numbers)
            self._asked.add(number)
            try:
                world.send(_SERVER, _ASK, (number, question, arguments))
                good, value = world.until(
                    lambda: self._answers.pop(number, None),
                    # One that has come to its end answers, until all have.
                    lambda: world.lost & {_SERVER},
                    f"process {world.index} asks process {_SERVER}, which has keys and barriers",
                    _PATIENCE,
                )
            finally:
                self._asked.discard(number)
        if not good:
            raise RuntimeFailure(value)
        return value

    def _serve(self, source: int, head: Any, payload: np.ndarray) -> None:
        number, question, arguments = head
        answer = self._server.answer(source, question, arguments)
        self._world.send(source, _ANSWER, (number, *answer))

    def _keep_answer(self, source: int, head: Any, payload: np.ndarray) -> None:
        number, good, value = head
        if number in self._asked:
            self._answers[number] = (good, value)


def _as(kind: type[Value], value: str | bytes) -> Value:
    if isinstance(value, kind):
        return value
    return value.encode() if isinstance(value, str) else value.decode()  # type: ignore[return-value]


def _until(look: Callable[[], Any], seconds: float) -> Any:
    """What `look()` gives, when it is not None; None if it never is."""
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while True:
        check_interrupt()
        found = look()
        left = deadline - time.monotonic()
        if found is not None or left <= 0:
            return found
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)


class _Server:
    """What process 0 keeps; its methods are called with the lock of the world held."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        # By name and generation: who belongs to it, and who has come.
        self._barriers: dict[tuple[str, int], tuple[tuple[int, ...], set[int]]] = {}
        self._generations: dict[str, int] = {}

    def answer(self, source: int, question: str, arguments: Sequence[Any]) -> tuple[bool, Any]:
        try:
            return True, _QUESTIONS[question](self, source, *arguments)
        except RuntimeFailure as error:
            return False, str(error)

    def set(self, source: int, key: str, value: Any, allow_overwrite: bool) -> None:
        if key in self._values and not allow_overwrite:
            raise RuntimeFailure(
                f"ALREADY_EXISTS: the key {key!r} has a value; change it with allow_overwrite=True"
            )
        self._values[key] = value

    def get(self, source: int, key: str) -> Any:
        return self._values.get(key)

    def list(self, source: int, key: str) -> list[tuple[str, Any]]:
        below = key.rstrip("/") + "/"
        return sorted((k, v) for k, v in self._values.items() if k.startswith(below))

    def delete(self, source: int, key: str) -> None:
        below = key.rstrip("/") + "/"
        for found in [k for k in self._values if k == key or k.startswith(below)]:
            del self._values[found]

    def increment(self, source: int, key: str, increment: int) -> int:
        try:
            total = int(self._values.get(key, "0")) + increment
        except ValueError:
            raise RuntimeFailure(f"INVALID_ARGUMENT: the value of {key!r} is no number") from None
        self._values[key] = str(total)
        return total

    def come(self, source: int, name: str, members: tuple[int, ...]) -> int:
        """A process has come to a barrier; the generation that it belongs to."""
        generation = self._generations.setdefault(name, 0)
        found, came = self._barriers.setdefault((name, generation), (members, set()))
        if found != members or source not in members:
            raise RuntimeFailure(
                f"INVALID_ARGUMENT: process {source} waits at barrier {name!r} for processes "
                f"{members}, others for {found}; each of them names the same, itself among them"
            )
        came.add(source)
        if len(came) == len(members):
            self._generations[name] = generation + 1
            self._barriers.pop((name, generation - 1), None)
        return generation

    def absent(self, source: int, name: str, generation: int) -> tuple[int, ...]:
        members, came = self._barriers.get((name, generation), ((), set()))
        return tuple(n for n in members if n not in came)

    def withdraw(self, source: int, name: str, generation: int) -> None:
        """A process that has come waits no more."""
        _, came = self._barriers.get((name, generation), ((), set()))
        came.discard(source)


_QUESTIONS: dict[str, Callable[..., Any]] = {
    "set": _Server.set,
    "get": _Server.get,
    "list": _Server.list,
    "delete": _Server.delete,
    "increment": _Server.increment,
    "come": _Server.come,
    "absent": _Server.absent,
    "withdraw": _Server.withdraw,
}
