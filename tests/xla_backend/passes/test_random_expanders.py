"""rng, whose numbers are free but whose distribution is not, and the other batch-norm
expansions."""

import numpy as np
import pytest
from pass_checks import check_pass

from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.parser import parse_module
from xla_backend.library import compile
from xla_backend.passes.batch_norm_expander import BatchNormExpander
from xla_backend.passes.rng_expander import RngBitGeneratorExpander, RngExpander

RNG = """HloModule m

ENTRY main {
  a = %T%[] constant(%A%)
  b = %T%[] constant(%B%)
  x = %T%[40,50] rng(a, b), distribution=rng_%D%
  y = %T%[40,50] rng(a, b), distribution=rng_%D%
  ROOT r = (%T%[40,50], %T%[40,50]) tuple(x, y)
}
"""


def draws(element_type: str, first, last, distribution: str):
    text = RNG.replace("%T%", element_type).replace("%A%", str(first)).replace("%B%", str(last))
    module = parse_module(text.replace("%D%", distribution))
    assert RngExpander().run(module)
    assert RngBitGeneratorExpander().run(module) is False  # rng becomes arithmetic directly
    return [x.astype(np.float64) for x in evaluate(module, [])]


@pytest.mark.parametrize("element_type", ["f32", "f64", "bf16", "f16"])
def test_uniform_floats(element_type):
    x, y = draws(element_type, -1, 3, "uniform")
    assert not np.array_equal(x, y)
    for z in (x, y):
        assert z.min() >= -1 and z.max() < 3
        assert abs(z.mean() - 1) < 0.1 and abs(z.std() - 4 / 12**0.5) < 0.1


@pytest.mark.parametrize("element_type", ["s32", "u32", "s64", "u8"])
def test_uniform_integers(element_type):
    x, _ = draws(element_type, 2, 7, "uniform")
    values, counts = np.unique(x, return_counts=True)
    assert list(values) == [2, 3, 4, 5, 6]
    assert counts.min() > 320


@pytest.mark.parametrize("element_type", ["f32", "f64"])
def test_normal(element_type):
    x, _ = draws(element_type, 5, 2, "normal")
    assert np.isfinite(x).all()
    assert abs(x.mean() - 5) < 0.2 and abs(x.std() - 2) < 0.2


LOOP = """HloModule m

body {
  c = (s32[], f32[3,8]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  x = f32[3,8] get-tuple-element(c), index=1
  zero = f32[] constant(0)
  one = f32[] constant(1)
  draw = f32[1,8] rng(zero, one), distribution=rng_uniform
  start = s32[] constant(0)
  y = f32[3,8] dynamic-update-slice(x, draw, i, start)
  step = s32[] constant(1)
  j = s32[] add(i, step)
  ROOT r = (s32[], f32[3,8]) tuple(j, y)
}

cond {
  c = (s32[], f32[3,8]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}

ENTRY main {
  x = f32[3,8] parameter(0)
  i = s32[] constant(0)
  c = (s32[], f32[3,8]) tuple(i, x)
  w = (s32[], f32[3,8]) while(c), condition=cond, body=body
  ROOT r = f32[3,8] get-tuple-element(w), index=1
}
"""


@pytest.mark.parametrize("platform", ["cpu", "emulator", "interpreter"])
def test_no_number_twice(platform):
    executable = compile(parse_module(LOOP), platform)
    nothing = np.zeros((3, 8), np.float32)
    draws = [executable.execute([nothing])[0] for _ in range(3)]
    assert len(np.unique(draws)) == 3 * 3 * 8


def test_batch_norm_inference():
    check_pass(
        BatchNormExpander(),
        """HloModule m

        ENTRY main {
          x = f32[6,3,5] parameter(0)
          a = f32[3] parameter(1)
          b = f32[3] parameter(2)
          m = f32[3] parameter(3)
          v0 = f32[3] parameter(4)
          v = f32[3] abs(v0)
          // CHECK-NOT: batch-norm
          ROOT r = f32[6,3,5] batch-norm-inference(x, a, b, m, v), epsilon=0.01, feature_index=1
        }
        """,
        exact=False,
        rtol=1e-4,
    )


def test_batch_norm_grad():
    check_pass(
        BatchNormExpander(),
        """HloModule m

        ENTRY main {
          x = f32[2,2,2] parameter(0)
          a = f32[2] parameter(1)
          m = f32[2] parameter(2)
          v0 = f32[2] parameter(3)
          v = f32[2] abs(v0)
          g = f32[2,2,2] parameter(4)
          // CHECK-NOT: batch-norm
          ROOT r = (f32[2,2,2], f32[2], f32[2]) batch-norm-grad(x, a, m, v, g), epsilon=0.1,
            feature_index=2
        }
        """,
        exact=False,
        rtol=1e-3,
    )
