"""The older name of jit with shardings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyjax.api.jit import jit
from xla_backend.runtime.client import Device

__all__ = ["pjit"]


def pjit(
    fun: Callable[..., Any],
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    device: Device | None = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """`pyjax.jit`, which says what the arguments are; here all may be given by position.

    >>> float(pjit(lambda x, n: x**n, None, None, 1)(3.0, 2))
    9.0
    """
    return jit(
        fun,
        in_shardings=in_shardings,
        out_shardings=out_shardings,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        donate_argnums=donate_argnums,
        donate_argnames=donate_argnames,
        keep_unused=keep_unused,
        device=device,
        backend=backend,
        inline=inline,
        compiler_options=compiler_options,
    )
