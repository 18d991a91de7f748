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
most { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] maximum(a, b) }
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


def conv(shapes: str, window: str, rest: str = ""):  # type: ignore[no-untyped-def]
    image, kernel, result = shapes.split()
    line = f"{result} convolution(p0, p1), window={{{window}}}, dim_labels=b01f_01io->b01f{rest}"
    return [image, kernel], "", line


def window(shapes: str, attributes: str, start: str = "0", combine: str = "sum"):  # type: ignore[no-untyped-def]
    array, result = shapes.split()
    line = f"{result} reduce-window(p0, z), window={{{attributes}}}, to_apply={combine}"
    return [array], f"z = f32[] constant({start})", line


def moving(shapes: str, line: str):  # type: ignore[no-untyped-def]
    *arrays, result = shapes.split()
    return arrays, "", f"{result} {line}"


# What moves elements along dimensions that are cut, and what takes indices into them.
PROGRAMS |= {
    "slice-strided": moving("f32[12,8] f32[4,8]", "slice(p0), slice={[1:12:3], [0:8]}"),
    "slice-end": moving("f32[12,8] f32[8,6]", "slice(p0), slice={[4:12], [2:8]}"),
    "slice-one": moving("f32[12,8] f32[1,8]", "slice(p0), slice={[7:8], [0:8]}"),
    "slice-one-byte": moving("pred[12,8] pred[1,8]", "slice(p0), slice={[7:8], [0:8]}"),
    "slice-few": moving("f32[24,4] f32[3,4]", "slice(p0), slice={[7:10], [0:4]}"),
    "pad-negative": moving("f32[12,4] f32[] f32[12,6]", "pad(p0, p1), padding=-2_2x1_1"),
    "pad-interior": moving("f32[6,4] f32[] f32[12,8]", "pad(p0, p1), padding=2_-1_1x0_1_1"),
    "pad-wide": moving("f32[4,3] f32[] f32[24,12]", "pad(p0, p1), padding=9_11x4_5"),
    "reverse-both": moving("f32[12,8] f32[12,8]", "reverse(p0), dimensions={0,1}"),
    "concatenate-three": moving(
        "f32[12,2] f32[4,2] f32[8,2] f32[24,2]", "concatenate(p0, p1, p2), dimensions={0}"
    ),
    "concatenate-one": moving(
        "f32[1,4] f32[11,4] f32[12,4]", "concatenate(p0, p1), dimensions={0}"
    ),
    "convolution-valid": conv("f32[2,14,8,2] f32[3,3,2,4] f32[2,12,6,4]", "size=3x3"),
    "convolution-strided": conv(
        "f32[2,12,12,2] f32[3,3,2,4] f32[2,6,4,4]", "size=3x3 stride=2x3 pad=0_1x1_0"
    ),
    "convolution-dilated": conv(
        "f32[2,12,8,2] f32[3,3,2,4] f32[2,12,8,4]", "size=3x3 pad=2_2x1_1 rhs_dilate=2x1"
    ),
    "convolution-transposed": conv(
        "f32[2,6,4,2] f32[3,3,2,4] f32[2,12,12,4]", "size=3x3 pad=1_2x1_3 lhs_dilate=2x3"
    ),
    "convolution-transposed-odd": conv(
        "f32[2,4,4,2] f32[2,2,2,4] f32[2,12,4,4]", "size=2x2 pad=1_2x0_1 lhs_dilate=3x1"
    ),
    "convolution-of-kernel": conv(
        "f32[4,8,8,2] f32[8,8,2,6] f32[4,3,3,6]", "size=8x8 pad=1_1x1_1"
    ),
    "convolution-pairs": conv(
        "f32[4,6,6,8] f32[3,3,2,8] f32[4,6,6,8]", "size=3x3 pad=1_1x1_1",
        ", feature_group_count=4",
    ),
    "convolution-batches": conv(
        "f32[8,6,6,2] f32[3,3,2,8] f32[2,6,6,8]", "size=3x3 pad=1_1x1_1", ", batch_group_count=4"
    ),
    "window-padded": window("f32[12,8] f32[12,8]", "size=3x2 pad=1_1x0_1"),
    "window-strided": window(
        "f32[12,8] f32[4,4]", "size=3x2 stride=3x2", "-inf", "largest"
    ),
    "window-start": window("f32[12,8] f32[12,8]", "size=2x1 pad=1_0x0_0", "5"),
    "window-inside": window("f32[14,8] f32[12,8]", "size=3x1", "5"),
    "window-overlapping": window("f32[12,8] f32[6,8]", "size=3x1 stride=2x1 pad=1_0x0_0"),
    "window-dilated": window(
        "f32[12,8] f32[24,8]", "size=2x2 pad=1_1x0_1 lhs_dilate=2x1", "5", "largest"
    ),
    "running-sum": window("f32[12,8] f32[12,8]", "size=12x1 pad=11_0x0_0"),
    "running-sum-back": window("f32[12,8] f32[12,8]", "size=1x8 pad=0_0x0_7"),
    "running-largest": window(
        "f32[12,8] f32[12,8]", "size=12x1 pad=0_11x0_0", "-inf", "largest"
    ),
    "running-both": window("f32[12,8] f32[12,8]", "size=12x8 pad=11_0x7_0"),
    "running-start": window("f32[12,8] f32[12,8]", "size=12x1 pad=11_0x0_0", "3"),
    "dynamic-slice-one": moving(
        "f32[12,8] s32[] s32[] f32[1,8]",
        "dynamic-slice(p0, p1, p2), dynamic_slice_sizes={1,8}",
    ),
    "dynamic-slice-few": moving(
        "f32[12,8] s64[] s64[] f32[3,2]",
        "dynamic-slice(p0, p1, p2), dynamic_slice_sizes={3,2}",
    ),
    "dynamic-slice-byte": moving(
        "pred[12,8] u8[] u8[] pred[2,8]",
        "dynamic-slice(p0, p1, p2), dynamic_slice_sizes={2,8}",
    ),
    "dynamic-update-slice-one": moving(
        "f32[12,8] f32[1,8] s32[] s32[] f32[12,8]", "dynamic-update-slice(p0, p1, p2, p3)"
    ),
    "dynamic-update-slice-both": moving(
        "f32[12,8] f32[3,1] s64[] s64[] f32[12,8]", "dynamic-update-slice(p0, p1, p2, p3)"
    ),
    "dynamic-update-slice-long": moving(
        "f32[12,8] f32[9,1] s32[] s32[] f32[12,8]", "dynamic-update-slice(p0, p1, p2, p3)"
    ),
    "dynamic-update-slice-longer": moving(
        "s32[24,8] s32[11,7] u32[] u32[] s32[24,8]", "dynamic-update-slice(p0, p1, p2, p3)"
    ),
    "gather-short": moving(
        "f32[24,6] s32[3,1] f32[3,5,6]",
        "gather(p0, p1), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={5,6}",
    ),
    "gather-short-both": moving(
        "s32[24,12] s64[2,2] s32[2,3,2]",
        "gather(p0, p1), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={1,0}, "
        "index_vector_dim=1, slice_sizes={3,2}",
    ),
    "gather-short-and-one": moving(
        "f32[8,12] u8[4,2] f32[4,3]",
        "gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0,1}, "
        "index_vector_dim=1, slice_sizes={1,3}",
    ),
    "scatter-short": moving(
        "f32[12,4] s32[6,1] f32[6,3,4] f32[12,4]",
        "scatter(p0, p1, p2), update_window_dims={1,2}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum",
    ),
    "scatter-short-set": moving(
        "f32[12,8] u8[1,2] f32[1,2,2] f32[12,8]",
        "scatter(p0, p1, p2), update_window_dims={1,2}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={1,0}, index_vector_dim=1, to_apply=second",
    ),
    "scatter-short-and-one": moving(
        "f32[8,12] s64[6,2] f32[6,3] f32[8,12]",
        "scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=largest",
    ),
    "scatter-into-more": moving(
        "f32[24,4] s32[12] f32[12,4] f32[24,4]",
        "scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum",
    ),
    "fft": moving("c64[8,12] c64[8,12]", "fft(p0), fft_type=FFT, fft_length={8,12}"),
    "fft-of-real": moving("f32[2,4,8] c64[2,4,5]", "fft(p0), fft_type=RFFT, fft_length={4,8}"),
    "fft-of-real-in-three": moving(
        "f32[4,6,8] c64[4,6,5]", "fft(p0), fft_type=RFFT, fft_length={4,6,8}"
    ),
    "fft-inverse": moving("c64[4,8,6] c64[4,8,6]", "fft(p0), fft_type=IFFT, fft_length={4,8,6}"),
    "fft-inverse-of-one": moving("c64[4,12] c64[4,12]", "fft(p0), fft_type=IFFT, fft_length={12}"),
    "triangular-solve": moving(
        "f32[4,3,3] f32[4,3,12] f32[4,3,12]",
        "triangular-solve(p0, p1), left_side=true, lower=true, unit_diagonal=true, "
        "transpose_a=NO_TRANSPOSE",
    ),
    "triangular-solve-right": moving(
        "f32[3,3] f32[12,3] f32[12,3]",
        "triangular-solve(p0, p1), left_side=false, lower=false, unit_diagonal=true, "
        "transpose_a=TRANSPOSE",
    ),
    "gather-pairs": moving(
        "f32[8,6,4] s32[12,2] f32[12,4]",
        "gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0,1}, start_index_map={1,0}, "
        "index_vector_dim=1, slice_sizes={1,1,4}",
    ),
    "gather-scalars": moving(
        "s32[8,4] u32[12] s32[12,4]",
        "gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={1,4}",
    ),
    "gather-window": moving(
        "f32[8,6] s32[12,1] f32[12,2,6]",
        "gather(p0, p1), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={2,6}",
    ),
    "scatter-set": moving(
        "f32[8,4] s32[6,1] f32[6,4] f32[8,4]",
        "scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=second",
    ),
    "scatter-largest": moving(
        "f32[8,4] s32[12] f32[12,4] f32[8,4]",
        "scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=largest",
    ),
    "scatter-pairs": moving(
        "f32[8,6,4] u32[12,2] f32[12,4] f32[8,6,4]",
        "scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0,1}, "
        "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=sum",
    ),
    "bitcast-scalar": moving("s64[] s32[2]", "bitcast-convert(p0)"),
    "bitcast-joined": moving("u16[12,2] s32[12]", "bitcast-convert(p0)"),
    "slice-nothing": moving("f32[12,8] f32[0,8]", "slice(p0), slice={[6:6], [0:8]}"),
    "sort-both": moving("f32[8,12] f32[8,12]", "sort(p0), dimensions={0}, to_apply=before"),
}  # fmt: skip
# Lines in the middle of which sizes do not divide.
PROGRAMS |= {
    "uneven-sum": (
        ["f32[12,8]"],
        "z = f32[] constant(0)\ns = f32[11,8] slice(p0), slice={[1:12], [0:8]}\n"
        "e = f32[11,8] exponential(s)\nn = f32[11,8] negate(e)",
        "f32[8] reduce(n, z), dimensions={0}, to_apply=sum",
    ),
    "uneven-largest": (
        ["s32[12,8]"],
        "z = s32[] constant(-2147483648)\ns = s32[10,7] slice(p0), slice={[1:11], [0:7]}",
        "s32[] reduce(s, z), dimensions={0,1}, to_apply=most",
    ),
    "uneven-place": (
        ["f32[12,4]"],
        "s = f32[11,4] slice(p0), slice={[1:12], [0:4]}\ni = s32[11,4] iota(), iota_dimension=0\n"
        "z = f32[] constant(-inf)\no = s32[] constant(0)\n"
        "b = (f32[4], s32[4]) reduce(s, i, z, o), dimensions={0}, to_apply=pair",
        "s32[4] get-tuple-element(b), index=1",
    ),
    "sort-behind-which-another-is-cut": (
        ["f32[12,8]"],
        "s = f32[12,8] sort(p0), dimensions={0}, to_apply=before\n"
        "t = f32[3,8] slice(s), slice={[2:5], [0:8]}\nn = f32[3,8] negate(t)",
        "f32[3,8] reverse(n), dimensions={0}",
    ),
    "uneven-product": (
        ["f32[12,6]", "f32[12,4]"],
        "s = f32[11,6] slice(p0), slice={[1:12], [0:6]}\n"
        "t = f32[11,4] slice(p1), slice={[0:11], [0:4]}\nu = f32[11,4] divide(t, t)",
        "f32[6,4] dot(s, u), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    ),
    "uneven-rows": (
        ["f32[12,6]", "f32[6,4]"],
        "o = f32[] constant(1)\ns = f32[10,6] slice(p0), slice={[0:10], [0:6]}\n"
        "d = f32[10,4] dot(s, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "f32[12,4] pad(d, o), padding=1_1x0_0",
    ),
    "uneven-reshape": (
        ["f32[12,4]"],
        "o = f32[] constant(1)\ns = f32[10,4] slice(p0), slice={[2:12], [0:4]}\n"
        "t = f32[40] reshape(s)\nn = f32[40] negate(t)",
        "f32[48] pad(n, o), padding=3_5",
    ),
    "uneven-transpose": (
        ["f32[12,8]"],
        "o = f32[] constant(1)\ns = f32[11,7] slice(p0), slice={[0:11], [0:7]}\n"
        "t = f32[7,11] transpose(s), dimensions={1,0}\nn = f32[7,11] reverse(t), dimensions={1}",
        "f32[8,12] pad(n, o), padding=1_0x0_1",
    ),
    "uneven-sort": (
        ["f32[12,8]"],
        "o = f32[] constant(1)\ns = f32[11,7] slice(p0), slice={[0:11], [0:7]}\n"
        "t = f32[11,7] sort(s), dimensions={1}, to_apply=before",
        "f32[12,8] pad(t, o), padding=1_0x0_1",
    ),
    "uneven-running-sum": (
        ["f32[12,8]"],
        "z = f32[] constant(0)\ns = f32[11,8] slice(p0), slice={[0:11], [0:8]}\n"
        "t = f32[11,8] reduce-window(s, z), window={size=11x1 pad=0_10x0_0}, to_apply=sum",
        "f32[12,8] pad(t, z), padding=1_0x0_0",
    ),
    "uneven-stencil": (
        ["f32[12,8]"],
        "z = f32[] constant(0)\na = f32[10,8] slice(p0), slice={[2:12], [0:8]}\n"
        "b = f32[10,8] slice(p0), slice={[0:10], [0:8]}\nc = f32[10,8] subtract(a, b)",
        "f32[12,8] pad(c, z), padding=1_1x0_0",
    ),
    "uneven-gather": (
        ["f32[12,4]", "s32[12]"],
        "s = f32[11,4] slice(p0), slice={[1:12], [0:4]}\n"
        "i = s32[11] slice(p1), slice={[0:11]}\nj = s32[11] abs(i)\n"
        "g = f32[11,4] gather(s, j), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}",
        "f32[12,4] scatter(p0, i, g), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum",
    ),
    "uneven-scatter": (
        ["f32[12,4]", "s32[12]", "f32[12,4]"],
        "s = f32[11,4] slice(p2), slice={[1:12], [0:4]}\n"
        "i = s32[11] slice(p1), slice={[0:11]}",
        "f32[12,4] scatter(p0, i, s), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum",
    ),
    "uneven-convolution": (
        ["f32[2,12,8,3]", "f32[3,3,3,4]"],
        "s = f32[2,11,8,3] slice(p0), slice={[0:2], [1:12], [0:8], [0:3]}\n"
        "c = f32[2,9,6,4] convolution(s, p1), window={size=3x3}, dim_labels=b01f_01io->b01f\n"
        "z = f32[] constant(0)",
        "f32[2,12,6,4] pad(c, z), padding=0_0x2_1x0_0x0_0",
    ),
    "uneven-update": (
        ["f32[12,8]", "s32[]"],
        "z = f32[] constant(0)\ns = f32[11,8] slice(p0), slice={[1:12], [0:8]}\n"
        "k = s32[] constant(0)\nu = f32[2,8] slice(p0), slice={[0:2], [0:8]}\n"
        "t = f32[11,8] dynamic-update-slice(s, u, p1, k)",
        "f32[12,8] pad(t, z), padding=1_0x0_0",
    ),
}  # fmt: skip
MESHES = (
    [("a", 2), ("b", 2)],
    [("a", 4)],
    [("a", 2), ("b", 3)],
    [("x", 2), ("y", 2), ("z", 2)],
    [("a", 3)],
    [("a", 6)],
    [("a", 8)],
)


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
    for seed in range(6):
        check_random(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_operation_often(name):
    for seed in range(6, 300):
        check_random(name, seed)
