"""Programs that measure their first runs, and are compiled again by what was measured."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyjax._config import options
from pyjax._config.registry import Source

import pyjax
import pyjax.numpy as jnp
from pyjax.experimental.compilation_cache import compilation_cache
from pyjax.runtime.program import Program
from tests.pyjax.test_eager_dispatch import frames
from tests.threads import together
from xla_backend.compile_options import CompileOptions
from xla_backend.persistent.settings import cache_settings
from xla_backend.targets.cpu.client import CpuClient

X = jnp.asarray(np.linspace(0.5, 2, 300 * 400, dtype=np.float32).reshape(300, 400))


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[CompileOptions]:
    """The options of every compilation from now on."""
    seen: list[CompileOptions] = []
    compile = CpuClient.compile_source

    def counted(self: CpuClient, module: Any, options: CompileOptions) -> Any:
        seen.append(options)
        return compile(self, module, options)

    monkeypatch.setattr(CpuClient, "compile_source", counted)
    return seen


@pytest.fixture(autouse=True)
def cache(tmp_path: Path) -> Iterator[None]:
    before = cache_settings()
    compilation_cache.set_cache_dir(tmp_path / "cache")
    yield
    # Not the directory that it was: named, it would be in place of $PYJAX_CACHE_DIR.
    options.compilation_cache_dir.clear(Source.UPDATE)
    assert cache_settings() == before


@pytest.fixture
def pgle() -> Iterator[None]:
    with options.enable_pgle(True):
        yield


def tanh_sum() -> Any:
    return pyjax.jit(lambda x: jnp.tanh(x).sum(0))


def program_of(f: Any) -> Program:
    (program,) = {c.program for c in f._compiled.hot.values()}
    return program


def feed(f: Any, *times: float) -> None:
    """Put these times in the place of those that were measured."""
    runs = program_of(f).executable.measured_runs
    assert runs is not None and runs.complete
    runs._runs[:] = [dict.fromkeys(run, time) for run, time in zip(runs._runs, times, strict=True)]


def test_a_program_is_compiled_again_after_its_runs(
    pgle: None, compilations: list[CompileOptions]
) -> None:
    f = tanh_sum()
    with options.enable_pgle(False):
        expected = np.asarray(tanh_sum()(X)).tobytes()
    del compilations[:]
    for call in range(6):
        assert np.asarray(f(X)).tobytes() == expected
        assert len(compilations) == (1 if call < 3 else 2)
    first, second = compilations
    assert (first.profiled_runs, first.measured) == (3, ())
    assert second.profiled_runs == 0 and second.measured
    assert program_of(f).executable.measured_runs is None


@pytest.mark.parametrize(
    "runs, compiled", [(0, [1, 1, 1, 1]), (1, [1, 2, 2, 2]), (2, [1, 1, 2, 2])]
)
def test_the_number_of_runs(
    pgle: None, compilations: list[CompileOptions], runs: int, compiled: list[int]
) -> None:
    f = tanh_sum()
    with options.pgle_profiling_runs(runs):
        counts = []
        for _ in compiled:
            f(X)
            counts.append(len(compilations))
    assert counts == compiled


@pytest.mark.parametrize("percentile, taken", [(90, 300.0), (100, 300.0), (50, 20.0), (0, 1.0)])
def test_the_percentile(
    pgle: None, compilations: list[CompileOptions], percentile: int, taken: float
) -> None:
    f = tanh_sum()
    with options.pgle_aggregation_percentile(percentile):
        for _ in range(3):
            f(X)
        feed(f, 20.0, 1.0, 300.0)
        f(X)
    ((_, cost),) = compilations[-1].measured
    assert cost == taken


@pytest.mark.parametrize("time, threaded", [(1.0, False), (900.0, True)])
def test_times_decide_and_a_record_says_what(
    pgle: None, caplog: pytest.LogCaptureFixture, time: float, threaded: bool
) -> None:
    caplog.set_level(logging.INFO, "pyjax")
    f = tanh_sum() if not threaded else pyjax.jit(lambda x: jnp.tanh(x[:30, :64]).sum(0))
    for _ in range(3):
        expected = np.asarray(f(X)).tobytes()
    feed(f, time, time, time)
    assert not any("measured costs" in r.message for r in caplog.records)
    assert np.asarray(f(X)).tobytes() == expected
    executable = program_of(f).executable
    assert ("@pyjax_parallel_for" in executable.texts()["llvm"]) == threaded
    (decision,) = executable.cost_decisions()
    assert (decision.blocks > 1, decision.estimated_blocks > 1) == (threaded, not threaded)
    (record,) = [r for r in caplog.records if "measured costs" in r.message]
    assert record.levelno == logging.INFO
    assert "Compiled <lambda>" in record.message and str(decision) in record.message
    del caplog.records[:]
    f(X)
    assert not caplog.records


def test_log_compiles_says_it_aloud(pgle: None, caplog: pytest.LogCaptureFixture) -> None:
    f = tanh_sum()
    with options.log_compiles(True):
        for _ in range(4):
            f(X)
    (record,) = [r for r in caplog.records if "measured costs" in r.message]
    assert record.levelno == logging.WARNING
    _, again = [r.message for r in caplog.records if "Finished compiling" in r.message]
    assert again.endswith(": the costs of its kernels were measured")


def test_nothing_is_left_in_the_way(pgle: None) -> None:
    """A call runs through as many functions as without, before and after."""
    with options.enable_pgle(False):
        plain = tanh_sum()
        least = frames(lambda: plain(X))
    f = tanh_sum()
    for _ in range(4):
        f(X)
    assert frames(lambda: f(X)) == least


def test_calls_of_several_threads(pgle: None, compilations: list[CompileOptions]) -> None:
    f = tanh_sum()
    expected = np.asarray(f(X)).tobytes()

    def work() -> None:
        with options.enable_pgle(True):
            for _ in range(20):
                assert np.asarray(f(X)).tobytes() == expected

    together(*[work] * 8)
    assert [bool(c.measured) for c in compilations] == [False, True]


def test_who_waits_for_no_compilation_goes_on(pgle: None, monkeypatch: pytest.MonkeyPatch) -> None:
    f = tanh_sum()
    for _ in range(3):
        expected = f(X)
    compile = CpuClient.compile_source
    at_work, go_on = threading.Event(), threading.Event()

    def slow(self: CpuClient, module: Any, options: CompileOptions) -> Any:
        at_work.set()
        assert go_on.wait(60)
        return compile(self, module, options)

    monkeypatch.setattr(CpuClient, "compile_source", slow)
    measured = program_of(f)
    before = measured.executable

    def recompile() -> None:
        with options.enable_pgle(True):
            f(X)

    thread = threading.Thread(target=recompile)
    thread.start()
    assert at_work.wait(60)
    assert f(X).tobytes() == expected.tobytes() and measured.executable is before
    go_on.set()
    thread.join()
    assert measured.executable is not before


def test_donation(pgle: None) -> None:
    f = pyjax.jit(lambda x, y: jnp.tanh(x) + y, donate_argnums=0)
    for _ in range(6):
        x = X + 0
        address = x.unsafe_buffer_pointer()
        result = f(x, X)
        assert x.is_deleted() and result.unsafe_buffer_pointer() == address
        np.testing.assert_allclose(result, np.tanh(X) + X, rtol=1e-5)
    assert program_of(f).executable.measured_runs is None


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_compilation_is_tried_again(
    pgle: None, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    f = pyjax.jit(lambda x, y: jnp.tanh(x) + y, donate_argnums=0)
    for _ in range(3):
        f(X + 0, X)

    def interrupted(*_: Any) -> Any:
        raise error

    x = X + 0
    with monkeypatch.context() as patch:
        patch.setattr(CpuClient, "compile_source", interrupted)
        with pytest.raises(error):
            f(x, X)
    assert not x.is_deleted()  # nothing has begun
    np.testing.assert_allclose(f(x, X), np.tanh(X) + X, rtol=1e-5)
    assert program_of(f).executable.measured_runs is None


def test_what_stands_between_stays(pgle: None) -> None:
    """Checks of results go on after the program was replaced."""
    f = pyjax.jit(lambda x: jnp.log(x).sum(0))
    with options.debug_nans(True):
        for _ in range(5):
            f(X)
        assert program_of(f).executable.measured_runs is None
        with pytest.raises(FloatingPointError, match="log"):
            f(X - 1)


def test_programs_within_programs_are_one(pgle: None, compilations: list[CompileOptions]) -> None:
    inner = tanh_sum()
    outer = pyjax.jit(lambda x: inner(x) + inner(x * 2))
    for _ in range(5):
        outer(X)
    assert len(compilations) == 2 and not inner._compiled.hot


def test_programs_compiled_ahead_are_left_alone(
    pgle: None, compilations: list[CompileOptions]
) -> None:
    compiled = tanh_sum().lower(X).compile()
    for _ in range(5):
        compiled(X)
    (only,) = compilations
    assert only.profiled_runs == 0 and only.measured == ()


def test_closed_over_arrays_and_several_results(pgle: None) -> None:
    table = jnp.arange(400.0)
    f = pyjax.jit(lambda x: (jnp.tanh(x) * table, {"sum": x.sum(0) + table}))
    for _ in range(5):
        product, rest = f(X)
        np.testing.assert_allclose(product, np.tanh(X) * np.arange(400), rtol=1e-5)
        np.testing.assert_allclose(rest["sum"], np.sum(X, 0) + np.arange(400), rtol=1e-5)
    assert program_of(f).executable.measured_runs is None


def test_operations_on_their_own(pgle: None, compilations: list[CompileOptions]) -> None:
    rows = jnp.asarray(np.ones((41, 53), np.float32))  # of no other test
    for _ in range(5):
        jnp.sum(rows, axis=0)
    assert [bool(c.measured) for c in compilations] == [False, True]


def test_off_is_off(compilations: list[CompileOptions]) -> None:
    f = tanh_sum()
    for _ in range(5):
        f(X)
    (only,) = compilations
    assert only.profiled_runs == 0 and program_of(f).executable.measured_runs is None


# -- on disk ---------------------------------------------------------------------------------------


def in_another_process(f: Callable[[], Any], calls: int, *expect: bool) -> tuple[Any, list[str]]:
    """The function after some calls, made anew as a new process would; and the warnings."""
    g = f()
    with warnings.catch_warnings(record=True) as said, ExitStack() as stack:
        warnings.simplefilter("always")
        if expect:
            stack.enter_context(options.compilation_cache_expect_pgle(True))
        for _ in range(calls):
            g(X)
    return g, [str(w.message) for w in said]


def test_expected_programs_are_not_measured_again(
    pgle: None, compilations: list[CompileOptions]
) -> None:
    f, said = in_another_process(tanh_sum, 3, True)
    (message,) = said
    assert message.endswith("it is compiled without and its runs are measured")
    feed(f, 1.0, 1.0, 1.0)
    with options.compilation_cache_expect_pgle(True):
        f(X)
    text = program_of(f).executable.texts()["llvm"]
    assert "@pyjax_parallel_for" not in text
    del compilations[:]
    again, said = in_another_process(tanh_sum, 5, True)
    assert not said and len(compilations) == 1
    executable = program_of(again).executable
    assert executable.measured_runs is None
    assert executable.texts()["llvm"] == text  # what runs is what is shown
    assert [d.measured for d in executable.cost_decisions()] == [1.0]
    with options.enable_pgle(False):  # also where nothing is measured
        plain, said = in_another_process(tanh_sum, 1, True)
    assert not said and program_of(plain).executable.texts()["llvm"] == text


def test_who_measures_keeps_what_was_measured_last(
    pgle: None, compilations: list[CompileOptions]
) -> None:
    for time, threaded in ((1.0, False), (900.0, True)):
        f, _ = in_another_process(tanh_sum, 3)
        feed(f, time, time, time)
        f(X)
        text = program_of(f).executable.texts()["llvm"]
        assert ("@pyjax_parallel_for" in text) == threaded
        found, said = in_another_process(tanh_sum, 1, True)
        assert not said and program_of(found).executable.texts()["llvm"] == text
    with options.enable_pgle(False):
        plain, _ = in_another_process(tanh_sum, 1)
    assert not program_of(plain).executable.cost_decisions()


def test_systems_without_the_clock(pgle: None, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["xla_backend.targets.cpu.emit_program"]
    monkeypatch.setattr(module, "_THREAD_CLOCK", None)
    with pytest.raises(Exception, match=r"no clock of a thread's own time.*jax_enable_pgle"):
        pyjax.jit(lambda x: jnp.tanh(x).sum(0) + 17)(X)
