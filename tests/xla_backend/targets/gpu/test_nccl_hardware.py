"""Programs over real GPUs, by NCCL: `pytest -m gpu`, where there are two or more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.sharding import Mesh, NamedSharding, PartitionSpec
from tests.xla_backend.collective_modules import SUM, module_of, with_groups
from tests.xla_backend.targets.cpu.native_checks import arguments_of, assert_close
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate_partitioned
from xla_backend.hlo.module import HloModule
from xla_backend.targets.gpu.cuda import availability
from xla_backend.targets.gpu.cuda.client import CudaClient
from xla_backend.targets.gpu.cuda.driver import find_driver

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not availability.is_usable(), reason="no GPU, driver or CuPy"),
    pytest.mark.skipif(len(find_driver().gpus) < 2, reason="less than two GPUs"),
]


@pytest.fixture(scope="module")
def client() -> CudaClient:
    return CudaClient()


def check(client: CudaClient, module: HloModule) -> None:
    given = [arguments_of(module, seed) for seed in range(2)]
    want = evaluate_partitioned(module.clone(), given)
    executable = client.compile(module, CompileOptions(verify=True))
    for _ in range(3):
        got = executable.run_arrays_together(given, client.devices()[:2])
        for mine, theirs in zip(got, want, strict=True):
            for g, w, shape in zip(mine, theirs, executable.output_shapes, strict=True):
                assert_close(g, w, shape.element_type)


@pytest.mark.parametrize("type", ["f32", "bf16", "f16", "f64", "s8", "s16", "u64", "pred", "c64"])
@pytest.mark.parametrize(
    "line",
    [
        "TYPE[4,8] all-reduce(x), to_apply=sum",
        "TYPE[4,PART] reduce-scatter(x), dimensions={1}, to_apply=sum",
        "TYPE[4,ALL] all-gather(x), dimensions={1}",
    ],
)
def test_joining(client: CudaClient, line: str, type: str) -> None:
    check(client, with_groups("replica_groups={{1,0}}", 2, 1, line, type))


def test_largest(client: CudaClient) -> None:
    line = "TYPE[4,8] all-reduce(x), to_apply=sum"
    check(client, with_groups("replica_groups={}", 2, 1, line, "f32", "maximum"))


@pytest.mark.parametrize(
    "line",
    [
        "f32[4,8] all-to-all(x), replica_groups={{1,0}}, dimensions={1}",
        "f32[4,8] all-to-all(x), replica_groups={}, dimensions={0}",
        "f32[4,8] collective-broadcast(x), replica_groups={{1,0}}",
        "f32[4,8] collective-permute(x), source_target_pairs={{0,1},{1,0}}",
        "f32[4,8] collective-permute(x), source_target_pairs={{0,1}}",
    ],
)
def test_moving(client: CudaClient, line: str) -> None:
    check(client, module_of(f"x = f32[4,8] parameter(0)\nROOT r = {line}", 2, 1, "f32", SUM))


def test_a_step_of_training() -> None:
    """Data in parts, weights everywhere: as on one GPU."""
    devices = np.array(pyjax.devices("gpu")[:2])
    mesh = Mesh(devices, ("data",))
    x = np.random.default_rng(0).normal(size=(512, 64)).astype(np.float32)
    w = np.random.default_rng(1).normal(size=(64, 16)).astype(np.float32) / 8

    def loss(w: Any, x: Any) -> Any:
        return (jnp.tanh(x @ w) ** 2).mean()

    whole = pyjax.jit(pyjax.grad(loss))(w, x)
    parts = pyjax.device_put(x, NamedSharding(mesh, PartitionSpec("data")))
    same = pyjax.device_put(w, NamedSharding(mesh, PartitionSpec()))
    np.testing.assert_allclose(
        pyjax.jit(pyjax.grad(loss))(same, parts), whole, rtol=1e-3, atol=1e-6
    )
    total = pyjax.pmap(lambda x: lax.psum(x, "i"), "i", devices=list(devices))(x[:2])
    np.testing.assert_allclose(total[1], x[0] + x[1], rtol=1e-6)
