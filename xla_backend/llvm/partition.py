"""Cuts a written module into several, so that they can be compiled at the same time.

The parts are linked together again: what a part calls in another is declared there, and constants
are repeated where they are used. The cut depends on the text and the number of parts only.
"""

from __future__ import annotations

import os
import re

from xla_backend.llvm.writer import FunctionWriter, ModuleWriter

_SYMBOL = re.compile(r"@([\w.$-]+)")
# Text of a module that is worth a thread of its own, some 6 ms of LLVM's time; a module more takes
# one.
_PART_CHARACTERS = 8_000
_MAX_PARTS = 8
_CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Function:
    """A function, its text without linkage, and the symbols it mentions."""

    __slots__ = ("declaration", "name", "symbols", "text")

    def __init__(self, writer: FunctionWriter) -> None:
        self.name = writer.name
        self.text = writer.to_text().replace("define internal ", "define ", 1)
        types = ", ".join(ty for ty, _ in writer.params)
        self.declaration = f"declare {writer.result} @{writer.name}({types})"
        self.symbols = set(_SYMBOL.findall(self.text))
        self.symbols.discard(self.name)


def worthwhile_parts(size: int, limit: int = _MAX_PARTS) -> int:
    """How many modules of a text of so many characters to compile at the same time."""
    return max(1, min(size // _PART_CHARACTERS, _CPUS, _MAX_PARTS, limit))


def split(module: ModuleWriter, parts: int) -> list[str]:
    """The texts of at most `parts` modules that define what `module` does, similar in size.

    Hand-written text and functions that refer to it stay in the first one.
    """
    functions: dict[str, _Function] = {}
    raw: list[str] = []
    for item in module.functions:
        if isinstance(item, str):
            raw.append(item)
            continue
        function = _Function(item)
        functions[function.name] = function
    constants = module.constant_definitions()
    outside = {n for n in module.declarations if not module.has_function(n)}
    known = functions.keys() | constants.keys() | outside
    raw_symbols = {s for text in raw for s in _SYMBOL.findall(text)}
    bins: list[list[_Function]] = [[] for _ in range(parts)]
    sizes = [sum(map(len, raw)), *[0] * (parts - 1)]
    free = []
    for function in functions.values():
        if function.name in raw_symbols or not function.symbols <= known:
            bins[0].append(function)
            sizes[0] += len(function.text)
        else:
            free.append(function)
    for function in sorted(free, key=lambda f: (-len(f.text), f.name)):
        smallest = sizes.index(min(sizes))
        bins[smallest].append(function)
        sizes[smallest] += len(function.text)
    return [
        _text(module, chosen, raw if number == 0 else [], functions, constants)
        for number, chosen in enumerate(bins)
        if chosen or (number == 0 and raw)
    ]


def _text(
    module: ModuleWriter,
    chosen: list[_Function],
    raw: list[str],
    functions: dict[str, _Function],
    constants: dict[str, str],
) -> str:
    used: set[str] = set()
    for function in chosen:
        used |= function.symbols
    for text in raw:
        used.update(_SYMBOL.findall(text))
    own = {f.name for f in chosen}
    lines = [definition for name, definition in constants.items() if name in used]
    lines += [function.text for function in chosen]
    lines += raw
    lines += [f.declaration for name, f in functions.items() if name in used - own]
    lines += [
        text
        for name, text in module.declarations.items()
        if name in used and not module.has_function(name)
    ]
    lines += module.trailer()
    return "\n".join(lines) + "\n"
