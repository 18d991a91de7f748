"""Eight schools, a hierarchical model, by the No-U-Turn sampler and by a guide: numpyro.

The data are those of Gelman et al., "Bayesian Data Analysis", section 5.5: effects of coaching in
eight schools, each with its standard error.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.reparam import LocScaleReparam
from stopwatch import Stopwatch

EFFECTS = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


@numpyro.handlers.reparam(config={"theta": LocScaleReparam(0)})
def model(errors, effects=None):
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    spread = numpyro.sample("spread", dist.HalfCauchy(5))
    with numpyro.plate("schools", len(errors)):
        theta = numpyro.sample("theta", dist.Normal(mean, spread))
        numpyro.sample("effects", dist.Normal(theta, errors), obs=effects)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args()

    chain = MCMC(
        NUTS(model, target_accept_prob=0.9),
        num_warmup=options.warmup,
        num_samples=options.samples,
        progress_bar=False,
    )

    def sample(key: jax.Array) -> dict[str, jax.Array]:
        chain.run(key, ERRORS, effects=EFFECTS)
        return chain.get_samples()

    watch = Stopwatch()
    for seed in range(3):
        drawn = watch.call(sample, jax.random.key(seed))
    chain.print_summary()

    guide = AutoNormal(model)
    inference = SVI(model, guide, numpyro.optim.Adam(0.01), Trace_ELBO(num_particles=4))
    found = inference.run(
        jax.random.key(0), options.steps, ERRORS, effects=EFFECTS, progress_bar=False
    )
    watch.report(
        mean=float(drawn["mean"].mean()),
        deviation_of_mean=float(drawn["mean"].std()),
        spread=float(jnp.median(drawn["spread"])),
        loss_of_guide=float(found.losses[-200:].mean()),
    )


if __name__ == "__main__":
    main()
