"""Products, convolutions, windows, linear algebra, Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import programs
from benchmarks.suite.package import (
    FRAMEWORK,
    Made,
    add,
    add_all,
    jax,
    jnp,
    lax,
    linalg,
    normal,
    on,
    positive_definite,
    program,
)


def _product(a: Any, b: Any) -> Any:
    return a @ b


for _name, _left, _right in (
    ("32²", (32, 32), (32, 32)),
    ("128²", (128, 128), (128, 128)),
    ("256²", (256, 256), (256, 256)),
    ("512²", (512, 512), (512, 512)),
    ("1024²", (1024, 1024), (1024, 1024)),
    ("4×4096 by 4096²", (4, 4096), (4096, 4096)),
    ("4096² by a vector", (4096, 4096), (4096,)),
    ("64×100000 by 100000×64", (64, 100_000), (100_000, 64)),
    ("64 of 64²", (64, 64, 64), (64, 64, 64)),
):
    add("products", f"product, {_name}", on(_product, _left, _right))
add(
    "products",
    "product, 512² in bf16",
    on(_product, (512, 512), (512, 512), dtype=jnp.bfloat16),
    tolerance=2e-2,
)
add(
    "products",
    "product, 512² in bf16, into f32",
    on(
        lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.float32),
        *((512, 512), (512, 512)),
        dtype=jnp.bfloat16,
    ),
)
add("products", "product of transposes, 512²", on(lambda a, b: a.T @ b.T, (512, 512), (512, 512)))
add("products", "outer product, 2048", on(jnp.outer, (2048,), (2048,)))
add(
    "products",
    "einsum abc,cd,bde->ae",
    on(lambda x, y, z: jnp.einsum("abc,cd,bde->ae", x, y, z), (64, 32, 48), (48, 40), (32, 40, 56)),
)


@program("products", "product, 512² of 8-bit integers")
def _eight_bits() -> Made:
    rng = np.random.default_rng(0)
    a, b = (jnp.asarray(rng.integers(-100, 100, (512, 512)).astype(np.int8)) for _ in range(2))
    return lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32), (a, b)


def _conv(layout: tuple[str, str, str], strides: tuple[int, ...], **how: Any) -> Any:
    return lambda x, w: lax.conv_general_dilated(
        x, w, strides, "SAME", dimension_numbers=layout, **how
    )


_LAST = ("NHWC", "HWIO", "NHWC")
add_all(
    "convolutions and windows",
    [
        (
            "convolution 1D, 8×1000×64",
            _conv(("NWC", "WIO", "NWC"), (1,)),
            [(8, 1000, 64), (5, 64, 64)],
        ),
        (
            "convolution 3D, 2×16×32×32×16",
            _conv(("NDHWC", "DHWIO", "NDHWC"), (1, 1, 1)),
            [(2, 16, 32, 32, 16), (3, 3, 3, 16, 16)],
        ),
        ("convolution 3×3, 8×28×28×64", _conv(_LAST, (1, 1)), [(8, 28, 28, 64), (3, 3, 64, 64)]),
        ("convolution 1×1, 8×28×28×256", _conv(_LAST, (1, 1)), [(8, 28, 28, 256), (1, 1, 256, 64)]),
        (
            "convolution 7×7 stride 2, 4×112×112×3",
            _conv(_LAST, (2, 2)),
            [(4, 112, 112, 3), (7, 7, 3, 64)],
        ),
        (
            "dilated convolution, 4×56×56×32",
            _conv(_LAST, (1, 1), rhs_dilation=(2, 2)),
            [(4, 56, 56, 32), (3, 3, 32, 32)],
        ),
        (
            "grouped convolution, 8×28×28×64",
            _conv(_LAST, (1, 1), feature_group_count=4),
            [(8, 28, 28, 64), (3, 3, 16, 64)],
        ),
    ],
)
add(
    "convolutions and windows",
    "convolution 3×3, 8×32×32×32 (NCHW)",
    lambda: programs.dense_conv(FRAMEWORK),
)
add(
    "convolutions and windows",
    "depthwise convolution, 8×56×56×64",
    lambda: programs.depthwise_conv(FRAMEWORK),
)
add(
    "convolutions and windows",
    "gradient by filters, 8×28×28×64",
    on(
        jax.grad(lambda w, x: (_conv(_LAST, (1, 1))(x, w) ** 2).sum()),
        (3, 3, 64, 64),
        (8, 28, 28, 64),
    ),
)
add(
    "convolutions and windows",
    "max pooling 2×2, 16×64×64×64",
    on(
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        (16, 64, 64, 64),
    ),
)
add(
    "convolutions and windows",
    "average pooling 3×3 stride 1, 8×56×56×32",
    on(
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME"),
        (8, 56, 56, 32),
    ),
)
add(
    "convolutions and windows",
    "moving sums of 101 of 100,000",
    on(lambda x: lax.reduce_window(x, 0.0, lax.add, (101,), (1,), "SAME"), (100_000,)),
)
add(
    "convolutions and windows",
    "resize 8×64×64×16 to 128×128",
    on(lambda x: jax.image.resize(x, (8, 128, 128, 16), "bilinear"), (8, 64, 64, 16)),
)


def _of_definite(fun: Callable[[Any], Any], shape: tuple[int, ...]) -> Callable[[], Made]:
    return lambda: (fun, (positive_definite(*shape),))


_FACTORS: list[tuple[str, Callable[[Any], Any], tuple[int, ...]]] = [
    ("Cholesky, 512", jnp.linalg.cholesky, (512, 512)),
    ("Cholesky, 1000 of 8", jnp.linalg.cholesky, (1000, 8, 8)),
    ("eigh, 256: values", lambda a: jnp.linalg.eigh(a)[0], (256, 256)),
    ("eigh, 1000 of 3: values", lambda a: jnp.linalg.eigh(a)[0], (1000, 3, 3)),
    ("inverse, 1000 of 3", jnp.linalg.inv, (1000, 3, 3)),
    ("inverse, 256", jnp.linalg.inv, (256, 256)),
    ("determinants, 1000 of 3", jnp.linalg.det, (1000, 3, 3)),
    ("singular values, 256", lambda a: jnp.linalg.svd(a, compute_uv=False), (256, 256)),
    ("SVD, 256: product", lambda a: (lambda u, s, v: (u * s) @ v)(*jnp.linalg.svd(a)), (256, 256)),
    ("QR, 256: product", lambda a: (lambda q, r: q @ r)(*jnp.linalg.qr(a)), (256, 256)),
    ("expm, 64", lambda a: linalg.expm(a / 64), (64, 64)),
    ("expm, 256", lambda a: linalg.expm(a / 256), (256, 256)),
]
for _name, _fun, _shape in _FACTORS:
    add(
        "linear algebra",
        _name,
        _of_definite(_fun, _shape),
        tolerance=1e-3,
    )


@program(
    "convolutions and windows", "gradient by weights, 1-D, 8×1000×64, five taps", tolerance=1e-3
)
def _line_gradient() -> Made:
    def convolved(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))

    def gradient(x: Any, w: Any, g: Any) -> Any:
        return jax.vjp(lambda w: convolved(x, w), w)[1](g)[0]

    return gradient, (normal(8, 1000, 64), normal(5, 64, 64), normal(8, 1000, 64, seed=1))


@program("convolutions and windows", "group norm, 8×32×32×64, 8 groups")
def _group_norm() -> Made:
    def normalised(x: Any, scale: Any) -> Any:
        y = x.reshape(8, 32, 32, 8, 8)
        mean, variance = (f((1, 2, 4), keepdims=True) for f in (y.mean, y.var))
        return ((y - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape) * scale

    return normalised, (normal(8, 32, 32, 64), normal(64))


def _last_layer(x: Any, w: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)


def _last_layer_by_weights(x: Any, w: Any, g: Any) -> Any:
    return jax.vjp(lambda w: _last_layer(x, w), w)[1](g)[0]


add_all(
    "convolutions and windows",
    [
        ("convolution 3×3, 1×7×7×512", _last_layer, [(1, 7, 7, 512), (3, 3, 512, 512)]),
        (
            "gradient by weights, 3×3, 1×7×7×512",
            _last_layer_by_weights,
            [(1, 7, 7, 512), (3, 3, 512, 512), (1, 7, 7, 512)],
        ),
    ],
)
add_all(
    "products",
    [
        (
            "1000 of 16² by a vector each",
            lambda a, x: jnp.einsum("nij,nj->ni", a, x),
            [(1000, 16, 16), (1000, 16)],
        )
    ],
)


@program("linear algebra", "solve, 512", tolerance=1e-3)
def _solve() -> Made:
    return jnp.linalg.solve, (positive_definite(512, 512), normal(512))


@program("linear algebra", "solve, 1000 of 4", tolerance=1e-3)
def _solves() -> Made:
    return jnp.linalg.solve, (positive_definite(1000, 4, 4), normal(1000, 4, 1))


@program("linear algebra", "triangular solve, 512 by 512", tolerance=1e-3)
def _triangular() -> Made:
    lower = jnp.tril(positive_definite(512, 512))
    return lambda a, b: linalg.solve_triangular(a, b, lower=True), (lower, normal(512, 512))


def _convolved(x: Any, k: Any) -> Any:
    return jnp.fft.irfft(jnp.fft.rfft(x, 8192) * jnp.fft.rfft(k, 8192), 8192)[:, :4096]


add_all(
    "Fourier transforms",
    [
        ("FFT of 512², both axes", jnp.fft.fft2, (512, 512)),
        ("1000 FFTs of length 1000", jnp.fft.fft, (1000, 1000)),
        ("100 FFTs of length 1009", jnp.fft.fft, (100, 1009)),
        ("real FFT of 1M", jnp.fft.rfft, (1 << 20,)),
        ("filter by FFT, 64 of 4096", lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 0.5), (64, 4096)),
        ("convolution by real FFT, 64 of 4096 by 512", _convolved, [(64, 4096), (512,)]),
    ],
)
