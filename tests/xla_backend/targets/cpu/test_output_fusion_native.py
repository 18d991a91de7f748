"""Products with an epilogue, compiled and run: values, memory, threads, in-place sums."""

import numpy as np
import pytest
from native_checks import arguments_of, check_native, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.target import host_target
from xla_backend.passes.buffer_assignment import BufferKind
from xla_backend.passes.output_fusion import is_output_fusion
from xla_backend.runtime import host_threads
from xla_backend.runtime.host_threads import num_threads
from xla_backend.targets.cpu.compiler import compile_module

ACTIVATIONS = {
    "relu": "%z = T[] constant(0)\n%zs = T[S] broadcast(%z), dimensions={}\n"
    "ROOT %r = T[S] maximum(%s, %zs)",
    "sigmoid times x": "%g = T[S] logistic(%s)\nROOT %r = T[S] multiply(%s, %g)",
    "residual": "ROOT %r = T[S] add(%s, %res)",
    "mask": "%z = T[] constant(0)\n%zs = T[S] broadcast(%z), dimensions={}\n"
    "%m = pred[S] compare(%res, %zs), direction=GT\nROOT %r = T[S] select(%m, %s, %zs)",
}


def layer(type: str, batch: int, m: int, n: int, k: int, activation: str) -> str:
    """act(dot(x, w) + bias), optionally batched, with a residual as fourth parameter."""
    lead = f"{batch}," if batch else ""
    dims = "1" if not batch else "2"
    numbers = (
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
        if batch
        else "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    body = f"""
      %x = T[{lead}{m},{k}] parameter(0)
      %w = T[{lead}{k},{n}] parameter(1)
      %b = T[{n}] parameter(2)
      %res = T[S] parameter(3)
      %d = T[S] dot(%x, %w), {numbers}
      %bs = T[S] broadcast(%b), dimensions={{{dims}}}
      %s = T[S] add(%d, %bs)
      {ACTIVATIONS[activation]}"""
    return body.replace("T[", f"{type}[").replace("S]", f"{lead}{m},{n}]")


def fusions(executable) -> list:
    return [n for n in executable.module.entry.instructions if is_output_fusion(n)]


SIZES = [(1, 1, 3), (1, 2, 3), (3, 1, 2), (2, 3, 1), (8, 17, 64), (17, 15, 5), (64, 128, 300)]
# Less than half a vector.
SIZES += [(17, 3, 5)]


@pytest.mark.parametrize("type", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_values(type: str, activation: str):
    lanes = host_target().lanes(8 * P(type).byte_size)
    for m, n, k in SIZES if type == "f32" else SIZES[4:]:
        scale = max(1.0, k**0.5) * 4
        executable = check_native(module_of(layer(type, 0, m, n, k, activation)), scale=scale)
        # Else it is arithmetic, or a loop over all elements fills vectors.
        if m * n > 1 and k > 1 and not (min(m, n) > 1 and 2 * n <= lanes):
            assert len(fusions(executable)) == 1
            assert executable.temp_size == 0 and len(executable.loop_ir) == 1
        else:
            assert not fusions(executable)


@pytest.mark.parametrize("batch", [1, 3, 16])
@pytest.mark.parametrize("size", [(1, 5, 4), (5, 1, 4), (7, 20, 33), (64, 64, 16)])
def test_batches(batch: int, size: tuple[int, int, int]):
    executable = check_native(module_of(layer("f32", batch, *size, "relu")), scale=8)
    assert executable.temp_size == 0


@pytest.mark.parametrize("activation", ["relu", "residual"])
def test_short_rows_are_not_finished_in_place(activation: str):
    """Each would wait for what the one before has just stored under a mask."""
    executable = check_native(module_of(layer("f32", 0, 50, 15, 20, activation)), scale=8)
    (loops,) = executable.loop_ir.values()
    assert "product: scratch" in str(loops) and executable.temp_size == 0


HEADS = """
  %q = f32[3,8,4,16] parameter(0)
  %k = f32[3,9,4,16] parameter(1)
  %d = f32[3,4,8,9] dot(%q, %k), lhs_batch_dims={0,2}, rhs_batch_dims={0,2},
    lhs_contracting_dims={3}, rhs_contracting_dims={3}
"""


@pytest.mark.parametrize("scaled", [False, True])
def test_batches_in_two_groups_are_read_in_place(scaled: bool):
    scale = "%c = f32[] constant(0.25)\n%cs = f32[3,4,8,9] broadcast(%c), dimensions={}\n"
    root = "ROOT %r = f32[3,4,8,9] multiply(%d, %cs)"
    body = HEADS + scale + root if scaled else HEADS.replace("%d =", "ROOT %d =")
    executable = check_native(module_of(body), scale=8)
    assert executable.temp_size == 0 and len(fusions(executable)) == scaled


@pytest.mark.parametrize("type", ["s32", "c64"])
def test_other_types(type: str):
    executable = check_native(module_of(layer(type, 0, 9, 20, 6, "residual")), scale=8)
    assert len(fusions(executable)) == (type != "c64")


def test_empty_sum_is_no_product():
    executable = check_native(module_of(layer("f32", 0, 4, 6, 0, "residual")))
    assert not fusions(executable)


TRANSPOSED = """
  %x = f32[40,30] parameter(0)
  %w = f32[50,40] parameter(1)
  %c = f32[30] parameter(2)
  %xt = f32[30,40] transpose(%x), dimensions={1,0}
  %d = f32[30,50] dot(%xt, %w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %cs = f32[30,50] broadcast(%c), dimensions={0}
  %s = f32[30,50] multiply(%d, %cs)
  ROOT %r = bf16[30,50] convert(%s)
"""


def test_transposed_operands_column_vector_and_narrower_result():
    executable = check_native(module_of(TRANSPOSED), scale=10)
    # The product fits no result, so blocks of it lie in scratch memory of the GEMM.
    assert len(fusions(executable)) == 1 and executable.temp_size == 0


def test_long_sum_with_narrower_result_needs_memory():
    body = TRANSPOSED.replace("40", "1040")
    executable = check_native(module_of(body), scale=60)
    assert executable.temp_size >= 30 * 50 * 4


@pytest.mark.parametrize("level", [0, 2])
def test_long_bf16_sum_is_rounded_once(level: int):
    module = module_of("""
      %x = bf16[3,2000] parameter(0)
      %w = bf16[2000,5] parameter(1)
      ROOT %d = bf16[3,5] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    """)
    rng = np.random.default_rng(0)
    bf16 = module.entry.root.shape.element_type.numpy_dtype
    x, w = (rng.uniform(0.5, 1.5, shape).astype(bf16) for shape in ((3, 2000), (2000, 5)))
    exact = x.astype(np.float64) @ w.astype(np.float64)
    executable = compile_module(module, CompileOptions(optimization_level=level))
    (got,) = executable.run_arrays([x, w])
    np.testing.assert_allclose(got.astype(np.float64), exact, rtol=2.0**-8)


MLP = """
  %x = f32[32,20] parameter(0)
  %w = f32[20,48] parameter(1)
  %b = f32[48] parameter(2)
  %d = f32[32,48] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %bs = f32[32,48] broadcast(%b), dimensions={1}
  %s = f32[32,48] add(%d, %bs)
  %h = f32[32,48] tanh(%s)
  ROOT %t = (f32[32,48], f32[32,48], f32[32,48]) tuple(%h, %s, %d)
"""


def test_pre_activation_and_product_are_results_too():
    executable = check_native(module_of(MLP), scale=8)
    assert len(fusions(executable)) == 1 and len(executable.loop_ir) == 1
    # The product was formed in its own result: the epilogue does not write it again.
    assert "out2" not in executable.loop_ir[fusions(executable)[0].name]


UPDATE = """HloModule m, input_output_alias={ {}: (2, {}, must-alias) }
ENTRY main {
  %x = f32[K,30] parameter(0)
  %g = f32[K,50] parameter(1)
  %w = f32[30,50] parameter(2)
  %d = f32[30,50] dot(%x, %g), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  %lr = f32[] constant(0.125)
  %lrs = f32[30,50] broadcast(%lr), dimensions={}
  %u = f32[30,50] multiply(%d, %lrs)
  ROOT %new = f32[30,50] subtract(%w, %u)
}"""


@pytest.mark.parametrize("k", [16, 300, 1500])
def test_update_of_a_donated_array_is_in_place(k: int):
    executable = check_native(parse_module(UPDATE.replace("K", str(k))), scale=4 * k**0.5)
    (fusion,) = fusions(executable)
    (result,) = executable.assignment.leaf_slices(fusion)
    assert result is not None and result.kind is BufferKind.PARAMETER
    assert "copy" not in {n.opcode.value for n in executable.module.entry.instructions}
    assert (executable.temp_size == 0) == (k <= 1024)


def test_sum_of_two_products_is_formed_in_one_array():
    body = """
      %x = f32[8,16] parameter(0)
      %w = f32[16,32] parameter(1)
      %h = f32[8,24] parameter(2)
      %u = f32[24,32] parameter(3)
      %a = f32[8,32] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      %b = f32[8,32] dot(%h, %u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT %s = f32[8,32] add(%a, %b)
    """
    executable = check_native(module_of(body), scale=8)
    assert executable.temp_size == 0 and not executable.loop_ir


def test_result_does_not_depend_on_threads():
    module = layer("f32", 0, 300, 200, 500, "sigmoid times x")
    arguments = arguments_of(module_of(module))
    executable = compile_module(module_of(module), CompileOptions())
    before = num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            host_threads.set_num_threads(threads)
            results.append(executable.run_arrays(arguments)[0])
    finally:
        host_threads.set_num_threads(before)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


# output, window, image and kernel of convolutions with bias and activation.
CONVOLUTIONS = {
    "channels last": ("2,10,11,24", "size=3x3 pad=1_1x1_1", "2,10,11,5", "3,3,5,24"),
    "channels last, stride, odd channels": (
        "3,5,6,17", "size=3x3 pad=1_1x1_1 stride=2x2", "3,10,11,4", "3,3,4,17"),
    "channels last, long rows": ("1,3,300,8", "size=3x3 pad=1_1x1_1", "1,3,300,64", "3,3,64,8"),
    "channels first": ("2,24,10,11", "size=3x3 pad=1_1x1_1", "2,5,10,11", "24,5,3,3"),
    "channels first, stride": (
        "3,17,5,6", "size=3x3 pad=1_1x1_1 stride=2x2", "3,4,10,11", "17,4,3,3"),
    "channels first, long rows": ("1,8,3,300", "size=3x3 pad=1_1x1_1", "1,64,3,300", "8,64,3,3"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str):
    out, window, image, kernel = CONVOLUTIONS[name]
    last = "last" in name
    labels = "b01f_01io->b01f" if last else "bf01_oi01->bf01"
    features = out.split(",")[3 if last else 1]
    body = f"""
      %x = f32[{image}] parameter(0)
      %w = f32[{kernel}] parameter(1)
      %b = f32[{features}] parameter(2)
      %c = f32[{out}] convolution(%x, %w), window={{{window}}}, dim_labels={labels}
      %bs = f32[{out}] broadcast(%b), dimensions={{{3 if last else 1}}}
      %s = f32[{out}] add(%c, %bs)
      %h = f32[{out}] tanh(%s)
      ROOT %t = (f32[{out}], f32[{out}]) tuple(%h, %s)
    """
    executable = check_native(module_of(body), scale=60)
    assert len(fusions(executable)) == 1
    assert executable.temp_size == 0 and len(executable.loop_ir) == 1


def test_pointwise_convolution_is_a_product():
    body = """
      %x = f32[2,5,6,16] parameter(0)
      %w = f32[1,1,16,24] parameter(1)
      %c = f32[2,5,6,24] convolution(%x, %w), window={size=1x1}, dim_labels=b01f_01io->b01f
      ROOT %h = f32[2,5,6,24] tanh(%c)
    """
    executable = check_native(module_of(body), scale=10)
    assert len(fusions(executable)) == 1 and executable.temp_size == 0
