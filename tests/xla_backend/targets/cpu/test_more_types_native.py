"""Indexing, windows and reductions on the less common element types."""

import numpy as np
import pytest
from native_checks import arguments_of, check_native, module_of

BINARY = """
op {
  x = TYPE[] parameter(0)
  y = TYPE[] parameter(1)
  ROOT r = TYPE[] OPCODE(x, y)
}
"""


def binary(type, opcode):
    return BINARY.replace("TYPE", type).replace("OPCODE", opcode)


@pytest.mark.parametrize("type", ["s8", "u8", "s16", "u32", "s64", "u64"])
def test_dynamic_slice_index_types(type):
    """Starts outside the array are clamped, whatever integer type they have."""
    module = module_of(
        f"""x = f32[300,5] parameter(0)
        i = {type}[] parameter(1)
        j = {type}[] parameter(2)
        u = f32[7,5] parameter(3)
        a = f32[7,5] dynamic-slice(x, i, j), dynamic_slice_sizes={{7,5}}
        b = f32[300,5] dynamic-update-slice(x, u, i, j)
        ROOT t = (f32[7,5], f32[300,5]) tuple(a, b)"""
    )
    x, _, _, u = arguments_of(module)
    dtype = module.entry.parameters[1].shape.element_type.numpy_dtype
    info = np.iinfo(dtype)
    for start in (0, 3, info.max, info.min):
        check_native(module.clone(), [x, dtype.type(start), dtype.type(0), u])


@pytest.mark.parametrize("type", ["u8", "u32", "s64"])
def test_gather_index_types(type):
    module = module_of(
        f"""x = f32[40,20] parameter(0)
        i = {type}[25] parameter(1)
        ROOT r = f32[25,20] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}},
          start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,20}}"""
    )
    x, i = arguments_of(module)
    i[:3] = [np.iinfo(i.dtype).max, np.iinfo(i.dtype).min, 39]
    check_native(module, [x, i])


@pytest.mark.parametrize("type", ["bf16", "f16", "s8", "c64", "u64", "f64"])
@pytest.mark.parametrize("opcode", ["add", "multiply"])
def test_scatter_types(type, opcode):
    module = module_of(
        f"""x = {type}[9,17] parameter(0)
        i = s32[6,1] parameter(1)
        u = {type}[6,17] parameter(2)
        ROOT r = {type}[9,17] scatter(x, i, u), update_window_dims={{1}},
          inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1,
          to_apply=op""",
        binary(type, opcode),
    )
    x, i, u = arguments_of(module)
    check_native(module, [x, i, u], scale=20)


def test_scatter_that_replaces():
    module = module_of(
        """x = f32[9,17] parameter(0)
        i = s32[2] parameter(1)
        u = f32[5,9] parameter(2)
        ROOT r = f32[9,17] scatter(x, i, u), update_window_dims={0,1}, inserted_window_dims={},
          scatter_dims_to_operand_dims={0,1}, index_vector_dim=0, to_apply=op""",
        "op {\n x = f32[] parameter(0)\n ROOT y = f32[] parameter(1)\n}\n",
    )
    x, _, u = arguments_of(module)
    for i in ([1, 2], [4, 8], [5, 0], [-1, 0]):
        check_native(module.clone(), [x, np.array(i, np.int32), u])


REDUCTIONS = [
    ("pred", "and"),
    ("pred", "or"),
    ("s32", "xor"),
    ("u8", "maximum"),
    ("s64", "minimum"),
    ("f16", "add"),
    ("bf16", "multiply"),
    ("f64", "minimum"),
    ("c128", "multiply"),
]


@pytest.mark.parametrize("type,opcode", REDUCTIONS)
def test_reduction_types(type, opcode):
    """Over the minor and a middle axis; the initial value is not the neutral one."""
    one = {"pred": "true", "c128": "(1,0)"}.get(type, "1")
    check_native(
        module_of(
            f"""x = {type}[6,5,70] parameter(0)
            z = {type}[] constant({one})
            a = {type}[6,5] reduce(x, z), dimensions={{2}}, to_apply=op
            b = {type}[6,70] reduce(x, z), dimensions={{1}}, to_apply=op
            ROOT t = ({type}[6,5], {type}[6,70]) tuple(a, b)""",
            binary(type, opcode),
        ),
        [arguments_with_small_products(type)],
        scale=100,
    )


def arguments_with_small_products(type):
    module = module_of(f"ROOT x = {type}[6,5,70] parameter(0)")
    (x,) = arguments_of(module, low=0.95, high=1.05)
    return x


def test_reduction_that_is_no_monoid():
    """Not commutative with respect to a splat start: runs in order, and the start counts once."""
    module = module_of(
        """x = f32[5,70] parameter(0)
        z = f32[] constant(2)
        ROOT r = f32[5] reduce(x, z), dimensions={1}, to_apply=op""",
        """op {
          a = f32[] parameter(0)
          b = f32[] parameter(1)
          s = f32[] add(a, b)
          p = f32[] multiply(a, b)
          ROOT r = f32[] add(s, p)
        }""",
    )
    x = np.random.default_rng(0).uniform(-0.01, 0.01, (5, 70)).astype(np.float32)
    check_native(module, [x], scale=100)


def test_map():
    check_native(
        module_of(
            """x = f32[45] parameter(0)
            y = f32[45] parameter(1)
            ROOT r = f32[45] map(x, y), dimensions={0}, to_apply=op""",
            binary("f32", "multiply"),
        )
    )


@pytest.mark.parametrize("type", ["f64", "bf16", "s8", "c64"])
@pytest.mark.parametrize("shape", ["34,50", "16,16", "17,130"])
def test_transpose_tiles(type, shape):
    rows, columns = shape.split(",")
    check_native(
        module_of(
            f"""x = {type}[3,{rows},{columns}] parameter(0)
            y = {type}[{columns}] parameter(1)
            t = {type}[3,{columns},{rows}] transpose(x), dimensions={{0,2,1}}
            b = {type}[3,{columns},{rows}] broadcast(y), dimensions={{1}}
            ROOT r = {type}[3,{columns},{rows}] add(t, b)"""
        ),
        scale=2,
    )


@pytest.mark.parametrize("type", ["s4", "u4"])
def test_small_integers(type):
    check_native(
        module_of(
            f"""x = s32[40] parameter(0)
            a = {type}[40] convert(x)
            b = {type}[40] add(a, a)
            ROOT c = s32[40] convert(b)"""
        ),
        [np.arange(-20, 20).astype(np.int32)],
    )


@pytest.mark.parametrize("type", ["s8", "u16", "s64", "bf16", "f64"])
def test_sort_types(type):
    check_native(
        module_of(
            f"""x = {type}[3,130] parameter(0)
            ROOT s = {type}[3,130] sort(x), dimensions={{1}}, to_apply=op""",
            f"op {{\n x = {type}[] parameter(0)\n y = {type}[] parameter(1)\n"
            " ROOT r = pred[] compare(x, y), direction=LT\n}",
        )
    )


@pytest.mark.parametrize("type", ["f64", "bf16", "s32"])
def test_convolution_types(type):
    check_native(
        module_of(
            f"""x = {type}[2,11,6] parameter(0)
            k = {type}[3,6,8] parameter(1)
            ROOT r = {type}[2,11,8] convolution(x, k), window={{size=3 pad=1_1}},
              dim_labels=b0f_0io->b0f"""
        ),
        scale=40,
    )


def test_convolution_of_batch_groups():
    check_native(
        module_of(
            """x = f32[4,3,12] parameter(0)
            k = f32[6,3,5] parameter(1)
            ROOT r = f32[2,6,8] convolution(x, k), window={size=5}, dim_labels=bf0_oi0->bf0,
              batch_group_count=2"""
        ),
        scale=10,
    )


def test_outputs_that_are_parameters_constants_or_repeated():
    check_native(
        module_of(
            """x = f32[5] parameter(0)
            c = f32[3] constant({1,2,3})
            y = f32[5] negate(x)
            ROOT t = (f32[5], f32[3], f32[5], f32[5]) tuple(x, c, y, y)"""
        )
    )
