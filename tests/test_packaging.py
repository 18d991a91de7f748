"""The package list in pyproject.toml is complete."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import pyjax

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


def test_wheels_have_what_was_compiled_ahead(monkeypatch) -> None:
    from xla_backend.persistent.settings import installed_directory

    monkeypatch.delenv("PYJAX_INSTALLED_DIR", raising=False)
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    directory = installed_directory()
    assert directory is not None
    place = Path(directory).relative_to(ROOT / "xla_backend")
    assert f"{place}/*.pack" in tool["package-data"]["xla_backend"]


def test_version_is_the_same_everywhere() -> None:
    import pyjax

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert pyjax.__version__ == project["version"]


def test_importing_leaves_out_what_few_programs_need() -> None:
    """The import takes the time of what it loads."""
    ours = ("xla_backend.stablehlo.types", "xla_backend.hlo.evaluator", "pyjax.export")
    ours = (*ours, "xla_backend.runtime.processes.world")
    heavy = (*ours, "absl", "llvmlite", "numpy.ma", "opt_einsum", "scipy")
    program = f"import sys, pyjax; pyjax.jit; print([m for m in {heavy!r} if m in sys.modules])"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def _ours(program: str) -> set[str]:
    """The modules of ours that a process has which runs a program."""
    command = [sys.executable, "-c", f"import sys; {program}; print(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {m for m in done.stdout.split() if m.partition(".")[0] in ("pyjax", "xla_backend")}


@pytest.mark.parametrize("name", ["pyjax", "pyjax.numpy"])
def test_importing_loads_options_only(name: str) -> None:
    """Functions, and NumPy, come with the first use of a name."""
    slow = ("numpy", "dataclasses", "inspect", "difflib", "textwrap", "tempfile", "logging")
    assert _absent(slow, f"import {name}")
    modules = _ours(f"import {name}")
    rooms = {".".join(m.split(".")[:2]) for m in modules}
    assert rooms <= {
        "pyjax", "pyjax._config", "pyjax.numpy", "pyjax.version", "xla_backend",
        "xla_backend.process",
    }  # fmt: skip
    assert len(modules) <= 30


def _absent(names: tuple[str, ...], program: str) -> bool:
    """Whether a program loads none of these modules. What the environment's own `.pth` files load
    does not count."""
    command = f"import sys; before = {{*sys.modules}}; {program}; print(*{{*sys.modules}} - before)"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    return not {*names} & {*done.stdout.split()}


# A few more than there are: whoever adds many finds out what the first use does with them.
_MOST_MODULES = 380


def test_the_first_use_loads_no_more_modules_than_are_allowed() -> None:
    assert 100 < len(_ours("import pyjax; pyjax.jit; pyjax.numpy.sin")) <= _MOST_MODULES


def test_names_are_there_however_packages_are_imported() -> None:
    """In processes of their own, which have nothing yet."""
    for program in (
        "from pyjax.numpy import *; assert sum(ones(3)) == 3 and fft.fft",
        "from pyjax import jit, grad; assert jit(grad(lambda x: x * x))(3.0) == 6",
        "import pyjax.numpy as jnp; assert {'sin', 'fft', 'ndarray'} <= {*dir(jnp)}",
        "import pyjax; assert {'jit', 'nn', 'explain', 'config'} <= {*dir(pyjax)}",
        "import pyjax; assert not hasattr(pyjax, 'jot') and not hasattr(pyjax.numpy, 'sine')",
        "from pyjax import *; assert jit(grad(lambda x: x * x))(3.0) == 6 and P and shard_map",
        # Names that come alone, before any other.
        "from pyjax import grad; assert grad(lambda x: x * x)(3.0) == 6",
        "from pyjax import vmap; from numpy import ones; assert vmap(sum)(ones((2, 3)))[1] == 3",
        "from pyjax import new_ref; r = new_ref(3.0); r[...] = 2.0; assert r[...] == 2",
        "import pyjax; assert pyjax.remat is vars(pyjax)['remat'] is pyjax.checkpoint",
        # Operators without a name of pyjax.numpy.
        "from pyjax import lax; x = lax.iota(int, 3); assert (x + x).sum() == 6 == len(x.T) * 2",
        "from pyjax import lax; x = lax.iota(int, 3); assert [*x] == [0, 1, 2] and x[2] == 2",
        "from pyjax import lax; x = lax.iota(int, 3); assert (3 - x).at[0].set(7).tolist()[0] == 7",
    ):
        subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_type_checkers_have_the_names_that_come_alone() -> None:
    """Each from the module that `pyjax` loads for it."""
    stub = ast.parse((ROOT / "pyjax" / "__init__.pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    declared = {alias.asname: str(node.module) for node in imports for alias in node.names}
    assert pyjax._ON_DEMAND.items() <= declared.items()
    assert not {*pyjax._ON_DEMAND} & {*vars(import_module("pyjax._public"))}


def test_what_few_programs_need_comes_alone() -> None:
    few = (
        "pyjax.parallel.shard_map",
        "pyjax.parallel.pmap",
        "pyjax.api.checkpoint",
        "pyjax.api.vjp",
    )
    assert _absent(few, "import pyjax; pyjax.jit(lambda x: x + 1)(1)")


def test_arrays_have_all_operators_that_are_declared() -> None:
    import pyjax.numpy as jnp

    later = {
        name
        for name, value in vars(jnp.ndarray).items()
        if getattr(getattr(value, "fget", value), "__module__", "") == "pyjax.core.array"
        and "_installed_first" in getattr(value, "fget", value).__qualname__
    }
    assert not later


def test_options_act_whose_listeners_are_not_loaded_yet() -> None:
    program = """
import logging, pyjax
pyjax.config.update("jax_logging_level", "ERROR")
assert logging.getLogger("pyjax").level == logging.ERROR
with pyjax.array_garbage_collection_guard("log"):
    import gc
    assert gc.callbacks
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
