"""Gradients of `numpy` functions that make arrays of numbers, or count with weights."""

from __future__ import annotations

from tests.edge_values.rows import GRAD, Row, tabulated

CALLS = {
    "array": ["f([s, 2.0])", "f(v)"],
    "asarray": ["f(v)", "f([s, s])"],
    "bincount": ["f(j, weights=v[:5])"],
    "divmod": ["f(v, x)"],
    "fft.fftfreq": ["f(4, s)"],
    "fft.rfftfreq": ["f(4, s)"],
    "fromfunction": ["f(lambda i: i * s, (3,))"],
    "full": ["f(3, s)", "f((2, 7), v)"],
    "full_like": ["f(m, s)"],
    "geomspace": ["f(s, 4.0, 5)", "f(1.0, s, 3)", "f(s, s, 3)"],
    "histogram": ["f(v, bins=3, weights=x)[0]", "f(v, bins=3)[1]"],
    "histogram2d": ["f(v, x, bins=2, weights=x)[0]"],
    "histogram_bin_edges": ["f(v, bins=3)"],
    "histogramdd": ["f(m, bins=2, weights=m[:, 0])[0]"],
    "kaiser": ["f(5, s)"],
    "linspace": ["f(s, 4.0, 5)", "f(1.0, s, 3)", "f(s, s, 1)", "f(x, v, 3)"],
    "logspace": ["f(s / 4, 1.0, 5)", "f(0.0, s, 3)", "f(0.0, 1.0, 3, base=s)"],
    "meshgrid": ["f(x, v)", "f(v, x, indexing='ij', sparse=True)"],
    "place": ["f(v, kv, x[:2], inplace=False)"],
}

ROWS: tuple[Row, ...] = (
    *tabulated("numpy", CALLS, ("float32",), norm=16, grad=GRAD, grad_norm=64),
)
