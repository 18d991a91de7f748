"""platform_dependent: code that differs between platforms, chosen when the program is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.traceback_filter import api_boundary
from pyjax.interpreters.platform_names import names_of_platform
from pyjax.interpreters.rules import ZERO_TANGENT, Unsupported, define_primitive
from pyjax.lax.control_flow.cond import choose_branch
from pyjax.lax.control_flow.tracing import require_callable

Platforms = tuple[tuple[str, ...] | None, ...]


def branch_for(platform: str, platforms: Platforms) -> int:
    """Which branch a platform runs; None among `platforms` marks the default.

    Raises:
      NotImplementedError: none fits.
    """
    names = names_of_platform(platform)
    for i, accepted in enumerate(platforms):
        if accepted is None:
            return i
        wanted = set().union(*map(names_of_platform, accepted))
        if names & wanted:
            return i
    fail(
        NotImplementedError,
        f"platform_dependent has no branch for platform {platform!r}, only for "
        f"{[name for accepted in platforms for name in accepted or ()]}.",
        "the program is compiled for that platform.",
        "pass default=function.",
    )


def _lowering(ctx: Any, *, platforms: Platforms) -> Any:
    return ctx.builder.constant(np.asarray(branch_for(ctx.platform, platforms), np.int32))


platform_index_p = define_primitive(
    "platform_index",
    abstract_eval=lambda *, platforms: [ShapedArray((), np.dtype(np.int32))],
    jvp=ZERO_TANGENT,
    transpose=Unsupported("it has no operands"),
    batching=Unsupported("it has no operands"),
    lowering=_lowering,
)


@api_boundary
def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """Run the function given for the platform that the program is compiled for.

    Args:
      args: operands, pytrees of arrays.
      default: for platforms not named.
      per_platform: functions by platform name: cpu=f, cuda=g.
    Returns:
      what the chosen function returns; all must return the same types.
    Raises:
      TypeError: results differ.   NotImplementedError: no function for the platform.

    >>> float(lax.platform_dependent(2.0, default=lambda x: x + 1))
    3.0
    """
    funs = list(per_platform.values())
    platforms: list[tuple[str, ...] | None] = [(name,) for name in per_platform]
    if default is not None:
        funs.append(default)
        platforms.append(None)
    if not funs:
        fail(TypeError, "platform_dependent needs at least one function.")
    require_callable("lax.platform_dependent: each argument", *funs)
    if len(funs) == 1 and default is not None:
        return default(*args)
    index = platform_index_p.bind1(platforms=tuple(platforms))
    names = [*per_platform, *(["default"] if default is not None else [])]
    return choose_branch("platform_dependent", index, names, funs, args)
