"""Comparators that order by a function of each element, and those that do not."""

import pytest
from pass_checks import check_pass

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.passes.sort_key_rewriter import SortKeyRewriter
from xla_backend.passes.topk_decomposer import TopKDecomposer

SORTABLE = (P.PRED, P.S8, P.U8, P.S16, P.S32, P.U32, P.S64, P.F32, P.F64)

SORT = """HloModule m

order {
  a = TYPE[] parameter(0)
  b = TYPE[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  BODY
}

ENTRY main {
  x = TYPE[4,33] parameter(0)
  i = s32[4,33] iota(), iota_dimension=1
  s = (TYPE[4,33], s32[4,33]) sort(x, i), dimensions={1}, is_stable=true, to_apply=order
  v = TYPE[4,33] get-tuple-element(s), index=0
  k = s32[4,33] get-tuple-element(s), index=1
  ROOT r = (TYPE[4,33], s32[4,33]) tuple(v, k)
}
"""

REWRITTEN = {
    "total_order": ("f32", "ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER"),
    "total_order_f16": ("f16", "ROOT c = pred[] compare(a, b), direction=GT, type=TOTALORDER"),
    "magnitude": (
        "f32",
        """p = TYPE[] abs(a)
        q = TYPE[] abs(b)
        ROOT c = pred[] compare(q, p), direction=LT""",
    ),
    "bits": (
        "f32",
        """zero = s32[] constant(0)
        all = s32[] constant(2147483647)
        p = s32[] bitcast-convert(a)
        q = s32[] bitcast-convert(b)
        fp = s32[] xor(all, p)
        fq = s32[] xor(all, q)
        np = pred[] compare(p, zero), direction=LT
        nq = pred[] compare(q, zero), direction=LT
        kp = s32[] select(np, fp, p)
        kq = s32[] select(nq, fq, q)
        ROOT c = pred[] compare(kp, kq), direction=LT""",
    ),
    "lexicographic": (
        "s32",
        """two = s32[] constant(2)
        p = s32[] remainder(a, two)
        q = s32[] remainder(b, two)
        less = pred[] compare(p, q), direction=LT
        same = pred[] compare(p, q), direction=EQ
        tie = pred[] compare(i, j), direction=GT
        rest = pred[] and(same, tie)
        ROOT c = pred[] or(rest, less)""",
    ),
    "chosen": (
        "s32",
        """p = s32[] not(a)
        q = s32[] not(b)
        less = pred[] compare(p, q), direction=LT
        same = pred[] compare(p, q), direction=EQ
        tie = pred[] compare(j, i), direction=LT
        ROOT c = pred[] select(same, tie, less)""",
    ),
    "sum_of_operands": (
        "s32",
        """p = s32[] add(a, i)
        q = s32[] add(b, j)
        ROOT c = pred[] compare(p, q), direction=GT""",
    ),
    "small_type": ("s4", "ROOT c = pred[] compare(a, b), direction=LT"),
    "unsigned_small_type": ("u4", "ROOT c = pred[] compare(a, b), direction=GT"),
}

LEFT_ALONE = {
    "plain": ("f32", "ROOT c = pred[] compare(a, b), direction=LT"),
    "not_strict": ("s32", "ROOT c = pred[] compare(a, b), direction=LE"),
    "sides_mixed": (
        "s32",
        """p = s32[] add(a, j)
        q = s32[] add(b, i)
        ROOT c = pred[] compare(p, q), direction=LT""",
    ),
    "different_functions": (
        "f32",
        """p = f32[] abs(a)
        ROOT c = pred[] compare(p, b), direction=LT""",
    ),
    "different_constants": (
        "s32",
        """one = s32[] constant(1)
        two = s32[] constant(2)
        p = s32[] remainder(a, one)
        q = s32[] remainder(b, two)
        ROOT c = pred[] compare(p, q), direction=LT""",
    ),
    "no_order_at_all": ("s32", "ROOT c = pred[] constant(false)"),
    "and_of_two": (
        "s32",
        """p = pred[] compare(a, b), direction=LT
        q = pred[] compare(i, j), direction=LT
        ROOT c = pred[] and(p, q)""",
    ),
}


def program(type, body):
    return SORT.replace("BODY", body).replace("TYPE", type)


@pytest.mark.parametrize("name", REWRITTEN)
def test_computed_keys_become_operands(name):
    module = check_pass(SortKeyRewriter(SORTABLE), program(*REWRITTEN[name]))
    again = SortKeyRewriter(SORTABLE)
    assert not again.run(module), "the result is not plain"


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_other_comparators_stay(name):
    check_pass(SortKeyRewriter(SORTABLE), program(*LEFT_ALONE[name]), expect_change=False)


def test_sort_of_one_operand():
    check_pass(
        SortKeyRewriter(SORTABLE),
        """HloModule m

        order {
          a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = pred[] compare(b, a), direction=GT, type=TOTALORDER
        }

        ENTRY main {
          x = f32[40] parameter(0)
          // CHECK: sort({{.*}}), dimensions={0}, is_stable=true
          // CHECK: ROOT {{.*}} = f32[40] get-tuple-element({{.*}}), index=1
          ROOT r = f32[40] sort(x), dimensions={0}, is_stable=true, to_apply=order
        }
        """,
    )


def test_topk_custom_call():
    check_pass(
        TopKDecomposer(),
        """HloModule m

        greater {
          a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = pred[] compare(a, b), direction=GT, type=TOTALORDER
        }

        ENTRY main {
          x = f32[3,20] parameter(0)
          // CHECK: sort(
          // CHECK-NOT: custom-call
          ROOT r = (f32[3,5], s32[3,5]) custom-call(x), custom_call_target="TopK",
            called_computations={greater}
        }
        """,
    )


def test_other_custom_calls_stay():
    check_pass(
        TopKDecomposer(),
        """HloModule m

        ENTRY main {
          x = f32[3] parameter(0)
          c = f32[9] custom-call(), custom_call_target="AllocateBuffer"
          i = s32[] constant(0)
          u = f32[9] dynamic-update-slice(c, x, i)
          ROOT r = f32[3] slice(u), slice={[0:3]}
        }
        """,
        expect_change=False,
    )
