"""Products by groups of 128 threads: right in the interpreter, whose checks find what a kernel of
them may do wrong, and assembled for sm_90a."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from group_products import operands, product

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.index import ZERO, Index
from xla_backend.kernels.interpreter import Interpreter
from xla_backend.kernels.ir import (
    AwaitArrivals,
    Barrier,
    BoxCopy,
    ExpectBytes,
    GroupProduct,
    GroupWait,
    If,
    Kernel,
    Loop,
    LoopKind,
    PrepareArrivals,
    Statement,
    walk,
)
from xla_backend.kernels.library.factors import Sizes
from xla_backend.kernels.library.group_product import GroupTiling
from xla_backend.kernels.library.recipes import Recipe, recipe_for
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.kernels.races import KernelRunError, RaceError
from xla_backend.kernels.verifier import KernelVerificationError, verify_kernel
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.targets.gpu.architectures import ARCHITECTURES
from xla_backend.targets.gpu.kernel_functions import KernelFunctions, LaunchFunction
from xla_backend.targets.gpu.ptx import compile_ptx, llvm_target
from xla_backend.targets.gpu.ptxas import assemble, find_ptxas

NEEDS_PTXAS = pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas")
BOTH = (True, True)
ORDERS = list(itertools.product((True, False), repeat=2))
# Types of both factors and of the result, and the orders in which factors may lie.
TYPES = [
    *((P.BF16, P.BF16, P.F32, order) for order in ORDERS),
    *((P.F16, P.F16, P.F32, order) for order in ORDERS),
    (P.F32, P.F32, P.F32, BOTH),
    *((x, y, P.S32, BOTH) for x, y in ((P.S8, P.S8), (P.S8, P.U8), (P.U8, P.S8), (P.U8, P.U8))),
    (P.F8E4M3FN, P.F8E4M3FN, P.F32, BOTH),
    (P.F8E5M2, P.F8E4M3FN, P.F32, BOTH),
]
# Sizes of 16-byte rows, odd otherwise, and tilings.
SMALL = GroupTiling(64, 64, 1, stages=2)
SHAPES = [
    (Sizes(1, 64, 64, 64), SMALL),
    (Sizes(2, 104, 72, 272), GroupTiling(128, 64, 2, stages=3)),
    (Sizes(1, 72, 136, 336), GroupTiling(128, 128, 1, splits=2, stages=2)),
]


def recipe_of(lhs: P, rhs: P, result: P) -> Recipe:
    recipe = recipe_for(lhs, rhs, result, float_bytes=True)
    assert recipe is not None
    return recipe


BF16 = recipe_of(P.BF16, P.BF16, P.F32)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s[0])))
@pytest.mark.parametrize("types", TYPES, ids=lambda t: "-".join(map(str, t)))
def test_values(types: tuple, shape: tuple[Sizes, GroupTiling]) -> None:
    *kinds, layouts = types
    (sizes, tiling), recipe = shape, recipe_of(*kinds)
    arrays, wanted = operands(sizes, recipe, layouts)
    (got,) = Interpreter(product(sizes, recipe, tiling, layouts), arrays).run()
    np.testing.assert_array_equal(got.reshape(wanted.shape).astype(np.float64), wanted)


def test_steps_and_order_of_blocks() -> None:
    sizes = Sizes(1, 72, 72, 136)
    arrays, wanted = operands(sizes, BF16)
    kernel = product(sizes, BF16, SMALL)
    for together in (True, False):
        interpreter = Interpreter(kernel, arrays, grid_order=lambda n: reversed(range(n)))
        if together:
            interpreter.run()
        else:
            assert sum(1 for _ in interpreter.steps()) > 100
        np.testing.assert_array_equal(interpreter.outputs()[0].reshape(wanted.shape), wanted)


def test_factors_of_tf32_are_rounded_by_the_copy() -> None:
    recipe, sizes = recipe_of(P.F32, P.F32, P.F32), Sizes(1, 64, 64, 32)
    x = np.zeros((64, 32), np.float32)
    x[:, 0] = 1 + np.float32(2**-11) * np.arange(64)
    y = np.zeros((64, 32), np.float32)
    y[:, 0] = 1
    (got,) = Interpreter(product(sizes, recipe, SMALL, BOTH), [x, y]).run()
    unit = 2**-10
    np.testing.assert_array_equal(got.reshape(64, 64)[:, 0], np.rint(x[:, 0] / unit) * unit)


# -- what is found ---------------------------------------------------------------------------------

Change = Callable[[Statement], Iterator[Statement]]


def changed(statements: list[Statement], change: Change) -> list[Statement]:
    found: list[Statement] = []
    for s in statements:
        if isinstance(s, Loop | If):
            s.body = changed(s.body, change)
        found += change(s)
    return found


def without(*kinds: type) -> Change:
    def change(s: Statement) -> Iterator[Statement]:
        if not isinstance(s, kinds):
            yield s

    return change


def with_fields(kind: type, **fields: object) -> Change:
    def change(s: Statement) -> Iterator[Statement]:
        yield replace(s, **fields) if isinstance(s, kind) else s

    return change


def in_the_loop(change: Change) -> Change:
    """A change inside the loop over slabs only."""

    def outer(s: Statement) -> Iterator[Statement]:
        if isinstance(s, Loop) and s.kind is LoopKind.SERIAL:
            s.body = changed(s.body, change)
        yield s

    return outer


def before_the_loop(change: Change) -> Change:
    """A change in what the threads do themselves."""

    def outer(s: Statement) -> Iterator[Statement]:
        if isinstance(s, Loop) and s.kind is LoopKind.THREAD:
            s.body = [x for inner in s.body for x in change(inner)]
        yield s

    return outer


def by_all_threads(s: Statement) -> Iterator[Statement]:
    """No condition says which thread."""
    if isinstance(s, If) and any(isinstance(x, ExpectBytes) for x in s.body):
        yield from s.body
    else:
        yield s


def wait_for_fewer(s: Statement) -> Iterator[Statement]:
    yield replace(s, pending=s.pending + 1) if isinstance(s, GroupWait) else s


def by_the_wrong_parity(s: Statement) -> Iterator[Statement]:
    yield replace(s, parity=s.parity * -1 + 1) if isinstance(s, AwaitArrivals) else s


PLANTED = {
    "multiplies before the slab is there": (
        without(AwaitArrivals),
        RaceError,
        "is read at .*, and a copy begun at .* is on its way there: wait for it before",
    ),
    "waits for the wrong phase": (by_the_wrong_parity, RaceError, "is on its way there"),
    "always waits for the first phase": (
        with_fields(AwaitArrivals, parity=ZERO),
        RaceError,
        "is on its way there",
    ),
    "overwrites what is multiplied": (
        in_the_loop(wait_for_fewer),
        RaceError,
        "is written at .*, and a product begun at .* still reads it: wait for that before",
    ),
    "overwrites what another group multiplies": (
        in_the_loop(without(Barrier)),
        RaceError,
        "is written at .* read at .*, and nothing orders the two: put a barrier between them",
    ),
    "has no barrier behind the preparation": (
        before_the_loop(without(Barrier)),
        RaceError,
        "in threads that nothing orders behind the one that prepares it",
    ),
    "prepares nothing": (without(PrepareArrivals), KernelRunError, "which nothing has prepared"),
    "expects too much": (
        with_fields(ExpectBytes, count=1 << 20),
        KernelRunError,
        "waits for ever: 24576 bytes arrive at arrived.0., and 1048576 are expected",
    ),
    "expects nothing": (without(ExpectBytes), KernelRunError, "waits for ever: .* 0 are expected"),
    "copies nothing": (without(BoxCopy), KernelRunError, "waits for ever: 0 bytes arrive"),
    "copies in all threads": (
        by_all_threads,
        KernelRunError,
        "in several threads of a block: let one of them do so",
    ),
    "uses sums too early": (
        wait_for_fewer,
        RaceError,
        "uses sums of a product that is under way: wait for it before",
    ),
    "writes elsewhere": (
        with_fields(BoxCopy, target_index=Index({}, 64)),
        KernelRunError,
        "copies a box to lhs at no multiple of 1024",
    ),
}
# Products of two groups: three slabs in the ring, and six of the sum.
TWO_GROUPS = Sizes(1, 128, 64, 384), GroupTiling(128, 64, 2, stages=3)


@pytest.mark.parametrize("name", PLANTED)
def test_what_goes_wrong_is_found(name: str) -> None:
    change, kind, message = PLANTED[name]
    sizes, tiling = TWO_GROUPS
    # With all slabs in the ring nothing is overwritten, and the last wait is the only one.
    if name == "uses sums too early":
        tiling = replace(tiling, stages=6)
    kernel = product(sizes, BF16, tiling)
    kernel.stages = changed(kernel.stages, change)
    verify_kernel(kernel)
    arrays, _ = operands(sizes, BF16)
    with pytest.raises(kind, match=f"(?s){message}"):
        Interpreter(kernel, arrays).run()


def test_copies_that_nobody_waits_for_are_found() -> None:
    sizes, tiling = TWO_GROUPS
    kernel = product(sizes, BF16, replace(tiling, stages=6))
    kernel.stages = changed(kernel.stages, without(AwaitArrivals, GroupProduct, GroupWait))
    for s in walk(kernel.stages):
        if isinstance(s, Loop) and s.kind is LoopKind.THREAD:
            s.body = [x for x in s.body if not isinstance(x, Loop)][:-1]
            s.body = [x for x in s.body if isinstance(x, If | Barrier)]
    arrays, _ = operands(sizes, BF16)
    with pytest.raises(KernelRunError, match="blocks end while a copy to lhs is under way"):
        Interpreter(kernel, arrays).run()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_fields(AwaitArrivals, parity=Index({}, 2)), "the parity 2 is not 0 or 1"),
        (with_fields(GroupProduct, shape=(64, 260, 64)), "128 threads do not multiply 64 x 260"),
        (with_fields(GroupProduct, shape=(64, 72, 64)), "values are not the sums of 64 x 72"),
        (with_fields(GroupProduct, shape=(64, 64, 32)), "a depth of 32 is no line of lhs"),
    ],
    ids=["parity", "columns", "sums", "depth"],
)
def test_kernels_that_are_not_well_formed(change: Change, message: str) -> None:
    kernel = product(Sizes(1, 64, 64, 128), BF16, SMALL)
    kernel.stages = changed(kernel.stages, change)
    with pytest.raises(KernelVerificationError, match=message):
        verify_kernel(kernel)


def test_text() -> None:
    text = kernel_to_text(product(Sizes(2, 64, 64, 256), BF16, SMALL))
    for line in (
        "prepare(arrived)",
        "expect_bytes(arrived[0], 16384)",
        "lhs[0...] = box_copy(64x64, p0[at 0, 0, i], arrived[0])",
        "await_arrivals(arrived[(slab % 2)], parity=(slab // 2))",
        "lhs[4096*(slab % 2)...; stride=1024], rhs[4096*(slab % 2)...; outer, leading=8192",
        "[v64, ..., v95] = group_wait([v32, ..., v63], pending=1)",
        "pending=0)",
    ):
        assert line in text


# -- code ------------------------------------------------------------------------------------------

ASSEMBLED = [
    GroupTiling(64, 64, 1),
    GroupTiling(128, 128, 2, splits=2, stages=3),
    pytest.param(GroupTiling(128, 256, 2), marks=pytest.mark.slow),
    pytest.param(GroupTiling(256, 128, 2), marks=pytest.mark.slow),
]


def code_of(kernel: Kernel) -> tuple[str, tuple[LaunchFunction, ...]]:
    architecture = ARCHITECTURES["sm_90a"]
    module = ModuleWriter(llvm_target(architecture))
    launches = KernelFunctions(module, architecture, {}).launches(kernel)
    return compile_ptx(module.to_text(), architecture), launches


@NEEDS_PTXAS
@pytest.mark.parametrize("tiling", ASSEMBLED, ids=str)
@pytest.mark.parametrize("types", TYPES, ids=lambda t: "-".join(map(str, t)))
def test_code_assembles(types: tuple, tiling: GroupTiling, tmp_path: Path) -> None:
    *kinds, layouts = types
    ptx, _ = code_of(product(Sizes(3, 1000, 1000, 4096), recipe_of(*kinds), tiling, layouts))
    resources = assemble(ptx, "sm_90a").resources
    assert all(not r.spill_stores and not r.spill_loads and not r.stack for r in resources.values())
    # It says (C7510 to C7519) where it waits for products itself, as something touches their sums.
    (tmp_path / "code.ptx").write_text(ptx)
    ptxas = find_ptxas()
    assert ptxas is not None
    said = subprocess.run(
        [ptxas, "-arch=sm_90a", "-v", tmp_path / "code.ptx", "-o", tmp_path / "code.cubin"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "(C75" not in said.stdout + said.stderr


def test_code() -> None:
    ptx, (launch,) = code_of(product(Sizes(3, 256, 256, 4096), BF16, GroupTiling(128, 128, 2)))
    assert ".target sm_90a" in ptx
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16") == 4
    # Four slabs on their way before the loop, but for one, and one in it; two boxes of columns.
    assert ptx.count("cp.async.bulk.tensor.3d.") == 4 * 3
    assert ".param .align 64 .b8 kernel_product_param_3[128]" in ptx
    assert launch.threads == 256 and launch.dynamic_shared == 4 * (128 + 128) * 128 + 32
    assert [(m.buffer, m.type, m.array.box) for m in launch.maps] == [
        (0, P.BF16, (64, 128)),
        (1, P.BF16, (64, 64)),
    ]
    assert launch.maps[0].array.sizes == (4096, 256, 3)
    assert launch.maps[0].array.strides == (4096, 256 * 4096)
