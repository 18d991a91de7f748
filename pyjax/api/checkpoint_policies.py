"""Policies of `checkpoint`: which intermediate values are saved instead of recomputed. Layer: api.

A policy is `policy(primitive, *in_avals, **params) -> bool`, asked for each operation; True: its
outputs may be saved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyjax.core.primitive import Primitive
from pyjax.interpreters.batching import elementwise_batching
from pyjax.interpreters.rules import FullJvp, define_primitive

Policy = Callable[..., Any]


class _Answer:
    """What a policy may return instead of a bool."""

    def __init__(self, name: str, saved: bool) -> None:
        self._name = name
        self._saved = saved

    def __bool__(self) -> bool:
        return self._saved

    def __repr__(self) -> str:
        return self._name


Saveable = _Answer("Saveable", True)
Recompute = _Answer("Recompute", False)


class Offloadable(NamedTuple):
    """Saved, and moved to another memory meanwhile; there is one here, so nothing is moved.

    >>> Offloadable(src="device", dst="pinned_host").dst
    'pinned_host'
    """

    src: str
    dst: str


_DOTS = frozenset({"dot_general", "conv_general_dilated", "ragged_dot_general", "scaled_matmul"})


def everything_saveable(*_: Any, **__: Any) -> bool:
    """Save every intermediate value, as without checkpoint."""
    return True


def nothing_saveable(*_: Any, **__: Any) -> bool:
    """Recompute everything (the default of checkpoint)."""
    return False


def dots_saveable(prim: Primitive, *_: Any, **__: Any) -> bool:
    """Save results of matrix products and convolutions."""
    return prim.name in _DOTS


def dots_with_no_batch_dims_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Save results of matrix products without batch dimensions: those of weights, not attention."""
    if prim.name != "dot_general":
        return False
    (_, _), (lhs_batch, rhs_batch) = params["dimension_numbers"]
    return not lhs_batch and not rhs_batch


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """As `dots_with_no_batch_dims_saveable`; there is one memory here, so nothing is moved."""
    del offload_src, offload_dst
    return dots_with_no_batch_dims_saveable


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Save named values (see `checkpoint_name`) except these."""
    excluded = frozenset(names_not_to_save)

    def policy(prim: Primitive, *_: Any, **params: Any) -> bool:
        return prim is name_p and params["name"] not in excluded

    return policy


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Save only values named by `checkpoint_name` with one of these names."""
    names = frozenset(names_which_can_be_saved)

    def policy(prim: Primitive, *_: Any, **params: Any) -> bool:
        return prim is name_p and params["name"] in names

    return policy


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Save every value except those with these names."""
    names = frozenset(names_not_to_save)

    def policy(prim: Primitive, *_: Any, **params: Any) -> bool:
        return not (prim is name_p and params["name"] in names)

    return policy


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Sequence[str],
    names_which_can_be_offloaded: Sequence[str],
    offload_src: str,
    offload_dst: str,
) -> Policy:
    """Save values with the names of both lists; there is one memory here, so nothing is moved."""
    del offload_src, offload_dst
    return save_only_these_names(*names_which_can_be_saved, *names_which_can_be_offloaded)


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Save what either policy saves."""

    def policy(prim: Primitive, *args: Any, **params: Any) -> bool:
        return bool(policy_1(prim, *args, **params) or policy_2(prim, *args, **params))

    return policy


class CheckpointPolicies:
    """The namespace `jax.checkpoint_policies`."""

    everything_saveable = staticmethod(everything_saveable)
    nothing_saveable = staticmethod(nothing_saveable)
    dots_saveable = staticmethod(dots_saveable)
    checkpoint_dots = staticmethod(dots_saveable)
    dots_with_no_batch_dims_saveable = staticmethod(dots_with_no_batch_dims_saveable)
    checkpoint_dots_with_no_batch_dims = staticmethod(dots_with_no_batch_dims_saveable)
    offload_dot_with_no_batch_dims = staticmethod(offload_dot_with_no_batch_dims)
    save_anything_except_these_names = staticmethod(save_anything_except_these_names)
    save_any_names_but_these = staticmethod(save_any_names_but_these)
    save_only_these_names = staticmethod(save_only_these_names)
    save_from_both_policies = staticmethod(save_from_both_policies)
    save_and_offload_only_these_names = staticmethod(save_and_offload_only_these_names)


checkpoint_policies = CheckpointPolicies()


# -- naming values --------------------------------------------------------------------------------


def _name_jvp(primals: Any, tangents: Any, *, name: str) -> Any:
    return name_p.bind_all(*primals, name=name), list(tangents)


name_p = define_primitive(
    "name",
    abstract_eval=lambda x, *, name: x,
    jvp=FullJvp(_name_jvp),
    transpose=lambda cts, x, *, name: [cts[0]],
    batching=elementwise_batching,
    lowering=lambda ctx, x, *, name: x,
    impl=lambda x, *, name: x,
)
