"""A module as a Graphviz graph: computations are clusters, instructions boxes."""

from __future__ import annotations

from html import escape

from xla_backend.dump.graph_nodes import (
    Box,
    GraphOptions,
    boxes,
    drawn_computations,
    is_inlined_constant,
)
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode

_NODE = 'shape=rect, style="filled"'


def module_dot(module: HloModule, title: str, options: GraphOptions) -> str:
    """DOT text of the entry computation with those it calls."""
    assert module.entry is not None
    computations = drawn_computations(module)
    numbers: dict[Instruction, int] = {}
    for computation in computations:
        for node in computation.instructions:
            numbers[node] = len(numbers)
    heading = f"<b>{escape(title)}<br/>Computation {escape(module.entry.name)}"
    lines = [
        "digraph G {",
        "rankdir = TB;",
        "compound = true;",
        f"label = <{heading}<br/>ENTRY computation</b>>;",
        "labelloc = t;",
        'tooltip = " ";',
    ]
    for computation in computations:
        lines += _cluster(module, computation, numbers, options)
    for computation in computations:
        lines += _edges(computation, numbers)
    return "\n".join([*lines, "}"]) + "\n"


def _cluster(
    module: HloModule,
    computation: Computation,
    numbers: dict[Instruction, int],
    options: GraphOptions,
) -> list[str]:
    nodes = [_node(box, numbers) for box in boxes(computation, options)]
    if computation is module.entry:
        return nodes
    callers = module.callers()[computation]
    used = ", ".join(escape(c.name) for c in callers)
    kind = "Fused expression" if callers[0].opcode is Opcode.FUSION else "Computation"
    return [
        f"subgraph cluster_{numbers[computation.instructions[0]]} {{",
        'style="rounded,filled,bold"; fillcolor="#f5f5f5"; color="#c2c2c2";',
        f"label = <{kind} for <b>{used}</b><br/>{escape(computation.name)}>;",
        "labelloc = t;",
        'tooltip = " ";',
        *nodes,
        "}",
    ]


def _node(box: Box, numbers: dict[Instruction, int]) -> str:
    first, *rest = box.lines
    label = "<br/>".join([f"<b>{escape(first)}</b>", *map(escape, rest)])
    fill, border, text = box.colors
    tooltip = escape(box.tooltip, quote=True).replace("\\", "\\\\")
    return (
        f'{numbers[box.instruction]} [label=<{label}>, {_NODE}, tooltip="{tooltip}", '
        f'fontcolor="{text}", color="{border}", fillcolor="{fill}"];'
    )


def _edges(computation: Computation, numbers: dict[Instruction, int]) -> list[str]:
    """Operands to users; what a fusion reads goes to its parameters, and its root to the fusion."""
    lines: list[str] = []
    for node in computation.instructions:
        fused = node.called[0] if node.opcode is Opcode.FUSION else None
        for i, operand in enumerate(node.operands):
            if is_inlined_constant(operand) and fused is None:
                continue
            target = fused.parameters[i] if fused is not None else node
            label = f' [label="{i}"]' if len(node.operands) > 1 and fused is None else ""
            lines.append(f"{numbers[operand]} -> {numbers[target]}{label};")
        for callee in node.called:
            if callee.root in numbers:
                lines.append(f"{numbers[callee.root]} -> {numbers[node]} [style=dashed];")
    return lines
