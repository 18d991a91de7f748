# ruff: noqa: E501
"""Programs whose arguments and results are sums over mesh axes still to be made, as JAX prints them."""

from __future__ import annotations

import numpy as np
import pytest

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.evaluator import evaluate_partitioned
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module as parse_hlo
from xla_backend.hlo.verifier import verify
from xla_backend.spmd.pipeline import prepare_and_partition
from xla_backend.stablehlo.from_hlo import module_from_hlo
from xla_backend.stablehlo.parser import parse_module
from xla_backend.stablehlo.printer import module_to_text
from xla_backend.stablehlo.to_hlo import module_to_hlo
from xla_backend.targets.cpu.client import CpuClient

HEAD = """\
module @jit_f attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
"""
# An argument and results along other axes, one of them made, and a number.
MIXED = """\
  func.func public @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}], unreduced={"y"}>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"y"}>}, tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}, tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, [], unreduced={"x"}>}) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<8x8xf32>
    %cst = stablehlo.constant dense<3.0> : tensor<f32>
    return %0, %0, %cst : tensor<8x8xf32>, tensor<8x8xf32>, tensor<f32>
  }
}
"""
# The text of jax.jit(lambda v: v + v) of an array that is unreduced along y.
DOUBLED = """\
  func.func public @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"y"}>}) -> (tensor<8x8xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"y"}>}) {
    %0 = stablehlo.add %arg0, %arg0 : tensor<8x8xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {}], unreduced={"y"}> : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}
"""
PASSED_ON = """\
  func.func public @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x", "y"}>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}], unreduced={"y"}>}) {
    return %arg0 : tensor<8x8xf32>
  }
}
"""


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-8, 9, shape).astype(np.float32)


def run_both(module: HloModule, given: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    """What each device gives, in the evaluator and as machine code."""
    done = module.clone()
    partition = prepare_and_partition(done)
    assert partition is not None
    verify(done)
    wanted = evaluate_partitioned(done, given)
    compiled, *_ = CpuClient().compile_partitioned(module.clone(), CompileOptions())
    for one, other in zip(wanted, compiled.run_arrays_together(given), strict=True):
        for x, y in zip(one, other, strict=True):
            np.testing.assert_array_equal(x, y)
    return wanted


def test_sums_come_and_go() -> None:
    summands, whole = random(2, 4, 4, 8), random(8, 8)
    given = [[summands[d // 4, d % 4], whole[4 * (d // 4) :][:4]] for d in range(8)]
    found = run_both(module_to_hlo(parse_module(HEAD + MIXED)), given)
    want = np.concatenate([*summands.sum(1)]) + whole
    for x in range(2):
        np.testing.assert_array_equal(sum(found[4 * x + y][0] for y in range(4)), want)
    for device in range(8):
        np.testing.assert_array_equal(found[device][1], want[2 * (device % 4) :][:2])
    assert [found[y][2] + found[4 + y][2] for y in range(4)] == [3] * 4


def test_along_one_axis_and_along_both() -> None:
    summands = random(8, 8, 8)
    found = run_both(module_to_hlo(parse_module(HEAD + DOUBLED)), [[s] for s in summands])
    for row in (slice(0, 4), slice(4, 8)):
        total = sum(out for (out,) in found[row])
        np.testing.assert_array_equal(total, 2 * summands[row].sum(0))
    found = run_both(module_to_hlo(parse_module(HEAD + PASSED_ON)), [[s] for s in summands])
    parts = [sum(out for (out,) in found[row]) for row in (slice(0, 4), slice(4, 8))]
    np.testing.assert_array_equal(np.concatenate(parts), summands.sum(0))


@pytest.mark.parametrize("text", [MIXED, DOUBLED, PASSED_ON])
def test_texts_keep_what_they_say(text: str) -> None:
    once = module_to_text(module_from_hlo(module_to_hlo(parse_module(HEAD + text))))
    assert once.count("unreduced=") >= 2 and "custom_call" not in once
    assert module_to_text(module_from_hlo(module_to_hlo(parse_module(once)))) == once


def test_hlo_says_it_itself() -> None:
    text = """HloModule m, num_partitions=8

    ENTRY main {
      ROOT p = f32[4] parameter(0), sharding={mesh['x'=2,'y'=4], [{}], unreduced={'x'}}
    }"""
    summands = random(8, 4)
    found = run_both(parse_hlo(text), [[s] for s in summands])
    for device, (out,) in enumerate(found):
        np.testing.assert_array_equal(out, summands[device % 4] + summands[device % 4 + 4])


def test_roots_that_are_no_constraint_say_what_to_do() -> None:
    text = """HloModule m, num_partitions=8

    ENTRY main {
      p = f32[4] parameter(0)
      ROOT r = f32[4] negate(p), sharding={mesh['x'=2,'y'=4], [{}], unreduced={'x'}}
    }"""
    with pytest.raises(UnimplementedError, match=r"cannot be unreduced.*reduce them first"):
        prepare_and_partition(parse_hlo(text))
