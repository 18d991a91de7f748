"""checkpoint (remat): recompute intermediate values in the backward pass instead of storing them.

Layer: api.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pyjax._config import options
from pyjax.api.call_signature import CallSignature
from pyjax.api.checkpoint_plans import Plan, linear_plan, plan_of
from pyjax.api.checkpoint_policies import Policy, name_p
from pyjax.api.flat import check_callable, check_leaves, wraps
from pyjax.core.avals import abstractify
from pyjax.core.effects import Effects
from pyjax.core.errors import new_error
from pyjax.core.jaxpr import ClosedJaxpr, Jaxpr
from pyjax.core.source_info import summarize
from pyjax.core.tree_util import tree_flatten, tree_map, tree_unflatten
from pyjax.interpreters import ad, batching
from pyjax.interpreters.dead_code import dce_call_rule
from pyjax.interpreters.discharge import discharge_call
from pyjax.interpreters.hlo import LoweringContext
from pyjax.interpreters.lift_constants import bind_lifted, lift_leading, lift_rules
from pyjax.interpreters.partial_eval import (
    PartialTrace,
)
from pyjax.interpreters.rules import (
    FullJvp,
    call_discharge_rules,
    called_programs,
    define_primitive,
)
from pyjax.interpreters.tangents import Zero
from pyjax.interpreters.traced_function import trace_function
from pyjax.interpreters.varying import as_program_says, varying_rules
from pyjax.lax.control_flow.in_python import runs_in_python
from pyjax.runtime.dispatch import constant_array
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode

logger = logging.getLogger(__name__)


def checkpoint(
    fun: Callable[..., Any],
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
    concrete: bool = False,
) -> Callable[..., Any]:
    """Make a function recompute its intermediate values when it is differentiated in reverse mode.

    Args:
      fun: function of pytrees of arrays.
      prevent_cse: keep the compiler from merging the recomputation with the forward pass; set False
        under lax.scan, where it cannot happen.
      policy: which values to save all the same, see `checkpoint_policies`; None saves nothing.
      static_argnums, static_argnames: arguments that are not arrays, by position or by name.
      concrete: no longer supported, as in JAX.
    Returns:
      A function with the same values and derivatives.

    >>> import pyjax.numpy as jnp
    >>> from pyjax.api.grad import grad
    >>> round(float(grad(checkpoint(lambda x: jnp.sin(jnp.sin(x))))(1.0)), 4)
    0.36
    """
    check_callable(fun)
    if concrete:
        raise new_error(
            NotImplementedError,
            "The 'concrete' option to jax.checkpoint has been deprecated and is now a no-op in "
            "JAX. "
            "Use static_argnums, and jax.ensure_compile_time_eval for computations on them.",
        )
    signature = CallSignature(fun, static_argnums, static_argnames or None)
    doc = "Version of the function that recomputes its intermediate values in the backward pass."

    @wraps(fun, "", doc)
    def fun_remat(*args: Any, **kwargs: Any) -> Any:
        if runs_in_python():
            return fun(*args, **kwargs)
        args, kwargs, static = signature.split(args, kwargs)
        leaves, in_tree = tree_flatten((args, kwargs))
        check_leaves("checkpoint", leaves, (args, kwargs))
        avals = [abstractify(x) for x in leaves]
        key = signature.static_key_if_any(static)
        traced = trace_function("checkpoint", fun, in_tree, avals, static, key)
        params = _params(traced.closed, prevent_cse, False, policy)
        outs = remat_p.bind(*traced.operands(constant_array), *leaves, **params)
        return tree_unflatten(traced.out_tree, outs)

    return fun_remat


remat = checkpoint


def checkpoint_name(x: Any, name: str) -> Any:
    """`x` itself, named for policies such as `save_only_these_names`.

    >>> f = pyjax.checkpoint(
    ...     lambda x: jnp.sin(checkpoint_name(jnp.sin(x), "inner")),
    ...     policy=pyjax.checkpoint_policies.save_only_these_names("inner"),
    ... )
    >>> pyjax.grad(f)(0.0).item()
    1.0
    """
    return tree_map(lambda leaf: name_p.bind1(leaf, name=name), x)


def _params(
    jaxpr: ClosedJaxpr, prevent_cse: bool, differentiated: bool, policy: Policy | None
) -> dict[str, Any]:
    return {
        "jaxpr": jaxpr,
        "prevent_cse": prevent_cse,
        "differentiated": differentiated,
        "policy": policy,
    }


def _abstract_eval(*avals: Any, jaxpr: ClosedJaxpr, **_: Any) -> list[Any]:
    return list(jaxpr.out_avals)


def _effects(*avals: Any, jaxpr: ClosedJaxpr, **_: Any) -> Effects:
    return jaxpr.effects


def _impl(*args: Any, jaxpr: ClosedJaxpr, differentiated: bool, **_: Any) -> list[Any]:
    if differentiated and options.debug_key_reuse.value:
        # What is computed again draws the same random bits again, as it should.
        with options.debug_key_reuse(False):
            return jaxpr.eval(*args)
    return jaxpr.eval(*args)


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: ClosedJaxpr, **params: Any
) -> tuple[list[Any], list[Any]]:
    new, nonzero_out = ad.jvp_jaxpr(jaxpr, [type(t) is not Zero for t in tangents])
    dense = [t for t in tangents if type(t) is not Zero]
    outs = bind_lifted(remat_p, *primals, *dense, jaxpr=new, **params)
    n = len(jaxpr.out_avals)
    found = iter(outs[n:])
    return outs[:n], [
        next(found) if nz else Zero(a.to_tangent_aval())
        for nz, a in zip(nonzero_out, jaxpr.out_avals)
    ]


# -- partial evaluation ----------------------------------------------------------------------------


def _partial_eval(
    trace: PartialTrace,
    args: Sequence[Any],
    *,
    jaxpr: ClosedJaxpr,
    prevent_cse: bool,
    differentiated: bool,
    policy: Policy | None,
) -> list[Any]:
    unknown_in = tuple(map(trace.is_unknown, args))
    plan = plan_of(jaxpr, unknown_in, policy)
    if options.log_checkpoint_residuals.value:
        _log_kept(jaxpr.jaxpr, unknown_in, plan)
    known_args = [x for x, u in zip(args, unknown_in) if not u]
    unknown_args = [x for x, u in zip(args, unknown_in) if u]
    params = _params(plan.staged, prevent_cse, True, policy)
    known_outs, staged_outs = _run_plan(trace, plan, known_args, unknown_args, params)
    known, unknown = iter(known_outs), iter(staged_outs)
    return [next(unknown) if u else next(known) for u in plan.unknown_out]


def _run_plan(
    tape: PartialTrace,
    plan: Plan,
    known_args: Sequence[Any],
    unknown_args: Sequence[Any],
    params: dict[str, Any],
) -> tuple[list[Any], list[Any]]:
    """Run the forward pass, and record the rest; the known outputs, and the others."""
    results = plan.forward.eval(*known_args)
    needed = [x for x, n in zip(known_args, plan.needed) if n]
    inputs = [*needed, *results[plan.num_known :], *unknown_args]
    avals, effects = plan.staged.out_avals, plan.staged.effects
    return results[: plan.num_known], tape.emit(remat_p, inputs, avals, params, effects)


def _linearize(
    tape: PartialTrace,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    jaxpr: ClosedJaxpr,
    prevent_cse: bool,
    differentiated: bool,
    policy: Policy | None,
) -> tuple[list[Any], list[Any]]:
    plan = linear_plan(jaxpr, tuple([type(t) is not Zero for t in tangents]), policy)
    if options.log_checkpoint_residuals.value:
        _log_kept(jaxpr.jaxpr, (False,) * len(primals), plan)
    dense = [t for t in tangents if type(t) is not Zero]
    params = _params(plan.staged, prevent_cse, True, policy)
    outs, staged_outs = _run_plan(tape, plan, primals, dense, params)
    found = iter(staged_outs)
    return outs, [
        next(found) if nz else Zero(a.to_tangent_aval())
        for nz, a in zip(plan.unknown_out, jaxpr.out_avals)
    ]


def _log_kept(jaxpr: Jaxpr, unknown_in: tuple[bool, ...], plan: Plan) -> None:
    """Log what the forward pass keeps for the backward pass: arguments, and values of lines."""
    known = [v for v, u in zip(jaxpr.invars, unknown_in) if not u]
    names = dict(zip(jaxpr.invars, jaxpr.debug_info.names()))
    lines = [
        f"{v.aval.str_short()} argument {names.get(v) or 'from outside'}"
        for v, needed in zip(known, plan.needed)
        if needed
    ]
    forward = plan.forward.jaxpr
    made_by = {v: eqn for eqn in forward.eqns for v in eqn.outvars}
    for v in forward.outvars[plan.num_known :]:
        eqn = made_by.get(v)
        by = "" if eqn is None else f" {eqn.primitive.name} at {summarize(eqn.source)}"
        lines.append(f"{v.aval.str_short()}{by}")
    kept = "".join(f"\n  {line}" for line in lines) or " nothing"
    logger.warning(
        "checkpointed %s keeps for the backward pass:%s", jaxpr.debug_info.function, kept
    )


# -- the other rules ------------------------------------------------------------------------------


def _transpose(cts: Sequence[Any], *args: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
    def call(new: ClosedJaxpr, *operands: Any) -> list[Any]:
        return bind_lifted(remat_p, *operands, jaxpr=new, **params)

    return ad.transpose_call(jaxpr, cts, args, call)


def _batching(
    axis_size: int, args: Sequence[Any], dims: Sequence[Any], *, jaxpr: ClosedJaxpr, **params: Any
) -> tuple[list[Any], list[Any]]:
    moved = [x if d is None else batching.move_bdim(x, d, 0) for x, d in zip(args, dims)]
    new, batched = batching.batch_jaxpr(jaxpr, axis_size, [d is not None for d in dims])
    outs = remat_p.bind(*moved, jaxpr=new, **params)
    return outs, [0 if b else None for b in batched]


def _lowering(
    ctx: LoweringContext,
    *operands: Instruction,
    jaxpr: ClosedJaxpr,
    prevent_cse: bool,
    differentiated: bool,
    **_: Any,
) -> list[Instruction]:
    inputs = list(operands)
    if differentiated and prevent_cse and inputs:
        builder = ctx.builder
        packed = builder.tuple(inputs)
        barrier = builder.add(Opcode.OPT_BARRIER, (packed,), shape=packed.shape)
        inputs = [builder.get_tuple_element(barrier, i) for i in range(len(inputs))]
    return ctx.inline_jaxpr(jaxpr, *inputs)


def _with_jaxpr(jaxpr: ClosedJaxpr, params: Mapping[str, Any]) -> dict[str, Any]:
    return {**params, "jaxpr": jaxpr}


remat_p = define_primitive(
    "remat2",
    abstract_eval=_abstract_eval,
    jvp=FullJvp(_jvp),
    transpose=_transpose,
    batching=_batching,
    lowering=_lowering,
    partial_eval=_partial_eval,
    linearize=_linearize,
    dce=dce_call_rule(_with_jaxpr),
    effects=_effects,
    impl=_impl,
    multiple_results=True,
)
called_programs[remat_p] = "jaxpr"
varying_rules[remat_p] = as_program_says("jaxpr")
lift_rules[remat_p] = lift_leading("jaxpr")
call_discharge_rules[remat_p] = discharge_call(remat_p, _with_jaxpr)
