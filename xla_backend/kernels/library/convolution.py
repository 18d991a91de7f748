"""Convolutions as products: one factor are the patches of the input that a window sees, made up
element by element as a product asks for them; the other one is the kernel.

The batch of the product are the groups. The sum goes over window and input features, in the order
in which the input has neighbours. Where the output has neighbouring features, pixels are the rows
and features the columns; where it has neighbouring pixels, the other way round.
"""

from __future__ import annotations

import math

from xla_backend.hlo.attributes import ConvolutionAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.from_hlo.lower import begin
from xla_backend.kernels.from_hlo.reductions import window_position
from xla_backend.kernels.index import ZERO, Index, delinearize
from xla_backend.kernels.ir import Kernel, Value
from xla_backend.kernels.library.dots import FEW, SMALL, Build, Product, finish_of, product_in
from xla_backend.kernels.library.factors import Sizes, factor
from xla_backend.kernels.library.recipes import Recipe, recipe_for
from xla_backend.process.light_dataclasses import dataclass


@dataclass(frozen=True)
class Patches:
    """The sizes of a convolution.

    Fields:
      groups: that see nothing of each other; of features, or of batches.
      pixels: batch and spatial sizes of the output of a group.
      features: of the output of a group.
      channels: input features of a group.
      window: its sizes.
    """

    groups: int
    pixels: tuple[int, ...]
    features: int
    channels: int
    window: tuple[int, ...]

    @staticmethod
    def of(node: Instruction) -> Patches:
        a = _attributes(node)
        n = a.dimension_numbers
        out, kernel = node.shape.dimensions, node.operands[1].shape.dimensions
        groups = max(a.feature_group_count, a.batch_group_count)
        pixels = (out[n.output_batch], *(out[d] for d in n.output_spatial))
        return Patches(
            groups,
            pixels,
            out[n.output_feature] // groups,
            kernel[n.kernel_input_feature],
            tuple(w.size for w in a.window),
        )


def _attributes(node: Instruction) -> ConvolutionAttributes:
    assert isinstance(node.attributes, ConvolutionAttributes)
    return node.attributes


def _features_last(node: Instruction) -> bool:
    """Whether neighbours in the output are features."""
    n = _attributes(node).dimension_numbers
    return n.output_feature == node.shape.rank - 1


def convolution_sizes(node: Instruction) -> Sizes:
    p = Patches.of(node)
    k = p.channels * math.prod(p.window)
    m, n = math.prod(p.pixels), p.features
    return Sizes(p.groups, m, n, k) if _features_last(node) else Sizes(p.groups, n, m, k)


def recipe_of_convolution(node: Instruction, float_bytes: bool = False) -> Recipe | None:
    """How a convolution is computed; None where products of patches are no way to do so.
    `float_bytes`: see `recipe_for`."""
    a = _attributes(node)
    if a.feature_group_count > 1 and a.batch_group_count > 1:
        return None
    lhs, rhs = (o.shape.element_type for o in node.operands)
    sizes = convolution_sizes(node)
    few = min(sizes.m, sizes.n) < FEW
    small = math.prod(sizes) < SMALL
    if not _features_last(node):
        lhs, rhs = rhs, lhs
    return recipe_for(
        lhs,
        rhs,
        node.shape.element_type,
        a.precision,
        few=few,
        small=small,
        float_bytes=float_bytes,
    )


def convolution_kernel(node: Instruction, name: str, recipe: Recipe, build: Build) -> Kernel:
    """The kernel of a convolution or of a kOutput fusion around one, whose stages `build` makes."""
    e, root, outputs = begin(node, name)
    convolution = product_in(node)
    sizes, features_last = convolution_sizes(convolution), _features_last(convolution)
    view = _View(convolution)
    x, kernel = convolution.operands
    pixels, features = (sizes.m, sizes.n) if features_last else (sizes.n, sizes.m)
    patches, weights = (
        factor(
            element,
            (sizes.batch, count, sizes.k),
            e.leaves,
            recipe.of_side(side if features_last else 1 - side),
            zero=operand in e.leaves,
        )
        for side, (element, count, operand) in enumerate(
            ((view.patch, pixels, x), (view.weight, features, kernel))
        )
    )
    roots = root.operands if root.opcode is Opcode.TUPLE else [root]

    def index(group: Index, row: Index, column: Index) -> tuple[Index, ...]:
        return view.output(group, *((row, column) if features_last else (column, row)))

    finish = finish_of(e, convolution, roots, outputs, index)
    sides = (patches, weights) if features_last else (weights, patches)
    build(Product(e, sizes, *sides, recipe, finish))
    return e.builder.kernel


class _View:
    """A convolution by group, pixel, feature, and position in the sum."""

    def __init__(self, node: Instruction) -> None:
        self.node, self.sizes = node, Patches.of(node)
        self.a = _attributes(node)
        self.n = self.a.dimension_numbers
        self.x, self.kernel = node.operands

    def _position(self, inner: Index) -> tuple[Index, tuple[Index, ...]]:
        """Input feature and window offsets of a position in the sum."""
        s = self.sizes
        if self.n.input_feature == self.x.shape.rank - 1:
            *window, channel = delinearize(inner, (*s.window, s.channels))
        else:
            channel, *window = delinearize(inner, (s.channels, *s.window))
        return channel, tuple(window)

    def patch(self, e: ElementalEmitter, group: Index, pixel: Index, inner: Index) -> Value:
        """An element of the input; zero in the padding and in the holes of a dilation."""
        b, n, dims = e.builder, self.n, self.x.shape.dimensions
        batch, *spatial = delinearize(pixel, self.sizes.pixels)
        channel, window = self._position(inner)
        at = [ZERO] * len(dims)
        if self.a.batch_group_count > 1:
            at[n.input_batch] = batch + group * self.sizes.pixels[0]
            at[n.input_feature] = channel
        else:
            at[n.input_batch] = batch
            at[n.input_feature] = channel + group * self.sizes.channels
        inside: Value | bool | None = None
        for d, output, offset, w in zip(n.input_spatial, spatial, window, self.a.window):
            at[d], fits = window_position(e, output, offset, w, dims[d])
            inside = b.conjunction(inside, fits)
        if inside is False:
            return b.constant(self.x.shape.element_type, 0)
        with e.guarded(inside):
            value = e.real(self.x, tuple(at))
        if isinstance(inside, Value) and self.x not in e.leaves:
            zero = b.constant(value.type, 0)
            value = b.compute(Opcode.SELECT, value.type, (inside, value, zero))
        return value

    def weight(self, e: ElementalEmitter, group: Index, feature: Index, inner: Index) -> Value:
        """An element of the kernel."""
        n = self.n
        channel, window = self._position(inner)
        at = [ZERO] * self.kernel.shape.rank
        at[n.kernel_output_feature] = feature + group * self.sizes.features
        at[n.kernel_input_feature] = channel
        for d, offset in zip(n.kernel_spatial, window):
            at[d] = offset
        return e.real(self.kernel, tuple(at))

    def output(self, group: Index, pixel: Index, feature: Index) -> tuple[Index, ...]:
        """Where an element of the result is."""
        n = self.n
        batch, *spatial = delinearize(pixel, self.sizes.pixels)
        at = [ZERO] * self.node.shape.rank
        at[n.output_batch] = batch
        at[n.output_feature] = feature + group * self.sizes.features
        for d, i in zip(n.output_spatial, spatial):
            at[d] = i
        return tuple(at)
