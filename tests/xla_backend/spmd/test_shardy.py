"""Programs in the form in which JAX writes them: Shardy's attributes and calls."""

import numpy as np
from spmd_checks import partitioned

from xla_backend.hlo.evaluator import evaluate_partitioned
from xla_backend.hlo.parser import parse_module

# As JAX 0.10 prints it, with a constraint that leaves a dimension open, and shard_map.
PROGRAM = r"""HloModule jit_f, num_partitions=4,
  frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["a"=2, "b"=2]>}}

sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }

body { x = f32[4,8] parameter(0)
  ROOT r = f32[4,8] all-reduce(x), channel_id=1, replica_groups={{0,2},{1,3}},
    use_global_device_ids=true, to_apply=sum }

ENTRY main {
  x = f32[8,12] parameter(0), sharding={devices=[2,2]<=[4]},
    frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"a\"}, {\"b\"}]>"}
  t = f32[12,8] transpose(x), dimensions={1,0}
  d = f32[8,8] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[8,8] custom-call(d), custom_call_target="Sharding",
    sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate},
    frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{?}, {\"b\"}]>]>"}
  i = f32[4,8] custom-call(c), custom_call_target="xla.sdy.GlobalToLocalShape",
    custom_call_has_side_effect=true,
    frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\"a\"}, {}]>]>",
      xla.sdy.manual_axes="#sdy<manual_axes{\"a\", \"b\"}>"}
  m = f32[4,8] call(i), to_apply=body, frontend_attributes={inlineable="false"}
  o = f32[4,8] custom-call(m), custom_call_target="xla.sdy.LocalToGlobalShape",
    custom_call_has_side_effect=true,
    frontend_attributes={xla.sdy.manual_axes="#sdy<manual_axes{\"a\", \"b\"}>",
      xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{}, {}]>]>"}
  ROOT r = (f32[4,8], f32[8,8]) tuple(o, c)
}
"""


def test_programs_of_jax():
    x = np.arange(96, dtype=np.float32).reshape(8, 12) - 40
    done = partitioned(parse_module(PROGRAM))
    given = [[x[4 * a : 4 * a + 4, 6 * b : 6 * b + 6]] for a in (0, 1) for b in (0, 1)]
    want = x @ x.T
    # The open dimension is cut as the product is.
    assert [leaf.dimensions for leaf in done.entry.root.shape.flatten()] == [(4, 8), (4, 4)]
    for device, (summed, product) in enumerate(evaluate_partitioned(done, given)):
        a, b = divmod(device, 2)
        np.testing.assert_array_equal(summed, want[:4] + want[4:])
        np.testing.assert_array_equal(product, want[4 * a : 4 * a + 4, 4 * b : 4 * b + 4])
