"""Libraries that take arrays of any namespace (SciPy, scikit-learn) compute with those of pyjax.

`import jax` through `as_jax` is part of it: by that name they know arrays that nobody assigns to.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

# They read the variable when they are imported, so all cases run in one process of its own. `x` is
# a 50 x 4 array of normal numbers, `xp` its namespace.
CASES = {
    "special.logsumexp": "special.logsumexp(x, axis=0)",
    "special.erf": "special.erf(x)",
    "special.softmax": "special.softmax(x, axis=1)",
    "special.expit": "special.expit(x)",
    "stats.zscore": "stats.zscore(x)",
    "stats.skew": "stats.skew(x)",
    "stats.pearsonr": "stats.pearsonr(x[:, 0], x[:, 1]).statistic",
    "stats.ttest_ind": "stats.ttest_ind(x[:, 0], x[:, 1]).pvalue",
    "stats.gmean": "stats.gmean(xp.abs(x))",
    "signal.convolve": "signal.convolve(x[:, 0], x[:5, 1])",
    "fft.fft": "xp.abs(fft.fft(x))",
    "fft.dct": "fft.dct(x)",
    "ndimage.gaussian_filter": "ndimage.gaussian_filter(x, 1.0)",
    "integrate.trapezoid": "integrate.trapezoid(x)",
    "cluster.vq.whiten": "cluster.vq.whiten(x)",
    "differentiate.derivative": "differentiate.derivative(lambda v: v**2, xp.asarray([2.0])).df",
    "spatial.Rotation": "spatial.transform.Rotation.from_rotvec(x[:, :3]).as_matrix()",
    "sklearn.PCA": "xp.abs(PCA(2, svd_solver='full').fit_transform(x))",
    "sklearn.PCA whitened": "xp.abs(PCA(3, svd_solver='full', whiten=True).fit_transform(x))",
    "sklearn.KernelCenterer": "KernelCenterer().fit_transform(x @ x.T)",
    "sklearn.zero_one_loss": "metrics.zero_one_loss(x[:, 0] > 0, x[:, 1] > 0)",
}
PROGRAM = """
import json, sys
import numpy as np
import pyjax.as_jax
import jax, pyjax, pyjax.numpy as jnp
from scipy import cluster, differentiate, fft, integrate, ndimage, signal, spatial, special, stats
from sklearn import config_context, metrics
from sklearn.decomposition import PCA
from sklearn.preprocessing import KernelCenterer

pyjax.config.update("jax_enable_x64", True)
numbers = np.random.default_rng(0).normal(size=(50, 4))
found = {}
for name, text in json.load(sys.stdin).items():
    case = found[name] = {}
    with config_context(array_api_dispatch=True):
        for xp in (np, jnp):
            try:
                got = eval(text, {**globals(), "x": xp.asarray(numbers)})
            except Exception as error:
                case[xp.__name__] = [type(error).__name__, str(error)]
            else:
                kind = "array" if isinstance(got, pyjax.Array) else type(got).__name__
                case[xp.__name__] = [kind, np.asarray(got).tolist()]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    pytest.importorskip("sklearn")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(CASES),
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", CASES)
def test_arrays_go_through(name: str, found: dict[str, Any]) -> None:
    kind, value = found[name]["pyjax.numpy"]
    plain, expected = found[name]["numpy"]
    assert kind == ("float" if plain == "float" else "array"), value
    np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)
