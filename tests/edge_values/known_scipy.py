"""Known differences of `scipy` (but `scipy.special`), `image` and `ops`."""

# ruff: noqa: E501 - the key of a case stays in one piece

from __future__ import annotations

from tests.edge_values.known_difference import Difference

SCIPY: tuple[Difference, ...] = (
    Difference(
        cases=(
            "image.resize f(e2, (2, 2), 'linear') *",
            "image.scale_and_translate f(m, (5, 6), (0,), unit[1:3] + 1, unit[2:4], 'linear') *",
            "scipy.fft.dct f(v, n=0) *",
            "scipy.fft.idct f(v, n=0) *",
        ),
        modes="value",
        title="Classes of exceptions (scipy and image)",
        reason="pyjax raises ValueError for shapes and values that do not fit; JAX raises the error of "
        "what fails on the way.",
        example="image.resize f(e2, (2, 2), 'linear') float32",
    ),
    Difference(
        cases=(
            "image.scale_and_translate f(m, (5, 6), (0, 1), unit[1:3] + 1, unit[2:4], 'cubic') float16",
        ),
        modes="value jit vmap",
        title="Weights of images in half precision",
        reason="Weights of neighbours are computed in float32; in JAX they are sums of halves.",
        example="image.scale_and_translate f(m, (5, 6), (0, 1), unit[1:3] + 1, unit[2:4], 'cubic') float16",
    ),
    Difference(
        cases=(
            "scipy.fft.dctn f(m, s=(2,), axes=(0, 1)) *",
            "scipy.fft.idctn f(m, s=(2,), axes=(0, 1)) *",
            "scipy.signal.fftconvolve f(v, e) *",
        ),
        modes="value jit vmap vjp",
        title="Refused where JAX gives a result (scipy)",
        reason="As in SciPy, `s` has a size for each axis; a convolution with nothing is not zeros of "
        "some length (SciPy's is empty), so it is refused as by `convolve`.",
        example="scipy.fft.dctn f(m, s=(2,), axes=(0, 1)) float32",
    ),
    Difference(
        cases=(
            "scipy.fft.dct f(e) *",
            "scipy.fft.idct f(e) *",
            "scipy.signal.istft f(jax.scipy.signal.stft(m, nperseg=3)[2], nperseg=3) *",
        ),
        modes="value",
        title="Accepted where JAX raises an error (scipy)",
        reason="Transforms of nothing are nothing. Segments of an odd length overlap by half of it, "
        "rounded down, in `istft` as in `stft`.",
        example="scipy.fft.dct f(e) float32",
    ),
)
