"""The programs of `examples/` reach what they reach on JAX, where their libraries are installed.

Each runs unmodified in a process of its own, `python -m pyjax.as_jax examples/...`, in a small
size. The results to reach are those that the same programs, sizes and seeds have on JAX 0.10.2; how
far they may be off is what rounding does to that program.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples"


class Example(NamedTuple):
    """A program, the libraries that it needs, arguments that make it small, and its results."""

    program: str
    needs: tuple[str, ...]
    arguments: tuple[str, ...]
    results: dict[str, float]
    tolerance: float = 1e-3  # relative


EXAMPLES = [
    Example(
        "digits_cnn.py",
        ("flax", "optax", "sklearn"),
        ("--steps", "60"),
        {"loss": 0.371679, "accuracy": 0.927778},
        5e-3,
    ),
    Example("vae.py", ("equinox", "optax", "sklearn"), ("--steps", "60"), {"loss": 27.3842}),
    Example(
        "neural_ode.py",
        ("diffrax", "equinox", "optax"),
        ("--steps", "12", "--curves", "16"),
        {"loss": 1.7838},
    ),
    # Chains part with the first bit that differs; what they are drawn from does not.
    Example(
        "nuts_blackjax.py",
        ("blackjax",),
        ("--samples", "300", "--warmup", "200"),
        {"scale": 0.3252, "acceptance": 0.88},
        0.08,
    ),
    Example(
        "nuts_numpyro.py",
        ("numpyro",),
        ("--samples", "500", "--warmup", "300", "--steps", "500"),
        {"deviation_of_mean": 3.2, "loss_of_guide": 32.2587},
        0.08,
    ),
    Example(
        "gaussian_process.py",
        ("jaxopt",),
        ("--points", "60"),
        {"loss": -17.9546, "noise": 0.106426, "largest_error": 0.10415},
    ),
    Example(
        "solving.py",
        ("lineax", "optimistix"),
        (),
        {"mean_of_h": 1.51949, "slope_of_h": 1.82531, "rate": 1.70861},
    ),
    Example("language_model.py", ("haiku", "optax"), ("--steps", "30"), {"loss": 2.53278}),
    Example(
        "typed_attention.py",
        ("jaxtyping", "einops", "chex"),
        ("--steps", "40"),
        {"loss": 0.00145126},
        1e-2,
    ),
    Example(
        "flow.py",
        ("distrax", "haiku", "optax", "tensorflow_probability", "six"),
        ("--steps", "25"),
        {"loss": 1.72295},
    ),
    # The run that goes on from a checkpoint ends at the same bits.
    Example(
        "checkpoint.py",
        ("flax", "optax", "orbax", "tensorstore"),
        ("--steps", "60"),
        {"loss": 0.00379828, "difference": 0.0},
    ),
    Example(
        "array_api.py",
        ("sklearn",),
        ("--components", "10"),
        {"accuracy": 0.917084, "variance_kept": 0.738227, "squared_error": 0.0191965},
    ),
]
QUICK = ("typed_attention.py", "vae.py")


def _missing(example: Example) -> list[str]:
    return [name for name in example.needs if find_spec(name) is None]


def _parameters() -> list[object]:
    return [
        pytest.param(e, id=e.program, marks=[] if e.program in QUICK else [pytest.mark.slow])
        for e in EXAMPLES
    ]


@pytest.mark.parametrize("example", _parameters())
def test_example(example: Example) -> None:
    missing = _missing(example)
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: examples/README.md says how to install them")
    command = [sys.executable, "-m", "pyjax.as_jax", str(FOLDER / example.program)]
    done = subprocess.run(
        [*command, *example.arguments], capture_output=True, text=True, timeout=600, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    printed = dict(re.findall(r"^(\w+): (\S+)$", done.stdout, re.MULTILINE))
    got = {name: float(printed[name]) for name in example.results}
    assert got == pytest.approx(example.results, rel=example.tolerance)


def test_every_example_is_tested_and_told() -> None:
    programs = {p.name for p in FOLDER.glob("*.py")} - {"stopwatch.py"}
    assert programs == {e.program for e in EXAMPLES}
    for page in (FOLDER / "README.md", ROOT / "docs" / "examples.md"):
        text = page.read_text(encoding="utf-8")
        assert not [p for p in programs if p not in text]


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[=<>~;\[ ]", line)[0].lower() for line in requirements}


def test_the_two_lists_of_libraries_agree() -> None:
    """The extra names what the programs import; the list for `--no-deps` has that, and what that
    needs, and neither has JAX."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = set(project["optional-dependencies"]["examples"])
    lines = (FOLDER / "requirements.txt").read_text().splitlines()
    pinned = {line for line in lines if line and not line.startswith("#")}
    assert extra <= pinned
    assert not {"jax", "jaxlib"} & _names([*pinned])
    assert _names(["scikit-learn==1.9.1", "flax"]) == {"scikit-learn", "flax"}
