"""Blocks that generators hold open end in any order; each takes back what it did, and no more."""

import contextlib
import contextvars

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax.core import source_info, trace, trace_state
from pyjax.sharding import mesh as meshes


def _held(make):
    """A generator that is inside of a block."""

    def inside():
        with make():
            yield

    generator = inside()
    next(generator)
    return generator


def _held_in_a_stack(make):
    """The same, with the block ended by ExitStack."""

    def inside():
        with contextlib.ExitStack() as stack:
            stack.enter_context(make())
            yield

    generator = inside()
    next(generator)
    return generator


def _at_once():
    return trace_state.set_current_trace(trace.eval_trace)


holders = pytest.mark.parametrize("hold", [_held, _held_in_a_stack])


def _works():
    """Eager and compiled operations, and the state of the thread."""
    assert trace_state.state.traces == [trace.eval_trace]
    np.testing.assert_array_equal(jnp.ones(3) * 2 + 1, 3)
    np.testing.assert_array_equal(pyjax.jit(lambda x: x * 3)(jnp.ones(2)), 3)


TRANSFORMS = {
    "jit": lambda f: pyjax.jit(f)(jnp.ones(3)),
    "grad": lambda f: pyjax.grad(f)(jnp.ones(3)),
    "vmap": lambda f: pyjax.vmap(f)(jnp.ones(3)),
    "jit of grad": lambda f: pyjax.jit(pyjax.grad(f))(jnp.ones(3)),
    "custom_jvp": lambda f: pyjax.jvp(_with_rule(f), (jnp.ones(3),), (jnp.ones(3),)),
    "linearize": lambda f: pyjax.linearize(f, jnp.ones(3)),
}


def _with_rule(f):
    total = pyjax.custom_jvp(lambda x: (x + 1).sum())
    total.defjvp(lambda primals, tangents: (f(primals[0]), tangents[0].sum()))
    return total


@holders
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_opened_while_tracing_and_open_when_that_ends(hold, transform):
    kept = []

    def f(x):
        y = (x + 1).sum()
        kept.append(hold(_at_once))
        return y

    TRANSFORMS[transform](f)
    _works()
    for generator in kept:
        generator.close()
    _works()
    assert not trace_state.entered


@holders
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_opened_before_tracing_and_closed_inside(hold, transform):
    generator = hold(_at_once)

    def f(x):
        before = trace_state.current_trace()
        generator.close()
        assert trace_state.current_trace() is before
        return (x + 1).sum()

    TRANSFORMS[transform](f)
    _works()


@holders
def test_traces_closed_in_the_order_in_which_they_were_opened(hold):
    class Other(trace.Trace):
        pass

    first, second = Other(), Other()
    a = hold(lambda: trace_state.set_current_trace(first))
    b = hold(lambda: trace_state.set_current_trace(second))
    c = hold(_at_once)
    a.close()
    assert trace_state.current_trace() is trace.eval_trace
    c.close()
    assert trace_state.current_trace() is second
    b.close()
    _works()


def test_one_manager_inside_of_itself_and_of_a_jit():
    manager = _at_once()

    @pyjax.jit
    def f(x):
        before = trace_state.current_trace()
        with manager, manager:
            assert trace_state.current_trace() is trace.eval_trace
        assert trace_state.current_trace() is before
        return x + 1

    with manager:
        f(jnp.ones(3))
        traces = list(trace_state.state.traces)
    assert traces == [trace.eval_trace] * 2
    _works()
    with pytest.raises(IndexError):
        manager.__exit__(None, None, None)  # it is open nowhere
    _works()


def _options():
    return pyjax.config.jax_enable_x64, pyjax.config.jax_debug_nans


@holders
def test_options(hold):
    a = hold(lambda: pyjax.enable_x64(True))
    assert _options() == (True, False)
    b = hold(lambda: pyjax.debug_nans(True))
    assert jnp.arange(3).dtype == np.int64
    a.close()
    assert _options() == (False, True)
    assert jnp.arange(3).dtype == pyjax.jit(lambda: jnp.arange(3))().dtype == np.int32
    with pyjax.enable_x64(True):
        assert jnp.arange(3).dtype == pyjax.jit(lambda: jnp.arange(3))().dtype == np.int64
        b.close()
        assert _options() == (True, False)
    assert _options() == (False, False)


@holders
def test_one_option_twice(hold):
    a = hold(lambda: pyjax.enable_x64(True))
    b = hold(lambda: pyjax.enable_x64(False))
    c = hold(lambda: pyjax.enable_x64(True))
    b.close()
    assert _options() == (True, False)
    c.close()
    assert _options() == (True, False)
    a.close()
    assert _options() == (False, False)


def test_one_manager_of_an_option_around_another():
    on, off = pyjax.enable_x64(True), pyjax.enable_x64(False)
    with on, off:
        with on:
            assert jnp.arange(3).dtype == np.int64
        assert jnp.arange(3).dtype == np.int32
    assert _options() == (False, False)


@holders
def test_names(hold):
    a = hold(lambda: pyjax.named_scope("a"))
    b = hold(lambda: pyjax.named_scope("b"))
    again = hold(lambda: pyjax.named_scope("a"))
    assert source_info.current_names() == ("a", "b", "a")
    a.close()
    assert source_info.current_names() == ("b", "a")
    text = pyjax.jit(lambda x: jnp.sin(x)).lower(1.0).as_text(debug_info=True)
    assert "b/a/sin" in text
    b.close()
    assert source_info.current_names() == ("a",)
    again.close()
    assert source_info.current_names() == ()


def _mesh(name):
    return meshes.Mesh(np.array(pyjax.devices()[:1]), (name,))


@holders
@pytest.mark.parametrize(
    "set_one", [lambda m: meshes.use_abstract_mesh(m.abstract_mesh), pyjax.set_mesh]
)
def test_meshes(hold, set_one):
    one, two, equal_to_one = _mesh("i"), _mesh("j"), _mesh("i")
    a = hold(lambda: set_one(one))
    b = hold(lambda: set_one(two))
    c = hold(lambda: set_one(equal_to_one))
    a.close()
    assert meshes.get_abstract_mesh().axis_names == ("i",)
    c.close()
    assert meshes.get_abstract_mesh().axis_names == ("j",)
    b.close()
    assert meshes.context_mesh() is None


@holders
def test_meshes_that_are_entered(hold):
    one, two = _mesh("i"), _mesh("j")
    a, b, c = hold(lambda: one), hold(lambda: two), hold(lambda: one)
    a.close()
    b.close()
    assert meshes.entered_mesh() is one
    c.close()
    assert meshes.entered_mesh().empty


@pytest.mark.parametrize(
    "block", [lambda m: meshes.use_abstract_mesh(m.abstract_mesh), pyjax.set_mesh]
)
def test_statements_that_set_meshes_hold_until_the_block_around_ends(block):
    one, two = _mesh("i"), _mesh("j")
    with block(two):
        for mesh in (one, None, one, None, one):
            pyjax.set_mesh(mesh)
            assert meshes.context_mesh() is mesh
        assert len(meshes._in_context.here()) == 2
        with pyjax.set_mesh(None):
            assert meshes.get_mesh().empty
        assert meshes.get_mesh() is one
    assert meshes.context_mesh() is None
    assert meshes.get_mesh().empty
    with block(two):
        assert meshes.get_abstract_mesh() is two.abstract_mesh
    assert meshes.context_mesh() is None


def test_statements_outside_of_blocks_hold_in_their_context():
    one, two = _mesh("i"), _mesh("j")

    def statements():
        for mesh in (one, two, None, one):
            pyjax.set_mesh(mesh)
            assert meshes.context_mesh() is mesh
        with pyjax.set_mesh(two):
            pyjax.set_mesh(one)
        assert meshes.get_mesh() is one
        return len(meshes._in_context.here())

    assert contextvars.copy_context().run(statements) == 2
    assert meshes.context_mesh() is None


def test_no_mesh_in_a_block_and_the_same_setter_again():
    one = _mesh("i")
    with pyjax.set_mesh(one):
        with pyjax.set_mesh(None):
            assert meshes.context_mesh() is None
            assert meshes.get_mesh().empty
            with pyjax.set_mesh(one):
                assert meshes.get_mesh() is one
        assert meshes.get_mesh() is one
    assert meshes.context_mesh() is None
    setter = pyjax.set_mesh(one)
    for _ in range(2):
        with setter:
            assert meshes.get_mesh() is one
        assert meshes.context_mesh() is None
