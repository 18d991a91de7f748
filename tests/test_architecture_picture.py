"""The picture in docs/design/architecture.md shows what the stages of its program print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pyjax
import pyjax.numpy as jnp

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "design" / "architecture.md").read_text(encoding="utf-8")
PICTURE = TEXT.split("```text\n")[1].split("```")[0]


def f(x: pyjax.Array) -> pyjax.Array:
    return jnp.maximum(x, 0) * 2 + 1


@pytest.fixture(scope="module")
def stages() -> dict[str, str]:
    traced = pyjax.jit(f).trace(jnp.ones(1024))
    lowered = traced.lower()
    compiled = lowered.compile()
    return {
        "jaxpr": str(traced.jaxpr),
        "hlo": lowered.as_text("hlo"),
        "optimised": compiled.as_text(),
        "program": compiled.as_text("program"),
        "loops": compiled.as_text("loops"),
        "llvm": compiled.as_text("llvm"),
    }


LINES = [
    ("jaxpr", "b:f32[1024] = max a 0.0:f32[]"),
    ("jaxpr", "c:f32[1024] = mul b 2.0:f32[]"),
    ("jaxpr", "d:f32[1024] = add c 1.0:f32[]"),
    ("hlo", "maximum(parameter, broadcast)"),
    ("hlo", "multiply(maximum, broadcast.1)"),
    ("hlo", "add(multiply, broadcast.2)"),
    ("optimised", "fusion(%parameter), kind=kLoop"),
    ("program", "launch add_fusion(p0=arg0 f32[1024],"),
    ("program", "out0=out0 f32[1024])"),
    ("loops", "v1 = maximum(v0, 0.0)"),
]
# How wide vectors are is the machine's business.
WIDE = [("loops", "for lane in lanes(32):"), ("llvm", "fmul <32 x float>")]


@pytest.mark.parametrize("stage, line", LINES)
def test_line(stages: dict[str, str], stage: str, line: str) -> None:
    assert line in PICTURE
    assert line in stages[stage]


@pytest.mark.parametrize("stage, line", WIDE)
def test_line_of_some_width(stages: dict[str, str], stage: str, line: str) -> None:
    assert line in PICTURE
    assert re.search(re.escape(line).replace("32", r"\d+"), stages[stage])


def test_files_exist() -> None:
    """Files that the document names, as they are or in a room of either package."""
    rooms = [ROOT, ROOT / "pyjax", ROOT / "xla_backend", ROOT / "tests"]
    names = set(re.findall(r"[\w/]+/\w+\.py\b", TEXT))
    assert len(names) > 20
    missing = [n for n in sorted(names) if not any((room / n).exists() for room in rooms)]
    assert not missing
