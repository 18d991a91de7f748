"""Processes that end, or fork, while programs run on first code."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

# After `hold(seconds)` code is generated when `go` is set or the process ends, and takes so long.
_START = """
import atexit, os, sys, threading, time
import numpy as np
import pyjax, pyjax.numpy as jnp
from tests.first_code import *
from xla_backend.process import later
from xla_backend.targets.cpu import tiers
tiers.first_code = stand_in
pyjax.config.update("jax_first_code", True)
def program(number):
    return pyjax.jit(lambda x: jnp.sin(x * number).cumsum() - x.sum())
x = np.arange(5, dtype=np.float32)
generate, go, generated = tiers._generate, threading.Event(), []
def hold(seconds=0.0):
    def wait(*arguments, **named):
        generated.append(None)
        while not go.is_set() and not later.is_over():
            time.sleep(0.01)
        time.sleep(seconds)
        return generate(*arguments, **named)
    tiers._generate = wait
def say(*what):
    print(*what, flush=True)
"""


# Python 3.12 and later warn of each fork where there are threads.
_FLAGS = ("-X", "faulthandler", "-W", "ignore:This process:DeprecationWarning")


def run(code: str, cache: Path, interrupt: bool = False, **more: str) -> tuple[int, str, str]:
    process = subprocess.Popen(
        [sys.executable, *_FLAGS, "-c", _START + textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYJAX_CACHE_DIR": str(cache)} | more,
    )
    out = ""
    try:
        if interrupt:
            assert process.stdout is not None
            out = process.stdout.readline()
            process.send_signal(signal.SIGINT)
        rest, error = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode, out + rest, error


def programs(cache: Path) -> int:
    """How many are kept."""
    return len(list(cache.glob("*/*.program"))) - 1


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with what all processes need, and one program."""
    folder = tmp_path_factory.mktemp("cache")
    assert run("program(0.125)(x)\npyjax.compilation_barrier()", folder) == (0, "", "")
    return folder


@pytest.fixture
def cache(warm: Path, tmp_path: Path) -> Path:
    shutil.copytree(warm, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_llvm_is_not_loaded_before_it_compiles() -> None:
    code = "import sys, xla_backend.targets.cpu.tiers; assert 'llvmlite' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("end", ["pass", "sys.exit(3)", "late.start()"])
def test_what_is_left_is_done_at_the_end(end: str, cache: Path) -> None:
    code = f"""
        hold(0.1)
        for number in (1.25, 1.5, 1.75): program(number)(x)
        assert later.waiting() == 3
        late = threading.Thread(target=lambda: (time.sleep(0.2), program(9)(x)))
        {end}
    """
    assert run(code, cache) == (3 if "exit" in end else 0, "", "")
    assert programs(cache) == 3 + ("late" in end)


def test_nothing_is_waited_for_if_nothing_is_kept(cache: Path) -> None:
    code = """
        hold()
        for number in range(9): program(number + 0.5)(x)
        say(len(generated), later.waiting())
        from xla_backend.process import background
        atexit.unregister(background._end)
        atexit.register(lambda: (background._end(), say(len(generated), later.waiting())))
    """
    no_cache = {"PYJAX_ENABLE_COMPILATION_CACHE": "0"}
    assert run(code, cache, **no_cache) == (0, "1 9\n1 0\n", "")


def test_an_interrupt_at_the_end_leaves_the_rest(cache: Path) -> None:
    code = """
        hold(1.0)
        for number in range(12): program(number + 0.5)(x)
        def tell():
            while not later.is_over(): time.sleep(0.01)
            time.sleep(0.2)
            say("now")
        threading.Thread(target=tell, daemon=True).start()
    """
    status, out, error = run(code, cache, interrupt=True)
    assert (status, out) == (0, "now\n") and "KeyboardInterrupt" in error
    assert programs(cache) < 9


def test_programs_may_be_called_and_made_at_the_very_end(cache: Path) -> None:
    code = """
        known = program(1.25)
        before = np.asarray(known(x)).tobytes()
        def late():
            say(later.is_over())
            say(np.asarray(known(x)).tobytes() == before, is_switched(in_tiers()[0]))
            program(1.75)(x)
            say(later.waiting(), len(in_tiers()))
        from xla_backend.process import background
        for _ in range(2):
            atexit.unregister(background._end)
        atexit.register(late)
        atexit.register(background._end)
    """
    assert run(code, cache) == (0, "True\nTrue True\n0 1\n", "")
    assert programs(cache) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("when", ["waiting", "under way", "inside LLVM"])
def test_a_child_has_its_own_programs_switched(when: str, cache: Path) -> None:
    code = """
        from xla_backend.llvm import objects
        inside, parent = threading.Event(), os.getpid()
        def slow(real):
            def work(*arguments, **named):
                inside.set()
                if os.getpid() == parent: time.sleep(0.5)
                return real(*arguments, **named)
            return work
        if WHEN == "under way":
            tiers._generate = slow(generate)
        functions = [program(n + 0.25) for n in range(3)]
        wanted = [np.asarray(f(x)).tobytes() for f in functions[:1]]
        if WHEN == "inside LLVM":
            objects._emit_unlocked = slow(objects._emit_unlocked)
        if WHEN != "waiting":
            wanted = []
            for f in functions: f(x)
            assert inside.wait(60)
        else:
            gate = threading.Event()
            later.Later(lambda piece: gate.wait(60), in_child=lambda: False).begin()
            for f in functions: f(x)
        pid = os.fork()
        if pid == 0:
            pyjax.compilation_barrier()
            ok = all(map(is_switched, in_tiers())) and len(in_tiers()) == 3
            results = [np.asarray(f(x)).tobytes() for f in functions]
            program(7.25)(x)
            pyjax.compilation_barrier()
            ok = ok and all(map(is_switched, in_tiers())) and len({*results}) == 3
            os._exit(0 if ok else 3)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        if WHEN == "waiting": gate.set()
        pyjax.compilation_barrier()
        assert all(map(is_switched, in_tiers()))
    """
    assert run(f"WHEN = {when!r}" + textwrap.dedent(code), cache) == (0, "", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_children_of_a_pool_end(cache: Path) -> None:
    code = """
        import multiprocessing, warnings
        warnings.simplefilter("ignore")
        hold()
        functions = [program(n + 0.25) for n in range(6)]
        wanted = [np.asarray(f(x)).tolist() for f in functions]
        def work(n):
            go.set()
            return np.asarray(functions[n](x)).tolist()
        with multiprocessing.get_context("fork").Pool(3) as pool:
            assert pool.map(work, range(6)) == wanted
            pool.close()
            pool.join()
    """
    assert run(code, cache) == (0, "", "")


def test_a_handler_that_raises_while_somebody_waits(cache: Path) -> None:
    code = """
        import signal
        hold()
        def late(number, frame):
            go.set()
            raise TimeoutError("late")
        signal.signal(signal.SIGALRM, late)
        f = program(1.25)
        f(x)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            pyjax.compilation_barrier()
        except TimeoutError:
            say("late", later.waiting())
        pyjax.compilation_barrier()
        say(is_switched(in_tiers()[0]))
    """
    assert run(code, cache) == (0, "late 1\nTrue\n", "")
