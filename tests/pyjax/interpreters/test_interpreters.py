"""Interpreters on throw-away primitives: staging, jvp, partial evaluation, transposition,
batching."""

from __future__ import annotations

import time

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.core.avals import ShapedArray
from pyjax.core.effects import Effect, lowerable_effects
from pyjax.core.jaxpr import eval_jaxpr, jaxpr_as_fun
from pyjax.core.structural import add_jaxvals, mul, neg
from pyjax.interpreters import ad, batching, dead_code, linearize, partial_eval
from pyjax.interpreters.hlo import lower_jaxpr_to_module
from pyjax.interpreters.lift_constants import constvars_as_inputs
from pyjax.interpreters.rules import (
    FullJvp,
    Unsupported,
    all_primitives,
    batching_rules,
    define_primitive,
    jvp_rules,
    lowering_rules,
    transpose_rules,
)
from pyjax.interpreters.tangents import UndefinedPrimal, Zero
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.module import source_places
from xla_backend.hlo.opcode import Opcode

F32 = ShapedArray((3,), np.float32)
X = np.arange(3, dtype=np.float32) + 0.5
ONES = np.ones(3, np.float32)
TRACE = partial_eval.trace_to_jaxpr


class Noise(Effect):
    name = "Noise"


noise = Noise()
lowerable_effects.add_type(Noise)
effectful_p = define_primitive(
    "test_effectful",
    abstract_eval=lambda x: x,
    jvp=Unsupported("test_effectful has no derivative"),
    transpose=Unsupported("test_effectful is not linear"),
    batching=Unsupported("test_effectful is not batched"),
    lowering=Unsupported("test_effectful is not lowered"),
    effects=lambda x: frozenset({noise}),
)
# Two outputs: (x + y, x * y), with a full rule; its transposition has no rule of its own.
sum_product_p = define_primitive(
    "test_sum_product",
    multiple_results=True,
    abstract_eval=lambda x, y: [x, x],
    jvp=FullJvp(lambda p, t: _sum_product_jvp(p, t)),
    transpose=Unsupported("not linear"),
    batching=lambda size, args, dims: (
        sum_product_p.bind(*[batching.bdim_at_front(x, d, size) for x, d in zip(args, dims)]),
        [0, 0],
    ),
    lowering=lambda ctx, x, y: [ctx.builder.add(op, (x, y)) for op in _sum_and_product()],
)


def _sum_and_product():

    return Opcode.ADD, Opcode.MULTIPLY


def _sum_product_jvp(primals, tangents):
    x, y = primals
    dx, dy = map(ad.instantiate_zeros, tangents)
    total = add_jaxvals(dx, dy)
    return sum_product_p.bind(x, y), [total, add_jaxvals(mul(dx, y), mul(x, dy))]


def f(x, y):
    a, b = sum_product_p.bind(x, lax.sin(y))
    return [mul(a, b), a]


def f_numpy(x, y):
    a, b = x + np.sin(y), x * np.sin(y)
    return a * b, a


def test_staging_and_lowering():
    closed, out_avals = TRACE(f, [F32, F32])
    assert out_avals == [F32, F32]
    assert [e.primitive.name for e in closed.eqns] == ["sin", "test_sum_product", "mul"]
    module = lower_jaxpr_to_module(closed, "f")
    np.testing.assert_allclose(evaluate(module, [X, 2 * X]), f_numpy(X, 2 * X), rtol=1e-6)
    np.testing.assert_allclose(jaxpr_as_fun(closed)(X, 2 * X), f_numpy(X, 2 * X), rtol=1e-6)


def test_metadata_points_at_the_users_line():
    closed, _ = TRACE(f, [F32, F32])
    module = lower_jaxpr_to_module(closed, "f")
    sines = [i for i in module.entry.instructions if i.opcode.value == "sine"]
    place = source_places(sines[0])[0]
    assert place.file.endswith("test_interpreters.py") and place.function == "f"
    assert place.line == f.__code__.co_firstlineno + 1
    assert sines[0].metadata.op_name.endswith("sin")


def test_donation_pairs_equal_types():
    closed, _ = TRACE(lambda x, y: [mul(x, x), neg(y)], [F32, F32])
    module = lower_jaxpr_to_module(closed, "f", donated=(False, True))
    ((alias),) = module.aliases
    assert (alias.parameter, alias.output_index) == (1, (0,))


def test_jvp_and_vjp():
    outs, tangents = ad.jvp(f, [X, X], [ONES, Zero(F32)])
    np.testing.assert_allclose(outs, f_numpy(X, X), rtol=1e-6)
    sine = np.sin(X)
    np.testing.assert_allclose(tangents[0], X * sine + (X + sine) * sine, rtol=1e-5)
    _, pullback = linearize.vjp(f, [X, X])
    dx, dy = pullback([ONES, Zero(F32)])
    np.testing.assert_allclose(dx, X * sine + (X + sine) * sine, rtol=1e-5)
    expected = (X * sine + (X + sine) * X) * np.cos(X)
    np.testing.assert_allclose(dy, expected, rtol=1e-5)
    # No path from a cotangent: symbolic zeros all the way.
    assert all(type(ct) is Zero for ct in pullback([Zero(F32), Zero(F32)]))


def test_batching():
    b = np.stack([X, 2 * X], axis=1)
    outs, dims = batching.batch_with_dims(f, [b, X], [1, None], 2)
    assert dims == [0, 0]
    np.testing.assert_allclose(outs[0], [f_numpy(X, X)[0], f_numpy(2 * X, X)[0]], rtol=1e-6)
    with pytest.raises(ValueError, match="out_axes is None"):
        batching.batch(f, [b, X], [1, None], [None, 0], 2)


def test_derived_jaxprs():
    closed, _ = TRACE(f, [F32, F32])
    jvp_closed, nonzero = ad.jvp_jaxpr(closed, [False, True])
    assert nonzero == [True, True] and len(jvp_closed.in_avals) == 3
    assert ad.jvp_jaxpr(closed, [False, True])[0] is jvp_closed  # remembered
    known, staged, unknown_out, residuals = partial_eval.partial_eval_jaxpr(
        jvp_closed, [False, False, True], False
    )
    assert unknown_out == [False, False, True, True]
    assert len(known.out_avals) == 2 + len(residuals)
    values = known.eval(X, X)
    tangents = staged.eval(*values[2:], ONES)
    expected = ad.jvp(f, [X, X], [Zero(F32), ONES])[1]
    np.testing.assert_allclose(tangents, expected, rtol=1e-6)
    linear_in = [False] * len(residuals) + [True]
    transposed, nonzero = ad.transpose_jaxpr(staged, linear_in, [True, False])
    assert nonzero == [True]
    (ct,) = transposed.eval(*values[2:], ONES)
    np.testing.assert_allclose(ct, linearize.vjp(f, [X, X])[1]([ONES, Zero(F32)])[1], rtol=1e-5)
    batched, out_batched = batching.batch_jaxpr(closed, 4, [True, False], [True, False])
    assert out_batched == [True, True] and batched.out_avals[0].shape == (4, 3)


def test_forced_unknown_outputs():
    closed, _ = TRACE(lambda x, y: [lax.sin(x), y], [F32, F32])
    known, staged, unknown_out, _ = partial_eval.partial_eval_jaxpr(closed, [False, True], True)
    assert unknown_out == [True, True]
    np.testing.assert_allclose(staged.eval(*known.eval(X), ONES)[0], np.sin(X), rtol=1e-6)


def test_dce():
    closed, _ = TRACE(lambda x, y: [lax.sin(x), lax.cos(y)], [F32, F32])
    small, used = dead_code.dce_jaxpr(closed.jaxpr, [False, True])
    assert used == [False, True] and [e.primitive.name for e in small.eqns] == ["cos"]
    _, kept = dead_code.dce_jaxpr(closed.jaxpr, [False, True], instantiate=True)
    assert kept == [True, True]


def test_effects_survive_dce():
    closed, _ = TRACE(lambda x: [effectful_p.bind1(x), x], [F32])
    assert closed.effects == {noise}
    small, used = dead_code.dce_jaxpr(closed.jaxpr, [False, True])
    assert len(small.eqns) == 1 and used == [True] and small.effects == {noise}


def test_missing_rules_say_why():
    with pytest.raises(NotImplementedError, match="test_effectful has no derivative"):
        ad.jvp(lambda x: [effectful_p.bind1(x)], [X], [ONES])
    with pytest.raises(NotImplementedError, match="test_effectful is not batched"):
        batching.batch_with_dims(lambda x: [effectful_p.bind1(x)], [X], [0], 3)
    closed, _ = TRACE(lambda x: [effectful_p.bind1(x)], [F32])
    with pytest.raises(NotImplementedError, match="test_effectful is not lowered"):
        lower_jaxpr_to_module(closed, "f")
    with pytest.raises(NotImplementedError, match="sin"):
        jaxpr = TRACE(lambda x: [lax.sin(x)], [F32])[0].jaxpr
        ad.backward_pass(jaxpr, [], [UndefinedPrimal(F32)], [ONES])


def test_every_primitive_has_every_rule():
    for name, primitive in all_primitives.items():
        for table in (jvp_rules, transpose_rules, batching_rules, lowering_rules):
            assert table.get(primitive) is not None, f"{name} has no {table.name} rule"


def test_constants_of_outer_traces_become_constants():
    def outer(x):
        closed, _ = TRACE(lambda y: [mul(y, x)], [F32])
        assert closed.consts[0] is x
        return eval_jaxpr(constvars_as_inputs(closed.jaxpr), [], x, x)

    closed, _ = TRACE(outer, [F32])
    np.testing.assert_allclose(closed.eval(X)[0], X * X)


def test_tracing_is_linear_in_equations():
    def chain(n):
        def fun(x):
            for _ in range(n // 2):
                x = neg(mul(x, x))
            return [x]

        return fun

    def seconds(n):
        start = time.thread_time()
        closed, _ = TRACE(chain(n), [F32])
        assert len(closed.eqns) == n
        return time.thread_time() - start

    small, large = (min(seconds(n) for _ in range(3)) for n in (2000, 20_000))
    assert large < 40 * small
    # The budget is 15 us per equation; the bound leaves room for a loaded machine.
    assert small / 2000 < 150e-6


def test_converted_weak_literals_stay_weak_when_replayed():
    inlined = pyjax.jit(lambda x: x - 1, inline=True)
    closed = pyjax.make_jaxpr(lambda x: inlined(x))(3)
    assert [v.weak_type for v in closed.out_avals] == [True]
    assert (-7 // jnp.asarray(3)).weak_type
    assert not (-7 // jnp.asarray(3, np.int32)).weak_type
