"""linear_util, api_util, partial_eval and small functions of core: what libraries with
transformations of their own build on."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import api_util, core, tree_util
from pyjax.core import source_info
from pyjax.extend import core as extend_core
from pyjax.extend import linear_util as lu
from pyjax.extend import source_info_util
from pyjax.interpreters import partial_eval as pe

F32 = core.ShapedArray((3,), np.dtype(np.float32))


def pair(x, y):
    return {"sum": x + y}


@lu.transformation2
def scaled(f, by, *args):
    return f(*[a * by for a in args])


@lu.transformation
def scaled_by_generator(by, *args):
    result = yield tuple(a * by for a in args), {}
    yield result


@lu.transformation_with_aux
def counted_by_generator(*args):
    result = yield args, {}
    yield result, len(args)


def test_transformations_compose_and_compare() -> None:
    fun = lu.wrap_init(pair)
    for scale in (scaled, scaled_by_generator):
        twice = scale(scale(fun, 2), 5)
        assert twice.call_wrapped(1, 2) == {"sum": 30}
        assert twice == scale(scale(fun, 2), 5) != scale(fun, 10)
        assert hash(twice) == hash(scale(scale(fun, 2), 5))
    counted, count = counted_by_generator(fun)
    with pytest.raises(lu.StoreException, match="empty"):
        count()
    assert (counted.call_wrapped(1, 2), count()) == ({"sum": 3}, 2)
    with pytest.raises(lu.StoreException, match="occupied"):
        counted.call_wrapped(1, 2)
    _, other = counted_by_generator(fun)
    assert lu.merge_linear_aux(count, other) == (True, 2)
    assert lu.merge_linear_aux(other, count) == (False, 2)
    with pytest.raises(lu.StoreException, match="both"):
        lu.merge_linear_aux(count, count)


def test_calls_are_remembered() -> None:
    calls = []

    @lu.cache
    def called(fun, factor):
        calls.append(factor)
        return fun.call_wrapped(1, 2), factor

    leaves, tree = tree_util.tree_flatten((1, 2))
    for _ in range(2):
        fun, out_tree = api_util.flatten_fun_nokwargs(lu.wrap_init(pair), tree)
        assert called(fun, 3) == ([3], 3)
        assert out_tree() == tree_util.tree_structure({"sum": 0})
    assert calls == [3] and leaves == [1, 2]
    called(lu.wrap_init(pair), 4)
    called.cache_clear()
    called(lu.wrap_init(pair), 4)
    assert calls == [3, 4, 4]


def test_arguments() -> None:
    leaves, tree = tree_util.tree_flatten(((1,), {"y": 2}))
    fun, out_tree = api_util.flatten_fun(lu.wrap_init(pair), tree)
    assert (fun.call_wrapped(*leaves), str(out_tree())) == ([3], "PyTreeDef({'sum': *})")
    fun, dynamic = api_util.argnums_partial(lu.wrap_init(pair), 1, (10, 2))
    assert (dynamic, fun.call_wrapped(5)) == ((2,), {"sum": 15})
    with pytest.raises(ValueError, match="not hashable"):
        api_util.argnums_partial(lu.wrap_init(pair), 1, ([], 2))
    structure = tree_util.tree_structure(((1, [2, 3]), {"k": 4, "z": 5}))
    assert api_util.donation_vector((1,), ("k",), structure) == (False, True, True, True, False)
    axes = tree_util.tree_structure((1, {"a": 2, "b": 3}))
    assert api_util.flatten_axes("in_axes", axes, (0, None)) == [0, None, None]
    with pytest.raises(ValueError, match="in_axes specification must be a tree prefix"):
        api_util.flatten_axes("in_axes", axes, (0, None, 1))
    assert api_util.rebase_donate_argnums((0, 2, 3), (1,)) == (0, 1, 2)
    with pytest.raises(ValueError, match="cannot intersect"):
        api_util.rebase_donate_argnums((1,), (1,))
    assert api_util.safe_map(lambda a, b: a + b, [1, 2], [3, 4]) == [4, 6]
    with pytest.raises(ValueError):
        api_util.safe_map(lambda a, b: a, [1], [])
    assert api_util.shaped_abstractify(np.ones(3)) is F32
    info = api_util.debug_info("jit", pair, (1, [2, 3]), {})
    assert (info.arg_names, info.func_name) == (("x", "y[0]", "y[1]"), "pair")


def test_jaxprs_of_wrapped_functions() -> None:
    inner = jnp.arange(3.0)
    fun = lu.wrap_init(lambda x, y: [x + y, y * inner])
    jaxpr, avals, consts = pe.trace_to_jaxpr_dynamic(fun, [F32, F32])
    assert (len(jaxpr.eqns), avals) == (2, [F32, F32])
    assert consts[0] is inner
    known = pe.PartialVal.known(jnp.ones(3))
    jaxpr, results, consts = pe.trace_to_jaxpr_nounits(fun, [pe.PartialVal.unknown(F32), known])
    assert [e.primitive.name for e in jaxpr.eqns] == ["add"]
    assert [r.is_known() for r in results] == [False, True]
    assert results[1].get_known().tolist() == [0, 1, 2]
    assert (results[0].get_aval(), len(consts)) == (F32, 1)
    (total,) = core.eval_jaxpr(jaxpr, consts, jnp.ones(3))
    assert total.tolist() == [2, 2, 2]
    jaxpr, results, _ = pe.trace_to_jaxpr_nounits(
        fun, [pe.PartialVal.unknown(F32), known], instantiate=True
    )
    assert not any(r.is_known() for r in results) and len(jaxpr.outvars) == 2
    smaller, used = pe.dce_jaxpr(jaxpr, [False, True])
    assert (len(smaller.eqns), used) == (0, [False])
    assert pe.dce_jaxpr(jaxpr, True)[1] == [True]


def test_small_functions_of_core() -> None:
    big = core.ShapedArray((3, 4), np.dtype(np.float32))
    assert core.mapped_aval(4, -1, big) is F32
    assert core.unmapped_aval(4, 1, F32) is big and core.unmapped_aval(4, None, F32) is F32
    with pytest.raises(ValueError, match="has not 5 elements"):
        core.mapped_aval(5, 0, big)
    assert core.gensym()(F32).aval is F32
    assert core.concrete_or_error(int, 3.0) == 3
    with pytest.raises(pyjax.errors.ConcretizationTypeError, match="for the axis"):
        pyjax.jit(lambda x: core.concrete_or_error(int, x, "for the axis"))(3)
    assert core.primal_dtype_to_tangent_dtype(np.dtype(np.int32)) == pyjax.float0
    assert core.is_constant_shape((1, 2)) and core.is_constant_dim(3)

    def asked(x):
        seen.append(
            (
                core.unsafe_am_i_under_a_jit_DO_NOT_USE(),
                core.unsafe_am_i_under_a_vmap_DO_NOT_USE(),
            )
        )
        with core.eval_context(), extend_core.take_current_trace() as trace:
            assert trace.is_eval
        return x

    seen: list[tuple[bool, bool]] = []
    for transform in (lambda f: f, pyjax.jit, pyjax.vmap, lambda f: pyjax.jit(pyjax.vmap(f))):
        transform(asked)(jnp.ones(2))
    assert seen == [(False, False), (True, False), (False, True), (True, True)]


def test_places_of_equations() -> None:
    def f(x):
        with source_info_util.extend_name_stack("scope"):
            kept.append(source_info_util.current())
            return jnp.sin(x)

    kept: list = []
    closed = pyjax.make_jaxpr(f)(1.0)
    (eqn,) = closed.eqns
    text = source_info_util.summarize(eqn.source_info)
    assert text.startswith(__file__) and text.endswith("(f)")
    assert (kept[0].function_name, kept[0].names) == ("f", ("scope",))
    assert eqn.replace(source_info=None).source is None
    made = core.new_jaxpr_eqn(eqn.invars, eqn.outvars, eqn.primitive, eqn.params, eqn.effects)
    assert made.source_info is None and source_info_util.summarize(None) == "unknown"
    assert closed.invars == closed.jaxpr.invars and closed.outvars == closed.jaxpr.outvars
    assert closed.jaxpr.in_avals == closed.in_avals and closed.jaxpr.out_avals == closed.out_avals
    assert closed.map_jaxpr(lambda j: j.replace(outvars=j.invars)).jaxpr.outvars == closed.invars


def test_files_of_libraries_are_hidden(monkeypatch) -> None:
    monkeypatch.setattr(source_info, "excluded_paths", [])
    assert not source_info.is_internal_file(__file__)
    source_info_util.register_exclusion(__file__)
    assert source_info.is_internal_file(__file__)
    source_info.internal_files.clear()
