"""How compile time grows with the program: python -m benchmarks.compile_scaling [largest].

Programs of 500 to 16,000 instructions of several kinds are compiled with an empty object cache;
printed are milliseconds of processor time (all threads; the best of a few rounds), and the ratio to
half the size. The goal is at most 2.3 per doubling.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise

import xla_backend

SIZES = (500, 1000, 2000, 4000, 8000, 16000)
ALLOWED = 2.3
ROUNDS = 5
_ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"


def chain(n: int) -> str:
    """One elementwise chain on a vector."""
    ops = ("add", "multiply", "subtract", "maximum")
    lines = [f"  x{i + 1} = f32[512] {ops[i % 4]}(x{i}, y)" for i in range(n)]
    return _entry(["x0 = f32[512] parameter(0)", "y = f32[512] parameter(1)", *lines], f"x{n}")


def layers(n: int) -> str:
    """Matrix product, bias, activation, again and again: four instructions a layer."""
    product = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    lines = ["x0 = f32[16,32] parameter(0)", "w = f32[32,32] parameter(1)"]
    lines.append("b = f32[32] parameter(2)")
    for i in range(n // 4):
        lines += [
            f"d{i} = f32[16,32] dot(x{i}, w), {product}",
            f"c{i} = f32[16,32] broadcast(b), dimensions={{1}}",
            f"s{i} = f32[16,32] add(d{i}, c{i})",
            f"x{i + 1} = f32[16,32] tanh(s{i})",
        ]
    return _entry(lines, f"x{n // 4}")


def reductions(n: int) -> str:
    """Normalisation of rows: five instructions a step."""
    lines = ["x0 = f32[16,128] parameter(0)", "zero = f32[] constant(0)"]
    for i in range(n // 5):
        lines += [
            f"e{i} = f32[16,128] multiply(x{i}, x{i})",
            f"r{i} = f32[16] reduce(e{i}, zero), dimensions={{1}}, to_apply=add",
            f"q{i} = f32[16] rsqrt(r{i})",
            f"b{i} = f32[16,128] broadcast(q{i}), dimensions={{0}}",
            f"x{i + 1} = f32[16,128] multiply(x{i}, b{i})",
        ]
    return _ADD + _entry(lines, f"x{n // 5}")


def tree(n: int) -> str:
    """Many different arrays added in pairs: wide rather than deep."""
    leaves = n // 2
    lines = ["x = f32[300] parameter(0)"]
    names = []
    for i in range(leaves):
        lines.append(
            f"l{i} = f32[{100 + i % 50}] slice(x), slice={{[{i % 50}:{100 + 2 * (i % 50)}]}}"
        )
        names.append(f"l{i}")
    groups: dict[int, list[str]] = {}
    for i, name in enumerate(names):
        groups.setdefault(i % 50, []).append(name)
    roots = []
    for k, members in groups.items():
        total = members[0]
        for j, other in enumerate(members[1:]):
            lines.append(f"t{k}_{j} = f32[{100 + k}] add({total}, {other})")
            total = f"t{k}_{j}"
        roots.append(total)
    shape = ", ".join(f"f32[{100 + k}]" for k in groups)
    lines.append(f"out = ({shape}) tuple({', '.join(roots)})")
    return _entry(lines, "out")


KINDS: dict[str, Callable[[int], str]] = {
    "chain": chain,
    "layers": layers,
    "reductions": reductions,
    "tree": tree,
}


def _entry(lines: list[str], root: str) -> str:
    body = "\n".join(
        f"  ROOT {line.strip()}" if line.strip().startswith(f"{root} =") else f"  {line.strip()}"
        for line in lines
    )
    return f"ENTRY e {{\n{body}\n}}\n"


def compile_ms(text: str) -> float:
    """Processor time of one compilation, with an object cache that is empty."""
    module = xla_backend.parse_hlo(text)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYJAX_CACHE_DIR"] = folder
        start = time.process_time()
        xla_backend.compile(module)
        return 1e3 * (time.process_time() - start)


def main() -> int:
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else SIZES[-1]
    sizes = [s for s in SIZES if s <= largest]
    worst = 0.0
    for kind, generate in KINDS.items():
        texts = [generate(size) for size in sizes]
        xla_backend.compile(xla_backend.parse_hlo(generate(100)))  # imports, library kernels
        # In rounds, so that a machine that is slow for a while is slow for all sizes.
        rounds = [[compile_ms(text) for text in texts] for _ in range(ROUNDS)]
        best = [min(column) for column in zip(*rounds)]
        ratios = [b / a for a, b in pairwise(best)]
        worst = max(worst, *ratios)
        cells = [f"{sizes[0]}: {best[0]:.0f} ms"]
        cells += [f"{s}: {ms:.0f} ms ({r:.2f})" for s, ms, r in zip(sizes[1:], best[1:], ratios)]
        print(f"{kind:12} {'   '.join(cells)}", flush=True)
    print(f"worst ratio per doubling {worst:.2f}, allowed {ALLOWED}")
    return int(worst > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
