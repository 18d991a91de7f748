"""Calling an exported program: a primitive whose lowering is the program itself.

Its derivative is another exported program, so that nothing of the function is needed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from pyjax.api.custom_vjp import custom_vjp
from pyjax.core import dtypes
from pyjax.core.avals import abstractify
from pyjax.core.errors import fail
from pyjax.core.jaxpr import JaxprEqn
from pyjax.core.tree_util import (
    PyTreeDef,
    first_difference,
    keystr,
    tree_flatten_with_path,
    tree_unflatten,
)
from pyjax.export.over_devices import check_number, layouts_of_call
from pyjax.interpreters.hlo import summand_lowerings
from pyjax.interpreters.layouts import Known, layout_rules
from pyjax.interpreters.platform_names import names_of_platform
from pyjax.interpreters.rules import FullJvp, Unsupported, define_primitive
from pyjax.interpreters.splits import AS_TYPED, split_rules
from pyjax.lax.callbacks import one_by_one
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode


class Program(Protocol):
    """What a call needs of an exported program."""

    @property
    def fun_name(self) -> str: ...
    @property
    def in_tree(self) -> PyTreeDef: ...
    @property
    def in_avals(self) -> tuple[Any, ...]: ...
    @property
    def out_avals(self) -> tuple[Any, ...]: ...
    @property
    def platforms(self) -> tuple[str, ...]: ...
    @property
    def module_kept_var_idx(self) -> tuple[int, ...]: ...
    @property
    def nr_devices(self) -> int: ...
    @property
    def out_named_shardings(self) -> tuple[Any, ...]: ...
    @property
    def any_platform(self) -> bool: ...
    @property
    def differentiable(self) -> Any: ...
    def hlo_module(self) -> HloModule: ...
    def vjp(self) -> Program: ...


def is_passed(aval: Any) -> bool:
    """Whether arrays of this type are passed: float0 ones hold nothing."""
    return aval.dtype != dtypes.float0


# -- the primitive ---------------------------------------------------------------------------------


def _abstract_eval(*avals: Any, exported: Program) -> list[Any]:
    return [a for a in exported.out_avals if is_passed(a)]


def _no_jvp(primals: Any, tangents: Any, *, exported: Program) -> Any:
    raise AssertionError("calls are differentiated by the rule that `with_derivative` gives them")


def _batching(axis_size: int, args: Any, dims: Any, *, exported: Program) -> Any:
    # The program is made for one size: the examples of a batch go through it one after another.
    outs = one_by_one(call_exported_p, axis_size, args, dims, exported=exported)
    return outs, [0] * len(outs)


def _check_platform(exported: Program, platform: str) -> None:
    named = set[str]().union(*map(names_of_platform, exported.platforms))
    if exported.any_platform or not names_of_platform(platform).isdisjoint(named):
        return
    fail(
        ValueError,
        f"{exported.fun_name} was exported for {', '.join(exported.platforms)}, and is called on "
        f"{platform}",
        "the program of another platform may be another one",
        f"export with platforms=[{platform!r}, ...], or with disabled_checks="
        "[DisabledSafetyCheck.platform()] if it is the same",
    )


def _lowering(ctx: Any, *operands: Instruction, exported: Program) -> list[Instruction]:
    _check_platform(exported, ctx.platform)
    check_number(exported.fun_name, exported.nr_devices, len(ctx.module.devices) or 1)
    module = exported.hlo_module().clone()
    ctx.module.locations.adopt(module)
    entry = module.entry
    assert entry is not None and entry.root is not None
    entry.name = exported.fun_name
    shape = entry.root.shape
    result = ctx.builder.add(Opcode.CALL, operands, called=[entry], shape=shape)
    if not shape.is_tuple:
        return [result]
    return [ctx.builder.get_tuple_element(result, i) for i in range(len(shape.tuple_shapes))]


call_exported_p = define_primitive(
    "call_exported",
    abstract_eval=_abstract_eval,
    jvp=FullJvp(_no_jvp),
    transpose=Unsupported("an exported program is not known to be linear"),
    batching=_batching,
    lowering=_lowering,
    multiple_results=True,
)
split_rules[call_exported_p] = AS_TYPED
# Sums that are still to be made go in and out as their summands, which the program takes and gives.
summand_lowerings[call_exported_p] = lambda ctx, eqn, operands: _lowering(
    ctx, *operands, exported=eqn.params["exported"]
)


def _layouts(eqn: JaxprEqn, operands: Sequence[Known]) -> Sequence[Known]:
    exported: Program = eqn.params["exported"]
    results = zip(exported.out_named_shardings, exported.out_avals)
    return layouts_of_call([(s, a) for s, a in results if is_passed(a)], operands)


layout_rules[call_exported_p] = _layouts


# -- with its derivative ---------------------------------------------------------------------------


def with_derivative(exported: Program) -> custom_vjp:
    """A function of the arrays that are passed; its derivative in reverse mode is the exported
    one."""
    kept = set(exported.module_kept_var_idx)
    positions = [i for i, a in enumerate(exported.in_avals) if is_passed(a)]

    def run(*passed: Any) -> list[Any]:
        taken = [x for i, x in zip(positions, passed) if i in kept]
        return call_exported_p.bind(*taken, exported=exported)

    run.__name__ = run.__qualname__ = exported.fun_name
    rules = custom_vjp(run)

    def forward(*passed: Any) -> tuple[Any, Any]:
        return rules(*passed), passed

    def backward(passed: Any, cts: Any) -> tuple[Any, ...]:
        leaves = [*_all(exported.in_avals, passed), *_all(exported.out_avals, cts)]
        grads = call_flat(exported.vjp(), leaves)
        wanted = [g for g, a in zip(grads, exported.in_avals) if is_passed(a)]
        return tuple([g if is_passed(abstractify(g)) else None for g in wanted])

    rules.defvjp(forward, backward)
    return rules


def _all(avals: Sequence[Any], passed: Sequence[Any]) -> list[Any]:
    """One value for each aval; nothing for those that are not passed."""
    found = iter(passed)
    return [next(found) if is_passed(a) else None for a in avals]


def call_flat(exported: Program, leaves: Sequence[Any]) -> list[Any]:
    """The leaves of the result for checked leaves of the arguments."""
    passed = [x for x, a in zip(leaves, exported.in_avals) if is_passed(a)]
    found = iter(exported.differentiable(*passed))
    return [
        next(found) if is_passed(a) else np.zeros(a.shape, dtypes.float0)
        for a in exported.out_avals
    ]


# -- what arguments must be ------------------------------------------------------------------------


def check_structure(exported: Program, args: Any, kwargs: Any, in_tree: PyTreeDef) -> None:
    """Raise ValueError unless the arguments have the structure of the exported function's."""
    if in_tree == exported.in_tree:
        return
    expected = tree_unflatten(exported.in_tree, list(range(exported.in_tree.num_leaves)))
    difference = None
    for name, old, new in zip(("args", "kwargs"), expected, (args, kwargs)):
        difference = difference or first_difference(old, new, name)
    fail(
        ValueError,
        f"{exported.fun_name} was exported for arguments of another structure: "
        f"{difference or f'{exported.in_tree}, called with {in_tree}'}",
        "an exported program has one structure of arguments",
        "pass arguments like those that it was exported for, or export it for these",
    )


def argument_names(in_tree: PyTreeDef) -> list[str]:
    """`args[0]['a']`, `kwargs['b']`, ... of each leaf of the arguments."""
    example = tree_unflatten(in_tree, list(range(in_tree.num_leaves)))
    paths, _ = tree_flatten_with_path(example)
    return [f"{('args', 'kwargs')[path[0].idx]}{keystr(path[1:])}" for path, _ in paths]


def check_types(exported: Program, leaves: Sequence[Any]) -> None:
    """Raise ValueError unless the arguments have the shapes and dtypes of the exported ones."""
    for i, (leaf, expected) in enumerate(zip(leaves, exported.in_avals)):
        got = abstractify(leaf)
        if got.shape == expected.shape and got.dtype == expected.dtype:
            continue
        kind = "shape" if got.shape != expected.shape else "dtype"
        fail(
            ValueError,
            f"{exported.fun_name} takes {expected.str_short()} as "
            f"{argument_names(exported.in_tree)[i]}, and is called with {got.str_short()}",
            f"an exported program is made for one {kind} of each argument",
            "convert the argument, or export the function for this type",
        )
