"""Digests of what programs are made from: equal for programs that are lowered to the same module
only, in whatever process; and what is found by them."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyjax._config import options

import pyjax
import pyjax.numpy as jnp
from pyjax import lax, monitoring
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.experimental.compilation_cache import compilation_cache
from pyjax.experimental.xla_metadata import set_xla_metadata
from pyjax.extend.core import Primitive
from pyjax.interpreters import hlo, mlir
from pyjax.interpreters.program_digest import digest_of
from pyjax.interpreters.rules import lowering_rules
from pyjax.runtime import dispatch, module_sources
from tests.op_table import cases
from tests.op_tables import OPS
from tests.own_cache import own_cache
from tests.pyjax.digest_programs import PROGRAMS
from xla_backend.hlo.fingerprint import module_fingerprint
from xla_backend.hlo.printer import module_to_text
from xla_backend.persistent import sources

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def nan(payload: int) -> np.float32:
    return np.frombuffer(struct.pack("<I", 0x7FC00000 | payload), np.float32)[0]


def program(function: Callable[..., Any], *args: Any) -> ClosedJaxpr:
    return pyjax.make_jaxpr(function)(*args)


def digest(function: Callable[..., Any], *args: Any) -> str:
    found = digest_of(program(function, *args))
    assert found is not None
    return found


def fingerprint(closed: ClosedJaxpr) -> str:
    return module_fingerprint(hlo.lower_jaxpr_to_module(closed, "f"))


@pyjax.custom_jvp
def clipped(x: Any) -> Any:
    return jnp.minimum(x, 1)


clipped.defjvp(lambda primals, tangents: (clipped(*primals), tangents[0] * 2))


@pyjax.custom_jvp
def clipped_again(x: Any) -> Any:
    return jnp.minimum(x, 1)


clipped_again.defjvp(lambda primals, tangents: (clipped_again(*primals), tangents[0] * 3))

# What each is made from differs, however little.
DIFFERENT: dict[str, list[Callable[[], str]]] = {
    "zeros": [
        lambda v=v: digest(lambda x: lax.add(x, v), X[0, 0])
        for v in (np.float32(0.0), np.float32(-0.0))
    ],
    "payloads": [
        lambda v=v: digest(lambda x: lax.add(x, v), X[0, 0]) for v in (nan(1), nan(2), nan(0))
    ],
    "weak types": [lambda: digest(lambda x: x, 1.0), lambda: digest(lambda x: x, np.float32(1))],
    "dtypes": [
        lambda t=t: digest(lambda x: lax.neg(x), np.zeros(3, t))
        for t in ("float32", "float16", jnp.bfloat16, "int32", "int16", "complex64")
    ],
    "shapes": [lambda s=s: digest(lax.neg, np.zeros(s)) for s in ((), (1,), (6,), (2, 3), (3, 2))],
    "constants": [
        lambda c=c: digest(lambda x: lax.add(x, c), X)
        for c in (X, -X, X * np.float32(0), -X * np.float32(0), X.T.reshape(2, 3))
    ],
    "large constants": [
        lambda c=c: digest(lambda x: lax.add(x, c), np.zeros(500, np.float32))
        for c in (np.zeros(500, np.float32), -np.zeros(500, np.float32))
    ],
    "nested constants": [
        lambda c=c: digest(
            lambda x: lax.fori_loop(0, 3, lambda i, y: y + c, x), np.zeros(2, np.float32)
        )
        for c in (np.array([0, 1], np.float32), np.array([-0.0, 1], np.float32))
    ],
    "parameters": [
        lambda d=d: digest(lambda x: lax.transpose(x, d), np.zeros((2, 2)))
        for d in ((0, 1), (1, 0))
    ],
    "order of operands": [
        lambda: digest(lambda x, y: x - y, X, X), lambda: digest(lambda x, y: y - x, X, X)
    ],
    "which input": [
        lambda: digest(lambda x, y: x, X, X),
        lambda: digest(lambda x, y: y, X, X),
        lambda: digest(lambda x, y: (x, y), X, X),
        lambda: digest(lambda x, y: (y, x), X, X),
    ],
    "inner programs": [
        lambda f=f: digest(lambda x: lax.cond(x.sum() > 0, f, lambda x: x, x), X)
        for f in (jnp.sin, jnp.cos)
    ],
    "attributes": [
        lambda: digest(lambda x: x + 1, X),
        lambda: digest(set_xla_metadata(a="1")(lambda x: x + 1), X),
        lambda: digest(set_xla_metadata(a="2")(lambda x: x + 1), X),
    ],
    "keys": [
        lambda name=name: digest(lambda k: pyjax.random.bits(k), pyjax.random.key(0, impl=name))
        for name in ("threefry2x32", "rbg", "unsafe_rbg")
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_programs_that_differ_have_other_digests(name: str) -> None:
    digests = [make() for make in DIFFERENT[name]]
    assert len({*digests}) == len(digests)


def test_what_lowering_does_not_look_at_is_no_part() -> None:
    def first(x: Any) -> Any:
        with pyjax.named_scope("here"):
            return jnp.sin(x) + 1

    second = lambda other: jnp.sin(other) + 1
    assert digest(first, X) == digest(second, X)
    assert digest(clipped, X) == digest(clipped_again, X)  # their derivatives differ
    assert digest(pyjax.grad(clipped), 0.5) != digest(pyjax.grad(clipped_again), 0.5)


def test_options_that_lowering_looks_at_are_a_part() -> None:
    closed = program(lambda x: x + 1, X)
    usual = digest_of(closed)
    with options.threefry_partitionable(not options.threefry_partitionable.value):
        assert digest_of(closed) != usual
    with options.compilation_cache_expect_pgle(True):  # the compiler's: its options have it
        assert digest_of(closed) == usual
    assert digest_of((closed, (True,))) != digest_of((closed, (False,)))
    assert digest_of((closed, 1)) != digest_of((closed, True)) != digest_of((closed, 1.0))


def test_sharing_of_inner_programs_is_a_part() -> None:
    f, g = pyjax.jit(lambda x: jnp.sin(x) * 2), pyjax.jit(lambda x: jnp.sin(x) * 2)
    assert digest(lambda x: f(f(x)), X) != digest(lambda x: f(g(x)), X)


def _users_primitive() -> ClosedJaxpr:
    twice_p = Primitive("twice")
    twice_p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(twice_p, mlir.lower_fun(lambda x: 2 * x, multiple_results=False))
    return program(twice_p.bind, 1.0)


ONLY_HERE: dict[str, Callable[[], ClosedJaxpr]] = {
    "a callback": lambda: program(
        lambda x: pyjax.pure_callback(np.sin, pyjax.ShapeDtypeStruct((), np.float32), x), 1.0
    ),
    "an effect": lambda: program(lambda x: pyjax.debug.print("{}", x), 1.0),
    "a primitive of the user": _users_primitive,
}


@pytest.mark.parametrize("name", ONLY_HERE)
def test_what_means_something_here_only_has_no_digest(name: str) -> None:
    assert digest_of(ONLY_HERE[name]()) is None


@pytest.mark.parametrize("own", [lambda ctx, x: x, hlo.lower_fun(lambda x: x)])
def test_a_rule_of_the_user_has_no_digest(own: Any) -> None:
    """Also one for a primitive of pyjax."""
    closed = program(lax.sin, 1.0)
    before = lowering_rules.get(lax.sin_p)
    usual = digest_of(closed)
    try:
        lowering_rules[lax.sin_p] = own
        assert digest_of(closed) is None
        lowering_rules[lax.sin_p] = before
        mlir.register_lowering(lax.sin_p, own, platform="cuda")
        assert digest_of(closed) is None
        assert digest_of(program(lax.cos, 1.0)) is None  # its rule might use it
    finally:
        lowering_rules[lax.sin_p] = before
    assert digest_of(closed) == usual is not None


def test_equal_digests_are_equal_modules() -> None:
    """Of all operators, with all their parameters: and nearly all have one."""
    modules: dict[str, str] = {}
    without = total = 0
    for op, dtype, shapes in cases(OPS):
        closed = program(op.fn, *op.draw(dtype, shapes))
        found = digest_of(closed)
        total += 1
        if found is None:
            without += 1
            continue
        computed = fingerprint(closed)
        assert modules.setdefault(found, computed) == computed, op
    assert without < total / 50


# -- what is found by them -------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with own_cache(tmp_path, monkeypatch) as folder:
        yield folder


def renewed(function: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    """The same function, as no cache in memory knows it."""
    pyjax.clear_caches()
    return pyjax.jit(lambda *args: function(*args), **how)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_on_disk_are_not_lowered(
    name: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, args = PROGRAMS[name]
    args = tuple(map(jnp.asarray, args))
    first = renewed(function)(*args)
    monkeypatch.setattr(hlo, "lower_jaxpr_to_module", lambda *_, **__: pytest.fail("lowered"))
    again = renewed(function)(*args)
    for a, b in zip(pyjax.tree.leaves(first), pyjax.tree.leaves(again), strict=True):
        assert a.dtype == b.dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("size", [3, 100_000], ids=["of any shape", "of its shapes"])
def test_listeners_hear_of_each_stage_once(size: int, cache: Path) -> None:
    """Whether a program is compiled, or found on disk by its digest and not lowered."""
    heard: list[tuple[str, str]] = []

    def listener(event: str, _: float, **kwargs: Any) -> None:
        if "fun_name" in kwargs:  # not of a cache
            heard.append((event.rpartition("/")[2], kwargs["fun_name"]))

    x = np.ones(size, np.float32)
    monitoring.register_event_duration_secs_listener(listener)
    try:
        for _ in range(2):  # compiled, and found
            pyjax.clear_caches()
            pyjax.lax.reduce_precision(x, 7, 13)
            assert heard == [
                ("jaxpr_to_mlir_module_duration", "jit(reduce_precision)"),
                ("backend_compile_duration", "jit(reduce_precision)"),
            ]
            heard.clear()
    finally:
        monitoring.unregister_event_duration_listener(listener)


def test_donated_arguments_are_other_programs(cache: Path) -> None:
    function = lambda x: jnp.tanh(x) * 2
    x = jnp.ones((400, 400))
    kept = renewed(function)(x)
    for _ in range(2):  # compiled, and found
        given = jnp.ones((400, 400))
        assert np.array_equal(renewed(function, donate_argnums=0)(given), kept)
        assert given.is_deleted()
        renewed(function)(x)
        assert not x.is_deleted()


def test_the_module_is_made_when_somebody_asks(cache: Path) -> None:
    """As it would have been made at the call: options have changed since, and so has its caller."""
    function = lambda x: jnp.tanh(x @ x.T) * 2
    with options.enable_x64(True):
        wide = np.ones((20, 20))
        renewed(function)(wide)
        f = renewed(function)
        f(wide)
        wanted = pyjax.jit(function).lower(wide).compile().as_text()
    ((_, compiled), *_) = f._compiled.items()
    module = compiled.program.executable.module
    assert "f64[20,20]" in module_to_text(module)
    assert "f64[20,20]" in wanted


def test_another_rule_is_compiled_anew(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    function = lambda x: lax.tan(x @ x)
    x = np.full((30, 30), 0.01, np.float32)
    renewed(function)(x)
    before = lowering_rules.get(lax.tan_p)
    try:
        lowering_rules[lax.tan_p] = hlo.lower_fun(lambda x, **_: x * 3)
        changed = renewed(function)(x)
    finally:
        lowering_rules[lax.tan_p] = before
    assert np.allclose(changed, x @ x * 3, rtol=1e-5)
    assert np.allclose(renewed(function)(x), np.tan(x @ x), rtol=1e-5)


def test_a_damaged_entry_is_made_again(cache: Path) -> None:
    function = lambda x: jnp.tanh(x @ x.T) - 0.125
    first = renewed(function)(X)
    (entry,) = cache.glob("entries-*/*.program")
    data = bytearray(entry.read_bytes())
    data[-3] ^= 255
    entry.write_bytes(data)
    with pytest.warns(RuntimeWarning, match="damaged"):
        again = renewed(function)(X)
    assert np.asarray(first).tobytes() == np.asarray(again).tobytes()


def test_who_wants_locations_in_keys_has_them(cache: Path) -> None:
    pyjax.config.update("jax_compilation_cache_include_metadata_in_key", True)
    for function in (lambda x: jnp.tanh(x @ x.T) - 0.25, lambda y: jnp.tanh(y @ y.T) - 0.25):
        renewed(function)(X)
    assert compilation_cache.cache_status().kinds["program"] == 2


def test_threads_find_the_same(cache: Path) -> None:
    function = lambda x: jnp.tanh(x @ x.T) - 0.375
    wanted = np.asarray(renewed(function)(X)).tobytes()
    functions = [renewed(function) for _ in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda f: np.asarray(f(X)).tobytes(), functions)]
    assert {*found} == {wanted}


_DIGESTS = """
import json, sys
sys.path.insert(0, sys.argv[1])
import pyjax
from pyjax.interpreters.program_digest import digest_of
from tests.pyjax.digest_programs import PROGRAMS
of = lambda f, args: digest_of(pyjax.make_jaxpr(f)(*args))
print(json.dumps({name: of(f, args) for name, (f, args) in PROGRAMS.items()}))
"""


def test_digests_are_those_of_other_processes() -> None:
    root = str(Path(__file__).parents[2])
    env = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": root}
    ran = subprocess.run(
        [sys.executable, "-c", _DIGESTS, root], env=env, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {name: digest(f, *xs) for name, (f, xs) in PROGRAMS.items()}


def test_sources_that_changed_have_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    make = lambda caller: pytest.fail("lowered")
    closed = program(jnp.sin, 1.0)
    assert module_sources.module_source("f", make, closed).digest is not None
    monkeypatch.setattr(sources, "digest_of_folders", lambda *_: None)
    assert module_sources.module_source("f", make, closed).digest is None
    assert dispatch.program_source(closed, "f", "cpu").module.name == "jit_f"


def test_a_rule_without_a_module() -> None:
    """As of functions in doctests."""
    name = "without_module"
    made = Primitive(name)
    rule = lambda ctx, x: [x]
    rule.__module__ = None  # type: ignore[assignment]
    lowering_rules[made] = rule
    try:
        assert digest(jnp.sin, 1.0) is not None
    finally:
        lowering_rules.discard(made)


def test_a_parameter_without_a_module() -> None:
    text = "lambda a, b: (a[0] + b[0], a[1] * b[1])"
    made = eval(text, {"__builtins__": {}})
    assert made.__module__ is None
    reduce = lambda x: lax.reduce((x, x), (jnp.float32(0), jnp.float32(1)), made, (0,))
    for run in (reduce, pyjax.jit(reduce)):
        assert [float(y) for y in run(np.full(3, 2, np.float32))] == [6, 8]
