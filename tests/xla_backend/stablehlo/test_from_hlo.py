# ruff: noqa: E501
"""HLO to StableHLO: the shape of the text, and opcodes without an equivalent."""

from __future__ import annotations

import numpy as np
import pytest

from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.parser import parse_module
from xla_backend.stablehlo import module_to_stablehlo, parse_stablehlo

CONTROL = """
HloModule jit_f, input_output_alias={ {1}: (0, {}, may-alias) }, num_partitions=2

double {
  p = f32[4] parameter(0)
  ROOT r = f32[4] add(p, p)
}

body {
  s = (f32[4], s32[]) parameter(0)
  x = f32[4] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  d = f32[4] call(x), to_apply=double
  ROOT t = (f32[4], s32[]) tuple(d, j)
}

cond {
  s = (f32[4], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=1
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}

left {
  v = (f32[4], s32[]) parameter(0)
  ROOT a = f32[4] get-tuple-element(v), index=0
}

right {
  v = f32[4] parameter(0)
  ROOT b = f32[4] negate(v)
}

ENTRY main {
  x = f32[4] parameter(0), sharding={replicated}
  z = s32[] constant(0)
  init = (f32[4], s32[]) tuple(x, z)
  w = (f32[4], s32[]) while(init), condition=cond, body=body
  p = pred[] parameter(1)
  y = f32[4] get-tuple-element(w), index=0
  k = f32[4] copy(y)
  c = f32[4] conditional(p, w, k), true_computation=left, false_computation=right
  ROOT t = (f32[4], f32[4]) tuple(c, y)
}
"""

EXPECTED = """\
module @jit_f attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32> {mhlo.sharding = "{replicated}", \
tf.aliasing_output = 1 : i32}, %arg1: tensor<i1>) -> (tensor<4xf32> {jax.result_info = "result[0]"}, \
tensor<4xf32> {jax.result_info = "result[1]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %c) : tensor<4xf32>, tensor<i32>
    cond {
      %c_1 = stablehlo.constant dense<3> : tensor<i32>
      %2 = stablehlo.compare LT, %iterArg_0, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %c_1 = stablehlo.constant dense<1> : tensor<i32>
      %2 = stablehlo.add %iterArg_0, %c_1 : tensor<i32>
      %3 = func.call @double(%iterArg) : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %3, %2 : tensor<4xf32>, tensor<i32>
    }
    %1 = "stablehlo.if"(%arg1) ({
      stablehlo.return %0#0 : tensor<4xf32>
    }, {
      %2 = stablehlo.negate %0#0 : tensor<4xf32>
      stablehlo.return %2 : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    return %1, %0#0 : tensor<4xf32>, tensor<4xf32>
  }
  func.func private @double(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""


def test_control_flow_in_the_style_of_jax() -> None:
    module = parse_module(CONTROL)
    assert module_to_stablehlo(module, result_info=["result[0]", "result[1]"]) == EXPECTED


def test_locations() -> None:
    module = parse_module(
        'ENTRY e { x = f32[] parameter(0), metadata={op_name="x"} '
        'ROOT r = f32[] sine(x), metadata={op_name="f/sin" source_file="a.py" source_line=3} }'
    )
    text = module_to_stablehlo(module, debug_info=True)
    assert '%arg0: tensor<f32> loc("x")' in text
    assert '#loc2 = loc("a.py":3:0)' in text and 'loc("f/sin"(#loc2))' in text


OPCODES = [
    ("f32[4] all-reduce(x), channel_id=1, replica_groups={{0},{1}}, use_global_device_ids=true, to_apply=add", "handle = 1, type = 1"),
    ("f32[8] all-gather(x), replica_groups={{0,1}}, dimensions={0}", "all_gather_dim = 0"),
    ("f32[4] collective-permute(x), source_target_pairs={{0,1},{1,0}}", "dense<[[0, 1], [1, 0]]>"),
    ("f32[4] fusion(x), kind=kLoop, calls=twice", "call @twice"),
    ('f32[4] custom-call(x), custom_call_target="f", custom_call_has_side_effect=true', "has_side_effect = true"),
    ('f32[4] custom-call(x), custom_call_target="f", api_version=API_VERSION_TYPED_FFI, backend_config={a = 1 : i64}', "mhlo.backend_config = {a = 1 : i64}"),
    ("f32[4] erf(x)", "chlo.erf"),
    ("f32[4] bitcast(x)", "stablehlo.reshape"),
    ("f32[4] rng(x1, x1), distribution=rng_normal", "distribution = NORMAL"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), OPCODES, ids=[e for _, e in OPCODES])
def test_opcodes(line: str, expected: str) -> None:
    text = module_to_stablehlo(parse_module(_PROGRAM.format(line)))
    assert expected in text


def test_bitcast_follows_layouts() -> None:
    """[2,3] in column-major order is the memory of [3,2] in row-major order, and so on."""
    module = parse_module("""ENTRY e {
      x = f32[2,3]{0,1} parameter(0)
      b = f32[6] bitcast(x)
      c = s32[3,2]{0,1} bitcast(b)
      ROOT t = (f32[6], s32[3,2]{0,1}) tuple(b, c)
    }""")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    flat, other = evaluate(parse_stablehlo(module_to_stablehlo(module)), [x])
    np.testing.assert_array_equal(flat, x.ravel("F"))
    np.testing.assert_array_equal(other.view(np.float32), x.ravel("F").reshape(3, 2, order="F"))


def test_tuple_constants_are_constants_of_their_members() -> None:
    module = parse_module("ENTRY e { ROOT c = (s32[2], (f32[])) constant(( {1, 2}, ( 3.5 ) )) }")
    numbers, nested = evaluate(parse_stablehlo(module_to_stablehlo(module)), [])
    np.testing.assert_array_equal(numbers, [1, 2])
    assert nested == 3.5


UNSUPPORTED = [
    "f16[4] stochastic-convert(x, u)",
    "f64[4] bitcast(x)",
    "u64[2] rng-get-and-update-state(), delta=1",
]


@pytest.mark.parametrize("line", UNSUPPORTED)
def test_opcodes_without_equivalent(line: str) -> None:
    with pytest.raises(UnimplementedError, match=r"no (StableHLO )?equivalent"):
        module_to_stablehlo(parse_module(_PROGRAM.format(line)))


_PROGRAM = """
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }}
twice {{ a = f32[4] parameter(0)  ROOT s = f32[4] add(a, a) }}
ENTRY main {{
  x = f32[4] parameter(0)
  x1 = f32[] parameter(1)
  u = u32[4] parameter(2)
  ROOT r = {}
}}"""


def test_constraints_in_the_sharding_dialect() -> None:
    module = parse_module("""
    HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["a"=1, "b"=1]>}}
    ENTRY e {
      x = f32[2,3] parameter(0)
      ROOT y = f32[2,3] custom-call(x), custom_call_target="Sharding", frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\22b\\22}, {?}]>"}
    }""")
    text = module_to_stablehlo(module)
    assert 'sdy.mesh @mesh = <["a"=1, "b"=1]>' in text
    assert 'sdy.sharding_constraint %arg0 <@mesh, [{"b"}, {?}]> : tensor<2x3xf32>' in text
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert evaluate(parse_stablehlo(text), [x])[0].tolist() == x.tolist()
