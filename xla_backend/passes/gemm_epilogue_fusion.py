"""A product and the loop fusion that finishes its result -> one fusion of kind kOutput.

A product is a dot, or a convolution; both are called `dot` here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xla_backend.hlo.attributes import (
    DimensionsAttributes,
    FusionAttributes,
    FusionKind,
    GetTupleElementAttributes,
    ParameterAttributes,
    SliceAttributes,
)
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import topological_order
from xla_backend.passes.buffer_sharing import SharingRules, read_where_written
from xla_backend.passes.dots import dot_sizes
from xla_backend.passes.fusion import ControlFlowFusion
from xla_backend.passes.fusion_records import EpilogueRecord, record_epilogue
from xla_backend.passes.fusion_rules import ELEMENTWISE
from xla_backend.passes.output_fusion import (
    PRODUCTS,
    first_column_dimension,
    result_shape,
)

# Element rules that cost nothing or a little index arithmetic on neighbouring columns.
_PLAIN = ELEMENTWISE | {Opcode.PARAMETER, Opcode.CONSTANT, Opcode.IOTA, Opcode.RESHAPE}

# Types whose GEMM adds to memory exactly as a sum of the program would.
_ADDING_TYPES = frozenset({PrimitiveType.F32, PrimitiveType.F64})


def _is_product(node: Instruction) -> bool:
    return node.opcode is Opcode.CONVOLUTION or min(dot_sizes(node)) > 0


class GemmEpilogueFusion(ControlFlowFusion):
    """Make the elementwise work on the result of a dot or convolution part of the product.

    Why: bias and activation would read and write the whole result again; the product can do them
    block by block while the result is in the first-level cache.
    Needs: loop fusion has run; `takes_epilogue` says for which products code generation can do so.
    `one_result`: leave epilogues with several results apart, which rematerialization can then
    compute again one by one, and without the product.
    Leaves: a product, with the kLoop fusion that reads it element by element (perhaps through a
    reshape), in a fusion of kind kOutput. A product that others read too is one of its results.
    """

    name = "gemm-epilogue-fusion"
    opcodes = PRODUCTS

    def __init__(
        self,
        takes_epilogue: Callable[[Instruction], bool] = _is_product,
        one_result: bool = False,
    ) -> None:
        self._takes_epilogue = takes_epilogue
        self._one_result = one_result

    def fuse(self, module: HloModule, computation: Computation) -> bool:
        if PRODUCTS.isdisjoint(computation.opcodes):
            return False
        order = topological_order(computation)
        position = {node: i for i, node in enumerate(order)}
        rules = SharingRules()
        fused: list[Computation] = []
        for dot in [node for node in order if node.opcode in PRODUCTS]:
            # The first reader in the order needs none of the others, so no cycle can arise, and
            # the fusion may stand in its place.
            readers = _readers(dot)
            reader = min(readers, key=position.__getitem__, default=None)
            if reader is None or reader.opcode is not Opcode.FUSION:
                continue
            if self._one_result and (len(readers) != 1 or readers[0].shape.is_tuple):
                continue
            if self._takes_epilogue(dot) and _is_epilogue(dot, reader, rules):
                place = position[reader]
                fusion = _fuse(computation, dot, reader)
                position[fusion] = place
                for user in fusion.users:  # elements of its tuple are new; other users have places
                    position.setdefault(user, place)
                fused.append(fusion.called[0])
        module.add_computations(fused)  # at once: each alone would look at all names again
        return bool(fused)


def _aliases(dot: Instruction) -> list[Instruction]:
    """The dot and its reshapes, which are other names of the same memory."""
    return [dot, *(user for user in dot.users if user.opcode is Opcode.RESHAPE)]


def _readers(dot: Instruction) -> list[Instruction]:
    aliases = _aliases(dot)
    users = dict.fromkeys(user for alias in aliases for user in alias.users)
    return [user for user in users if user not in aliases]


def _is_epilogue(dot: Instruction, fusion: Instruction, rules: SharingRules) -> bool:
    """Whether a reader of the dot is a loop fusion over exactly its elements, in rows and columns
    that the epilogue finds side by side in memory."""
    assert isinstance(fusion.attributes, FusionAttributes)
    if fusion.attributes.kind is not FusionKind.LOOP:
        return False
    fused = fusion.called[0]
    aliases = _aliases(dot)
    linear = rules.linear_parameters(fusion)
    if any(o in aliases and i not in linear for i, o in enumerate(fusion.operands)):
        return False
    return _walks_as(dot, fused, fused.instructions)


def planned_epilogue(fused: Computation) -> EpilogueRecord | None:
    """What belongs on a kOutput fusion of this computation; None where it cannot be one."""
    products = [node for node in fused.instructions if node.opcode in PRODUCTS]
    if len(products) != 1 or products[0] not in read_where_written(fused):
        return None
    (product,) = products
    aliases = _aliases(product)
    before = _ancestors(product)
    others = [node for node in fused.instructions if node not in aliases and node not in before]
    walked = result_shape(product)
    if walked is None:
        return None
    if not _walks_as(product, fused, others):
        return None
    return EpilogueRecord(walked, _accumulated_parameter(fused, product))


def _ancestors(node: Instruction) -> set[Instruction]:
    """What a node is computed from."""
    found: set[Instruction] = set()
    stack = [node]
    while stack:
        new = [o for o in stack.pop().operands if o not in found]
        found.update(new)
        stack += new
    return found


def _walks_as(product: Instruction, fused: Computation, nodes: Iterable[Instruction]) -> bool:
    """Whether `nodes` make, of exactly the elements of a product, those of the outputs, in rows
    and columns that are side by side in memory."""
    elements = product.shape.num_elements
    if any(root.shape.num_elements != elements for root in fused.outputs):
        return False
    shape = result_shape(product)
    columns = shape.columns if shape is not None else 0
    # A result of scalars has no rows to work along.
    return columns > 1 and all(_is_plain(node, elements, columns) for node in nodes)


def _is_plain(node: Instruction, elements: int, columns: int) -> bool:
    """Whether neighbouring columns of the result need neighbouring (or equal) elements of what
    the node reads."""
    opcode = node.opcode
    if node.shape.is_tuple:
        return opcode is Opcode.TUPLE
    if node.shape.element_type.is_complex:
        return False
    if not node.shape.dimensions:
        return opcode in _PLAIN
    if opcode is Opcode.BROADCAST:
        return _is_plain_broadcast(node, elements, columns)
    if opcode is Opcode.SLICE:
        assert isinstance(node.attributes, SliceAttributes)
        return node.attributes.strides[-1] == 1
    if opcode is Opcode.RESHAPE or opcode in ELEMENTWISE:
        full = node.shape.num_elements == elements
        return not full or first_column_dimension(node.shape.dimensions, columns) is not None
    return opcode in _PLAIN or opcode is Opcode.DYNAMIC_SLICE


def _is_plain_broadcast(node: Instruction, elements: int, columns: int) -> bool:
    """Broadcast from all of the column dimensions or from none."""
    source = node.operands[0].shape.dimensions
    if all(d == 1 for d in source):
        return True
    dims = node.shape.dimensions
    first = first_column_dimension(dims, columns)
    if node.shape.num_elements != elements or first is None:
        return False
    assert isinstance(node.attributes, DimensionsAttributes)
    kept = node.attributes.dimensions
    if list(kept) != sorted(kept):
        return False
    wide = [d for d in range(first, len(dims)) if dims[d] != 1]
    return all(d in kept for d in wide) or not any(d in kept for d in wide)


def _fuse(computation: Computation, dot: Instruction, fusion: Instruction) -> Instruction:
    """One fusion in the place of both; where others read the dot, it is the last result."""
    aliases = _aliases(dot)
    fused = Computation(f"fused_{dot.opcode.value}")
    operands = list(
        dict.fromkeys([*dot.operands, *(o for o in fusion.operands if o not in aliases)])
    )
    inner: dict[Instruction, Instruction] = {}
    for number, operand in enumerate(operands):
        attributes = ParameterAttributes(number)
        parameter = Instruction(Opcode.PARAMETER, operand.shape, (), attributes, name=f"p{number}")
        inner[operand] = fused.add(parameter)
    product = inner[dot] = fused.add(clone_instruction(dot, [inner[o] for o in dot.operands]))
    for alias in aliases[1:]:
        if alias in fusion.operands:
            inner[alias] = fused.add(clone_instruction(alias, [product]))
    roots = _clone_body(fused, fusion, inner)
    shared = [a for a in aliases if computation.root is a or set(a.users) - {fusion, *aliases}]
    if shared:
        roots.append(product)
    fused.root = roots[0]
    if len(roots) > 1:
        shape = Shape.tuple([r.shape for r in roots])
        fused.root = fused.add(Instruction(Opcode.TUPLE, shape, roots))
    result = computation.add(
        Instruction(
            Opcode.FUSION,
            fused.root.shape,
            operands,
            FusionAttributes(FusionKind.OUTPUT),
            (fused,),
            fusion.metadata,
            f"{dot.opcode.value}_{fusion.name}",
        )
    )
    planned = planned_epilogue(fused)
    assert planned is not None, f"{result} has no epilogue"
    record_epilogue(result, planned)
    _replace(computation, fusion, result, bool(shared))
    if shared:
        computation.replace(dot, _element(computation, result, len(roots) - 1, dot))
    return result


def _accumulated_parameter(fused: Computation, dot: Instruction) -> int | None:
    """The parameter x of a computation that is dot + x and nothing else, if a GEMM can add its
    product to the memory of x."""
    root = fused.root
    assert root is not None
    if root.opcode is not Opcode.ADD or root.shape.element_type not in _ADDING_TYPES:
        return None
    if dot.opcode is not Opcode.DOT or dot not in root.operands:
        return None
    other = root.operands[1] if root.operands[0] is dot else root.operands[0]
    if other.opcode is not Opcode.PARAMETER or other in _ancestors(dot):
        return None
    return other.parameter_number


def _clone_body(
    fused: Computation, fusion: Instruction, inner: dict[Instruction, Instruction]
) -> list[Instruction]:
    """The instructions of the loop fusion in the new computation; returns what it writes."""
    body = fusion.called[0]
    clones: dict[Instruction, Instruction] = {}
    for node in topological_order(body):
        if node.opcode is Opcode.PARAMETER:
            clones[node] = inner[fusion.operands[node.parameter_number]]
        elif node.opcode is not Opcode.TUPLE:
            clones[node] = fused.add(clone_instruction(node, [clones[o] for o in node.operands]))
    return [clones[root] for root in body.outputs]


def _replace(
    computation: Computation, fusion: Instruction, result: Instruction, more_results: bool
) -> None:
    """Let users of the loop fusion read the new one, which may have one result more."""
    if not fusion.shape.is_tuple:
        same = _element(computation, result, 0, fusion) if more_results else result
        computation.replace(fusion, same)
        return
    for user in list(fusion.users):
        assert user.opcode is Opcode.GET_TUPLE_ELEMENT
        computation.replace(user, _element(computation, result, user.tuple_index, user))


def _element(
    computation: Computation, node: Instruction, index: int, like: Instruction
) -> Instruction:
    attributes = GetTupleElementAttributes(index)
    shape = node.shape.tuple_shapes[index]
    return computation.add(
        Instruction(Opcode.GET_TUPLE_ELEMENT, shape, (node,), attributes, (), like.metadata)
    )
