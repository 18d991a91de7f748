"""convolution as one library call: any dimension order by strides; other types and ranks run as
plain loops."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xla_backend.hlo.attributes import ConvolutionAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.dots import row_major_strides
from xla_backend.passes.output_fusion import result_shape
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Element, KernelOperand, Library, Operand, Slice, Step
from xla_backend.targets.cpu.dot_rules import gemm_name
from xla_backend.targets.cpu.routines.contract_table import ROUTINES
from xla_backend.targets.cpu.routines.conv_dims import LARGE_WINDOW, pack_dims
from xla_backend.targets.cpu.routines.conv_matrix import form_of
from xla_backend.targets.cpu.rules import RULES, cycles_of

_SPATIAL = 3
# A convolution with fewer multiplications than this is not worth the library's set-up.
_SMALL = 2048


@RULES.runs(Opcode.CONVOLUTION)
def _convolution(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    if node.shape.num_elements == 0:
        return []
    name = _library_type(node)
    if name is None:
        return builder.launch(node)
    product = _product_step(builder, node, name)
    if product is not None:
        return [product]
    target = builder.slice(node)
    return [convolution_step(builder, node.name, node, node.operands, target, f"conv_{name}")]


def _library_type(node: Instruction) -> str | None:
    """The type of the library's function for a convolution; None if it runs as a plain loop."""
    x, kernel = node.operands
    a = node.attributes
    assert isinstance(a, ConvolutionAttributes)
    name = gemm_name(*(n.shape.element_type for n in (x, kernel, node)))
    work = node.shape.num_elements * kernel.shape.num_elements
    work //= max(1, kernel.shape.dimensions[a.dimension_numbers.kernel_output_feature])
    known = name is not None and f"conv_{name}" in ROUTINES
    grouped_twice = a.feature_group_count > 1 and a.batch_group_count > 1
    empty = 0 in kernel.shape.dimensions or 0 in x.shape.dimensions
    if not known or len(a.window) > _SPATIAL or empty:
        return None
    if work < _SMALL or grouped_twice or _is_depthwise(node, a):
        return None
    return name


def _product_step(builder: ProgramBuilder, node: Instruction, name: str) -> Library | None:
    """A window of one point is a product: of pixels and weights with channels last, of weights and
    pixels with channels first. None: it is none."""
    a = node.attributes
    assert isinstance(a, ConvolutionAttributes)
    d, _ = _fields(node, a)
    if d["groups"] > 1 or any(
        (w.size, w.stride, w.base_dilation, w.padding_low, w.padding_high) != (1, 1, 1, 0, 0)
        for w in a.window
    ):
        return None
    pixels = d["out0"] * d["out1"] * d["out2"]
    # Pixels follow each other evenly, on both sides.
    for side in "xo":
        step = d[f"{side}2"]
        for k in (1, 0):
            step *= d[f"out{k + 1}"]
            if d[f"out{k}"] > 1 and d[f"{side}{k}"] != step:
                return None
    x, kernel = map(builder.slice, node.operands)
    batches, m, n = d["n"], pixels, d["co"]
    left: tuple[Operand, ...]
    right: tuple[Operand, ...]
    arguments: tuple[Operand, ...]
    if d["oc"] == 1:
        if d["xb"] == pixels * d["x2"] and d["ob"] == pixels * d["o2"]:
            batches, m = 1, batches * pixels
        left, right = (x, d["xb"], d["x2"], d["xc"]), (kernel, 0, d["wi"], d["wo"])
        pitch = d["o2"]
    elif d["o2"] == 1:
        m, n = n, m
        left, right = (kernel, 0, d["wo"], d["wi"]), (x, d["xb"], d["xc"], d["x2"])
        pitch = d["oc"]
    else:
        return None
    target = builder.slice(node)
    if batches == 1:
        # One product has no batch strides.
        left, right = ((side[0], *side[2:]) for side in (left, right))
        arguments = (m, n, d["ci"], *left, *right, target, pitch, 0)
        return Library(node.name, cycles_of(node), f"gemm_{name}", arguments)
    arguments = (batches, m, n, d["ci"], *left, *right, target, d["ob"], pitch, 0)
    return Library(node.name, cycles_of(node), f"gemm_batched_{name}", arguments)


def convolution_step(
    builder: ProgramBuilder,
    name: str,
    node: Instruction,
    operands: Sequence[Instruction],
    target: Slice,
    routine: str,
    epilogue: Sequence[KernelOperand] = (),
) -> Library:
    """Call a convolution of the library on instructions that lie in memory."""
    x, kernel = operands
    a = node.attributes
    assert isinstance(a, ConvolutionAttributes)
    fields, first_weight = _fields(node, a)
    weights = Element(builder.slice(kernel), first_weight)
    dims = tuple(pack_dims(**fields))
    taken: tuple[Operand, ...] = (builder.slice(x), weights, target, dims, *epilogue)
    return Library(name, cycles_of(node), routine, taken)


def direct_kind(node: Instruction) -> str | None:
    """Which direct kernel runs a convolution and can hand its blocks to an epilogue; None where
    another one is better."""
    name = _library_type(node)
    shape = result_shape(node)
    if name not in ("f32", "f64") or shape is None:
        return None
    a = node.attributes
    assert isinstance(a, ConvolutionAttributes)
    if a.feature_group_count > 1 or a.batch_group_count > 1:
        return None
    pixels = node.shape.num_elements // max(1, _features(node) * _batch(node))
    if math.prod(w.size for w in a.window) > LARGE_WINDOW * pixels:
        return None
    plain = all(w.size == 1 and w.stride == 1 and w.base_dilation == 1 for w in a.window)
    if plain or _features(node) == 1 or form_of(_fields(node, a)[0]):
        return None
    if shape.columns == _features(node):
        return "channels"
    last = a.window[-1]
    return "planes" if last.base_dilation == 1 or last.stride == 1 else None


def _features(node: Instruction) -> int:
    return node.shape.dimensions[node.attributes.dimension_numbers.output_feature]  # type: ignore[attr-defined]


def _batch(node: Instruction) -> int:
    return node.shape.dimensions[node.attributes.dimension_numbers.output_batch]  # type: ignore[attr-defined]


def _is_depthwise(node: Instruction, a: ConvolutionAttributes) -> bool:
    """One input and one output channel per group, or the gradient of that by its weights (one image
    and one output channel per group), channels last: a loop with channels in the lanes is
    fastest."""
    n = a.dimension_numbers
    x, kernel = (operand.shape.dimensions for operand in node.operands)
    last = node.shape.rank - 1
    outputs = kernel[n.kernel_output_feature]
    if n.output_feature != last:
        return False
    if a.batch_group_count > 1:
        alone = a.batch_group_count == outputs == x[n.input_batch]
        return alone and n.input_batch == n.kernel_output_feature == last
    alone = kernel[n.kernel_input_feature] == 1 and a.feature_group_count == outputs
    return alone and n.input_feature == last


def _fields(node: Instruction, a: ConvolutionAttributes) -> tuple[dict[str, int], int]:
    """The library's description, and where its first weight lies (reversed windows are walked
    backwards)."""
    x, kernel = node.operands
    n = a.dimension_numbers
    xs, ks, os = (row_major_strides(s.dimensions) for s in (x.shape, kernel.shape, node.shape))
    features = kernel.shape.dimensions[n.kernel_input_feature]
    outputs = kernel.shape.dimensions[n.kernel_output_feature]
    groups = max(a.feature_group_count, a.batch_group_count)
    batch = x.shape.dimensions[n.input_batch] // a.batch_group_count
    per_group = outputs // groups
    if a.batch_group_count > 1:
        x_group = batch * xs[n.input_batch]
    else:
        x_group = features * xs[n.input_feature]
    fields = {
        "n": batch, "groups": groups, "ci": features, "co": per_group,
        "xb": xs[n.input_batch], "xc": xs[n.input_feature], "xg": x_group,
        "wi": ks[n.kernel_input_feature], "wo": ks[n.kernel_output_feature],
        "wg": per_group * ks[n.kernel_output_feature],
        "ob": os[n.output_batch], "oc": os[n.output_feature],
        "og": per_group * os[n.output_feature],
    }  # fmt: skip
    offset = 0
    unused = _SPATIAL - len(a.window)
    for k in range(_SPATIAL):
        if k < unused:
            values = {
                "in": 1,
                "win": 1,
                "out": 1,
                "stride": 1,
                "pad": 0,
                "xdil": 1,
                "wdil": 1,
                "x": 0,
                "w": 0,
                "o": 0,
            }
        else:
            window = a.window[k - unused]
            xd, kd, od = (
                n.input_spatial[k - unused],
                n.kernel_spatial[k - unused],
                n.output_spatial[k - unused],
            )
            step = ks[kd]
            if window.reversal:
                offset += step * (window.size - 1)
                step = -step
            values = {
                "in": x.shape.dimensions[xd], "win": window.size, "out": node.shape.dimensions[od],
                "stride": window.stride, "pad": window.padding_low, "xdil": window.base_dilation,
                "wdil": window.window_dilation, "x": xs[xd], "w": step, "o": os[od],
            }  # fmt: skip
        fields.update({f"{key}{k}": value for key, value in values.items()})
    return fields, offset
