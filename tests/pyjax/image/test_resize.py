"""resize and scale_and_translate: recorded weights, and what holds for any of them."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax
from pyjax import image
from pyjax import numpy as jnp

# Rows of the matrix that makes 4 elements of 6, half of it: the other half is its mirror image.
FILTERED = {
    "nearest": [[1, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]],
    "linear": [[0.625, 0.375, 0, 0, 0, 0], [0, 0.333333, 0.555556, 0.111111, 0, 0]],
    "lanczos3": [
        [0.662122, 0.423667, -0.073124, -0.029612, 0.016947, 0],
        [-0.069467, 0.402481, 0.629012, 0.110995, -0.08944, 0.016419],
    ],
    "lanczos5": [
        [0.660104, 0.433658, -0.086237, -0.047678, 0.056134, -0.015981],
        [-0.082584, 0.41529, 0.632145, 0.120952, -0.120805, 0.035003],
    ],
    "cubic": [
        [0.65534, 0.393204, -0.040453, -0.008091, 0, 0],
        [-0.038285, 0.372129, 0.620214, 0.087289, -0.041348, 0],
    ],
    "cubic-pytorch": [
        [0.65534, 0.393204, -0.040453, -0.008091, 0, 0],
        [-0.038285, 0.372129, 0.620214, 0.087289, -0.041348, 0],
    ],
    "area": [[0.666667, 0.333333, 0, 0, 0, 0], [0, 0.333333, 0.666667, 0, 0, 0]],
}
UNFILTERED = {
    **FILTERED,
    "linear": [[0.75, 0.25, 0, 0, 0, 0], [0, 0.25, 0.75, 0, 0, 0]],
    "lanczos3": [
        [0.809283, 0.245667, -0.061638, 0.006688, 0, 0],
        [-0.068503, 0.273025, 0.899407, -0.134265, 0.030336, 0],
    ],
    "lanczos5": [
        [0.805751, 0.25982, -0.09366, 0.042044, -0.016187, 0.002232],
        [-0.108669, 0.301458, 0.934879, -0.169032, 0.072872, -0.031508],
    ],
    "cubic": [
        [0.810219, 0.211679, -0.021898, 0, 0, 0],
        [-0.023438, 0.226562, 0.867188, -0.070312, 0, 0],
    ],
    "cubic-pytorch": [
        [0.773438, 0.261719, -0.035156, 0, 0, 0],
        [-0.035156, 0.261719, 0.878906, -0.105469, 0, 0],
    ],
}
METHODS = tuple(FILTERED)


@pytest.mark.parametrize("antialias", (True, False))
@pytest.mark.parametrize("method", METHODS)
def test_weights(method: str, antialias: bool) -> None:
    half = np.array((FILTERED if antialias else UNFILTERED)[method])
    wanted = np.concatenate([half, half[::-1, ::-1]])
    if method == "nearest":  # a sample on a border belongs to the element behind it
        wanted[2:] = [[0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1]]
    found = image.resize(np.eye(6, dtype=np.float32), (4, 6), method, antialias)
    np.testing.assert_allclose(found, wanted, atol=2e-6)


# Columns of scale_and_translate(identity of 4, 6 elements, scale 1.5, translation 0.3).
MOVED = {
    "linear": [[1, 0.7, 1 / 30, 0, 0, 0], [0, 0.3, 29 / 30, 11 / 30, 0, 0]],
    "area": [[1, 0.8, 0, 0, 0, 0], [0, 0.2, 1, 0.3, 0, 0]],
}


@pytest.mark.parametrize("method", MOVED)
def test_moved_weights(method: str) -> None:
    scale, move = jnp.array([1.5]), jnp.array([0.3])
    found = image.scale_and_translate(np.eye(4, dtype="f4"), (6, 4), (0,), scale, move, method)
    np.testing.assert_allclose(found[:, :2].T, MOVED[method], atol=2e-6)


def test_outside_the_image_is_nothing() -> None:
    found = image.scale_and_translate(
        jnp.ones(4), (8,), (0,), jnp.ones(1), jnp.full(1, 2.0), "cubic"
    )
    np.testing.assert_allclose(found, [0, 0, 1, 1, 1, 1, 0, 0], atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_maps_and_half_precision(method: str) -> None:
    x = np.random.RandomState(0).randn(3, 5, 4).astype(np.float32)
    whole = image.resize(x, (3, 2, 7), method)
    mapped = pyjax.vmap(lambda y: image.resize(y, (2, 7), method))(x)
    np.testing.assert_allclose(mapped, whole, rtol=1e-5, atol=1e-6)
    half = image.resize(x.astype(jnp.bfloat16), (3, 2, 7), method)
    assert half.dtype == jnp.bfloat16
    np.testing.assert_allclose(half.astype("float32"), whole, rtol=0.03, atol=0.03)


@pytest.mark.parametrize("method", METHODS[1:])
def test_derivatives(method: str) -> None:
    x = np.random.RandomState(1).randn(4).astype(np.float32)

    def loss(x, scale, move):
        return jnp.sum(image.scale_and_translate(x, (5,), (0,), scale, move, method) ** 2)

    args = x, jnp.array([0.77]), jnp.array([0.61])
    pyjax.test_util.check_grads(loss, args, 1, ("fwd", "rev"), atol=0.03, rtol=0.03, eps=2e-3)


def test_dtypes() -> None:
    assert image.resize(np.arange(4), (2,), "linear").dtype == jnp.float32
    assert image.resize(np.arange(4, dtype="i2"), (2,), "nearest").dtype == jnp.int16
    assert image.resize(np.ones(4, "c8"), (2,), "area").dtype == jnp.complex64
    assert image.resize(np.ones(4, "f4"), (0,), "linear").shape == (0,)
    assert image.resize(np.ones((0, 2), "f4"), (0, 3), "linear").shape == (0, 3)
    with pyjax.enable_x64(True):
        assert image.resize(np.ones(4), (2,), "linear").dtype == jnp.float64


def test_strict_modes() -> None:
    with pyjax.numpy_rank_promotion("raise"), pyjax.numpy_dtype_promotion("strict"):
        for method in METHODS:
            image.resize(np.ones((4, 3), "f4"), (2, 5), method, antialias=False)


_ONE = np.ones(1, "f4")


@pytest.mark.parametrize(
    "call, error, message",
    (
        (lambda: image.resize(np.ones(4), (8, 2), "linear"), ValueError, r"\(8, 2\) vs \(4,\)"),
        (lambda: image.resize(np.ones(4), (-1,), "linear"), ValueError, "size 4 cannot get size"),
        (lambda: image.resize(np.ones(0), (3,), "nearest"), ValueError, "size 0 cannot get size"),
        (lambda: image.resize(np.ones(4), (3,), "foo"), ValueError, 'method "foo"; use one of'),
        (lambda: image.resize(np.ones(4), (3,), 3), TypeError, "a ResizeMethod or the name"),
        (lambda: image.resize([1.0, 2.0], (3,), "linear"), TypeError, "resize requires"),
        (
            lambda: image.scale_and_translate(np.ones(4), (3,), (0,), _ONE, _ONE, "nearest"),
            ValueError,
            "Nearest neighbor resampling",
        ),
        (
            lambda: image.scale_and_translate(np.ones(4), (3,), (1,), _ONE, _ONE, "linear"),
            ValueError,
            "axis 1 is out of bounds",
        ),
        (
            lambda: image.scale_and_translate(np.ones(4), (3,), (0,), np.ones(2), _ONE, "linear"),
            ValueError,
            r"scale has shape \(2,\)",
        ),
        (
            lambda: image.scale_and_translate(np.ones((4, 3)), (6, 2), (0,), _ONE, _ONE, "linear"),
            ValueError,
            "axis 1 is not among spatial_dims",
        ),
        (
            lambda: image.scale_and_translate(
                np.ones((4, 3)), (6, 3), (0, -2), np.ones(2), np.ones(2), "linear"
            ),
            ValueError,
            "names an axis twice",
        ),
    ),
)
def test_errors(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()
