"""sparsify: functions of arrays applied to sparse ones, operation by operation.

A value is an array or a sparse one. What each primitive does with sparse values is a rule,
`rule(*values, **params) -> list of values`, in a table that `rules.py` fills; there are two ways
to come to it, which give the same: the equations of a recorded program, and a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import pyjax.numpy as jnp
from pyjax.api.make_jaxpr import make_jaxpr
from pyjax.core.avals import ShapedArray, abstractify
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr, JaxprEqn, eval_jaxpr
from pyjax.core.primitive import Primitive
from pyjax.core.trace import CustomCall, Trace, Tracer, state, under
from pyjax.core.tree_util import tree_flatten, tree_unflatten
from pyjax.experimental.sparse.base import JAXSparse
from pyjax.experimental.sparse.bcoo_array import BCOO
from pyjax.experimental.sparse.bcsr import BCSR
from pyjax.interpreters.composed import composed
from pyjax.interpreters.rules import called_programs

Rule = Callable[..., Sequence[Any]]

# What primitives do when some operand is sparse.
sparse_rules: dict[Primitive, Rule] = {}
# Those that make something of zeros, so that results would be dense.
dense_results: set[Primitive] = set()


def is_sparse(x: Any) -> bool:
    """Whether a value is sparse."""
    return isinstance(x, JAXSparse)


def apply_sparse(
    primitive: Primitive, values: Sequence[Any], params: dict[str, Any]
) -> Sequence[Any]:
    """The results of a primitive, under the current trace.

    Raises:
      NotImplementedError: it has no rule for sparse values.
    """
    if not any(map(is_sparse, values)):
        return primitive.bind_all(*values, **params)
    rule = sparse_rules.get(primitive)
    if rule is not None:
        return rule(*values, **params)
    if primitive in called_programs:
        return eval_sparse(params[called_programs[primitive]], *values)
    dense = primitive in dense_results
    fail(
        NotImplementedError,
        f"sparse rule for {primitive} is not implemented"
        + (" because it would result in dense output." if dense else "."),
        f"the operands are {', '.join(map(_described, values))}.",
        "If this is your intent, use sparse.todense() to convert your arguments to dense matrices.",
    )


def _described(x: Any) -> str:
    return repr(x) if is_sparse(x) else abstractify(x).str_short()


def eval_sparse(closed: ClosedJaxpr, *values: Any) -> list[Any]:
    """A recorded program applied to values."""

    def apply(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
        return apply_sparse(eqn.primitive, operands, eqn.params)

    return eval_jaxpr(closed.jaxpr, closed.consts, *values, apply=apply)


# -- while a function runs ------------------------------------------------------------------------


class SparseTracer(Tracer):
    """A sparse array on its way through a function that takes it for an array.

    Attributes:
      spvalue: the sparse array.

    >>> m = jnp.array([[0.0, 2.0], [3.0, 0.0]])
    >>> seen = []
    >>> f = sparsify(lambda x: seen.append(type(x) is SparseTracer) or x, use_tracer=True)
    >>> _ = f(BCOO.fromdense(m))
    >>> seen
    [True]
    """

    __slots__ = ("spvalue",)

    def __init__(self, trace: SparseTrace, *, spvalue: Any) -> None:
        self._trace = trace
        self.spvalue = spvalue
        self.aval = ShapedArray(spvalue.shape, spvalue.dtype)

    def _description(self) -> str:
        return f" with spvalue = {self.spvalue!r}"


class SparseTrace(Trace):
    """Applies the rules for sparse values under `parent`."""

    kind = "sparsify"

    def __init__(self, parent: Trace) -> None:
        self.parent: Trace = parent
        self.closed = False

    def unwrapped(self, x: Any) -> Any:
        """The value of a tracer of this trace; others as they are."""
        return x.spvalue if type(x) is SparseTracer and x._trace is self else x

    def wrapped(self, x: Any) -> Any:
        """A tracer for what is sparse."""
        return SparseTracer(self, spvalue=x) if is_sparse(x) else x

    def process_primitive(
        self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]
    ) -> list[Any]:
        values = [self.unwrapped(x) for x in args]
        outs = under(self.parent, apply_sparse, primitive, values, params)
        return [self.wrapped(x) for x in outs]

    def process_custom_call(self, call: CustomCall, args: Sequence[Any]) -> list[Any]:
        if any(is_sparse(self.unwrapped(x)) for x in (*args, *call.closed_over)):
            return call.fun(*args)
        return under(self.parent, self.parent.process_custom_call, call, args)

    def origin(self) -> str:
        return "it is a sparse array in a function that sparsify runs"


# -- the transformation ---------------------------------------------------------------------------


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """A function of arrays, that takes and gives sparse arrays, too.

    Each operation on BCOO or BCSR arrays in `f` becomes one that computes with stored elements.

    Args:
      f: function of pytrees of arrays; in it, sparse arguments look like arrays.
      use_tracer: run `f` on the values, instead of recording it for their types first: values that
        are not sparse can be looked at then.
    Returns:
      `f` for pytrees of arrays and sparse arrays.
    Raises:
      NotImplementedError: when called: an operation on a sparse array has no rule, often because
        its result would be dense; `sparse.todense(x)` in `f` makes an array of it.

    >>> import numpy as np
    >>> import pyjax.numpy as jnp
    >>> m = BCOO.fromdense(np.array([[0., 2.], [3., 0.]], np.float32))
    >>> sparsify(lambda x, v: jnp.sign(x).T @ v)(m, np.ones(2, np.float32)).tolist()
    [1.0, 1.0]
    """

    @wraps(f)
    def sparsified(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs), is_leaf=is_sparse)
        for x in leaves:
            if is_sparse(x) and not isinstance(x, (BCOO, BCSR)):
                fail(
                    TypeError,
                    f"sparsify: an argument is of type {type(x).__name__}.",
                    "there are rules for BCOO and BCSR arrays.",
                    "Convert it, for example with BCOO.fromdense(x.todense()).",
                )

        def call(*xs: Any) -> Any:
            args, kwargs = tree_unflatten(tree, xs)
            return f(*args, **kwargs)

        return _traced(call, leaves) if use_tracer else _recorded(call, leaves)

    return sparsified


def _traced(call: Callable[..., Any], leaves: Sequence[Any]) -> Any:
    trace = SparseTrace(state.traces[0])
    out = under(trace, call, *[trace.wrapped(x) for x in leaves])
    trace.closed = True
    outs, tree = tree_flatten(out)
    return tree_unflatten(tree, [trace.unwrapped(x) for x in outs])


def _recorded(call: Callable[..., Any], leaves: Sequence[Any]) -> Any:
    avals = [ShapedArray(x.shape, x.dtype) if is_sparse(x) else x for x in leaves]
    closed, shapes = make_jaxpr(call, return_shape=True)(*avals)
    outs = [x if is_sparse(x) else jnp.asarray(x) for x in eval_sparse(closed, *leaves)]
    return tree_unflatten(tree_flatten(shapes)[1], outs)


# -- back to arrays -------------------------------------------------------------------------------


def _densified(*buffers: Any, tree: Any) -> list[Any]:
    value = tree_unflatten(tree, buffers)
    return [value.todense() if is_sparse(value) else value]


todense_p = composed("todense", _densified)


def todense(arr: Any) -> Any:
    """All elements of a sparse array, also where `sparsify` makes it look like an array.

    >>> import numpy as np
    >>> todense(BCOO.fromdense(np.eye(2, dtype=np.float32))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    buffers, tree = tree_flatten(arr)
    return todense_p.bind(*buffers, tree=tree)


def _todense_rule(value: Any, *, tree: Any) -> list[Any]:
    return [value.todense()]


sparse_rules[todense_p] = _todense_rule
