"""resize, and scale_and_translate: arrays sampled on other grids. Layer: image."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import partial
from typing import Any

from pyjax import lax
from pyjax import numpy as jnp
from pyjax.api.jit import jit
from pyjax.core.errors import new_error
from pyjax.image import kernels
from pyjax.lax.dot_types import canonicalize_precision
from pyjax.numpy.util import check_arraylike, promote_dtypes_inexact

Array = Any
ArrayLike = Any


class ResizeMethod(enum.Enum):
    """How an element of the result is made of elements of the image.

    NEAREST takes one of them. LINEAR, CUBIC (Keys, with slope -0.5) and LANCZOS3, LANCZOS5
    (windowed sinc functions of that radius) weigh them by their distance. CUBIC_PYTORCH is CUBIC
    with antialias=True; else it has slope -0.75, and repeats the elements at the borders, which is
    what PyTorch does. AREA takes the mean of what the element of the result covers.

    >>> ResizeMethod.from_string("bilinear")
    <ResizeMethod.LINEAR: 1>
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of that name.

        Raises:
          ValueError: there is none; the message lists them.
        """
        found = _NAMES.get(s)
        if found is None:
            raise new_error(
                ValueError, f'Unknown resize method "{s}"; use one of {", ".join(_NAMES)}.'
            )
        return found


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch"), ResizeMethod.CUBIC_PYTORCH),
    "area": ResizeMethod.AREA,
}

_KERNELS = {
    ResizeMethod.LINEAR: kernels.triangle,
    ResizeMethod.LANCZOS3: kernels.lanczos(3),
    ResizeMethod.LANCZOS5: kernels.lanczos(5),
    ResizeMethod.CUBIC: kernels.cubic(-0.5),
    ResizeMethod.CUBIC_PYTORCH: kernels.cubic(-0.5),
}
_PYTORCH_UNFILTERED = kernels.cubic(-0.75)


def resize(
    image: ArrayLike,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Array:
    """An image of another size.

    The outer borders stay where they are; elements are squares that touch, so the factor of an
    axis is shape[d] / image.shape[d] exactly, and samples are centres of squares. Axes whose size
    stays are not touched.

    Args:
      image: array of any rank and dtype.
      shape: of the result, one size per axis.
      method: a ResizeMethod, or one of the names that `ResizeMethod.from_string` lists.
      antialias: where the result is smaller, stretch the kernel over what an element of the result
        covers; else finer detail than that shows as false patterns. NEAREST and AREA know no other
        way.
      precision: of the products with the weights (`lax.Precision`).
    Returns:
      Array of that shape; of the image's dtype for NEAREST, else inexact.
    Raises:
      ValueError: `shape` has another length than image.shape, has negative sizes, or makes
        elements of an axis without any; or the method has an unknown name.
      TypeError: the image is no array, or the method none.

    >>> import pyjax.numpy as jnp
    >>> resize(jnp.array([0.0, 1.0]), (4,), "linear").tolist()
    [0.0, 0.25, 0.75, 1.0]
    >>> resize(jnp.arange(4), (2,), "nearest").tolist()
    [1, 3]
    """
    check_arraylike("resize", image)
    image, shape = jnp.asarray(image), _checked_shape("resize", image, shape)
    return _resized(image, shape, _method(method), antialias, canonicalize_precision(precision))


@partial(jit, static_argnums=(1, 2, 3, 4))
def _resized(
    image: Array, shape: tuple[int, ...], method: ResizeMethod, antialias: bool, precision: Any
) -> Array:
    axes = [d for d, size in enumerate(image.shape) if size != shape[d]]
    if method is ResizeMethod.NEAREST:
        return _nearest(image, shape, axes)
    (image,) = promote_dtypes_inexact(image)
    real = _real_dtype(image)
    scale = [jnp.asarray(shape[d] / image.shape[d], real) for d in axes]
    still = [jnp.zeros((), real)] * len(axes)
    return _sampled(image, shape, axes, scale, still, method, antialias, precision)


def _nearest(image: Array, shape: tuple[int, ...], axes: Sequence[int]) -> Array:
    for d in axes:
        size = image.shape[d]
        # In integers: the element that holds the sample at (i + 1/2) size / shape[d].
        wanted = [(2 * i + 1) * size // (2 * shape[d]) for i in range(shape[d])]
        image = jnp.take(image, jnp.asarray(wanted, "int32"), axis=d, mode="clip")
    return image


def scale_and_translate(
    image: ArrayLike,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: ArrayLike,
    translation: ArrayLike,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Array:
    """An image under x -> x * scale + translation, on a grid of another size.

    Coordinates are those of borders between elements: the image reaches from 0 to its size.
    Elements of the result whose centres lie outside the image are 0. It can be differentiated in
    the image, the scale and the translation.

    Args:
      image: array of any rank and dtype.
      shape: of the result, one size per axis.
      spatial_dims: the axes that are scaled and moved; the others keep their sizes.
      scale, translation: one number per axis of `spatial_dims`.
      method, antialias, precision: as for `resize`, NEAREST excepted.
    Returns:
      Array of that shape, inexact.
    Raises:
      ValueError: `shape` has another length than image.shape; an axis does not exist, or occurs
        twice; another axis changes its size; `scale` or `translation` has another shape; NEAREST.
      TypeError: an argument is no array, or the method none.

    >>> import pyjax.numpy as jnp
    >>> one, half = jnp.ones(1), jnp.full(1, 0.5)
    >>> scale_and_translate(jnp.array([0.0, 2.0, 4.0]), (3,), (0,), one, half, "linear").tolist()
    [0.0, 1.0, 3.0]
    """
    check_arraylike("scale_and_translate", image, scale, translation)
    image, scale, translation = map(jnp.asarray, (image, scale, translation))
    shape = _checked_shape("scale_and_translate", image, shape)
    axes = _checked_axes(image, shape, spatial_dims)
    for name, value in (("scale", scale), ("translation", translation)):
        if value.shape != (len(axes),):
            raise new_error(
                ValueError,
                f"scale_and_translate: {name} has shape {value.shape}, and spatial_dims names "
                f"{len(axes)} axes; give it the shape ({len(axes)},).",
            )
    method = _method(method)
    if method is ResizeMethod.NEAREST:
        raise new_error(
            ValueError,
            "Nearest neighbor resampling is not currently supported for scale_and_translate. Use "
            "resize, or another method.",
        )
    precision = canonicalize_precision(precision)
    return _moved(image, shape, axes, scale, translation, method, antialias, precision)


@partial(jit, static_argnums=(1, 2, 5, 6, 7))
def _moved(
    image: Array,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    scale: Array,
    translation: Array,
    method: ResizeMethod,
    antialias: bool,
    precision: Any,
) -> Array:
    image, scale, translation = promote_dtypes_inexact(image, scale, translation)
    real = _real_dtype(image)
    scales, translations = (
        [value[i].astype(real) for i in range(len(axes))] for value in (scale, translation)
    )
    return _sampled(image, shape, axes, scales, translations, method, antialias, precision)


def _sampled(
    image: Array,
    shape: Sequence[int],
    axes: Sequence[int],
    scales: Sequence[Array],
    translations: Sequence[Array],
    method: ResizeMethod,
    antialias: bool,
    precision: Any,
) -> Array:
    """The image times a matrix of weights along each of the axes."""
    for d, scale, translation in zip(axes, scales, translations):
        sizes = image.shape[d], shape[d]
        weights = _weights(*sizes, scale, translation, method, antialias).astype(image.dtype)
        product = lax.dot_general(image, weights, (((d,), (0,)), ((), ())), precision=precision)
        image = jnp.moveaxis(product, -1, d)
    return image


def _weights(
    input_size: int,
    output_size: int,
    scale: Array,
    translation: Array,
    method: ResizeMethod,
    antialias: bool,
) -> Array:
    args = input_size, output_size, scale, translation
    if method is ResizeMethod.AREA:
        return kernels.covered(*args)
    if method is ResizeMethod.CUBIC_PYTORCH and not antialias:
        return kernels.repeated(*args, _PYTORCH_UNFILTERED, reach=2)
    return kernels.sampled(*args, _KERNELS[method], antialias)


def _real_dtype(image: Array) -> Any:
    """In which weights are computed: half precision would not tell positions apart."""
    return jnp.promote_types(jnp.finfo(image.dtype).dtype, jnp.float32)


def _method(method: str | ResizeMethod) -> ResizeMethod:
    if isinstance(method, str):
        return ResizeMethod.from_string(method)
    if isinstance(method, ResizeMethod):
        return method
    raise new_error(
        TypeError,
        f"method must be a ResizeMethod or the name of one, got {method!r}; write 'linear', say.",
    )


def _checked_shape(name: str, image: Any, shape: Sequence[int]) -> tuple[int, ...]:
    old, new = jnp.shape(image), tuple(map(int, shape))
    if len(new) != len(old):
        raise new_error(
            ValueError,
            f"{name}: shape must have length equal to the number of dimensions of x;  {new} vs "
            f"{old}",
        )
    for d, (before, after) in enumerate(zip(old, new)):
        if after < 0 or (before == 0 and after > 0):
            raise new_error(
                ValueError, f"{name}: axis {d} of size {before} cannot get size {after}."
            )
    return new


def _checked_axes(
    image: Array, shape: tuple[int, ...], spatial_dims: Sequence[int]
) -> tuple[int, ...]:
    ndim = image.ndim
    for d in spatial_dims:
        if not -ndim <= d < ndim:
            raise new_error(ValueError, f"axis {d} is out of bounds for array of dimension {ndim}")
    axes = tuple([d % ndim for d in spatial_dims])
    if len(set(axes)) != len(axes):
        raise new_error(
            ValueError,
            f"scale_and_translate: spatial_dims {tuple(spatial_dims)} names an axis twice; "
            "multiply the scales instead.",
        )
    for d, (before, after) in enumerate(zip(image.shape, shape)):
        if d not in axes and before != after:
            raise new_error(
                ValueError,
                f"scale_and_translate: axis {d} is not among spatial_dims {tuple(spatial_dims)}, "
                f"but its size {before} becomes {after}. Name it, or keep its size.",
            )
    return axes
