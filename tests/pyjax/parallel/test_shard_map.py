"""shard_map: programs over meshes of several sizes against a model that loops over devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import P, lax, shard_map
from pyjax.sharding import AbstractMesh
from tests.pyjax.parallel.device_model import World
from tests.pyjax.parallel.programs import PROGRAMS, Program
from tests.sampling import sampled

MESHES = {
    "1": {"i": 1},
    "2": {"i": 2},
    "4": {"i": 4},
    "1x2": {"i": 1, "j": 2},
    "2x2": {"i": 2, "j": 2},
}


class Library:
    """What programs call, of the library."""

    psum, pmean, pmax, pmin = lax.psum, lax.pmean, lax.pmax, lax.pmin
    all_gather, psum_scatter, all_to_all = lax.all_gather, lax.psum_scatter, lax.all_to_all
    ppermute, pshuffle, pbroadcast = lax.ppermute, lax.pshuffle, lax.pbroadcast
    axis_index, axis_size = lax.axis_index, lax.axis_size
    sin, exp, dot, tile = jnp.sin, jnp.exp, jnp.dot, jnp.tile

    @staticmethod
    def pcast(x: Any, axes: Any, to: str) -> Any:
        return lax.pcast(x, axes, to=to)

    @staticmethod
    def repeated(f: Callable[[Any], Any], x: Any, n: int) -> Any:
        return lax.fori_loop(0, n, lambda _, c: f(c), x)

    @staticmethod
    def until(over: Callable[[Any], Any], f: Callable[[Any], Any], x: Any) -> Any:
        return lax.while_loop(lambda c: ~over(c), f, x)

    @staticmethod
    def above(x: Any, limit: float) -> Any:
        return x > limit

    @staticmethod
    def choose(which: Any, a: Any, b: Any, x: Any) -> Any:
        return lax.cond(which, a, b, x)


def mapped(program: Program, axes: dict[str, int], check_vma: bool = True) -> Callable[..., Any]:
    return shard_map(
        lambda *blocks: program.f(Library, *blocks),
        mesh=AbstractMesh(tuple(axes.values()), tuple(axes)),
        in_specs=tuple(P(*spec) for spec in program.in_specs),
        out_specs=P(*program.out_spec),
        check_vma=check_vma,
    )


def modelled(program: Program, axes: dict[str, int]) -> Callable[..., np.ndarray]:
    def run(*args: np.ndarray) -> np.ndarray:
        world = World(axes)
        blocks = [world.blocks(x, spec) for x, spec in zip(args, program.in_specs)]
        return world.whole(program.f(world, *blocks), program.out_spec)

    return run


def drawn(program: Program, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng([seed, *program.name.encode()])
    return [rng.uniform(-1, 1, shape) for shape in program.shapes]


CASES = [
    pytest.param(program, axes, id=f"{program}-{name}")
    for program in PROGRAMS
    for name, axes in MESHES.items()
    if not program.two or "j" in axes
]
SMALL = [
    pytest.param(*case.values, id=case.id)
    for case in CASES
    if case.values[1] in ({"i": 2}, {"i": 2, "j": 2})
]
DERIVED = [  # two sizes for every change, the others where it is exhaustive
    case
    if case.id in {small.id for small in SMALL}
    else pytest.param(*case.values, id=case.id, marks=pytest.mark.slow)
    for case in CASES
    if case.values[0].smooth
]


def kinds(program: Program) -> list[bool]:
    return [True, False] if program.proven else [False]


@pytest.fixture(autouse=True)
def wide() -> Any:
    with pyjax.enable_x64(True):
        yield


@pytest.mark.parametrize("program, axes", CASES)
def test_values(program: Program, axes: dict[str, int]) -> None:
    args = drawn(program)
    expected = modelled(program, axes)(*args)
    for check_vma in kinds(program):
        f = mapped(program, axes, check_vma)
        for run in (f, pyjax.jit(f)):
            found = run(*args)
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def directional(f: Callable[..., np.ndarray], args: Sequence[Any], by: Sequence[Any]) -> Any:
    """Central differences of a function, extrapolated."""

    def slope(step: float) -> Any:
        ahead = f(*(x + step * v for x, v in zip(args, by)))
        return (ahead - f(*(x - step * v for x, v in zip(args, by)))) / (2 * step)

    return (4 * slope(1e-4) - slope(2e-4)) / 3


@sampled("program, axes", DERIVED, every=2)
def test_derivatives(program: Program, axes: dict[str, int]) -> None:
    args, by = drawn(program), drawn(program, seed=1)
    model = modelled(program, axes)
    expected = directional(model, args, by)
    weights = np.random.default_rng(2).uniform(-1, 1, expected.shape)
    for check_vma in kinds(program):
        f = mapped(program, axes, check_vma)
        for run in (f, pyjax.jit(f)):
            _, tangent = pyjax.jvp(run, args, by)
            np.testing.assert_allclose(tangent, expected, rtol=1e-7, atol=1e-7)
            _, pullback = pyjax.vjp(run, *args)
            slopes = pullback(jnp.asarray(weights))
            assert [s.shape for s in slopes] == [x.shape for x in args]
            found = sum(float(jnp.vdot(s, v)) for s, v in zip(slopes, by))
            np.testing.assert_allclose(found, np.vdot(weights, expected), rtol=1e-7, atol=1e-7)


@sampled("program, axes", [c for c in SMALL if c.values[0].smooth], every=6)
def test_second_derivatives(program: Program, axes: dict[str, int]) -> None:
    """Reverse over reverse, and forward over reverse, against differences of first derivatives."""
    for check_vma in kinds(program):
        check_second_derivatives(program, mapped(program, axes, check_vma))


def check_second_derivatives(program: Program, f: Callable[..., Any]) -> None:
    args, by = drawn(program), drawn(program, seed=1)
    slopes = pyjax.jit(pyjax.grad(lambda *xs: (f(*xs) ** 2).sum(), tuple(range(len(args)))))
    expected = [
        directional(lambda *xs, k=k: np.asarray(slopes(*xs)[k]), args, by) for k in range(len(args))
    ]

    def along(*xs: Any) -> Any:
        return sum(jnp.vdot(s, v) for s, v in zip(slopes(*xs), by))

    _, forward = pyjax.jvp(slopes, tuple(args), tuple(by))
    for found in (pyjax.grad(along, tuple(range(len(args))))(*args), forward):
        for x, y in zip(found, expected):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("program, axes", SMALL)
def test_vmapped(program: Program, axes: dict[str, int]) -> None:
    samples = [drawn(program, seed) for seed in range(4)]
    model = modelled(program, axes)
    expected = np.stack([model(*args) for args in samples])
    stacked = [np.stack(xs) for xs in zip(*samples)]
    for check_vma in kinds(program):
        f = mapped(program, axes, check_vma)
        np.testing.assert_allclose(pyjax.vmap(f)(*stacked), expected, rtol=1e-12, atol=1e-12)
        last = [np.moveaxis(x, 0, -1) for x in stacked]
        found = pyjax.jit(pyjax.vmap(f, in_axes=-1, out_axes=-1))(*last)
        np.testing.assert_allclose(np.moveaxis(found, -1, 0), expected, rtol=1e-12, atol=1e-12)
        if len(stacked) > 1:
            one = pyjax.vmap(f, in_axes=(0, *[None] * (len(stacked) - 1)))
            rest = [x[0] for x in stacked[1:]]
            each = np.stack([model(x, *rest) for x in stacked[0]])
            np.testing.assert_allclose(one(stacked[0], *rest), each, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("program, axes", [c for c in SMALL if "j" not in c.values[1]])
def test_vmapped_along_another_axis(program: Program, axes: dict[str, int]) -> None:
    """spmd_axis_name: the mapped axis is cut along a mesh axis that the program does not know."""
    samples = [drawn(program, seed) for seed in range(4)]
    model = modelled(program, axes)
    expected = np.stack([model(*args) for args in samples])
    stacked = [np.stack(xs) for xs in zip(*samples)]
    weights = np.random.default_rng(2).uniform(-1, 1, expected.shape)
    for check_vma in kinds(program):
        f = mapped(program, {**axes, "k": 2}, check_vma)
        run = pyjax.vmap(f, spmd_axis_name="k")
        np.testing.assert_allclose(run(*stacked), expected, rtol=1e-12, atol=1e-12)
        text = str(pyjax.make_jaxpr(run)(*stacked))
        assert "in_specs=(P('k'" in text
        if program.smooth:
            # An argument that is not mapped gets the sum over the whole mapped axis.
            last = [*stacked[:-1], stacked[-1][0]]
            dims = (*[0] * (len(last) - 1), None)
            split, plain = (
                pyjax.vmap(f, in_axes=dims, axis_size=4, **how)
                for how in ({"spmd_axis_name": "k"}, {})
            )
            found = pyjax.vjp(split, *last)[1](jnp.asarray(weights))
            same = pyjax.vjp(plain, *last)[1](jnp.asarray(weights))
            for x, y in zip(found, same):
                np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


def test_only_proven_results_are_taken_for_the_same() -> None:
    for program in PROGRAMS:
        if not program.proven:
            with pytest.raises(ValueError, match=r"it is the same along mesh axis 'i'"):
                mapped(program, {"i": 2})(*drawn(program))
