"""Rotations, spectra, special matrices and harmonics, compared with SciPy; gradients with
differences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax.scipy import linalg, signal, special
from pyjax.scipy.spatial.transform import Rotation, Slerp

host_linalg = import_module("scipy.linalg")
host_signal = import_module("scipy.signal")
host_special = import_module("scipy.special")
host_transform = import_module("scipy.spatial.transform")

_rng = np.random.RandomState(0)
q = _rng.randn(6, 4)
x, y = _rng.randn(2, 100), _rng.randn(2, 100)
a, b, c = _rng.randn(4, 4), _rng.randn(3, 3), _rng.randn(4, 3)
complex_c = c + 1j * _rng.randn(4, 3)


@pytest.fixture(autouse=True)
def _wide() -> Iterator[None]:
    with pyjax.enable_x64(True):
        yield


def _close(got: Any, expected: Any, tolerance: float = 1e-10) -> None:
    got = pyjax.tree.leaves(got)
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    for left, right in zip(got, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)


def test_forms_of_rotations() -> None:
    ours, theirs = Rotation.from_quat(q), host_transform.Rotation.from_quat(q)
    _close(ours.as_matrix(), theirs.as_matrix())
    _close(ours.as_rotvec(degrees=True), theirs.as_rotvec(degrees=True))
    _close(ours.as_mrp(), theirs.as_mrp())
    _close(ours.as_quat(True, True), theirs.as_quat(canonical=True, scalar_first=True))
    _close(ours.magnitude(), theirs.magnitude())
    _close((ours * ours[::-1]).as_matrix(), (theirs * theirs[::-1]).as_matrix())
    vectors = q[:, :3]
    _close(ours.apply(vectors), theirs.apply(vectors))
    _close(ours[0].apply(vectors, inverse=True), theirs[0].apply(vectors, inverse=True))
    weights = np.abs(q[:, 0])
    _close(ours.mean(weights).as_matrix(), theirs.mean(weights).as_matrix())
    for back in (
        Rotation.from_matrix(theirs.as_matrix()),
        Rotation.from_mrp(theirs.as_mrp()),
        Rotation.from_rotvec(theirs.as_rotvec(degrees=True), degrees=True),
        ours.inv().inv(),
        Rotation.concatenate([ours[:2], ours[2], ours[3:]]),
    ):
        _close(back.as_matrix(), theirs.as_matrix())
    assert len(ours) == 6 and ours[0].single and not ours.single
    assert Rotation.random(pyjax.random.key(0), 5).quat.shape == (5, 4)
    _close(Rotation.identity(2).as_matrix(), np.stack([np.eye(3)] * 2))


SEQUENCES = [
    "".join(s) for s in itertools.product("xyz", repeat=3) if s[0] != s[1] and s[1] != s[2]
]


def test_euler_angles() -> None:
    angles = q[:, :3]
    for sequence in SEQUENCES + [s.upper() for s in SEQUENCES]:
        theirs = host_transform.Rotation.from_euler(sequence, angles)
        ours = Rotation.from_euler(sequence, angles)
        _close(ours.as_matrix(), theirs.as_matrix())
        _close(ours.as_euler(sequence), theirs.as_euler(sequence))
        locked = angles.copy()
        locked[:, 1] = 0 if sequence[0] == sequence[2] else np.pi / 2
        turned = Rotation.from_euler(sequence, locked)
        again = Rotation.from_euler(sequence, turned.as_euler(sequence))
        _close(again.as_matrix(), turned.as_matrix(), 1e-6)
    for sequence, given in (
        ("z", 0.3),
        ("z", np.array([[0.3], [0.4]])),
        ("zx", np.array([0.3, 0.4])),
    ):
        expected = host_transform.Rotation.from_euler(sequence, given).as_matrix()
        _close(Rotation.from_euler(sequence, given).as_matrix(), expected)


def test_interpolated_rotations() -> None:
    times, at = np.arange(6.0), np.array([0.5, 2.2, 5.0])
    expected = host_transform.Slerp(times, host_transform.Rotation.from_quat(q))(at)
    made = Slerp.init(times, Rotation.from_quat(q))
    _close(pyjax.jit(lambda s, t: s(t).as_matrix())(made, at), expected.as_matrix())


@pytest.mark.parametrize(
    "call",
    [
        lambda: Rotation.from_euler("xx", np.zeros(2)),
        lambda: Rotation.from_euler("xY", np.zeros(2)),
        lambda: Rotation.from_quat(q).as_euler("xy"),
        lambda: Slerp.init(np.zeros(2), Rotation.from_quat(q)),
        lambda: linalg.solve_sylvester(a, b, c.T),
        lambda: linalg.pascal(3, kind="left"),
        lambda: linalg.convolution_matrix(a[0], 0),
        lambda: linalg.eigh_tridiagonal(a[0], a[0]),
        lambda: signal.stft(x, nperseg=16, noverlap=16),
        lambda: signal.csd(x, y, nperseg=16, scaling="power"),
    ],
)
def test_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError):
        call()


SPECTRA: list[tuple[str, dict[str, Any]]] = [
    ("stft", {}),
    ("stft", {"nperseg": 15, "noverlap": 4, "fs": 3.0, "nfft": 20}),
    ("stft", {"boundary": "even", "detrend": "linear"}),
    ("stft", {"boundary": "odd", "padded": False, "window": "blackman"}),
    ("stft", {"boundary": None, "return_onesided": False}),
    ("stft", {"boundary": "constant", "axis": 0, "nperseg": 2}),
    ("welch", {}),
    ("welch", {"scaling": "spectrum", "average": "median", "fs": 10.0}),
    ("welch", {"nperseg": 15, "detrend": "linear", "axis": -1, "nfft": 32}),
]


@pytest.mark.parametrize(("name", "options"), SPECTRA)
def test_spectra(name: str, options: dict[str, Any]) -> None:
    options = {"nperseg": 16, **options}
    _close(getattr(signal, name)(x, **options), getattr(host_signal, name)(x, **options))


def test_cross_spectra_and_inverses() -> None:
    _close(signal.csd(x, y, nperseg=16), host_signal.csd(x, y, nperseg=16))
    z = x + 1j * y
    _close(signal.csd(z, y, nperseg=16), host_signal.csd(z, y, nperseg=16))
    for options in ({}, {"noverlap": 12}, {"nfft": 24}):
        forward = host_signal.stft(x, nperseg=16, **options)[2]
        expected = host_signal.istft(forward, nperseg=16, **options)[1]
        times, inverse = signal.istft(forward, nperseg=16, fs=2.0, **options)
        _close(inverse, expected)
        _close(times, np.arange(expected.shape[-1]) / 2)
    forward = host_signal.stft(z, nperseg=16, return_onesided=False)[2]
    expected = host_signal.istft(forward, nperseg=16, input_onesided=False)[1]
    _close(signal.istft(forward, nperseg=16, input_onesided=False)[1], expected)


MATRICES: list[tuple[str, tuple[Any, ...]]] = [
    *(
        (name, (5, kind))
        for name in ("pascal", "invpascal")
        for kind in ("lower", "upper", "symmetric")
    ),
    ("invhilbert", (6,)),
    *(("fiedler_companion", (np.arange(2.0, 2 + n),)) for n in (2, 3, 4, 7, 8)),
    *(
        ("convolution_matrix", (a[0], n, mode))
        for n in (2, 4, 7)
        for mode in ("full", "same", "valid")
    ),
    ("solve_sylvester", (a, b, c)),
    ("qr_multiply", (c, a)),
    ("qr_multiply", (c, b, "left", True)),
    ("qr_multiply", (complex_c, complex_c.T, "right", False, True)),
    ("eigh_tridiagonal", (a[0], a[1, :3], True)),
    ("eigh_tridiagonal", (a[0], a[1, :3], True, "i", (1, 2))),
    ("eigh_tridiagonal", (a[0], a[1, :3], True, "v", (-1.0, 0.5))),
]


@pytest.mark.parametrize(("name", "args"), MATRICES)
def test_matrices(name: str, args: tuple[Any, ...]) -> None:
    expected = getattr(host_linalg, name)(*args)
    if name == "eigh_tridiagonal":
        keywords = dict(zip(("eigvals_only", "select", "select_range"), args[2:], strict=False))
        _close(linalg.eigh_tridiagonal(*args[:2], **keywords), expected)
        return
    _close(getattr(linalg, name)(*args), expected)


def test_eigenvectors_of_tridiagonal_matrices() -> None:
    d, e = a[0], a[1, :3]
    values, vectors = linalg.eigh_tridiagonal(d, e)
    full = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    _close(full @ vectors, np.asarray(vectors * values))


def test_both_ways_to_sylvester() -> None:
    _close(linalg.solve_sylvester(a, b, c, method="eigen"), host_linalg.solve_sylvester(a, b, c))
    solved = np.asarray(linalg.solve_sylvester(a, b, complex_c))
    _close(a @ solved + solved @ b, complex_c)


def test_harmonics() -> None:
    n, m = np.array([0, 1, 1, 2, 3, 3, 5]), np.array([0, -1, 1, -2, 3, -3, 2])
    theta, phi = np.linspace(0, np.pi, 7), np.linspace(0, 6, 7)
    _close(special.sph_harm_y(n, m, theta, phi), host_special.sph_harm_y(n, m, theta, phi))
    traced = pyjax.jit(lambda n: special.sph_harm_y(n, m, theta, phi, n_max=5))(n)
    _close(traced, host_special.sph_harm_y(n, m, theta, phi))
    with pytest.raises(pyjax.errors.ConcretizationTypeError, match="n_max"):
        pyjax.jit(lambda n: special.sph_harm_y(n, m, theta, phi))(n)
    z = np.array([0.0, 0.1, 1.0, 5.0, -3.0, 20.0])
    expected = np.array([host_special.jv(k, z) for k in range(5)])
    _close(special.bessel_jn(z, v=4), expected)


GRADIENTS: list[tuple[Callable[[Any], Any], Any]] = [
    (lambda t: Rotation.from_rotvec(t).apply(q[0, :3]), q[1, :3]),
    (lambda t: Rotation.from_rotvec(t).as_euler("XYZ"), q[1, :3] / 2),
    (lambda t: Rotation.from_rotvec(t).as_matrix(), np.zeros(3)),
    (lambda t: Rotation.from_euler("zxz", t).as_rotvec(), q[1, :3]),
    (lambda t: linalg.solve_sylvester(t, b, c), a),
    (lambda t: linalg.eigh_tridiagonal(t, a[0, :3], eigvals_only=True), a[1]),
    (lambda t: linalg.qr_multiply(t, b, "left")[0], c),
    (lambda t: signal.welch(t, nperseg=16)[1], x),
    (lambda t: jnp.real(special.sph_harm_y(3, 2, t, 0.3)), 0.7),
    (lambda t: special.bessel_jn(t, v=2), 1.5),
]


@pytest.mark.parametrize(("function", "point"), GRADIENTS)
def test_gradients(function: Callable[[Any], Any], point: Any) -> None:
    point = np.asarray(point, float)
    step = 1e-6 * np.cos(np.arange(point.size)).reshape(point.shape)
    _, change = pyjax.jvp(function, (point,), (step / 1e-6,))
    secant = (np.asarray(function(point + step)) - np.asarray(function(point - step))) / 2e-6
    np.testing.assert_allclose(change, secant, rtol=1e-5, atol=1e-7)
    out, pull = pyjax.vjp(function, jnp.asarray(point))
    (back,) = pull(jnp.ones_like(out))
    np.testing.assert_allclose(np.sum(back * step) / 1e-6, np.sum(change), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", ["symmetric", "lower", "upper"])
@pytest.mark.parametrize("n", [0, 1, 5])
def test_pascal_is_of_floats(kind: str, n: int) -> None:
    got = linalg.pascal(n, kind=kind)
    assert got.dtype == jnp.zeros(()).dtype
    expected = [[math.comb(i, j) for j in range(n)] for i in range(n)]
    lower = np.array(expected, np.float32).reshape(n, n)
    made = {"symmetric": lower @ lower.T, "lower": lower, "upper": lower.T}
    np.testing.assert_array_equal(got, made[kind])
