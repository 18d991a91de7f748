"""Maps of arrays for launches: what the driver is told, when, and what it may answer. It is a
stand-in, as CuPy is."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

from tests.xla_backend.targets.gpu import fake_cupy, fake_tensor_maps
from tests.xla_backend.targets.gpu.cuda_programs import compiled
from tests.xla_backend.targets.gpu.fake_cupy import FakeGpu
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.ir import BoxedArray
from xla_backend.kernels.library.group_product import GroupTiling
from xla_backend.targets.gpu import product_candidates, product_rules
from xla_backend.targets.gpu.cuda import tensor_maps
from xla_backend.targets.gpu.cuda.tensor_maps import ArrayMap
from xla_backend.targets.gpu.group_code import TensorMap

PRODUCTS = {
    "bf16": ("bf16[2,40,72]", "bf16[2,72,40]", "f32[2,40,40]", (2, 1)),
    "f16": ("f16[2,40,72]", "f16[2,72,40]", "f16[2,40,40]", (2, 1)),
    "tf32": ("f32[2,80,36]", "f32[2,80,36]", "f32[2,80,80]", (2, 2)),
    "s8": ("s8[2,40,48]", "s8[2,40,48]", "s32[2,40,40]", (2, 2)),
    "f8": ("f8e5m2[2,40,48]", "f8e4m3fn[2,40,48]", "f32[2,40,40]", (2, 2)),
}


def text_of(name: str) -> str:
    lhs, rhs, result, (left, right) = PRODUCTS[name]
    return f"""ENTRY e {{
      x = {lhs} parameter(0)  y = {rhs} parameter(1)
      ROOT r = {result} dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
        lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}
    }}"""


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[FakeGpu]:
    tiling = GroupTiling(64, 64, 1, stages=2)
    monkeypatch.setattr(product_candidates, "WORTH_GROUPS", 0)
    monkeypatch.setattr(product_rules, "fastest", lambda *_: tiling)
    return fake_cupy.install(monkeypatch)


def arguments(name: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    entry = parse_module(text_of(name)).entry
    assert entry is not None
    shapes = [p.shape for p in entry.parameters]
    return [rng.integers(-3, 4, s.dimensions).astype(s.element_type.numpy_dtype) for s in shapes]


@pytest.mark.parametrize("name", PRODUCTS)
def test_launches_have_maps_of_their_arrays(name: str, gpus: list[FakeGpu]) -> None:
    executable = compiled(text_of(name), architecture="sm_90a")
    (functions,) = executable.code.functions.values()
    assert len(functions[0].maps) == 2
    for _ in range(2):
        arrays = arguments(name)
        (got,) = executable.run_arrays(arrays)
        (wanted,) = evaluate(parse_module(text_of(name)), arrays)
        np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=1e-3)


MAP = TensorMap(0, P.BF16, BoxedArray((72, 40), (72,), (64, 64)))


def test_a_map_is_made_once_for_an_address(
    gpus: list[FakeGpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def counted(*arguments: Any) -> int:
        made.append(arguments[3])
        return fake_tensor_maps.encode(*arguments)

    library = types.SimpleNamespace(cuTensorMapEncodeTiled=counted)
    monkeypatch.setattr(tensor_maps, "_load", lambda name: library)
    found = ArrayMap(MAP)
    first = found.at(4096)
    assert found.at(4096) is first and found.at(8192) is not first
    assert made == [4096, 8192]
    # Old ones go; what a launch holds stays.
    for n in range(40):
        found.at(n * 16)
    assert found.at(4096) is not first and first.pointer % 64 == 0
    assert len(found._known) <= 16


def test_what_the_driver_refuses_is_said(gpus: list[FakeGpu]) -> None:
    with pytest.raises(
        RuntimeFailure, match=r"no tensor map \(error 1 .*of bf16 at 0x8 with sizes"
    ):
        ArrayMap(MAP).at(8)


def test_a_driver_that_is_too_old(gpus: list[FakeGpu], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_maps, "_load", lambda name: types.SimpleNamespace())
    with pytest.raises(RuntimeFailure, match=r"install a driver for CUDA 12\.0 or later"):
        ArrayMap(MAP).at(16)
