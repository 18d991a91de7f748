"""`scipy` but for linear algebra, statistics, signals and special functions."""

from __future__ import annotations

from functools import partial

from tests.edge_values.rows import GRAD, Row, rows

few = partial(rows, dtypes=("float32",), grad=GRAD, norm=64, grad_norm=512)
_MODES = ("constant", "nearest", "wrap", "mirror", "reflect", "no")
_LBFGS = "l-bfgs-experimental-do-not-rely-on-this"
_GRID = "f((jnp.arange(3.0), jnp.arange(4.0)), m{0})(m[:, :2] / 3{1})"
_TURN = "f.from_rotvec(q[0])"
_TURNS = "f.from_rotvec(q)"
_SLERP = "f.init(x[:3], jax.scipy.spatial.transform.Rotation.from_rotvec(q))(x[:3] + unit[1])"

CLUSTER = [
    *few(
        "scipy.cluster.vq",
        "vq",
        ["f(q, h)", "f(m, t[0])", "f(v, x)", "f(v, x[:2])", "f(q, m)", "f(s, s)", "f(m, e2)",
         "f(n, m)", "f(q, h, check_finite=False)", "f(qq, q)"],
    ),
    *rows("scipy.cluster.vq", "vq", ["f(c, q)"], ("int32", "float16", "complex64"), norm=64),
]  # fmt: skip

INTEGRATE = rows(
    "scipy.integrate",
    "trapezoid",
    ["f(v)", "f(v, x)", "f(m)", "f(m, axis=0)", "f(m, dx=0.5)", "f(v, dx=s)", "f(m, v[:4])",
     "f(m, m)", "f(v, x[:3])", "f(w)", "f(n, axis=1)", "f(e)", "f(s)", "f(m, axis=2)",
     "f(t, x[:3], axis=1)", "f(v[:1])"],
    ("float32", "int32", "float16", "complex64", "uint8"),
    norm=16,
    grad=GRAD,
    grad_norm=64,
)  # fmt: skip

NDIMAGE = rows(
    "scipy.ndimage",
    "map_coordinates",
    [
        *(f"f(m, [v, v / 2], {order})" for order in (0, 1, 2)),
        *(f"f(m, [v, x], 1, mode={mode!r})" for mode in _MODES),
        *(f"f(v, [x * 2 + unit[1]], 0, mode={mode!r})" for mode in _MODES),
        *(f"f(v, [x * 2 + unit[1]], 1, mode={mode!r})" for mode in _MODES),
        "f(m, [v, x], 1, cval=2.5)",
        "f(m, [v], 1)",
        "f(v, [w], 1)",
        "f(n, [m / 2, m / 3], 1)",
        "f(m, m[:2], 1)",
        "f(s, [], 1)",
        "f(v, [e], 1)",
        "f(v, [s], 1)",
        "f(v, v, 1)",
    ],
    ("float32", "int32", "complex64"),
    norm=16,
    grad=GRAD,
    grad_norm=64,
)  # fmt: skip

OPTIMIZE = few(
    "scipy.optimize",
    "minimize",
    [
        "f(lambda y: jnp.sum((y - v) ** 2), x, method='BFGS')[0].round(2)",
        "f(lambda y: jnp.sum((y - v) ** 2), x, method='BFGS')[1]",
        "f(lambda y, c: jnp.sum((y - c) ** 2), x, (v,), method='BFGS')[0].round(2)",
        "f(lambda y: jnp.sum((y - v) ** 4), v, method='BFGS')[3]",
        f"f(lambda y: jnp.sum((y - v) ** 2), x, method={_LBFGS!r})[0].round(2)",
        "f(lambda y: jnp.sum(y), x, method='no')",
        "f(lambda y: y, x, method='BFGS')",
        "f(lambda y: jnp.sum(y * y), m, method='BFGS')",
        "f(lambda y: jnp.sum(y * y), x, v, method='BFGS')",
        "f(lambda y: jnp.sum(y * y), x)",
    ],
    grad="",
)

_SYSTEMS = [
    "f(h, v[:3])[0]",
    "f(lambda y: h @ y, v[:3])[0]",
    "f(h, v[:3])[1]",
    "f(h, v[:3], x0=x[:3])[0]",
    "f(h, v[:3], M=jnp.linalg.inv(h))[0]",
    "f(h, v[:3], M=lambda y: y / jnp.diagonal(h))[0]",
    "f(h, v[:3], tol=0.5, maxiter=1)[0].shape",
    "f(lambda y: {'a': h @ y['a'], 'b': 2 * y['b']}, {'a': v[:3], 'b': x})[0]['b']",
    "f(h, z[0])[0]",
    "f(h, v)",
    "f(m, v[:3])",
    "f(h, v[:3], x0=v)",
    "f(h, v[:3], maxiter=0)[0]",
]
SPARSE = [
    *few("scipy.sparse.linalg", "cg", _SYSTEMS),
    *few(
        "scipy.sparse.linalg",
        "bicgstab gmres",
        [*_SYSTEMS, "f(q, v[:3])[0]", "f(q * 1j, v[:3])[0]"],
    ),
    *few(
        "scipy.sparse.linalg",
        "gmres",
        [
            "f(q, v[:3], solve_method='incremental')[0]",
            "f(q, v[:3], solve_method='no')",
            "f(q, v[:3], restart=1, maxiter=40)[0].shape",
            "f(q, v[:3], restart=2)[1]",
        ],
    ),
]

INTERPOLATE = few(
    "scipy.interpolate",
    "RegularGridInterpolator",
    [
        _GRID.format("", ""),
        _GRID.format(", 'nearest'", ""),
        _GRID.format("", ", 'nearest'"),
        _GRID.format(", fill_value=None", ""),
        _GRID.format(", fill_value=2.5", ""),
        _GRID.format(", 'nearest', fill_value=None", ""),
        _GRID.format("", ", 'no'"),
        _GRID.format(", 'no'", ""),
        _GRID.format(", bounds_error=True", ""),
        "f((x,), v)(u)",
        "f((x,), v, fill_value=None)(w)",
        "f((x,), v, 'nearest')(x)",
        "f((x[:3], x[:4]), m)((v[:3], v[:3]))",
        "f((x[:3], x[:4]), m)((s, unit))",
        "f((x[:2], x[:3]), t)(q[:, :2])",
        "f((x[:3], x[:4]), m)(q)",
        "f((x[:3],), m)(v)",
        "f((x, x), v)",
        "f((x[:2],), v)",
        "f((m,), m)",
        "f((jnp.arange(7),), jnp.arange(7))(x)",
        "f((x,), v * 1j)(x + unit[1])",
    ],
)

ROTATION = few(
    "scipy.spatial.transform",
    "Rotation",
    [
        "f.from_quat(x[:4]).as_quat()",
        "f.from_quat(m).as_quat()",
        "f.from_quat(z[0])",
        "f.from_quat(v)",
        "f.from_matrix(jnp.linalg.qr(q)[0] * jnp.linalg.det(jnp.linalg.qr(q)[0])).as_matrix()",
        "f.from_matrix(m)",
        "f.from_mrp(q[0] / 4).as_mrp()",
        "f.from_mrp(q / 4).as_quat()",
        f"{_TURN}.as_rotvec()",
        f"{_TURNS}.as_rotvec()",
        f"{_TURNS}.as_rotvec(degrees=True)",
        "f.from_rotvec(q, degrees=True).as_quat()",
        "f.from_rotvec(z).as_quat()",
        "f.from_rotvec(z).as_rotvec()",
        "f.from_rotvec(q * 1e-5).as_rotvec()",
        f"{_TURNS}.as_matrix()",
        f"{_TURNS}.as_quat(canonical=True)",
        f"{_TURNS}.as_quat(scalar_first=True)",
        *(f"{_TURNS}.as_euler({seq!r})" for seq in ("xyz", "XYZ", "zxz", "ZYZ", "yxz")),
        f"{_TURNS}.as_euler('zyx', degrees=True)",
        f"{_TURNS}.as_euler('xy')",
        f"{_TURNS}.as_euler('xxy')",
        *(f"f.from_euler({seq!r}, q).as_quat()" for seq in ("xyz", "XYZ", "zxz")),
        "f.from_euler('x', s).as_quat()",
        "f.from_euler('x', v).as_quat()",
        "f.from_euler('zy', q[:, :2], degrees=True).as_quat()",
        "f.from_euler('xyz', q[0]).as_quat()",
        "f.from_euler('no', q)",
        "f.from_euler('xX', q)",
        "f.from_euler('xyzx', q)",
        "f.identity().as_quat()",
        "f.identity(2).as_quat()",
        "f.identity(dtype='float16').as_quat()",
        "f.random(jax.random.key(0)).magnitude().shape",
        "f.random(jax.random.key(0), 2).as_quat().shape",
        f"f.concatenate([{_TURN}, {_TURN}]).as_quat()",
        f"{_TURN}.apply(v[:3])",
        f"{_TURN}.apply(h)",
        f"{_TURNS}.apply(h)",
        f"{_TURNS}.apply(v[:3])",
        f"{_TURNS}.apply(h, inverse=True)",
        f"{_TURN}.apply(v)",
        f"{_TURNS}.inv().as_quat()",
        f"{_TURNS}.magnitude()",
        f"{_TURN}.magnitude()",
        f"({_TURNS} * {_TURN}).as_quat()",
        f"({_TURN} * {_TURNS}).as_quat()",
        f"jnp.abs({_TURNS}.mean().as_quat())",
        f"jnp.abs({_TURNS}.mean(unit[1:4]).as_quat())",
        f"{_TURNS}[1].as_quat()",
        f"{_TURNS}[1:].as_quat()",
        f"{_TURN}[0]",
        f"len({_TURNS})",
        f"len({_TURN})",
        f"bool({_TURNS})",
        f"{_TURN}.single",
        f"{_TURNS}.single",
    ],
)
SLERP = few(
    "scipy.spatial.transform",
    "Slerp",
    [
        f"{_SLERP}.as_quat()",
        f"{_SLERP}.as_rotvec()",
        f"{_SLERP.replace('x[:3] + unit[1]', 's')}.as_quat()",
        f"{_SLERP.replace('x[:3] + unit[1]', 'x[:3]')}.as_quat()",
        f"{_SLERP.replace('x[:3] + unit[1]', 'm')}",
        f"{_SLERP.replace('x[:3],', 'v,')}",
        f"{_SLERP.replace('x[:3],', 'v[:3],')}",
        _SLERP.replace("from_rotvec(q)", "from_rotvec(q[0])"),
    ],
)

ROWS: tuple[Row, ...] = (
    *CLUSTER,
    *INTEGRATE,
    *INTERPOLATE,
    *NDIMAGE,
    *OPTIMIZE,
    *ROTATION,
    *SLERP,
    *SPARSE,
)
