"""The main job: it learns, writes its figure, and runs through generated machine code only."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pyjax
from pyjax.tools import demo
from xla_backend.hlo import evaluator
from xla_backend.hlo.evaluator import interpreter

ROOT = Path(__file__).resolve().parent.parent


def run_demo(tmp_path: Path, *flags: str, timeout: float = 300, **environment: str) -> str:
    figure = tmp_path / "figure.png"
    result = subprocess.run(
        [sys.executable, "-m", "pyjax.tools.demo", f"--figure={figure}", *flags],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert result.returncode == 0, result.stderr
    assert figure.read_bytes().startswith(b"\x89PNG")
    return result.stdout


def test_demo_reaches_its_accuracy_and_shows_every_stage(tmp_path: Path) -> None:
    out = run_demo(tmp_path)
    accuracy = re.search(r"^test accuracy: (\d\.\d\d)$", out, re.MULTILINE)
    assert accuracy is not None and float(accuracy[1]) >= 0.96
    for expected in (
        "{ lambda ; ",
        "HloModule jit_loss, is_scheduled=true",
        "fusion(",
        "for i",
        "first step (trace, compile, run):",
        "time per step:",
        "the same step in NumPy:",
    ):
        assert expected in out


@pytest.mark.slow
def test_demo_learns_on_an_emulated_gpu(tmp_path: Path) -> None:
    """On few epochs: threads, shared memory and barriers of every kernel are checked."""
    out = run_demo(tmp_path, "--jax_platforms=gpu_emulator", timeout=1200)
    accuracy = re.search(r"^test accuracy: (\d\.\d\d)$", out, re.MULTILINE)
    assert accuracy is not None and float(accuracy[1]) >= 0.96
    for expected in ("epochs: 12, learning rate: 0.5", "in grid(", "in threads(", "gpu_emulator:0"):
        assert expected in out


@pytest.mark.parametrize(
    "flags, environment",
    [
        pytest.param(["--jax_enable_x64=true"], {}, id="flag"),
        pytest.param([], {"PYJAX_ENABLE_X64": "1"}, id="environment", marks=pytest.mark.slow),
    ],
)
def test_options_work_on_the_demo(
    tmp_path: Path, flags: list[str], environment: dict[str, str]
) -> None:
    out = run_demo(tmp_path, "--epochs=2", *flags, **environment)
    assert "parameters: float64" in out


def test_bad_flags_are_clear(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pyjax.tools.demo", "--jax_numpy_rank_promotion=sometimes"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode != 0
    assert (
        "jax_numpy_rank_promotion" in result.stderr and "'allow', 'warn', 'raise'" in result.stderr
    )


@pytest.fixture
def batch() -> tuple[demo.Params, np.ndarray, np.ndarray]:
    x, y, _, _ = demo.load_digits()
    return demo.init_params(pyjax.random.key(0), 32), x[:64], y[:64]


def test_dump_of_the_step_shows_generated_code(tmp_path: Path, batch) -> None:
    params, x, y = batch
    lowered = demo.train_step.lower(params, x, y, 0.1)
    compiled = lowered.compile({"xla_dump_to": str(tmp_path)})
    files = {re.sub(r"^module_\d+\.jit_train_step\.", "", p.name): p for p in tmp_path.iterdir()}
    before = files["before_optimizations.txt"].read_text()
    after = files["cpu_after_optimizations.txt"].read_text()
    assert "fusion(" not in before and after.count(" fusion(") >= 5
    assert re.search(r'\n\d+ "[^"]*pyjax/tools/demo.py"', after)  # operations know the user's line

    def texts(pattern: str) -> str:
        return "\n".join(p.read_text() for n, p in files.items() if re.fullmatch(pattern, n))

    llvm = texts(r"part_\d+\.ir-no-opt\.ll")
    assert len(re.findall(r"^define [^\n]*@entry\(", llvm, re.MULTILINE)) == 1
    assert re.search(r"<\d+ x float>", llvm)
    objects = [p for n, p in files.items() if re.fullmatch(r"obj-file\.part_\d+\.o", n)]
    assert objects and all(p.stat().st_size > 500 for p in objects)
    assert "for i" in texts(r".*\.loop-ir\.txt")
    new, value = compiled(params, x, y, 0.1)
    expected, expected_value = demo.train_step(params, x, y, 0.1)
    assert float(value) == float(expected_value)
    np.testing.assert_array_equal(new["w1"], expected["w1"])


def test_the_evaluator_is_not_called(monkeypatch: pytest.MonkeyPatch, batch) -> None:
    params, x, y = batch

    def forbidden(*args: object, **kwargs: object) -> None:
        raise AssertionError("the evaluator ran behind jit")

    pyjax.block_until_ready(demo.train_step(params, x, y, 0.1))  # compiled: folding is over
    for module in (evaluator, interpreter):
        for name in ("evaluate", "evaluate_computation"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, forbidden)
    new, value = demo.train_step(params, x, y, 0.1)
    assert np.isfinite(float(value)) and not np.array_equal(new["w1"], params["w1"])


def test_step_agrees_with_numpy(batch) -> None:
    params, x, y = batch
    ours, value = demo.train_step(params, x, y, 0.1)
    theirs, expected = demo.numpy_step({k: np.asarray(v) for k, v in params.items()}, x, y, 0.1)
    assert abs(float(value) - expected) < 1e-5
    for name, array in theirs.items():
        np.testing.assert_allclose(ours[name], array, rtol=1e-4, atol=1e-6)
