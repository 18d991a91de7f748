"""The stand-in offers what CuPy has, where that is installed: nothing else is used of it."""

from __future__ import annotations

import types
from typing import Any

import pytest

from tests.xla_backend.targets.gpu import fake_cupy
from tests.xla_backend.targets.gpu.fake_solvers import CUBLAS, CUSOLVER, names

# What the stand-in's classes have for the tests alone.
OWN = {
    "Device": set(),
    "Event": {"over", "stream"},
    "Graph": {"work"},
    "MemoryPointer": set(),
    "MemoryPool": {"free", "give_back", "limits", "used"},
    "PinnedMemoryPool": set(),
    "Stream": {"capture", "gpu", "put", "queue", "step"},
    "UnownedMemory": set(),
}

# They do not load where CUDA's own libraries are not installed.
LIBRARIES = {"cublas", "cufft", "cusolver"}


def public(thing: Any) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_every_name_is_cupys() -> None:
    cupy = pytest.importorskip("cupy")
    stand_in = fake_cupy.make_module()
    for name in public(stand_in) - {"cuda"}:
        assert hasattr(cupy, name), name
    for name in public(stand_in.cuda) - LIBRARIES:
        assert hasattr(cupy.cuda, name), name
        ours, theirs = getattr(stand_in.cuda, name), getattr(cupy.cuda, name)
        if isinstance(ours, types.FunctionType):
            continue
        missing = public(ours) - OWN.get(name, set()) - public(theirs)
        assert not missing, f"{name}: {missing}"


@pytest.mark.parametrize("library", ["cublas", "cusolver"])
def test_functions_of_libraries_have_cupys_parameters(library: str) -> None:
    """CuPy's functions say how many they take where they are called with none."""
    cupy = pytest.importorskip("cupy")
    try:
        theirs = getattr(cupy.cuda, library)
    except ImportError as error:
        pytest.skip(str(error))
    for name, count in names(CUBLAS if library == "cublas" else CUSOLVER).items():
        with pytest.raises(TypeError, match=rf"takes exactly {count} positional arguments"):
            getattr(theirs, name)()
    ours = getattr(fake_cupy.make_module().cuda, library)
    for name in public(ours):
        if name.isupper():
            assert getattr(theirs, name) == getattr(ours, name), name
