"""Initial values for the weights of neural networks: functions (key, shape, dtype) → array."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

import pyjax.numpy as jnp
from pyjax import random
from pyjax.core import dtypes
from pyjax.core.errors import new_error
from pyjax.lax.reshard import laid_out_as

Array = Any
Dims = int | Sequence[int]


class Initializer(Protocol):
    """`initializer(key, shape, dtype=..., out_sharding=None)` gives an array.

    >>> def small(key, shape, dtype=None, out_sharding=None) -> pyjax.Array:
    ...     return pyjax.random.uniform(key, shape, dtype or "float32") / 100
    >>> initializer: Initializer = small
    """

    def __call__(
        self, key: Array, shape: Sequence[int], dtype: Any = None, out_sharding: Any = None
    ) -> Array: ...


def _dtype(*candidates: Any) -> Any:
    chosen = next((d for d in candidates if d is not None), np.float64)
    return dtypes.canonicalize_dtype(chosen)


def _initializer(default: Any, draw: Callable[[Array, Sequence[int], Any], Array]) -> Initializer:
    """`draw(key, shape, dtype)` as initializers are called."""

    def init(
        key: Array, shape: Sequence[int], dtype: Any = None, out_sharding: Any = None
    ) -> Array:
        return laid_out_as("initializer", draw(key, shape, _dtype(dtype, default)), out_sharding)

    return init


def zeros(key: Array, shape: Sequence[int], dtype: Any = None, out_sharding: Any = None) -> Array:
    """All zeros.

    >>> zeros(pyjax.random.key(0), (2,)).tolist()
    [0.0, 0.0]
    """
    return laid_out_as("zeros", jnp.zeros(shape, _dtype(dtype)), out_sharding)


def ones(key: Array, shape: Sequence[int], dtype: Any = None, out_sharding: Any = None) -> Array:
    """All ones.

    >>> ones(pyjax.random.key(0), (2,), jnp.bfloat16)
    Array([1, 1], dtype=bfloat16)
    """
    return laid_out_as("ones", jnp.ones(shape, _dtype(dtype)), out_sharding)


def constant(value: Any, dtype: Any = None) -> Initializer:
    """Every element is `value`.

    >>> constant(3.0)(pyjax.random.key(0), (2,)).tolist()
    [3.0, 3.0]
    """
    return _initializer(dtype, lambda key, shape, kind: jnp.full(shape, value, dtype=kind))


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Uniform on [0, scale).

    >>> w = uniform(scale=0.5)(pyjax.random.key(0), (1000,))
    >>> bool((w >= 0).all() and (w < 0.5).all())
    True
    """

    def draw(key: Array, shape: Sequence[int], kind: Any) -> Array:
        return random.uniform(key, shape, kind) * jnp.array(scale, kind)

    return _initializer(dtype, draw)


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Normal with mean 0 and the given standard deviation.

    >>> x = normal(stddev=0.1)(pyjax.random.key(0), (1000,))
    >>> 0.09 < float(x.std()) < 0.11
    True
    """

    def draw(key: Array, shape: Sequence[int], kind: Any) -> Array:
        return random.normal(key, shape, kind) * jnp.array(stddev, kind)

    return _initializer(dtype, draw)


def truncated_normal(
    stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0
) -> Initializer:
    """stddev times a standard normal restricted to (lower, upper).

    >>> w = truncated_normal(stddev=0.1, lower=0.0)(pyjax.random.key(0), (1000,))
    >>> bool((w > 0).all() and (w < 0.2).all())
    True
    """

    def draw(key: Array, shape: Sequence[int], kind: Any) -> Array:
        return random.truncated_normal(key, lower, upper, shape, kind) * jnp.array(stddev, kind)

    return _initializer(dtype, draw)


def _as_axes(axes: Dims) -> tuple[int, ...]:
    return (axes,) if isinstance(axes, int) else tuple(axes)


def _fans(
    shape: Sequence[int], in_axis: Dims, out_axis: Dims, batch_axis: Dims
) -> tuple[float, float]:
    """Inputs and outputs of one unit; axes in none of the lists are a receptive field."""
    if len(shape) <= 1:
        raise new_error(
            ValueError,
            f"fan-in and fan-out need at least 2 dimensions, got shape {tuple(shape)}; "
            "use normal or uniform for vectors",
        )

    def size(axes: Dims) -> int:
        return math.prod(shape[a] for a in _as_axes(axes))

    field = math.prod(shape) / (size(in_axis) * size(out_axis) * size(batch_axis))
    return size(in_axis) * field, size(out_axis) * field


# A standard normal restricted to (-2, 2) has this standard deviation.
_TRUNCATED_STDDEV = 0.87962566103423978


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: Dims = -2,
    out_axis: Dims = -1,
    batch_axis: Dims = (),
    dtype: Any = None,
) -> Initializer:
    """Random weights with variance scale / n.

    Args:
      scale: positive factor.
      mode: n is "fan_in", "fan_out", "fan_avg" or "fan_geo_avg".
      distribution: "truncated_normal", "normal" or "uniform" (complex dtypes: normal
        distributions in the plane).
      in_axis, out_axis, batch_axis: which axes of the shape count as what.
    Raises:
      ValueError: unknown mode or distribution, or at a call a shape with fewer than 2 dimensions.
    >>> init = variance_scaling(1.0, "fan_in", "normal")
    >>> w = init(pyjax.random.key(0), (400, 100))
    >>> round(float(400 * w.var()), 1)
    1.0
    """
    modes = {
        "fan_in": lambda i, o: i,
        "fan_out": lambda i, o: o,
        "fan_avg": lambda i, o: (i + o) / 2,
        "fan_geo_avg": lambda i, o: math.sqrt(i * o),
    }

    def draw(key: Array, shape: Sequence[int], kind: Any) -> Array:
        if mode not in modes:
            raise new_error(
                ValueError, f"invalid mode {mode!r}: it must be one of {', '.join(modes)}"
            )
        count = modes[mode](*_fans(shape, in_axis, out_axis, batch_axis))
        variance = jnp.array(scale / count, dtype=dtypes.finfo(kind).dtype)
        if distribution == "normal":
            return random.normal(key, shape, kind) * jnp.sqrt(variance).astype(kind)
        if distribution == "uniform":
            if dtypes.issubdtype(kind, np.floating):
                return random.uniform(key, shape, kind, -1) * jnp.sqrt(3 * variance).astype(kind)
            return _complex_uniform(key, shape, kind) * jnp.sqrt(variance).astype(kind)
        if distribution == "truncated_normal":
            if dtypes.issubdtype(kind, np.floating):
                stddev = jnp.sqrt(variance) / jnp.array(_TRUNCATED_STDDEV, variance.dtype)
                return random.truncated_normal(key, -2, 2, shape, kind) * stddev.astype(kind)
            # The disc of radius 2 holds all but exp(-4) of a complex normal.
            stddev = jnp.sqrt(variance) / jnp.array(0.95311164380491208, variance.dtype)
            return _complex_truncated_normal(key, 2, shape, kind) * stddev.astype(kind)
        raise new_error(
            ValueError,
            f"invalid distribution {distribution!r}: "
            "it must be 'truncated_normal', 'normal' or 'uniform'",
        )

    return _initializer(dtype, draw)


def _complex_uniform(key: Array, shape: Sequence[int], kind: Any) -> Array:
    """Uniform on the disc whose variance is 1."""
    key_radius, key_angle = random.split(key)
    real = dtypes.finfo(kind).dtype
    radius = jnp.sqrt(2 * random.uniform(key_radius, shape, real)).astype(kind)
    angle = (2 * np.pi * random.uniform(key_angle, shape, real)).astype(kind)
    return radius * jnp.exp(1j * angle)


def _complex_truncated_normal(key: Array, upper: Any, shape: Sequence[int], kind: Any) -> Array:
    """Complex normal restricted to |z| < upper."""
    key_radius, key_angle = random.split(key)
    real = dtypes.finfo(kind).dtype
    mass = (1 - jnp.exp(jnp.array(-(upper**2), real))) * random.uniform(key_radius, shape, real)
    radius = jnp.sqrt(-jnp.log1p(-mass)).astype(kind)
    angle = (2 * np.pi * random.uniform(key_angle, shape, real)).astype(kind)
    return radius * jnp.exp(1j * angle)


_SCALED_DOC = """{doc}

    >>> w = {name}()(pyjax.random.key(0), (200, 200))
    >>> round(float(200 * w.var()), 1)
    {scale}
    """


def _scaled(scale: float, mode: str, distribution: str, name: str, doc: str) -> Any:
    def make(
        in_axis: Dims = -2, out_axis: Dims = -1, batch_axis: Dims = (), dtype: Any = None
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = _SCALED_DOC.format(doc=doc, name=name, scale=scale)
    return make


glorot_uniform = _scaled(
    1.0,
    "fan_avg",
    "uniform",
    "glorot_uniform",
    "Uniform, variance 1/fan_avg (Glorot & Bengio 2010).",
)
glorot_normal = _scaled(
    1.0,
    "fan_avg",
    "truncated_normal",
    "glorot_normal",
    "Truncated normal, variance 1/fan_avg (Glorot & Bengio 2010).",
)
lecun_uniform = _scaled(
    1.0, "fan_in", "uniform", "lecun_uniform", "Uniform, variance 1/fan_in (LeCun et al. 1998)."
)
lecun_normal = _scaled(
    1.0,
    "fan_in",
    "truncated_normal",
    "lecun_normal",
    "Truncated normal, variance 1/fan_in (LeCun et al. 1998).",
)
he_uniform = _scaled(
    2.0, "fan_in", "uniform", "he_uniform", "Uniform, variance 2/fan_in, for relu (He et al. 2015)."
)
he_normal = _scaled(
    2.0,
    "fan_in",
    "truncated_normal",
    "he_normal",
    "Truncated normal, variance 2/fan_in, for relu (He et al. 2015).",
)
xavier_uniform = glorot_uniform
xavier_normal = glorot_normal
kaiming_uniform = he_uniform
kaiming_normal = he_normal


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Random (semi-)orthogonal matrices times `scale`; axes other than `column_axis` are flattened
    to rows (Saxe et al. 2013).
    Raises:
      ValueError: at a call, a shape with fewer than 2 dimensions.

    >>> w = orthogonal()(pyjax.random.key(0), (5, 3))
    >>> bool(jnp.allclose(w.T @ w, jnp.eye(3), atol=1e-5))
    True
    """

    def draw(key: Array, shape: Sequence[int], kind: Any) -> Array:
        if len(shape) < 2:
            raise new_error(
                ValueError, f"orthogonal needs at least 2 dimensions, got shape {tuple(shape)}"
            )
        columns = shape[column_axis]
        rows = math.prod(shape) // columns
        tall = (columns, rows) if rows < columns else (rows, columns)
        q, r = jnp.linalg.qr(random.normal(key, tall, kind))
        diagonal = jnp.diag(r)
        # Fixing the signs makes the distribution uniform (Mezzadri 2007).
        q = q * jnp.expand_dims(diagonal / jnp.abs(diagonal), -2)
        if rows < columns:
            q = q.T
        q = q.reshape(tuple(np.delete(shape, column_axis)) + (columns,))
        return jnp.array(scale, kind) * jnp.moveaxis(q, -1, column_axis)

    return _initializer(dtype, draw)


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Convolution kernels that are zero but for an orthogonal matrix at the centre (Xiao et al.
    2018).

    The shape has 3, 4 or 5 dimensions: spatial ones, then input and output features.

    Raises:
      ValueError: at a call, another number of dimensions, or more inputs than outputs.

    >>> w = delta_orthogonal()(pyjax.random.key(0), (3, 3, 2, 4))
    >>> bool((w[0] == 0).all()), bool(jnp.allclose(w[1, 1] @ w[1, 1].T, jnp.eye(2), atol=1e-5))
    (True, True)
    """

    def draw(key: Array, shape: Sequence[int], kind: Any) -> Array:
        if len(shape) not in (3, 4, 5):
            raise new_error(
                ValueError, f"delta_orthogonal needs 3, 4 or 5 dimensions, got shape {tuple(shape)}"
            )
        if shape[-1] < shape[-2]:
            raise new_error(
                ValueError,
                f"delta_orthogonal needs at least as many outputs as inputs, "
                f"got shape {tuple(shape)}",
            )
        matrix = orthogonal(scale, column_axis, kind)(key, shape[-2:])
        centre = tuple((k - 1) // 2 for k in shape[:-2])
        return jnp.zeros(shape, kind).at[centre].set(matrix)

    return _initializer(dtype, draw)
