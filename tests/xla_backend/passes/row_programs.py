"""Programs over rows, as text: named ones, and random ones with several outputs."""

from __future__ import annotations

import math

import numpy as np

COMBINERS = """
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}
max {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] maximum(x, y)
}
"""


def module(lines: list[str]) -> str:
    """A module whose entry has these lines; the last is the root."""
    body = "\n".join(f"  {line}" for line in [*lines[:-1], f"ROOT {lines[-1]}"])
    return f"HloModule rows\n{COMBINERS}\nENTRY main {{\n{body}\n}}\n"


class Rows:
    """Writes lines about arrays `full` and values per row `row`, reduced over `axes`."""

    def __init__(self, dims: tuple[int, ...], axes: tuple[int, ...]) -> None:
        kept = [i for i in range(len(dims)) if i not in axes]
        self.full = f"f32[{','.join(map(str, dims))}]"
        self.row = f"f32[{','.join(str(dims[i]) for i in kept)}]"
        self.kept = ",".join(map(str, kept))
        self.axes = ",".join(map(str, axes))
        self.lines = ["zero = f32[] constant(0)", "low = f32[] constant(-inf)"]
        self._next = 0

    def line(self, type: str, text: str) -> str:
        self._next += 1
        name = f"v{self._next}"
        self.lines.append(f"{name} = {type} {text}")
        return name

    def parameter(self, number: int) -> str:
        return self.line(self.full, f"parameter({number})")

    def reduce(self, value: str, how: str) -> str:
        start = "zero" if how == "add" else "low"
        text = f"reduce({value}, {start}), dimensions={{{self.axes}}}, to_apply={how}"
        return self.line(self.row, text)

    def spread(self, value: str) -> str:
        return self.line(self.full, f"broadcast({value}), dimensions={{{self.kept}}}")

    def of_full(self, op: str, *values: str) -> str:
        return self.line(self.full, f"{op}({', '.join(values)})")

    def of_row(self, op: str, *values: str) -> str:
        return self.line(self.row, f"{op}({', '.join(values)})")

    def text(self, *outputs: tuple[str, str]) -> str:
        types = ", ".join(type for type, _ in outputs)
        names = ", ".join(name for _, name in outputs)
        return module([*self.lines, f"r = ({types}) tuple({names})"])


def softmax(dims: tuple[int, ...], axes: tuple[int, ...]) -> str:
    r = Rows(dims, axes)
    p = r.parameter(0)
    e = r.of_full("exponential", r.of_full("subtract", p, r.spread(r.reduce(p, "max"))))
    return r.text((r.full, r.of_full("divide", e, r.spread(r.reduce(e, "add")))))


def layer_norm(dims: tuple[int, ...], axes: tuple[int, ...]) -> str:
    r = Rows(dims, axes)
    p = r.parameter(0)
    scale = r.line("f32[]", f"constant({1 / math.prod(dims[a] for a in axes)})")
    scales = r.line(r.row, f"broadcast({scale}), dimensions={{}}")
    mean = r.of_row("multiply", r.reduce(p, "add"), scales)
    centred = r.of_full("subtract", p, r.spread(mean))
    variance = r.reduce(r.of_full("multiply", centred, centred), "add")
    normal = r.of_row("rsqrt", r.of_row("multiply", variance, scales))
    return r.text((r.full, r.of_full("multiply", centred, r.spread(normal))))


_UNARY = ("tanh", "negate", "abs", "cosine", "logistic")
_BINARY = ("add", "subtract", "multiply", "maximum")


def random_rows(seed: int) -> str:
    """A random program over rows: minor, middle, major or several reduced dimensions."""
    rng = np.random.default_rng(seed)
    shapes = [
        ((5, 19), (1,)), ((3, 4, 33), (2,)), ((2, 17, 6), (1,)), ((21, 5), (0,)), ((40,), (0,)),
        ((2, 3, 4, 9), (2, 3)), ((4, 1, 18), (2,)), ((3, 5, 2, 4), (1, 3)), ((1, 70), (1,)),
    ]  # fmt: skip
    r = Rows(*shapes[rng.integers(len(shapes))])
    full = [r.parameter(0), r.parameter(1)]
    row: list[str] = []
    for _ in range(int(rng.integers(4, 14))):
        choice = rng.random()
        one, other = (str(rng.choice(full[-4:])) for _ in range(2))
        if choice < 0.3:
            row.append(r.reduce(one, str(rng.choice(["add", "max"]))))
        elif choice < 0.55 and row:
            spread = r.spread(str(rng.choice(row[-3:])))
            full.append(r.of_full(str(rng.choice(_BINARY)), one, spread))
        elif choice < 0.65 and row:
            row.append(r.of_row(str(rng.choice(_UNARY)), str(rng.choice(row))))
        elif choice < 0.8:
            full.append(r.of_full(str(rng.choice(_UNARY)), one))
        else:
            full.append(r.of_full(str(rng.choice(_BINARY)), one, other))
    outputs = [(r.full, full[-1])] + [(r.row, v) for v in row[-1:]]
    if rng.random() < 0.5:
        outputs.append((r.full, str(rng.choice(full))))
    return r.text(*outputs)
