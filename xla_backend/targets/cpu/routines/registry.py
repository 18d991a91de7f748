"""Groups of kernels, as their subjects declare them; `subjects` has them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.writer import ModuleWriter

# Group name -> (symbols, emitter that adds them to a module). A group is one object on disk.
Emit = Callable[[ModuleWriter], None]
_GROUPS: dict[str, tuple[tuple[str, ...], Emit]] = {}
_OWNER: dict[str, str] = {}


def register_group(name: str, symbols: tuple[str, ...], emit: Emit) -> None:
    """Declares a group of kernels; `emit` writes them when one is asked for first.

    Raises:
      ValueError: another group has a kernel of the same name.
    """
    for symbol in symbols:
        if _OWNER.get(symbol, name) != name:
            raise ValueError(f"{symbol} is of group {_OWNER[symbol]!r} and of {name!r}; rename one")
    _GROUPS[name] = (symbols, emit)
    for symbol in symbols:
        _OWNER[symbol] = name


def owners() -> dict[str, str]:
    """Symbol -> group, of those that are declared."""
    return _OWNER


def group_module(group: str, target: TargetInfo, fast_math: tuple[str, ...] = ()) -> ModuleWriter:
    """The code of a group."""
    module = ModuleWriter(target, fast_math)
    _, emit = _GROUPS[group]
    emit(module)
    return module


def groups_behind(
    symbols: Iterable[str], target: TargetInfo, fast_math: tuple[str, ...] = ()
) -> tuple[list[str], list[str]]:
    """The groups that define `symbols` and what those call; and the symbols that no group
    defines."""
    groups: dict[str, None] = {}
    others: dict[str, None] = {}
    left = list(symbols)
    while left:
        symbol = left.pop()
        group = _OWNER.get(symbol)
        if group is None:
            others[symbol] = None
        elif group not in groups:
            groups[group] = None
            left += called_outside(group_module(group, target, fast_math))
    return sorted(groups), sorted(others)


def called_outside(module: ModuleWriter) -> list[str]:
    """Functions of this project that a module calls and does not define."""
    names = [n for n in module.declarations if n.startswith("pyjax_")]
    return [n for n in names if not module.has_function(n)]
