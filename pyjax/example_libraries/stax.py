"""A small library of layers for neural networks.

A layer is a pair `(init_fun, apply_fun)`: `init_fun(rng, input_shape) -> (output_shape, params)`
makes parameters, `apply_fun(params, inputs, **kwargs)` computes. Layers that draw random numbers
when they are applied take the keyword `rng`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import pyjax.numpy as jnp
from pyjax import lax, random
from pyjax.api.eval_shape import ShapeDtypeStruct, eval_shape
from pyjax.core.errors import fail
from pyjax.nn.functions import elu as elu
from pyjax.nn.functions import gelu as gelu
from pyjax.nn.functions import leaky_relu as leaky_relu
from pyjax.nn.functions import log_softmax as log_softmax
from pyjax.nn.functions import relu as relu
from pyjax.nn.functions import selu as selu
from pyjax.nn.functions import sigmoid as sigmoid
from pyjax.nn.functions import softmax as softmax
from pyjax.nn.functions import softplus as softplus
from pyjax.nn.functions import standardize as standardize
from pyjax.nn.initializers import glorot_normal, normal, ones, zeros

Array = Any
Shape = tuple[int, ...]
Layer = tuple[Callable[..., Any], Callable[..., Any]]
glorot = glorot_normal
randn = normal
logsoftmax = log_softmax


def Dense(out_dim: int, W_init: Any = glorot_normal(), b_init: Any = normal()) -> Layer:
    """A layer x W + b along the last dimension.

    >>> init, apply = Dense(3)
    >>> shape, params = init(random.key(0), (-1, 5))
    >>> shape, apply(params, jnp.ones((2, 5))).shape
    ((-1, 3), (2, 3))
    """

    def init_fun(rng: Array, input_shape: Shape) -> Any:
        of_w, of_b = random.split(rng)
        w, b = W_init(of_w, (input_shape[-1], out_dim)), b_init(of_b, (out_dim,))
        return (*input_shape[:-1], out_dim), (w, b)

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Array:
        w, b = params
        return jnp.dot(inputs, w) + b

    return init_fun, apply_fun


def GeneralConv(
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    W_init: Any = None,
    b_init: Any = normal(1e-6),
) -> Layer:
    """A convolution with a bias for each channel.

    Args:
      dimension_numbers: letters of the dimensions of input, filter and output, such as
        ("NHWC", "HWIO", "NHWC").

    >>> init, apply = GeneralConv(("NHWC", "HWIO", "NHWC"), 8, (3, 3), padding="SAME")
    >>> shape, (w, b) = init(pyjax.random.key(0), (-1, 28, 28, 1))
    >>> shape, w.shape, b.shape
    ((-1, 28, 28, 8), (3, 3, 1, 8), (1, 1, 1, 8))
    """
    return _convolution(
        False, dimension_numbers, out_chan, filter_shape, strides, padding, W_init, b_init
    )


def GeneralConvTranspose(
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    W_init: Any = None,
    b_init: Any = normal(1e-6),
) -> Layer:
    """A transposed convolution with a bias for each channel; arguments as of `GeneralConv`.

    >>> init, apply = GeneralConvTranspose(("NHWC", "HWIO", "NHWC"), 8, (3, 3), strides=(2, 2))
    >>> init(pyjax.random.key(0), (-1, 4, 4, 1))[0]
    (-1, 9, 9, 8)
    """
    return _convolution(
        True, dimension_numbers, out_chan, filter_shape, strides, padding, W_init, b_init
    )


def _convolution(
    transposed: bool,
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None,
    padding: str,
    W_init: Any,
    b_init: Any,
) -> Layer:
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    steps = tuple(strides or (1,) * len(filter_shape))
    make = W_init or glorot_normal(rhs_spec.index("I"), rhs_spec.index("O"))

    def convolve(x: Array, w: Array) -> Array:
        run = lax.conv_transpose if transposed else lax.conv_general_dilated
        return run(x, w, steps, padding, dimension_numbers=dimension_numbers)

    def init_fun(rng: Array, input_shape: Shape) -> Any:
        sizes = iter(filter_shape)
        known = {"O": out_chan, "I": input_shape[lhs_spec.index("C")]}
        kernel = [known[c] if c in known else next(sizes) for c in rhs_spec]
        bias = [out_chan if c == "C" else 1 for c in out_spec]
        of_w, of_b = random.split(rng)
        # A batch of unknown size (-1) stays unknown.
        batch = lhs_spec.index("N")
        sample = tuple(1 if i == batch else n for i, n in enumerate(input_shape))
        found = list(_shape_after(convolve, sample, tuple(kernel)))
        found[out_spec.index("N")] = input_shape[batch]
        return tuple(found), (make(of_w, tuple(kernel)), b_init(of_b, tuple(bias)))

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Array:
        w, b = params
        return convolve(inputs, w) + b

    return init_fun, apply_fun


def _shape_after(f: Callable[..., Array], *shapes: Shape) -> Shape:
    avals = [ShapeDtypeStruct(s, jnp.float32) for s in shapes]
    return tuple(eval_shape(f, *avals).shape)


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(
    axis: int | Sequence[int] = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Any = zeros,
    gamma_init: Any = ones,
) -> Layer:
    """Means and variances over `axis` become 0 and 1, then learned ones, of this batch alone.

    >>> init, apply = BatchNorm(axis=0)
    >>> shape, params = init(pyjax.random.key(0), (2, 1))
    >>> apply(params, jnp.array([[1.0], [3.0]])).round(3).tolist()
    [[-1.0], [1.0]]
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init_fun(rng: Array, input_shape: Shape) -> Any:
        shape = tuple(n for i, n in enumerate(input_shape) if i not in axes)
        of_beta, of_gamma = random.split(rng)
        beta = beta_init(of_beta, shape) if center else ()
        gamma = gamma_init(of_gamma, shape) if scale else ()
        return input_shape, (beta, gamma)

    def apply_fun(params: Any, x: Array, **kwargs: Any) -> Array:
        beta, gamma = params
        place = tuple(None if i in axes else slice(None) for i in range(x.ndim))
        z = standardize(x, axes, epsilon=epsilon)
        z = z * gamma[place] if scale else z
        return z + beta[place] if center else z

    return init_fun, apply_fun


def elementwise(fun: Callable[..., Array], **fun_kwargs: Any) -> Layer:
    """A layer without parameters that applies a function.

    >>> elementwise(jnp.sin)[1]((), jnp.zeros(2)).tolist()
    [0.0, 0.0]
    """

    def init_fun(rng: Array, input_shape: Shape) -> Any:
        return input_shape, ()

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Array:
        return fun(inputs, **fun_kwargs)

    return init_fun, apply_fun


Tanh = elementwise(jnp.tanh)
Relu = elementwise(relu)
Exp = elementwise(jnp.exp)
LogSoftmax = elementwise(log_softmax, axis=-1)
Softmax = elementwise(softmax, axis=-1)
Softplus = elementwise(softplus)
Sigmoid = elementwise(sigmoid)
Elu = elementwise(elu)
LeakyRelu = elementwise(leaky_relu)
Selu = elementwise(selu)
Gelu = elementwise(gelu)


def _pooling(
    reducer: Any, identity: float, rescale: Any, window: Any, strides: Any, padding: str, spec: Any
) -> Layer:
    steps = tuple(strides or (1,) * len(window))
    letters = spec or "NHWC"
    sizes, stepped = [1] * len(letters), [1] * len(letters)
    places = [i for i, c in enumerate(letters) if c not in "NC"]
    for place, size, step in zip(places, window, steps, strict=True):
        sizes[place], stepped[place] = size, step

    def pooled(x: Array) -> Array:
        zero = jnp.asarray(identity, x.dtype)
        out = lax.reduce_window(x, zero, reducer, tuple(sizes), tuple(stepped), padding)
        return rescale(out, x, tuple(sizes), tuple(stepped), padding) if rescale else out

    def init_fun(rng: Array, input_shape: Shape) -> Any:
        batch = letters.index("N")
        sample = tuple(1 if i == batch else n for i, n in enumerate(input_shape))
        found = list(_shape_after(pooled, sample))
        found[batch] = input_shape[batch]
        return tuple(found), ()

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Array:
        return pooled(inputs)

    return init_fun, apply_fun


def _mean(sums: Array, x: Array, sizes: Shape, steps: Shape, padding: str) -> Array:
    """Sums by how many elements each has: padding is none of them."""
    zero = jnp.zeros((), x.dtype)
    return sums / lax.reduce_window(jnp.ones_like(x), zero, lax.add, sizes, steps, padding)


def MaxPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    spec: str | None = None,
) -> Layer:
    """The largest of each window; `spec`: letters of the dimensions, "NHWC" by default.

    >>> MaxPool((2, 2))[1]((), jnp.arange(4.0).reshape(1, 2, 2, 1)).item()
    3.0
    """
    return _pooling(lax.max, -math.inf, None, window_shape, strides, padding, spec)


def SumPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    spec: str | None = None,
) -> Layer:
    """The sum of each window.

    >>> SumPool((2, 2))[1]((), jnp.arange(4.0).reshape(1, 2, 2, 1)).item()
    6.0
    """
    return _pooling(lax.add, 0.0, None, window_shape, strides, padding, spec)


def AvgPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    spec: str | None = None,
) -> Layer:
    """The mean of each window, padding left out.

    >>> AvgPool((2, 2))[1]((), jnp.arange(4.0).reshape(1, 2, 2, 1)).item()
    1.5
    """
    return _pooling(lax.add, 0.0, _mean, window_shape, strides, padding, spec)


def _flatten() -> Layer:
    def init_fun(rng: Array, input_shape: Shape) -> Any:
        return (input_shape[0], functools.reduce(operator.mul, input_shape[1:], 1)), ()

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Array:
        return jnp.reshape(inputs, (inputs.shape[0], -1))

    return init_fun, apply_fun


def _identity() -> Layer:
    def init_fun(rng: Array, input_shape: Any) -> Any:
        return input_shape, ()

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return inputs

    return init_fun, apply_fun


Flatten = _flatten()
Identity = _identity()


def FanOut(num: int) -> Layer:
    """The input `num` times, for `parallel`.

    >>> FanOut(2)[0](pyjax.random.key(0), (-1, 3))
    ([(-1, 3), (-1, 3)], ())
    """

    def init_fun(rng: Array, input_shape: Shape) -> Any:
        return [input_shape] * num, ()

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Any:
        return [inputs] * num

    return init_fun, apply_fun


def _fan_in_sum() -> Layer:
    def init_fun(rng: Array, input_shape: Any) -> Any:
        return input_shape[0], ()

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Array:
        return functools.reduce(operator.add, inputs)

    return init_fun, apply_fun


FanInSum = _fan_in_sum()


def FanInConcat(axis: int = -1) -> Layer:
    """The inputs, concatenated along an axis.

    >>> FanInConcat()[0](pyjax.random.key(0), [(-1, 3), (-1, 4)])
    ((-1, 7), ())
    """

    def init_fun(rng: Array, input_shape: Any) -> Any:
        along = axis % len(input_shape[0])
        total = sum(shape[along] for shape in input_shape)
        first = input_shape[0]
        return (*first[:along], total, *first[along + 1 :]), ()

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Array:
        return jnp.concatenate(inputs, axis)

    return init_fun, apply_fun


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Keeps each element with probability `rate`, divided by it; mode "test" keeps all.

    Raises:
      ValueError: it is applied without the keyword `rng`, in either mode.

    >>> Dropout(0.5, mode="test")[1]((), jnp.ones(3), rng=pyjax.random.key(0)).tolist()
    [1.0, 1.0, 1.0]
    >>> kept = Dropout(0.5)[1]((), jnp.ones(100), rng=pyjax.random.key(0))
    >>> sorted(set(kept.tolist()))
    [0.0, 2.0]
    """

    def init_fun(rng: Array, input_shape: Shape) -> Any:
        return input_shape, ()

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Array:
        rng = kwargs.get("rng")
        if rng is None:
            fail(
                ValueError,
                "Dropout layer requires apply_fun to be called with a PRNG key argument.",
                "It draws random numbers when it is applied.",
                "Instead of `apply_fun(params, inputs)`, call `apply_fun(params, inputs, rng=rng)` "
                "where `rng` is a PRNG key (e.g. from `jax.random.key`).",
            )
        if mode != "train":
            return inputs
        keep = random.bernoulli(rng, rate, inputs.shape)
        return jnp.where(keep, inputs / rate, 0)

    return init_fun, apply_fun


def serial(*layers: Layer) -> Layer:
    """Layers one after the other.

    >>> init, apply = serial(Dense(4), Relu, Dense(2), LogSoftmax)
    >>> shape, params = init(random.key(0), (-1, 3))
    >>> shape, len(params)
    ((-1, 2), 4)
    """
    inits, applies = [a for a, _ in layers], [b for _, b in layers]

    def init_fun(rng: Array, input_shape: Any) -> Any:
        params = []
        for init in inits:
            rng, of_layer = random.split(rng)
            input_shape, found = init(of_layer, input_shape)
            params.append(found)
        return input_shape, params

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rng = kwargs.pop("rng", None)
        rngs = random.split(rng, len(layers)) if rng is not None else [None] * len(layers)
        for apply, found, of_layer in zip(applies, params, rngs, strict=True):
            inputs = apply(found, inputs, rng=of_layer, **kwargs)
        return inputs

    return init_fun, apply_fun


def parallel(*layers: Layer) -> Layer:
    """Layers side by side: a list of inputs gives a list of outputs.

    >>> init, apply = serial(FanOut(2), parallel(Identity, Tanh), FanInConcat())
    >>> shape, params = init(pyjax.random.key(0), (-1, 1))
    >>> shape, apply(params, jnp.zeros((1, 1))).tolist()
    ((-1, 2), [[0.0, 0.0]])
    """
    inits, applies = [a for a, _ in layers], [b for _, b in layers]

    def init_fun(rng: Array, input_shape: Any) -> Any:
        rngs = random.split(rng, len(layers))
        made = [init(k, s) for init, k, s in zip(inits, rngs, input_shape, strict=True)]
        return [shape for shape, _ in made], [params for _, params in made]

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rng = kwargs.pop("rng", None)
        rngs = random.split(rng, len(layers)) if rng is not None else [None] * len(layers)
        return [
            apply(p, x, rng=k, **kwargs)
            for apply, p, x, k in zip(applies, params, inputs, rngs, strict=True)
        ]

    return init_fun, apply_fun


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """A layer that is made when the shape of its input is known.

    >>> init, apply = shape_dependent(lambda shape: Dense(2 * shape[-1]))
    >>> init(pyjax.random.key(0), (-1, 3))[0]
    (-1, 6)
    """

    def init_fun(rng: Array, input_shape: Any) -> Any:
        return make_layer(input_shape)[0](rng, input_shape)

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        shapes = [x.shape for x in inputs] if isinstance(inputs, (list, tuple)) else inputs.shape
        return make_layer(shapes)[1](params, inputs, **kwargs)

    return init_fun, apply_fun
