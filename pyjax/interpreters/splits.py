"""How the results of an equation are split over mesh axes of type Explicit, which types say.

Where no operand is split, results are as the primitive's own types say. Otherwise its rule in
`split_rules` gives the entries of each result, or refuses; elementwise primitives need none.
Primitives with programs inside have the types of these (`AS_TYPED`). Layer: interpreters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pyjax.core.avals import ShapedArray, Split
from pyjax.core.errors import ShardingTypeError, fail
from pyjax.core.primitive import Primitive
from pyjax.core.structural import add_any_p, add_p, convert_element_type_p, mul_p, select_n_p
from pyjax.interpreters.rules import called_programs, elementwise_primitives
from pyjax.interpreters.varying import varying_rules

# Of each dimension the mesh axes that split it.
Entries = tuple[Any, ...]


class Operation(NamedTuple):
    """What rules are told of an equation.

    Attributes:
      mesh: whose axes split some operand.
      results: types that say nothing of splits, or what a parameter says of them.
    """

    primitive: Primitive
    mesh: Any
    operands: Sequence[Any]
    results: Sequence[Any]
    params: dict[str, Any]

    @property
    def entries(self) -> list[Entries]:
        """Of each operand."""
        return [entries_of(aval) for aval in self.operands]

    def texts(self) -> str:
        """The types of the operands."""
        return ", ".join(a.str_short(short_dtypes=True) for a in self.operands)


# Of each result: its entries, or how it is split with what sums are still to be made.
SplitRule = Callable[[Operation], Sequence[Entries | Split]]

split_rules: dict[Primitive, SplitRule | None] = {}
# Those that are told in `out_sharding` over which axes results are sums still to be made, which
# their rules check.
told_of_sums: set[Primitive] = set()
# In place of a rule: results have their types already.
AS_TYPED = None


def is_program(primitive: Primitive) -> bool:
    """Whether a primitive holds programs, which say what its results are."""
    return primitive in called_programs or primitive in varying_rules


def entries_of(aval: Any) -> Entries:
    """The entries of a value; of one that is not split, None for each dimension."""
    return (None,) * len(aval.shape) if aval.split is None else aval.split.entries


def names_of(entries: Iterable[Any]) -> Iterator[Any]:
    """The mesh axes that are named."""
    for entry in entries:
        if entry is not None:
            yield from entry if isinstance(entry, tuple) else (entry,)


def split_results(
    primitive: Primitive, operands: Sequence[Any], results: Sequence[Any], params: dict[str, Any]
) -> Sequence[Any]:
    """The types of results, with how they are split.

    Raises:
      ShardingTypeError: that does not follow from how operands are.
    """
    meshes = [a.split.mesh for a in operands if a.split is not None]
    if not meshes:
        told = params.get("out_sharding") if primitive in told_of_sums else None
        if told is None:
            for aval in results:
                if isinstance(aval, ShapedArray) and aval.split is not None:
                    _check_divisible(aval.shape, aval.split)
            return results
        meshes = [told.mesh]
    if primitive in split_rules:
        rule = split_rules[primitive]
    elif is_program(primitive):
        rule = AS_TYPED
    else:
        rule = elementwise if primitive in elementwise_primitives else _no_rule
    if rule is AS_TYPED:
        return results
    mesh = meshes[0]
    for other in meshes:
        if other is not mesh and other.shape_tuple != mesh.shape_tuple:
            fail(
                ShardingTypeError,
                f"Mesh for all inputs should be equal. Got one mesh: {mesh} and another mesh: "
                f"{other}",
                f"{primitive} got arrays that are split over both",
                "lay the arrays out over one mesh",
            )
    operation = Operation(primitive, mesh, operands, results, params)
    found = rule(operation)
    return [_with_entries(operation, a, entries) for a, entries in zip(results, found)]


def _with_entries(operation: Operation, aval: Any, found: Entries | Split) -> Any:
    if not isinstance(aval, ShapedArray):
        return aval
    split = found if isinstance(found, Split) else Split(operation.mesh, found)
    _check_divisible(aval.shape, split)
    aval = aval.with_split(split)
    names = list(names_of(split.entries))
    if len(names) != len({*names}):
        fail(
            ShardingTypeError,
            f"{operation.primitive} operation with inputs: {operation.texts()} produces an "
            f"illegally sharded result: {aval.str_short(short_dtypes=True)}",
            "a mesh axis splits one dimension of an array",
            "lay an operand out anew before: jax.sharding.reshard(x, P(...)).",
        )
    return aval


def _check_divisible(shape: tuple[Any, ...], split: Split) -> None:
    """Raise ValueError where axes cut a dimension in parts of several sizes."""
    for dim, (size, entry) in enumerate(zip(shape, split.entries)):
        names = tuple(names_of((entry,)))
        parts = math.prod(split.mesh.shape[name] for name in names)
        if isinstance(size, int) and size % parts:
            fail(
                ValueError,
                f"Sharding spec {names} implies that array axis {dim} is partitioned {parts} times,"
                f" but does not evenly divide the dimension size {size}. Got shape: {shape} and "
                f"mesh {split.mesh}",
                "each device is to have a part of the same size",
                "lay the array out as a whole one along this dimension, reshard(x, P(...)), or say "
                "otherwise how the result is to be split: out_sharding=P(...).",
            )


def _no_rule(operation: Operation) -> Sequence[Entries | Split]:
    if not operation.mesh.explicit_axes:  # all that is said is of manual axes
        refuse_sums(operation)
        return [(None,) * len(getattr(a, "shape", ())) for a in operation.results]
    fail(
        ShardingTypeError,
        f"sharding rule for {operation.primitive} is not implemented.",
        f"the operands are {operation.texts()}; nothing says how the results are split",
        "drop that operation into full auto sharding mode: "
        "`jax.sharding.auto_axes(fun, out_sharding=...)`, or lay the operands out as whole ones "
        "before, reshard(x, P()).",
    )


def refuse_sums(operation: Operation) -> None:
    """Raise for operands that are sums still to be made, or that are marked for such cotangents,
    where nothing says what becomes of them. Inside of shard_map results are marked no more: they
    are the same on all devices, as the operands are, and have no such cotangents."""
    for aval in operation.operands:
        split = aval.split
        if split is not None and (split.unreduced or split.reduced - split.manual_sums[1]):
            kind = "unreduced" if split.unreduced else "reduced"
            fail(
                NotImplementedError,
                f"{kind} rule for {operation.primitive} is not implemented.",
                f"the operands are {operation.texts()}",
                f"make the sums before: {_how_to_sum(operation.mesh)}.",
            )


def _how_to_sum(mesh: Any) -> str:
    is_manual = not mesh.explicit_axes
    return "lax.psum(x, axes)" if is_manual else "jax.sharding.reshard(x, P(...))"


def elementwise(operation: Operation) -> list[Split]:
    """A dimension is split as that of operands in which it is; these agree."""
    unreduced, reduced = _sums(operation)
    known = [entries_of(a) for a in operation.operands if len(a.shape)]
    rank = max(map(len, known))
    known = [(None,) * (rank - len(entries)) + entries for entries in known]
    merged: list[Any] = []
    for at in range(rank):
        said = {entries[at] for entries in known} - {None}
        if len(said) > 1:
            texts = ", ".join(map(str, known))
            fail(
                ShardingTypeError,
                f"{operation.primitive} got incompatible shardings for broadcasting: {texts}.",
                f"the operands are {operation.texts()}",
                "lay one of them out as the other: jax.sharding.reshard(x, jax.typeof(y).sharding)",
            )
        merged.append(said.pop() if said else None)
    split = Split(operation.mesh, tuple(merged), unreduced, reduced)
    return [split] * len(operation.results)


# Elementwise operations that take sums that are still to be made, of all operands alike.
linear: set[Primitive] = {add_p, add_any_p, select_n_p, convert_element_type_p}


def _sums(operation: Operation) -> tuple[frozenset[Any], frozenset[Any]]:
    """Over which axes the result of an elementwise operation is a sum, or its cotangent will be."""
    splits = [a.split or Split(operation.mesh, entries_of(a)) for a in operation.operands]
    if operation.primitive is select_n_p:
        splits = splits[1:]  # which case it is says nothing of sums
    unreduced, reduced = {s.unreduced for s in splits}, {s.reduced for s in splits}
    if len(unreduced) == len(reduced) == 1:
        if not splits[0].unreduced or operation.primitive in linear:
            return splits[0].unreduced, splits[0].reduced
        refuse_sums(operation)
    if any(unreduced):
        return _times_a_sum(operation, splits)
    (axes, *others) = reduced - {frozenset()}
    for aval, split in zip(operation.operands, splits):
        if (aval.shape and split.reduced != axes) or others:
            fail(
                ShardingTypeError,
                f"All inputs of {operation.primitive} should be reduced across the same mesh axes. "
                f"Got {operation.texts()}",
                "the cotangent of such an array is a sum over these axes, which the other's is not",
                "reshard one of them as the other."
                if operation.mesh.explicit_axes
                else "cast one of them as the other: lax.pcast(x, axes, to='reduced').",
            )
    return frozenset(), axes


def _times_a_sum(
    operation: Operation, splits: Sequence[Split]
) -> tuple[frozenset[Any], frozenset[Any]]:
    """A sum and something else: a product, if the other factor is the same for all summands."""
    if operation.primitive is mul_p:
        one, other = sorted(splits, key=lambda split: not split.unreduced)
        if other.reduced == one.unreduced:
            return one.unreduced, frozenset()
    elif operation.primitive not in linear:
        refuse_sums(operation)
    hint = "RHS should be reduced along the same axes LHS is unreduced on"
    fail(
        ShardingTypeError,
        hint + f". Got {operation.texts()}"
        if operation.primitive is mul_p
        else f"lhs is unreduced while rhs is not, or along other axes. `{operation.primitive}` "
        f"operation does not allow this because there will be implicit communication. Got "
        f"{operation.texts()}",
        "one of them is a sum over mesh axes that is still to be made",
        f"make it before: {_how_to_sum(operation.mesh)}.",
    )
