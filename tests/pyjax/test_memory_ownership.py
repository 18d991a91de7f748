"""Who may still read an array's memory when the array is deleted or donated: views, calls in other
threads, forked processes; and what donation refuses."""

from __future__ import annotations

import copy
import gc
import itertools
import multiprocessing
import os
import pickle
import threading
import weakref

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from tests.threads import together
from xla_backend.runtime import memory

N = 1000


def consecutive() -> pyjax.Array:
    return jnp.arange(float(N))


WANT = np.arange(float(N), dtype=np.float32)

VIEWS = {
    "asarray": np.asarray,
    "asarray of a part": lambda x: np.asarray(x)[:],
    "device_get": pyjax.device_get,
    "DLPack": np.from_dlpack,
    "memoryview": memoryview,
    "memoryview of asarray": lambda x: memoryview(np.asarray(x)),
    "base array": lambda x: x.stored_array,
    "from_dlpack of a view": lambda x: jnp.from_dlpack(np.asarray(x)),
    "addressable data": lambda x: np.asarray(x.addressable_data(0)),
    "iterator": lambda x: iter(x),
    "another iterator": lambda x: enumerate(x),
}


def values(view: object) -> np.ndarray:
    if hasattr(view, "__next__"):
        return np.array([float(v[1] if isinstance(v, tuple) else v) for v in view], np.float32)
    return np.asarray(view)


def reuse_memory() -> list[pyjax.Array]:
    """Arrays that get whatever memory of this size is free."""
    return [jnp.full(N, 777.0) for _ in range(40)]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("end", ["delete", "donate", "forget"])
def test_views_hold_the_memory(view: str, end: str) -> None:
    x = consecutive()
    seen = VIEWS[view](x)
    if end == "delete":
        x.delete()
    elif end == "donate":
        result = pyjax.jit(lambda x: x * 0 - 5, donate_argnums=0)(x)
        assert x.is_deleted()
        np.testing.assert_array_equal(result, np.full(N, -5.0))
    else:
        del x
        gc.collect()
    kept = reuse_memory()
    np.testing.assert_array_equal(values(seen), WANT)
    del kept


def test_without_views_the_memory_is_taken_over_and_reused() -> None:
    x = consecutive()
    address = x.unsafe_buffer_pointer()
    y = pyjax.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert y.unsafe_buffer_pointer() == address
    np.asarray(y).sum()  # a view that is gone
    z = pyjax.jit(lambda x: x + 1, donate_argnums=0)(y)
    assert z.unsafe_buffer_pointer() == address
    z.delete()
    assert address in [a.unsafe_buffer_pointer() for a in reuse_memory()]


def test_without_exact_reference_counts_donated_memory_is_copied(monkeypatch) -> None:
    monkeypatch.setattr("xla_backend.targets.cpu.native.counts_are_exact", lambda: False)
    x = consecutive()
    address = x.unsafe_buffer_pointer()
    y = pyjax.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted() and y.unsafe_buffer_pointer() != address
    np.testing.assert_array_equal(y, WANT + 1)


def test_foreign_memory_is_never_donated_into() -> None:
    source = np.arange(float(N), dtype=np.float32)
    x = jnp.from_dlpack(source)
    assert x.unsafe_buffer_pointer() == source.ctypes.data
    y = pyjax.jit(lambda x: x * 2, donate_argnums=0)(x)
    assert x.is_deleted() and y.unsafe_buffer_pointer() != source.ctypes.data
    np.testing.assert_array_equal(source, WANT)
    np.testing.assert_array_equal(y, WANT * 2)


# -- the same array twice -------------------------------------------------------------------------


def add(first, second):
    return first * 2 + second


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@pytest.mark.parametrize("donated", [0, 1, (0, 1)])
def test_one_array_for_a_donated_and_another_argument_is_refused(donated) -> None:
    f = pyjax.jit(add, donate_argnums=donated)
    x = consecutive()
    with pytest.raises(pyjax.errors.JaxRuntimeError) as error:
        f(x, x)
    message = str(error.value)
    assert "'first'" in message and "'second'" in message and "add at" in message
    assert "which is donated" in message and "test_memory_ownership.py" in message
    assert "pass a copy" in message
    np.testing.assert_array_equal(x, WANT)  # nothing is lost
    np.testing.assert_array_equal(f(x, consecutive()), 3 * WANT)


def test_an_alias_is_the_same_array() -> None:
    x = consecutive()
    alias = copy.copy(x)
    alias.buffer = x.buffer  # as two handles of one buffer
    with pytest.raises(pyjax.errors.JaxRuntimeError, match="which is donated"):
        pyjax.jit(add, donate_argnums=0)(x, alias)
    assert not x.is_deleted() and not alias.is_deleted()
    pyjax.jit(lambda x: x * 0, donate_argnums=0)(x)
    np.testing.assert_array_equal(alias, WANT)  # it was a copy that was written to


def test_a_donated_argument_that_the_function_closes_over_is_refused() -> None:
    x = consecutive()
    f = pyjax.jit(lambda y: y * 2 + x, donate_argnums=0)
    with pytest.raises(pyjax.errors.JaxRuntimeError, match="a value that the function closes over"):
        f(x)
    np.testing.assert_array_equal(x, WANT)


def test_ahead_of_time_compiled_functions_refuse_it_too() -> None:
    x = consecutive()
    compiled = pyjax.jit(add, donate_argnums=0).lower(x, x).compile()
    with pytest.raises(
        pyjax.errors.JaxRuntimeError, match="which is donated, and as argument 'second'"
    ):
        compiled(x, x)
    np.testing.assert_array_equal(compiled(x, consecutive()), 3 * WANT)


# -- arguments are checked before any of them is lost ---------------------------------------------


def test_a_deleted_argument_costs_no_other() -> None:
    x, y = consecutive(), consecutive()
    f = pyjax.jit(lambda a, b: (a + 1, b + 1), donate_argnums=(0, 1))
    y.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        f(x, y)
    np.testing.assert_array_equal(x, WANT)


def test_no_memory_for_a_result_costs_no_argument() -> None:
    x = consecutive()
    f = pyjax.jit(lambda x: (x + 1, jnp.ones((1 << 20, 1 << 20)) * x[0]), donate_argnums=0)
    with pytest.raises(MemoryError, match="cannot allocate"):
        f(x)
    np.testing.assert_array_equal(x, WANT)


def test_no_memory_for_a_copy_costs_no_argument(monkeypatch) -> None:
    x, y = jnp.ones(1 << 20), jnp.zeros(1 << 20)
    f = pyjax.jit(lambda x, y: (x + 1, y + 1), donate_argnums=(0, 1))
    view = np.asarray(y)  # y has to be copied
    memory.POOL.trim()
    monkeypatch.setattr(memory.POOL, "limit", memory.POOL.bytes_reserved() + (1 << 20))
    with pytest.raises(MemoryError):
        f(x, y)
    assert (float(x[5]), float(y[5]), view[5]) == (1.0, 0.0, 0.0)


def fail(value):
    raise KeyError("from the callback")


def failing(first, other):
    checked = pyjax.pure_callback(fail, pyjax.ShapeDtypeStruct((N,), np.float32), first)
    return checked * 2 + other


def test_a_program_that_fails_says_what_is_lost() -> None:
    f = pyjax.jit(failing, donate_argnums=0)
    x, y = consecutive(), consecutive()
    with pytest.raises(pyjax.errors.JaxRuntimeError) as error:
        f(x, y)
    (note,) = [note for note in error.value.__notes__ if "donated" in note]
    assert "argument 'first'" in note and "are deleted" in note and "failing at" in note
    assert x.is_deleted()
    np.testing.assert_array_equal(y, WANT)


@pytest.mark.parametrize("donate, others", [((), 2), (0, 1)])
def test_a_program_that_fails_frees_its_results(donate, others: int) -> None:
    f = pyjax.jit(lambda x, y: (failing(x, y), y + 1), donate_argnums=donate)
    y = jnp.ones(N)
    in_use = []
    errors = []
    for _ in range(4):
        with pytest.raises(pyjax.errors.JaxRuntimeError) as error:
            f(jnp.ones(N), y)
        errors.append(error)
        in_use.append(pyjax.devices()[0].memory_stats()["bytes_in_use"])
    # Frames in the tracebacks hold the callback's operand, and the argument unless it is donated;
    # but not the results.
    assert [b - a for a, b in itertools.pairwise(in_use[1:])] == [others * 4096] * 2


# -- other threads --------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["delete", "donate"])
@pytest.mark.parametrize("n", [N, 1 << 20])
def test_a_call_in_another_thread_keeps_its_arguments(n: int, end: str) -> None:
    started, go_on = threading.Event(), threading.Event()

    def wait(one):
        started.set()
        assert go_on.wait(60)
        return np.asarray(one)

    @pyjax.jit
    def f(x):
        one = pyjax.pure_callback(wait, pyjax.ShapeDtypeStruct((), np.float32), x[0])
        return jnp.sum(x * one)

    x = jnp.ones(n)
    results: list[float] = []
    thread = threading.Thread(target=lambda: results.append(float(f(x))))
    thread.start()
    assert started.wait(60)
    if end == "delete":
        x.delete()
    else:
        gone = pyjax.jit(lambda x: x * 0 - 1e30, donate_argnums=0)(x)
    junk = [jnp.full(n, -1e30) for _ in range(10)]
    memory.POOL.trim()
    go_on.set()
    thread.join()
    assert results == [n]
    assert x.is_deleted()
    if end == "donate":
        assert float(gone.max()) == -np.float32(1e30)
    del junk


def test_of_threads_that_donate_one_array_one_wins() -> None:
    f = pyjax.jit(lambda x: x + 1, donate_argnums=0)
    f(consecutive())
    for _ in range(50):
        x = consecutive()

        def donate(x=x) -> object:
            try:
                return np.array(f(x))
            except RuntimeError as error:
                return error

        outcomes = together(*[donate] * 4)
        (won,) = [o for o in outcomes if isinstance(o, np.ndarray)]
        np.testing.assert_array_equal(won, WANT + 1)
        assert all("deleted" in str(o) for o in outcomes if o is not won)


def test_a_callback_may_delete_the_arguments_of_its_program() -> None:
    x = consecutive()

    def delete(value):
        x.delete()
        reuse_memory()
        return np.asarray(value)

    @pyjax.jit
    def f(x):
        y = pyjax.pure_callback(delete, pyjax.ShapeDtypeStruct((N,), np.float32), x[::1] + 0)
        return y + x

    np.testing.assert_array_equal(f(x), 2 * WANT)


def test_what_a_callback_keeps_stays_as_it_was() -> None:
    seen: list[object] = []

    def keep(value):
        seen.append(value)
        seen.append(np.asarray(value))

    @pyjax.jit
    def f(x):
        pyjax.debug.callback(keep, x * 2)
        return x

    f(consecutive())
    kept = reuse_memory()
    for value in seen:
        np.testing.assert_array_equal(value, WANT * 2)
    del kept


# -- results are their own ------------------------------------------------------------------------


@pytest.mark.parametrize("donate", [(), 0])
def test_results_never_share_memory(donate) -> None:
    x = consecutive()
    same, again, changed = pyjax.jit(lambda x: (x, x, x + 1), donate_argnums=donate)(x)
    addresses = {a.unsafe_buffer_pointer() for a in (same, again, changed)}
    assert len(addresses) == 3
    if donate == ():
        assert x.unsafe_buffer_pointer() not in addresses
    for result, want in ((same, WANT), (again, WANT), (changed, WANT + 1)):
        np.testing.assert_array_equal(result, want)


def test_arrays_without_elements() -> None:
    f = pyjax.jit(lambda x, y: (x * 2, y + 1), donate_argnums=(0, 1))
    x = jnp.zeros((0, 3))
    first, second = f(x, jnp.zeros((0, 3)))
    assert first.shape == second.shape == np.asarray(first).shape == (0, 3)
    first.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        f(first, second)


def test_weak_references_and_copies() -> None:
    x = consecutive()
    reference = weakref.ref(x)
    copies = [copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))]
    view = np.asarray(x)
    del x
    assert reference() is None  # a view keeps the memory, not the array
    for c in (*copies, view):
        np.testing.assert_array_equal(c, WANT)
    key = pyjax.random.key(3)
    for same in (copy.copy(key), copy.deepcopy(key)):
        assert same.dtype == key.dtype
        np.testing.assert_array_equal(pyjax.random.key_data(same), pyjax.random.key_data(key))


# -- processes ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_has_memory_of_its_own() -> None:
    x = consecutive()
    large = jnp.ones(1 << 20)
    f = pyjax.jit(lambda x: x * 0 - 5, donate_argnums=0)
    f(consecutive())
    f(jnp.ones(1 << 20))
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:  # whatever happens here, pytest's own copy must not go on
        code = 1
        try:
            right = np.array_equal(x, WANT) and bool((np.asarray(large) == 1).all())
            right &= bool((np.asarray(f(x)) == -5).all()) and bool(
                (np.asarray(f(large)) == -5).all()
            )
            code = 0 if right else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    os.close(read_end), os.close(write_end)
    np.testing.assert_array_equal(x, WANT)
    assert float(large.min()) == float(large.max()) == 1.0


TABLE = None


def look_up(i: int) -> float:
    return float(TABLE[i] * 2)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_arrays_reach_forked_workers() -> None:
    global TABLE
    TABLE = consecutive()
    look_up(3)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(look_up, range(20)) == [2.0 * i for i in range(20)]
    np.testing.assert_array_equal(TABLE, WANT)
