"""Programs on disk: what one process compiled, another one loads. Within one process a new function
stands for a new process: programs in memory are known by their function."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax, monitoring
from pyjax.experimental.compilation_cache import compilation_cache
from tests.own_cache import own_cache
from xla_backend.hlo.module_source import ModuleSource
from xla_backend.persistent import store
from xla_backend.targets.cpu import kept_programs, planned

UPDATE = pyjax.config.update


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with own_cache(tmp_path, monkeypatch) as folder:
        yield folder


@pytest.fixture
def events() -> Iterator[list[str]]:
    seen: list[str] = []

    def one(event: str, **_: Any) -> None:
        if event.startswith("/jax/compilation_cache/"):
            seen.append(event.removeprefix("/jax/compilation_cache/"))

    def duration(event: str, seconds: float, **_: Any) -> None:
        assert isinstance(seconds, float)
        one(event)

    monitoring.register_event_listener(one)
    monitoring.register_event_duration_secs_listener(duration)
    yield seen
    monitoring.unregister_event_listener(one)
    monitoring.unregister_event_duration_listener(duration)


def no_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing is compiled."""
    fail = lambda *_: pytest.fail("the compiler was run")
    monkeypatch.setattr(planned, "build_pipeline", fail)
    monkeypatch.setattr(kept_programs, "_compile_elementwise", fail)


def kinds() -> dict[str, int]:
    found = compilation_cache.cache_status().kinds
    return {kind: n for kind, n in found.items() if kind in ("program", "elementwise")}


X = np.arange(24, dtype=np.float32).reshape(4, 6)
BIG = np.arange(30_000, dtype=np.float32)

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "elementwise": (lambda x: jnp.tanh(x) * 2 + 1, (X,)),
    "product": (lambda x: x @ x.T, (X,)),
    "epilogue": (lambda x: jnp.tanh(x @ x.T + 1), (X,)),
    "rows": (lambda x: pyjax.nn.softmax(x), (X,)),
    "sort": (lambda x: jnp.sort(x[:, ::-1], axis=1), (X,)),
    "scan": (lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c.sum()), x[0], x), (X,)),
    "while": (lambda x: lax.while_loop(lambda c: c.sum() < 1e4, lambda c: c * 2 + 1, x), (X,)),
    "cond": (lambda x: lax.cond(x[0, 0] > 1, jnp.sin, jnp.cos, x), (X,)),
    "fft": (lambda x: jnp.fft.fft(x).real, (X,)),
    "solve": (lambda x: jnp.linalg.solve(x @ x.T + jnp.eye(4) * 50, x), (X,)),
    "constant": (lambda x: x.sum() + jnp.asarray(BIG)[::-1].cumsum(), (X,)),
    "iota": (lambda x: x.sum() + jnp.arange(40_000) % 7, (X,)),
    "random": (lambda x: x + pyjax.random.normal(pyjax.random.key(3), x.shape), (X,)),
    "several": (lambda x: {"a": x + 1, "b": (x.sum(0), x.argmax())}, (X,)),
    "empty": (lambda x: (x[:0], x[:0].sum()), (X,)),
    "nothing": (lambda: jnp.arange(5) * 3, ()),
    "gradient": (lambda x: pyjax.grad(lambda y: (jnp.tanh(y @ y.T) ** 2).sum())(x), (X,)),
}


def renewed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, as no cache in memory knows it."""
    pyjax.clear_caches()
    return pyjax.jit(lambda *args: function(*args))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loaded_program_does_what_the_compiled_one_does(
    name: str, monkeypatch: pytest.MonkeyPatch, events: list[str]
) -> None:
    function, args = PROGRAMS[name]
    args = tuple(map(jnp.asarray, args))
    first = renewed(function)(*args)
    assert "cache_misses" in events
    del events[:]
    no_passes(monkeypatch)
    again = renewed(function)(*args)
    assert "cache_hits" in events and "cache_misses" not in events
    for a, b in zip(pyjax.tree.leaves(first), pyjax.tree.leaves(again)):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_donation_and_memory_are_those_of_the_compiled_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def compiled() -> Any:
        step = lambda x, y: (x + 1, (y @ y.T).sum())
        return pyjax.jit(step, donate_argnums=0).lower(jnp.ones((64, 64)), jnp.ones((64, 8)))

    cold = compiled().compile()
    facts = cold.memory_analysis()
    no_passes(monkeypatch)
    warm = compiled().compile()
    assert warm.memory_analysis() == facts
    assert facts.alias_size_in_bytes == 64 * 64 * 4
    x, y = map(pyjax.device_put, (np.ones((64, 64)), np.ones((64, 8))))
    assert float(warm(x, y)[1]) == 64 * 64 * 8
    assert x.is_deleted()


def test_stages_are_those_of_the_compiled_program(events: list[str]) -> None:
    def compiled() -> Any:
        return (
            pyjax.jit(lambda x: pyjax.nn.softmax(x @ x.T).sum()).lower(jnp.ones((9, 9))).compile()
        )

    cold, warm = (compiled() for _ in range(2))  # one line calls them
    assert events.count("cache_hits") == 1
    for stage in ("hlo", "program", "loops", "llvm"):
        assert warm.as_text(stage) == cold.as_text(stage)
    assert warm.cost_analysis() == cold.cost_analysis()
    describe = lambda c: [(k.name, k.loop_ir, k.assembly) for k in c.runtime_executable().kernels()]
    assert describe(warm) == describe(cold)
    assert "fusion" in warm.runtime_executable().pass_report()


def test_names_and_lines_are_no_part_of_the_key(events: list[str]) -> None:
    def f(apple):
        return jnp.tanh(apple @ apple.T)

    def g(pear):
        return jnp.tanh(pear @ pear.T)

    pyjax.jit(f)(X), pyjax.jit(g)(X)
    assert events.count("cache_hits") == 1 and kinds() == {"program": 1}
    UPDATE("jax_compilation_cache_include_metadata_in_key", True)
    del events[:]
    for fun in (f, g, f):  # one line calls them
        renewed(fun)(X)
    assert events.count("cache_misses") == 2 and kinds() == {"program": 3}
    assert events.count("cache_hits") == 1
    renewed(f)(X)  # this is another
    assert events.count("cache_misses") == 3


def test_other_programs_are_other_entries(events: list[str]) -> None:
    for factor in (2.0, -0.0, 0.0, float("nan")):
        renewed(lambda x, k=factor: (x @ x.T) * k)(X)
    renewed(lambda x: (x @ x.T) * 2.0)(X.T)
    with pyjax.default_matmul_precision("highest"):
        renewed(lambda x: (x @ x.T) * 2.0)(X)
    try:
        UPDATE("jax_optimization_level", "O0")
        renewed(lambda x: (x @ x.T) * 2.0)(X)
    finally:
        UPDATE("jax_optimization_level", "UNKNOWN")
    assert events.count("cache_misses") == 7 and "cache_hits" not in events


def test_callbacks_are_never_kept(events: list[str]) -> None:
    def program(k: int) -> Any:
        def double(x):
            return np.asarray(x) * k

        return renewed(lambda x: pyjax.pure_callback(double, x, x) @ jnp.ones((6, 2)))(X)

    for k in (2, 3):
        np.testing.assert_allclose(program(k), X @ np.ones((6, 2)) * k)
    seen: list[Any] = []
    for _ in range(2):
        renewed(lambda x: (pyjax.debug.callback(lambda y: seen.append(float(y)), x.sum()), x)[1])(X)
    assert seen == [X.sum()] * 2
    assert kinds().get("program", 0) == 0


def test_watched_compilations_are_compiled(tmp_path: Path, events: list[str]) -> None:
    f = lambda x: x @ x.T
    renewed(f)(X)
    dumped = renewed(f).lower(X).compile({"xla_dump_to": str(tmp_path / "dumps")})
    assert list((tmp_path / "dumps").iterdir())
    with pyjax.enable_checks(True):
        renewed(f)(X)
    np.testing.assert_allclose(dumped(X), X @ X.T)
    assert "cache_hits" not in events


# -- the options -----------------------------------------------------------------------------------


def test_directory(cache: Path, tmp_path: Path) -> None:
    renewed(lambda x: x @ x.T)(X)
    assert compilation_cache.cache_status().directory == str(cache) and cache.is_dir()
    compilation_cache.set_cache_dir(tmp_path / "other")
    assert kinds() == {}
    renewed(lambda x: x @ x.T)(X)
    assert kinds() == {"program": 1} and (tmp_path / "other").is_dir()


def test_switched_off(cache: Path, events: list[str]) -> None:
    UPDATE("jax_enable_compilation_cache", False)
    renewed(lambda x: x @ x.T)(X), renewed(lambda x: x @ x.T)(X)
    assert not cache.exists()
    assert set(events) <= {"task_disabled_cache"}
    UPDATE("jax_enable_compilation_cache", True)
    UPDATE("jax_compilation_cache_max_size", 0)
    renewed(lambda x: x @ x.T)(X)
    assert not cache.exists() and set(events) <= {"task_disabled_cache"}


def test_quick_and_small_programs_are_not_kept(events: list[str]) -> None:
    UPDATE("jax_persistent_cache_min_compile_time_secs", 100.0)
    renewed(lambda x: x @ x.T)(X)
    assert kinds() == {} and "cache_misses" not in events
    UPDATE("jax_persistent_cache_min_compile_time_secs", 1.0)  # the default, but asked for
    renewed(lambda x: x @ x.T)(X)
    assert kinds() == {}
    UPDATE("jax_persistent_cache_min_compile_time_secs", 0.0)
    UPDATE("jax_persistent_cache_min_entry_size_bytes", 1 << 20)
    renewed(lambda x: x @ x.T)(X)
    assert kinds() == {} and "cache_misses" not in events
    UPDATE("jax_persistent_cache_min_entry_size_bytes", 100)
    renewed(lambda x: x @ x.T)(X)
    assert kinds() == {"program": 1} and "cache_misses" in events


def test_programs_with_large_constants_are_not_kept(
    events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would fill the directory."""
    x = np.ones(4099, np.complex64)  # a transform with tables of 72 and 33 KB
    for limit, kept in ((1 << 16, {}), (1 << 18, {"program": 1})):
        monkeypatch.setattr(kept_programs, "_MOST_CONSTANT_BYTES", limit)
        renewed(jnp.fft.fft)(x)
        assert kinds() == kept


def test_limit(events: list[str]) -> None:
    UPDATE("jax_persistent_cache_enable_xla_caches", "none")
    programs = [lambda x, k=k: jnp.tanh(x @ x.T + k) for k in range(6)]
    renewed(programs[0])(X)
    size = compilation_cache.cache_status().bytes
    UPDATE("jax_compilation_cache_max_size", 5 * size)
    for program in programs[1:4]:
        renewed(program)(X)
    renewed(programs[0])(X)  # now the newest
    renewed(programs[4])(X), renewed(programs[5])(X)
    status = compilation_cache.cache_status()
    assert status.bytes <= 5 * size == status.limit
    del events[:]
    renewed(programs[0])(X)
    assert events.count("cache_hits") == 1
    renewed(programs[1])(X)
    assert "cache_misses" in events


def test_internal_caches(cache: Path) -> None:
    program = """
import pyjax, pyjax.numpy as jnp, numpy as np
pyjax.jit(lambda x: jnp.sort(x) @ x)(np.arange(9.0))
"""
    for value, kept in (("none", False), ("all", True)):
        environment = {
            **os.environ,
            "PYJAX_CACHE_DIR": str(cache),
            "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": value,
        }
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)
        assert (compilation_cache.cache_status().kinds.get("object", 0) > 0) is kept
        assert kinds()["program"] == 1


def test_errors_are_raised_if_asked_for() -> None:
    f = lambda x: x @ x.T
    renewed(f)(X)
    damage = lambda: [p.write_bytes(b"noise") for p in entries("program")]
    damage()
    UPDATE("jax_raise_persistent_cache_errors", True)
    with pytest.raises(store.PersistentCacheError, match="not an entry of this version"):
        renewed(f)(X)
    UPDATE("jax_raise_persistent_cache_errors", False)
    with pytest.warns(RuntimeWarning, match="is compiled again"):
        np.testing.assert_allclose(renewed(f)(X), X @ X.T)
    damage()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        np.testing.assert_allclose(renewed(f)(X), X @ X.T)


def entries(kind: str) -> list[Path]:
    directory = compilation_cache.cache_status().directory
    assert directory is not None
    return sorted(Path(directory, "entries-1").glob(f"*.{kind}"))


def test_expecting_measured_costs(events: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    f = lambda x: jnp.tanh(x @ x.T)
    renewed(f)(X)
    with pyjax._config.options.compilation_cache_expect_pgle(True):
        # One without is used, if there is no other.
        renewed(f)(X)
        assert events.count("cache_hits") == 1
        with pytest.warns(UserWarning, match="no program compiled with measured costs"):
            renewed(lambda x: jnp.tanh(x @ x.T) + 1)(X)
        # As a compilation with measured costs keeps it.
        lowered = renewed(f).lower(X)
        client = lowered._device.client
        options = kept_programs.CompileOptions(measured=(("no kernel of it", 1.0),))
        source = ModuleSource("f", lowered._module.clone, lowered._digest)
        kept_programs.find_program(source, options, client.devices()[0])
        for path in entries("program"):
            if path.stat().st_mtime_ns != max(p.stat().st_mtime_ns for p in entries("program")):
                path.unlink()
        del events[:]
        no_passes(monkeypatch)
        renewed(f)(X)
        assert events.count("cache_hits") == 1
    monkeypatch.undo()
    monkeypatch.setattr(store, "_warned", set())
    renewed(f)(X)  # who does not expect it does not find it
    assert "cache_misses" in events


# -- what is recorded ------------------------------------------------------------------------------


def test_events_are_those_of_jax(events: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from pyjax.runtime import persistent_cache

    monkeypatch.setattr(persistent_cache, "_recorded", set())
    f = lambda x: x @ x.T
    renewed(f)(X)
    assert events == ["tasks_using_cache", "compile_requests_use_cache", "cache_misses"]
    del events[:]
    renewed(f)(X)
    assert events == [
        "compile_requests_use_cache",
        "cache_hits",
        "compile_time_saved_sec",
        "cache_retrieval_time_sec",
    ]
    UPDATE("jax_enable_compilation_cache", False)
    del events[:]
    renewed(f)(X), renewed(f)(X)
    assert events == ["task_disabled_cache"]


def test_misses_are_explained(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "pyjax"), pyjax.explain_cache_misses(True):
        pyjax.jit(lambda x: x @ x.T)(X)
        assert "PERSISTENT COMPILATION CACHE MISS for 'jit__lambda" in caplog.text
        assert "Kept 'jit__lambda" in caplog.text
        caplog.clear()
        renewed(lambda x: x @ x.T)(X)
        assert "PERSISTENT" not in caplog.text


def test_status_and_clear() -> None:
    renewed(lambda x: x @ x.T)(X), renewed(lambda x: x @ x.T)(X)
    status = compilation_cache.cache_status()
    assert status.enabled and status.limit is None and status.hits > 0
    assert status.entries == sum(status.kinds.values()) and status.bytes > 1000
    assert compilation_cache.clear_cache() == status.entries
    assert compilation_cache.cache_status().entries == 0


# -- processes -------------------------------------------------------------------------------------

_TRAINING = """
import sys, json, numpy as np
import pyjax, pyjax.numpy as jnp
from pyjax import monitoring
events = []
monitoring.register_event_listener(lambda event, **_: events.append(event))
def step(w, x):
    return w - 0.1 * pyjax.grad(lambda w: (jnp.tanh(x @ w) ** 2).mean())(w)
x = jnp.asarray(np.linspace(-1, 1, 128, dtype=np.float32).reshape(16, 8))
w = pyjax.jit(step)(jnp.ones((8, 4)), x)
print(json.dumps([np.asarray(w).tobytes().hex(), events.count("/jax/compilation_cache/cache_hits"),
                  events.count("/jax/compilation_cache/cache_misses")]))
"""


def _run(cache: Path | str, **environment: str) -> subprocess.Popen[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "PYJAX_"))}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", _TRAINING],
        env={
            **clean,
            "PYJAX_CACHE_DIR": str(cache),
            "PYJAX_INSTALLED_DIR": "",  # what is found there counts, too
            **environment,
        },
        stdout=subprocess.PIPE,
        text=True,
    )


def _answer(process: subprocess.Popen[str]) -> list[Any]:
    import json

    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return json.loads(out)


def test_four_processes_at_once(tmp_path: Path) -> None:
    """All compile, all write, all get the same result; the next one loads everything."""
    running = [_run(tmp_path / "shared") for _ in range(4)]
    answers = [_answer(process) for process in running]
    assert len({result for result, _, _ in answers}) == 1
    bits, hits, misses = _answer(_run(tmp_path / "shared"))
    assert bits == answers[0][0] and hits > 0 and misses == 0
    left = [p.name for p in (tmp_path / "shared").rglob(".new-*")]
    assert left == []


def test_without_a_home(tmp_path: Path) -> None:
    bits, hits, misses = _answer(_run("", HOME="nowhere", XDG_CACHE_HOME=""))
    assert (hits, misses) == (0, 0)
    assert bits == _answer(_run(tmp_path / "cache"))[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX")
def test_forked_processes_use_it(events: list[str]) -> None:
    f = lambda x: jnp.tanh(x @ x.T) - 3
    expected = np.asarray(renewed(f)(X)).tobytes()
    child = os.fork()
    if child == 0:
        ok = False
        try:
            del events[:]
            ok = np.asarray(renewed(f)(X)).tobytes() == expected and "cache_hits" in events
            renewed(lambda x: jnp.tanh(x @ x.T) - 4)(X)
            ok &= "cache_misses" in events
        finally:
            os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    del events[:]
    renewed(lambda x: jnp.tanh(x @ x.T) - 4)(X)
    assert "cache_hits" in events


def test_a_disk_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(store, "write_file", full)
    with pytest.warns(RuntimeWarning, match="Read-only file system") as caught:
        for k in (1, 2):
            np.testing.assert_allclose(renewed(lambda x, k=k: x @ x.T + k)(X), X @ X.T + k)
    assert len(caught) == 1


def helper(x: Any) -> Any:
    return jnp.tanh(x @ x.T)


def test_who_calls_is_no_part_of_the_key(events: list[str]) -> None:
    def one(x: Any) -> Any:
        return helper(x) * 2

    def other(x: Any) -> Any:
        y = x

        return helper(y) * 2

    first = pyjax.jit(one).lower(X).compile()
    second = pyjax.jit(other).lower(X).compile()
    assert events.count("cache_hits") == 1 and kinds() == {"program": 1}
    assert '.one"' in first.as_text() and '.other"' not in first.as_text()
    assert '.other"' in second.as_text() and '.one"' not in second.as_text()
