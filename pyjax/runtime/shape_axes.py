"""Programs as they are whatever the sizes of their arrays: dimensions that all operations treat
alike are one axis.

    a: f32[8,5,3] b: f32[3]                         a: f32[A,B] b: f32[B]
    c: f32[1,1,3] = broadcast_in_dim b        ->    d = add a b              A = 40, B = 3
    d: f32[8,5,3] = add a c                         e: f32[A] = reduce_sum d
    e: f32[8,5] = reduce_sum[axes=(2,)] d

Dimensions of size 1 are left out, and neighbours that stand next to each other wherever one of them
stands are joined. Two programs with the same `structure` differ in their sizes only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyjax.core.avals import ShapedArray
from pyjax.core.exact_keys import exact_key
from pyjax.core.extended_dtypes import is_extended
from pyjax.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from pyjax.core.primitive import Primitive
from pyjax.core.structural import broadcast_in_dim_p, reshape_p, squeeze_p
from pyjax.interpreters.rules import elementwise_primitives, reduction_primitives

# An axis for each dimension of an array; None for those of size 1.
Dims = tuple["int | None", ...]


# What stands for sizes, which no array has, and all integers near it: what operations make of a
# size is told by its value.
STAND_INS = (1999999973, 1999999943, 1999999913, 1999999883)
NO_NUMBERS = range(1999999800, 2000000000)
_PLACES_OF_EXTREMES = frozenset({"argmax", "argmin"})
# With updates that are written, or combined with what is there in the way that the name says.
_SCATTERS = frozenset({"scatter", "scatter-add", "scatter-mul", "scatter-min", "scatter-max"})
# Parameters that say which dimensions and sizes.
_PLACES = frozenset(
    {
        "broadcast_dimensions",
        "dimension",
        "dimension_numbers",
        "shape",
        "slice_sizes",
        "update_consts",
        "update_jaxpr",
    }
)
# Operands that are other numbers for other sizes, and numbers that no size gives.
_TAKEN = {"add": (0, 1), "div": (1,), "sub": (0, 1)}
_NO_SIZES = (0.0, 1.0, -1.0)


class _OtherProgram(Exception):
    """It has an operation that looks at sizes in another way."""


class _Value:
    """An array of the program."""

    __slots__ = ("aval", "dims", "number")

    def __init__(self, number: int, aval: ShapedArray, dims: Dims) -> None:
        self.number = number
        self.aval = aval
        self.dims = dims


_Operand = _Value | Literal


class _Step(NamedTuple):
    """An operation. `primitive`: None where the result has the elements of its operand."""

    primitive: Primitive | None
    params: Mapping[str, Any]
    operands: tuple[_Operand, ...]
    result: _Value


class Axes:
    """The axes of a program.

    Attributes:
      structure: equal for programs that differ in sizes only.
      sizes: of its axes, in the order of the structure.
      scalars: numbers that depend on sizes, which the program takes behind its inputs.
    """

    def __init__(self, closed: ClosedJaxpr) -> None:
        self._parents: list[int] = []
        self._sizes: list[int] = []
        self._alone: set[int] = set()  # axes that are not joined with others
        self._values: list[_Value] = []
        # Arrays of one axis, with those of several that have the same elements.
        self._flat: list[tuple[_Value, _Value]] = []
        self._drawn: list[_Value] = []  # random bits
        self._steps: list[_Step] = []
        self.scalars: list[np.ndarray] = []
        self._inputs: list[_Value] = [self._fresh(a) for a in closed.in_avals]
        self._results: list[_Operand] = self._run(closed.jaxpr, self._inputs)
        if any(isinstance(result, Literal) for result in self._results):
            raise _OtherProgram
        self._scalar_values: list[_Value] = []
        self._take_numbers()
        self._join()
        # Of one axis: an element depends on its place in the whole array.
        if any(len(self._of(value.dims)) != 1 for value in self._drawn):
            raise _OtherProgram
        self.structure = self._structure()

    # -- reading the program -----------------------------------------------------------------------

    def _axis(self, size: int) -> int | None:
        if size == 1:
            return None
        if size == 0:
            raise _OtherProgram
        self._parents.append(len(self._parents))
        self._sizes.append(size)
        return len(self._sizes) - 1

    def _fresh(self, aval: Any, dims: Dims | None = None) -> _Value:
        if not isinstance(aval, ShapedArray) or (is_extended(aval.dtype) and aval.shape):
            raise _OtherProgram
        if aval.split is not None or aval.vma:
            raise _OtherProgram
        if dims is None:
            dims = tuple([self._axis(n) for n in aval.shape])
        value = _Value(len(self._values), aval, dims)
        self._values.append(value)
        return value

    def _root(self, axis: int) -> int:
        while self._parents[axis] != axis:
            axis = self._parents[axis]
        return axis

    def _unify(self, a: int | None, b: int | None) -> None:
        if a is None or b is None:
            raise _OtherProgram
        a, b = self._root(a), self._root(b)
        if a != b:
            if self._sizes[a] != self._sizes[b]:
                raise _OtherProgram
            self._parents[max(a, b)] = min(a, b)

    def _run(self, jaxpr: Jaxpr, arguments: Sequence[_Operand]) -> list[_Operand]:
        known: dict[Any, _Operand] = dict(zip(jaxpr.invars, arguments))

        def read(atom: Any) -> _Operand:
            if type(atom) is not Literal:
                return known[atom]
            # Those that are no integers may be converted to some.
            if atom.aval.dtype.kind in "iuf" and float(atom.val) in NO_NUMBERS:
                raise _OtherProgram
            return atom

        for eqn in jaxpr.eqns:
            operands = tuple([read(a) for a in eqn.invars])
            if eqn.primitive.name == "jit":
                inner = eqn.params["jaxpr"]
                if inner.consts:
                    raise _OtherProgram
                known.update(zip(eqn.outvars, self._run(inner.jaxpr, operands)))
            elif len(eqn.outvars) == 1:
                known[eqn.outvars[0]] = self._step(eqn, operands)
            else:
                raise _OtherProgram
        return [read(a) for a in jaxpr.outvars]

    def _step(self, eqn: JaxprEqn, operands: tuple[_Operand, ...]) -> _Value:
        aval = eqn.outvars[0].aval
        primitive: Primitive | None = eqn.primitive
        assert primitive is not None
        params: Mapping[str, Any] = eqn.params
        same_width = (
            primitive.name == "bitcast_convert_type" and operands[0].aval.shape == aval.shape
        )
        if primitive in elementwise_primitives or same_width:
            result = self._fresh(aval)
            for operand in operands:
                self._spread(operand, range(len(aval.shape)), result)
        elif primitive is broadcast_in_dim_p:
            result = self._fresh(aval)
            self._spread(operands[0], params["broadcast_dimensions"], result)
        elif primitive in (reshape_p, squeeze_p) or primitive.name == "stop_gradient":
            result = self._reshaped(operands[0], aval)
            primitive, params = None, {}
        elif primitive in reduction_primitives:
            result, params = self._reduced(operands[0], aval, params)
        elif primitive.name == "iota":
            result = self._fresh(aval)
            axis = result.dims[params["dimension"]]
            if axis is None:
                raise _OtherProgram
            self._alone.add(axis)
        elif primitive.name == "random_bits":
            if operands[0].aval.shape or params["bit_width"] not in (32, 64):
                raise _OtherProgram
            result = self._fresh(aval)
            self._drawn.append(result)
        elif primitive.name in _PLACES_OF_EXTREMES:
            result, params = self._reduced(operands[0], aval, params)
            self._alone.add(self._axis_of(operands[0], params["axes"]))
        elif primitive.name in _SCATTERS and _combines_as_named(eqn):
            result = self._scattered(operands, aval, params)
        elif primitive.name == "gather":
            result = self._gathered(operands, aval, params)
        else:
            raise _OtherProgram
        self._steps.append(_Step(primitive, params, operands, result))
        return result

    def _spread(self, operand: _Operand, places: Sequence[int], result: _Value) -> None:
        """Dimension i of an operand is number `places[i]` of the result, or 1."""
        if not operand.aval.shape:
            return
        if isinstance(operand, Literal) or len(places) != len(operand.aval.shape):
            raise _OtherProgram
        for axis, place in zip(operand.dims, places):
            if axis is not None:
                self._unify(axis, result.dims[place])

    def _reshaped(self, operand: _Operand, aval: ShapedArray) -> _Value:
        if isinstance(operand, Literal):
            raise _OtherProgram
        axes = _axes(operand.dims)
        sizes = [n for n in aval.shape if n != 1]
        if sizes == [self._sizes[axis] for axis in axes]:
            rest = iter(axes)
            return self._fresh(aval, tuple([None if n == 1 else next(rest) for n in aval.shape]))
        result = self._fresh(aval)
        for flat, other in ((result, operand), (operand, result)):
            if len(_axes(flat.dims)) == 1:
                self._flat.append((flat, other))
                return result
        raise _OtherProgram

    def _reduced(
        self, operand: _Operand, aval: ShapedArray, params: Mapping[str, Any]
    ) -> tuple[_Value, dict[str, Any]]:
        if isinstance(operand, Literal):
            raise _OtherProgram
        dims, along = operand.dims, params["axes"]
        if all(dims[d] is None for d in along):
            raise _OtherProgram  # one element and the initial value
        kept = tuple([axis for d, axis in enumerate(dims) if d not in along])
        return self._fresh(aval, kept), {**params, "axes": tuple(along)}

    def _axis_of(self, operand: _Operand, along: Sequence[int]) -> int:
        """The axis of the only dimension that an operation goes along."""
        assert isinstance(operand, _Value)
        (axis,) = [operand.dims[d] for d in along]
        if axis is None:
            raise _OtherProgram
        return axis

    def _gathered(
        self, operands: Sequence[_Operand], aval: ShapedArray, params: Mapping[str, Any]
    ) -> _Value:
        """Whole parts of an array, for each of an array of indices."""
        array, indices = operands
        dn, sizes = params["dimension_numbers"], params["slice_sizes"]
        if isinstance(array, Literal) or isinstance(indices, Literal):
            raise _OtherProgram
        (along,) = dn.start_index_map if len(dn.start_index_map) == 1 else (None,)
        if dn.collapsed_slice_dims != (along,) or indices.dims[-1] is not None:
            raise _OtherProgram
        taken = {along, *dn.operand_batching_dims}
        whole = [d for d in range(len(array.dims)) if d not in taken]
        if along is None or array.dims[along] is None:
            raise _OtherProgram
        if any(sizes[d] != array.aval.shape[d] for d in whole):
            raise _OtherProgram
        self._alone.add(array.dims[along])
        for d, place in zip(dn.operand_batching_dims, dn.start_indices_batching_dims):
            if array.aval.shape[d] != 1:
                self._unify(array.dims[d], indices.dims[place])
        offsets, places = iter(whole), iter(indices.dims)
        dims = [
            array.dims[next(offsets)] if d in dn.offset_dims else next(places)
            for d in range(len(aval.shape))
        ]
        return self._fresh(aval, tuple(dims))

    def _scattered(
        self, operands: Sequence[_Operand], aval: ShapedArray, params: Mapping[str, Any]
    ) -> _Value:
        """Whole parts of an array that are updated, for each of an array of indices."""
        array, indices, updates = operands
        dn = params["dimension_numbers"]
        if (
            isinstance(array, Literal)
            or isinstance(indices, Literal)
            or isinstance(updates, Literal)
            or len(dn.scatter_dims_to_operand_dims) != 1
            or dn.inserted_window_dims != dn.scatter_dims_to_operand_dims
            or dn.operand_batching_dims
            or indices.dims[-1] is not None
        ):
            raise _OtherProgram
        (along,) = dn.scatter_dims_to_operand_dims
        if array.dims[along] is None:
            raise _OtherProgram
        self._alone.add(array.dims[along])
        whole = iter([axis for d, axis in enumerate(array.dims) if d != along])
        places = iter(indices.dims)
        for d, axis in enumerate(updates.dims):
            other = next(whole) if d in dn.update_window_dims else next(places)
            if axis is not None or other is not None:
                self._unify(axis, other)
        return self._fresh(aval, array.dims)

    # -- numbers -----------------------------------------------------------------------------------

    def _take_numbers(self) -> None:
        """What a mean divides by is another number for each size, and so is what is added to
        negative indices: inputs of the program. (A division by a constant has the bits of one by a
        number that is read.)"""
        for i, step in enumerate(self._steps):
            operands = list(step.operands)
            for k in _TAKEN.get("" if step.primitive is None else step.primitive.name, ()):
                number = operands[k]
                if isinstance(number, Literal) and self._is_of_sizes(number):
                    operands[k] = value = self._fresh(number.aval)
                    self._scalar_values.append(value)
                    self.scalars.append(np.asarray(number.val, number.aval.dtype))
            self._steps[i] = step._replace(operands=tuple(operands))

    def _is_of_sizes(self, number: Literal) -> bool:
        """Whether a number may be another one for other sizes."""
        kind = number.aval.dtype.kind
        if kind == "f":
            return math.isfinite(number.val) and number.val not in _NO_SIZES
        return kind == "i" and number.val in self._sizes

    # -- axes --------------------------------------------------------------------------------------

    def _join(self) -> None:
        """Find the axes that are joined with the one before them, and number the others."""
        rows = [[self._root(axis) for axis in _axes(value.dims)] for value in self._values]
        after: dict[int, int | None] = {}
        before: dict[int, int | None] = {}
        for row in rows:
            for k, axis in enumerate(row):
                following = row[k + 1] if k + 1 < len(row) else None
                leading = row[k - 1] if k else None
                for found, other in ((after, following), (before, leading)):
                    if found.setdefault(axis, other) != other:
                        found[axis] = None
        for axis in self._alone:
            after[self._root(axis)] = before[self._root(axis)] = None
        joined = {b for b, a in before.items() if a is not None and a != b and after.get(a) == b}
        for flat, several in self._flat:
            (whole,) = map(self._root, _axes(flat.dims))
            begins = [a for a in map(self._root, _axes(several.dims)) if a not in joined]
            if whole in joined or len(begins) != 1:
                raise _OtherProgram
            self._parents[whole] = begins[0]
        rows = [[self._root(axis) for axis in row] for row in rows]
        heads = list(dict.fromkeys(axis for row in rows for axis in row if axis not in joined))
        self._number = {axis: k for k, axis in enumerate(heads)}
        self.sizes: tuple[int, ...] = tuple([self._size(axis, joined, after) for axis in heads])

    def _size(self, axis: int, joined: set[int], after: Mapping[int, int | None]) -> int:
        size = self._sizes[axis]
        next = after.get(axis)
        while next is not None and next in joined and next != axis:
            size *= self._sizes[next]
            next = after.get(next)
        return size

    def _of(self, dims: Dims) -> list[tuple[int, int]]:
        """The axes of an array: the dimension at which each begins, and its number."""
        found = []
        for d, axis in enumerate(dims):
            number = None if axis is None else self._number.get(self._root(axis))
            if number is not None:
                found.append((d, number))
        return found

    def _structure(self) -> Any:
        def operand(x: _Operand) -> Any:
            return (exact_key(x.val), x.aval) if isinstance(x, Literal) else x.number

        def kind(value: _Value) -> Any:
            axes = tuple([number for _, number in self._of(value.dims)])
            return (axes, value.aval.dtype, value.aval.weak_type)

        steps = [
            (
                step.primitive,
                self._key(step),
                tuple([operand(x) for x in step.operands]),
                kind(step.result),
            )
            for step in self._steps
        ]
        inputs = [kind(value) for value in (*self._inputs, *self._scalar_values)]
        return (tuple(inputs), tuple(steps), tuple([operand(x) for x in self._results]))

    def _key(self, step: _Step) -> Any:
        if "axes" in step.params:
            others = {k: v for k, v in step.params.items() if k != "axes"}
            return self._reduced_axes(step), exact_key(tuple(others.items()))
        params = {k: v for k, v in step.params.items() if k not in _PLACES}
        if "update_jaxpr" in step.params:
            return exact_key(tuple(params.items())), self._numbers_of_scatter(step), ()
        if "slice_sizes" in step.params:
            return exact_key(tuple(params.items())), self._numbers_of_gather(step), ()
        places = () if "dimension" not in step.params else self._place(step)
        if "bit_width" in step.params:
            return exact_key(tuple(params.items())), (), ()
        # Which of the axes of the result an operand has: equal ones may stand for several.
        spreads = tuple([self._places(x, step) for x in step.operands])
        return exact_key(tuple(params.items())), places, spreads

    def _place(self, step: _Step) -> int:
        return self._starts(step.result).index(step.params["dimension"])

    def _places(self, operand: _Operand, step: _Step) -> Any:
        """For each axis of an operand its place among those of the result."""
        if isinstance(operand, Literal) or step.primitive is None:
            return ()
        targets: Sequence[int] = range(len(step.result.dims))
        if step.primitive is broadcast_in_dim_p:
            targets = step.params["broadcast_dimensions"]
        starts = self._starts(step.result)
        return tuple([starts.index(targets[d]) for d in self._starts(operand)])

    def _reduced_axes(self, step: _Step) -> tuple[int, ...]:
        (operand,) = step.operands
        along = step.params["axes"]
        return tuple([k for k, d in enumerate(self._starts(operand)) if d in along])

    def _numbers_of_gather(self, step: _Step) -> Any:
        """Its dimension numbers on axes."""
        dn = step.params["dimension_numbers"]
        array, indices = (self._starts(x) for x in step.operands)
        result = self._starts(step.result)
        batching = [
            (array.index(d), indices.index(place))
            for d, place in zip(dn.operand_batching_dims, dn.start_indices_batching_dims)
            if d in array
        ]
        along = (array.index(dn.start_index_map[0]),)
        return dn._replace(
            offset_dims=tuple([k for k, d in enumerate(result) if d in dn.offset_dims]),
            collapsed_slice_dims=along,
            start_index_map=along,
            operand_batching_dims=tuple([d for d, _ in batching]),
            start_indices_batching_dims=tuple([place for _, place in batching]),
        )

    def _numbers_of_scatter(self, step: _Step) -> Any:
        """Its dimension numbers on axes."""
        dn = step.params["dimension_numbers"]
        array, _, updates = (self._starts(x) for x in step.operands)
        along = (array.index(dn.inserted_window_dims[0]),)
        windows = [k for k, d in enumerate(updates) if d in dn.update_window_dims]
        return dn._replace(
            update_window_dims=tuple(windows),
            inserted_window_dims=along,
            scatter_dims_to_operand_dims=along,
        )

    def _starts(self, operand: _Operand) -> list[int]:
        """The dimensions at which the axes of an array begin."""
        assert isinstance(operand, _Value)
        return [d for d, _ in self._of(operand.dims)]

    # -- binding it again --------------------------------------------------------------------------

    def avals(self, sizes: Sequence[int]) -> list[ShapedArray]:
        """What the program takes where its axes have other sizes: inputs, then scalars."""
        return [
            value.aval.update(shape=self._shape(value, sizes))
            for value in (*self._inputs, *self._scalar_values)
        ]

    def _shape(self, value: _Value, sizes: Sequence[int]) -> tuple[int, ...]:
        return tuple([sizes[number] for _, number in self._of(value.dims)])

    def bind(self, arguments: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
        """Bind the operations on arrays of these `avals`."""
        given = (*self._inputs, *self._scalar_values)
        env: dict[int, Any] = {value.number: x for value, x in zip(given, arguments)}

        def read(x: _Operand) -> Any:
            return x.val if isinstance(x, Literal) else env[x.number]

        for step in self._steps:
            values = [read(x) for x in step.operands]
            env[step.result.number] = self._bound(step, values, sizes)
        return [read(x) for x in self._results]

    def _bound(self, step: _Step, values: Sequence[Any], sizes: Sequence[int]) -> Any:
        if step.primitive is None:
            return values[0]
        if "axes" in step.params:
            params = {**step.params, "axes": self._reduced_axes(step)}
            return step.primitive.bind1(*values, **params)
        shape = self._shape(step.result, sizes)
        if "update_jaxpr" in step.params:
            vectors = self._vectors(step.operands[1], values[1], sizes)
            params = {**step.params, "dimension_numbers": self._numbers_of_scatter(step)}
            return step.primitive.bind1(values[0], vectors, values[2], **params)
        if "slice_sizes" in step.params:
            return self._bound_gather(step, values, sizes)
        if step.primitive.name == "iota":
            params = {**step.params, "shape": shape, "dimension": self._place(step)}
            return step.primitive.bind1(**params)
        if step.primitive.name == "random_bits":
            return step.primitive.bind1(*values, **{**step.params, "shape": shape})
        spread = [self._spread_to(x, v, step, shape) for x, v in zip(step.operands, values)]
        if step.primitive is broadcast_in_dim_p:
            return spread[0]
        return step.primitive.bind1(*spread, **step.params)

    def _bound_gather(self, step: _Step, values: Sequence[Any], sizes: Sequence[int]) -> Any:
        (array, indices), dn = step.operands, self._numbers_of_gather(step)
        assert isinstance(array, _Value)
        vectors = self._vectors(indices, values[1], sizes)
        taken = {*dn.start_index_map, *dn.operand_batching_dims}
        whole = self._shape(array, sizes)
        parts = tuple([1 if d in taken else n for d, n in enumerate(whole)])
        params = {**step.params, "dimension_numbers": dn, "slice_sizes": parts}
        assert step.primitive is not None
        return step.primitive.bind1(values[0], vectors, **params)

    def _vectors(self, indices: _Operand, value: Any, sizes: Sequence[int]) -> Any:
        """Indices as vectors of one."""
        assert isinstance(indices, _Value)
        shape = self._shape(indices, sizes)
        return broadcast_in_dim_p.bind1(
            value,
            shape=(*shape, 1),
            broadcast_dimensions=tuple(range(len(shape))),
            sharding=None,
        )

    def _spread_to(self, operand: _Operand, value: Any, step: _Step, shape: tuple[int, ...]) -> Any:
        """An operand with the axes of the result; scalars stay, but for those that are spread."""
        places = self._places(operand, step)
        spreads = step.primitive is broadcast_in_dim_p
        if not operand.aval.shape and not spreads:
            return value
        if len(places) == len(shape) and not isinstance(operand, Literal):
            return value
        return broadcast_in_dim_p.bind1(
            value, shape=shape, broadcast_dimensions=places, sharding=None
        )


def _combines_as_named(eqn: JaxprEqn) -> bool:
    """Whether the name of a scatter says what it does with updates: applied functions have none."""
    return eqn.primitive.name != "scatter" or eqn.params["update_jaxpr"] is None


def _axes(dims: Dims) -> list[int]:
    return [axis for axis in dims if axis is not None]


def axes_of(closed: ClosedJaxpr) -> Axes | None:
    """The axes of a program without constants; None if an operation looks at sizes."""
    try:
        return Axes(closed)
    except _OtherProgram:
        return None
