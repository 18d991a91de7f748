"""`image`, `ops` and `nn.initializers`.

Truncated distributions and orthogonal matrices of initializers are samples: what decides is in the
tables of `random`.
"""

from __future__ import annotations

from tests.edge_values.rows import FEW_REALS, GRAD, Row, rows, tabulated

METHODS = ("nearest", "linear", "cubic", "lanczos3", "lanczos5")
IMAGE = {
    "resize": [
        *(f"f(m, (5, 3), {method!r})" for method in METHODS),
        *(f"f(m, (2, 8), {method!r}, antialias=False)" for method in METHODS),
        "f(t, (2, 5, 2), 'bilinear')",
        "f(m, (3, 4), 'linear')",
        "f(m, (5,), 'linear')",
        "f(m, (5, 0), 'linear')",
        "f(m, (5, 3), 'no')",
        "f(n, (2, 8), 'linear')",
        "f(e2, (2, 2), 'linear')",
    ],
    "scale_and_translate": [
        *(f"f(m, (5, 6), (0, 1), unit[1:3] + 1, unit[2:4], {k!r})" for k in METHODS[1:]),
        "f(m, (3, 6), (1,), unit[2:3] + 1, unit[:1], 'linear')",
        "f(m, (5, 6), (0, 1), unit[1:3] + 1, unit[2:4], 'linear', antialias=False)",
        "f(m, (5, 6), (0, 1), unit[1:3] + 1, unit[2:4], 'nearest')",
        "f(m, (5, 6), (0,), unit[1:3] + 1, unit[2:4], 'linear')",
    ],
}
_SEGMENTS = [
    "f(v, jnp.array([0, 0, 1, 1, 3, 3, 3]))",
    "f(v, jnp.array([0, 0, 1, 1, 3, 3, 3]), num_segments=5)",
    "f(v, jnp.array([0, 0, 1, 1, 3, 3, 3]), num_segments=2)",
    "f(v, jnp.array([3, -1, 0, 9, 0, 1, 3]), num_segments=4)",
    "f(v, jnp.array([0, 0, 1, 1, 3, 3, 3]), 4, indices_are_sorted=True)",
    "f(v, jnp.arange(7), 7, unique_indices=True)",
    "f(v, jnp.array([0, 0, 1, 1, 3, 3, 3]), 4, bucket_size=3)",
    "f(m, jnp.array([1, 0, 1]), num_segments=3)",
    "f(m, jnp.array([1, 0, 1]), num_segments=3, mode='clip')",
    "f(v, j, num_segments=3)",
    "f(v, v, num_segments=3)",
    "f(e, jnp.array([], 'int32'), num_segments=2)",
    "f(v, jnp.arange(7), num_segments=-1)",
    "f(w, jnp.array([0, 1, 1, 1, 2, 2, 0, 0, 3]), num_segments=4)",
]

_INITIALIZER = ["f()(key, (3, 2))", "f()(key, (2, 3, 4), dtype)", "f()(key, (3,))"]
_SCALED = [*_INITIALIZER, "f(in_axis=0, out_axis=1)(key, (3, 2))", "f(dtype=dtype)(key, (3, 4))"]
_PLAIN = ["f(key, (3, 2))", "f(key, (2,), dtype)", "f(key, ())"]
_VARIANCE = (
    "glorot_normal glorot_uniform he_normal he_uniform kaiming_normal kaiming_uniform "
    "lecun_normal lecun_uniform xavier_normal xavier_uniform"
)
INITIALIZERS = {
    **dict.fromkeys(_VARIANCE.split(), _SCALED),
    **dict.fromkeys(("ones", "zeros"), _PLAIN),
    "constant": ["f(2.5)(key, (3, 2))", "f(v)(key, (2, 7))", "f(s, dtype)(key, (2,))"],
    "normal": [*_INITIALIZER, "f(0.5)(key, (4,))", "f(s)(key, (4,))"],
    "uniform": [*_INITIALIZER, "f(0.5)(key, (4,))", "f(s)(key, (4,))"],
    "truncated_normal": [
        *_INITIALIZER,
        "f(0.5, lower=-1.0, upper=2.0)(key, (4,))",
        "f(s)(key, (4,))",
    ],
    "orthogonal": [
        "jnp.abs(f()(key, (3, 3)))",
        "jnp.abs(f(2.0)(key, (4, 2)))",
        "jnp.abs(f(column_axis=0)(key, (2, 4)))",
        "f()(key, (3,))",
        "jnp.abs(f(s)(key, (3, 3)))",
    ],
    "delta_orthogonal": [
        "jnp.abs(f()(key, (3, 2, 4)))",
        "jnp.abs(f(2.0)(key, (3, 3, 2, 2)))",
        "f()(key, (3, 4, 2))",
        "f()(key, (3, 3))",
        "jnp.abs(f(s)(key, (3, 2, 4)))",
    ],
    "variance_scaling": [
        *(
            f"f(2.0, {mode!r}, {kind!r})(key, (3, 4))"
            for mode in ("fan_in", "fan_out", "fan_avg", "no")
            for kind in ("normal", "uniform", "truncated_normal")
        ),
        "f(2.0, 'fan_geo_avg', 'normal')(key, (3, 4))",
        "f(2.0, 'fan_in', 'no')(key, (3, 4))",
        "f(s, 'fan_in', 'normal')(key, (3, 4))",
        "f(2.0, 'fan_in', 'normal', batch_axis=0)(key, (3, 4, 2))",
    ],
}

ROWS: tuple[Row, ...] = (
    *tabulated("image", IMAGE, ("float32", "int32", "float16"), norm=32, grad=GRAD, grad_norm=64),
    *rows(
        "ops",
        "segment_sum segment_prod segment_max segment_min",
        _SEGMENTS,
        FEW_REALS,
        grad="v m w",
        norm=8,
        grad_norm=16,
    ),
    *tabulated("nn.initializers", INITIALIZERS, ("float32",), norm=64, grad=GRAD, grad_norm=128),
)
