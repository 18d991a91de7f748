"""sort: a permutation first (radix sort by each key, or merge sort with any comparator), then the
operands are gathered by it. A lone operand with a plain order is sorted directly."""

from __future__ import annotations

import math

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import BufferRole, Kernel
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.passes.sort_keys import SortKey, sort_keys
from xla_backend.targets.cpu.driver import Driver, aligned, runs
from xla_backend.targets.cpu.emitter import KernelEmitter
from xla_backend.targets.cpu.routines.library import kernel_library

P = PrimitiveType
_DESCENDING, _REFINE = 1, 2


@runs(Opcode.SORT)
def _sort(driver: Driver, node: Instruction) -> None:
    shape = node.operands[0].shape
    if shape.num_elements == 0:
        return
    axis = node.attributes.dimension  # type: ignore[attr-defined]
    dims = shape.dimensions
    layout = (math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :]))
    keys = sort_keys(node.called[0])
    if keys is not None and any(not _sortable(node.operands[k.operand].shape) for k in keys):
        keys = None
    if keys is not None and len(node.operands) == 1:
        _call(
            driver,
            "sort",
            node.operands[0].shape,
            [driver.address(node.operands[0]), driver.address(node)],
            layout,
            _DESCENDING if keys[0].descending else 0,
        )
        return
    permutation = driver.scratch_at(0, 4 * shape.num_elements)
    if keys is not None:
        _argsort(driver, node, keys, permutation, layout)
    else:
        _merge_argsort(driver, node, permutation, layout)
    for leaf, operand in enumerate(node.operands):
        _gather(
            driver,
            operand.shape,
            driver.address(operand),
            permutation,
            driver.address(node, leaf),
            layout,
        )


def _sortable(shape: Shape) -> bool:
    return f"pyjax_sort_{shape.element_type}" in kernel_library()


def _call(
    driver: Driver,
    kind: str,
    shape: Shape,
    pointers: list[str],
    layout: tuple[int, int, int],
    flags: int,
) -> None:
    arguments = [("ptr", p) for p in pointers] + [("i64", str(x)) for x in (*layout, flags)]
    driver.w.call(f"pyjax_{kind}_{shape.element_type}", "void", arguments)


def _argsort(
    driver: Driver,
    node: Instruction,
    keys: list[SortKey],
    permutation: str,
    layout: tuple[int, int, int],
) -> None:
    """Stable sorts from the least to the most significant key."""
    flags = 0
    for key in reversed(keys):
        operand = node.operands[key.operand]
        order = _DESCENDING if key.descending else 0
        _call(
            driver,
            "argsort",
            operand.shape,
            [driver.address(operand), permutation],
            layout,
            flags | order,
        )
        flags = _REFINE


def _gather(
    driver: Driver,
    shape: Shape,
    source: str,
    permutation: str,
    target: str,
    layout: tuple[int, int, int],
) -> None:
    """target[o, x, i] = source[o, permutation[o, x, i], i]."""
    outer, n, inner = layout

    def build(name: str) -> Kernel:
        b = LoopBuilder(name)
        operand = b.buffer("p0", shape.element_type, shape.num_elements, BufferRole.OPERAND, 0)
        order = b.buffer("p1", P.S32, shape.num_elements, BufferRole.OPERAND, 1)
        out = b.buffer("out0", shape.element_type, shape.num_elements, BufferRole.OUTPUT, 0)
        e = ElementalEmitter(b, {})
        o, _ = b.open_loop(outer, independent=True)
        x, _ = b.open_loop(n, independent=True, may_vectorize=inner == 1)
        i, _ = b.open_loop(inner, independent=True, may_vectorize=inner > 1)
        here = (o * n + x) * inner + i
        place = b.load(order, here)
        place.bounds = (0, n - 1)
        e.store(
            out, here, e.load(operand, (o * n + Index.of(place)) * inner + i, shape.element_type)
        )
        for _ in range(3):
            b.close_loop()
        return b.kernel

    compiled = driver.kernels.get_built(("permute", shape, layout), "permute", build)
    addresses = {"p0": source, "p1": permutation, "out0": target}
    driver.call_kernel(compiled, {b: addresses[b.name] for b in compiled.kernel.buffers})


def _merge_argsort(
    driver: Driver, node: Instruction, permutation: str, layout: tuple[int, int, int]
) -> None:
    """Any comparator: a generated merge sort of row numbers."""
    outer, n, inner = layout
    name = driver.kernels.unique(f"merge_{node.name}")
    less = _comparator_function(driver, node, f"{name}_less")
    _merge_function(driver, name, less, len(node.operands))
    work = driver.scratch_at(aligned(4 * node.operands[0].shape.num_elements), 8 * n)
    arguments = [("ptr", driver.address(o)) for o in node.operands]
    arguments += [("ptr", permutation), ("ptr", work)]
    arguments += [("i64", str(x)) for x in (outer, n, inner)]
    driver.w.call(name, "void", arguments)


def _comparator_function(driver: Driver, node: Instruction, name: str) -> str:
    """i1 less(operands..., i64 a, i64 b): does the element at a come before the one at b."""
    b = LoopBuilder(name)
    buffers = [
        b.buffer(f"p{k}", o.shape.element_type, o.shape.num_elements, BufferRole.OPERAND, k)
        for k, o in enumerate(node.operands)
    ]
    e = ElementalEmitter(b, {})
    last = node.operands[0].shape.num_elements - 1
    places = [b.argument(P.S64, (0, last)) for _ in range(2)]
    arguments = [
        e.load(buffer, Index.of(place), o.shape.element_type)
        for buffer, o in zip(buffers, node.operands)
        for place in places
    ]
    result = e.apply(node.called[0], arguments)
    params = [("ptr", buffer.name) for buffer in buffers] + [("i64", "a"), ("i64", "b")]
    w = driver.writer.function(name, params, result="i1", internal=True)
    emitter = KernelEmitter(w, {buffer: f"%{buffer.name}" for buffer in buffers})
    for place, text in zip(places, ("%a", "%b")):
        emitter.bind(place, text)
    emitter.emit(b.kernel.stages)
    w.ret("i1", emitter.get(result))  # type: ignore[arg-type]
    return name


def _merge_function(driver: Driver, name: str, less: str, operands: int) -> None:
    """Bottom-up stable merge sort of every row of [outer, n, inner]; `work` holds two rows of
    i32."""
    pointers = [("ptr", f"p{k}") for k in range(operands)]
    sizes = [("i64", s) for s in ("outer", "n", "inner")]
    w = driver.writer.function(
        name, [*pointers, ("ptr", "perm"), ("ptr", "work"), *sizes], internal=True
    )
    row_bytes = w.imul("%n", 4)
    second = w.gep("i8", "%work", row_bytes)
    with w.loop(0, "%outer") as outer, w.loop(0, "%inner") as inner:
        base = w.iadd(w.imul(w.imul(outer.index, "%n"), "%inner"), inner.index)
        with w.loop(0, "%n") as fill:
            number = w.cast("trunc", "i64", fill.index, "i32")
            w.store("i32", number, w.gep("i32", "%work", fill.index))

        def element(row: str) -> str:
            return w.iadd(base, w.imul(w.cast("zext", "i32", row, "i64"), "%inner"))

        def comes_first(x: str, y: str) -> str:
            arguments = [("ptr", f"%p{k}") for k in range(operands)]
            return w.call(less, "i1", [*arguments, ("i64", element(x)), ("i64", element(y))])

        def merge_all(state: list[str]) -> list[str]:
            width, source, target = state
            double = w.imul(width, 2)
            with w.loop(0, "%n", double) as run:
                low = run.index
                middle = w.imin(w.iadd(low, width), "%n")
                high = w.imin(w.iadd(low, double), "%n")
                _merge_run(w, source, target, (low, middle, high), comes_first)
            return [double, target, source]

        _, sorted_row, _ = w.while_(
            [("i64", "1"), ("ptr", "%work"), ("ptr", second)],
            lambda state: w.cmp("slt", "i64", state[0], "%n"),
            merge_all,
        )
        with w.loop(0, "%n") as copy:
            row = w.load("i32", w.gep("i32", sorted_row, copy.index))
            place = w.iadd(base, w.imul(copy.index, "%inner"))
            w.store("i32", row, w.gep("i32", "%perm", place))
    w.ret()


def _merge_run(
    w: FunctionWriter, source: str, target: str, bounds: tuple[str, str, str], comes_first
) -> None:  # type: ignore[no-untyped-def]
    low, middle, high = bounds

    def step(state: list[str]) -> list[str]:
        left, right, out = state
        some_left = w.cmp("slt", "i64", left, middle)
        some_right = w.cmp("slt", "i64", right, high)

        def compare() -> list[str]:
            x = w.load("i32", w.gep("i32", source, left))
            y = w.load("i32", w.gep("i32", source, right))
            return [comes_first(y, x)]  # equal elements keep their order

        both = w.op("and", "i1", some_left, some_right)
        (take_right,) = w.if_else(both, ["i1"], compare, lambda: [w.not_("i1", some_left)])
        taken = w.select(take_right, "i64", right, left)
        w.store("i32", w.load("i32", w.gep("i32", source, taken)), w.gep("i32", target, out))
        moved = w.cast("zext", "i1", take_right, "i64")
        return [
            w.iadd(left, w.isub("1", moved)),
            w.iadd(right, moved),
            w.iadd(out, 1),
        ]

    w.while_(
        [("i64", low), ("i64", middle), ("i64", low)],
        lambda state: w.cmp("slt", "i64", state[2], high),
        step,
    )
