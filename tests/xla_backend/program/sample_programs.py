"""Programs with every kind of step."""

from native_checks import arguments_of, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.executable import CpuExecutable

CALLED = """
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
cond {
  s = (s32[], f32[4,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(40)
  ROOT lt = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[4,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,6] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4,6] tanh(x)
  ROOT t = (s32[], f32[4,6]) tuple(j, y)
}
then { x = f32[4,6] parameter(0)
  ROOT r = f32[4,6] sine(x)
}
otherwise { x = f32[4,6] parameter(0)
  ROOT r = f32[4,6] negate(x)
}
third { x = f32[4,6] parameter(0)
  ROOT r = f32[4,6] copy(x)
}
by_difference {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  difference = f32[] subtract(a, b)
  zero = f32[] constant(0)
  ROOT less = pred[] compare(difference, zero), direction=LT
}
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}
pair_less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT
}
"""
BODIES = {
    "kernel": "x = f32[4,6] parameter(0)\n ROOT r = f32[4,6] exponential(x)",
    "loop": """x = f32[4,6] parameter(0)
      zero = s32[] constant(0)
      init = (s32[], f32[4,6]) tuple(zero, x)
      w = (s32[], f32[4,6]) while(init), condition=cond, body=body
      ROOT r = f32[4,6] get-tuple-element(w), index=1""",
    "branch": """x = f32[4,6] parameter(0)
      p = pred[] parameter(1)
      ROOT r = f32[4,6] conditional(p, x, x), true_computation=then, false_computation=otherwise""",
    "switch": """x = f32[4,6] parameter(0)
      i = s32[] parameter(1)
      ROOT r = f32[4,6] conditional(i, x, x, x), branch_computations={then, otherwise, third}""",
    "transform over two axes": """x = c64[4,6] parameter(0)
      ROOT r = c64[4,6] fft(x), fft_type=FFT, fft_length={4,6}""",
    "product": """x = f32[4,6] parameter(0)
      y = f32[6,5] parameter(1)
      ROOT d = f32[4,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "product-epilogue": """x = f32[4,6] parameter(0)
      y = f32[6,17] parameter(1)
      b = f32[17] parameter(2)
      d = f32[4,17] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      c = f32[4,17] broadcast(b), dimensions={1}
      s = f32[4,17] add(d, c)
      ROOT t = f32[4,17] tanh(s)""",
    "batched-product": """x = f32[3,4,6] parameter(0)
      y = f32[3,6,5] parameter(1)
      d = f32[3,4,5] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0},
        lhs_contracting_dims={2}, rhs_contracting_dims={1}
      ROOT t = f32[3,4,5] tanh(d)""",
    "convolution": """x = f32[2,8,9,4] parameter(0)
      w = f32[3,3,4,6] parameter(1)
      c = f32[2,8,9,6] convolution(x, w), window={size=3x3 pad=1_1x1_1 rhs_reversal=1x0},
        dim_labels=b01f_01io->b01f
      ROOT t = f32[2,8,9,6] tanh(c)""",
    "sort": "x = f32[4,6] parameter(0)\n ROOT s = f32[4,6] sort(x), dimensions={0}, to_apply=less",
    "sort-pairs": """x = f32[4,6] parameter(0)
      y = s32[4,6] parameter(1)
      ROOT s = (f32[4,6], s32[4,6]) sort(x, y), dimensions={1}, to_apply=pair_less""",
    "sort-by-difference": """x = f32[4,6] parameter(0)
      y = s32[4,6] parameter(1)
      ROOT s = (f32[4,6], s32[4,6]) sort(x, y), dimensions={1}, to_apply=by_difference""",
    "scan": """x = f32[4,6] parameter(0)
      z = f32[] constant(0)
      ROOT r = f32[4,6] reduce-window(x, z), window={size=1x6 pad=0_0x5_0}, to_apply=add""",
    # Matrices of half precision are LAPACK's, by way of float32.
    "host": """x = f16[2,4,4] parameter(0)
      ROOT f = f16[2,4,4] cholesky(x), lower=true""",
    "random": """s = u64[2] rng-get-and-update-state(), delta=5
      t = u64[2] rng-get-and-update-state(), delta=7
      ROOT r = (u64[2], u64[2]) tuple(s, t)""",
    "constant": """x = s32[3] parameter(0)
      c = s32[3] constant({7, 8, 9})
      y = s32[3] add(x, c)
      ROOT r = (s32[3], s32[3]) tuple(c, y)""",
    "update": """x = f32[4,6] parameter(0)
      u = f32[1,6] parameter(1)
      i = s32[] parameter(2)
      z = s32[] constant(0)
      ROOT r = f32[4,6] dynamic-update-slice(x, u, i, z)""",
}


def sample(name: str) -> tuple[CpuExecutable, list]:
    """A compiled, verified program and arguments for it."""
    module = module_of(BODIES[name], CALLED)
    arguments = arguments_of(module)
    return compile_module(module, CompileOptions(verify=True)), arguments
