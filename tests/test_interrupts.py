"""A signal handler that raises wherever Python runs handlers: no state of a thread stays as it was
inside a block, no lock stays held, nobody waits for ever, and the same call works again."""

import contextlib
import signal
import sys

import numpy as np
import pytest
from pyjax._config import blocks, options, registry

import pyjax
import pyjax.numpy as jnp
from pyjax.api import compile_time, naming
from pyjax.core import source_info, trace, trace_state
from pyjax.runtime import array, program
from pyjax.sharding import mesh as meshes
from tests.interrupts import check_locks, each_interrupt, thread_state
from tests.threads import together
from xla_backend.process import bounded_cache, forks
from xla_backend.runtime import buffer

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGUSR1") or sys.implementation.name != "cpython",
    reason="needs SIGUSR1, and a tracer of CPython's instructions",
)


class _Trace(trace.Trace):
    pass


_MESH = meshes.Mesh(np.array(pyjax.devices()[:1]), ("i",))


BLOCKS = {
    "set_current_trace": lambda: trace_state.set_current_trace(_Trace()),
    "ensure_compile_time_eval": pyjax.ensure_compile_time_eval,
    "named_scope": lambda: pyjax.named_scope("name"),
    "option": lambda: pyjax.enable_x64(True),
    "mesh": lambda: _MESH,
    "use_abstract_mesh": lambda: meshes.use_abstract_mesh(_MESH.abstract_mesh),
}
_MODULES = (trace_state, blocks, registry, source_info, naming, compile_time, meshes, contextlib)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_puts_back_what_was(name):
    before = thread_state()

    def work():
        with BLOCKS[name]():
            assert thread_state() != before or name == "ensure_compile_time_eval"
            with BLOCKS[name]():
                assert len(str(thread_state())) > 0
        assert thread_state() == before

    # This module too: an interrupt after the last call inside and after the block's end.
    count = sum(1 for _ in _checked(each_interrupt(work, *_MODULES, sys.modules[__name__]), before))
    assert count > 20
    assert not trace_state.entered


def _checked(interrupts, before):
    for number in interrupts:
        assert thread_state() == before, f"after interrupt {number}"
        yield number


def test_blocks_work_as_decorators_in_stacks_and_by_hand():
    before = thread_state()
    for make in BLOCKS.values():
        with contextlib.ExitStack() as stack:
            stack.enter_context(make())
            stack.enter_context(make())
        assert thread_state() == before
        manager = make()
        manager.__enter__()
        manager.__exit__(None, None, None)
        assert thread_state() == before
        with pytest.raises(ZeroDivisionError), make():
            raise ZeroDivisionError
        assert thread_state() == before
    assert pyjax.enable_x64(True)(lambda: jnp.arange(3).dtype)() == np.int64
    assert jnp.arange(3).dtype == np.int32


def test_set_mesh_as_a_block():
    before = thread_state()
    with pyjax.set_mesh(_MESH):
        assert meshes.get_mesh() is _MESH
    assert thread_state() == before


def test_a_cache_after_interrupts():
    budget = bounded_cache.Budget("interrupted", entries=8, nbytes=80)
    cache = bounded_cache.BoundedCache(budget, lambda value: 10)

    def work():
        for key in range(12):
            assert cache.make(key % 10, lambda key=key: key % 10) == key % 10
        cache.put("more", 1)
        cache.alias("more", "other")
        cache.find(3)
        cache.clear()
        cache.make("last", lambda: 2)

    for _ in each_interrupt(work, bounded_cache):
        assert together(lambda: cache.make(3, lambda: 3)) == [3]
        assert cache.make(5, lambda: 5) == 5
        assert all(making.done for making in bounded_cache._making.values())
    for key in range(20, 40):  # what interrupts have left goes
        cache.put(key, key)
    assert len(cache) == len(budget) <= 8
    assert budget.held_bytes == 10 * len(budget)
    assert set(cache.hot) <= set(cache._entries) and len(cache._keys) == len(cache)


def test_a_signal_handler_may_use_the_cache_that_it_interrupts():
    budget = bounded_cache.Budget("used by a handler", entries=8, nbytes=80)
    cache = bounded_cache.BoundedCache(budget, lambda value: 10)

    def work():
        for key in range(12):
            assert cache.make(key % 10, lambda key=key: key % 10) == key % 10
        cache.clear()

    def handler():
        assert cache.make(4, lambda: 4) == 4
        cache.clear()
        for key in range(10):
            cache.put(key, key)

    for _ in each_interrupt(work, bounded_cache, handler=handler):
        assert len(budget) <= 8
    for key in range(20, 40):
        cache.put(key, key)
    assert len(cache) == len(budget) <= 8
    assert budget.held_bytes == 10 * len(budget)


def test_equal_values_stay_one_object():
    class Value:
        pass

    table = bounded_cache.InternTable()

    def work():
        first = table.intern("a", Value())
        assert table.intern("a", Value()) is first
        del first
        table.intern("a", Value())

    seen = []
    for _ in each_interrupt(
        work, bounded_cache, handler=lambda: seen.append(table.intern("a", Value()))
    ):
        assert table.intern("a", seen[-1]) is seen[-1]
        seen.clear()


def test_a_donated_argument_is_there_or_said_to_be_deleted():
    add = pyjax.jit(lambda x, y: x + y, donate_argnums=0)
    one = jnp.ones(100)
    add(jnp.ones(100), one)
    kept = []

    def work():
        add(kept[-1], one)

    kept.append(jnp.ones(100))
    there = 0
    interrupts = each_interrupt(work, program)
    while True:
        kept.append(jnp.ones(100))
        if next(interrupts, None) is None:
            break
        if not kept[-1].is_deleted():
            there += 1
            np.testing.assert_array_equal(kept[-1], 1)
    assert there > 5
    assert kept[-1].is_deleted()


def test_an_option_changes_with_its_cache_key_or_not_at_all():
    def work():
        pyjax.config.update("jax_enable_x64", True)

    def key_says_x64():
        return "jax_enable_x64=True" in repr(registry.trace_context())

    try:
        for _ in each_interrupt(work, registry):
            assert key_says_x64() == options.enable_x64.value
            pyjax.config.update("jax_enable_x64", False)
            assert not key_says_x64()
    finally:
        pyjax.config.update("jax_enable_x64", False)


def test_a_fork_gives_back_all_locks():
    class Alarm(Exception):
        pass

    def alarm():
        raise Alarm

    def work():
        for hook in _HOOKS:
            with contextlib.suppress(Alarm):  # as Python does, which prints them
                hook()

    for _ in each_interrupt(work, forks, handler=alarm):
        together(check_locks)
        assert not forks._forks


_HOOKS = (forks._before, forks._before, forks._after, forks._after_in_parent)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_numpy_does_not_forget_an_interrupt(dtype):
    """It forgets the error of who is asked for a buffer, and makes its array in another way. Those
    of bfloat16 have no buffer to begin with."""
    # What was asked for once is given without a line of Python: each has another shape.
    shapes = iter([(jnp.ones(n, dtype), n) for n in range(1001, 1101)])

    def work():
        x, total = next(shapes)
        view = np.asarray(x)
        assert view.astype(int).sum() == total  # Python code: an exception raised later arrives

    count = sum(1 for _ in each_interrupt(work, array, buffer))
    assert count > 5
