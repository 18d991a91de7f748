"""Where a loop is in its kernel, and how it divides into whole groups of iterations and a rest."""

from __future__ import annotations

from math import gcd

from xla_backend.kernels.index import Atom, Index, Var, constant
from xla_backend.kernels.ir import BODIES, If, Kernel, Loop, Statement
from xla_backend.kernels.schedule.copying import Copy
from xla_backend.process.light_dataclasses import dataclass


class ScheduleError(ValueError):
    """A step cannot be taken: the loops it names are not of the form that it needs."""


def path_to(kernel: Kernel, loop: Loop) -> list[Loop]:
    """The loops around `loop` from the outermost inwards, and itself."""
    path = _path(kernel.stages, loop)
    if path is None:
        raise ScheduleError(f"kernel {kernel.name!r} has no loop {loop.var.name!r}")
    return path


def _path(statements: list[Statement], loop: Loop) -> list[Loop] | None:
    for s in statements:
        if s is loop:
            return [loop]
        if isinstance(s, BODIES):
            inner = _path(s.body, loop)
            if inner is not None:
                return [s, *inner] if isinstance(s, Loop) else inner
    return None


def replace(kernel: Kernel, loop: Loop, statements: list[Statement]) -> None:
    """Put statements in the place of a loop."""
    block = _block_of(kernel.stages, loop)
    if block is None:
        raise ScheduleError(f"kernel {kernel.name!r} has no loop {loop.var.name!r}")
    at = block.index(loop)
    block[at : at + 1] = statements


def _block_of(statements: list[Statement], loop: Loop) -> list[Statement] | None:
    if loop in statements:
        return statements
    for s in statements:
        if isinstance(s, BODIES):
            found = _block_of(s.body, loop)
            if found is not None:
                return found
    return None


@dataclass(slots=True)
class Rest:
    """The iterations left over after whole groups: `count` of them from `start` on. `block`: they
    belong to the block with this number, of which an index of loops around says which one it is,
    and to no other."""

    start: Index
    count: Index
    block: tuple[Index, int] | None = None

    @property
    def known(self) -> dict[Var, Index]:
        """The variables of loops around that have one value where the rest is."""
        if self.block is None:
            return {}
        number, value = self.block
        return {
            var: constant(value)
            for var in number.terms
            if isinstance(var, Var) and number == Index.of(var)
        }

    def copy(self, var: Var, here: Index, narrowed: Var | None = None) -> Copy:
        """Copies for the rest of a loop over `var`, at start + here; `narrowed` is the variable in
        `here` that takes no more than `count` values."""
        vars = {var: self.start + here, **self.known}
        within: dict[Atom, tuple[int, int]] = {}
        if narrowed is not None:
            within[narrowed] = (0, self.count.bounds[1] - 1)
        return Copy(vars, within)

    def only_here(self, statements: list[Statement]) -> list[Statement]:
        """Statements that run in the one block that has the rest."""
        if self.block is None:
            return statements
        number, value = self.block
        return [If(number, value, value + 1, statements)]


@dataclass(slots=True)
class Division:
    """`groups` whole groups of iterations, or fewer where a limit says so, and a rest."""

    groups: int
    limits: tuple[Index, ...]
    rest: Rest | None


def divide(loop: Loop, size: int) -> Division:
    """Whole groups of `size` iterations of a loop."""
    extent = loop.var.extent
    if not loop.limits:
        groups, left = divmod(extent, size)
        rest = Rest(constant(groups * size), constant(left)) if left else None
        return Division(groups, (), rest)
    (limit, *others) = loop.limits
    if others or (extent % size and limit.bounds[1] > extent):
        raise ScheduleError(f"loop {loop.var.name!r} has no whole groups of {size} iterations")
    left_over = limit % size
    groups_limit = limit // size
    rest = None
    if not left_over.is_constant:
        rest = Rest(groups_limit * size, left_over)
    elif left_over.constant:
        step = gcd(*limit.terms.values())
        number = Index({var: -c // step for var, c in limit.terms.items()})
        last, start = divmod(limit.constant - left_over.constant, step)
        rest = Rest(constant(start), left_over, (number, last))
    return Division(extent // size, (groups_limit,), rest)
