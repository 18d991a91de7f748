"""Primitives that are functions: every rule of theirs comes from what the function is composed of.

Programs show one equation, and interpreters know it by its name; derivatives, batches and code are
those of the operations that the function consists of. Layer: interpreters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.primitive import Primitive
from pyjax.interpreters import ad, batching
from pyjax.interpreters.hlo import lower_fun
from pyjax.interpreters.rules import FullJvp, define_primitive
from pyjax.interpreters.staging import trace_to_jaxpr

Flat = Callable[..., Sequence[Any]]


def composed(name: str, fun: Flat, multiple_results: bool = False) -> Primitive:
    """A primitive that computes what a function does.

    Args:
      fun: `fun(*arrays, **params) -> sequence of arrays`, which closes over no arrays. Parameters
        are hashable.
      multiple_results: whether `bind` gives the sequence, not its one element.

    >>> import pyjax
    >>> from pyjax import lax
    >>> scaled_p = composed("scaled", lambda x, *, by: [lax.mul(x, by)])
    >>> float(pyjax.grad(lambda x: scaled_p.bind(x, by=3.0))(2.0))
    3.0
    """

    def abstract_eval(*avals: Any, **params: Any) -> list[Any]:
        return list(trace_to_jaxpr(lambda *xs: fun(*xs, **params), avals)[1])

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        return ad.jvp(lambda *xs: fun(*xs, **params), primals, tangents)

    def batch(axis_size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        return batching.batch_with_dims(lambda *xs: fun(*xs, **params), args, dims, axis_size)

    def transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
        linear = [ad.is_undefined_primal(x) for x in args]
        avals = [x.aval for x in args if ad.is_undefined_primal(x)]

        def of_linear(*xs: Any) -> Sequence[Any]:
            unknown = iter(xs)
            return fun(*[next(unknown) if u else x for u, x in zip(linear, args)], **params)

        program, _ = trace_to_jaxpr(of_linear, avals)
        unknown = [ad.UndefinedPrimal(aval) for aval in avals]
        found = iter(ad.backward_pass(program.jaxpr, program.consts, unknown, cts))
        return [next(found) if u else None for u in linear]

    return define_primitive(
        name,
        abstract_eval=abstract_eval,
        jvp=FullJvp(jvp),
        transpose=transpose,
        batching=batch,
        lowering=lower_fun(fun),
        multiple_results=multiple_results,
    )
