"""breakpoint and visualize_sharding: what they show."""

from __future__ import annotations

import io

import numpy as np
import pytest

import pyjax
from pyjax import numpy as jnp
from pyjax.sharding import AxisType, Mesh, NamedSharding


def _inner(x, commands, out):
    doubled = 2 * x
    pyjax.debug.breakpoint(stdin=io.StringIO(commands), stdout=out)
    return doubled + 1


def _outer(y, commands, out):
    factor = 10.0
    return _inner(y * factor, commands, out)


def _session(commands: str) -> tuple[float, str]:
    out = io.StringIO()
    result = pyjax.jit(lambda y: _outer(y, commands, out))(3.0)
    pyjax.effects_barrier()
    return float(result), out.getvalue().replace("(pyjaxdb) ", "")


def test_a_session() -> None:
    result, said = _session("p doubled\nup\nfactor + 1\np doubled\nd\nl\nbt\n\nc\n")
    assert result == 61.0
    lines = said.splitlines()
    assert lines[0] == "Entering the debugger:" and "in _inner" in lines[1]
    assert "pyjax.debug.breakpoint" in lines[2] and lines[3] == "array(60., dtype=float32)"
    assert "in _outer" in lines[4] and lines[6] == "11.0"
    assert lines[7] == "*** NameError: name 'doubled' is not defined"
    assert any(line.startswith("-> ") and "breakpoint" in line for line in lines)
    assert next(line for line in lines if line.startswith("> ")).endswith("in _inner")


def test_edges_of_a_session() -> None:
    _, said = _session("down\npp {'a': x}\np 1/0\ncontinue\n")
    assert "*** this is the innermost frame" in said
    assert "{'a': array(30., dtype=float32)}" in said and "*** ZeroDivisionError" in said
    out = io.StringIO()
    frames = {"num_frames": 1, "stdin": io.StringIO("u\nc\n"), "stdout": out}
    pyjax.debug.breakpoint(**frames)
    assert "*** this is the outermost frame" in out.getvalue()


def test_quitting_ends_the_program() -> None:
    for commands in ("q\n", ""):
        with pytest.raises(KeyboardInterrupt, match="quit at a breakpoint"):
            pyjax.debug.breakpoint(stdin=io.StringIO(commands), stdout=io.StringIO())


def test_refused() -> None:
    with pytest.raises(ValueError, match="no backend 'web'"):
        pyjax.debug.breakpoint(backend="web")
    with pytest.raises(NotImplementedError, match="ordered=True"):
        pyjax.debug.breakpoint(token=object())


class _Device:
    platform = "gpu"
    process_index = 0

    def __init__(self, id: int) -> None:
        self.id = id


def _drawn(capsys, shape, spec, **options) -> list[str]:
    mesh = Mesh(np.array([_Device(i) for i in range(4)]).reshape(2, 2), ("a", "b"))
    assert mesh.axis_types == (AxisType.Auto, AxisType.Auto)
    pyjax.debug.visualize_sharding(shape, NamedSharding(mesh, spec), **options)
    return capsys.readouterr().out.splitlines()


def test_drawings(capsys) -> None:
    pyjax.debug.visualize_array_sharding(jnp.ones((4, 4)))
    assert capsys.readouterr().out == "┌─────────┐\n│  CPU 0  │\n└─────────┘\n"
    P = pyjax.P
    rows = [
        [name for name in ("0", "1", "2", "3") if f"GPU {name} " in line]
        for line in _drawn(capsys, (4, 4), P("a", "b"))
    ]
    assert rows == [[], ["0", "1"], [], ["2", "3"], []]
    (line,) = [x for x in _drawn(capsys, (4,), P("a")) if "GPU" in x]
    assert [part.strip() for part in line.strip("│").split("│")] == ["GPU 0,1", "GPU 2,3"]
    lines = _drawn(capsys, (4, 4), P(None, "b"), scale=2.0, max_width=15)
    assert len(lines) == 4 and all(len(x) == len(lines[0]) for x in lines)
    with pytest.raises(ValueError, match="1 and 2 dimensions"):
        pyjax.debug.visualize_array_sharding(jnp.ones(()))


def test_variables_that_are_no_trees() -> None:
    """Of this function, which are shown as they are."""
    cycle: list[object] = []
    cycle.append(cycle)
    mixed = {1: 2, "a": 3}

    def traced(x: pyjax.Array) -> pyjax.Array:
        held = (cycle, mixed)  # noqa: F841 - it is looked at
        out = io.StringIO()
        pyjax.debug.breakpoint(stdin=io.StringIO("p held\np x\nc\n"), stdout=out)
        said.append(out)
        return x

    said: list[io.StringIO] = []
    pyjax.jit(traced)(2.0).block_until_ready()
    pyjax.effects_barrier()
    assert "([[...]], {1: 2, 'a': 3})" in said[0].getvalue() and "2." in said[0].getvalue()
