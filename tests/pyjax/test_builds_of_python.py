"""Builds of Python that native calls cannot work with: Python calls there, with the same results.

No such build is needed: what the library asks Python about its build is answered as it would be
there.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from pyjax.native import c_api
from tests.native_processes import run_with_native_calls

_FREE_THREADED = """
sys.abiflags = "t"
sys._is_gil_enabled = lambda: ENABLED
"""
BUILDS = {
    "free-threaded": _FREE_THREADED.replace("ENABLED", "False"),
    "free-threaded, with its lock": _FREE_THREADED.replace("ENABLED", "True"),
    "debug": "sys.gettotalrefcount = lambda: 0",
}
_PROGRAM = """
import types
import numpy as np
import pyjax
import pyjax.numpy as jnp
from pyjax.runtime.array import DeviceArray

x = jnp.arange(4.0)
f = pyjax.jit(lambda x, y: x * y + 1)
donating = pyjax.jit(lambda x: x + 1, donate_argnums=0)
for _ in range(4):
    assert f(x, x).tolist() == [1, 2, 5, 10] and (x + x).tolist() == [0, 2, 4, 6]
    assert x.T.tolist() == x[0:].tolist() == [0, 1, 2, 3]
    mine = x * 1
    assert donating(mine).tolist() == [1, 2, 3, 4] and mine.is_deleted()
    assert memoryview(x).tolist() == np.asarray(x).tolist() == [0, 1, 2, 3]
assert type(type(f).__call__) is type(DeviceArray.__add__) is types.FunctionType
assert "pyjax.native.entry_code" not in sys.modules
print("well")
"""


@pytest.mark.parametrize("build", BUILDS)
def test_calls_are_python_there(build: str, tmp_path: Path) -> None:
    done = run_with_native_calls(f"import sys\n{BUILDS[build]}\n{_PROGRAM}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "well\n" and not done.stderr


def _without_lock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sys, "abiflags", "t", raising=False)


def _without_lock_on_windows(patch: pytest.MonkeyPatch) -> None:
    asked = sysconfig.get_config_var
    patch.delattr(sys, "abiflags", raising=False)
    patch.setattr(
        sysconfig, "get_config_var", lambda name: name == "Py_GIL_DISABLED" or asked(name)
    )


def _with_totals(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sys, "gettotalrefcount", lambda: 0, raising=False)


def _with_longer_headers(patch: pytest.MonkeyPatch) -> None:
    """As objects of `--with-trace-refs` had before 3.13."""
    patch.setattr(c_api, "OBJECT_TYPE", 3 * ctypes.sizeof(ctypes.c_void_p))


def _with_half_words(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sys, "maxsize", 2**31 - 1)


def _another_one(patch: pytest.MonkeyPatch) -> None:
    other = type(sys.implementation)(**{**vars(sys.implementation), "name": "pypy"})
    patch.setattr(sys, "implementation", other)


@pytest.mark.parametrize(
    "build",
    [
        _without_lock,
        _without_lock_on_windows,
        _with_totals,
        _with_longer_headers,
        _with_half_words,
        _another_one,
    ],
)
def test_such_a_build_is_recognised(
    build: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = not sysconfig.get_config_var("Py_GIL_DISABLED") and not hasattr(sys, "gettotalrefcount")
    assert c_api.is_usable() == (usual and sys.implementation.name == "cpython")
    build(monkeypatch)
    assert not c_api.is_usable()
