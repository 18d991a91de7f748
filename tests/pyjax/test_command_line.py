"""python -m pyjax, pyjax: the sub-commands."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pyjax._config.registry import Source, all_options

import pyjax
from pyjax.tools import command_line
from xla_backend.targets.gpu.cuda import availability
from xla_backend.targets.gpu.cuda.driver import Driver, Gpu

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    for name in ("jax_enable_x64", "jax_random_seed_offset"):
        all_options()[name].clear(Source.UPDATE)  # of an earlier test: stronger than a flag
    yield
    for option in all_options().values():
        option.clear(Source.FLAG)


def test_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pyjax", "config", "enable_x64", "--jax_enable_x64"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
    )
    assert "jax_enable_x64 = True (flag --jax_enable_x64)" in done.stdout, done.stderr
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert entries["pyjax"] == "pyjax.tools.command_line:console"


def test_config_lists_every_option(capsys: Capture) -> None:
    assert command_line.main(["config"]) == 0
    out = capsys.readouterr().out
    for name in all_options():
        assert f"  {name} = " in out
    assert out.count("[pyjax only]") == sum(o.ours for o in all_options().values())


def test_config_search_names_and_changed(capsys: Capture) -> None:
    assert command_line.main(["config", "--search", "gumbel"]) == 0
    assert capsys.readouterr().out.count(" = ") == 1
    assert command_line.main(["config", "x64", "--search", "gumbel"]) == 1
    assert "unrecognized config option: 'x64'" in capsys.readouterr().err
    assert command_line.main(["config", "--changed", "--search", "gumbel"]) == 1
    assert "no option is like that" in capsys.readouterr().err
    assert command_line.main(["config", "--changed", "--jax_random_seed_offset=2"]) == 0
    assert "jax_random_seed_offset = 2 (flag" in capsys.readouterr().out
    assert command_line.main(["config", "--ours"]) == 0
    assert "jax_cpu_memory_limit" in capsys.readouterr().out


def test_config_as_the_page(capsys: Capture) -> None:
    assert command_line.main(["config", "--markdown"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs" / "options.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [["--jax_enable_x46", "doctor"], ["config", "--jax_enable_x46"]])
def test_misspelt_flags_are_usage_errors(words: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as end:
        command_line.main(words)
    assert end.value.code == 2
    assert "Did you mean 'jax_enable_x64'?" in capsys.readouterr().err


def test_doctor(capsys: Capture) -> None:
    assert command_line.main(["doctor"]) == 0
    out = capsys.readouterr().out
    for word in ("pyjax ", "numpy ", "llvmlite ", "threads ", "cache ", ": computes", "options:"):
        assert word in out


def test_doctor_finds_a_device_that_does_not_compute(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyjax.tools.commands import doctor

    def fails(*_: object) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(doctor, "device_put", fails)
    assert command_line.main(["doctor"]) == 1
    assert "RuntimeError: out of order" in capsys.readouterr().out


NO_GPU = Driver((12, 4), (), "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected")
SOME_GPU = Driver((12, 4), (Gpu("NVIDIA H200", (9, 0)),), "")


@pytest.mark.parametrize(
    "driver, words",
    [
        (Driver(None, (), "libcuda.so.1 is not found"), "none (libcuda.so.1 is not found)"),
        (NO_GPU, "not usable: the NVIDIA driver finds no GPU (CUDA_ERROR_NO_DEVICE"),
        (SOME_GPU, "0: NVIDIA H200, sm_90"),
        (SOME_GPU, "runs CUDA 12.4"),
        (SOME_GPU, 'not usable: CuPy is not installed: pip install "pyjax[cuda12]"'),
        (SOME_GPU, "not installed"),
        (SOME_GPU, "ptxas       "),
    ],
)
def test_doctor_says_what_gpus_lack(
    driver: Driver, words: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(availability, "find_driver", lambda: driver)
    monkeypatch.setattr(availability, "cupy_is_installed", lambda: False)
    monkeypatch.setattr(availability, "cupy_distribution", lambda: None)
    assert command_line.main(["doctor"]) == 0
    assert words in capsys.readouterr().out


SCRIPT = """
import sys
import jax
import jax.numpy as jnp
from jax.tree_util import tree_map
from jax import lax, random
print(sys.argv[1:], __name__, jax.jit(lambda x: x + 1)(jnp.arange(3)), tree_map(len, {"a": "bc"}))
print(jax.__name__, lax.add(1, 2), random.key(0).shape)
"""


def test_run_gives_pyjax_to_programs_for_jax(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "program.py"
    path.write_text(SCRIPT)
    assert command_line.main(["run", str(path), "--epochs", "--jax_abacus"]) == 0
    out = capsys.readouterr().out
    assert "['--epochs', '--jax_abacus'] __main__ [1 2 3] {'a': 2}" in out
    assert "jax 3 ()" in out
    assert "jax" not in sys.modules


def test_run_takes_options_before_the_script(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "program.py"
    path.write_text("import jax; print(jax.numpy.arange(3).dtype)")
    assert command_line.main(["run", "--jax_enable_x64", str(path)]) == 0
    assert capsys.readouterr().out == "int64\n"


def test_run_a_module(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_program.py").write_text("import jax, sys; print(jax.__name__, sys.argv[1:])")
    monkeypatch.chdir(tmp_path)
    assert command_line.main(["run", "-m", "some_program", "x"]) == 0
    assert capsys.readouterr().out == "jax ['x']\n"


def test_explain_writes_a_page(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "functions.py"
    path.write_text("import pyjax.numpy as jnp\ndef f(x, y):\n    return (jnp.sin(x) + y).sum()\n")
    out = tmp_path / "page.html"
    words = ["explain", f"{path}:f", "float32[3,2]", "int32[]", "-o", str(out)]
    assert command_line.main(words) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert "reduce_fusion" in out.read_text()


@pytest.mark.parametrize(
    "words, message",
    [
        (["f"], "'f' names no function: write FILE:FUNCTION"),
        (["{path}:g"], "has no function 'g'"),
        (["{path}:f", "float33[2]"], "'float33[2]' is no argument: write one as float32[8,3]"),
        (["{path}x:f"], "No such file"),
    ],
)
def test_explain_mistakes(words: list[str], message: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "functions.py"
    path.write_text("def f(x):\n    return x\n")
    assert command_line.main(["explain", *[w.format(path=path) for w in words]]) == 1
    assert message in capsys.readouterr().err


def test_cache(tmp_path: Path, capsys: Capture) -> None:
    def printed(*words: str) -> str:
        assert command_line.main([*words]) == 0
        return capsys.readouterr().out

    before = all_options()["jax_compilation_cache_dir"].value
    pyjax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        pyjax.clear_caches()
        pyjax.jit(lambda x: x @ x.T)(np.ones((2, 3)))
        status = printed("cache")
        assert f"directory: {tmp_path}" in status
        entries = int(re.search(r"entries: (\d+)", status)[1])  # type: ignore[index]
        assert entries >= 1
        assert printed("cache", "clear") == f"removed {entries} entries\n"
        assert "entries: 0" in printed("cache", "status")
    finally:
        pyjax.config.update("jax_compilation_cache_dir", before)
