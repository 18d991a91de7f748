"""Dots that are cheaper as arithmetic: outer products, inner products of vectors, and many products
of tiny matrices."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.dots import dot_attributes, dot_sizes, operand_dimensions
from xla_backend.passes.emit import Emit, adopt
from xla_backend.passes.fusion_rules import joins_components

# Types in which a reduce adds as a dot does: the products need no wider type.
_SUMMABLE = frozenset({PrimitiveType.F32, PrimitiveType.F64, PrimitiveType.S32, PrimitiveType.U32})
# So many products of matrices with sides of at most so many elements: a routine takes longer to
# begin each than to form it.
_MANY_PRODUCTS = 8
_TINY_SIDE = 4
# Many matrices of at most so many elements along what is summed, each times a vector.
_SHORT_ROW = 32
# Rows of so many elements are added up without gathers, a row or an element in each lane.
_IN_LANES = frozenset({*range(2, 11), 12, 16, 24, 32})
# What an array that is computed may be computed of.
_IN_MEMORY = frozenset({Opcode.PARAMETER, Opcode.CONSTANT, Opcode.IOTA, Opcode.GET_TUPLE_ELEMENT})
# So many vectors of at most so many components, times one matrix.
_LONG_SIDE = 256


def _outer_product(node: Instruction) -> Instruction | None:
    """A product contracted over one element is a multiply."""
    a = dot_attributes(node)
    lhs, rhs = node.operands
    if any(lhs.shape.dimensions[d] != 1 for d in a.lhs_contracting):
        return None
    batch = len(a.lhs_batch)
    lhs_free = lhs.shape.rank - batch - len(a.lhs_contracting)
    operands = (
        (lhs, a.lhs_contracting, a.lhs_batch, batch),
        (rhs, a.rhs_contracting, a.rhs_batch, batch + lhs_free),
    )
    places = []
    for x, contracting, batches, first in operands:
        left = [d for d in range(x.shape.rank) if d not in contracting]
        free = [d for d in left if d not in batches]
        places.append([batches.index(d) if d in batches else first + free.index(d) for d in left])
    b = Emit(node)
    sides = []
    for (x, contracting, _, _), place in zip(operands, places):
        x = b.reshape(x, [n for d, n in enumerate(x.shape.dimensions) if d not in contracting])
        x = b.convert(x, node.shape.element_type)
        if place != sorted(place):
            x = b.transpose(x, sorted(range(len(place)), key=place.__getitem__))
            place = sorted(place)
        if place != list(range(node.shape.rank)):
            x = b.broadcast(x, node.shape.dimensions, place)
        sides.append(x)
    return b.binary(Opcode.MULTIPLY, *sides)


def _inner_products(node: Instruction) -> Instruction | None:
    """Vectors times vectors: the sum of a product, which fuses with what computes the vectors."""
    sizes = dot_sizes(node)
    type = node.shape.element_type
    if sizes.m != 1 or sizes.n != 1 or 0 in sizes or type not in _SUMMABLE:
        return None
    types = [operand.shape.element_type for operand in node.operands]
    if any(t is not type and not (t.is_integral and type.is_integral) for t in types):
        return None
    b = Emit(node)
    sides = []
    for x, groups in zip(node.operands, operand_dimensions(node)):
        dims = [x.shape.dimensions[d] for d in (*groups.batch, *groups.contracting)]
        order = (*groups.batch, *groups.free, *groups.contracting)
        if order != tuple(range(x.shape.rank)):
            x = b.transpose(x, order)
        sides.append(b.convert(b.reshape(x, dims), type))
    batches = len(dot_attributes(node).lhs_batch)
    product = b.binary(Opcode.MULTIPLY, *sides)
    total = b.reduce_sum(product, range(batches, product.shape.rank))
    return b.reshape(total, node.shape.dimensions)


def _tiny_products(node: Instruction) -> Instruction | None:
    """Many products of tiny matrices, or one of many short vectors: a sum of products of columns
    and rows, in their order."""
    sizes = dot_sizes(node)
    sides_of_result = sorted((sizes.m, sizes.n))
    tiny = sizes.batch >= _MANY_PRODUCTS and 0 < sides_of_result[1] <= _TINY_SIDE
    thin = 1 <= sides_of_result[0] <= _TINY_SIDE and sides_of_result[1] >= _LONG_SIDE
    if not 2 <= sizes.k <= _TINY_SIDE or not (tiny or thin) or not sums_as_a_reduce(node):
        return None
    return sum_of_products(node)


def sums_as_a_reduce(node: Instruction) -> bool:
    """Whether a reduce of products in the type of a dot's operands adds as the dot does."""
    type = node.shape.element_type
    return type in _SUMMABLE and all(o.shape.element_type is type for o in node.operands)


def sum_of_products(node: Instruction) -> Instruction:
    """A dot as the sum of products of columns and rows, in their order."""
    sizes = dot_sizes(node)
    b = Emit(node)
    sides = []
    for x, groups in zip(node.operands, operand_dimensions(node)):
        order = (*groups.batch, *groups.free, *groups.contracting)
        if order != tuple(range(x.shape.rank)):
            x = b.transpose(x, order)
        kept = x.shape.dimensions[: x.shape.rank - len(groups.contracting)]
        sides.append(b.reshape(x, [*kept, sizes.k]))
    batches = len(dot_attributes(node).lhs_batch)
    lhs_free = len(operand_dimensions(node)[0].free)
    places = (
        range(batches + lhs_free),
        [*range(batches), *range(batches + lhs_free, node.shape.rank)],
    )
    total: Instruction | None = None
    for k in range(sizes.k):
        factors = []
        for x, place in zip(sides, places):
            kept = x.shape.dimensions[:-1]
            part = b.slice(x, [*[0] * len(kept), k], [*kept, k + 1])
            factors.append(b.broadcast(b.reshape(part, kept), node.shape.dimensions, list(place)))
        product = b.binary(Opcode.MULTIPLY, *factors)
        total = product if total is None else b.binary(Opcode.ADD, total, product)
    assert total is not None, "a product over nothing"
    return total


def _small_matrices_by_vectors(node: Instruction) -> Instruction | None:
    """Many small matrices times a vector each: sums of the rows of a product, or of its columns if
    these are what is summed along."""
    sizes = dot_sizes(node)
    if sizes.batch < _MANY_PRODUCTS or not 2 <= sizes.k <= _SHORT_ROW:
        return None
    if 1 not in (sizes.m, sizes.n) or not sums_as_a_reduce(node):
        return None
    vector = 1 if sizes.n == 1 else 0
    matrix, groups = node.operands[1 - vector], operand_dimensions(node)[1 - vector]
    in_memory = tuple(range(matrix.shape.rank))
    if (*groups.batch, *groups.free, *groups.contracting) == in_memory:
        return sums_of_rows(node)
    short = max(sizes.m, sizes.n) <= _SHORT_ROW
    if short and (*groups.batch, *groups.contracting, *groups.free) == in_memory:
        return _sums(node, along_rows=False)
    return None


def _short_rows_by_a_vector(node: Instruction) -> Instruction | None:
    """Many short rows, one after the other in memory, times one vector: sums of them."""
    sizes = dot_sizes(node)
    if sizes.batch != 1 or sizes.k not in _IN_LANES:
        return None
    long = max(sizes.m, sizes.n) >= _LONG_SIDE and 1 in (sizes.m, sizes.n)
    if not long or not sums_as_a_reduce(node):
        return None
    vector = 1 if sizes.n == 1 else 0
    matrix, groups = node.operands[1 - vector], operand_dimensions(node)[1 - vector]
    rows = (*groups.batch, *groups.free, *groups.contracting)
    return sums_of_rows(node) if rows == tuple(range(matrix.shape.rank)) else None


def _computed_matrix_by_a_vector(node: Instruction) -> Instruction | None:
    """A matrix that is computed of much less than it is, such as one of narrower numbers with
    scales, times a vector: a sum, so that the matrix never is in memory."""
    sizes = dot_sizes(node)
    if (sizes.m == 1) == (sizes.n == 1) or sizes.k <= _SHORT_ROW or not sums_as_a_reduce(node):
        return None
    vector = 1 if sizes.n == 1 else 0
    matrix, groups = node.operands[1 - vector], operand_dimensions(node)[1 - vector]
    if not _is_computed_of_less(matrix):
        return None
    in_memory = tuple(range(matrix.shape.rank))
    if (*groups.batch, *groups.free, *groups.contracting) == in_memory:
        return sums_of_rows(node)
    if (*groups.batch, *groups.contracting, *groups.free) == in_memory:
        return _sums(node, along_rows=False)
    return None


def _is_computed_of_less(matrix: Instruction) -> bool:
    """Whether elementwise operations, which nobody else reads, compute an array of arrays with at
    most half its bytes."""
    nbytes, stack, seen = 0, [matrix], {matrix}
    while stack:
        node = stack.pop()
        if node is not matrix and _is_in_memory(node):
            nbytes += node.shape.byte_size
        elif node.opcode is Opcode.BROADCAST:
            nbytes += node.operands[0].shape.byte_size
        elif node.opcode.is_elementwise and not node.called and len(node.users) == 1:
            stack += [operand for operand in node.operands if operand not in seen]
            seen.update(node.operands)
        else:
            return False
    return 2 * nbytes <= matrix.shape.byte_size


def _is_in_memory(node: Instruction) -> bool:
    """Whether an array is there, or will be: no row is made of components that it puts together."""
    while node.opcode is Opcode.RESHAPE:
        node = node.operands[0]
    return joins_components(node) or node.opcode in _IN_MEMORY


def sums_of_rows(node: Instruction) -> Instruction:
    """Matrices times a vector each: sums of the rows of a product."""
    return _sums(node, along_rows=True)


def _sums(node: Instruction, along_rows: bool) -> Instruction:
    """Matrices times a vector each: sums of a product, of which each matrix has a row for each
    element of the result, or else a column."""
    sizes = dot_sizes(node)
    vector = 1 if sizes.n == 1 else 0
    batches = len(dot_attributes(node).lhs_batch)
    orders = [
        (*g.batch, *g.contracting, *g.free)
        if number != vector and not along_rows
        else (*g.batch, *g.free, *g.contracting)
        for number, g in enumerate(operand_dimensions(node))
    ]
    b = Emit(node)
    sides = []
    for operand, order in zip(node.operands, orders):
        moved = order != tuple(range(operand.shape.rank))
        sides.append(b.transpose(operand, order) if moved else operand)
    x, y = sides[1 - vector], sides[vector]
    batch = x.shape.dimensions[:batches]
    free = (sizes.m, sizes.n)[vector ^ 1]
    along = batches + (1 if along_rows else 0)
    x = b.reshape(x, [*batch, *((free, sizes.k) if along_rows else (sizes.k, free))])
    y = b.broadcast(b.reshape(y, [*batch, sizes.k]), x.shape.dimensions, [*range(batches), along])
    factors = (x, y) if vector else (y, x)
    total = b.reduce_sum(b.binary(Opcode.MULTIPLY, *factors), [along])
    return b.reshape(total, node.shape.dimensions)


class DotStrengthReduction(RuleTablePass):
    """Outer products -> multiply, inner products of vectors -> reduce of a multiply, many products
    of tiny matrices -> sums of products of their columns and rows.

    Why: arithmetic fuses with its neighbours and runs in vector lanes and on all threads; a
    library call for a handful of operations is mostly the call.
    Needs: nothing.
    Leaves: no dot over one element, and no f32, f64 or 32-bit
    integer dot without free dimensions, of eight or more matrices of at most four by four, or of
      hundreds of vectors of at most four components and a matrix of as many, or of hundreds of
      vectors of up to ten, 12, 16, 24 or 32 components and one, or of eight or more
      matrices with rows (which are summed) of up to 32 elements in memory row by row, or of up to
      32 by 32 column by column, and a vector each, or of a matrix that elementwise operations
      compute of at most half its bytes and a vector.
    """

    name = "dot-strength-reduction"
    opcodes = frozenset({Opcode.DOT})
    rules = {
        Opcode.DOT: (
            _outer_product,
            _inner_products,
            _tiny_products,
            _small_matrices_by_vectors,
            _short_rows_by_a_vector,
            _computed_matrix_by_a_vector,
        )
    }

    def run_on_computation(self, computation: Computation) -> bool:
        changed = super().run_on_computation(computation)
        if changed:
            adopt(computation)
        return changed
