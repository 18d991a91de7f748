"""Kernels of scientific codes, at the sizes at which collections of such kernels give them."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import programs
from benchmarks.suite.package import (
    FRAMEWORK,
    Made,
    add,
    integers,
    jax,
    jnp,
    lax,
    normal,
    program,
    uniform,
)

GROUP = "scientific kernels"
add(GROUP, "wave equation, 512², 100 steps", lambda: programs.wave(FRAMEWORK), tolerance=1e-3)
add(GROUP, "Laplacian by rolls, 2048²", lambda: programs.rolled_stencil(FRAMEWORK))


@program(GROUP, "heat by rolls, 512², 100 steps")
def _heat() -> Made:
    def step(_: Any, u: Any) -> Any:
        near = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
        return u + 0.1 * (near - 4 * u)

    return lambda u: lax.fori_loop(0, 100, step, u), (normal(512, 512),)


@program(GROUP, "Jacobi 2D, 250², 100 steps")
def _jacobi() -> Made:
    def mean(u: Any) -> Any:
        inner = u[1:-1, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] + u[2:, 1:-1] + u[:-2, 1:-1]
        return 0.2 * inner

    def step(_: Any, s: Any) -> Any:
        a, b = s
        b = b.at[1:-1, 1:-1].set(mean(a))
        return a.at[1:-1, 1:-1].set(mean(b)), b

    return lambda a, b: lax.fori_loop(0, 100, step, (a, b)), (normal(250, 250), normal(250, 250))


@program(GROUP, "heat 3D, 70³, 20 steps")
def _heat_3d() -> Made:
    def step(_: Any, u: Any) -> Any:
        inner = u[1:-1, 1:-1, 1:-1]
        second = (
            (u[2:, 1:-1, 1:-1] - 2 * inner + u[:-2, 1:-1, 1:-1])
            + (u[1:-1, 2:, 1:-1] - 2 * inner + u[1:-1, :-2, 1:-1])
            + (u[1:-1, 1:-1, 2:] - 2 * inner + u[1:-1, 1:-1, :-2])
        )
        return u.at[1:-1, 1:-1, 1:-1].set(inner + 0.125 * second)

    return lambda u: lax.fori_loop(0, 20, step, u), (normal(70, 70, 70),)


@program(GROUP, "FDTD 2D, 200×220, 60 steps")
def _fdtd() -> Made:
    def step(t: Any, s: Any) -> Any:
        ex, ey, hz = s
        ey = ey.at[0, :].set(jnp.float32(t))
        ey = ey.at[1:, :].add(-0.5 * (hz[1:, :] - hz[:-1, :]))
        ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
        turn = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
        return ex, ey, hz.at[:-1, :-1].add(-0.7 * turn)

    grid = [normal(200, 220, seed=i) for i in range(3)]
    return lambda *s: lax.fori_loop(0, 60, step, s), tuple(grid)


@program(GROUP, "n-body, 100 bodies, 100 steps", tolerance=1e-2)
def _bodies() -> Made:
    def pull(x: Any, m: Any) -> Any:
        apart = x[None] - x[:, None]
        inverse = ((apart**2).sum(-1) + 0.01) ** -1.5
        return ((apart * inverse[..., None]) * m[None, :, None]).sum(1)

    def run(x: Any, v: Any, m: Any) -> Any:
        def step(s: Any, _: None) -> tuple[Any, Any]:
            x, v, a = s
            v = v + 0.005 * a
            x = x + 0.01 * v
            a = pull(x, m)
            v = v + 0.005 * a
            return (x, v, a), 0.5 * (m * (v**2).sum(-1)).sum()

        return lax.scan(step, (x, v, pull(x, m)), None, length=100)[1]

    return run, (normal(100, 3), normal(100, 3, seed=1), uniform(0.1, 0.2, 100))


@program(GROUP, "Mandelbrot, 400², 50 steps", tolerance=None)
def _mandelbrot() -> Made:
    def escape(c: Any) -> Any:
        def step(_: Any, s: Any) -> Any:
            z, n = s
            inside = jnp.abs(z) < 2
            return jnp.where(inside, z * z + c, z), n + inside

        return lax.fori_loop(0, 50, step, (c * 0, jnp.zeros(c.shape, jnp.int32)))[1]

    grid = np.linspace(-2, 1, 400)[None] + 1j * np.linspace(-1.5, 1.5, 400)[:, None]
    return escape, (jnp.asarray(grid.astype(np.complex64)),)


@program(GROUP, "sparse matrix by vector, 65,536², 655,360 values")
def _sparse() -> Made:
    rows = jnp.sort(integers(65_536, 655_360))
    values, x = normal(655_360), normal(65_536)
    product = lambda v, r, c, x: jax.ops.segment_sum(v * x[c], r, 65_536)
    return product, (values, rows, integers(65_536, 655_360, seed=1), x)


@program(GROUP, "correlation, 500 by 600")
def _correlation() -> Made:
    return lambda x: jnp.corrcoef(x, rowvar=False), (normal(600, 500),)


@program(GROUP, "covariance, 500 by 600")
def _covariance() -> Made:
    return lambda x: jnp.cov(x, rowvar=False), (normal(600, 500),)


@program(GROUP, "pairwise distances, 1000 in 3D")
def _pairwise() -> Made:
    return lambda x: jnp.sqrt(((x[:, None] - x[None]) ** 2).sum(-1) + 1e-6), (normal(1000, 3),)


@program(GROUP, "azimuthal averages, 1M points, 1000 bins")
def _azimuthal() -> Made:
    def averages(values: Any, radius: Any) -> Any:
        bins = jnp.minimum((radius * 100).astype(jnp.int32), 999)
        sums = jnp.zeros(1000).at[bins].add(values)
        return sums / jnp.maximum(jnp.zeros(1000).at[bins].add(1.0), 1)

    return averages, (normal(1_000_000), uniform(0, 10, 1_000_000))


@program(GROUP, "channel flow, 61², 25 steps of 50", tolerance=1e-2)
def _channel() -> Made:
    def pressure(p: Any, b: Any) -> Any:
        def step(_: Any, p: Any) -> Any:
            sides = jnp.roll(p, 1, 1)[1:-1] + jnp.roll(p, -1, 1)[1:-1] + p[2:] + p[:-2]
            p = p.at[1:-1].set(0.25 * (sides - b[1:-1]))
            return p.at[0].set(p[1]).at[-1].set(p[-2])

        return lax.fori_loop(0, 50, step, p)

    def run(u: Any, v: Any, p: Any) -> Any:
        def step(_: Any, s: Any) -> Any:
            u, v, p = s
            slope = lambda f, axis: 0.5 * (jnp.roll(f, -1, axis) - jnp.roll(f, 1, axis))
            p = pressure(p, 0.1 * (slope(u, 1) + slope(v, 0)))
            u = u - 0.01 * (u * slope(u, 1) + v * slope(u, 0) + slope(p, 1)) + 0.01
            v = v - 0.01 * (u * slope(v, 1) + v * slope(v, 0) + slope(p, 0))
            still = lambda f: f.at[0].set(0).at[-1].set(0)
            return still(u), still(v), p

        return lax.fori_loop(0, 25, step, (u, v, p))

    zero = jnp.zeros((61, 61))
    return run, (zero, zero, zero)


@program(GROUP, "hydrodynamics, 128² finite volumes, 20 steps", tolerance=1e-3)
def _hydrodynamics() -> Made:
    def flux(left: Any, right: Any) -> Any:
        def of(s: Any) -> tuple[Any, Any]:
            density, momentum, energy = s
            speed = momentum / density
            pressure = 0.4 * (energy - 0.5 * momentum * speed)
            waves = jnp.abs(speed) + jnp.sqrt(1.4 * jnp.maximum(pressure, 1e-6) / density)
            return jnp.stack(
                [momentum, momentum * speed + pressure, (energy + pressure) * speed]
            ), waves

        (a, fast), (b, faster) = of(left), of(right)
        return 0.5 * (a + b) - 0.5 * jnp.maximum(fast, faster) * (right - left)

    def step(_: Any, s: Any) -> Any:
        for axis in (1, 2):
            through = flux(s, jnp.roll(s, -1, axis))
            s = s - 0.05 * (through - jnp.roll(through, 1, axis))
        return s

    state = jnp.stack(
        [1 + 0.1 * normal(128, 128), 0.1 * normal(128, 128, seed=1), jnp.full((128, 128), 2.5)]
    )
    return lambda s: lax.fori_loop(0, 20, step, s), (jnp.abs(state),)


@program(GROUP, "contour integral, 32 points, 100²", tolerance=1e-2)
def _contour() -> Made:
    def integral(h: Any, y: Any) -> Any:
        angles = (
            jnp.asarray(np.exp(2j * np.pi * (np.arange(32) + 0.5) / 32).astype(np.complex64)) * 40
        )
        one = jnp.eye(100, dtype=jnp.complex64)
        solve = lambda z: z * jnp.linalg.solve(z * one - h, y)
        return jax.vmap(solve)(angles).sum(0) / 32

    return integral, (normal(100, 100).astype(jnp.complex64), normal(100, 20).astype(jnp.complex64))


@program(GROUP, "self-energies of scattering, 4×6×50×12²", tolerance=1e-3)
def _scattering() -> Made:
    def energies(g: Any, d: Any) -> Any:
        product = jnp.einsum("keab,qab->kqeab", g, d)
        return jnp.einsum("kqeab,kebc->qeac", product, g)

    return energies, (normal(4, 50, 12, 12), normal(6, 12, 12))


@program(GROUP, "k-means, 10,000 points, 16 centres, 10 rounds", tolerance=1e-2)
def _clusters() -> Made:
    def run(x: Any, centres: Any) -> Any:
        def step(_: Any, c: Any) -> Any:
            near = jnp.argmin(((x[:, None] - c[None]) ** 2).sum(-1), 1)
            sums = jax.ops.segment_sum(x, near, 16)
            return sums / jnp.maximum(jnp.bincount(near, length=16), 1)[:, None]

        return lax.fori_loop(0, 10, step, centres)

    x = normal(10_000, 8)
    return run, (x, x[:16])


@program(GROUP, "conjugate gradients, 1024², 20 rounds", tolerance=1e-2)
def _conjugate() -> Made:
    def run(a: Any, b: Any) -> Any:
        def step(_: Any, s: Any) -> Any:
            x, r, p = s
            ap = a @ p
            length = (r @ r) / (p @ ap)
            x, new = x + length * p, r - length * ap
            return x, new, new + (new @ new) / (r @ r) * p

        return lax.fori_loop(0, 20, step, (jnp.zeros_like(b), b, b))[0]

    m = np.random.default_rng(0).normal(size=(1024, 1024)).astype(np.float32) / 64
    return run, (jnp.asarray(m @ m.T + np.eye(1024, dtype=np.float32)), normal(1024))


@program(GROUP, "Kalman filter, 1000 steps, 6 states", tolerance=1e-2)
def _kalman() -> Made:
    forward, seen = normal(6, 6) * 0.1, normal(3, 6, seed=1)

    def run(x: Any, p: Any, zs: Any) -> Any:
        def step(c: Any, z: Any) -> tuple[Any, Any]:
            x, p = c
            x, p = forward @ x, forward @ p @ forward.T + jnp.eye(6)
            gain = jnp.linalg.solve(seen @ p @ seen.T + jnp.eye(3), seen @ p).T
            x, p = x + gain @ (z - seen @ x), p - gain @ seen @ p
            return (x, p), x

        return lax.scan(step, (x, p), zs)[1]

    return run, (normal(6), jnp.eye(6), normal(1000, 3))


@program(GROUP, "Floyd-Warshall, 200 nodes")
def _paths() -> Made:
    def run(d: Any) -> Any:
        step = lambda k, d: jnp.minimum(d, d[:, k, None] + d[None, k, :])
        return lax.fori_loop(0, 200, step, d)

    return run, (uniform(0, 10, 200, 200),)


@program(GROUP, "Monte Carlo pi, 1M points")
def _pi() -> Made:
    def run(key: Any) -> Any:
        x, y = jax.random.uniform(key, (2, 1_000_000))
        return 4 * (x * x + y * y < 1).mean()

    return run, (jax.random.key(0),)


@program(GROUP, "Runge-Kutta 4 of 1000 pendulums, 100 steps", tolerance=1e-3)
def _pendulums() -> Made:
    def slope(s: Any) -> Any:
        return jnp.stack([s[1], -jnp.sin(s[0])])

    def step(s: Any, _: None) -> tuple[Any, None]:
        k1 = slope(s)
        k2 = slope(s + 0.005 * k1)
        k3 = slope(s + 0.005 * k2)
        k4 = slope(s + 0.01 * k3)
        return s + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    return lambda s: lax.scan(step, s, None, length=100)[0], (normal(2, 1000),)


@program(GROUP, "Runge-Kutta of 1000 Lorenz systems, 100 steps", tolerance=1e-2)
def _lorenz() -> Made:
    def rates(s: Any) -> Any:
        x, y, z = s[..., 0], s[..., 1], s[..., 2]
        return jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)

    def step(_: Any, s: Any) -> Any:
        a = rates(s)
        b = rates(s + 0.005 * a)
        c = rates(s + 0.005 * b)
        d = rates(s + 0.01 * c)
        return s + 0.01 / 6 * (a + 2 * b + 2 * c + d)

    return lambda s: lax.fori_loop(0, 100, step, s), (normal(1000, 3),)


@program(GROUP, "vectors rotated by quaternions, 100,000")
def _rotations() -> Made:
    def rotate(q: Any, v: Any) -> Any:
        twice = 2 * jnp.cross(q[:, 1:], v)
        return v + q[:, :1] * twice + jnp.cross(q[:, 1:], twice)

    return rotate, (normal(100_000, 4), normal(100_000, 3))


@program(GROUP, "binomial tree of an option, 200 steps")
def _binomial() -> Made:
    def price(s: Any) -> Any:
        values = jnp.maximum(1 - s * jnp.exp(0.02 * (2 * jnp.arange(201) - 200)), 0)
        back = lambda _, v: jnp.maximum(0.49995 * (v + jnp.roll(v, -1)), 0)
        return lax.fori_loop(0, 200, back, values)[0]

    return price, (jnp.float32(1),)


@program(GROUP, "lattice Boltzmann, 64², nine velocities, 20 steps")
def _lattice_boltzmann() -> Made:
    velocities = [(i % 3 - 1, i // 3 - 1) for i in range(9)]

    def step(_: Any, f: Any) -> Any:
        f = jnp.stack([jnp.roll(f[i], by, (0, 1)) for i, by in enumerate(velocities)])
        return f - 0.6 * (f - f.sum(0) / 9)

    return lambda f: lax.fori_loop(0, 20, step, f), (uniform(0.9, 1.1, 9, 64, 64),)
