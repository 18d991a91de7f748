"""What is remembered to save time is bounded, is given up with its function, and is emptied by
clear_caches. In processes of their own, with limits far below those of users."""

import gc
import subprocess
import sys
import textwrap
import weakref

import numpy as np

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from tests.sampling import sampled
from xla_backend.process import bounded_cache

_COMMON = """
import gc
import numpy as np
import pyjax
import pyjax.numpy as jnp
from xla_backend.process import bounded_cache

x = jnp.arange(4.0)  # names, and with them caches, come with the first use of one

# Much smaller limits, so that some hundred programs show what many thousands would do.
for budget in bounded_cache._budgets:
    if budget.name != "made once":
        budget.entries = 32

numbers = np.arange(4000, dtype=np.float32)

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def grows(run, n):
    '''Bytes per `n` rounds: what grows does so every time, what is made once does not.'''
    growth = []
    for start in range(0, 4 * n, n):
        before = resident()
        for i in range(start, start + n):
            run(i)
        growth.append(resident() - before)
    return min(growth[1:])
"""

_PROGRAMS = {
    "lengths": """
        def run(i):
            y = jnp.asarray(numbers[:i]) + 1
            assert len(y) == i and (np.asarray(y) == numbers[:i] + 1).all()
        assert grows(run, 400) < 1 << 20
    """,
    "shapes of a jitted function": """
        f = pyjax.jit(lambda x: (x * 3).sum() + x)
        def run(i):
            assert f(jnp.asarray(numbers[: i + 1]))[0] == 3 * numbers[: i + 1].sum()
        assert grows(run, 40) < 1 << 20
        assert len(f._compiled) <= 32
    """,
    "functions that come and go": """
        def run(i):
            assert pyjax.jit(lambda x: x * 2.5 + i)(x)[1] == 2.5 + i
            assert pyjax.grad(pyjax.jit(lambda x: (x * x * i).sum()))(x)[2] == 4 * i
            assert pyjax.lax.fori_loop(0, 3, lambda k, c: c + i, x)[0] == 3 * i
        assert grows(run, 40) < 1 << 20
    """,
    "static values": """
        f = pyjax.jit(lambda x, k: x * k, static_argnums=1)
        assert grows(lambda i: f(x, i), 60) < 1 << 20
    """,
    "structures of trees": """
        f = pyjax.jit(lambda d: sum(d.values()))
        assert grows(lambda i: f({f"k{j}of{i}": x for j in range(i % 5 + 1)}), 60) < 1 << 20
    """,
    "options with many values": """
        def run(i):
            with offset(i):
                x + 1
        from pyjax._config import options
        offset = options.random_seed_offset
        assert grows(run, 100) < 1 << 20
        from pyjax._config import registry
        assert len(registry._context_keys) < 100
    """,
    "an evicted program that is in use": """
        f = pyjax.jit(lambda x: x * 3 + 1)
        f(x)
        held = f._compiled.items()[0][1]
        for i in range(1, 100):
            jnp.asarray(numbers[:i]) * 2
            pyjax.jit(lambda x: x * 5 - i)(x)
        gc.collect()
        assert len(f._compiled) == 0
        np.testing.assert_array_equal(np.asarray(held.program.call([x])[0]), [1, 4, 7, 10])
        np.testing.assert_array_equal(np.asarray(f(x)), [1, 4, 7, 10])
    """,
}


@sampled("name", _PROGRAMS, every=2)
def test_memory_stays(name):
    program = _COMMON + textwrap.dedent(_PROGRAMS[name])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_dropped_function_leaves_nothing():
    class Big:
        def __call__(self, x):
            return lax.fori_loop(0, 2, lambda i, c: c * 2 + self.number, x)

        number = 3

    class Static:
        pass

    fun, static = Big(), Static()
    refs = [weakref.ref(fun), weakref.ref(static)]
    x = jnp.arange(3.0)

    def use(fun, static):
        jitted = pyjax.jit(lambda x, s: fun(x), static_argnums=1)
        jitted(x, static)
        refs.append(weakref.ref(jitted))

    use(fun, static)
    del fun, static
    gc.collect()
    assert [r() for r in refs] == [None] * 3


def test_clear_caches_empties_all_of_them():
    f = pyjax.jit(lambda x: x * 7 - 1)
    x = jnp.arange(5.0)
    f(x)
    x + x
    pyjax.clear_caches()
    left = {
        name: facts["entries"]
        for name, facts in bounded_cache.statistics().items()
        if facts["entries"] and name != "made once"
    }
    assert left == {} and f._cache_size() == 0
    np.testing.assert_array_equal(np.asarray(f(x)), np.arange(5.0) * 7 - 1)
    assert f._cache_size() == 1


def test_clear_caches_gives_back_the_arrays_of_caches():
    """Static indices have starts and programs, which stayed for good."""
    x = jnp.arange(1000.0)

    def in_use():
        pyjax.clear_caches()
        gc.collect()
        return pyjax.devices()[0].memory_stats()["bytes_in_use"]

    assert x[5:7].sum() == 11 and x[None, 3].shape == (1,)
    before = in_use()
    for i in range(50):
        assert x[i : i + 3].shape == (3,)
    assert in_use() == before
