"""Programs of one instruction, or a few, with operands and results cut in every possible way."""

import random
import zlib

import numpy as np
import pytest
from spmd_checks import arguments_of, check, program

SUM = """sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
largest { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }
select { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE }
before { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }
second { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] copy(b) }
pair { a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  c = pred[] compare(a, b), direction=GT
  m = f32[] select(c, a, b)
  n = s32[] select(c, i, j)
  ROOT t = (f32[], s32[]) tuple(m, n) }
"""
# name -> (parameters, lines before the root, root)
PROGRAMS = {
    "add": (["f32[4,6]", "f32[4,6]"], "", "f32[4,6] add(p0, p1)"),
    "select": (["pred[4,6]", "f32[4,6]", "f32[4,6]"], "", "f32[4,6] select(p0, p1, p2)"),
    "select-scalar": (["pred[]", "f32[4,6]", "f32[4,6]"], "", "f32[4,6] select(p0, p1, p2)"),
    "clamp": (["f32[]", "f32[4,6]", "f32[]"], "", "f32[4,6] clamp(p0, p1, p2)"),
    "convert": (["f32[4,6]"], "", "s32[4,6] convert(p0)"),
    "bitcast-convert": (["f32[4,6]"], "", "u16[4,6,2] bitcast-convert(p0)"),
    "broadcast": (["f32[6]"], "", "f32[4,6,2] broadcast(p0), dimensions={1}"),
    "transpose": (["f32[4,6,2]"], "", "f32[2,4,6] transpose(p0), dimensions={2,0,1}"),
    "reshape": (["f32[4,6,2]"], "", "f32[2,12,2] reshape(p0)"),
    "reshape-odd": (["f32[6,4]"], "", "f32[4,6] reshape(p0)"),
    "reshape-merge": (["f32[4,6,2]"], "", "f32[24,2] reshape(p0)"),
    "reshape-ones": (["f32[4,1,6]"], "", "f32[1,4,6,1] reshape(p0)"),
    "reverse": (["f32[4,6]"], "", "f32[4,6] reverse(p0), dimensions={1}"),
    "reduce": (
        ["f32[4,6,2]"], "z = f32[] constant(0)",
        "f32[6] reduce(p0, z), dimensions={0,2}, to_apply=sum",
    ),
    "reduce-start": (
        ["f32[4,6]", "f32[]"], "", "f32[6] reduce(p0, p1), dimensions={0}, to_apply=largest",
    ),
    "reduce-max": (
        ["f32[4,6]"], "z = f32[] constant(-inf)",
        "f32[4] reduce(p0, z), dimensions={1}, to_apply=largest",
    ),
    "argmax": (
        ["f32[4,6]", "s32[4,6]"], "z = f32[] constant(-inf)\nn = s32[] constant(0)",
        "(f32[4], s32[4]) reduce(p0, p1, z, n), dimensions={1}, to_apply=pair",
    ),
    "dot": (
        ["f32[4,6]", "f32[6,4]"], "",
        "f32[4,4] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "dot-batch": (
        ["f32[2,4,6]", "f32[6,2,4]"], "",
        "f32[2,4,4] dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={1}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={0}",
    ),
    "convolution": (
        ["f32[4,6,6,2]", "f32[3,3,2,4]"], "",
        "f32[4,6,6,4] convolution(p0, p1), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f",
    ),
    "convolution-groups": (
        ["f32[4,6,6,4]", "f32[3,3,1,4]"], "",
        "f32[4,6,6,4] convolution(p0, p1), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f, feature_group_count=4",
    ),
    "concatenate": (["f32[4,6]", "f32[4,2]"], "", "f32[4,8] concatenate(p0, p1), dimensions={1}"),
    "pad": (["f32[4,6]", "f32[]"], "", "f32[6,6] pad(p0, p1), padding=1_1x0_0"),
    "slice": (["f32[4,6]"], "", "f32[2,6] slice(p0), slice={[1:3], [0:6]}"),
    "dynamic-slice": (
        ["f32[4,6]", "s32[]", "s32[]"], "",
        "f32[2,6] dynamic-slice(p0, p1, p2), dynamic_slice_sizes={2,6}",
    ),
    "dynamic-update-slice": (
        ["f32[4,6]", "f32[2,6]", "s32[]", "s32[]"], "",
        "f32[4,6] dynamic-update-slice(p0, p1, p2, p3)",
    ),
    "gather": (
        ["f32[6,4]", "s32[8,1]"], "i = s32[8,1] abs(p1)",
        "f32[8,4] gather(p0, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={1,4}",
    ),
    "gather-batch": (
        ["f32[4,6,2]", "s32[4,2]"], "",
        "f32[4,2,2] gather(p0, p1), offset_dims={2}, collapsed_slice_dims={1}, "
        "start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
        "index_vector_dim=2, slice_sizes={1,1,2}",
    ),
    "scatter": (
        ["f32[6,4]", "s32[8,1]", "f32[8,4]"], "",
        "f32[6,4] scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum",
    ),
    "scatter-batch": (
        ["f32[4,6]", "s32[4,2,1]", "f32[4,2]"], "",
        "f32[4,6] scatter(p0, p1, p2), update_window_dims={}, inserted_window_dims={1}, "
        "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
        "scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=sum",
    ),
    "sort": (["f32[4,6]"], "", "f32[4,6] sort(p0), dimensions={1}, to_apply=before"),
    "reduce-window": (
        ["f32[4,6]"], "z = f32[] constant(0)",
        "f32[4,4] reduce-window(p0, z), window={size=1x3}, to_apply=sum",
    ),
    "select-and-scatter": (
        ["f32[4,6]", "f32[4,3]"], "z = f32[] constant(0)",
        "f32[4,6] select-and-scatter(p0, p1, z), window={size=1x2 stride=1x2}, select=select, "
        "scatter=sum",
    ),
    "iota": ([], "", "s32[4,6] iota(), iota_dimension=1"),
    "constant": ([], "", "s32[2,6] constant({{1,2,3,4,5,6},{7,8,9,10,11,12}})"),
    "splat": ([], "c = f32[] constant(2)", "f32[4,6] broadcast(c), dimensions={}"),
    "softmax": (
        ["f32[4,6]"],
        """z = f32[] constant(0)
        e = f32[4,6] exponential(p0)
        s = f32[4] reduce(e, z), dimensions={1}, to_apply=sum
        b = f32[4,6] broadcast(s), dimensions={0}""",
        "f32[4,6] divide(e, b)",
    ),
    "two-products": (
        ["f32[4,6]", "f32[6,4]", "f32[4,6]"],
        "d = f32[4,4] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "t = f32[4,4] transpose(d), dimensions={1,0}",
        "f32[4,6] dot(t, p2), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
}  # fmt: skip
MESHES = ([("a", 2), ("b", 2)], [("a", 4)], [("a", 2), ("b", 3)], [("x", 2), ("y", 2), ("z", 2)])


def dims_of(shape: str) -> list[int]:
    inside = shape[shape.index("[") + 1 : shape.index("]")]
    return [int(d) for d in inside.split(",") if d]


def random_sharding(rng: random.Random, mesh, shape: str) -> str:
    """Axes for some dimensions, each used once, of sizes that divide."""
    text = ",".join(f"'{name}'={size}" for name, size in mesh)
    axes = list(mesh)
    rng.shuffle(axes)
    entries = []
    for size in dims_of(shape):
        taken = []
        while axes and size % axes[-1][1] == 0 and rng.random() < 0.5:
            name, count = axes.pop()
            taken.append(f"'{name}'")
            size //= count
        entries.append("{" + ",".join(taken) + "}")
    return f"{{mesh[{text}], [{', '.join(entries)}]}}"


def random_body(name: str, seed: int) -> tuple[str, int]:
    rng = random.Random(zlib.crc32(name.encode()) + seed)
    parameters, before, root = PROGRAMS[name]
    mesh = rng.choice(MESHES)
    lines = [
        f"p{n} = {shape} parameter({n}), sharding={random_sharding(rng, mesh, shape)}"
        for n, shape in enumerate(parameters)
    ]
    shape = root.split(" ")[0] if root[0] != "(" else root[: root.index(")") + 1]
    if shape[0] == "(":
        leaves = shape[1:-1].replace("], ", "];").split(";")
        each = ", ".join(random_sharding(rng, mesh, leaf) for leaf in leaves)
        sharding = f"{{{each}}}"
    else:
        sharding = random_sharding(rng, mesh, shape)
    body = "\n".join([*lines, before, f"ROOT r = {root}, sharding={sharding}"])
    return body, int(np.prod([size for _, size in mesh]))


def check_random(name: str, seed: int) -> None:
    body, devices = random_body(name, seed)
    try:
        check(body, devices, SUM, arguments_of(program(body, devices, SUM), seed))
    except Exception as error:
        error.add_note(f"{name}, seed {seed}:\n{body}")
        raise


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_operation(name):
    for seed in range(10):
        check_random(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_operation_often(name):
    for seed in range(10, 300):
        check_random(name, seed)
