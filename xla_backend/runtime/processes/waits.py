"""Who waits for whom, in all processes of a program: those that wait for each other in a circle
never go on.

A process that cannot go on by itself says what it waits in to all others: runs of programs, and
gatherings of values. Nobody is asked whether that still holds. A member of a run says how often it
began each exchange: who has not begun one that another member waits for, and cannot go on itself,
has not sent what would let that one go on, so the circle stands. Somebody who waits in one run and
has not begun another, in a circle of such, has broken the order in which all are to begin them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np

from xla_backend.runtime.processes.errors import ALIKE
from xla_backend.runtime.processes.gatherings import Gatherings
from xla_backend.runtime.processes.world import World

_TOPIC, _CIRCLE = "waits", "circle"
# Of an exchange in a run: the number of its site, of the group, and how often it was there.
Key = tuple[int, int, int]
_SAME_COLLECTIVES = "all members of a group must run the same collectives in the same order"


class Wait(NamedTuple):
    """What a process waits in.

    Fields:
      key: in a run.   name: for messages.   missing: the processes whose messages have not come.
    """

    key: Key
    name: str
    missing: tuple[int, ...]


class Stay(NamedTuple):
    """A run or a gathering in which a process cannot go on by itself.

    Fields:
      numbers: of the run, by the other processes of it; none of a gathering.
      gathering: its members and its number; empty of a run.
      times: how often each exchange, a site and a group, was begun there.
      waits: each must end.   identity: of the program.
    """

    numbers: dict[int, int]
    gathering: tuple[Any, ...]
    times: dict[tuple[int, int], int]
    waits: tuple[Wait, ...]
    identity: tuple[str, ...] = ()


class Circle(NamedTuple):
    """Processes that wait for each other, and so for ever.

    Fields:
      text: how that goes.   stays: of processes, by their numbers.
    """

    text: str
    stays: tuple[tuple[int, Stay], ...]


class _Told(NamedTuple):
    """What a process has said of itself.

    Fields:
      begun: how many runs with each other process.   open: of these, what has not ended.
      gathered: how many gatherings of the same members.   stays: where it stays.
    """

    begun: dict[int, int]
    open: tuple[tuple[int, int], ...]
    gathered: dict[tuple[int, ...], int]
    stays: tuple[Stay, ...]


# A process, and which of its stays.
_Place = tuple[int, int]


class Waits:
    """What all processes wait in. Methods are called with the world's lock held.

    Attributes:
      begun: how many runs this process has begun with each other one.
      open: other processes and numbers of the runs that have not ended.
    """

    def __init__(self, world: World, gatherings: Gatherings) -> None:
        self.begun = dict.fromkeys(world.others, 0)
        self.open: set[tuple[int, int]] = set()
        self._world = world
        self._gathered = gatherings.begun
        self._stays: dict[Hashable, Stay] = {}
        self._told: dict[int, _Told] = {}
        # Whether something was said since it was last looked for circles.
        self._news = False
        self._never: set[_Place] = set()
        # Stays here that others have found to be in a circle.
        self._found: list[tuple[Stay, Circle]] = []
        world.on(_TOPIC, self._keep)
        world.on(_CIRCLE, self._keep_circle)

    def _keep(self, source: int, head: Any, payload: np.ndarray) -> None:
        begun, opened, gathered, stays = head
        self._told[source] = _Told(begun, opened, gathered, tuple(map(_stay, stays)))
        self._news = True

    def _keep_circle(self, source: int, head: Any, payload: np.ndarray) -> None:
        stay, text, circle = head
        stays = tuple((p, _stay(other)) for p, other in circle)
        self._found.append((_stay(stay), Circle(text, stays)))

    def stays(self, where: Hashable, stay: Stay) -> None:
        """This process cannot go on there by itself."""
        if self._stays.get(where) != stay:
            self._stays[where] = stay
            self._tell()

    def goes_on(self, where: Hashable) -> None:
        """It can, or has ended it."""
        if self._stays.pop(where, None) is not None:
            self._found = [found for found in self._found if found[0] in self._stays.values()]
            self._tell()

    def _tell(self) -> None:
        world = self._world
        own = _Told(
            {**self.begun}, tuple(self.open), {**self._gathered}, tuple(self._stays.values())
        )
        self._told[world.index] = own
        self._news = True
        head = (*own[:3], tuple(map(_head, own.stays)))
        for other in world.others:
            if other not in world.ended:
                world.send(other, _TOPIC, head)

    def has_left(self, other: int, number: int) -> bool:
        """Whether another process has ended a run of this number with this one."""
        told, run = self._told.get(other), (self._world.index, number)
        return told is not None and told.begun.get(run[0], 0) >= number and run not in told.open

    def circle(self, where: Hashable) -> Circle | None:
        """Why a stay of this process never ends; None: it may. Others in the circle are told: when
        this process has given up, they could not see it any more."""
        if self._news:
            self._news, self._never = False, self._find()
            circle = tuple((p, _head(self._stay((p, n)))) for p, n in self._never)
            for place in self._never:
                if place[0] != self._world.index and place[0] not in self._world.ended:
                    head = (_head(self._stay(place)), self._text(place), circle)
                    self._world.send(place[0], _CIRCLE, head)
        stay = self._stays[where]
        place = (self._world.index, self._told[self._world.index].stays.index(stay))
        if place in self._never:
            return Circle(self._text(place), tuple((p, self._stay((p, n))) for p, n in self._never))
        return next((circle for other, circle in self._found if other == stay), None)

    def _find(self) -> set[_Place]:
        """The stays that never end."""
        never = {(p, n) for p, told in self._told.items() for n in range(len(told.stays))}
        while True:
            ends = {
                place
                for place in never
                for wait in self._stay(place).waits
                if next(self._blockers(place, wait, never), None) is None
            }
            if not ends:
                return never
            never -= ends

    def _stay(self, place: _Place) -> Stay:
        return self._told[place[0]].stays[place[1]]

    def _blockers(self, place: _Place, wait: Wait, never: set[_Place]) -> Iterator[_Place]:
        """Stays among those that never end, because of which a wait does not end either."""
        process, stay = place[0], self._stay(place)
        for other in wait.missing:
            told = self._told.get(other)
            if told is None:
                continue
            stays = [(other, n) for n in range(len(told.stays)) if (other, n) in never]
            if not _has_begun(stay, process, other, told):
                yield from stays
            elif stay.numbers:
                for found in stays:
                    there = self._stay(found)
                    same = there.numbers.get(process) == stay.numbers[other]
                    if same and there.times.get(wait.key[:2], 0) < wait.key[2]:
                        yield found

    def _text(self, place: _Place) -> str:
        """The way from a stay to one that was met before."""
        seen: list[_Place] = []
        texts, same_run = [], True
        while place not in seen:
            seen.append(place)
            stay = self._stay(place)
            wait = stay.waits[0]
            following = next(self._blockers(place, wait, self._never))
            texts.append(f"process {place[0]} waits in {wait.name} for process {following[0]}")
            told = self._told[following[0]]
            same_run &= _has_begun(stay, place[0], following[0], told)
            place = following
        first, *others = texts
        circle = ", ".join([*others, first])
        return f"{circle}, and so for ever; {_SAME_COLLECTIVES if same_run else ALIKE}"


def _has_begun(stay: Stay, process: int, other: int, told: _Told) -> bool:
    """Whether another process has begun what a process stays in."""
    if stay.gathering:
        members, number = stay.gathering
        return told.gathered.get(members, 0) >= number
    return told.begun.get(process, 0) >= stay.numbers[other]


def _head(stay: Stay) -> tuple[Any, ...]:
    """For a message."""
    return (*stay[:3], tuple(map(tuple, stay.waits)), stay.identity)


def _stay(head: Any) -> Stay:
    numbers, gathering, times, waits, identity = head
    return Stay(numbers, gathering, times, tuple(Wait(*wait) for wait in waits), identity)
