"""The arrays that are live at the peak, as a tree of the computations they belong to."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.process.light_dataclasses import dataclass, field


@dataclass(slots=True)
class _Node:
    name: str
    current: int = 0
    children: dict[str, _Node] = field(default_factory=dict)

    def child(self, name: str) -> _Node:
        return self.children.setdefault(name, _Node(name))

    @property
    def total(self) -> int:
        return self.current + sum(c.total for c in self.children.values())


def peak_tree(module: HloModule, live: list[tuple[Instruction, int]]) -> list[str]:
    """Lines of the tree: per line its share of the peak, the bytes below it, its own, and what
    the following lines still account for."""
    assert module.entry is not None
    callers = {c: calls[0] for c, calls in module.callers().items() if calls}
    root = _Node(module.entry.name)
    for instruction, size in live:
        node = root
        for step in _path(instruction, callers):
            node = node.child(step)
        node.current += size
    peak = root.total
    lines = [f"  Stack trace breakdown for peak usage: {_spaced(peak)} bytes"]
    _print(root, "    ", "", peak, peak, lines)
    return lines


def _path(instruction: Instruction, callers: dict[Computation, Instruction]) -> list[str]:
    """Names from the entry down to the instruction: calls and computations by turns."""
    steps = [_name(instruction)]
    computation = instruction.parent
    while computation is not None and computation in callers:
        call = callers[computation]
        steps += [computation.name, _name(call)]
        computation = call.parent
    return steps[::-1]


def _name(instruction: Instruction) -> str:
    return instruction.metadata.op_name or instruction.name


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _print(
    node: _Node, indent: str, branch: str, peak: int, remaining: int, lines: list[str]
) -> int:
    remaining -= node.current
    share = 100 * node.total / peak if peak else 0.0
    lines.append(
        f"{indent}{branch}{node.name} ({share:.1f}%, total: {_spaced(node.total)} bytes, "
        f"current: {_spaced(node.current)} bytes, remaining: {_spaced(remaining)} bytes)"
    )
    indent += {"": "  ", "├── ": "│   ", "└── ": "    "}[branch]
    children = sorted(node.children.values(), key=lambda c: -c.total)
    for i, child in enumerate(children):
        last = i + 1 == len(children)
        remaining = _print(child, indent, "└── " if last else "├── ", peak, remaining, lines)
    return remaining
