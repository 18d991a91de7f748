"""Programs that everybody partitions, and the collectives that they must come to, as text."""

import pytest
from spmd_checks import check_text

# Sizes like those of models: activations are larger than weights.
DM = "mesh['d'=2,'m'=2]"
BATCH, WHOLE = f"{{{DM}, [{{'d'}}, {{}}]}}", f"{{{DM}, [{{}}, {{}}]}}"
COLUMNS, ROWS = f"{{{DM}, [{{}}, {{'m'}}]}}", f"{{{DM}, [{{'m'}}, {{}}]}}"
FULLY = f"{{{DM}, [{{'d'}}, {{}}]}}"

# Collectives along one axis.
ALONG_M = "(%{{.*}}), {{.*}}replica_groups={{.*}}0,1},{2,3{{.*}}"
ALONG_D = "(%{{.*}}), {{.*}}replica_groups={{.*}}0,2},{1,3{{.*}}"

TENSOR_PARALLEL_FORWARD = f"""
  // CHECK-NOT: all-
  // CHECK: f32[32,16] dot
  // CHECK: f32[32,6] dot
  // CHECK-NEXT: %[[SUM:.*]] = f32[32,6] all-reduce{ALONG_M}
  // CHECK-NEXT: ROOT %{{{{.*}}}} = f32[32,6] add(%x, %[[SUM]])
  x = f32[64,6] parameter(0), sharding={BATCH}
  v = f32[6,32] parameter(1), sharding={COLUMNS}
  w = f32[32,6] parameter(2), sharding={ROWS}
  h = f32[64,32] dot(x, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  t = f32[64,32] negate(h)
  y = f32[64,6] dot(t, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = f32[64,6] add(x, y), sharding={BATCH}
"""

# The gradient of x: back through w and v, whose gradients are parts where the weights are.
TENSOR_PARALLEL_BACKWARD = f"""
  // CHECK-NOT: all-
  // CHECK: f32[64,16] dot(%g, %w)
  // CHECK: f32[64,6] dot
  // CHECK-NEXT: %[[SUM:.*]] = f32[64,6] all-reduce
  // CHECK-NOT: all-
  // CHECK: %dv = f32[6,16] dot
  // CHECK-NOT: all-
  // CHECK: %dw = f32[16,6] dot
  // CHECK-NEXT: ROOT %{{{{.*}}}} = (f32[64,6], f32[6,16], f32[16,6]) tuple(%[[SUM]], %dv, %dw)
  x = f32[64,6] parameter(0), sharding={WHOLE}
  v = f32[6,32] parameter(1), sharding={COLUMNS}
  w = f32[32,6] parameter(2), sharding={ROWS}
  g = f32[64,6] parameter(3), sharding={WHOLE}
  h = f32[64,32] dot(x, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  dh = f32[64,32] dot(g, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  dx = f32[64,6] dot(dh, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  dw = f32[32,6] dot(h, g), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  dv = f32[6,32] dot(x, dh), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  ROOT t = (f32[64,6], f32[6,32], f32[32,6]) tuple(dx, dv, dw),
    sharding={{{WHOLE}, {COLUMNS}, {ROWS}}}
"""

# Each weight is gathered once, for both directions; each gradient is scattered.
FULLY_SHARDED_STEP = f"""
  // CHECK-NOT: {{{{all-reduce|all-to-all}}}}
  // CHECK: %[[V:.*]] = f32[6,32] all-gather(%v)
  // CHECK: %h = f32[32,32] dot(%x, %[[V]])
  // CHECK: %[[W:.*]] = f32[32,6] all-gather(%w)
  // CHECK: %y = f32[32,6] dot(%{{{{.*}}}}, %[[W]])
  // CHECK: f32[32,32] dot(%y, %[[W]])
  // CHECK: %dv = f32[6,32] dot
  // CHECK-NEXT: f32[3,32] reduce-scatter{ALONG_D}dimensions={{0}}
  // CHECK-NOT: = {{{{.*}}}} {{{{all-|reduce-scatter[(]}}}}
  // CHECK: %dw = f32[32,6] dot
  // CHECK-NEXT: f32[16,6] reduce-scatter{ALONG_D}dimensions={{0}}
  // CHECK-NOT: = {{{{.*}}}} {{{{all-|reduce-scatter[(]}}}}
  // CHECK: ROOT
  x = f32[64,6] parameter(0), sharding={BATCH}
  v = f32[6,32] parameter(1), sharding={FULLY}
  w = f32[32,6] parameter(2), sharding={FULLY}
  h = f32[64,32] dot(x, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  t = f32[64,32] negate(h)
  y = f32[64,6] dot(t, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  dw = f32[32,6] dot(t, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  dt = f32[64,32] dot(y, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  dv = f32[6,32] dot(x, dt), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  nv = f32[6,32] subtract(v, dv)
  nw = f32[32,6] subtract(w, dw)
  ROOT r = (f32[6,32], f32[32,6]) tuple(nv, nw), sharding={{{FULLY}, {FULLY}}}
"""

# The sum over parts of a batch, of which each device keeps its rows.
SCATTERED_SUM = f"""
  // CHECK-NOT: all-
  // CHECK: f32[8,6] reduce-scatter{ALONG_D}dimensions={{0}}
  // CHECK-NEXT: ROOT
  x = f32[64,16,6] parameter(0), sharding={{{DM}, [{{'d'}}, {{}}, {{}}]}}
  z = f32[] constant(0)
  s = f32[16,6] reduce(x, z), dimensions={{0}}, to_apply=sum
  ROOT r = f32[16,6] negate(s), sharding={FULLY}
"""

# A table by rows of the vocabulary: who has a row gives it.
EMBEDDING = f"""
  // CHECK-NOT: all-
  // CHECK: %g = f32[8,6] gather
  // CHECK: f32[8,6] select(%{{{{.*}}}}, %g,
  // CHECK-NEXT: ROOT %{{{{.*}}}} = f32[8,6] all-reduce
  t = f32[64,6] parameter(0), sharding={ROWS}
  i = s32[16,1] parameter(1), sharding={BATCH}
  ROOT g = f32[16,6] gather(t, i), offset_dims={{1}}, collapsed_slice_dims={{0}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,6}}, sharding={BATCH}
"""

# Its gradient: each device adds what its rows get; parts of a batch are summed.
EMBEDDING_GRADIENT = f"""
  // CHECK-NOT: all-gather
  // CHECK: f32[32,6] scatter
  // CHECK-NEXT: ROOT %{{{{.*}}}} = f32[32,6] all-reduce{ALONG_D}
  t = f32[64,6] parameter(0), sharding={ROWS}
  i = s32[16,1] parameter(1), sharding={BATCH}
  u = f32[16,6] parameter(2), sharding={BATCH}
  ROOT g = f32[64,6] scatter(t, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=sum, sharding={ROWS}
"""

PATTERNS = {
    "tensor-parallel layers": TENSOR_PARALLEL_FORWARD,
    "tensor-parallel layers, backwards": TENSOR_PARALLEL_BACKWARD,
    "fully sharded parameters": FULLY_SHARDED_STEP,
    "a sum that is wanted in parts": SCATTERED_SUM,
    "an embedding": EMBEDDING,
    "the gradient of an embedding": EMBEDDING_GRADIENT,
}


@pytest.mark.parametrize("name", PATTERNS)
def test_pattern(name):
    check_text(PATTERNS[name], 4)
