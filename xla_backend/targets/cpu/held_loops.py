"""Loops and branches of a program whose arrays are registers: what goes from round to round, and
from the arms of a branch to what follows, are values of the function that is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xla_backend.kernels.ir import Buffer, Kernel
from xla_backend.llvm.conversions import from_memory, to_memory
from xla_backend.llvm.types import bits_of, element, vector
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.program.ir import Copy, Launch, Slice, Steps, While, launched_buffers
from xla_backend.targets.cpu.held_arrays import NOTHING, HeldArrays, Place, place_of
from xla_backend.targets.cpu.held_registers import Contents, Register

# Writes the address of an array.
Pointer = Callable[[Place], str]


class HeldLoops:
    """The registers of the loop that is being written; none outside of loops that hold arrays."""

    def __init__(self, arrays: HeldArrays) -> None:
        self._arrays = arrays
        self._held = NOTHING
        self._registers: dict[Place, Register] = {}

    def register(self, slice: Slice) -> Register | None:
        return self._registers.get(place_of(slice)) if self._registers else None

    # -- control -----------------------------------------------------------------------------------

    def loop(
        self,
        w: FunctionWriter,
        step: While,
        most_steps: int,
        pointer: Pointer,
        condition: Callable[[], str],
        body: Callable[[], None],
    ) -> None:
        """Write a loop, which holds what it can if no loop around it does. `most_steps`: of a block
        that is part of this function."""
        if self._registers:
            steps = (*step.condition, *step.body)
            self._loop(w, self._arrays.written(steps, self._held), condition, body)
            return
        self._held = held = self._arrays.of_loop(step, most_steps)
        self._registers = {p: Register(p.register_type, p.elements) for p in held.places}
        for place in held.loaded:
            self._registers[place].set_vector(_load(w, pointer, place))
        self._loop(w, held.carried, condition, body)
        for place in held.stored:
            _store(w, pointer, place, self._registers[place])
        self._held, self._registers = NOTHING, {}

    def _loop(
        self,
        w: FunctionWriter,
        carried: Sequence[Place],
        condition: Callable[[], str],
        body: Callable[[], None],
    ) -> None:
        end: dict[Place, Contents] = {}

        def holds(names: list[str]) -> str:
            self._take(carried, names)
            flag = condition()
            end.update(self._contents())
            return flag

        def round_(_: list[str]) -> list[str]:
            body()
            return self._texts(w, carried)

        types = self._types(carried)
        w.while_(list(zip(types, self._texts(w, carried))), holds, round_)
        self._set(end)

    def branch(
        self,
        w: FunctionWriter,
        condition: str,
        steps: Sequence[Steps],
        then: Callable[[], None],
        otherwise: Callable[[], None],
    ) -> None:
        """Write a branch; `steps`: of all arms."""
        every = tuple(step for arm in steps for step in arm)
        written = self._arrays.written(every, self._held) if self._registers else []
        before = self._contents()

        def arm(write: Callable[[], None]) -> list[str]:
            self._set(before)
            write()
            return self._texts(w, written)

        types = self._types(written)
        texts = w.if_else(condition, types, lambda: arm(then), lambda: arm(otherwise))
        self._set(before)
        self._take(written, texts)

    def _contents(self) -> dict[Place, Contents]:
        return {place: register.contents for place, register in self._registers.items()}

    def _set(self, contents: dict[Place, Contents]) -> None:
        for place, held in contents.items():
            self._registers[place].contents = held

    def _types(self, places: Sequence[Place]) -> list[str]:
        """Of what is handed on of some arrays."""
        apart = self._held.apart
        return [ty for place in places for ty in self._registers[place].types(place in apart)]

    def _texts(self, w: FunctionWriter, places: Sequence[Place]) -> list[str]:
        apart = self._held.apart
        return [x for place in places for x in self._registers[place].texts(w, place in apart)]

    def _take(self, places: Sequence[Place], texts: Sequence[str]) -> None:
        left = iter(texts)
        for place in places:
            register, apart = self._registers[place], place in self._held.apart
            register.take([next(left) for _ in register.types(apart)], apart)

    # -- steps -------------------------------------------------------------------------------------

    def of_launch(self, kernel: Kernel, step: Launch) -> dict[Buffer, Register]:
        """The buffers of a kernel that are registers."""
        if not self._registers:
            return {}
        possible = self._arrays.in_registers(kernel).known
        found = {}
        for buffer, slice in zip(launched_buffers(kernel), step.buffers):
            register = self.register(slice)
            if register is not None and buffer in possible:
                found[buffer] = register
        return found

    def copy(self, w: FunctionWriter, step: Copy, pointer: Pointer) -> bool:
        """Write a copy, if one side is a register."""
        source, target = self.register(step.source), self.register(step.target)
        if target is not None:
            if source is None:
                target.set_vector(_load(w, pointer, place_of(step.source)))
            else:
                target.contents = source.contents
        elif source is not None:
            _store(w, pointer, place_of(step.target), source)
        return source is not None or target is not None


def _load(w: FunctionWriter, pointer: Pointer, place: Place) -> str:
    ty = place.memory_type
    raw = w.load(ty, pointer(place), bits_of(ty) // 8)
    if place.lanes != place.elements:
        behind = [0] * (place.lanes - place.elements)
        raw = w.shuffle(ty, raw, "poison", [*range(place.elements), *behind])
    return from_memory(w, place.type, place.lanes, raw)


def _store(w: FunctionWriter, pointer: Pointer, place: Place, register: Register) -> None:
    ty, raw = place.memory_type, to_memory(w, place.type, place.lanes, register.vector(w))
    if place.lanes != place.elements:
        raw = w.shuffle(vector(element(ty), place.lanes), raw, "poison", range(place.elements))
    w.store(ty, raw, pointer(place), bits_of(ty) // 8)
