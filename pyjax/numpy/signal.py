"""One-dimensional convolution and correlation."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.numpy import util
from pyjax.numpy.ufuncs import is_complex

__all__ = ["convolve", "correlate"]


def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Convolution of two 1-d arrays: sum over k of a[k] v[n - k].

    `mode`: 'full' (every overlap), 'same' (centered, of the longer length), 'valid' (full
    overlap only).
    >>> import pyjax.numpy as jnp
    >>> jnp.convolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0])).tolist()
    [1.0, 3.0, 2.0]
    """
    a, v = _operands("convolve", a, v)
    return _convolve(
        a, v, mode, precision, util.check_user_dtype(preferred_element_type, "convolve")
    )


def correlate(
    a: Any,
    v: Any,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Cross-correlation of two 1-d arrays: sum over k of a[n + k] conj(v[k]).

    >>> jnp.correlate(jnp.array([1, 2, 3]), jnp.array([0, 1]))
    Array([2., 3.], dtype=float32)
    """
    a, v = _operands("correlate", a, v)
    v = lax.conj(v) if is_complex(v) else v
    preferred = util.check_user_dtype(preferred_element_type, "correlate")
    if a.shape[0] < v.shape[0] and mode in ("valid", "same", "full"):
        # Swapping the operands reverses the result.
        out = _convolve(v, lax.rev(a, (0,)), mode, precision, preferred)
        return lax.rev(out, (0,))
    return _convolve(a, lax.rev(v, (0,)), mode, precision, preferred)


def _operands(name: str, a: Any, v: Any) -> tuple[Any, Any]:
    util.check_arraylike(name, a, v)
    a, v = util.promote_dtypes_inexact(util.as_array(a), util.as_array(v))
    if a.ndim != 1 or v.ndim != 1:
        raise new_error(
            ValueError, f"{name}() only support 1-dimensional inputs, got {a.shape}, {v.shape}."
        )
    if not a.size or not v.size:
        raise new_error(
            ValueError, f"{name}: inputs cannot be empty, got shapes {a.shape} and {v.shape}."
        )
    return a, v


@partial(jit, static_argnames=("mode", "precision", "preferred"))
def _convolve(a: Any, v: Any, mode: str, precision: Any, preferred: Any) -> Any:
    if mode not in ("full", "same", "valid"):
        raise new_error(ValueError, "mode must be one of ['full', 'same', 'valid']")
    if a.shape[0] < v.shape[0]:
        a, v = v, a
    n = v.shape[0]
    padding = {"valid": (0, 0), "same": (n // 2, n - n // 2 - 1), "full": (n - 1, n - 1)}[mode]
    return lax.conv_general_dilated(
        a[None, None, :],
        lax.rev(v, (0,))[None, None, :],
        (1,),
        [padding],
        precision=precision,
        preferred_element_type=preferred,
    )[0, 0]
