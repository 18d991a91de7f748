"""Options from pyjax.toml and pyproject.toml."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# The registry alone, in its folder, which needs nothing else; pyjax has it as `pyjax._config`.
ASK = "from config import config; print(config.explain('random_seed_offset'))"
ROOT = Path(__file__).resolve().parents[2]


def run_in(folder: Path, code: str = ASK, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "PYJAX_"))}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**clean, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def printed(folder: Path, code: str = ASK, **environment: str) -> str:
    done = run_in(folder, code, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("key", ["random_seed_offset", "jax_random_seed_offset"])
def test_own_file_and_its_source(tmp_path: Path, key: str) -> None:
    (tmp_path / "pyjax.toml").write_text(f"{key} = 7\n")
    where = f"({tmp_path}/pyjax.toml: {key})"
    assert printed(tmp_path) == f"jax_random_seed_offset = 7 {where}"


def test_the_environment_is_stronger(tmp_path: Path) -> None:
    (tmp_path / "pyjax.toml").write_text("random_seed_offset = 7\n")
    assert "= 8 (environment" in printed(tmp_path, JAX_RANDOM_SEED_OFFSET="8")


def test_nearest_file_upwards(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.pyjax]\nrandom_seed_offset = 1\n")
    assert "= 1 " in printed(inner)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'tool.pyjax'\n")
    assert "= 1 " in printed(inner)  # a project that says nothing of options does not hide one
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.pyjax]\nrandom_seed_offset = 2\n")
    assert "= 2 " in printed(inner)
    (tmp_path / "a" / "pyjax.toml").write_text("random_seed_offset = 3\n")
    assert "= 3 " in printed(inner)


@pytest.mark.parametrize(
    "content, problem",
    [
        ("enable_x64 = 'perhaps'", "bad value 'perhaps' for option jax_enable_x64 ({path}: enable"),
        ("enable_x64 = 3", "bad value 3 for option jax_enable_x64 ({path}: enable_x64)"),
        ("enable_x46 = true", "{path}: enable_x46: unrecognized config option: 'enable_x46'. Did"),
        ("[enable_x64]\na = 1", "bad value {{'a': 1}} for option jax_enable_x64 ({path}"),
        ("enable_x64 true", "cannot read the options of {path}: Expected '='"),
    ],
)
def test_mistakes_name_file_and_key(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "pyjax.toml").write_text(content)
    done = run_in(tmp_path)
    assert done.returncode != 0
    assert problem.format(path=tmp_path / "pyjax.toml") in done.stderr


def test_a_table_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool]\npyjax = 1\n# tool.pyjax\n")
    done = run_in(tmp_path)
    assert "tool.pyjax is 1; it must be a table of options" in done.stderr


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pyjax.toml")  # to open it would wait for ever
    done = run_in(tmp_path)
    assert "= 0 (default)" in done.stdout
    assert f"the options of {tmp_path}/pyjax.toml are not read: it is no regular" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_only_files_of_this_user_are_read(tmp_path: Path) -> None:
    for name, content in (
        ("pyjax.toml", "random_seed_offset = 7"),
        ("pyproject.toml", "[tool.pyjax]\nrandom_seed_offset = 7"),
    ):
        path = tmp_path / name
        path.write_text(content)
        os.chown(path, 12345, -1)
    done = run_in(tmp_path)
    assert "= 0 (default)" in done.stdout
    assert "pyjax.toml are not read: user 12345 owns it" in done.stderr
    assert "pyproject.toml" not in done.stderr


def test_without_a_file_nothing_is_loaded_for_it(tmp_path: Path) -> None:
    code = "import sys, config; print('tomllib' in sys.modules)"
    assert printed(tmp_path, code) == "False"
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert printed(tmp_path, code) == "False"
    (tmp_path / "pyproject.toml").write_text("[tool.pyjax]\n")
    assert printed(tmp_path, code) == "True"


def test_a_deleted_working_directory(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r}); {ASK}"
    assert "= 0 (default)" in printed(tmp_path, code)


def test_the_package_reads_it(tmp_path: Path) -> None:
    (tmp_path / "pyjax.toml").write_text("random_seed_offset = 7\n")
    code = "import pyjax; print(pyjax.random.key_data(pyjax.random.key(2)).tolist())"
    assert printed(tmp_path, code) == "[0, 9]"
