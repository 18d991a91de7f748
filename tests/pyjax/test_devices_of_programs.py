"""Programs run, and results lie, on the device that was asked for.

The checks need several devices, which a process must ask for at its start: run as a script, this
file runs them all and prints what failed; the tests run that script once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jit, pmap
from tests.threads import together


def assert_on(result: Any, device: Any, committed: bool = True) -> None:
    leaves = pyjax.tree.leaves(result)
    assert leaves
    for leaf in leaves:
        assert (leaf.device, leaf.committed) == (device, committed)
        assert leaf.devices() == {device}
        assert leaf.sharding.device_set == {device}


def raises(kind: type[Exception], text: str, call: Any) -> None:
    with pytest.raises(kind, match=text):
        call()


def check_jit_with_a_device(d: list[Any]) -> None:
    x, x2 = jnp.arange(3.0), pyjax.device_put(jnp.arange(3.0), d[2])
    f = jit(lambda x: x + 1, device=d[1])
    for argument in (x, x2, np.arange(3.0, dtype=np.float32), [1.0, 2.0, 3.0]):
        result = jit(lambda x: pyjax.tree.map(lambda v: v + 1, x), device=d[1])(argument)
        assert_on(result, d[1])
    assert f(x).tolist() == [1, 2, 3]
    assert_on(f(x) * 2, d[1])


def check_jit_with_a_device_and_no_arguments(d: list[Any]) -> None:
    assert_on(jit(lambda: jnp.ones(3), device=d[1])(), d[1])
    assert_on(jit(lambda n: jnp.ones(n), device=d[2], static_argnums=0)(3), d[2])


def check_jit_with_shardings(d: list[Any]) -> None:
    sharding = pyjax.sharding.SingleDeviceSharding(d[3])
    mesh = pyjax.make_mesh((1,), ("i",), devices=[d[2]])
    named = pyjax.NamedSharding(mesh, pyjax.P("i"))
    assert_on(jit(lambda x: x + 1, in_shardings=sharding)(jnp.ones(2)), d[3])
    assert_on(jit(lambda x: x + 1, out_shardings=sharding)(jnp.ones(2)), d[3])
    assert_on(jit(lambda x: x + 1, in_shardings=named, out_shardings=named)(jnp.ones(2)), d[2])
    raises(
        ValueError, "several devices", lambda: jit(abs, in_shardings=sharding, out_shardings=named)
    )


def check_only_in_shardings_move(d: list[Any]) -> None:
    """Arguments that are committed elsewhere; numbers and uncommitted arrays go anywhere."""
    one, two = (pyjax.sharding.SingleDeviceSharding(d[i]) for i in (1, 2))
    named = pyjax.NamedSharding(pyjax.make_mesh((1,), ("i",), devices=[d[2]]), pyjax.P("i"))
    x, free = pyjax.device_put(jnp.arange(3.0), d[1]), jnp.arange(3.0)
    add = lambda x, y: x + y["b"]
    wrong = r"argument x of <lambda>, float32\[3\], is committed to cpu:1, and the program runs on "
    for to in (two, named):
        f = jit(lambda x: x + 1, out_shardings=to)
        for call in (f, f.lower, jit(lambda x: (x, x), out_shardings=(to, None))):
            raises(ValueError, wrong + "cpu:2", lambda call=call: call(x))
        described = pyjax.ShapeDtypeStruct((3,), np.float32, sharding=one)
        raises(ValueError, wrong + "cpu:2", lambda f=f, s=described: f.lower(s))
        assert_on(f(free), d[2])
        assert_on(f(np.arange(3.0)), d[2])
    assert_on(jit(lambda x: x + 1, out_shardings=one)(x), d[1])
    nested = r"argument y\['b'\] of <lambda>.*\n.*: .*\n.*only an argument that has"
    f = jit(add, in_shardings=(two, None))
    assert_on(f(x, {"b": free}), d[2])
    raises(ValueError, nested, lambda: f(free, {"b": x}))
    raises(ValueError, "does not support kwargs.*, got y", lambda: f(free, y={"b": x}))
    raises(ValueError, nested, lambda: jit(add, out_shardings=two)(free, y={"b": x}))
    for shardings in ((two, {"b": two}), (None, two), two):
        assert_on(jit(add, in_shardings=shardings)(free, {"b": x}), d[2])
    assert_on(jit(add, device=d[2])(x, {"b": x}), d[2])


def check_ahead_of_time_with_a_device(d: list[Any]) -> None:
    x = jnp.arange(3.0)
    for options in ({"device": d[1]}, {"in_shardings": pyjax.sharding.SingleDeviceSharding(d[1])}):
        lowered = jit(lambda x: (x + 1, x * 2), **options).lower(x)
        compiled = lowered.compile()
        assert_on(compiled(x), d[1])
        assert_on(compiled(np.arange(3, dtype=np.float32)), d[1])
        assert_on(compiled(pyjax.device_put(x, d[1])), d[1])
        assert compiled(x)[0].tolist() == [1, 2, 3]
        assert compiled.input_shardings[0][0].device is d[1]
        assert compiled.output_shardings[1].device is d[1]
        text = "committed to .*compiled for"
        raises(ValueError, text, lambda: compiled(pyjax.device_put(x, d[2])))  # noqa: B023


def check_ahead_of_time_for_committed_arguments(d: list[Any]) -> None:
    x = jnp.arange(3.0)
    for argument in (
        pyjax.device_put(x, d[2]),
        pyjax.ShapeDtypeStruct(
            (3,), jnp.float32, sharding=pyjax.sharding.SingleDeviceSharding(d[2])
        ),
    ):
        compiled = jit(lambda x: x + 1).lower(argument).compile()
        assert_on(compiled(x), d[2])
        raises(ValueError, "compiled for", lambda: compiled(pyjax.device_put(x, d[3])))  # noqa: B023
    two = pyjax.device_put(x, d[1]), pyjax.device_put(x, d[2])
    raises(ValueError, "different devices", lambda: jit(lambda a, b: a + b).lower(*two))


def check_ahead_of_time_on_the_default_device(d: list[Any]) -> None:
    with pyjax.default_device(d[3]):
        lowered = jit(lambda x: x + 1).lower(np.ones(3))
    assert_on(lowered.compile()(np.ones(3)), d[3], committed=False)
    assert_on(jit(lambda x: x + 1).lower(np.ones(3)).compile()(np.ones(3)), d[0], committed=False)


def check_default_devices_of_threads(d: list[Any]) -> None:
    f = jit(lambda x: x + 1)

    def work(device: Any) -> None:
        with pyjax.default_device(device):
            for _ in range(100):
                x = jnp.ones(4)
                assert_on((x, f(x), x + x, jnp.sin(x), x[1], grad(jnp.sum)(x)), device, False)

    together(*(partial(work, device) for device in d))
    assert_on(f(jnp.ones(4)), d[0], False)


def check_pmap(d: list[Any]) -> None:
    x = np.arange(3.0, dtype=np.float32)
    one = pmap(lambda v: v + 1, devices=[d[2]])
    assert_on(one(x[None]), d[2])
    assert_on(one.lower(x[None]).compile()(x[None]), d[2])
    two = pmap(lambda v: pyjax.lax.psum(v, "i"), axis_name="i", devices=[d[1], d[3]])
    result = two(np.stack([x, x]))
    assert result.devices() == {d[1], d[3]} and result.committed
    assert result.tolist() == [[0, 2, 4], [0, 2, 4]]


def check_shard_map(d: list[Any]) -> None:
    auto = pyjax.sharding.AxisType.Auto
    mesh = pyjax.make_mesh((1,), ("i",), (auto,), devices=[d[2]])
    f = pyjax.shard_map(
        lambda x: (pyjax.lax.psum(x, "i"), jnp.ones(2)),
        mesh=mesh,
        in_specs=pyjax.P("i"),
        out_specs=pyjax.P(),
    )
    total, ones = f(jnp.arange(3.0))
    assert_on(total, d[2])
    assert_on(ones, d[2])


def check_donation_to_another_device(d: list[Any]) -> None:
    f = jit(lambda x: x + 1, device=d[1], donate_argnums=0)
    x = jnp.zeros(3)
    assert_on(f(x), d[1])
    assert x.tolist() == [0, 0, 0]  # the copy on the other device was donated
    there = f(x)
    assert f(there).tolist() == [2, 2, 2]
    assert there.is_deleted()


def check_copies(d: list[Any]) -> None:
    for x in (jnp.arange(3.0), pyjax.random.key(0)):
        there = pyjax.device_put(x, d[2])
        copies = [jnp.array(there), jnp.copy(there), there.copy(), jnp.asarray(there, copy=True)]
        copies.append(jnp.array(there, ndmin=2))
        for copy in copies:
            assert_on(copy, d[2])
            copy.delete()
        assert_on(there, d[2])  # and is not deleted with its copies
        assert_on(jnp.array(x), d[0], committed=False)
        with pyjax.default_device(d[1]):
            assert_on(jnp.array(x), d[0], committed=False)
            assert_on(jnp.array(there), d[2])


def check_one_compilation_serves_all_devices(d: list[Any]) -> None:
    f = jit(lambda x: jnp.sort(x @ x.T) + 1)
    x = jnp.arange(6.0).reshape(2, 3)

    def compiled_for(device: Any) -> Any:
        made = []
        for default, argument in ((device, x), (d[0], pyjax.device_put(x, device))):
            with pyjax.default_device(default):  # traces again
                made.append(f.lower(argument).compile())
        assert made[0].runtime_executable() is made[1].runtime_executable()
        return made[1]

    compiled = [compiled_for(device) for device in d]
    assert len({id(c.runtime_executable()) for c in compiled}) == 1
    for c, device in zip(compiled, d):
        assert_on(c(pyjax.device_put(x, device)), device)
    other = jit(lambda x: jnp.sort(x @ x.T) + 2).lower(x).compile()
    assert other.runtime_executable() is not compiled[0].runtime_executable()
    options = {"xla_backend_optimization_level": 0}
    slower = f.lower(x).compile(compiler_options=options)
    assert slower.runtime_executable() is not compiled[0].runtime_executable()


def check_callbacks_are_told_apart(d: list[Any]) -> None:
    """Programs that differ in the Python function only are two."""
    seen: list[Any] = []
    for number, device in enumerate(d):

        def note(x: Any, number: int = number) -> None:
            seen.append((number, float(x)))

        def program(x: Any, note: Any = note) -> Any:
            pyjax.debug.callback(note, x)
            return x * 2

        assert_on(jit(program)(pyjax.device_put(1.0 + number, device)), device)
    assert seen == [(0, 1.0), (1, 2.0), (2, 3.0), (3, 4.0)]


def check_random_states_are_the_devices(d: list[Any]) -> None:
    with pyjax.default_prng_impl("unsafe_rbg"):
        keys = [pyjax.device_put(pyjax.random.key(0), device) for device in d]
        draws = [pyjax.random.normal(key, (4,)) for key in keys]
    for draw, device in zip(draws, d):
        assert_on(draw, device)
        assert draw.tolist() == draws[0].tolist()  # a key says all


def check_mixing_names_both(d: list[Any]) -> None:
    x, y = pyjax.device_put(jnp.arange(3.0), d[1]), pyjax.device_put(jnp.arange(3.0), d[2])
    for mix in (lambda: x + y, lambda: jit(jnp.add)(x, y), lambda: jnp.concatenate([x, y])):
        raises(ValueError, r"(?s)different devices.*cpu:1.*cpu:2.*device_put", mix)


CHECKS = {name: check for name, check in globals().items() if name.startswith("check_")}


def main() -> None:
    failures = {}
    for name, check in CHECKS.items():
        try:
            check(pyjax.devices())
        except BaseException:
            failures[name] = traceback.format_exc()
    print(json.dumps(failures))


@pytest.fixture(scope="module")
def failures() -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    result = subprocess.run(
        [sys.executable, "-m", "tests.pyjax.test_devices_of_programs"],
        cwd=Path(__file__).resolve().parents[2],
        env={**clean, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", CHECKS)
def test_devices(name, failures):
    assert name not in failures, failures[name]


if __name__ == "__main__":
    main()
