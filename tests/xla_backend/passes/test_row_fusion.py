"""Which fusions become one over rows, and which stay apart."""

import pytest
from pass_checks import check_pass
from row_programs import layer_norm, module, random_rows, softmax

from xla_backend.hlo.errors import HloError
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.passes.base import Pipeline
from xla_backend.passes.fusion import LoopFusion
from xla_backend.passes.fusion_records import rows_of
from xla_backend.passes.row_fusion import CPU_ROWS, RowFusion
from xla_backend.passes.row_plan_annotator import RowPlanAnnotator
from xla_backend.passes.row_space import FULL, ROW, RowSpace, plan_rows


class LoopThenRowFusion(Pipeline):
    def __init__(self) -> None:
        super().__init__("fusions", [LoopFusion(), RowFusion(), RowPlanAnnotator()])


def fused(text: str) -> HloModule:
    return check_pass(LoopThenRowFusion(), text, exact=False)


def fusion_count(module: HloModule) -> int:
    return sum(node.opcode is Opcode.FUSION for node in module.entry)


def test_softmax_text():
    check_pass(
        LoopThenRowFusion(),
        """
        HloModule m
        max {
          x = f32[] parameter(0)
          y = f32[] parameter(1)
          ROOT z = f32[] maximum(x, y)
        }
        // CHECK: fused_rows_divide
        // CHECK: [[P:%[^ ]+]] = f32[8,128] parameter(0)
        // CHECK: reduce(
        // CHECK: exponential(
        // CHECK: reduce(
        // CHECK: ROOT {{.*}} divide(
        // CHECK: ENTRY
        // CHECK-NEXT: [[X:%[^ ]+]] = f32[8,128] parameter(0)
        // CHECK-NEXT: ROOT {{.*}} fusion([[X]]), kind=kLoop
        ENTRY main {
          p = f32[8,128] parameter(0)
          low = f32[] constant(-inf)
          m = f32[8] reduce(p, low), dimensions={1}, to_apply=max
          mb = f32[8,128] broadcast(m), dimensions={0}
          c = f32[8,128] subtract(p, mb)
          e = f32[8,128] exponential(c)
          s = f32[8] reduce(e, low), dimensions={1}, to_apply=max
          sb = f32[8,128] broadcast(s), dimensions={0}
          ROOT r = f32[8,128] divide(e, sb)
        }""",
        exact=False,
    )


ONE_KERNEL = {
    "softmax": softmax((64, 512), (1,)),
    "softmax of a matrix per row": softmax((32, 8, 16), (1, 2)),
    "softmax over the middle": softmax((16, 64, 128), (1,)),
    "softmax over the first axis": softmax((20, 300), (0,)),
    "softmax of a vector": softmax((1000,), (0,)),
    "softmax with dimensions of size 1": softmax((1, 64, 1, 128), (3,)),
    "layer norm": layer_norm((64, 512), (1,)),
    "layer norm over two axes": layer_norm((64, 8, 32), (1, 2)),
    "layer norm over rows that the second cache holds": layer_norm((8, 1000, 128), (1,)),
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_fusion(name):
    assert fusion_count(fused(ONE_KERNEL[name])) == 1


APART = {
    "few long rows: blocks of a row are better": softmax((1, 1 << 17), (1,)),
    "many short rows: flat loops fill the lanes": softmax((4096, 10), (1,)),
    "long rows across memory": softmax((4096, 16), (0,)),
    "rows of two arrays that it does not hold": layer_norm((8, 1100, 128), (1,)),
    "large stride": softmax((128, 4096), (0,)),
}


@pytest.mark.parametrize("name", APART)
def test_cost_model_keeps_apart(name):
    parsed = parse_module(APART[name])
    assert LoopFusion().run(parsed)
    assert not RowFusion().run(parsed)


def test_many_arrays_are_joined_before_their_rows_are_reduced():
    # Each element of a row would ask which of the operands it is in, and compute them all.
    def normalised(count: int) -> HloModule:
        parts = [f"p{i} = f32[{i},64] parameter({i - 1})" for i in range(1, count + 1)]
        rows = count * (count + 1) // 2
        names = ", ".join(f"n{i}" for i in range(1, count + 1))
        return fused(
            module(
                [
                    *parts,
                    *(f"n{i} = f32[{i},64] negate(p{i})" for i in range(1, count + 1)),
                    f"c = f32[{rows},64] concatenate({names}), dimensions={{0}}",
                    "zero = f32[] constant(0)",
                    "s = f32[64] reduce(c, zero), dimensions={0}, to_apply=add",
                    f"b = f32[{rows},64] broadcast(s), dimensions={{1}}",
                    f"r = f32[{rows},64] subtract(c, b)",
                ]
            )
        )

    assert fusion_count(normalised(9)) == 2
    assert fusion_count(normalised(2)) == 1


def test_value_of_another_row_is_no_row_fusion():
    # The row's sum goes to the column: element (i, j) needs the sum of row j.
    result = fused(
        module(
            [
                "p = f32[64,64] parameter(0)",
                "zero = f32[] constant(0)",
                "s = f32[64] reduce(p, zero), dimensions={1}, to_apply=add",
                "b = f32[64,64] broadcast(s), dimensions={1}",
                "r = f32[64,64] divide(p, b)",
            ]
        )
    )
    assert fusion_count(result) == 2


def test_what_lies_between_two_members_joins_or_keeps_them_apart():
    # The product needs all rows, and the last step needs the product.
    lines = [
        "p = f32[64,128] parameter(0)",
        "w = f32[128,128] parameter(1)",
        "zero = f32[] constant(0)",
        "s = f32[64] reduce(p, zero), dimensions={1}, to_apply=add",
        "b = f32[64,128] broadcast(s), dimensions={0}",
        "n = f32[64,128] tanh(b)",
        "d = f32[64,128] dot(n, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "r = f32[64,128] multiply(n, d)",
    ]
    result = fused(module(lines))
    assert fusion_count(result) == 2
    (dot,) = result.entry.post_order(Opcode.DOT)
    assert dot.operands[0].opcode is Opcode.FUSION


def test_values_that_others_read_are_outputs_once():
    lines = [
        "p = f32[64,128] parameter(0)",
        "zero = f32[] constant(0)",
        "s = f32[64] reduce(p, zero), dimensions={1}, to_apply=add",
        "b = f32[64,128] broadcast(s), dimensions={0}",
        "e = f32[64,128] subtract(p, b)",
        "t = f32[64,128] tanh(e)",
        "u = f32[64] reduce(t, zero), dimensions={1}, to_apply=add",
        "r = (f32[64], f32[64,128], f32[64], f32[64]) tuple(s, t, u, s)",
    ]
    result = fused(module(lines))
    assert fusion_count(result) == 1
    (fusion,) = result.entry.post_order(Opcode.FUSION)
    assert len(fusion.shape.tuple_shapes) == 3


def test_plan_of_a_softmax():
    module_ = fused(softmax((4, 64), (1,)))
    (fusion,) = module_.entry.post_order(Opcode.FUSION)
    plan = plan_rows(fusion.called[0])
    assert plan.space == RowSpace((4, 64), (1,)) and plan.loops == 3
    assert [len(r) for r in plan.reduces] == [1, 1, 0]
    assert [[n.opcode for n in kept] for kept in plan.keeps] == [[], [Opcode.EXPONENTIAL], []]
    assert plan.recomputed <= 2  # the subtraction may be done again, the exponential is not
    assert [len(s) for s in plan.stores] == [0, 0, 1]


def test_the_plan_is_written_on_the_fusion_and_read_from_text():
    """As text, numbers stand for instructions: the plan does not depend on names."""
    module_ = fused(softmax((4, 64), (1,)))
    (fusion,) = module_.entry.post_order(Opcode.FUSION)
    planned = plan_rows(fusion.called[0])
    text = module_to_text(module_)
    assert 'backend_config={"rows":{"dimensions":[4,64],"reduced":[1],"loops":[{"reduces":[' in text
    for again in (module_, parse_module(text), parse_module(text.replace("%v", "%other"))):
        (fusion,) = again.entry.post_order(Opcode.FUSION)
        plan = rows_of(fusion)
        assert plan.space == planned.space and plan.loops == planned.loops == 3
        for name in ("reduces", "stores", "keeps"):
            got, want = ([[n.opcode for n in x] for x in getattr(p, name)] for p in (plan, planned))
            assert got == want, name
        assert not plan.row_roots and plan.read_where_written == {0}


@pytest.mark.parametrize(
    "old, new", [('"stores":[', '"stores":[0,'), ('"reduces":[', '"reduces":[99,')]
)
def test_a_plan_that_does_not_fit_is_an_error(old, new):
    text = module_to_text(fused(softmax((4, 64), (1,)))).replace(old, new)
    (fusion,) = parse_module(text).entry.post_order(Opcode.FUSION)
    with pytest.raises(HloError, match="does not fit its computation: run the passes that form"):
        rows_of(fusion)


def test_a_fusion_without_rows_has_no_plan():
    module_ = fused(
        module(["p = f32[8] parameter(0)", "t = f32[8] tanh(p)", "r = f32[8] negate(t)"])
    )
    (fusion,) = module_.entry.post_order(Opcode.FUSION)
    assert rows_of(fusion) is None and "backend_config" not in module_to_text(module_)


SHAPES = [  # dimensions of an array, whether each is reduced in the space f32[6,1,8,5] over {2, 3}
    ((6, 1, 8, 5), [False, None, True, True]),
    ((6, 40), [False, True]),
    ((2, 3, 40), [False, False, True]),
    ((6, 1, 4, 10), [False, None, True, True]),
    ((240,), None),
    ((40, 6), None),
    ((6,), None),
]


@pytest.mark.parametrize(("dims", "flags"), SHAPES)
def test_shapes_that_show_the_rows(dims, flags):
    space = RowSpace((6, 1, 8, 5), (2, 3))
    assert space.flags_of(dims) == flags
    assert space.place_of_root(dims) == (FULL if flags else ROW if dims == (6,) else None)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_keep_their_values(seed):
    check = parse_module(random_rows(seed))
    changed = Pipeline("both", [LoopFusion(), RowFusion()]).run(check)
    if changed:
        check_pass(LoopThenRowFusion(), random_rows(seed), exact=False, rtol=1e-4)


@pytest.mark.parametrize("machine", [CPU_ROWS, CPU_ROWS._replace(joins=True)])
def test_rows_of_components_that_are_put_together(machine):
    """Each lane of a CPU would compute all of them for each element, in each loop over the row."""
    text = softmax((64, 512), (1,)).replace(
        "v1 = f32[64,512] parameter(0)",
        """q = f32[64,256] parameter(0)
        n = f32[64,256] negate(q)
        a = f32[64,256,1] reshape(q)
        b = f32[64,256,1] reshape(n)
        v = f32[64,256,2] concatenate(a, b), dimensions={2}
        v1 = f32[64,512] reshape(v)""",
    )
    found = parse_module(text)
    LoopFusion(together=not machine.joins).run(found)
    RowFusion(machine).run(found)
    fusions = [node for node in found.entry if node.opcode is Opcode.FUSION]
    (rows,) = [f for f in fusions if any(n.opcode is Opcode.REDUCE for n in f.called[0])]
    assert any(n.opcode is Opcode.CONCATENATE for n in rows.called[0]) == machine.joins
