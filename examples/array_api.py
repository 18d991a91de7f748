"""SciPy and scikit-learn compute with arrays of JAX through the array API standard.

`SCIPY_ARRAY_API=1` and `array_api_dispatch=True` turn it on; what goes in as a `jax.Array` comes
out as one.
"""

from __future__ import annotations

import argparse
import os

os.environ["SCIPY_ARRAY_API"] = "1"

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
import scipy.stats
import sklearn
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import accuracy_score, mean_squared_error
from stopwatch import Stopwatch


def discriminate(x: jax.Array, labels: jax.Array) -> jax.Array:
    """Log-probabilities of ten classes with a common covariance: (n, d) to (n, 10)."""
    centres = jax.ops.segment_sum(x, labels, 10) / jnp.bincount(labels, length=10)[:, None]
    weights = jnp.linalg.solve(jnp.cov((x - centres[labels]).T), centres.T)
    return scipy.special.log_softmax(x @ weights - 0.5 * jnp.sum(centres.T * weights, 0), axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--components", type=int, default=20)
    options = parser.parse_args()

    x = jnp.asarray(load_digits().data / 16, jnp.float32)
    labels = jnp.asarray(load_digits().target)

    def reduce_and_name(x, labels):
        with sklearn.config_context(array_api_dispatch=True):
            pca = PCA(options.components, svd_solver="full").fit(x)
            reduced = pca.transform(x)
            return reduced, pca.inverse_transform(reduced), discriminate(reduced, labels)

    watch = Stopwatch()
    for _ in range(5):
        reduced, restored, scores = watch.call(reduce_and_name, x, labels)
    predicted = scores.argmax(1)
    kept = 1 - float(jnp.var(restored - x, axis=0).sum() / jnp.var(x, axis=0).sum())
    with sklearn.config_context(array_api_dispatch=True):
        accuracy = float(accuracy_score(labels, predicted))
        error = float(mean_squared_error(x, restored))
    print([type(a).__name__ for a in (reduced, restored, scores)])
    assert all(isinstance(a, jax.Array) for a in (reduced, restored, scores))

    skewness = scipy.stats.skew(reduced, axis=0)
    entropy = scipy.special.entr(jnp.bincount(predicted) / len(predicted)).sum()
    assert isinstance(skewness, jax.Array) and isinstance(entropy, jax.Array)
    assert np.isclose(entropy, np.log(10), rtol=0.01)
    watch.report(
        accuracy=accuracy,
        variance_kept=kept,
        squared_error=error,
        skewness=float(jnp.abs(skewness).mean()),
    )


if __name__ == "__main__":
    main()
