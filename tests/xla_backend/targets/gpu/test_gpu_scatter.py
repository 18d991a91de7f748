"""Scatters on GPUs: duplicates, indices out of range, windows that overlap, any combination."""

import numpy as np
import pytest
from emulated_checks import barriers, check_emulated, in_any_order
from native_checks import arguments_of, module_of

import xla_backend
from xla_backend.compile_options import CompileOptions
from xla_backend.gpu_options import GpuOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.module import HloModule
from xla_backend.kernels.ir import Atomic, Kernel, walk
from xla_backend.kernels.library.scatter import scatter_kernel
from xla_backend.kernels.library.selected_scatter import select_and_scatter_kernel
from xla_backend.kernels.races import RaceError

DETERMINISTIC = CompileOptions(verify=True, gpu=GpuOptions(deterministic=True))
COMBINATIONS = {
    op: f"c {{{{ a = {{t}}[] parameter(0) b = {{t}}[] parameter(1) ROOT r = {{t}}[] {op}(a, b) }}}}"
    for op in ("add", "multiply", "maximum", "minimum", "and", "or", "xor", "subtract")
} | {
    "set": "c {{ a = {t}[] parameter(0)  ROOT b = {t}[] parameter(1) }}",
    "mixed": """c {{ a = {t}[] parameter(0)  b = {t}[] parameter(1)
        m = {t}[] multiply(a, b)  ROOT r = {t}[] add(m, b) }}""",
    "keep": "c {{ ROOT a = {t}[] parameter(0)  b = {t}[] parameter(1) }}",
}  # fmt: skip
# Operand, indices, updates, and how they belong together.
FORMS = {
    "elements": (
        (9,), (40, 1), (40,),
        "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}",
    ),
    "one element": (
        (9,), (1, 1), (1,),
        "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}",
    ),
    "rows": (
        (9, 5), (40, 1), (40, 5),
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}",
    ),
    "parts of rows": (
        (9, 5), (40, 1), (40, 3),
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}",
    ),
    "columns": (
        (5, 9), (40, 1), (5, 40),
        "update_window_dims={0}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}",
    ),
    "windows that overlap": (
        (9,), (20, 1), (20, 3),
        "update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}",
    ),
    "blocks": (
        (9, 4, 6), (7, 3, 2), (7, 2, 4, 3),
        "update_window_dims={1,2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={2,0}",
    ),
    "batches": (
        (3, 9), (3, 20, 1), (3, 20),
        "update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
        "input_batching_dims={0}, scatter_indices_batching_dims={0}",
    ),
}  # fmt: skip


def text(dims: tuple[int, ...]) -> str:
    return ",".join(map(str, dims))


def scatter(form: str, op: str = "add", t: str = "f32", index: str = "s32", more: str = ""):
    dims, index_dims, update_dims, how = FORMS[form]
    vector = 1 if form == "blocks" else len(index_dims) - 1
    body = f"""x = {t}[{text(dims)}] parameter(0)
        i = {index}[{text(index_dims)}] parameter(1)
        u = {t}[{text(update_dims)}] parameter(2)
        ROOT r = {t}[{text(dims)}] scatter(x, i, u), {how}, index_vector_dim={vector}{more},
          to_apply=c"""
    if form == "blocks":
        body = body.replace(f"[{text(index_dims)}]", "[7,2,3]")
    return module_of(body, COMBINATIONS[op].format(t=t))


def arguments(module: HloModule, low: int = -2, high: int = 11, seed: int = 0) -> list[np.ndarray]:
    """Indices many of which are equal, and some out of range."""
    rng = np.random.default_rng(seed)
    x, i, u = arguments_of(module, low=-1, high=1)
    low = max(low, 0) if i.dtype.kind == "u" else low
    return [x, rng.integers(low, high, i.shape).astype(i.dtype), u]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("op", ["add", "set", "mixed"])
def test_forms(form, op) -> None:
    for options in (None, DETERMINISTIC):
        module = scatter(form, op)
        check_emulated(module, arguments(module), scale=8, options=options)


@pytest.mark.parametrize("op", COMBINATIONS)
def test_combinations(op) -> None:
    t = "s32" if op in ("and", "or", "xor") else "f32"
    for form in ("elements", "rows"):
        module = scatter(form, op, t)
        check_emulated(module, arguments(module), scale=8)


@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "set"])
@pytest.mark.parametrize(
    "t", ["pred", "s4", "u8", "s16", "u32", "s64", "bf16", "f16", "f64", "c64"]
)
def test_types(t, op) -> None:
    if t == "c64" and op == "maximum":
        return
    module = scatter("rows", op, t)
    check_emulated(module, arguments(module), scale=20)


@pytest.mark.parametrize("index", ["s8", "u8", "u32", "s64", "u64"])
def test_types_of_indices(index) -> None:
    module = scatter("windows that overlap", "add", "s32", index)
    check_emulated(module, arguments(module))


def test_nothing_to_scatter() -> None:
    for x, i, u in (("4,3", "0,1", "0,3"), ("0,3", "2,1", "2,3"), ("4,0", "2,1", "2,0")):
        body = f"""x = f32[{x}] parameter(0)  i = s32[{i}] parameter(1)  u = f32[{u}] parameter(2)
            ROOT r = f32[{x}] scatter(x, i, u), update_window_dims={{1}},
              inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1,
              to_apply=c"""
        module = module_of(body, COMBINATIONS["add"].format(t="f32"))
        check_emulated(module, arguments_of(module))


def test_several_operands() -> None:
    """Whose results depend on each other: one after another."""
    called = """c { a = f32[] parameter(0)  b = s32[] parameter(1)
        p = f32[] parameter(2)  q = s32[] parameter(3)
        keep = pred[] compare(a, p), direction=GE
        v = f32[] select(keep, a, p)  w = s32[] select(keep, b, q)
        ROOT r = (f32[], s32[]) tuple(v, w) }"""
    body = """x = f32[9] parameter(0)  y = s32[9] parameter(1)  i = s32[30,1] parameter(2)
        u = f32[30] parameter(3)  v = s32[30] parameter(4)
        ROOT r = (f32[9], s32[9]) scatter(x, y, i, u, v), update_window_dims={},
          inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1,
          to_apply=c"""
    module = module_of(body, called)
    rng = np.random.default_rng(0)
    given = arguments_of(module)
    given[2] = rng.integers(-1, 10, (30, 1)).astype(np.int32)
    given[3] = rng.integers(0, 3, 30).astype(np.float32)
    check_emulated(module, given)


def test_two_sums_at_once() -> None:
    called = """c { a = f32[] parameter(0)  b = s32[] parameter(1)
        p = f32[] parameter(2)  q = s32[] parameter(3)
        v = f32[] add(p, a)  w = s32[] maximum(b, q)  ROOT r = (f32[], s32[]) tuple(v, w) }"""
    body = """x = f32[9] parameter(0)  y = s32[9] parameter(1)  i = s32[30,1] parameter(2)
        u = f32[30] parameter(3)  v = s32[30] parameter(4)
        ROOT r = (f32[9], s32[9]) scatter(x, y, i, u, v), update_window_dims={},
          inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1,
          to_apply=c"""
    module = module_of(body, called)
    given = arguments_of(module)
    given[2] = np.random.default_rng(0).integers(-1, 10, (30, 1)).astype(np.int32)
    (kernel,) = check_emulated(module, given, scale=4).values()
    assert has_atomics(kernel)


def has_atomics(kernel: Kernel) -> bool:
    return any(isinstance(s, Atomic) for s in walk(kernel.stages))


def kernel_of(module: HloModule, *, deterministic: bool) -> Kernel:
    assert module.entry is not None and module.entry.root is not None
    return scatter_kernel("k", module.entry.root, deterministic)


def test_sums_of_floats_are_atomic_unless_they_must_not_differ() -> None:
    sums = scatter("rows", "add")
    assert has_atomics(kernel_of(sums, deterministic=False))
    assert not has_atomics(kernel_of(sums, deterministic=True))
    assert has_atomics(kernel_of(scatter("rows", "add", "s32"), deterministic=True))
    unique = scatter("rows", "add", more=", unique_indices=true")
    assert not has_atomics(kernel_of(unique, deterministic=False))


@pytest.mark.parametrize("form", ["elements", "rows", "windows that overlap"])
@pytest.mark.parametrize("op", ["add", "set", "mixed"])
def test_bits_do_not_depend_on_the_order_of_blocks(form, op) -> None:
    module = scatter(form, op)
    given = arguments(module)
    shapes = [module.entry.root.shape]
    (got,) = in_any_order(kernel_of(module, deterministic=True), given, shapes)
    (want,) = evaluate(module, given)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_many_updates_are_ordered_by_digits() -> None:
    body = """x = f32[900,3] parameter(0)  i = s32[5000,1] parameter(1)
        u = f32[5000,3] parameter(2)
        ROOT r = f32[900,3] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=c"""
    module = module_of(body, COMBINATIONS["mixed"].format(t="f32"))
    (kernel,) = check_emulated(module, arguments(module, -5, 910), scale=8).values()
    assert "histogram" in {buffer.name for buffer in kernel.buffers}


def test_indices_said_to_be_unique_are() -> None:
    module = scatter("elements", "add", more=", unique_indices=true")
    given = arguments(module, 0, 9)
    given[1] = np.random.default_rng(0).permutation(40).astype(np.int32).reshape(40, 1)
    check_emulated(module, given)
    given[1][:] = 3
    with pytest.raises(RaceError):
        xla_backend.compile(module, "gpu_emulator").execute(given)


# -- select and scatter ----------------------------------------------------------------------------

SELECT = """ge {{ a = {t}[] parameter(0)  b = {t}[] parameter(1)
    ROOT r = pred[] compare(a, b), direction=GE }}"""
ADD = "plus {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT r = {t}[] add(a, b) }}"
POOLS = [
    ("8,8", "4,4", "size=2x2 stride=2x2"),
    ("7,9", "5,7", "size=3x3"),
    ("7,9", "4,5", "size=3x3 stride=2x2 pad=1_1x1_1"),
    ("2,10,3", "2,4,3", "size=1x3x1 stride=1x3x1 pad=0_0x1_1x0_0"),
    ("10", "7", "size=2 rhs_dilate=3"),
    ("5", "8", "size=2 lhs_dilate=2"),
    ("4", "1", "size=1 stride=5"),
    ("3", "2", "size=1 pad=-1_0"),
    ("2", "3", "size=1 stride=1 pad=9_-8"),
    ("0,2", "0,1", "size=1x2"),
]  # fmt: skip


def pool(dims: str, source: str, window: str, t: str = "f32") -> HloModule:
    body = f"""x = {t}[{dims}] parameter(0)  s = {t}[{source}] parameter(1)
        z = {t}[] parameter(2)
        ROOT r = {t}[{dims}] select-and-scatter(x, s, z), window={{{window}}}, select=ge,
          scatter=plus"""
    return module_of(body, "\n".join([SELECT.format(t=t), ADD.format(t=t)]))


@pytest.mark.parametrize(("dims", "source", "window"), POOLS)
def test_select_and_scatter(dims, source, window) -> None:
    module = pool(dims, source, window)
    given = arguments_of(module)
    given[0] = np.round(given[0])  # some are equal: the first of them is selected
    kernels = check_emulated(module, given)
    for kernel in kernels.values():
        assert not has_atomics(kernel) and not list(barriers(kernel.stages))


@pytest.mark.parametrize("t", ["s32", "bf16", "f64"])
def test_select_and_scatter_of_types(t) -> None:
    module = pool("7,9", "4,5", "size=3x3 stride=2x2 pad=1_1x1_1", t)
    check_emulated(module, arguments_of(module))


def test_select_and_scatter_in_any_order() -> None:
    module = pool("33,9", "31,7", "size=3x3")
    given = arguments_of(module)
    kernel = select_and_scatter_kernel("k", module.entry.root)
    (got,) = in_any_order(kernel, given, [module.entry.root.shape])
    np.testing.assert_allclose(got, evaluate(module, given)[0], rtol=1e-6, atol=1e-6)
