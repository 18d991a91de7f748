"""Compiled programs as bytes: they come back in other processes, and nothing else does."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import pyjax
from pyjax import numpy as jnp
from pyjax.experimental.serialize_executable import deserialize_and_load, serialize
from xla_backend.targets.cpu import serialized_programs
from xla_backend.targets.interpreter import InterpreterClient

TABLE = jnp.asarray(np.random.default_rng(0).normal(size=(64, 64)), jnp.float32)
KEYS = pyjax.random.split(pyjax.random.key(1), 512)


def compiled(f: Any, *args: Any, **kwargs: Any) -> Any:
    return pyjax.jit(f).lower(*args, **kwargs).compile()


def through_a_file(parts: tuple) -> Any:
    return deserialize_and_load(*pickle.loads(pickle.dumps(parts)))


PROGRAMS = {
    "elementwise": (lambda x: jnp.sin(x) * 2, (1.5,), {}),
    "trees": (
        lambda d, *, k: {"r": (d["a"] @ d["b"], k + 1)},
        ({"a": TABLE, "b": TABLE},),
        {"k": 3},
    ),
    "constants": (lambda x: x @ TABLE, (jnp.ones((3, 64)),), {}),
    "constant keys": (lambda i: pyjax.random.normal(KEYS[i], (2,)), (3,), {}),
    "loops": (lambda x: pyjax.lax.fori_loop(0, 5, lambda i, y: y * x, x), (1.1,), {}),
    "LAPACK": (lambda a: jnp.linalg.solve(a, a[0]), (TABLE,), {}),
    "sorting": (lambda a: jnp.sort(a, axis=0), (TABLE,), {}),
    "bfloat16": (lambda x: x + 1, (jnp.ones(3, jnp.bfloat16),), {}),
    "keys": (lambda k: (k, pyjax.random.bits(k)), (pyjax.random.key(0),), {}),
    "no results": (lambda x: (), (1.0,), {}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_equal(name: str) -> None:
    f, args, kwargs = PROGRAMS[name]
    program = compiled(f, *args, **kwargs)
    loaded = through_a_file(serialize(program))
    wanted, found = program(*args, **kwargs), loaded(*args, **kwargs)
    assert pyjax.tree.structure(wanted) == pyjax.tree.structure(found)
    for a, b in zip(pyjax.tree.leaves(wanted), pyjax.tree.leaves(found)):
        assert (a.aval, a.weak_type) == (b.aval, b.weak_type)
        if not jnp.issubdtype(a.dtype, pyjax.dtypes.prng_key):
            np.testing.assert_array_equal(a, b)


def test_what_is_known_of_a_loaded_program() -> None:
    program = compiled(lambda x: jnp.sin(x) + 1, jnp.ones(3))
    loaded = through_a_file(serialize(program))
    assert loaded.in_tree == program.in_tree and loaded.out_tree == program.out_tree
    assert loaded.args_info == program.args_info
    assert loaded.as_text() == program.as_text()
    assert loaded.cost_analysis() == program.cost_analysis()
    assert loaded.memory_analysis() == program.memory_analysis()
    with pytest.raises(TypeError, match="argument leaf 0 was float32"):
        loaded(jnp.ones(4))
    with pytest.raises(TypeError, match="another argument structure"):
        loaded(jnp.ones(3), 2)
    again = through_a_file(serialize(loaded))
    np.testing.assert_array_equal(again(jnp.ones(3)), program(jnp.ones(3)))


def test_shardings() -> None:
    mesh = pyjax.make_mesh((1,), ("rows",))
    sharding = pyjax.NamedSharding(mesh, pyjax.P("rows"))
    x = pyjax.device_put(jnp.ones((4, 4)), sharding)
    program = compiled(lambda x: x + 1, x)
    loaded = through_a_file(serialize(program))
    assert loaded.input_shardings == program.input_shardings == (((sharding,), {}))
    assert loaded.output_shardings == program.output_shardings
    assert loaded(x).sharding == program(x).sharding


def test_donation() -> None:
    program = pyjax.jit(lambda x: x + 1, donate_argnums=0).lower(jnp.ones(1000)).compile()
    loaded = through_a_file(serialize(program))
    x = jnp.ones(1000)
    assert loaded(x)[0] == 2.0
    assert x.is_deleted() and loaded.donate_argnums == (0,)


LOADING = """
import pickle, sys
import pyjax
from pyjax.experimental.serialize_executable import deserialize_and_load
compiled = []
pyjax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: compiled.append(name))
loaded = deserialize_and_load(*pickle.load(open(sys.argv[1], "rb")))
print(loaded(2.0), len(compiled))
pyjax.jit(lambda x: x - 1)(2.0)
print(any("compile" in name for name in compiled))
"""


def test_another_process_compiles_nothing(tmp_path: Any) -> None:
    program = compiled(lambda x: jnp.exp(x) * jnp.arange(3), 2.0)
    path = tmp_path / "program"
    path.write_bytes(pickle.dumps(serialize(program)))
    environment = {**os.environ, "PYJAX_ENABLE_COMPILATION_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", LOADING, str(path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stderr == ""
    assert done.stdout.strip() == f"{program(2.0)} 0\nTrue"


def test_devices() -> None:
    device = pyjax.devices()[0]
    parts = serialize(compiled(lambda x: x + 1, 1.0))
    assert not deserialize_and_load(*parts)(1.0).committed
    loaded = deserialize_and_load(*parts, backend="cpu", execution_devices=[device])
    assert loaded(1.0).committed
    assert deserialize_and_load(*parts, backend=device.client)(1.0) == 2.0
    with pytest.raises(ValueError, match="runs on 1 device, and execution_devices has 2"):
        deserialize_and_load(*parts, execution_devices=[device, device])
    other = InterpreterClient()
    with pytest.raises(ValueError, match="belong to a client other than `backend`"):
        deserialize_and_load(*parts, backend=other, execution_devices=[device])
    with pytest.raises(ValueError, match="compiled for cpu, and is loaded for interpreter"):
        deserialize_and_load(*parts, backend=other)


def with_ref() -> Any:
    ref = pyjax.new_ref(1.0)
    return compiled(lambda x: ref[...] + x, 1.0)


def with_callback() -> Any:
    kind = pyjax.ShapeDtypeStruct((), np.float32)
    return compiled(lambda x: pyjax.pure_callback(np.sin, kind, x), 1.0)


def interpreted() -> Any:
    program = compiled(jnp.sin, 1.0)
    program._made_of = program._made_of._replace(device=InterpreterClient().devices()[0])
    return program


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (with_ref, "mutable references"),
        (with_callback, "calls functions of this process"),
        (interpreted, "'interpreter' cannot be serialized"),
    ],
)
def test_what_cannot_be_serialized(make: Any, why: str) -> None:
    with pytest.raises(ValueError, match=f"(?s)does not support serialization.*{why}"):
        serialize(make())


def test_functions_are_no_compiled_programs() -> None:
    with pytest.raises(TypeError, match="takes a compiled program, got"):
        serialize(pyjax.jit(jnp.sin))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "error", "why"),
    [
        (lambda b: b[:-1], ValueError, "damaged"),
        (lambda b: b[:100] + bytes([b[100] ^ 1]) + b[101:], ValueError, "damaged"),
        (lambda b: b"x" + b[1:], ValueError, "it begins with"),
        (lambda b: b[:8] + b"\3" + b[9:], ValueError, "format 3"),
        (lambda b: b"", ValueError, "it begins with"),
        (lambda b: "text", TypeError, "takes bytes, got str"),
    ],
)
def test_damage(change: Any, error: type[Exception], why: str) -> None:
    blob, in_tree, out_tree = serialize(compiled(jnp.sin, 1.0))
    with pytest.raises(error, match=why):
        deserialize_and_load(change(blob), in_tree, out_tree)


def test_other_trees() -> None:
    blob, in_tree, out_tree = serialize(compiled(jnp.sin, 1.0))
    with pytest.raises(ValueError, match="in_tree has 2 leaves, and the program 1 arrays"):
        deserialize_and_load(blob, pyjax.tree.structure((1, 2)), out_tree)
    with pytest.raises(ValueError, match="out_tree has 0 leaves"):
        deserialize_and_load(blob, in_tree, pyjax.tree.structure(()))


@pytest.mark.parametrize(
    ("name", "why"),
    [("source_digest", "another version of the compiler"), ("target_for", "for the processor")],
)
def test_of_another_compiler_or_processor(
    name: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other:
        key = "another one"

    parts = serialize(compiled(jnp.sin, 1.0))
    monkeypatch.setattr(serialized_programs, name, lambda *_: Other)
    with pytest.raises(ValueError, match=why):
        deserialize_and_load(*parts)


def test_bad_results_are_noticed() -> None:
    loaded = through_a_file(serialize(compiled(jnp.log, 1.0)))
    with (
        pyjax.debug_nans(True),
        pytest.raises(FloatingPointError, match=r"(?s)nan.*result 0.*compiled by another process"),
    ):
        loaded(-1.0)
