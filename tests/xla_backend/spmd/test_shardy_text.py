# ruff: noqa: E501
"""StableHLO with Shardy's annotations, as JAX 0.10 prints it: text, HLO, partitioned, values."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from pass_checks import STYLE, match_checks

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.evaluator import evaluate_partitioned
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.printer import module_to_text as hlo_text
from xla_backend.hlo.verifier import verify
from xla_backend.spmd.annotations import Annotations
from xla_backend.spmd.pipeline import prepare_and_partition
from xla_backend.stablehlo.from_hlo import module_from_hlo
from xla_backend.stablehlo.lowering import ConversionError
from xla_backend.stablehlo.parser import parse_module
from xla_backend.stablehlo.printer import module_to_text
from xla_backend.stablehlo.to_hlo import module_to_hlo
from xla_backend.targets.cpu.client import CpuClient
from xla_backend.tools.fuzz.partitioned_checks import place_of

HEAD = """\
module @jit_f attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4]> {stablehlo.mesh = {axes = [{name = "x", size = 2 : i64}, {name = "y", size = 4 : i64}]}}
"""


class Program(NamedTuple):
    """A text behind HEAD, what it computes, what its HLO and the program of a device have."""

    text: str
    oracle: Callable[..., tuple[np.ndarray, ...]]
    converted: str
    partitioned: str


PROGRAMS = {
    "constraints": Program(
        """\
  func.func public @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %arg1: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> (tensor<8x4xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {}]> : tensor<8x4xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{"x", "y"}, {?}]> : tensor<8x4xf32>
    %3 = stablehlo.negate %2 : tensor<8x4xf32>
    return %3 : tensor<8x4xf32>
  }
}
""",
        lambda a, b: (-(a @ b),),
        """
        // CHECK: f32[8,4] custom-call(%{{.*}}), custom_call_target="Sharding", {{.*}}[{\\22x\\22, \\22y\\22}, {?}]
        // CHECK: ROOT {{.*}}custom_call_target="Sharding", {{.*}}[{\\22x\\22}, {}]
        """,
        """
        // CHECK: f32[4,4] dot(
        // CHECK: all-reduce({{.*}}{0,1,2,3},{4,5,6,7}
        // CHECK: f32[1,4] negate(
        // CHECK: ROOT %{{.*}} = f32[4,4] all-gather(
        """,
    ),
    "shard_map": Program(
        """\
  func.func public @main(%arg0: tensor<8x16xf32>) -> (tensor<8x4xf32> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x", "y"} (%arg1: tensor<4x4xf32>) {
      %1 = "stablehlo.all_reduce"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
        %8 = stablehlo.add %arg2, %arg3 : tensor<f32>
        stablehlo.return %8 : tensor<f32>
      }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %c = stablehlo.constant dense<4> : tensor<ui32>
      %2 = stablehlo.partition_id : tensor<ui32>
      %3 = stablehlo.divide %2, %c : tensor<ui32>
      %4 = stablehlo.convert %3 : (tensor<ui32>) -> tensor<i32>
      %5 = stablehlo.convert %4 : (tensor<i32>) -> tensor<f32>
      %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
      %7 = stablehlo.add %1, %6 : tensor<4x4xf32>
      sdy.return %7 : tensor<4x4xf32>
    } : (tensor<8x16xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}
""",
        lambda a: (a.reshape(8, 4, 4).sum(1) + np.repeat([[0.0], [1.0]], 4, 0),),
        """
        // CHECK: f32[4,4] custom-call(%{{.*}}), custom_call_target="xla.sdy.GlobalToLocalShape"
        // CHECK: f32[4,4] call({{.*}}to_apply=%manual_computation
        // CHECK: f32[8,4] custom-call(%{{.*}}), custom_call_target="xla.sdy.LocalToGlobalShape"
        """,
        """
        // CHECK: f32[4,4] all-reduce(
        // CHECK: ROOT %{{.*}} = f32[4,4] add(
        """,
    ),
    "shard_map over one axis": Program(
        """\
  func.func public @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x4xf32> {jax.result_info = "result[0]"}, tensor<8x16xf32> {jax.result_info = "result[1]"}) {
    %0:2 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{?}, {"y", ?}]>] out_shardings=[<@mesh, [{?}, {?}]>, <@mesh, [{?}, {"y", ?}]>] manual_axes={"y"} (%arg1: tensor<8x4xf32>) {
      %1 = sdy.sharding_constraint %arg1 <@mesh, [{?}, {?}]> : tensor<8x4xf32>
      %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
        %4 = stablehlo.add %arg2, %arg3 : tensor<f32>
        %5 = sdy.sharding_constraint %4 <@mesh, []> : tensor<f32>
        stablehlo.return %5 : tensor<f32>
      }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
      %3 = stablehlo.add %arg1, %2 : tensor<8x4xf32>
      sdy.return %2, %3 : tensor<8x4xf32>, tensor<8x4xf32>
    } : (tensor<8x16xf32>) -> (tensor<8x4xf32>, tensor<8x16xf32>)
    return %0#0, %0#1 : tensor<8x4xf32>, tensor<8x16xf32>
  }
}
""",
        lambda a: (s := a.reshape(8, 4, 4).sum(1), a + np.tile(s, 4)),
        '// CHECK: (f32[8,4], f32[8,16]) custom-call({{.*}}"xla.sdy.LocalToGlobalShape"',
        "// CHECK: f32[4,4] all-reduce(",
    ),
    "a function with shardings": Program(
        """\
  func.func public @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %arg1: tensor<16x4xf32>) -> (tensor<8x16xf32> {jax.result_info = "result[0]", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<f32> {jax.result_info = "result[1]"}) {
    %0 = call @"<lambda>"(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%arg1 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<16x4xf32>, tensor<f32>) -> tensor<f32>
    return %0, %1 : tensor<8x16xf32>, tensor<f32>
  }
  func.func private @"<lambda>"(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{"y"}, {}]> : tensor<8x16xf32>
    %1 = stablehlo.add %0, %0 : tensor<8x16xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{"x"}, {}]> : tensor<8x16xf32>
    return %2 : tensor<8x16xf32>
  }
}
""",
        lambda a, b: (2 * a, b.sum()),
        '// CHECK: call(\n// CHECK: custom-call({{.*}}"Sharding", {{.*}}[{}, {}]',
        "// CHECK: f32[2,16] add(\n// CHECK: all-gather(\n// CHECK: ROOT {{.*}} = (f32[8,16], f32[])",
    ),
    "unreduced in between": Program(
        """\
  func.func public @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %arg1: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> (tensor<8x4xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {}], unreduced={"y"}> : tensor<8x4xf32>
    %2 = sdy.reshard %1 <@mesh, [{"x"}, {}]> : tensor<8x4xf32>
    return %2 : tensor<8x4xf32>
  }
}
""",
        lambda a, b: (a @ b,),
        "// CHECK: unreduced={\\22y\\22}",
        "// CHECK: dot(\n// CHECK-NEXT: ROOT {{.*}}all-reduce(",
    ),
    "arguments in parts of axes": Program(
        """\
  func.func public @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y":(1)2, "x"}, {"y":(2)2}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y":(2)2}, {}]>}) {
    %0 = stablehlo.add %arg0, %arg0 : tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
}
""",
        lambda a: (2 * a,),
        "// CHECK: {\\22y\\22:(1)2, \\22x\\22}, {\\22y\\22:(2)2}",
        "// CHECK: f32[2,8] parameter(0)\n// CHECK: ROOT {{.*}} = f32[4,16]",
    ),
    "priorities, parts of axes, barriers, groups, other meshes": Program(
        """\
  sdy.mesh @empty_mesh = <[]>
  func.func public @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}p1, {"x"}p0], replicated={"y"}>}, %arg1: tensor<4xf32> {sdy.sharding = #sdy.sharding<@empty_mesh, [{}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}, tensor<4xf32>) {
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{"y":(1)2}, {"x"}]> : tensor<8x16xf32>
    %1 = stablehlo.add %0, %0 : tensor<8x16xf32>
    %2 = sdy.propagation_barrier %1 allowed_direction=BACKWARD : tensor<8x16xf32>
    sdy.sharding_group %arg0 group_id=3 : tensor<8x16xf32>
    sdy.sharding_group %2 group_id=3 : tensor<8x16xf32>
    return %2, %arg1 : tensor<8x16xf32>, tensor<4xf32>
  }
}
""",
        lambda a, b: (2 * a, b),
        "// CHECK: [{?}p1, {\\22x\\22}p0], replicated={\\22y\\22}",
        "// CHECK: f32[{{2|4}},8] add(",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_reads_and_prints_both_ways(name: str) -> None:
    text = HEAD + PROGRAMS[name].text
    module = parse_module(text)
    assert module_to_text(module) == text
    assert module_to_text(parse_module(module_to_text(module, generic=True))) == text


def _check_values(
    module: HloModule,
    oracle: Callable[..., tuple[np.ndarray, ...]],
    run: Callable[..., list[list[np.ndarray]]] = evaluate_partitioned,
) -> HloModule:
    """The partitioned program, which gives the parts of what the oracle gives."""
    rng = np.random.default_rng(0)
    assert module.entry is not None
    given = [
        rng.integers(-8, 9, p.shape.dimensions).astype(np.float32) for p in module.entry.parameters
    ]
    want = oracle(*given)
    done = module.clone()
    partition = prepare_and_partition(done)
    assert partition is not None
    verify(done)
    read = Annotations([*partition.parameters, *partition.results], module.num_partitions)

    def parts(arrays, shardings, shapes, device):  # type: ignore[no-untyped-def]
        specs = [read.spec(own, shape) for own, shape in zip(shardings, shapes, strict=True)]
        return [
            np.asarray(x)[place_of(s, read.mesh, device, np.shape(x))]
            for x, s in zip(arrays, specs, strict=True)
        ]

    shapes = [p.shape for p in module.entry.parameters]
    devices = range(module.num_partitions)
    cut = [parts(given, partition.parameters, shapes, d) for d in devices]
    results = module.entry.root.shape.flatten()
    for device, got in enumerate(run(done, cut)):
        for x, y in zip(got, parts(want, partition.results, results, device), strict=True):
            np.testing.assert_array_equal(x, y)
    return done


@pytest.mark.parametrize("name", PROGRAMS)
def test_machine_code_gives_these_values(name: str) -> None:
    program = PROGRAMS[name]
    module = module_to_hlo(parse_module(HEAD + program.text))
    compiled, *_ = CpuClient().compile_partitioned(module.clone(), CompileOptions())
    _check_values(module, program.oracle, lambda _, cut: compiled.run_arrays_together(cut))


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_whole_arrays(name: str) -> None:
    program = PROGRAMS[name]
    module = module_to_hlo(parse_module(HEAD + program.text))
    match_checks(program.converted, hlo_text(module, STYLE))
    done = hlo_text(_check_values(module, program.oracle), STYLE)
    match_checks(program.partitioned, done[done.index("ENTRY") :])


@pytest.mark.parametrize("name", PROGRAMS)
def test_hlo_of_such_text_prints_as_such_text(name: str) -> None:
    program = PROGRAMS[name]
    text = module_to_text(module_from_hlo(module_to_hlo(parse_module(HEAD + program.text))))
    assert "custom_call" not in text
    again = module_to_hlo(parse_module(text))
    assert module_to_text(module_from_hlo(again)) == text
    _check_values(again, program.oracle)


BODY = "  func.func @main(%arg0: tensor<8xf32> {A}) -> (tensor<8xf32> {R}) {{ {B} }}\n}}"
ERRORS = {
    "no such mesh": (
        {"A": '{sdy.sharding = #sdy.sharding<@other, [{"x"}]>}'},
        UnimplementedError,
        "no mesh 'other'",
    ),
    "captured": (
        {
            "B": """%0 = sdy.manual_computation() in_shardings=[] out_shardings=[<@mesh, [{}]>] manual_axes={"x"} () {
            sdy.return %arg0 : tensor<8xf32> } : () -> tensor<8xf32>
            return %0 : tensor<8xf32>"""
        },
        ConversionError,
        "line 3.*pass it as an operand",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_cannot_be_converted_says_why(name: str) -> None:
    parts, kind, message = ERRORS[name]
    fields = {"A": "", "R": "", "B": "return %arg0 : tensor<8xf32>", **parts}
    text = BODY.replace("{{", "{").replace("}}", "}")
    for field, value in fields.items():
        text = text.replace(f"{{{field}}}", value)
    with pytest.raises(kind, match=message):
        prepare_and_partition(module_to_hlo(parse_module(HEAD + text)))


def test_programs_of_one_device_need_no_partitioner() -> None:
    text = """sdy.mesh @mesh = <["x"=1]>
      func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%y: tensor<2xf32>) {
          %1 = stablehlo.negate %y : tensor<2xf32>
          sdy.return %1 : tensor<2xf32>
        } : (tensor<2xf32>) -> tensor<2xf32>
        return %0 : tensor<2xf32> }"""
    assert "custom-call" not in hlo_text(module_to_hlo(parse_module(text)), STYLE)
