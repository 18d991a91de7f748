"""Options as flags of programs that read their command lines with absl, argparse, click, pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyjax._config import config
from pyjax._config.registry import Source, all_options

# Programs import the registry from its folder, which needs nothing else.
ROOT = Path(__file__).resolve().parents[2]
ABSL = """
from absl import app, flags
from config import config
flags.DEFINE_integer("epochs", 1, "passes over the data")
config.config_with_absl()
def main(argv):
    print(flags.FLAGS.epochs, argv[1:], config.jax_random_seed_offset, config.jax_enable_x64)
if __name__ == "__main__":
    app.run(main)
"""
ARGPARSE = """
import argparse
from config import config
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("rest", nargs="*")
chosen = parser.parse_args(config.parse_known())
print(chosen.epochs, chosen.rest, config.jax_random_seed_offset, config.jax_enable_x64)
"""
CLICK = """
import click
from config import config
@click.command()
@click.option("--epochs", default=1)
@click.argument("rest", nargs=-1)
def main(epochs, rest):
    print(epochs, [*rest], config.jax_random_seed_offset, config.jax_enable_x64)
main(args=config.parse_known())
"""
PYTEST = """
import sys
import pytest
from config import config
class Shows:
    def pytest_addoption(self, parser):
        parser.addoption("--epochs", type=int)
    def pytest_sessionfinish(self, session):
        option = session.config.option
        rest = [word for word in option.file_or_dir]
        print(option.epochs, rest, config.jax_random_seed_offset, config.jax_enable_x64)
pytest.main(["-q", "-p", "no:cacheprovider", *config.parse_known()], plugins=[Shows()])
"""


def run_program(code: str, *argv: str, folder: Path) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "PYJAX_"))}
    program = folder / "program.py"
    program.write_text(code)
    return subprocess.run(
        [sys.executable, str(program), *argv],
        cwd=folder,
        env={**clean, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def restore() -> Iterator[None]:
    for name in ("jax_random_seed_offset", "jax_enable_x64"):
        all_options()[name].clear(
            Source.UPDATE
        )  # of another test: it would be stronger than a flag
    yield
    for option in all_options().values():
        option.clear(Source.FLAG)


@pytest.mark.parametrize(
    "code", [ABSL, ARGPARSE, CLICK, PYTEST], ids=["absl", "argparse", "click", "pytest"]
)
def test_mixed_with_flags_of_the_program(code: str, tmp_path: Path) -> None:
    argv = ("--jax_random_seed_offset=5", "--epochs=3", "--pyjax_enable_x64", "data")
    (tmp_path / "data").mkdir()
    done = run_program(code, *argv, folder=tmp_path)
    assert "3 ['data'] 5 True" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("code", [ABSL, ARGPARSE, CLICK], ids=["absl", "argparse", "click"])
def test_a_misspelt_flag_suggests_the_right_one(code: str, tmp_path: Path) -> None:
    done = run_program(code, "--jax_enable_x46", folder=tmp_path)
    assert done.returncode != 0
    assert "id you mean" in done.stderr and "jax_enable_x64" in done.stderr


@pytest.mark.parametrize("code", [ABSL, ARGPARSE, CLICK], ids=["absl", "argparse", "click"])
def test_a_bad_value_names_where_it_came_from(code: str, tmp_path: Path) -> None:
    done = run_program(code, "--jax_numpy_rank_promotion=maybe", folder=tmp_path)
    assert done.returncode != 0
    assert "flag --jax_numpy_rank_promotion=maybe" in done.stderr
    assert "one of 'allow', 'warn', 'raise'" in done.stderr


def test_absl_lists_every_option(tmp_path: Path) -> None:
    done = run_program(ABSL, "--helpfull", folder=tmp_path)
    for name in all_options():
        assert f"--{name}:" in done.stdout or f"--[no]{name}:" in done.stdout


@pytest.mark.parametrize(
    "argv, rest, offset, x64",
    [
        (["--jax_random_seed_offset=3", "a"], ["a"], 3, False),
        (["--jax_random_seed_offset", "3", "a"], ["a"], 3, False),
        (["--pyjax-random-seed-offset=3"], [], 3, False),
        (["--jax_enable_x64", "a"], ["a"], 0, True),
        (["--jax_enable_x64", "--nojax_enable_x64"], [], 0, False),
        (["--jax_enable_x64=yes", "-v", "--"], ["-v", "--"], 0, True),
        (["--", "--jax_enable_x64"], ["--", "--jax_enable_x64"], 0, False),
        (["--epochs", "3", "--no-cache"], ["--epochs", "3", "--no-cache"], 0, False),
        ([], [], 0, False),
    ],
)
def test_parse_known(
    argv: list[str], rest: list[str], offset: int, x64: bool, restore: None
) -> None:
    assert config.parse_known(argv) == rest
    assert (config.jax_random_seed_offset, config.jax_enable_x64) == (offset, x64)


def test_options_without_prefix(restore: None) -> None:
    with pytest.warns(UserWarning, match="jax2tf_default_native_serialization is set but"):
        assert config.parse_known(["--nojax2tf_default_native_serialization"]) == []
    assert config.jax2tf_default_native_serialization is False


def test_the_source_is_shown(restore: None) -> None:
    config.parse_known(["--jax_random_seed_offset", "3"])
    assert config.explain("random_seed_offset").endswith("(flag --jax_random_seed_offset 3)")


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--jax_enable_x46"], r"flag --jax_enable_x46\. Did you mean 'jax_enable_x64'"),
        (["--nojax_enable_x46"], r"flag --nojax_enable_x46\. Did you mean 'jax_enable_x64'"),
        (["--pyjax_enable_x46=1"], r"flag --pyjax_enable_x46=1\. Did you mean 'jax_enable_x64'"),
        (
            ["--nojax_random_seed_offset"],
            r"flag --nojax_random_seed_offset\. Did you mean 'jax_ran",
        ),
        (["--jax_random_seed_offset"], r"jax_random_seed_offset has no value \(flag --jax_random"),
        (["--jax_random_seed_offset=x"], r"bad value 'x' .*\(flag --jax_random_seed_offset=x\)"),
    ],
)
def test_mistakes(argv: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config.parse_known(["--jax_enable_x64", *argv])
    assert config.jax_enable_x64 is False or "bad value" in message
    all_options()["jax_enable_x64"].clear(Source.FLAG)
