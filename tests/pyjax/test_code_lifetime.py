"""Whoever can call generated code keeps it: replaced, cleared and dropped programs, in processes of
their own, because code that is gone takes the process with it."""

import subprocess
import sys
import textwrap
from pathlib import Path

from tests.sampling import sampled

_COMMON = """
import gc, sys, threading
import numpy as np
import pyjax
import pyjax.numpy as jnp
from tests.threads import together

sys.setswitchinterval(1e-5)

def churn():
    '''Programs that lie where freed ones were.'''
    gc.collect()
    for k in range(6):
        pyjax.jit(lambda x: x * (k + 5.0) - 2.0)(jnp.arange(5.0))
"""

_PROGRAMS = {
    "first calls of eight threads": """
        arrays = [jnp.arange(float(n)) for n in range(3, 11)]
        def work(x):
            right = np.arange(1.0, len(x) + 1)
            for _ in range(50):
                np.testing.assert_array_equal(np.asarray(x + 1), right)
        together(*[lambda x=x: work(x) for x in arrays])
        for x in arrays:
            work(x)
    """,
    "calls after clear_caches": """
        f = pyjax.jit(lambda x: x * 3 + 1)
        x = jnp.arange(7.0)
        f(x)
        pyjax.clear_caches()
        churn()
        np.testing.assert_array_equal(np.asarray(f(x)), np.arange(7.0) * 3 + 1)
    """,
    "clear_cache during calls": """
        f = pyjax.jit(lambda x: (x @ x).sum() + x)
        x = jnp.ones((24, 24))
        def call():
            for _ in range(40):
                np.testing.assert_array_equal(np.asarray(f(x)), np.full((24, 24), 24.0**3 + 1))
        def clear():
            for _ in range(200):
                f.clear_cache()
                pyjax.clear_caches()
                gc.collect(0)
        together(call, call, call, clear)
    """,
    "the last reference dropped during a run": """
        def slow(x):
            return pyjax.lax.fori_loop(0, 3_000_000, lambda i, c: c * 0.5 + 1.0, x)
        box = [pyjax.jit(slow)]
        x = jnp.zeros((16,))
        box[0](x)
        started = threading.Event()
        def call():
            run = box[0]
            started.set()
            results.append(run(x))
        def drop():
            started.wait()
            box.clear()
            pyjax.clear_caches()
            churn()
        results = []
        together(call, drop)
        np.testing.assert_array_equal(np.asarray(results[0]), np.full(16, 2.0))
    """,
    "a host callback of a cleared program": """
        from pyjax.lax import linalg
        call = pyjax.jit(lambda a: linalg.eigh(a)[1])
        a = jnp.eye(20) * 4
        call(a)
        ((_, compiled), *_) = call._compiled.items()
        del call
        pyjax.clear_caches()
        churn()
        np.testing.assert_array_equal(np.asarray(compiled.program.call([a])[0]), np.full(20, 4))
    """,
    "a large constant of a cleared program": """
        from xla_backend.hlo.parser import parse_module
        from xla_backend import library
        numbers = ", ".join(["3"] * 20_000)
        call = library.compile(parse_module(
            "ENTRY e { x = f32[20000] parameter(0) c = f32[20000] constant({" + numbers[:-1] + "5})"
            " ROOT r = f32[20000] add(x, c) }")).loaded.direct.call
        churn()
        np.full(20_000, 9, np.float32)
        x, out = np.ones(20_000, np.float32), np.zeros(20_000, np.float32)
        call(x.ctypes.data.to_bytes(8, "little"), out.ctypes.data.to_bytes(8, "little"))
        assert (out[:-1] == 4).all() and out[-1] == 6
    """,
    "a thread that runs a program while the process ends": """
        f = pyjax.jit(lambda x: pyjax.lax.fori_loop(0, 300_000_000, lambda i, c: c * 0.5 + 1, x))
        f.lower(jnp.zeros(16)).compile()
        started = threading.Event()
        def call():
            started.set()
            f(jnp.zeros(16))
        threading.Thread(target=call, daemon=True).start()
        started.wait()
        f.clear_cache()
    """,
    "programs in cycles and globals while the process ends": """
        from pyjax.lax import linalg
        f = pyjax.jit(lambda a: linalg.eigh(a)[0] + a @ a)
        f.self = f
        f(jnp.eye(300))
        sys.kept = [f, jnp.eye(300), f._compiled]
    """,
}


@sampled("name", _PROGRAMS, every=2)
def test_code_lives_as_long_as_its_callers(name):
    program = _COMMON + textwrap.dedent(_PROGRAMS[name])
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
