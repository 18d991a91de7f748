"""Passes over dots and convolutions: each with programs it changes, and programs it leaves."""

from collections.abc import Callable
from functools import partial

import pytest
from pass_checks import check_pass

from xla_backend.hlo.parser import parse_module
from xla_backend.passes.base import HloPass
from xla_backend.passes.batch_dot_simplification import BatchDotSimplification
from xla_backend.passes.convolution_to_dot import ConvolutionToDot
from xla_backend.passes.dot_decomposer import DotDecomposer
from xla_backend.passes.dot_operand_types import DotOperandNarrowing, DotOperandWidening
from xla_backend.passes.dot_reassociation import DotReassociation
from xla_backend.passes.dot_result_types import DotResultNarrowing, DotResultWidening
from xla_backend.passes.dot_strength_reduction import DotStrengthReduction
from xla_backend.passes.dots import collapse, dot_sizes
from xla_backend.passes.transpose_folding import TransposeFolding
from xla_backend.targets.cpu.dot_rules import has_product

PLAIN = (
    "p = f32[3,4] parameter(0)\n q = f32[4,5] parameter(1)\n"
    " ROOT r = f32[3,5] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
)
ON_CPU = partial(DotOperandWidening, has_product)
CHANGES: dict[str, tuple[Callable[[], HloPass], str]] = {
    "many small matrices by vectors": (
        DotStrengthReduction,
        "p = f32[9,12,20] parameter(0)\n q = f32[9,20] parameter(1)\n"
        " // CHECK: multiply(\n // CHECK: reduce(\n // CHECK-NOT: dot(\n"
        " ROOT r = f32[9,12] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0},"
        " lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    ),
    "many vectors by small matrices, two dimensions of batches": (
        DotStrengthReduction,
        "p = s32[3,4,16] parameter(0)\n q = s32[3,4,5,16] parameter(1)\n"
        " // CHECK: reduce(\n // CHECK-NOT: dot(\n"
        " ROOT r = s32[3,4,5] dot(p, q), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},"
        " lhs_contracting_dims={2}, rhs_contracting_dims={3}",
    ),
    "a matrix of narrower numbers with scales by a vector": (
        DotStrengthReduction,
        "p = s8[40,100] parameter(0)\n q = f32[40] parameter(1)\n v = f32[100] parameter(2)\n"
        " c = f32[40,100] convert(p)\n s = f32[40,100] broadcast(q), dimensions={0}\n"
        " m = f32[40,100] multiply(c, s)\n"
        " // CHECK: reduce(\n // CHECK-NOT: dot(\n"
        " ROOT r = f32[40] dot(m, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "a matrix of half bytes that are put together by a vector": (
        DotStrengthReduction,
        "p = s8[40,50] parameter(0)\n v = f32[100] parameter(1)\n a = s8[40,50,1] reshape(p)\n"
        " j = s8[40,50,2] concatenate(a, a), dimensions={2}\n k = s8[40,100] reshape(j)\n"
        " c = f32[40,100] convert(k)\n // CHECK: reduce(\n // CHECK-NOT: dot(\n"
        " ROOT r = f32[40] dot(c, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "a vector by a matrix of narrower numbers": (
        DotStrengthReduction,
        "p = bf16[100,40] parameter(0)\n v = f32[100] parameter(1)\n"
        " c = f32[100,40] convert(p)\n"
        " // CHECK: reduce({{.*}}), dimensions={0}\n // CHECK-NOT: dot(\n"
        " ROOT r = f32[40] dot(v, c), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    ),
    "outer product": (
        DotStrengthReduction,
        "p = s32[3,1] parameter(0)\n q = s32[1,4] parameter(1)\n"
        " // CHECK-NOT: dot(\n // CHECK: ROOT {{.*}} = s32[3,4] multiply(\n"
        " ROOT r = s32[3,4] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "outer products in a batch": (
        DotStrengthReduction,
        "p = s32[2,3] parameter(0)\n q = s32[2,1,4] parameter(1)\n"
        " // CHECK-NOT: dot(\n // CHECK: ROOT {{.*}} = s32[2,3,1,4] multiply(\n"
        " ROOT r = s32[2,3,1,4] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0}",
    ),
    "an outer product with its batch behind": (
        DotStrengthReduction,
        "p = s32[3,2] parameter(0)\n q = s32[2,4] parameter(1)\n"
        " // CHECK-NOT: dot(\n // CHECK: s32[2,3] transpose(\n"
        " // CHECK: ROOT {{.*}} = s32[2,3,4] multiply(\n"
        " ROOT r = s32[2,3,4] dot(p, q), lhs_batch_dims={1}, rhs_batch_dims={0}",
    ),
    "many short vectors times a matrix": (
        DotStrengthReduction,
        "p = s32[300,3] parameter(0)\n q = s32[2,3] parameter(1)\n"
        " // CHECK-NOT: dot(\n // CHECK: ROOT {{.*}} = s32[300,2] add(\n"
        " ROOT r = s32[300,2] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
    "a product that widens": (
        DotStrengthReduction,
        "p = bf16[3,1] parameter(0)\n q = bf16[1,4] parameter(1)\n"
        " // CHECK-NOT: dot(\n // CHECK: ROOT {{.*}} = f32[3,4] multiply(\n"
        " ROOT r = f32[3,4] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "inner product of vectors": (
        DotStrengthReduction,
        "p = s32[7] parameter(0)\n q = s32[7] parameter(1)\n"
        " // CHECK-NOT: dot(\n // CHECK: ROOT {{.*}} = s32[] reduce(\n"
        " ROOT r = s32[] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    ),
    "inner product of bytes": (
        DotStrengthReduction,
        "p = s8[7] parameter(0)\n q = u8[7] parameter(1)\n"
        " // CHECK-NOT: dot(\n // CHECK: ROOT {{.*}} = s32[] reduce(\n"
        " ROOT r = s32[] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    ),
    "many products of tiny matrices": (
        DotStrengthReduction,
        "p = f32[9,2,4] parameter(0)\n q = f32[9,4,3] parameter(1)\n"
        " // CHECK-NOT: dot(\n // CHECK: ROOT {{.*}} = f32[9,2,3] add(\n"
        " ROOT r = f32[9,2,3] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0},"
        " lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    ),
    "many products that contract two dimensions, in an order of their own": (
        DotStrengthReduction,
        "p = s32[2,3,9,2] parameter(0)\n q = s32[9,2,2,3] parameter(1)\n"
        " // CHECK-NOT: dot(\n // CHECK: ROOT {{.*}} = s32[9,3,3] add(\n"
        " ROOT r = s32[9,3,3] dot(p, q), lhs_batch_dims={2}, rhs_batch_dims={0},"
        " lhs_contracting_dims={0,3}, rhs_contracting_dims={2,1}",
    ),
    "types that CPUs have no product of": (
        ON_CPU,
        "p = s16[3,4] parameter(0)\n q = u8[4,5] parameter(1)\n"
        " // CHECK: [[P:%[^ ]+]] = s32[3,4] convert(%p)\n"
        " // CHECK: ROOT {{.*}} = s32[3,5] dot([[P]], {{%[^ ]+}}),\n"
        " ROOT r = s32[3,5] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "small floats": (
        ON_CPU,
        "p = f8e4m3fn[3,4] parameter(0)\n q = f8e5m2[4,5] parameter(1)\n"
        " // CHECK: f32[3,4] convert(%p)\n // CHECK: f32[4,5] convert(%q)\n"
        " ROOT r = f32[3,5] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "converted bytes": (
        DotOperandNarrowing,
        "p = s8[3,4] parameter(0)\n q = u8[4,5] parameter(1)\n"
        " v = s32[3,4] convert(p)\n w = s32[4,5] convert(q)\n"
        " // CHECK: ROOT {{.*}} = s32[3,5] dot(%p, %q),\n"
        " ROOT r = s32[3,5] dot(v, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "inner products in a batch that lies behind": (
        DotStrengthReduction,
        "p = f32[4,7] parameter(0)\n q = f32[7,1,4] parameter(1)\n"
        " // CHECK-NOT: dot(\n // CHECK: [[R:%[^ ]+]] = f32[4] reduce({{.*}}dimensions={1}\n"
        " // CHECK: ROOT {{.*}} = f32[4,1] reshape([[R]])\n"
        " ROOT r = f32[4,1] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={2},"
        " lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "a matrix times a matrix times a vector": (
        DotReassociation,
        "p = f32[8,9] parameter(0)\n q = f32[9,7] parameter(1)\n v = f32[7,1] parameter(2)\n"
        " d = f32[8,7] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " // CHECK: [[V:%[^ ]+]] = f32[9,1] dot(%q, %v), lhs_contracting_dims={1},"
        " rhs_contracting_dims={0}\n"
        " // CHECK: dot(%p, [[V]]), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " ROOT r = f32[8,1] dot(d, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "the same from the other side, with the product transposed": (
        DotReassociation,
        "p = f32[9,8] parameter(0)\n q = f32[7,9] parameter(1)\n v = f32[7,1] parameter(2)\n"
        " d = f32[8,7] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={1}\n"
        " // CHECK: [[V:%[^ ]+]] = f32[1,9] dot(%v, %q), lhs_contracting_dims={0},"
        " rhs_contracting_dims={0}\n"
        " // CHECK: dot([[V]], %p), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " ROOT r = f32[1,8] dot(v, d), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
    ),
    "a sum over the rows of the product": (
        DotReassociation,
        "p = f32[8,9] parameter(0)\n q = f32[9,7] parameter(1)\n v = f32[8,1] parameter(2)\n"
        " d = f32[8,7] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " // CHECK: [[V:%[^ ]+]] = f32[9,1] dot(%p, %v), lhs_contracting_dims={0},"
        " rhs_contracting_dims={0}\n"
        " // CHECK: dot(%q, [[V]]), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        " ROOT r = f32[7,1] dot(d, v), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    ),
    "transposed operands": (
        TransposeFolding,
        "p = f32[4,3] parameter(0)\n q = f32[5,4] parameter(1)\n"
        " t = f32[3,4] transpose(p), dimensions={1,0}\n"
        " u = f32[4,5] transpose(q), dimensions={1,0}\n"
        " // CHECK: ROOT {{.*}} dot(%p, %q), lhs_contracting_dims={0}, rhs_contracting_dims={1}\n"
        " ROOT r = f32[3,5] dot(t, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "a transposed batch dimension": (
        TransposeFolding,
        "p = f32[3,2,4] parameter(0)\n q = f32[2,4,5] parameter(1)\n"
        " t = f32[2,3,4] transpose(p), dimensions={1,0,2}\n"
        " // CHECK: dot(%p, %q), lhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_batch_dims={0}\n"
        " ROOT r = f32[2,3,5] dot(t, q), lhs_batch_dims={0}, rhs_batch_dims={0},"
        " lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    ),
    "a transposed result": (
        TransposeFolding,
        "p = f32[3,4] parameter(0)\n q = f32[4,5] parameter(1)\n"
        " d = f32[3,5] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " // CHECK: ROOT {{.*}} dot(%q, %p), lhs_contracting_dims={0}, rhs_contracting_dims={1}\n"
        " ROOT r = f32[5,3] transpose(d), dimensions={1,0}",
    ),
    "a batch of one": (
        BatchDotSimplification,
        "p = f32[1,3,4] parameter(0)\n q = f32[4,1,5] parameter(1)\n"
        " // CHECK: f32[3,5] dot({{.*}}), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " // CHECK: ROOT {{.*}} = f32[1,3,5] reshape(\n"
        " ROOT r = f32[1,3,5] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={1},"
        " lhs_contracting_dims={2}, rhs_contracting_dims={0}",
    ),
    "one of two batch dimensions": (
        BatchDotSimplification,
        "p = f32[2,1,3,4] parameter(0)\n q = f32[2,1,4,5] parameter(1)\n"
        " // CHECK: f32[2,3,5] dot({{.*}}), lhs_batch_dims={0}, lhs_contracting_dims={2},"
        " rhs_batch_dims={0}, rhs_contracting_dims={1}\n"
        " ROOT r = f32[2,1,3,5] dot(p, q), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},"
        " lhs_contracting_dims={3}, rhs_contracting_dims={2}",
    ),
    "rows on both sides of the sum": (
        DotDecomposer,
        "p = f32[2,4,3] parameter(0)\n q = f32[4,5] parameter(1)\n"
        " // CHECK: [[T:%[^ ]+]] = f32[2,3,4] transpose(%p), dimensions={0,2,1}\n"
        " // CHECK: dot([[T]], %q), lhs_contracting_dims={2}, rhs_contracting_dims={0}\n"
        " ROOT r = f32[2,3,5] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "a sum over dimensions that are apart": (
        DotDecomposer,
        "p = f32[4,3,2] parameter(0)\n q = f32[4,2,5] parameter(1)\n"
        " // CHECK: [[T:%[^ ]+]] = f32[3,4,2] transpose(%p), dimensions={1,0,2}\n"
        " // CHECK: dot([[T]], %q), lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}\n"
        " ROOT r = f32[3,5] dot(p, q), lhs_contracting_dims={0,2}, rhs_contracting_dims={0,1}",
    ),
    "batches in another order": (
        DotDecomposer,
        "p = f32[3,4,2,8,6] parameter(0)\n q = f32[2,4,3,8,6] parameter(1)\n"
        " // CHECK: [[T:%[^ ]+]] = f32[3,4,2,8,6] transpose(%q), dimensions={2,1,0,3,4}\n"
        " // CHECK: dot(%p, [[T]]), lhs_batch_dims={0,1,2}, lhs_contracting_dims={4},"
        " rhs_batch_dims={0,1,2}, rhs_contracting_dims={4}\n"
        " ROOT r = f32[3,4,2,8,8] dot(p, q), lhs_batch_dims={0,1,2}, rhs_batch_dims={2,1,0},"
        " lhs_contracting_dims={4}, rhs_contracting_dims={4}",
    ),
    "a long sum in bf16": (
        DotResultWidening,
        "p = bf16[3,300] parameter(0)\n q = bf16[300,5] parameter(1)\n"
        " // CHECK: [[D:%[^ ]+]] = f32[3,5] dot(\n"
        " // CHECK: ROOT {{.*}} = bf16[3,5] convert([[D]])\n"
        " ROOT r = bf16[3,5] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "a rounded product of bf16": (
        DotResultNarrowing,
        "p = bf16[3,30] parameter(0)\n q = bf16[30,5] parameter(1)\n"
        " d = f32[3,5] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " // CHECK: ROOT {{.*}} = bf16[3,5] dot(%p, %q),\n"
        " ROOT r = bf16[3,5] convert(d)",
    ),
    "1x1 windows, channels last": (
        ConvolutionToDot,
        "p = f32[2,3,4,6] parameter(0)\n q = f32[1,1,6,5] parameter(1)\n"
        " // CHECK: f32[2,3,4,5] dot(%p, {{.*}}),"
        " lhs_contracting_dims={3}, rhs_contracting_dims={0}\n"
        " ROOT r = f32[2,3,4,5] convolution(p, q), window={size=1x1}, dim_labels=b01f_01io->b01f",
    ),
    "1x1 windows on one image, channels first": (
        ConvolutionToDot,
        "p = f32[1,6,3,4] parameter(0)\n q = f32[5,6,1,1] parameter(1)\n"
        " // CHECK: f32[5,1,3,4] dot({{.*}}, %p),"
        " lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
        " ROOT r = f32[1,5,3,4] convolution(p, q), window={size=1x1}, dim_labels=bf01_oi01->bf01",
    ),
    "windows as large as the image": (
        ConvolutionToDot,
        "p = f32[2,3,4,6] parameter(0)\n q = f32[3,4,6,5] parameter(1)\n"
        " // CHECK: f32[2,5] dot(%p, %q), lhs_contracting_dims={3,1,2},"
        " rhs_contracting_dims={2,0,1}\n"
        " ROOT r = f32[2,1,1,5] convolution(p, q), window={size=3x4}, dim_labels=b01f_01io->b01f",
    ),
    "no image": (
        ConvolutionToDot,
        "p = f32[2,6] parameter(0)\n q = f32[5,6] parameter(1)\n"
        " // CHECK: f32[2,5] dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
        " ROOT r = f32[2,5] convolution(p, q), dim_labels=bf_oi->bf",
    ),
    "many small matrices, column by column, by vectors": (
        DotStrengthReduction,
        "p = f32[9,20,12] parameter(0)\n q = f32[9,20] parameter(1)\n"
        " // CHECK: [[P:%[^ ]+]] = f32[9,20,12] multiply(%p, {{.*}})\n"
        " // CHECK: ROOT {{.*}} = f32[9,12] reduce([[P]], {{.*}}), dimensions={1}\n"
        " ROOT r = f32[9,12] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0},"
        " lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
    "vectors by many small matrices": (
        DotStrengthReduction,
        "q = f32[9,20] parameter(0)\n p = f32[9,20,12] parameter(1)\n"
        " // CHECK: [[P:%[^ ]+]] = f32[9,20,12] multiply({{.*}}, %p)\n"
        " // CHECK: ROOT {{.*}} = f32[9,12] reduce([[P]], {{.*}}), dimensions={1}\n"
        " ROOT r = f32[9,12] dot(q, p), lhs_batch_dims={0}, rhs_batch_dims={0},"
        " lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
    "many vectors of few components by one": (
        DotStrengthReduction,
        "p = f32[20,30,3] parameter(0)\n q = f32[3] parameter(1)\n"
        " // CHECK-NOT: dot(\n"
        " ROOT r = f32[20,30] dot(p, q), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
    ),
    "short rows by a vector": (
        DotStrengthReduction,
        "p = f32[1000,8] parameter(0)\n q = f32[8] parameter(1)\n"
        " // CHECK: ROOT {{.*}} = f32[1000] reduce({{.*}}), dimensions={1}\n"
        " ROOT r = f32[1000] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
}
KEPT: dict[str, tuple[Callable[[], HloPass], str]] = {
    "many matrices with long rows, column by column, by vectors": (
        DotStrengthReduction,
        "p = f32[9,20,33] parameter(0)\n q = f32[9,20] parameter(1)\n"
        " ROOT r = f32[9,33] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0},"
        " lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
    "rows that lanes do not read without gathers, by a vector": (
        DotStrengthReduction,
        "p = f32[1000,11] parameter(0)\n q = f32[11] parameter(1)\n"
        " ROOT r = f32[1000] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "columns of short rows by a vector": (
        DotStrengthReduction,
        "p = f32[8,1000] parameter(0)\n q = f32[8] parameter(1)\n"
        " ROOT r = f32[1000] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    ),
    "many matrices with long rows by vectors": (
        DotStrengthReduction,
        "p = f32[9,12,100] parameter(0)\n q = f32[9,100] parameter(1)\n"
        " ROOT r = f32[9,12] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0},"
        " lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    ),
    "a matrix that something else needs, too": (
        DotStrengthReduction,
        "p = s8[40,100] parameter(0)\n v = f32[100] parameter(1)\n c = f32[40,100] convert(p)\n"
        " d = f32[40] dot(c, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " ROOT r = (f32[40], f32[40,100]) tuple(d, c)",
    ),
    "a matrix that is computed of as much": (
        DotStrengthReduction,
        "p = f32[40,100] parameter(0)\n v = f32[100] parameter(1)\n c = f32[40,100] tanh(p)\n"
        " ROOT r = f32[40] dot(c, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "a matrix that is put together": (
        DotStrengthReduction,
        "p = s8[40,50] parameter(0)\n v = f32[100] parameter(1)\n"
        " j = s8[40,100] concatenate(p, p), dimensions={1}\n c = f32[40,100] convert(j)\n"
        " ROOT r = f32[40] dot(c, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "a few products of tiny matrices": (
        DotStrengthReduction,
        "p = f32[7,2,4] parameter(0)\n q = f32[7,4,3] parameter(1)\n"
        " ROOT r = f32[7,2,3] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0},"
        " lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    ),
    "many products of larger matrices": (
        DotStrengthReduction,
        "p = f32[90,2,4] parameter(0)\n q = f32[90,4,5] parameter(1)\n"
        " ROOT r = f32[90,2,5] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0},"
        " lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    ),
    "a product": (DotStrengthReduction, PLAIN),
    "a product of few short vectors": (
        DotStrengthReduction,
        "p = s32[100,3] parameter(0)\n q = s32[3,3] parameter(1)\n"
        " ROOT r = s32[100,3] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "a product of many longer vectors": (
        DotStrengthReduction,
        "p = s32[300,5] parameter(0)\n q = s32[5,3] parameter(1)\n"
        " ROOT r = s32[300,3] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "an inner product in bf16, which adds in f32": (
        DotStrengthReduction,
        "p = bf16[7] parameter(0)\n q = bf16[7] parameter(1)\n"
        " ROOT r = bf16[] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    ),
    "bytes with a product of their own": (
        ON_CPU,
        "p = s8[3,4] parameter(0)\n q = s8[4,5] parameter(1)\n"
        " ROOT r = s32[3,5] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "sums that are rounded once, not term by term": (
        ON_CPU,
        "p = f8e5m2[3,4] parameter(0)\n q = f8e5m2[4,5] parameter(1)\n"
        " ROOT r = bf16[3,5] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "bytes that lost bits on their way": (
        DotOperandNarrowing,
        "p = s8[3,4] parameter(0)\n q = s8[4,5] parameter(1)\n"
        " v = u8[3,4] convert(p)\n w = u8[4,5] convert(q)\n"
        " ROOT r = s32[3,5] dot(v, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "integers of 16 bits that were converted": (
        DotOperandNarrowing,
        "p = s16[3,4] parameter(0)\n q = s16[4,5] parameter(1)\n"
        " v = s32[3,4] convert(p)\n w = s32[4,5] convert(q)\n"
        " ROOT r = s32[3,5] dot(v, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "three matrices of one size": (
        DotReassociation,
        "p = f32[8,8] parameter(0)\n q = f32[8,8] parameter(1)\n v = f32[8,8] parameter(2)\n"
        " d = f32[8,8] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " ROOT r = f32[8,8] dot(d, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "a product that something else needs": (
        DotReassociation,
        "p = f32[8,9] parameter(0)\n q = f32[9,7] parameter(1)\n v = f32[7,1] parameter(2)\n"
        " d = f32[8,7] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " e = f32[8,1] dot(d, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " ROOT r = (f32[8,1], f32[8,7]) tuple(e, d)",
    ),
    "free dimensions out of order": (
        TransposeFolding,
        "p = f32[3,2,4] parameter(0)\n q = f32[4,5] parameter(1)\n"
        " t = f32[2,3,4] transpose(p), dimensions={1,0,2}\n"
        " ROOT r = f32[2,3,5] dot(t, q), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
    ),
    "a transposed result that is read as it is too": (
        TransposeFolding,
        "p = f32[3,4] parameter(0)\n q = f32[4,5] parameter(1)\n"
        " d = f32[3,5] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " t = f32[5,3] transpose(d), dimensions={1,0}\n"
        " ROOT r = (f32[5,3], f32[3,5]) tuple(t, d)",
    ),
    "a real batch": (
        BatchDotSimplification,
        "p = f32[2,3,4] parameter(0)\n q = f32[2,4,5] parameter(1)\n"
        " ROOT r = f32[2,3,5] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0},"
        " lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    ),
    "heads between rows and columns, which have one stride": (
        DotDecomposer,
        "p = f32[8,4,16] parameter(0)\n q = f32[8,4,16] parameter(1)\n"
        " ROOT r = f32[4,8,8] dot(p, q), lhs_batch_dims={1}, rhs_batch_dims={1},"
        " lhs_contracting_dims={2}, rhs_contracting_dims={2}",
    ),
    "heads between the rows of a batch: two groups of batches": (
        DotDecomposer,
        "p = f32[3,8,4,16] parameter(0)\n q = f32[3,8,4,16] parameter(1)\n"
        " ROOT r = f32[3,4,8,8] dot(p, q), lhs_batch_dims={0,2}, rhs_batch_dims={0,2},"
        " lhs_contracting_dims={3}, rhs_contracting_dims={3}",
    ),
    "a short sum in bf16": (
        DotResultWidening,
        "p = bf16[3,30] parameter(0)\n q = bf16[30,5] parameter(1)\n"
        " ROOT r = bf16[3,5] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "a rounded product that is read as it is too": (
        DotResultNarrowing,
        "p = bf16[3,30] parameter(0)\n q = bf16[30,5] parameter(1)\n"
        " d = f32[3,5] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " c = bf16[3,5] convert(d)\n ROOT r = (bf16[3,5], f32[3,5]) tuple(c, d)",
    ),
    "a rounded product of f32": (
        DotResultNarrowing,
        "p = f32[3,30] parameter(0)\n q = f32[30,5] parameter(1)\n"
        " d = f32[3,5] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " ROOT r = bf16[3,5] convert(d)",
    ),
    "3x3 windows": (
        ConvolutionToDot,
        "p = f32[2,5,5,6] parameter(0)\n q = f32[3,3,6,5] parameter(1)\n"
        " ROOT r = f32[2,3,3,5] convolution(p, q), window={size=3x3}, dim_labels=b01f_01io->b01f",
    ),
    "1x1 windows on images with channels first": (
        ConvolutionToDot,
        "p = f32[2,6,3,4] parameter(0)\n q = f32[5,6,1,1] parameter(1)\n"
        " ROOT r = f32[2,5,3,4] convolution(p, q), window={size=1x1}, dim_labels=bf01_oi01->bf01",
    ),
    "1x1 windows with a stride": (
        ConvolutionToDot,
        "p = f32[2,3,3,6] parameter(0)\n q = f32[1,1,6,5] parameter(1)\n"
        " ROOT r = f32[2,2,2,5] convolution(p, q), window={size=1x1 stride=2x2},"
        " dim_labels=b01f_01io->b01f",
    ),
    "groups": (
        ConvolutionToDot,
        "p = f32[2,3,3,6] parameter(0)\n q = f32[1,1,3,4] parameter(1)\n"
        " ROOT r = f32[2,3,3,4] convolution(p, q), window={size=1x1},"
        " dim_labels=b01f_01io->b01f, feature_group_count=2",
    ),
}


def program(body: str) -> str:
    return "HloModule m\nENTRY main {\n" + body + "\n}\n"


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name: str):
    hlo_pass, body = CHANGES[name]
    # Sums may be formed in another order.
    check_pass(
        hlo_pass(), program(body), exact="s32" in body, rtol=2e-2 if "bf16" in body else 1e-5
    )


@pytest.mark.parametrize("name", KEPT)
def test_keeps(name: str):
    hlo_pass, body = KEPT[name]
    check_pass(hlo_pass(), program(body), expect_change=False)


@pytest.mark.parametrize(
    "dims, group, stride",
    [
        ((2, 3, 4), (0, 1), 4),
        ((2, 3, 4), (1, 2), 1),
        ((2, 3, 4), (0, 2), None),
        ((2, 3, 4), (1, 0), None),
        ((2, 1, 4), (1, 2), 1),
        ((2, 1, 4), (), 0),
    ],
)
def test_collapse(dims: tuple[int, ...], group: tuple[int, ...], stride: int | None):
    assert collapse(dims, group) == stride


def test_sizes_of_a_dot():
    module = parse_module(program(KEPT["a real batch"][1]))
    assert module.entry is not None and module.entry.root is not None
    assert dot_sizes(module.entry.root) == (2, 3, 5, 4)
