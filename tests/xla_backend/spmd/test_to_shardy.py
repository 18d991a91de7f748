# ruff: noqa: E501
"""HLO's shardings in Shardy's words."""

from __future__ import annotations

import pytest
from pass_checks import match_checks

from xla_backend.hlo.parser import parse_module
from xla_backend.stablehlo.library import module_to_stablehlo, parse_stablehlo

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"

# Of each a module behind its name, and what its text has.
CASES = {
    "meshes": (
        """ENTRY e {
          x = f32[8,8] parameter(0), sharding={mesh['a'=2,'b'=4], [{'a'}, {'b':(1)2, ?}p1], replicated={'b':(2)2}}
          y = f32[8,8] parameter(1), sharding={mesh['a'=2,'b'=4], device_ids=([2,4]T(1,0)), replicated, unreduced={'a'}}
          z = f32[8,8] parameter(2), sharding={unknown}
          s = f32[8,8] add(x, y)
          c = f32[8,8] custom-call(s), custom_call_target="Sharding", sharding={mesh['c'=8], [{}, {'c'}]}
          ROOT r = f32[8,8] multiply(c, z)
        }""",
        """
        // CHECK:      sdy.mesh @mesh = <["a"=2, "b"=4]> {stablehlo.mesh = {axes = [{name = "a", size = 2 : i64}, {name = "b", size = 4 : i64}]}}
        // CHECK-NEXT: sdy.mesh @mesh_0 = <["a"=2, "b"=4], device_ids=[0, 4, 1, 5, 2, 6, 3, 7]>
        // CHECK-NEXT: sdy.mesh @mesh_1 = <["c"=8]> {stablehlo.mesh
        // CHECK-NEXT: func.func public @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b":(1)2, ?}p1], replicated={"b":(2)2}>},
        // CHECK-SAME: %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh_0, [{}, {}], unreduced={"a"}>},
        // CHECK-SAME: %arg2: tensor<8x8xf32>) -> tensor<8x8xf32>
        // CHECK:      sdy.sharding_constraint %{{.*}} <@mesh_1, [{}, {"c"}]> : tensor<8x8xf32>
        """,
    ),
    "results": (
        """ENTRY e {
          x = f32[8] parameter(0)
          a = f32[8] custom-call(x), custom_call_target="Sharding", sharding={mesh['a'=8], [{'a'}]}
          b = f32[8] custom-call(x), custom_call_target="Sharding", sharding={mesh['a'=8], replicated}, metadata={op_name="user's"}
          ROOT r = (f32[8], f32[8], f32[8]) tuple(a, b, x)
        }""",
        """
        // CHECK: func.func public @main(%arg0: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>}, tensor<8xf32>, tensor<8xf32>)
        // CHECK-NEXT: %0 = sdy.sharding_constraint %arg0 <@mesh, [{}]> : tensor<8xf32>
        // CHECK-NEXT: return %arg0, %0, %arg0
        """,
    ),
    "without a mesh": (
        """ENTRY e {
          x = f32[8] parameter(0), sharding={replicated}
          y = f32[8] parameter(1), sharding={devices=[8]<=[8]}
          a = f32[8] add(x, y), sharding={maximal device=3}
          ROOT c = f32[8] custom-call(a), custom_call_target="Sharding", sharding={devices=[8]<=[8]}
        }""",
        """
        // CHECK: sdy.mesh @empty_mesh = <[]> {stablehlo.mesh = {axes = []}}
        // CHECK: sdy.mesh @maximal_mesh_3 = <[], device_ids=[3]>
        // CHECK: %arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@empty_mesh, [{}]>}, %arg1: tensor<8xf32> {mhlo.sharding = "{devices=[8]<=[8]}"}
        // CHECK: stablehlo.add {{.*}}sdy.sharding = #sdy.sharding_per_value<[<@maximal_mesh_3, []>]>
        // CHECK: custom_call @Sharding({{.*}}mhlo.sharding = "{devices=[8]<=[8]}"
        """,
    ),
    "nested bodies of shared functions": (
        ADD
        + """
        inner { i = f32[4,4] parameter(0)  ROOT o = f32[4,4] all-reduce(i), replica_groups={{0,1,2,3},{4,5,6,7}}, channel_id=1, use_global_device_ids=true, to_apply=add, sharding={manual} }
        outer {
          i = f32[4,16] parameter(0)
          n = u32[] partition-id(), sharding={mesh['a'=2,'b'=4], replicated, manual={'a'}}
          f = f32[] convert(n)
          w = f32[4,16] broadcast(f), dimensions={}
          j = f32[4,16] add(i, w)
          c = f32[4,16] custom-call(j), custom_call_target="Sharding", sharding={mesh['a'=2,'b'=4], [{}, {'b'}], manual={'a'}}
          p = f32[4,4] custom-call(c), custom_call_target="SPMDFullToShardShape", sharding={manual}
          d = f32[4,4] call(p), to_apply=inner
          ROOT q = f32[4,4] custom-call(d), custom_call_target="SPMDShardToFullShape", sharding={mesh['a'=2,'b'=4], replicated, manual={'a'}}
        }
        ENTRY e {
          x = f32[8,16] parameter(0)
          c = f32[8,16] custom-call(x), custom_call_target="Sharding", sharding={mesh['a'=2,'b'=4], [{'a', ?}, {?}]}
          p = f32[4,16] custom-call(c), custom_call_target="SPMDFullToShardShape", sharding={mesh['a'=2,'b'=4], replicated, manual={'a'}}
          d = f32[4,4] call(p), to_apply=outer
          q = f32[8,4] custom-call(d), custom_call_target="SPMDShardToFullShape", sharding={mesh['a'=2,'b'=4], [{'a', ?}, {?}]}
          c2 = f32[8,16] custom-call(x), custom_call_target="Sharding", sharding={mesh['a'=2,'b'=4], [{'a'}, {'b'}]}
          p2 = f32[4,4] custom-call(c2), custom_call_target="SPMDFullToShardShape", sharding={manual}
          d2 = f32[4,4] call(p2), to_apply=inner
          q2 = f32[8,4] custom-call(d2), custom_call_target="SPMDShardToFullShape", sharding={mesh['a'=2,'b'=4], [{'a'}, {}]}
          ROOT r = f32[8,4] add(q, q2)
        }""",
        """
        // CHECK:      %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"a", ?}, {?}]>] out_shardings=[<@mesh, [{"a", ?}, {?}]>] manual_axes={"a"} (%arg1: tensor<4x16xf32>) {
        // CHECK:        sdy.manual_computation() in_shardings=[] out_shardings=[<@mesh, []>] manual_axes={"b"} () {
        // CHECK-NEXT:     %[[N:.*]] = stablehlo.partition_id : tensor<ui32>
        // CHECK-NEXT:     sdy.return %[[N]]
        // CHECK:        sdy.manual_computation({{.*}}) in_shardings=[<@mesh, [{}, {"b"}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"b"} ({{.*}}: tensor<4x4xf32>) {
        // CHECK:          stablehlo.all_reduce
        // CHECK:      %1 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"a"}, {"b"}]>] out_shardings=[<@mesh, [{"a"}, {}]>] manual_axes={"a", "b"} ({{.*}}: tensor<4x4xf32>) {
        // CHECK:          stablehlo.all_reduce
        // CHECK-NOT:  func.func private
        """,
    ),
    "no body that is known": (
        """ENTRY e {
          x = f32[8] parameter(0)
          c = f32[8] custom-call(x), custom_call_target="Sharding", sharding={mesh['a'=8], [{'a'}]}
          p = f32[1] custom-call(c), custom_call_target="SPMDFullToShardShape", sharding={manual}
          n = f32[1] negate(p)
          ROOT q = f32[8] custom-call(n), custom_call_target="SPMDShardToFullShape", sharding={mesh['a'=8], [{'a'}]}
        }""",
        """
        // CHECK: sdy.sharding_constraint %arg0 <@mesh, [{"a"}]>
        // CHECK: custom_call @SPMDFullToShardShape({{.*}}mhlo.sharding = "{manual}"
        // CHECK: custom_call @SPMDShardToFullShape({{.*}}mhlo.sharding = "{mesh['a'=8], [{'a'}]}"
        """,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_shardings_in_shardys_words(name: str) -> None:
    text, checks = CASES[name]
    module = parse_module(f"HloModule m, num_partitions=8\n{text}")
    before = str(module)
    written = module_to_stablehlo(module, in_shardy=True)
    match_checks(checks, written)
    assert "sdy." not in module_to_stablehlo(module)
    assert str(module) == before
    again = parse_stablehlo(written)
    assert again.num_partitions == 8
    assert module_to_stablehlo(again, in_shardy=True).count("sdy.manual") == written.count(
        "sdy.manual"
    )
