"""A module as one self-contained HTML page: each computation is drawn as layers of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from xla_backend.dump.graph_nodes import Box, GraphOptions, boxes, drawn_computations
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.process.light_dataclasses import dataclass

_LINE, _CHARACTER, _GAP_X, _GAP_Y, _MARGIN = 15, 7, 24, 44, 12

_STYLE = """
body { font: 13px sans-serif; margin: 1em; }
svg text { font: 12px monospace; }
h2 { font-size: 1.1em; }
nav a { margin-right: 1em; }
section { overflow-x: auto; }
section.frame { display: none; }
section.frame:target, section.frame.first { display: block; }
"""

# j and k walk through the frames of a page.
_SCRIPT = """
const frames = [...document.querySelectorAll('section.frame')];
function show(i) {
  const at = Math.max(0, Math.min(frames.length - 1, i));
  frames.forEach((f, n) => { f.style.display = n === at ? 'block' : 'none'; });
  window.current = at;
}
if (frames.length) {
  show(0);
  addEventListener('hashchange', () => show(frames.findIndex(f => '#' + f.id === location.hash)));
  addEventListener('keydown', e => {
    if (e.key === 'j') show(window.current + 1);
    if (e.key === 'k') show(window.current - 1);
  });
}
"""


@dataclass(frozen=True, slots=True)
class Frame:
    """One drawing of a page that steps through several."""

    drawing: str
    label: str


def module_page(
    module: HloModule, title: str, options: GraphOptions, *, collapse: bool = False
) -> str:
    """The page of one module. `collapse`: the entry computation alone, fusions as single boxes."""
    return _page(title, module_drawing(module, options, collapse=collapse))


def graph_page(frames: Sequence[Frame], title: str) -> str:
    """A page that shows one frame at a time; j and k step."""
    links = " ".join(f'<a href="#frame{i}">{escape(f.label)}</a>' for i, f in enumerate(frames))
    sections = "\n".join(
        f'<section class="frame" id="frame{i}"><h2>{escape(f.label)}</h2>{f.drawing}</section>'
        for i, f in enumerate(frames)
    )
    return _page(title, f"<nav>{links}</nav>\n{sections}\n<p>Use j/k to step.</p>")


def module_drawing(module: HloModule, options: GraphOptions, *, collapse: bool = False) -> str:
    """The computations of a module below each other, the entry first."""
    computations = drawn_computations(module)[: 1 if collapse else None]
    return "\n".join(
        f'<section id="{escape(c.name, quote=True)}"><h2>{_heading(module, c)}</h2>'
        f"{_svg(c, options)}</section>"
        for c in computations
    )


def _heading(module: HloModule, computation: Computation) -> str:
    if computation is module.entry:
        return f"Computation {escape(computation.name)} (ENTRY)"
    callers = ", ".join(escape(c.name) for c in module.callers()[computation])
    return f"Computation {escape(computation.name)} of {callers}"


def _page(title: str, body: str) -> str:
    return (
        f'<!DOCTYPE html>\n<html>\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n{body}\n"
        f"<script>{_SCRIPT}</script>\n</body>\n</html>\n"
    )


@dataclass(slots=True)
class _Placed:
    box: Box
    x: float
    y: float
    width: float
    height: float


def _svg(computation: Computation, options: GraphOptions) -> str:
    placed = _layout(boxes(computation, options))
    width = max((p.x + p.width for p in placed.values()), default=0) + _MARGIN
    height = max((p.y + p.height for p in placed.values()), default=0) + _MARGIN
    edges = [
        _edge(placed[operand], p)
        for p in placed.values()
        for operand in dict.fromkeys(p.box.instruction.operands)
        if operand in placed
    ]
    shapes = [_rectangle(p) for p in placed.values()]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}">\n'
        + "\n".join([*edges, *shapes])
        + "\n</svg>"
    )


def _layout(drawn: list[Box]) -> dict[Instruction, _Placed]:
    """Layers by the longest way from a parameter; in a layer, boxes go below their operands."""
    layer: dict[Instruction, int] = {}
    rows: list[list[Box]] = []
    for box in drawn:
        above = [layer[o] for o in box.instruction.operands if o in layer]
        depth = layer[box.instruction] = max(above, default=-1) + 1
        while len(rows) <= depth:
            rows.append([])
        rows[depth].append(box)
    placed: dict[Instruction, _Placed] = {}
    y = float(_MARGIN)
    for row in rows:
        row.sort(key=lambda b: _wanted_x(b, placed))
        x, tallest = float(_MARGIN), 0.0
        for box in row:
            width = _CHARACTER * max(map(len, box.lines)) + 16
            height = _LINE * len(box.lines) + 10
            x = max(x, _wanted_x(box, placed) - width / 2)
            placed[box.instruction] = _Placed(box, x, y, width, height)
            x += width + _GAP_X
            tallest = max(tallest, height)
        y += tallest + _GAP_Y
    return placed


def _wanted_x(box: Box, placed: dict[Instruction, _Placed]) -> float:
    """The middle of the operands."""
    above = [placed[o] for o in box.instruction.operands if o in placed]
    return sum(p.x + p.width / 2 for p in above) / len(above) if above else 0.0


def _edge(source: _Placed, target: _Placed) -> str:
    x1, y1 = source.x + source.width / 2, source.y + source.height
    x2, y2 = target.x + target.width / 2, target.y
    middle = (y1 + y2) / 2
    return (
        f'<path d="M{x1:.0f},{y1:.0f} C{x1:.0f},{middle:.0f} {x2:.0f},{middle:.0f} '
        f'{x2:.0f},{y2:.0f}" fill="none" stroke="#888"/>'
    )


def _rectangle(p: _Placed) -> str:
    fill, border, text = p.box.colors
    weights = [" font-weight='bold'", *[""] * (len(p.box.lines) - 1)]
    lines = "".join(
        f'<tspan x="{p.x + 8:.0f}" dy="{_LINE}"{weight}>{escape(line)}</tspan>'
        for line, weight in zip(p.box.lines, weights)
    )
    return (
        f"<g><title>{escape(p.box.tooltip)}</title>"
        f'<rect x="{p.x:.0f}" y="{p.y:.0f}" width="{p.width:.0f}" height="{p.height:.0f}" rx="3" '
        f'fill="{fill}" stroke="{border}"/>'
        f'<text x="{p.x + 8:.0f}" y="{p.y + 2:.0f}" fill="{text}">{lines}</text></g>'
    )
