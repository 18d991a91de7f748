"""Bodies that attract each other, in parts: each device moves some of them, and sees the others as
they come around in a ring.

The result that is printed is the energy, which a good integrator (here: leapfrog) nearly keeps.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from several import Runs, mesh_of, mesh_of_one, normal, put, report, start

SOFTENING, STEP = 0.1, 0.01


def pull(places, others, masses):
    """Acceleration of bodies by others, and their potential."""
    apart = others - places[:, None]
    near = jax.lax.rsqrt(jnp.sum(apart * apart, -1) + SOFTENING**2)
    return jnp.einsum("ijd,ij,j->id", apart, near**3, masses), -near @ masses


def field(places, masses):
    """What all bodies together do to those of this device."""
    count = jax.lax.axis_size("part")
    onwards = [(d, (d + 1) % count) for d in range(count)]
    acceleration, potential = jnp.zeros_like(places), jnp.zeros_like(masses)
    others, theirs = places, masses
    for turn in range(count):
        more, deeper = pull(places, others, theirs)
        acceleration, potential = acceleration + more, potential + deeper
        if turn + 1 < count:
            others, theirs = jax.lax.ppermute((others, theirs), "part", onwards)
    return acceleration, potential


def leapfrog(places, speeds, masses):
    """One step, and the energy after it."""
    acceleration, _ = field(places, masses)
    speeds = speeds + 0.5 * STEP * acceleration
    places = places + STEP * speeds
    acceleration, potential = field(places, masses)
    speeds = speeds + 0.5 * STEP * acceleration
    potential = potential + masses / SOFTENING  # a body does not attract itself
    own = jnp.sum(masses * (jnp.sum(speeds * speeds, -1) + potential)) / 2
    return places, speeds, jax.lax.psum(own, "part")


def simulate(mesh: Mesh, steps: int, bodies: int) -> Runs:
    parts = P("part")
    step = jax.shard_map(
        leapfrog,
        mesh=mesh,
        in_specs=(parts, parts, parts),
        out_specs=(parts, parts, P()),
        check_vma=False,
    )
    places, speeds = normal((bodies, 3), 0), normal((bodies, 3), 1, 0.3)
    masses = jnp.full(bodies, 1 / bodies)
    places, speeds, masses = put(mesh, (places, speeds, masses), parts)
    runs = Runs(step, mesh)
    for _ in range(steps):
        places, speeds = runs.call(places, speeds, masses)
    return runs


def main() -> None:
    options = start(__doc__, steps=20, bodies=512)
    several = simulate(mesh_of(part=options.devices), options.steps, options.bodies)
    report(several, simulate(mesh_of_one("part"), options.steps, options.bodies))


if __name__ == "__main__":
    main()
