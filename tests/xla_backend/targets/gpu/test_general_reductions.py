"""Reductions by any associative computation: of several arrays, in order, without a neutral
element, as teams of threads."""

from __future__ import annotations

import numpy as np
import pytest
from code_checks import check_assembles
from native_checks import check_text, module_of
from scheduled_checks import check, scheduled

from tests.needs_ptxas import NEEDS_PTXAS
from xla_backend.kernels.from_hlo.commutation import commutes
from xla_backend.kernels.ir import Kernel, Loop, LoopKind, walk
from xla_backend.kernels.printer import kernel_to_text

# By name: types of what is reduced, initial values, results as expressions of a0 b0 ... (what
# comes before) and a1 b1 ..., and whether they stay the same if these change places.
REDUCERS: dict[str, tuple[list[str], list[str], list[str], list[str], bool]] = {
    "max_and_sum": (
        ["f32", "f32"], ["-inf", "0"], [],
        ["maximum(a0, a1)", "add(b0, b1)"], True,
    ),
    "length": (
        ["f32"], ["0"],
        ["s = f32[] multiply(a0, a0)", "t = f32[] multiply(a1, a1)", "u = f32[] add(s, t)"],
        ["sqrt(u)"], True,
    ),
    "moments": (  # numbers, means and squared differences, as they are merged
        ["f32", "f32", "f32"], ["0", "0", "0"],
        [
            "n = f32[] add(a0, a1)", "d = f32[] subtract(b1, b0)", "r = f32[] divide(a1, n)",
            "q = f32[] multiply(d, r)", "d2 = f32[] multiply(d, d)",
            "w = f32[] multiply(a0, r)", "e = f32[] multiply(d2, w)", "m = f32[] add(c0, c1)",
        ],
        ["add(a0, a1)", "add(b0, q)", "add(m, e)"], False,
    ),
    "matrices": (  # products of matrices of 2 x 2 integers
        ["s32"] * 4, ["1", "0", "0", "1"],
        [
            f"{x}{y} = s32[] multiply({x}0, {y}1)"
            for x, y in ("aa", "bc", "ab", "bd", "ca", "dc", "cb", "dd")
        ],
        ["add(aa, bc)", "add(ab, bd)", "add(ca, dc)", "add(cb, dd)"], False,
    ),
    "last": (  # the last element whose flag is set
        ["pred", "s32"], ["false", "-1"], [],
        ["or(a0, a1)", "select(a1, b1, b0)"], False,
    ),
    "first_over": (  # a number next to which there is no other by steps of 1
        ["f32"], ["0"],
        [
            "t = f32[] constant(3e7)", "over0 = pred[] compare(a0, t), direction=GT",
            "over1 = pred[] compare(a1, t), direction=GT", "m = f32[] maximum(a0, a1)",
            "s = f32[] select(over1, a1, m)",
        ],
        ["select(over0, a0, s)"], False,
    ),
    "last_of_all": (["s16"], ["7"], [], ["copy(a1)"], False),
    "arg_max": (
        ["f32", "s32"], ["-inf", "0"],
        [
            "gt = pred[] compare(a0, a1), direction=GT",
            "eq = pred[] compare(a0, a1), direction=EQ",
            "lt = pred[] compare(b0, b1), direction=LT", "and = pred[] and(eq, lt)",
            "w = pred[] or(gt, and)",
        ],
        ["select(w, a0, a1)", "select(w, b0, b1)"], True,
    ),
    "first_of_equals": (
        ["f32", "s32"], ["-inf", "0"], ["w = pred[] compare(a0, a1), direction=GE"],
        ["select(w, a0, a1)", "select(w, b0, b1)"], False,
    ),
}  # fmt: skip


def general(
    name: str, dims: tuple[int, ...], axes: tuple[int, ...], inits: list[str] | None = None
) -> tuple[str, str]:
    """The lines of a module that reduces arrays by a reducer of the table, and the reducer."""
    types, starts, lines, results, _ = REDUCERS[name]
    starts = inits or starts
    kept = ",".join(str(d) for i, d in enumerate(dims) if i not in axes)
    full = ",".join(map(str, dims))
    letters = "abcdefghijklmnopqrstuvwxyz"[: len(types)]
    body = [f"p{k} = {t}[{full}] parameter({k})" for k, t in enumerate(types)]
    body += [f"i{k} = {t}[] constant({v})" for k, (t, v) in enumerate(zip(types, starts))]
    operands = [f"p{k}" for k in range(len(types))] + [f"i{k}" for k in range(len(types))]
    shapes = [f"{t}[{kept}]" for t in types]
    shape = f"({', '.join(shapes)})" if len(types) > 1 else shapes[0]
    along = ",".join(map(str, axes))
    body.append(
        f"ROOT r = {shape} reduce({', '.join(operands)}), dimensions={{{along}}}, to_apply=combine"
    )
    inner = [f"{c}{side} = {t}[] parameter({k + side * len(types)})" for side in (0, 1)
             for k, (c, t) in enumerate(zip(letters, types))]  # fmt: skip
    inner += lines
    if len(types) == 1:
        inner.append(f"ROOT z = {types[0]}[] {results[0]}")
    else:
        inner += [f"z{k} = {t}[] {r}" for k, (t, r) in enumerate(zip(types, results))]
        parts = ", ".join(f"{t}[]" for t in types)
        inner.append(f"ROOT z = ({parts}) tuple({', '.join(f'z{k}' for k in range(len(types)))})")
    return "\n".join(body), "combine {\n" + "\n".join(inner) + "\n}"


def arguments(name: str, dims: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    if name == "moments":
        values = rng.normal(2, 1, dims).astype(np.float32)
        return [np.ones_like(values), values, np.zeros_like(values)]
    if name == "last":
        return [rng.random(dims) < 0.01, rng.integers(0, 1 << 20, dims, dtype=np.int32)]
    if name in ("arg_max", "first_of_equals"):
        values = rng.integers(0, 50, dims).astype(np.float32)
        return [values, rng.permutation(values.size).reshape(dims).astype(np.int32)]
    if name == "first_over":
        return [(rng.integers(0, 200, dims) * 3e6).astype(np.float32)]
    types = {"f32": "f4", "s32": "i4", "s16": "i2"}
    return [rng.integers(-9, 9, dims).astype(types[t]) for t in REDUCERS[name][0]]


def run(name: str, dims: tuple[int, ...], axes: tuple[int, ...]) -> Kernel:
    body, called = general(name, dims, axes)
    return check(body, called=called, arguments=arguments(name, dims), scale=20)


SHAPES = [
    ((1,), (0,)), ((2,), (0,)), ((31,), (0,)), ((33,), (0,)), ((257,), (0,)), ((1000,), (0,)),
    ((9001,), (0,)), ((5, 3), (1,)), ((3, 100), (1,)), ((100, 3), (0,)), ((40, 33), (0,)),
    ((600, 5), (0,)), ((7, 9, 11), (0, 2)), ((7, 9, 11), (1,)), ((3, 1025), (1,)),
    ((1100, 40), (0,)),
]  # fmt: skip


@pytest.mark.parametrize("name", REDUCERS)
def test_values(name: str) -> None:
    for dims, axes in SHAPES:
        run(name, dims, axes)


@pytest.mark.parametrize("name", REDUCERS)
def test_what_commutes_is_known(name: str) -> None:
    module = module_of(*general(name, (8,), (0,)))
    assert commutes(module.entry.root.called[0]) is REDUCERS[name][-1]  # type: ignore[union-attr]


def test_neighbours_are_combined_where_order_matters() -> None:
    check_text(
        kernel_to_text(scheduled(*general("last_of_all", (2, 1024), (1,)))),
        """
        # CHECK: v1 = p0[1024*block + 8*t + lane]
        # CHECK: combine_neighbours(combine, v1)
        # CHECK: shuffle_down({{v[0-9]+}}, 1, 32)
        # CHECK: shuffle_down({{v[0-9]+}}, 2, 32)
        # CHECK: shuffle_down({{v[0-9]+}}, 16, 32)
        """,
    )


def test_many_threads_work_on_few_rows() -> None:
    for name in ("max_and_sum", "length", "moments", "matrices"):
        for dims, axes in (((1 << 20,), (0,)), ((64, 10000), (1,)), ((10000, 64), (0,))):
            kernel = scheduled(*general(name, dims, axes))
            parts, together = (s for s in kernel.stages if isinstance(s, Loop))
            threads = [s for s in walk([parts]) if isinstance(s, Loop)][1].var.extent
            assert parts.var.extent * threads >= 1 << 13, (name, dims)
            assert together.var.extent <= parts.var.extent
            rounds = [s for s in walk([parts]) if isinstance(s, Loop)]
            assert all(s.var.extent <= 256 for s in rounds if s.kind is LoopKind.SERIAL)


def test_initial_values_count_once() -> None:
    for dims, axes in (((3, 700), (1,)), ((700, 3), (0,)), ((9001,), (0,))):
        for name, inits in (
            ("max_and_sum", ["2", "1000"]), ("length", ["5"]), ("matrices", ["1", "2", "3", "4"]),
        ):  # fmt: skip
            given = [x.astype(x.dtype) for x in arguments(name, dims)]
            body, called = general(name, dims, axes, inits)
            check(body, called=called, arguments=given, scale=20)


def sums(count: int, dims: tuple[int, ...], axis: int) -> tuple[str, str]:
    """The lines of a module that sums so many arrays in one reduction, and its reducer."""
    kept, full = dims[1 - axis], ",".join(map(str, dims))
    body = [f"p{k} = f32[{full}] parameter({k})" for k in range(count)]
    body.append("i = f32[] constant(0)")
    operands = ", ".join([f"p{k}" for k in range(count)] + ["i"] * count)
    shape = ", ".join([f"f32[{kept}]"] * count)
    body.append(f"ROOT r = ({shape}) reduce({operands}), dimensions={{{axis}}}, to_apply=combine")
    inner = [f"x{k} = f32[] parameter({k})" for k in range(2 * count)]
    inner += [f"z{k} = f32[] add(x{k}, x{k + count})" for k in range(count)]
    scalars = ", ".join(["f32[]"] * count)
    inner.append(f"ROOT z = ({scalars}) tuple({', '.join(f'z{k}' for k in range(count))})")
    return "\n".join(body), "combine {\n" + "\n".join(inner) + "\n}"


@pytest.mark.parametrize("count", [24, 64])
def test_many_operands(count: int) -> None:
    """Partial results of so many fit registers and shared memory all the same."""
    for dims, axis in (((3, 300), 1), ((300, 40), 0)):
        body, called = sums(count, dims, axis)
        check(body, called=called, scale=20)


@NEEDS_PTXAS
def test_kernels_assemble() -> None:
    """No thread needs so many registers that some are kept in memory, but for sums of 64 arrays,
    whose addresses alone take half of them."""
    names = ["max_and_sum", "moments", "matrices", "last", "length"]
    shapes = (((64, 10000), (1,)), ((10000, 64), (0,)), ((10000, 100), (1,)))
    kernels = [scheduled(*general(name, dims, axes)) for name in names for dims, axes in shapes]
    kernels += [scheduled(*sums(24, (64, 10000), axis)) for axis in (0, 1)]
    for name, used in check_assembles(kernels).items():
        assert not used.spill_stores, name
    for used in check_assembles([scheduled(*sums(64, (64, 10000), 0))]).values():
        assert used.spill_stores < 256
