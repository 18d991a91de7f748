"""Rotations in three dimensions, and interpolation between them. A rotation is held as a unit
quaternion (x, y, z, w); stacks have one leading axis. Both classes are pytrees."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import pyjax.numpy as jnp
from pyjax import random as _random
from pyjax.core import dtypes
from pyjax.numpy.util import promote_args_inexact, promote_dtypes_inexact

__all__ = ["Rotation", "Slerp"]

Array = Any
_AXES = {"x": 0, "y": 1, "z": 2}


def _dot(a: Array, b: Array) -> Array:
    return jnp.sum(a * b, axis=-1, keepdims=True)


def _length(a: Array) -> Array:
    """Euclidean lengths along the last axis; the gradient at 0 is 0."""
    squared = _dot(a, a)
    safe = jnp.where(squared == 0, 1, squared)
    return jnp.where(squared == 0, 0, jnp.sqrt(safe))


def _compose(p: Array, q: Array) -> Array:
    """The product of quaternions: first `q`, then `p`."""
    p, q = jnp.broadcast_arrays(p, q)
    u, v, a, b = p[..., :3], q[..., :3], p[..., 3:], q[..., 3:]
    return jnp.concatenate([a * v + b * u + jnp.cross(u, v), a * b - _dot(u, v)], axis=-1)


def _from_rotvec(rotvec: Array) -> Array:
    angle = _length(rotvec)
    small = angle < 1e-3
    square = angle * angle
    series = 0.5 - square / 48 + square * square / 3840
    scale = jnp.where(small, series, jnp.sin(angle / 2) / jnp.where(small, 1, angle))
    return jnp.concatenate([scale * rotvec, jnp.cos(angle / 2)], axis=-1)


def _to_rotvec(quat: Array) -> Array:
    quat = jnp.where(quat[..., 3:] < 0, -quat, quat)
    sine = _length(quat[..., :3])
    angle = 2 * jnp.arctan2(sine, quat[..., 3:])
    small = angle < 1e-3
    square = angle * angle
    series = 2 + square / 12 + 7 * square * square / 2880
    return jnp.where(small, series, angle / jnp.where(small, 1, sine)) * quat[..., :3]


def _about(axis: int, angle: Array) -> Array:
    """Quaternions [..., 4] of turns about one axis."""
    parts = [jnp.zeros_like(angle)] * 3
    parts[axis] = jnp.sin(angle / 2)
    return jnp.stack([*parts, jnp.cos(angle / 2)], axis=-1)


def _sequence(seq: str) -> tuple[bool, list[int]]:
    """Whether a sequence of axes is intrinsic (upper case), and the axes."""
    intrinsic, extrinsic = set(seq) <= set("XYZ"), set(seq) <= set("xyz")
    if not 1 <= len(seq) <= 3 or not (intrinsic or extrinsic):
        raise ValueError(
            f"Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], one to three "
            f"of one case, got {seq}"
        )
    if any(a == b for a, b in itertools.pairwise(seq)):
        raise ValueError(f"Expected consecutive axes to be different, got {seq}")
    return intrinsic, [_AXES[c] for c in seq.lower()]


class Rotation(NamedTuple):
    """One rotation, or a stack of them.

    Attributes:
      quat: [4] or [n, 4], unit quaternions (x, y, z, w).

    >>> turn = Rotation.from_euler("z", 90, degrees=True)
    >>> turn.apply(jnp.array([1.0, 0.0, 0.0])).round(4) + 0.0
    Array([0., 1., 0.], dtype=float32)
    """

    quat: Array

    @classmethod
    def from_quat(cls, quat: Array) -> Rotation:
        """From quaternions [..., 4], which are normalised.

        >>> Rotation.from_quat(jnp.array([0.0, 0.0, 2.0, 0.0])).as_quat().tolist()
        [0.0, 0.0, 1.0, 0.0]
        """
        (quat,) = promote_args_inexact("Rotation.from_quat", quat)
        return cls(quat / _length(quat))

    @classmethod
    def from_rotvec(cls, rotvec: Array, degrees: bool = False) -> Rotation:
        """From axes [..., 3] whose lengths are the angles, in radians unless `degrees`."""
        (rotvec,) = promote_args_inexact("Rotation.from_rotvec", rotvec)
        return cls(_from_rotvec(jnp.deg2rad(rotvec) if degrees else jnp.asarray(rotvec)))

    @classmethod
    def from_mrp(cls, mrp: Array) -> Rotation:
        """From modified Rodrigues parameters [..., 3]: the axis times tan(angle / 4)."""
        (mrp,) = promote_args_inexact("Rotation.from_mrp", mrp)
        square = _dot(mrp, mrp)
        return cls(jnp.concatenate([2 * mrp, 1 - square], axis=-1) / (1 + square))

    @classmethod
    def from_matrix(cls, matrix: Array) -> Rotation:
        """From rotation matrices [..., 3, 3], by the largest of the four squares.

        Raises:
          ValueError: other shapes. (That they are rotations is not checked.)
        """
        (matrix,) = promote_args_inexact("Rotation.from_matrix", matrix)
        if matrix.shape[-2:] != (3, 3):
            raise ValueError(f"Rotation.from_matrix: expected [..., 3, 3], got {matrix.shape}")
        m = [[matrix[..., i, j] for j in range(3)] for i in range(3)]
        trace = m[0][0] + m[1][1] + m[2][2]
        squares = jnp.stack([m[0][0], m[1][1], m[2][2], trace], axis=-1)
        candidates = []
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            parts = [jnp.zeros_like(trace)] * 4
            parts[i] = 1 - trace + 2 * m[i][i]
            parts[j], parts[k] = m[j][i] + m[i][j], m[k][i] + m[i][k]
            parts[3] = m[k][j] - m[j][k]
            candidates.append(jnp.stack(parts, axis=-1))
        turns = [m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1], 1 + trace]
        candidates.append(jnp.stack(turns, axis=-1))
        which = jnp.argmax(squares, axis=-1)[..., None]
        quat = candidates[3]
        for i in range(3):
            quat = jnp.where(which == i, candidates[i], quat)
        return cls(quat / _length(quat))

    @classmethod
    def from_euler(cls, seq: str, angles: Array, degrees: bool = False) -> Rotation:
        """From turns about the axes `seq`: of lower case fixed, of upper case moving ones.

        Args:
          angles: a number for one axis, else [..., len(seq)].
        Raises:
          ValueError: `seq` is no sequence of axes, or has not as many as there are angles.
        """
        intrinsic, axes = _sequence(seq)
        (angles,) = promote_args_inexact("Rotation.from_euler", angles)
        angles = jnp.deg2rad(angles) if degrees else angles
        angles = jnp.asarray(angles, angles.dtype)  # quaternions have no weak type
        if len(axes) == 1 and (angles.ndim == 0 or angles.shape[-1] != 1):
            angles = angles[..., None]
        if angles.shape[-1:] != (len(axes),):
            raise ValueError(f"Expected {len(axes)} angles for {seq!r}, got shape {angles.shape}")
        quat = _about(axes[0], angles[..., 0])
        for place, axis in enumerate(axes[1:], 1):
            turn = _about(axis, angles[..., place])
            quat = _compose(quat, turn) if intrinsic else _compose(turn, quat)
        return cls(quat)

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """The rotation that turns nothing, or `num` of them."""
        quat = jnp.array([0, 0, 0, 1], dtypes.canonicalize_dtype(dtype))
        return cls(quat if num is None else jnp.broadcast_to(quat, (num, 4)))

    @classmethod
    def random(cls, random_key: Array, num: int | None = None) -> Rotation:
        """Uniformly distributed rotations: normalised normal quaternions."""
        quat = _random.normal(random_key, (4,) if num is None else (num, 4))
        return cls(quat / _length(quat))

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """One stack of all rotations."""
        return cls(jnp.concatenate([jnp.atleast_2d(r.quat) for r in rotations]))

    @property
    def single(self) -> bool:
        """Whether this is one rotation and no stack."""
        return jnp.ndim(self.quat) == 1

    def __getitem__(self, indexer: Any) -> Rotation:
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return self.quat.shape[0]

    def __bool__(self) -> bool:
        return True

    def __mul__(self, other: Any) -> Rotation:  # type: ignore[override]
        """First `other`, then this one."""
        return Rotation(_compose(self.quat, other.quat))

    def inv(self) -> Rotation:
        """The rotation back."""
        return Rotation(self.quat * np.array([-1, -1, -1, 1]).astype(self.quat.dtype))

    def apply(self, vectors: Array, inverse: bool = False) -> Array:
        """Vectors [..., 3] turned (or turned back)."""
        (vectors,) = promote_dtypes_inexact(jnp.asarray(vectors))
        matrix = self.as_matrix()
        matrix = jnp.swapaxes(matrix, -1, -2) if inverse else matrix
        dtype = jnp.result_type(matrix, vectors)
        return jnp.matvec(matrix.astype(dtype), vectors.astype(dtype))

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """Quaternions (x, y, z, w), or (w, x, y, z) if `scalar_first`.

        Args:
          canonical: of the two that mean the same, the one whose first part that is not zero, of
            w, x, y, z, is positive.
        """
        quat = self.quat
        if canonical:
            order = quat[..., np.array([3, 0, 1, 2])]
            nonzero = order != 0
            first = jnp.argmax(nonzero, axis=-1, keepdims=True)
            lead = jnp.take_along_axis(order, first, axis=-1)
            quat = jnp.where(lead < 0, -quat, quat)
        return jnp.roll(quat, 1, axis=-1) if scalar_first else quat

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Axes times angles, in radians unless `degrees`."""
        rotvec = _to_rotvec(self.quat)
        return jnp.rad2deg(rotvec) if degrees else rotvec

    def as_mrp(self) -> Array:
        """Modified Rodrigues parameters, of length 1 at most."""
        quat = jnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        return quat[..., :3] / (1 + quat[..., 3:])

    def as_matrix(self) -> Array:
        """Rotation matrices [..., 3, 3]."""
        x, y, z, w = (self.quat[..., i] for i in range(4))
        rows = [
            [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
        ]
        return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Angles [..., 3] of turns about three axes (Bernardes & Viollet 2022).

        The first and third are in [-π, π], the second in [0, π] if the first and third axis are
        the same, else in [-π/2, π/2]. Where only a sum of the outer ones is determined, the third
        is 0 (the first, of fixed axes).
        """
        intrinsic, axes = _sequence(seq)
        if len(axes) != 3:
            raise ValueError(f"Expected 3 axes, got {seq}.")
        i, j, k = axes if not intrinsic else axes[::-1]
        proper = i == k
        k = 3 - i - j if proper else k
        sign = (i - j) * (j - k) * (k - i) // 2
        q = [self.quat[..., n] for n in range(4)]
        a, b, c, d = (
            (q[3], q[i], q[j], q[k] * sign)
            if proper
            else (q[3] - q[j], q[i] + q[k] * sign, q[j] + q[3], q[k] * sign - q[i])
        )
        middle = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
        half_sum, half_difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
        low, high = jnp.abs(middle) <= 1e-7, jnp.abs(middle - np.pi) <= 1e-7
        first = half_sum - half_difference
        third = half_sum + half_difference
        zero = jnp.zeros_like(first)
        lone = jnp.where(low, 2 * half_sum, 2 * half_difference * (1 if intrinsic else -1))
        locked = low | high
        if intrinsic:
            first, third = jnp.where(locked, zero, first), jnp.where(locked, lone, third)
        else:
            first, third = jnp.where(locked, lone, first), jnp.where(locked, zero, third)
        if not proper:
            third, middle = third * sign, middle - np.pi / 2
        angles = [third, middle, first] if intrinsic else [first, middle, third]
        if intrinsic and not proper:
            angles = [third, middle, first]
        result = jnp.stack(angles, axis=-1)
        result = jnp.where(result < -np.pi, result + 2 * np.pi, result)
        result = jnp.where(result > np.pi, result - 2 * np.pi, result)
        return jnp.rad2deg(result) if degrees else result

    def magnitude(self) -> Array:
        """The angles of the rotations, in [0, π]."""
        sine = _length(self.quat[..., :3])[..., 0]
        return 2 * jnp.arctan2(sine, jnp.abs(self.quat[..., 3]))

    def mean(self, weights: Array | None = None) -> Rotation:
        """The rotation with the least weighted sum of squared chordal distances to those here."""
        quat = jnp.atleast_2d(self.quat)
        weighted = quat if weights is None else quat * jnp.asarray(weights, quat.dtype)[:, None]
        return Rotation(jnp.linalg.eigh(weighted.T @ quat)[1][:, -1])


class Slerp(NamedTuple):
    """Interpolation between rotations at constant angular velocity; made by `Slerp.init`.

    Attributes:
      times: [n], when each rotation holds.  timedelta: [n - 1], the differences.
      rotations: those at the beginning of each piece.  rotvecs: [n - 1, 3], what each piece turns.

    >>> turns = Rotation.from_euler("z", jnp.array([[0.0], [90.0]]), degrees=True)
    >>> halfway = Slerp.init(jnp.array([0.0, 1.0]), turns)(jnp.array([0.5]))
    >>> halfway.as_euler("xyz", degrees=True).round(3) + 0.0
    Array([[ 0.,  0., 45.]], dtype=float32)
    """

    times: Array
    timedelta: Array
    rotations: Rotation
    rotvecs: Array

    @classmethod
    def init(cls, times: Array, rotations: Rotation) -> Slerp:
        """From at least two rotations and their rising times.

        Raises:
          ValueError: one rotation, or another number of times.
        """
        if not isinstance(rotations, Rotation):
            raise TypeError("`rotations` must be a `Rotation` instance.")
        if rotations.single or len(rotations) == 1:
            raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
        times = jnp.asarray(times, dtype=rotations.quat.dtype)
        if times.shape != (len(rotations),):
            raise ValueError(
                f"Expected number of rotations to be equal to number of timestamps given, got "
                f"{len(rotations)} rotations and times of shape {times.shape}."
            )
        before, after = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        return cls(times, jnp.diff(times), before, (before.inv() * after).as_rotvec())

    def __call__(self, times: Array) -> Rotation:
        """The rotations at `times`, a number or [m]; beyond the ends the outer pieces go on."""
        at = jnp.asarray(times, dtype=self.times.dtype)
        piece = jnp.searchsorted(self.times, at, side="right") - 1
        piece = jnp.clip(piece, 0, self.timedelta.shape[0] - 1)
        share = (at - self.times[piece]) / self.timedelta[piece]
        return self.rotations[piece] * Rotation.from_rotvec(self.rotvecs[piece] * share[..., None])
