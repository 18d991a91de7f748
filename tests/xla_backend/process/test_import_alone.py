"""Compiled modules are loaded without their packages, which can be imported before and after."""

from __future__ import annotations

import subprocess
import sys

import pytest

LAPACK = "scipy.linalg.cython_lapack"
FIRST = f"""
import sys
from xla_backend.process.on_first_use import import_alone
alone = import_alone("{LAPACK}")
assert alone is import_alone("{LAPACK}") and "dgetrf" in alone.__pyx_capi__
"""
IN_PACKAGE = f"""
import {LAPACK}
assert {LAPACK}.__pyx_capi__["dgetrf"] is not None
import scipy.linalg, numpy as np
assert np.array_equal(scipy.linalg.inv(np.eye(3)), np.eye(3))
"""


def run(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_package_is_not_imported():
    run(f"{FIRST}assert 'scipy.linalg' not in sys.modules and '{LAPACK}' not in sys.modules")


@pytest.mark.parametrize("order", [(FIRST, IN_PACKAGE), (IN_PACKAGE, FIRST)])
def test_the_package_finds_it_as_its_own(order):
    run("".join([*order, f"assert alone.__pyx_capi__ == {LAPACK}.__pyx_capi__"]))


def test_what_is_no_compiled_module_comes_with_its_package():
    run(
        "import sys; from xla_backend.process.on_first_use import import_alone\n"
        "module = import_alone('scipy.linalg.lapack')\n"
        "assert module is sys.modules['scipy.linalg.lapack'] and 'scipy.linalg' in sys.modules"
    )
