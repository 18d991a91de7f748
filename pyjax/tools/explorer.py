"""explain: a page that shows how a function is compiled, from its lines to the assembly."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyjax.api.jit import jit
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.runtime.devices import default_device
from pyjax.runtime.dispatch import compile_options
from xla_backend.compile_target import find_target
from xla_backend.debug_options import current_debug_options
from xla_backend.tools.explorer.explore import explore
from xla_backend.tools.explorer.recording import FrontStage, Place

_SOURCE = re.compile(r"  # (.*):(\d+) \([^()]*\)$")
_HEIGHT = 720


class Explanation:
    """A page of HTML that needs nothing else. Shows itself in notebooks.

    Attributes:
      html: the text of the page.
    """

    def __init__(self, html: str) -> None:
        self.html = html

    def save(self, path: str | Path) -> Path:
        """Write the page to a file and return its path; open it in a browser."""
        path = Path(path)
        path.write_text(self.html, encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        # A frame of its own: the page's styles and addresses must not meet the notebook's.
        return (
            f'<iframe srcdoc="{html.escape(self.html, quote=True)}" '
            f'style="width: 100%; height: {_HEIGHT}px; border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"Explanation({len(self.html)} characters of HTML; write it with .save(path))"


# The GPU whose code is shown where programs run as for one.
_GPU = "sm_90"


def explain(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """How `fun(*args, **kwargs)` is compiled: your lines, the jaxpr, HLO after each pass that
    changed something, and each kernel's loops, LLVM IR and assembly, linked with each other and
    with their costs. Where the default device is a GPU, or emulates one, the kernels are those of a
    GPU, with PTX, registers and occupancy.

    Args:
      fun: a function, jitted or not.
      args, kwargs: arrays, or anything with shape and dtype, as for `jit(fun).trace`.
    Returns:
      The page; `.save("page.html")` writes it, notebooks show it.
    Raises:
      what tracing, lowering and compiling `fun` raise.

    >>> import pyjax, pyjax.numpy as jnp
    >>> page = pyjax.explain(lambda x: jnp.sin(x).sum(), jnp.ones(3))
    >>> "reduce_fusion" in page.html
    True
    """
    on_gpu = default_device().platform in ("cuda", "gpu_emulator")
    return explain_for(_GPU if on_gpu else None, fun, *args, **kwargs)


def explain_for(
    target: str | None, fun: Callable[..., Any], *args: Any, **kwargs: Any
) -> Explanation:
    """`explain` for a GPU that need not be here, such as "sm_90"; None: for the CPU.

    Raises:
      ValueError: the target is none, or no GPU.
    """
    found = None if target is None else find_target(target)
    if found is not None and not found.is_gpu:
        raise ValueError(f"{target!r} is no GPU; write one such as 'sm_90'")
    jitted = fun if hasattr(fun, "trace") else jit(fun)
    traced = jitted.trace(*args, **kwargs)
    front = FrontStage("jaxpr", list(_jaxpr_lines(traced.jaxpr)))
    platforms = None if found is None else ("cuda",)
    module = traced.lower(lowering_platforms=platforms).compiler_ir("hlo")
    options = compile_options(current_debug_options())._replace(target=found)
    return Explanation(explore(module, options, title=traced.fun_name, front=[front]))


def _jaxpr_lines(jaxpr: ClosedJaxpr) -> Iterator[tuple[str, Place | None]]:
    """Lines of a jaxpr's text, each with the user's line that its equation comes from."""
    for line in jaxpr.pretty_print(use_color=False, source_info=True).splitlines():
        found = _SOURCE.search(line)
        if found is None:
            yield line, None
        else:
            yield line[: found.start()], (found[1], int(found[2]))
