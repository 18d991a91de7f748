"""attention-row-sums."""

import pytest
from pass_checks import check_pass

from xla_backend.passes.attention_row_sums import AttentionRowSums

# Attention of f32, and the sum over keys of what becomes of its weights.
TEXT = """
largest {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }}
plus {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY main {{
  q = f32[2,5,4] parameter(0)
  k = f32[2,7,4] parameter(1)
  v = f32[2,7,3] parameter(2)
  d = f32[2,5,3] parameter(3)
  other = f32[2,7,3] parameter(4)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  s = f32[2,5,7] dot(q, k), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  most = f32[2,5] reduce(s, low), dimensions={{2}}, to_apply=largest
  mosts = f32[2,5,7] broadcast(most), dimensions={{0,1}}
  difference = f32[2,5,7] subtract(s, mosts)
  powers = f32[2,5,7] exponential(difference)
  sum = f32[2,5] reduce(powers, zero), dimensions={{2}}, to_apply=plus
  sums = f32[2,5,7] broadcast(sum), dimensions={{0,1}}
  weights = f32[2,5,7] divide(powers, sums)
  o = {values}
  g = {gradient}
  {product}

  total = f32[2,5] reduce({summed}, zero), dimensions={{2}}, to_apply=plus
  ROOT r = (f32[{shape}], f32[2,5]) tuple(o, total)
}}
"""
ROWS_FIRST = """f32[2,5,3] dot(weights, v), lhs_batch_dims={0}, rhs_batch_dims={0},
    lhs_contracting_dims={2}, rhs_contracting_dims={1}"""
COLUMNS_FIRST = """f32[2,3,5] dot(v, weights), lhs_batch_dims={0}, rhs_batch_dims={0},
    lhs_contracting_dims={1}, rhs_contracting_dims={2}"""
GRADIENT = """f32[2,5,7] dot(d, v), lhs_batch_dims={0}, rhs_batch_dims={0},
    lhs_contracting_dims={2}, rhs_contracting_dims={2}"""
OF_WEIGHTS = "p = f32[2,5,7] multiply(g, weights)"
OF_POWERS = """inverse = f32[2,5] divide(d0, sum)
  inverses = f32[2,5,7] broadcast(inverse), dimensions={0,1}
  scaled = f32[2,5,7] multiply(g, inverses)
  p = f32[2,5,7] multiply(scaled, powers)"""
ONE = "d0 = f32[2,5] broadcast(one), dimensions={}\n  "


def text(
    values: str = ROWS_FIRST, gradient: str = GRADIENT, product: str = OF_WEIGHTS, summed: str = "p"
) -> str:
    shape = values.split("[")[1].split("]")[0]
    if product is OF_POWERS:
        product = f"one = f32[] constant(1)\n  {ONE}{product}"
    return TEXT.format(
        values=values, gradient=gradient, product=product, summed=summed, shape=shape,
    )  # fmt: skip


@pytest.mark.parametrize("values", [ROWS_FIRST, COLUMNS_FIRST], ids=["rows", "columns"])
@pytest.mark.parametrize("product", [OF_WEIGHTS, OF_POWERS], ids=["weights", "powers"])
def test_sums_are_had_of_results(values: str, product: str) -> None:
    module = text(values, product=product)
    made = check_pass(AttentionRowSums(), module, exact=False, rtol=1e-4)
    assert made.entry is not None
    # The gradient of the weights is not needed for it.
    assert "dot(%d" not in str(made)


@pytest.mark.parametrize(
    "kept",
    [
        text(gradient=GRADIENT.replace("dot(d, v)", "dot(d, other)")),
        text(product="p = f32[2,5,7] multiply(g, s)"),
        text(product="h = f32[2,5,7] multiply(g, g)\n  p = f32[2,5,7] multiply(h, weights)"),
        text(product="p = f32[2,5,7] add(g, weights)"),
    ],
    ids=["another v", "scores", "squares", "a sum"],
)
def test_other_sums_stay(kept: str) -> None:
    check_pass(AttentionRowSums(), kept, expect_change=False)


def test_attention_whose_result_is_not_in_memory_stays() -> None:
    check_pass(AttentionRowSums(lambda attention: False), text(), expect_change=False)
