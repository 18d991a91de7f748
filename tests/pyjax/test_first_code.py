"""Programs that run on first code until their optimised code is there."""

from __future__ import annotations

import errno
import gc
import itertools
import logging
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax.core import monitoring
from pyjax.experimental.compilation_cache import compilation_cache
from pyjax.runtime import shape_generic
from tests.first_code import first_calls, first_code, held_up, in_tiers, is_switched, stand_in
from tests.interrupts import each_interrupt
from tests.own_cache import own_cache
from tests.threads import switching_often, together
from xla_backend.persistent import events, store
from xla_backend.persistent.events import CacheEvent, Outcome
from xla_backend.process import later
from xla_backend.targets.cpu import tiers
from xla_backend.targets.cpu.executable import CpuExecutable

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache on disk of its own."""
    gc.collect()
    with own_cache(tmp_path, monkeypatch) as folder, first_code():
        yield folder


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[CacheEvent]:
    """The events of the cache on disk."""
    found: list[CacheEvent] = []
    monkeypatch.setattr(events, "_listeners", [*events._listeners, found.append])
    return found


X = np.linspace(0, 1, 40, dtype=np.float32).reshape(5, 8)


def function(number: int | None = None) -> Any:
    """A program that no other test has; of equal numbers equal programs."""
    seed = (next(_numbers) if number is None else number) + 0.25
    return pyjax.jit(lambda x: (jnp.tanh(x * seed) @ x.T).cumsum(1) - x.sum())


def expected(number: int) -> np.ndarray:
    """What optimised code computes."""
    with first_code_off():
        return np.asarray(function(number)(X))


def new_executable(f: Any, *arguments: Any) -> CpuExecutable:
    """The executable of a call's program."""
    before = {id(e) for e in in_tiers()}
    f(*(arguments or (X,)))
    (found,) = [e for e in in_tiers() if id(e) not in before]
    return found


@contextmanager
def first_code_off() -> Iterator[None]:
    pyjax.config.update("jax_first_code", False)
    try:
        yield
    finally:
        pyjax.config.update("jax_first_code", True)


def outcomes(heard: list[CacheEvent]) -> list[Outcome]:
    return [event.outcome for event in heard if event.module == "jit__lambda"]


def test_a_program_runs_before_it_is_optimised_and_is_switched() -> None:
    f = function()
    with held_up():
        executable = new_executable(f)
        results = [np.asarray(f(X)) for _ in range(4)]
        assert not is_switched(executable) and first_calls(executable) == 5
    pyjax.compilation_barrier()
    assert is_switched(executable)
    results += [np.asarray(f(X)) for _ in range(4)]
    assert first_calls(executable) == 5
    assert len({r.tobytes() for r in results}) == 1


def test_both_codes_compute_the_bits_of_a_program_without_first_code() -> None:
    number = next(_numbers)
    f = function(number)
    with held_up():
        first = np.asarray(f(X))
    pyjax.compilation_barrier()
    optimised = np.asarray(f(X))
    compilation_cache.clear_cache()
    pyjax.clear_caches()
    assert first.tobytes() == optimised.tobytes() == expected(number).tobytes()


def test_the_option_switches_it_off() -> None:
    before = len(in_tiers())
    pyjax.config.update("jax_first_code", False)
    f = function()
    f(X)
    assert len(in_tiers()) == before


def test_what_is_compiled_ahead_is_optimised() -> None:
    before = len(in_tiers())
    compiled = function().lower(X).compile()
    compiled(X)
    assert len(in_tiers()) == before and later.waiting() == 0


@pytest.mark.parametrize(
    "name, value",
    [
        ("jax_log_compiles", True),
        ("jax_enable_checks", True),
        ("jax_enable_pgle", True),
        ("jax_optimization_level", "O3"),
        ("jax_optimization_level", "O1"),
    ],
)
def test_who_looks_at_compilations_gets_optimised_code(name: str, value: Any) -> None:
    before, count = getattr(pyjax.config, name), len(in_tiers())
    pyjax.config.update(name, value)
    try:
        function()(X)
    finally:
        pyjax.config.update(name, before)
    assert len(in_tiers()) == count


def test_dumped_programs_are_optimised(tmp_path: Path) -> None:
    count = len(in_tiers())
    pyjax.config.update("jax_dump_ir_to", str(tmp_path / "dumps"))
    try:
        function()(X)
    finally:
        pyjax.config.update("jax_dump_ir_to", "")
    assert len(in_tiers()) == count


def test_it_is_one_compilation(heard: list[CacheEvent]) -> None:
    told: list[str] = []
    listener = lambda event, seconds, **named: told.append(event)
    monitoring.register_event_duration_secs_listener(listener)
    try:
        with held_up():
            function()(X)
        assert outcomes(heard) == [Outcome.REQUESTED, Outcome.NOT_FOUND]
        pyjax.compilation_barrier()
    finally:
        monitoring.unregister_event_duration_listener(listener)
    assert told.count("/jax/core/compile/backend_compile_duration") == 1
    assert outcomes(heard) == [Outcome.REQUESTED, Outcome.NOT_FOUND, Outcome.KEPT]
    with pyjax.assert_compiles(1):
        function()(X)


def test_the_optimised_code_is_kept_and_found(heard: list[CacheEvent]) -> None:
    number = next(_numbers)
    function(number)(X)
    pyjax.compilation_barrier()
    pyjax.clear_caches()
    heard.clear()
    count = len(in_tiers())
    function(number)(X)
    assert outcomes(heard) == [Outcome.REQUESTED, Outcome.FOUND]
    assert len(in_tiers()) == count


def test_what_runs_the_same_meanwhile_is_compiled_once(
    heard: list[CacheEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    generated: list[str] = []
    generate = tiers._generate

    def counting(planned: Any, *arguments: Any, **named: Any) -> Any:
        generated.append(planned.module.name)
        return generate(planned, *arguments, **named)

    monkeypatch.setattr(tiers, "_generate", counting)
    number = next(_numbers)
    first, second = function(number), function(number)
    with held_up():
        executables = [new_executable(first), new_executable(second)]
    pyjax.compilation_barrier()
    assert all(map(is_switched, executables)) and len(generated) == 1
    assert outcomes(heard).count(Outcome.KEPT) == 1
    assert first(X).tobytes() == second(X).tobytes()
    assert "define" in executables[1].llvm_ir


def test_it_is_kept_as_the_options_of_the_call_say(tmp_path: Path, cache: Path) -> None:
    with held_up():
        function()(X)
        compilation_cache.set_cache_dir(tmp_path / "other")
    pyjax.compilation_barrier()
    kinds = lambda folder: [p.suffix for p in folder.glob("*/*")]
    assert kinds(cache).count(".program") == 1
    assert ".program" not in kinds(tmp_path / "other")


def test_a_relative_directory_is_that_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    compilation_cache.set_cache_dir("kept")
    with held_up():
        function()(X)
        monkeypatch.chdir(tmp_path)
    pyjax.compilation_barrier()
    assert len(list((tmp_path / "here" / "kept").glob("*/*.program"))) == 1
    assert not (tmp_path / "kept").exists()


def test_blocks_of_options_hold_for_what_is_done_later(caplog: pytest.LogCaptureFixture) -> None:
    with held_up(), caplog.at_level(logging.WARNING, "pyjax"):
        with pyjax.explain_cache_misses(True):
            function()(X)
        function()(X)
    with caplog.at_level(logging.WARNING, "pyjax"):
        pyjax.compilation_barrier()
    assert caplog.text.count("Kept 'jit__lambda'") == 1


def test_a_program_that_is_gone_is_kept_on_disk(heard: list[CacheEvent]) -> None:
    f = function()
    with held_up():
        gone = weakref.ref(new_executable(f))
        del f
        pyjax.clear_caches()
        gc.collect()
        assert gone() is None
    pyjax.compilation_barrier()
    assert outcomes(heard)[-1] is Outcome.KEPT


def test_a_program_that_is_gone_is_not_compiled_if_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*arguments: Any, **named: Any) -> Any:
        raise AssertionError("it is compiled")

    pyjax.config.update("jax_enable_compilation_cache", False)
    monkeypatch.setattr(tiers, "_generate", fail)
    f = function()
    with held_up():
        gone = weakref.ref(new_executable(f))
        del f
        pyjax.clear_caches()
        gc.collect()
        assert gone() is None
    pyjax.compilation_barrier()


def test_all_code_is_gone_with_its_program() -> None:
    f = function()
    executable = new_executable(f)
    pyjax.compilation_barrier()
    libraries = [weakref.ref(executable.library), weakref.ref(executable.library._keep[-1])]
    gone = weakref.ref(executable)
    assert all(r() is not None for r in libraries)
    later.Later(lambda piece: None).begin()  # the thread lets go of what it has done
    pyjax.compilation_barrier()
    del f, executable
    pyjax.clear_caches()
    gc.collect()
    assert gone() is None and [r() for r in libraries] == [None, None]


def test_what_waits_for_llvm_keeps_neither_functions_nor_arguments() -> None:
    def use() -> list[weakref.ref[Any]]:
        def scaled(x: Any) -> Any:
            return x * constant * next(_numbers)

        constant, x = jnp.asarray(X * 3), jnp.asarray(X)
        pyjax.jit(scaled)(x)
        _ = x.T.reshape(40).cumsum()  # operations one by one
        return [weakref.ref(o) for o in (scaled, constant, x)]

    with held_up():
        refs = use()
        assert later.waiting() > 1
        gc.collect()
        gc.collect()  # programs of a function, which refer to themselves, go after it
        assert [ref() for ref in refs] == [None, None, None]


def test_stages_are_of_the_optimised_code() -> None:
    number = next(_numbers)
    f = function(number)
    with held_up():
        executable = new_executable(f)
        hlo, program = executable.module, executable.program  # need no code
        assert hlo.name == "jit__lambda" and program.kernels
        assert executable.pass_report() and not is_switched(executable)
    text = executable.texts()
    assert is_switched(executable) and "first_calls" not in text["llvm"]
    assert executable.kernels() and executable.loop_ir
    ahead = function(number).lower(X).compile()
    assert text["llvm"] == ahead.as_text("llvm")
    stats = executable.memory_stats()
    assert stats == ahead._executable.memory_stats()


def test_what_caches_count_is_about_what_it_becomes() -> None:
    number = next(_numbers)
    counted = new_executable(function(number)).held_bytes
    becomes = function(number).lower(X).compile()._executable.held_bytes
    assert 0.5 < counted / becomes < 4


def test_who_looks_at_the_code_has_it_made_at_once() -> None:
    with held_up():
        others = [function() for _ in range(3)]
        for other in others:
            other(X)
        executable = new_executable(function())
    assert "define" in executable.llvm_ir and is_switched(executable)


def test_an_error_is_reported_once_and_the_program_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, heard: list[CacheEvent]
) -> None:
    def fail(*arguments: Any, **named: Any) -> Any:
        raise ZeroDivisionError("of the compiler")

    f = function()
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(tiers, "_generate", fail)
        executable = new_executable(f)
        pyjax.compilation_barrier()
    (record,) = [r for r in caplog.records if r.name == tiers.__name__]
    assert (
        "jit__lambda" in record.message and "ZeroDivisionError: of the compiler" in record.message
    )
    calls = first_calls(executable)
    f(X)
    assert first_calls(executable) == calls + 1 and not is_switched(executable)
    assert Outcome.KEPT not in outcomes(heard)
    assert "define" in executable.llvm_ir


def test_who_wants_errors_of_the_cache_gets_them_from_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function()(X)
    pyjax.compilation_barrier()
    monkeypatch.setattr(store, "write_file", no_space)
    pyjax.config.update("jax_raise_persistent_cache_errors", True)
    with pytest.raises(store.PersistentCacheError, match="No space left"):
        function()(X)


def no_space(*arguments: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_warnings_that_are_errors_do_not_say_that_there_is_no_code(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    function()(X)
    pyjax.compilation_barrier()
    monkeypatch.setattr(store, "write_file", no_space)
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        with held_up():
            executable = new_executable(function())
        executable.await_optimised()
    (record,) = [r for r in caplog.records if r.name == tiers.__name__]
    assert is_switched(executable)
    assert "is in use, and is not kept on disk: RuntimeWarning" in record.message


def test_programs_wait_for_llvm_where_too_many_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "_MOST_WAITING", 3)
    before = len(in_tiers())
    with held_up():
        functions = [function() for _ in range(4)]
        for f in functions:
            f(X)
        assert len(in_tiers()) == before + 2  # and the one that holds them up


def test_a_program_without_first_code_is_compiled_at_once(heard: list[CacheEvent]) -> None:
    before = len(in_tiers())
    with first_code(lambda program, options, target: None):
        result = function()(X)
    assert result.shape == (5, 5) and len(in_tiers()) == before
    assert outcomes(heard) == [Outcome.REQUESTED, Outcome.NOT_FOUND, Outcome.KEPT]


def test_a_program_is_compiled_at_once_where_there_is_no_thread(
    monkeypatch: pytest.MonkeyPatch, heard: list[CacheEvent]
) -> None:
    def fail(piece: later.Later, seconds: float = 0.0) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(later.Later, "begin", fail)
    f = function()
    assert f(X).tobytes() == f(X).tobytes()
    assert outcomes(heard)[-1] is Outcome.KEPT and later.waiting() == 0


def test_donated_arguments_and_loops() -> None:
    step = pyjax.jit(
        lambda x: pyjax.lax.fori_loop(0, 7, lambda i, c: jnp.sin(c) * 1.625, x), donate_argnums=0
    )
    x = jnp.asarray(X)
    with held_up():
        for _ in range(3):
            x = step(x)
    pyjax.compilation_barrier()
    for _ in range(3):
        x = step(x)
    plain = jnp.asarray(X)
    pyjax.config.update("jax_first_code", False)
    again = pyjax.jit(lambda x: pyjax.lax.fori_loop(0, 7, lambda i, c: jnp.sin(c) * 1.625, x))
    for _ in range(6):
        plain = again(plain)
    assert np.asarray(x).tobytes() == np.asarray(plain).tobytes()


def test_long_programs_are_switched_while_they_wait_in_a_queue() -> None:
    f = pyjax.jit(lambda x, n: pyjax.lax.fori_loop(0, n, lambda i, c: c * 0.5 + 1.375, x))
    x = jnp.ones((64, 64))
    with held_up():
        executable = new_executable(f, x, 3)
    results = [f(x, 2000) for _ in range(40)]
    pyjax.compilation_barrier()
    results += [f(x, 2000) for _ in range(10)]
    assert len({np.asarray(r).tobytes() for r in results}) == 1
    assert is_switched(executable)


def test_an_interrupt_at_any_step_leaves_no_program_that_never_gets_its_code() -> None:
    pyjax.config.update("jax_enable_compilation_cache", False)
    codes: list[Any] = []

    def once(*arguments: Any) -> Any:
        if not codes:
            codes.append(stand_in(*arguments))
        return codes[0]

    number, others = next(_numbers), in_tiers()
    steps, kept = 0, list[Any]()

    def work() -> None:
        kept.append(function(number))
        kept[-1](X)

    with first_code(once):
        for _ in each_interrupt(work, tiers, later):
            steps += 1
            kept[-1](X)
            pyjax.compilation_barrier()
            assert later.waiting() == 0
        pyjax.clear_caches()
        gc.collect()
        kept[-1](X)
        pyjax.compilation_barrier()
        assert all(is_switched(e) for e in in_tiers() if e not in others)
    assert steps > 20


def test_threads_call_programs_while_these_are_switched_and_cleared() -> None:
    numbers = [next(_numbers) for _ in range(12)]
    wanted = {number: expected(number).tobytes() for number in numbers}
    compilation_cache.clear_cache()
    pyjax.clear_caches()
    functions = {number: function(number) for number in numbers}

    def work(offset: int) -> None:
        for turn in range(6):
            for number in numbers[offset:] + numbers[:offset]:
                got = np.asarray(functions[number](X)).tobytes()
                assert got == wanted[number]
            if turn == 2 and offset == 0:
                pyjax.clear_caches()
            if turn == 3 and offset == 4:
                functions[numbers[5]] = function(numbers[5])

    with switching_often(1e-5):
        together(*[lambda o=o: work(o) for o in (0, 4, 8)])
    pyjax.compilation_barrier()
    assert later.waiting() == 0


def generic_programs() -> int:
    """How many programs there are that were compiled for any sizes."""
    return len(shape_generic._makers) + len(shape_generic._makers_for_axes)


@pytest.mark.parametrize(
    "program",
    [lambda x: jnp.exp(x) * 0.75 + x, lambda x: jnp.tanh(x).sum(1)],
    ids=["one shape", "axes"],
)
def test_code_for_all_sizes_is_compiled_when_a_program_is_met_again(program: Any) -> None:
    """It would be waited for, and pays when there are other sizes."""
    pyjax.clear_caches()
    before, given = generic_programs(), (X, X[:3], X[:2, :5])
    results = [np.asarray(pyjax.jit(program)(x)) for x in given[:1]]
    assert generic_programs() == before
    results += [np.asarray(pyjax.jit(program)(x)) for x in given[1:]]
    assert generic_programs() == before + 1
    with first_code_off():
        for x, result in zip(given, results, strict=True):
            assert np.asarray(pyjax.jit(program)(x)).tobytes() == result.tobytes()


def test_code_for_all_sizes_is_taken_where_it_is_on_disk() -> None:
    program = lambda x: jnp.exp(x) * 0.625 + x
    with first_code_off():
        expected = np.asarray(pyjax.jit(program)(X))
    pyjax.clear_caches()
    before = len(in_tiers()), generic_programs()
    assert np.asarray(pyjax.jit(program)(X[:3])).tobytes() == expected[:3].tobytes()
    assert (len(in_tiers()), generic_programs()) == (before[0], before[1] + 1)


def test_code_for_its_sizes_is_looked_for_on_disk_before_code_for_all_sizes(
    heard: list[CacheEvent],
) -> None:
    program = lambda x: jnp.exp(x) * 0.5625 + x
    expected = np.asarray(pyjax.jit(program)(X))
    pyjax.compilation_barrier()
    pyjax.jit(program)(X[:3])  # the second meeting: both are on disk
    pyjax.clear_caches()
    before = generic_programs()
    heard.clear()
    assert np.asarray(pyjax.jit(program)(X)).tobytes() == expected.tobytes()
    assert generic_programs() == before
    assert outcomes(heard) == [Outcome.REQUESTED, Outcome.FOUND]
