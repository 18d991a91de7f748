"""hlo_bisect: a pass that miscompiles is found, whatever it does."""

from __future__ import annotations

import mmap
import os
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.sampling import sampled
from xla_backend import register_pass
from xla_backend.hlo.attributes import ConstantAttributes
from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.passes.base import HloPass
from xla_backend.runtime.custom_calls import register_custom_call
from xla_backend.tools import hlo_bisect

PROGRAM = """HloModule step

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  x = f32[8,16] parameter(0)
  w = f32[16,4] parameter(1)
  b = f32[4] parameter(2)
  zero = f32[] constant(0)
  three = f32[] constant(3)
  h = f32[8,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bb = f32[8,4] broadcast(b), dimensions={1}
  s = f32[8,4] add(h, bb)
  t = f32[8,4] tanh(s)
  threes = f32[8,4] broadcast(three), dimensions={}
  u = f32[8,4] multiply(t, threes)
  m = f32[8,4] maximum(u, bb)
  total = f32[] reduce(m, zero), dimensions={0,1}, to_apply=add
  q = f32[8,4] divide(m, threes)
  ROOT r = (f32[], f32[8,4]) tuple(total, q)
}
"""


class MaximumToMinimum(HloPass):
    """Changes values."""

    name = "planted-values"

    def run_on_computation(self, computation: Computation) -> bool:
        for node in computation.post_order(Opcode.MAXIMUM):
            node.opcode = Opcode.MINIMUM
            return True
        return False


class ThreeToFour(HloPass):
    """Changes constants."""

    name = "planted-constants"

    def run_on_computation(self, computation: Computation) -> bool:
        for node in computation.post_order(Opcode.CONSTANT):
            if node.literal_array.size == 1 and node.literal_array == 3:
                node.attributes = ConstantAttributes(Literal(np.float32(4)))
                return True
        return False


class Raises(HloPass):
    """Fails on some programs."""

    name = "planted-error"

    def run_on_computation(self, computation: Computation) -> bool:
        if any(node.opcode is Opcode.TANH for node in computation):
            raise IndexError("list index out of range")
        return False


class Aborts(HloPass):
    """Kills the process on some programs."""

    name = "planted-crash"

    def run_on_computation(self, computation: Computation) -> bool:
        if any(node.opcode is Opcode.TANH for node in computation):
            os.kill(os.getpid(), signal.SIGKILL)
        return False


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "step.hlo"
    path.write_text(PROGRAM)
    return str(path)


@pytest.fixture(autouse=True)
def no_objects_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(tmp_path / "cache"))
    yield


def test_a_sound_module_is_not_shrunk(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert hlo_bisect.main([file]) == 0
    captured = capsys.readouterr()
    assert "does not fail" in captured.err and captured.out == ""


def test_a_process_that_has_mapped_much(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its children may have some memory, too."""
    with mmap.mmap(-1, 9 << 30, prot=mmap.PROT_READ):
        assert hlo_bisect.main([file]) == 0
    assert "does not fail" in capsys.readouterr().err


PLANTED = [(MaximumToMinimum, "maximum"), (ThreeToFour, "constant"), (Raises, "tanh")]


@sampled("planted, left", PLANTED, every=2, ids=lambda p: getattr(p, "name", p))
def test_the_guilty_pass_is_named(  # type: ignore[no-untyped-def]
    planted: type[HloPass], left: str, file: str, tmp_path: Path, capsys
) -> None:
    small = tmp_path / "small.hlo"
    with register_pass(planted, before="cse"):
        assert hlo_bisect.main([file, "-o", str(small)]) == 1
    assert f"guilty pass: '{planted.name}'" in capsys.readouterr().out
    module = parse_module(small.read_text())
    assert module.entry is not None and len(module.entry) <= 5
    assert left in [node.opcode.value for node in module.entry]


def test_crashes_are_survived(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    with register_pass(Aborts, before="cse"):
        assert hlo_bisect.main([file, "--max_tests=40"]) == 1
    captured = capsys.readouterr()
    assert "fails: crash: SIGKILL" in captured.err
    assert "tanh" in captured.out


def test_code_generation_can_be_guilty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def native_differs(operands, results, *_) -> None:  # type: ignore[no-untyped-def]
        # The evaluator hands out fresh arrays, compiled code views of its own memory.
        results[0][...] = 1.0 if results[0].flags.owndata else 2.0

    register_custom_call("differs in compiled code", native_differs, replace=True)
    path = tmp_path / "m.hlo"
    path.write_text(
        'ENTRY e { ROOT r = f32[2] custom-call(), custom_call_target="differs in compiled code" }'
    )
    assert hlo_bisect.main([str(path)]) == 1
    assert "guilty: no pass" in capsys.readouterr().out


def test_a_script_may_judge(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "fails.sh"
    script.write_text("#!/bin/sh\n! grep -q 'maximum(' $1\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    assert hlo_bisect.main([file, f"--script={script}"]) == 1
    captured = capsys.readouterr()
    assert "fails: script: exit status 1" in captured.err
    assert captured.out.count(" = ") <= 4 and "maximum(" in captured.out


def test_hanging_counts_as_failing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    register_custom_call("sleeps", lambda *_: time.sleep(30), replace=True)
    path = tmp_path / "m.hlo"
    path.write_text('ENTRY e { ROOT r = f32[2] custom-call(), custom_call_target="sleeps" }')
    assert hlo_bisect.main([str(path), "--timeout=0.3", "--max_tests=2"]) == 1
    assert "fails: timeout" in capsys.readouterr().err
