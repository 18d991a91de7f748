"""Programs do the same after they were exported, in this process and in another one."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import export
from tests.pyjax.export.programs import DIFFERENTIATED, PROGRAMS


def exported_program(name: str) -> export.Exported:
    function, args = PROGRAMS[name]
    return export.export(pyjax.jit(function))(*args)


def total(results: Any) -> Any:
    return sum(x.sum() for x in pyjax.tree.leaves(results) if jnp.result_type(x) == "float32")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what a process that knows no function made of the programs."""
    folder = tmp_path_factory.mktemp("exported")
    for name, (_, args) in PROGRAMS.items():
        order = 1 if name in DIFFERENTIATED else 0
        stem = folder / name.replace(" ", "_")
        stem.with_suffix(".exported").write_bytes(exported_program(name).serialize(order))
        stem.with_suffix(".args").write_bytes(pickle.dumps(args))
    script = Path(__file__).with_name("run_exported.py")
    run = subprocess.run(
        [sys.executable, str(script), str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert run.returncode == 0, run.stderr
    return folder


def same(found: Any, expected: Any) -> None:
    leaves = [np.asarray(x) for x in pyjax.tree.leaves(expected)]
    assert len(found) == len(leaves)
    for x, y in zip(found, leaves):
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        assert x.tobytes() == y.tobytes()


@pytest.mark.parametrize("name", PROGRAMS)
def test_another_process_computes_the_same_bits(name: str, elsewhere: Path) -> None:
    function, args = PROGRAMS[name]
    results = pickle.loads((elsewhere / f"{name.replace(' ', '_')}.result").read_bytes())
    same(results, pyjax.jit(function)(*args))


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_another_process_differentiates(name: str, elsewhere: Path) -> None:
    function, args = PROGRAMS[name]
    gradient = pickle.loads((elsewhere / f"{name.replace(' ', '_')}.gradient").read_bytes())
    expected = pyjax.grad(lambda *args: total(function(*args)))(*args)
    np.testing.assert_allclose(gradient, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_here(name: str) -> None:
    function, args = PROGRAMS[name]
    exported = exported_program(name)
    expected = pyjax.jit(function)(*args)
    result = exported.call(*args)
    assert pyjax.tree.structure(result) == pyjax.tree.structure(expected)
    same([np.asarray(x) for x in pyjax.tree.leaves(result)], expected)
    for x, aval in zip(pyjax.tree.leaves(result), exported.out_avals):
        assert (x.aval.shape, x.dtype, x.weak_type) == (aval.shape, aval.dtype, aval.weak_type)


def test_fields() -> None:
    def scaled(x: Any, *, by: Any, unused: Any) -> Any:
        return {"r": x * by}

    struct = pyjax.ShapeDtypeStruct((2, 3), jnp.float32)
    made = export.export(pyjax.jit(scaled), platforms=["cpu", "tpu"])(struct, by=2, unused=struct)
    for exported in (made, export.deserialize(made.serialize())):
        assert exported.fun_name == "scaled"
        assert repr(exported) == "Exported(fun_name=scaled, ...)"
        assert exported.in_tree == pyjax.tree.structure(((0,), {"by": 0, "unused": 0}))
        assert exported.out_tree == pyjax.tree.structure({"r": 0})
        assert [a.str_short() for a in exported.in_avals] == [
            "float32[2,3]",
            "int32[]",
            "float32[2,3]",
        ]
        assert [a.weak_type for a in exported.in_avals] == [False, True, False]
        assert [a.str_short() for a in exported.out_avals] == ["float32[2,3]"]
        assert exported.platforms == ("cpu", "tpu")
        assert exported.module_kept_var_idx == (0, 1)
        assert exported.nr_devices == 1
        assert exported.calling_convention_version == 9
        assert not exported.uses_global_constants
        assert exported.ordered_effects == exported.unordered_effects == ()
        assert exported.in_shardings_hlo == (None, None, None)
        assert exported.out_shardings_hlo == (None,)
        assert exported.mlir_module().encode() == exported.mlir_module_serialized
        assert "func.func public @main(%arg0: tensor<2x3xf32>" in exported.mlir_module()
        assert "jax.result_info = \"result['r']\"" in exported.mlir_module()
        assert "pyjax.calling_convention_version = 9 : i32" in exported.mlir_module()
    assert export.default_export_platform() == "cpu"


def test_under_jit_vmap_and_reverse_mode() -> None:
    exported = exported_program("elementwise")
    x = np.linspace(-1, 1, 3, dtype=np.float32)

    def loss(x: Any, y: Any) -> Any:
        return exported.call(x, y)["a"].sum()

    assert pyjax.jit(loss)(x, 2.0) == np.float32(np.sin(x).sum() + 6)
    np.testing.assert_allclose(pyjax.grad(loss)(x, 2.0), np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(pyjax.grad(loss, 1)(x, 2.0), 3)
    second = pyjax.jacrev(pyjax.jit(pyjax.grad(loss)))(x, 2.0)
    np.testing.assert_allclose(second, np.diag(-np.sin(x)), rtol=1e-6)
    batch = np.stack([x, 2 * x])
    mapped = pyjax.vmap(exported.call, (0, None))(batch, 2.0)["a"]
    np.testing.assert_allclose(mapped, np.sin(batch) + 2, rtol=1e-6)
    per_example = pyjax.vmap(pyjax.grad(loss), (0, None))(batch, 2.0)
    np.testing.assert_allclose(per_example, np.cos(batch), rtol=1e-6)
    looped = pyjax.lax.fori_loop(0, 3, lambda i, x: exported.call(x, 0.0)["a"], x)
    np.testing.assert_allclose(looped, np.sin(np.sin(np.sin(x))), rtol=1e-6)


def test_exported_again_within_another() -> None:
    inner = exported_program("elementwise")
    outer = export.export(pyjax.jit(lambda x: inner.call(x, 1.0)["a"] * 2))(np.ones(3, np.float32))
    again = export.deserialize(outer.serialize(vjp_order=1))
    np.testing.assert_allclose(again.call(np.ones(3, np.float32)), 2 * (np.sin(1) + 1), rtol=1e-6)
    gradient = pyjax.grad(lambda x: again.call(x).sum())(np.ones(3, np.float32))
    np.testing.assert_allclose(gradient, 2 * np.cos(np.full(3, 1.0)), rtol=1e-6)


def test_integers_and_keys_beside_what_is_differentiated() -> None:
    def noisy(x: Any, n: Any, key: Any) -> Any:
        return x * n, n + 1, key, pyjax.random.normal(key, (2,)) * x[0]

    key = pyjax.random.key(3)
    x = np.ones(2, np.float32)
    made = export.export(pyjax.jit(noisy))(x, 2, key)
    exported = export.deserialize(made.serialize(vjp_order=2))
    out, n, same_key, noise = exported.call(x, 5, key)
    assert out.tolist() == [5, 5]
    assert n == 6
    assert same_key.dtype == key.dtype
    assert noise.tolist() == pyjax.random.normal(key, (2,)).tolist()
    gradient = pyjax.grad(lambda x: exported.call(x, 5, key)[0].sum())(x)
    assert gradient.tolist() == [5, 5]
    derivative = exported.vjp()
    assert [a.str_short() for a in derivative.out_avals] == ["float32[2]", "float0[]", "float0[]"]
    cts = (x, np.zeros((), pyjax.dtypes.float0), np.zeros((), pyjax.dtypes.float0), x)
    pulled = derivative.call(x, 5, key, *cts)
    assert pulled[1].dtype == pulled[2].dtype == pyjax.dtypes.float0
    assert pulled[0].tolist() == [5 + noise.sum(), 5]


def test_static_arguments_are_part_of_the_program() -> None:
    power = pyjax.jit(lambda x, n: x**n, static_argnums=1)
    exported = export.export(power)(3.0, 2)
    assert exported.call(3.0) == 9
    assert exported.vjp().call(3.0, 1.0)[0] == 6


def test_derivatives_as_many_as_were_serialized() -> None:
    cube = export.export(pyjax.jit(lambda x: x**3))(2.0)
    assert cube.has_vjp()
    loaded = export.deserialize(cube.serialize(vjp_order=2))
    third: Any = loaded.call
    for expected in (12.0, 12.0):
        third = pyjax.grad(third)
        assert third(2.0) == expected
    assert not loaded.vjp().vjp().has_vjp()
    plain = export.deserialize(cube.serialize())
    assert not plain.has_vjp()
    assert plain.call(2.0) == 8


@pytest.mark.parametrize("platform", ["interpreter", "emulator"])
def test_a_platform_that_stands_for_the_cpu_shares_its_programs(platform: str) -> None:
    exported = export.export(pyjax.jit(jnp.negative), platforms=[platform])(1.0)
    assert exported.platforms == (platform,)
    assert exported.call(2.0) == -2


def test_any_platform() -> None:
    checks = [export.DisabledSafetyCheck.platform()]
    exported = export.export(pyjax.jit(jnp.negative), platforms=["tpu"], disabled_checks=checks)(
        1.0
    )
    assert export.deserialize(exported.serialize()).call(2.0) == -2


def test_memory_of_arguments_stays() -> None:
    given = pyjax.jit(lambda x: x + 1, donate_argnums=0)
    exported = export.export(given)(jnp.zeros(4))
    x = jnp.ones(4)
    assert exported.call(x).tolist() == [2] * 4
    assert x.tolist() == [1] * 4
