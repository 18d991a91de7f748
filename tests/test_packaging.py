"""The package list in pyproject.toml is complete."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_every_package_is_listed() -> None:
    listed = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    )
    found = {"pyjax._config"}
    for top in ("pyjax", "xla_backend"):
        found |= {
            ".".join(p.parent.relative_to(ROOT).parts) for p in (ROOT / top).rglob("__init__.py")
        }
    assert listed == found


def test_version_is_the_same_everywhere() -> None:
    import pyjax

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert pyjax.__version__ == project["version"]


def test_importing_leaves_out_what_few_programs_need() -> None:
    """The import takes the time of what it loads."""
    ours = ("xla_backend.stablehlo.types", "xla_backend.hlo.evaluator", "pyjax.export")
    ours = (*ours, "xla_backend.runtime.processes.world")
    heavy = (*ours, "absl", "llvmlite", "numpy.ma", "opt_einsum", "scipy")
    program = f"import sys, pyjax.numpy; print([m for m in {heavy!r} if m in sys.modules])"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# A few more than there are: whoever adds many finds out what the import does with them.
_MOST_MODULES = 420


def test_importing_loads_no_more_modules_than_are_allowed() -> None:
    program = "import sys, pyjax.numpy; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    modules = [m for m in done.stdout.split() if m.partition(".")[0] in ("pyjax", "xla_backend")]
    assert 100 < len(modules) <= _MOST_MODULES
