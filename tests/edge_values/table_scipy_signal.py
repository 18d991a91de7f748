"""`scipy.signal` and `scipy.fft`."""

from __future__ import annotations

from tests.edge_values.rows import GRAD, Row, tabulated

_ONE_AXIS = [
    "f(v, x[:3])",
    "f(x[:3], v)",
    *(f"f(v, x[:3], mode={m!r})" for m in ("same", "valid", "no")),
    "f(v, x[:4], mode='same')",
    "f(x[:3], v, mode='valid')",
    "f(m, m[:2, :2])",
    "f(m, m[:2, :2], mode='same')",
    "f(v, e)",
    "f(v, m)",
    "f(w, v[:2])",
    "f(v, x[:3], method='fft')",
    "f(v, x[:3], method='no')",
]
_TWO_AXES = [
    "f(m, q)",
    "f(m, q[:2, :2], mode='same')",
    "f(m, q, mode='valid')",
    "f(m, q, mode='no')",
    "f(m, q, boundary='wrap')",
    "f(m, q, fillvalue=2)",
    "f(v, v)",
    "f(m, e2)",
]
_SPECTRA = ["nperseg=4", "nperseg=4, fs=2.0", "nperseg=4, noverlap=1", "nperseg=4, nfft=8"]

SIGNAL = {
    "convolve": _ONE_AXIS,
    "correlate": _ONE_AXIS,
    "convolve2d": _TWO_AXES,
    "correlate2d": _TWO_AXES,
    "fftconvolve": [
        "f(v, x[:3])",
        "f(v, x[:3], mode='same')",
        "f(v, x[:3], mode='valid')",
        "f(m, m, axes=1)",
        "f(m, q[:, :2], axes=(1,))",
        "f(v, e)",
        "f(v, m)",
        "f(v, x, mode='no')",
        "f(m, m, axes=2)",
    ],
    "detrend": [
        "f(v)",
        "f(m)",
        "f(m, axis=0)",
        "f(v, type='constant')",
        "f(v, bp=3)",
        "f(v, bp=(2, 5))",
        "f(v, bp=9)",
        "f(v, type='no')",
        "f(w)",
    ],
    "stft": [
        *(f"f(v, {o})" for o in _SPECTRA),
        "f(v, nperseg=4, window='boxcar')",
        "f(v, nperseg=4, window=('tukey', 0.5))",
        "f(v, nperseg=4, boundary=None)",
        "f(v, nperseg=4, boundary='even')",
        "f(v, nperseg=4, boundary='odd')",
        "f(v, nperseg=4, boundary='constant')",
        "f(v, nperseg=4, boundary='no')",
        "f(v, nperseg=4, padded=False)",
        "f(v, nperseg=4, return_onesided=False)",
        "f(v, nperseg=4, detrend='constant')",
        "f(m, nperseg=3, axis=0)",
        "f(v, nperseg=4, noverlap=4)",
        "f(e, nperseg=4)",
    ],
    "istft": [
        "f(jax.scipy.signal.stft(v, nperseg=4)[2], nperseg=4)",
        "f(jax.scipy.signal.stft(v, nperseg=4)[2], nperseg=4, boundary=False)",
        "f(jax.scipy.signal.stft(m, nperseg=3)[2], nperseg=3)",
        "f(v)",
        "f(m + 0j, nperseg=4)",
        "f(m + 0j, nperseg=4, noverlap=4)",
    ],
    "csd": [
        *(f"f(v, x, {o})" for o in _SPECTRA),
        "f(v, None, nperseg=4)",
        "f(v, v, nperseg=4)",
        "f(v, x, nperseg=4, average='median')",
        "f(v, x, nperseg=4, average='no')",
        "f(v, x, nperseg=4, scaling='spectrum')",
        "f(v, x, nperseg=4, scaling='no')",
        "f(v, x, nperseg=4, return_onesided=False)",
        "f(v, x[:5], nperseg=4)",
        "f(m, m, nperseg=2)",
        "f(e, e)",
    ],
    "welch": [
        *(f"f(v, {o})" for o in _SPECTRA),
        "f(v, nperseg=4, detrend='linear')",
        "f(v, nperseg=4, detrend=False)",
        "f(v, nperseg=4, average='median')",
        "f(v, nperseg=4, scaling='spectrum')",
        "f(m, nperseg=3, axis=0)",
        "f(v)",
        "f(e)",
    ],
}
_ONE = [
    "f(v)",
    "f(m)",
    "f(m, axis=0)",
    "f(v, n=4)",
    "f(v, n=9)",
    "f(v, n=0)",
    "f(v, norm='ortho')",
    "f(v, norm='no')",
    "f(v, type=1)",
    "f(v, axis=1)",
    "f(w)",
    "f(e)",
    "f(s)",
]
_SEVERAL = [
    "f(m)",
    "f(m, axes=(0,))",
    "f(t)",
    "f(m, s=(2, 5))",
    "f(m, norm='ortho')",
    "f(m, type=3)",
    "f(m, axes=(0, 0))",
    "f(m, s=(2,), axes=(0, 1))",
    "f(v)",
]
FFT = {"dct": _ONE, "idct": _ONE, "dctn": _SEVERAL, "idctn": _SEVERAL}

ROWS: tuple[Row, ...] = (
    *tabulated("scipy.signal", SIGNAL, ("float32", "int32"), norm=64, grad=GRAD, grad_norm=128),
    *tabulated("scipy.fft", FFT, ("float32", "int32"), norm=32, grad=GRAD, grad_norm=64),
)
