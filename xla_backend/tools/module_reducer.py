"""Shrinks a module that fails, to the smallest one that still fails (delta debugging).

An edit changes a clone of the module in one place, which it knows by name, so that many edits can
be tried together: first all of a strategy's, then halves, down to single ones. A candidate counts
only if the verifier accepts it and it is smaller than what it came from, so reduction ends. No
pass of the compiler takes part: one of them may be what fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from time import monotonic

import numpy as np

from xla_backend.hlo.attributes import (
    NO_ATTRIBUTES,
    Attributes,
    ConstantAttributes,
    DynamicSliceAttributes,
    FftAttributes,
    GatherAttributes,
    GetTupleElementAttributes,
    ParameterAttributes,
    SliceAttributes,
)
from xla_backend.hlo.errors import HloError
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.module import HloModule, InputOutputAlias
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.verifier import verify
from xla_backend.tools.sharding_edits import drop_element, drop_mesh_axes, sharding_alone

Edit = Callable[[HloModule], bool]  # True iff it changed the module
Strategy = Callable[[HloModule], list[Edit]]

_LEAVES = frozenset({Opcode.PARAMETER, Opcode.CONSTANT})
_CALLS = frozenset({Opcode.CALL, Opcode.FUSION, Opcode.CONDITIONAL, Opcode.WHILE, Opcode.MAP})


def reduce_module(
    module: HloModule,
    is_failing: Callable[[HloModule], bool],
    *,
    max_tests: int = 1500,
    max_seconds: float = math.inf,
) -> HloModule:
    """A small module for which `is_failing` still holds; the argument is not changed.

    Args:
      is_failing: gets modules that the verifier accepts, each a fresh one that it may change. Entry
        parameters come and go: values for them are best made from their names and shapes.
      max_tests: how often to ask at most.
      max_seconds: no candidate is tried after so long; the smallest one so far is the result.
    Raises:
      ValueError: the module itself does not fail.
    """
    if not is_failing(module.clone()):
        raise ValueError(f"module {module.name!r} does not fail: there is nothing to reduce")
    search = _Search(module.clone(), is_failing, max_tests, monotonic() + max_seconds)
    before = None
    while before != _size(search.module) and search.tests_left > 0:
        before = _size(search.module)
        for strategy in STRATEGIES:
            search.try_all(strategy(search.module))
        search.try_each(_return_one(search.module))
    return search.module


class _Search:
    """The smallest failing module so far."""

    def __init__(
        self,
        module: HloModule,
        is_failing: Callable[[HloModule], bool],
        max_tests: int,
        deadline: float,
    ) -> None:
        self.module = module
        self.is_failing = is_failing
        self.tests_left = max_tests
        self.deadline = deadline

    def try_all(self, edits: list[Edit]) -> None:
        """Keep as many of the edits as leave the module failing."""
        chunk = len(edits)
        while chunk and self.tests_left > 0:
            kept = []
            for start in range(0, len(edits), chunk):
                group = edits[start : start + chunk]
                if not self._accept(group):
                    kept += group
            edits = kept
            chunk = min(chunk // 2, len(edits))

    def try_each(self, edits: list[Edit]) -> None:
        """The first edit that leaves the module failing: for edits that exclude each other."""
        any(self._accept([edit]) for edit in edits)

    def _accept(self, group: Sequence[Edit]) -> bool:
        if monotonic() > self.deadline:
            self.tests_left = 0
        if self.tests_left <= 0:
            return False
        candidate = self.module.clone()
        try:
            changed = [edit(candidate) for edit in group]
            if not any(changed):
                return False
            _remove_dead(candidate)
            verify(candidate)
        except (HloError, AssertionError):  # the edits do not go together: not a module any more
            return False
        if _size(candidate) >= _size(self.module):
            return False
        self.tests_left -= 1
        if not self.is_failing(candidate.clone()):
            return False
        self.module = candidate
        return True


def _size(module: HloModule) -> tuple[int, int, int]:
    """What reduction makes smaller: instructions (calling ones weigh more), then elements."""
    nodes = [node for computation in module.computations for node in computation]
    weight = sum(1 if n.opcode in _LEAVES else 12 if n.opcode in _CALLS else 3 for n in nodes)
    elements = sum(leaf.num_elements for n in nodes for leaf in n.shape.flatten())
    said = sum(n.annotations is not None for n in nodes)
    return weight, elements, len(module.aliases) + said + module.num_partitions


def _remove_dead(module: HloModule) -> None:
    for computation in module.computations:
        for node in reversed(computation.post_order()):
            unused = not node.users and node is not computation.root
            if unused and node.opcode is not Opcode.PARAMETER:
                computation.remove(node)
    module.remove_unreachable()


def _find(module: HloModule, computation: str, name: str) -> Instruction | None:
    for candidate in module.computations:
        if candidate.name == computation:
            return next((node for node in candidate if node.name == name), None)
    return None


def _edit(node: Instruction, action: Callable[[HloModule, Instruction], bool]) -> Edit:
    """`action` on the instruction of this name in another copy of the module."""
    assert node.parent is not None
    computation, name = node.parent.name, node.name

    def apply(module: HloModule) -> bool:
        found = _find(module, computation, name)
        return found is not None and action(module, found)

    return apply


def _substitute(node: Instruction, new: Instruction) -> bool:
    """Let users of `node`, and the root, take `new`."""
    if node is new or not node.shape.compatible(new.shape):
        return False
    assert node.parent is not None
    node.parent.replace_uses(node, new)
    return True


# -- results ---------------------------------------------------------------------------------------


def _return_one(module: HloModule) -> list[Edit]:
    """The entry returns one of its instructions; those that need the fewest others first."""
    assert module.entry is not None and module.entry.root is not None

    def action(module: HloModule, node: Instruction) -> bool:
        assert node.parent is not None
        if node.is_root:
            return False
        node.parent.set_root(node)
        module.aliases = ()
        return True

    return [
        _edit(node, action)
        for node in module.entry.post_order()
        if node.opcode not in _LEAVES and node is not module.entry.root
    ][:200]


def _drop_outputs(module: HloModule) -> list[Edit]:
    assert module.entry is not None and module.entry.root is not None
    root = module.entry.root
    if root.opcode is not Opcode.TUPLE or len(root.operands) < 2:
        return []

    def drop(name: str) -> Edit:
        def action(module: HloModule, root: Instruction) -> bool:
            computation = root.parent
            assert computation is not None and computation.root is root
            index = next((i for i, o in enumerate(root.operands) if o.name == name), None)
            if index is None or len(root.operands) < 2:
                return False
            _drop_member(computation, root, index)
            module.aliases = tuple(_shifted(module.aliases, index))
            return True

        return lambda module: (
            module.entry is not None
            and module.entry.root is not None
            and module.entry.root.opcode is Opcode.TUPLE
            and action(module, module.entry.root)
        )

    return [drop(operand.name) for operand in root.operands]


def _drop_member(computation: Computation, node: Instruction, index: int) -> None:
    """Remove one operand of a tuple instruction."""
    operands = [o for i, o in enumerate(node.operands) if i != index]
    computation.set_operands(node, operands)
    node.shape = Shape.tuple([o.shape for o in operands])
    drop_element(node, index)


def _shifted(aliases: Sequence[InputOutputAlias], index: int) -> Iterator[InputOutputAlias]:
    for alias in aliases:
        first, *rest = alias.output_index
        if first != index:
            output = (first - (first > index), *rest)
            yield InputOutputAlias(output, alias.parameter, alias.parameter_index, alias.must_alias)


# -- instructions ----------------------------------------------------------------------------------


def _forward_operands(module: HloModule) -> list[Edit]:
    """An instruction becomes one of its operands of the same shape."""

    def forward(index: int) -> Callable[[HloModule, Instruction], bool]:
        def action(module: HloModule, node: Instruction) -> bool:
            return index < len(node.operands) and _substitute(node, node.operands[index])

        return action

    return [
        _edit(node, forward(i))
        for computation in module.computations
        for node in reversed(computation.post_order())
        for i, operand in enumerate(node.operands)
        if operand.shape.compatible(node.shape)
    ]


def _to_parameter(module: HloModule, node: Instruction) -> bool:
    """An instruction of the entry becomes a new parameter of the same name."""
    computation = node.parent
    assert computation is not None
    number = len(computation.parameters)
    fresh = Instruction(
        Opcode.PARAMETER,
        node.shape,
        (),
        ParameterAttributes(number),
        name=f"{node.name}.in",
        annotations=sharding_alone(node),
    )
    return _substitute(node, computation.add(fresh))


def _to_constant(module: HloModule, node: Instruction) -> bool:
    """An instruction of a called computation becomes ones."""
    assert node.parent is not None
    element_type = node.shape.element_type
    if node.shape.num_elements > 64:
        return False
    array = np.ones(node.shape.dimensions, np.int8).astype(element_type.numpy_dtype)
    attributes = ConstantAttributes(Literal(array))
    fresh = Instruction(Opcode.CONSTANT, Shape.of(array), (), attributes)
    return _substitute(node, node.parent.add(fresh))


def _cut(module: HloModule) -> list[Edit]:
    """Instructions become inputs: parameters in the entry, constants elsewhere."""
    return [
        _edit(node, _to_parameter if computation is module.entry else _to_constant)
        for computation in module.computations
        for node in reversed(computation.post_order())
        if node.opcode not in _LEAVES and node.shape.is_array
    ]


def _drop_parameters(module: HloModule) -> list[Edit]:
    """Entry parameters that nobody uses."""

    def action(module: HloModule, node: Instruction) -> bool:
        if node.users or node.is_root:
            return False
        assert node.parent is not None
        number = node.parameter_number
        node.parent.remove_parameter(number)
        module.aliases = tuple(
            InputOutputAlias(
                a.output_index,
                a.parameter - (a.parameter > number),
                a.parameter_index,
                a.must_alias,
            )
            for a in module.aliases
            if a.parameter != number
        )
        return True

    assert module.entry is not None
    return [_edit(p, action) for p in reversed(module.entry.parameters) if not p.users]


# -- calls -----------------------------------------------------------------------------------------


def _inline(callee: int) -> Callable[[HloModule, Instruction], bool]:
    """A call becomes the body it calls; a loop one turn of its body, a conditional one branch."""

    def action(module: HloModule, node: Instruction) -> bool:
        if callee >= len(node.called) or node.parent is None:
            return False
        arguments = node.operands
        if node.opcode is Opcode.CONDITIONAL:
            arguments = [node.operands[1 + callee]]
        body = node.called[callee]
        if len(body.parameters) != len(arguments):
            return False
        return _substitute(node, node.parent.inline(body, arguments))

    return action


_INLINED_CALLEES = {
    Opcode.CALL: (0,),
    Opcode.FUSION: (0,),
    Opcode.WHILE: (1,),
}


def _inline_calls(module: HloModule) -> list[Edit]:
    return [
        _edit(node, _inline(callee))
        for computation in module.computations
        for node in computation.post_order()
        if node.opcode in _INLINED_CALLEES or node.opcode is Opcode.CONDITIONAL
        for callee in _INLINED_CALLEES.get(node.opcode, range(len(node.called)))
    ]


def _forward_members(module: HloModule) -> list[Edit]:
    """get-tuple-element of a tuple becomes the member."""

    def action(module: HloModule, node: Instruction) -> bool:
        source = node.operands[0]
        return source.opcode is Opcode.TUPLE and _substitute(
            node, source.operands[node.tuple_index]
        )

    return [
        _edit(node, action)
        for computation in module.computations
        for node in computation.post_order(Opcode.GET_TUPLE_ELEMENT)
        if node.operands[0].opcode is Opcode.TUPLE
    ]


def _drop_carries(module: HloModule) -> list[Edit]:
    """A loop loses one member of its state; whoever read it inside reads ones."""

    def drop(index: int) -> Callable[[HloModule, Instruction], bool]:
        return lambda module, node: _without_carry(module, node, index)

    return [
        _edit(node, drop(index))
        for computation in module.computations
        for node in computation.post_order(Opcode.WHILE)
        for index in reversed(range(len(node.shape.tuple_shapes)))
    ]


def _without_carry(module: HloModule, node: Instruction, index: int) -> bool:
    condition, body = node.called
    start = node.operands[0]
    readers = [*node.users, *condition.parameters[0].users, *body.parameters[0].users]
    if (
        start.opcode is not Opcode.TUPLE
        or index >= len(start.operands)
        or body.root is None
        or body.root.opcode is not Opcode.TUPLE
        or node.is_root
        or any(r.opcode is not Opcode.GET_TUPLE_ELEMENT for r in readers)
        or any(r.tuple_index == index for r in node.users)
        or sum(set(node.called) <= set(m.called) for c in module.computations for m in c) != 1
    ):
        return False
    for computation in (condition, body):
        parameter = computation.parameters[0]
        for reader in list(parameter.users):
            if reader.tuple_index == index and not _to_constant(module, reader):
                return False
    _drop_member(body, body.root, index)
    assert node.parent is not None
    operands = [o for i, o in enumerate(start.operands) if i != index]
    state = Shape.tuple([o.shape for o in operands])
    fresh = Instruction(Opcode.TUPLE, state, operands, NO_ATTRIBUTES)
    node.parent.replace_operand(node, 0, node.parent.add(fresh))
    node.shape = condition.parameters[0].shape = body.parameters[0].shape = state
    for holder in (node, condition.parameters[0], body.parameters[0]):
        for reader in holder.users:
            if reader.tuple_index > index:
                reader.attributes = GetTupleElementAttributes(reader.tuple_index - 1)
    return True


# -- sizes -----------------------------------------------------------------------------------------


def _shrink_sizes(module: HloModule) -> list[Edit]:
    """All dimensions of one size get a smaller one, wherever it appears."""
    nodes = [node for computation in module.computations for node in computation]
    leaves = [leaf for node in nodes for leaf in node.shape.flatten()]
    sizes = sorted({d for leaf in leaves for d in leaf.dimensions if d > 1}, reverse=True)
    edits = []
    for old in sizes:
        for new in sorted({1, 2, old // 2, old - 1}):
            if new < old:
                edits.append(_resize(old, new))
    return edits


def _resize(old: int, new: int) -> Edit:
    def apply(module: HloModule) -> bool:
        changed = False
        for computation in module.computations:
            for node in computation:
                changed |= _resize_instruction(node, old, new)
        return changed

    return apply


def _resize_instruction(node: Instruction, old: int, new: int) -> bool:
    shape = _resized_shape(node.shape, old, new)
    attributes = _resized_attributes(node.attributes, old, new)
    if shape == node.shape and attributes is node.attributes:
        return False
    node.shape, node.attributes = shape, attributes
    return True


def _resized_shape(shape: Shape, old: int, new: int) -> Shape:
    if shape.is_tuple:
        return Shape.tuple([_resized_shape(member, old, new) for member in shape.tuple_shapes])
    return Shape(shape.element_type, _resized(shape.dimensions, old, new), shape.layout)


def _resized(sizes: Sequence[int], old: int, new: int) -> tuple[int, ...]:
    return tuple(new if size == old else size for size in sizes)


def _resized_attributes(attributes: Attributes, old: int, new: int) -> Attributes:
    """Attributes that hold sizes of arrays."""
    fields = _SIZE_FIELDS.get(type(attributes), ())
    values = {name: getattr(attributes, name) for name in attributes._fields}
    for name in fields:
        values[name] = _resized(values[name], old, new)
    if isinstance(attributes, ConstantAttributes):
        array = attributes.literal.array
        kept = tuple(slice(size) for size in _resized(array.shape, old, new))
        values["literal"] = Literal(array[kept]) if old in array.shape else attributes.literal
    result = type(attributes)(**values)
    return attributes if result == attributes else result


_SIZE_FIELDS: dict[type[Attributes], tuple[str, ...]] = {
    SliceAttributes: ("limits",),
    DynamicSliceAttributes: ("sizes",),
    GatherAttributes: ("slice_sizes",),
    FftAttributes: ("fft_length",),
}


def _drop_aliases(module: HloModule) -> list[Edit]:
    def action(module: HloModule) -> bool:
        changed, module.aliases = bool(module.aliases), ()
        return changed

    return [action]


def _drop_annotations(module: HloModule) -> list[Edit]:
    def action(module: HloModule, node: Instruction) -> bool:
        changed, node.annotations = bool(node.annotations), None
        return changed

    return [
        _edit(node, action)
        for computation in module.computations
        for node in computation
        if node.annotations
    ]


STRATEGIES: tuple[Strategy, ...] = (
    _drop_outputs,
    _cut,
    _inline_calls,
    _forward_members,
    _forward_operands,
    _drop_carries,
    _drop_parameters,
    _shrink_sizes,
    _drop_aliases,
    _drop_annotations,
    drop_mesh_axes,
)
