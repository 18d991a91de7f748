"""Examples for the docstrings of functions that are rows of tables: an expression
and what Python shows for it. tests/test_docstrings.py runs them.
"""

from __future__ import annotations

_EXAMPLES: dict[str, tuple[str, str]] = {
    "acos": ("jnp.acos(1.0)", "Array(0., dtype=float32, weak_type=True)"),
    "acosh": ("jnp.acosh(1.0)", "Array(0., dtype=float32, weak_type=True)"),
    "arccos": ("jnp.arccos(1.0)", "Array(0., dtype=float32, weak_type=True)"),
    "arccosh": ("jnp.arccosh(1.0)", "Array(0., dtype=float32, weak_type=True)"),
    "arcsin": ("jnp.arcsin(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "arcsinh": ("jnp.arcsinh(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "arctan": (
        "jnp.arctan(jnp.array([0.0, jnp.inf])).round(4)",
        "Array([0.    , 1.5708], dtype=float32)",
    ),
    "arctan2": (
        "jnp.arctan2(jnp.ones(2), jnp.array([1.0, -1.0])).round(4)",
        "Array([0.7854, 2.3562], dtype=float32)",
    ),
    "arctanh": ("jnp.arctanh(jnp.array([0.0, 1.0]))", "Array([ 0., inf], dtype=float32)"),
    "asin": ("jnp.asin(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "asinh": ("jnp.asinh(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "atan": ("jnp.atan(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "atan2": ("jnp.atan2(0.0, 1.0)", "Array(0., dtype=float32, weak_type=True)"),
    "atanh": ("jnp.atanh(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "bitwise_and": ("jnp.bitwise_and(12, 10)", "Array(8, dtype=int32, weak_type=True)"),
    "bitwise_invert": ("jnp.bitwise_invert(jnp.array([0, 5]))", "Array([-1, -6], dtype=int32)"),
    "bitwise_left_shift": (
        "jnp.bitwise_left_shift(1, jnp.arange(4))",
        "Array([1, 2, 4, 8], dtype=int32)",
    ),
    "bitwise_not": ("jnp.bitwise_not(jnp.array([0, 5]))", "Array([-1, -6], dtype=int32)"),
    "bitwise_or": ("jnp.bitwise_or(12, 10)", "Array(14, dtype=int32, weak_type=True)"),
    "bitwise_right_shift": (
        "jnp.bitwise_right_shift(16, jnp.arange(4))",
        "Array([16,  8,  4,  2], dtype=int32)",
    ),
    "bitwise_xor": ("jnp.bitwise_xor(12, 10)", "Array(6, dtype=int32, weak_type=True)"),
    "cbrt": ("jnp.cbrt(jnp.array([-8.0, 27.0])).round(4)", "Array([-2.,  3.], dtype=float32)"),
    "ceil": ("jnp.ceil(jnp.array([-1.5, 1.5]))", "Array([-1.,  2.], dtype=float32)"),
    "cos": ("jnp.cos(0.0)", "Array(1., dtype=float32, weak_type=True)"),
    "cosh": ("jnp.cosh(0.0)", "Array(1., dtype=float32, weak_type=True)"),
    "deg2rad": (
        "jnp.deg2rad(jnp.array([0.0, 180.0])).round(4)",
        "Array([0.    , 3.1416], dtype=float32)",
    ),
    "degrees": (
        "jnp.degrees(jnp.array([0.0, jnp.pi])).round(2)",
        "Array([  0., 180.], dtype=float32)",
    ),
    "dsplit": (
        "[part.shape for part in jnp.dsplit(jnp.ones((2, 2, 4)), 2)]",
        "[(2, 2, 2), (2, 2, 2)]",
    ),
    "equal": ("jnp.equal(jnp.array([1, 2]), 2)", "Array([False,  True], dtype=bool)"),
    "exp": ("jnp.exp(jnp.array([0.0, -jnp.inf]))", "Array([1., 0.], dtype=float32)"),
    "exp2": ("jnp.exp2(jnp.array([0.0, 3.0]))", "Array([1., 8.], dtype=float32)"),
    "expm1": ("jnp.expm1(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "fft": (
        "jnp.fft.fft(jnp.array([1.0, 0.0, 0.0, 0.0]))",
        "Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)",
    ),
    "fft2": ("jnp.fft.fft2(jnp.ones((2, 2))).real.tolist()", "[[4.0, 0.0], [0.0, 0.0]]"),
    "fftn": ("jnp.fft.fftn(jnp.ones((2, 2)), axes=(0,)).real.tolist()", "[[2.0, 2.0], [0.0, 0.0]]"),
    "floor": ("jnp.floor(jnp.array([-1.5, 1.5]))", "Array([-2.,  1.], dtype=float32)"),
    "fmax": ("jnp.fmax(jnp.nan, 1.0)", "Array(1., dtype=float32, weak_type=True)"),
    "fmin": ("jnp.fmin(jnp.nan, 1.0)", "Array(1., dtype=float32, weak_type=True)"),
    "greater": ("jnp.greater(jnp.array([1, 3]), 2)", "Array([False,  True], dtype=bool)"),
    "greater_equal": (
        "jnp.greater_equal(jnp.array([1, 2]), 2)",
        "Array([False,  True], dtype=bool)",
    ),
    "hsplit": ("[part.tolist() for part in jnp.hsplit(jnp.arange(4), 2)]", "[[0, 1], [2, 3]]"),
    "ifft": (
        "jnp.fft.ifft(jnp.array([4.0, 0.0, 0.0, 0.0]))",
        "Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)",
    ),
    "ifft2": ("jnp.fft.ifft2(jnp.ones((2, 2))).real.tolist()", "[[1.0, 0.0], [0.0, 0.0]]"),
    "ifftn": (
        'jnp.fft.ifftn(jnp.ones((2, 2)), norm="forward").real.tolist()',
        "[[4.0, 0.0], [0.0, 0.0]]",
    ),
    "invert": ("jnp.invert(jnp.array([True, False]))", "Array([False,  True], dtype=bool)"),
    "irfft": (
        "jnp.fft.irfft(jnp.array([4.0, 0.0, 0.0]))",
        "Array([1., 1., 1., 1.], dtype=float32)",
    ),
    "irfft2": ("jnp.fft.irfft2(jnp.ones((2, 2))).tolist()", "[[1.0, 0.0], [0.0, 0.0]]"),
    "irfftn": ("jnp.fft.irfftn(jnp.ones((2, 3, 3))).shape", "(2, 3, 4)"),
    "left_shift": ("jnp.left_shift(1, 4)", "Array(16, dtype=int32, weak_type=True)"),
    "less": ("jnp.less(jnp.array([1, 3]), 2)", "Array([ True, False], dtype=bool)"),
    "less_equal": ("jnp.less_equal(jnp.array([2, 3]), 2)", "Array([ True, False], dtype=bool)"),
    "log": ("jnp.log(jnp.array([1.0, 0.0, -1.0]))", "Array([  0., -inf,  nan], dtype=float32)"),
    "log10": ("jnp.log10(jnp.array([1.0, 100.0])).round(4)", "Array([0., 2.], dtype=float32)"),
    "log1p": ("jnp.log1p(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "log2": ("jnp.log2(8.0).round(4)", "Array(3., dtype=float32)"),
    "logical_and": (
        "jnp.logical_and(jnp.array([True, True]), jnp.array([True, False]))",
        "Array([ True, False], dtype=bool)",
    ),
    "logical_or": (
        "jnp.logical_or(jnp.array([True, False]), False)",
        "Array([ True, False], dtype=bool)",
    ),
    "logical_xor": (
        "jnp.logical_xor(True, jnp.array([True, False]))",
        "Array([False,  True], dtype=bool)",
    ),
    "maximum": ("jnp.maximum(jnp.array([1, 5]), 3)", "Array([3, 5], dtype=int32)"),
    "minimum": ("jnp.minimum(jnp.array([1, 5]), 3)", "Array([1, 3], dtype=int32)"),
    "negative": ("jnp.negative(jnp.array([1, -2]))", "Array([-1,  2], dtype=int32)"),
    "nextafter": ("jnp.nextafter(jnp.float32(1), jnp.float32(2)) > 1", "Array(True, dtype=bool)"),
    "not_equal": ("jnp.not_equal(jnp.array([1, 2]), 2)", "Array([ True, False], dtype=bool)"),
    "rad2deg": (
        "jnp.rad2deg(jnp.array([0.0, jnp.pi])).round(2)",
        "Array([  0., 180.], dtype=float32)",
    ),
    "radians": (
        "jnp.radians(jnp.array([0.0, 180.0])).round(4)",
        "Array([0.    , 3.1416], dtype=float32)",
    ),
    "rfft": ("jnp.fft.rfft(jnp.ones(4))", "Array([4.+0.j, 0.+0.j, 0.+0.j], dtype=complex64)"),
    "rfft2": (
        "jnp.fft.rfft2(jnp.ones((2, 4))).real.tolist()",
        "[[8.0, 0.0, 0.0], [0.0, 0.0, 0.0]]",
    ),
    "rfftn": ("jnp.fft.rfftn(jnp.ones((2, 3, 4))).shape", "(2, 3, 3)"),
    "right_shift": ("jnp.right_shift(16, 2)", "Array(4, dtype=int32, weak_type=True)"),
    "segment_max": (
        "pyjax.ops.segment_max(jnp.array([1.0, 2.0, 5.0]), jnp.array([0, 0, 2]))",
        "Array([  2., -inf,   5.], dtype=float32)",
    ),
    "segment_min": (
        "pyjax.ops.segment_min(jnp.array([1.0, 2.0, 5.0]), jnp.array([0, 0, 2]))",
        "Array([ 1., inf,  5.], dtype=float32)",
    ),
    "segment_prod": (
        "pyjax.ops.segment_prod(jnp.array([3, 2, 5]), jnp.array([0, 0, 2]))",
        "Array([6, 1, 5], dtype=int32)",
    ),
    "segment_sum": (
        "pyjax.ops.segment_sum(jnp.array([1, 2, 5]), jnp.array([0, 0, 2]))",
        "Array([3, 0, 5], dtype=int32)",
    ),
    "sin": ("jnp.sin(jnp.array([0.0, jnp.pi / 2])).round(4)", "Array([0., 1.], dtype=float32)"),
    "sinh": ("jnp.sinh(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "sqrt": ("jnp.sqrt(jnp.array([4.0, -1.0]))", "Array([ 2., nan], dtype=float32)"),
    "subtract": ("jnp.subtract(jnp.array([1, 2]), 10)", "Array([-9, -8], dtype=int32)"),
    "tan": ("jnp.tan(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "tanh": ("jnp.tanh(jnp.array([0.0, jnp.inf]))", "Array([0., 1.], dtype=float32)"),
    "vsplit": (
        "[part.tolist() for part in jnp.vsplit(jnp.arange(4).reshape(2, 2), 2)]",
        "[[[0, 1]], [[2, 3]]]",
    ),
}


def with_example(name: str, doc: str) -> str:
    """The docstring of a function that a table makes, with its example if it has one."""
    if name not in _EXAMPLES:
        return doc
    source, shown = _EXAMPLES[name]
    lines = "\n    ".join([f">>> {source}", *shown.splitlines()])
    return f"{doc}\n\n    {lines}"
