"""Where the types of results differ from the reference, and why."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """Calls whose results differ in one way.

    Attributes:
      what: "weak" (only the weak type), "error" (pyjax raises) or "dtype".
      calls: names of functions.
      reason: why it stays.
    """

    what: str
    calls: Collection[str]
    reason: str


KNOWN: tuple[Known, ...] = (
    Known(
        "dtype",
        """
        scipy.special.multigammaln nn.celu nn.elu nn.hard_silu nn.hard_swish nn.leaky_relu
        nn.mish nn.relu6 nn.selu nn.soft_sign nn.sparse_plus nn.sparse_sigmoid nn.squareplus
        """.split(),
        "With 64 bits, small integers meet a Python constant first in the reference, which makes "
        "them the default float; here they become float32, as in functions without constants.",
    ),
    Known(
        "dtype",
        """
        numpy.histogram2d numpy.histogramdd numpy.cumulative_prod numpy.interp numpy.polyfit
        random.weibull_min random.double_sided_maxwell
        """.split(),
        "cumulative_prod accumulates in the default integer, as the array API standard asks. The "
        "others promote some operands later than the reference.",
    ),
    Known(
        "dtype",
        "scipy.fft.dct scipy.fft.idct scipy.fft.dctn scipy.fft.idctn".split(),
        "Transforms of half precision stay in half precision; the reference's are float32.",
    ),
    Known(
        "dtype",
        ("image.scale_and_translate",),
        "The result has the promoted type of image, scale and translation; the reference's is that "
        "of the image.",
    ),
    Known(
        "dtype",
        ("scipy.signal.csd",),
        "With 64 bits, a boolean signal and a weakly typed one are float32 here, float64 there.",
    ),
    Known(
        "weak",
        ("scipy.signal.detrend",),
        "The result of the fit that is subtracted has a type of its own.",
    ),
    Known(
        "error",
        ("image.scale_and_translate",),
        "8-bit floats as scale or translation do not promote.",
    ),
    Known(
        "error",
        """
        lax.random_gamma_grad lax.clamp lax.reshape lax.scatter_apply lax.reduce lax.argmax
        lax.argmin lax.cumlogsumexp lax.dot lax.dot_general lax.batch_matmul lax.conv
        lax.conv_general_dilated lax.conv_with_general_padding lax.conv_transpose
        lax.conv_general_dilated_local lax.conv_general_dilated_patches lax.ragged_dot
        lax.custom_linear_solve lax.linalg.cholesky lax.linalg.eigh numpy.full_like
        numpy.histogram numpy.histogram2d numpy.histogramdd numpy.nanargmax numpy.nanargmin
        numpy.argmax numpy.argmin numpy.array_equiv random.double_sided_maxwell
        random.generalized_normal random.binomial random.multinomial scipy.special.loggamma
        nn.dot_product_attention
        """.split(),
        "Operands of several types, of types without the operation, and Python numbers in place of "
        "arrays are refused; the reference converts them, or fails when the program is compiled.",
    ),
    Known(
        "weak",
        """
        operators lax.pow lax.random_gamma_grad lax.bitcast_convert_type lax.scatter
        lax.scatter_add lax.scatter_sub lax.scatter_mul lax.scatter_min lax.scatter_max
        lax.scatter_apply lax.reduce_and lax.reduce_or lax.reduce_xor lax.reduce
        lax.ragged_dot lax.associative_scan lax.psum lax.pmax lax.pmin numpy.linalg.cholesky
        numpy.linalg.eigvalsh numpy.linalg.eigh numpy.linalg.diagonal numpy.linalg.cross
        lax.linalg.cholesky lax.linalg.cholesky_update lax.linalg.eigh lax.linalg.schur
        lax.linalg.symmetric_product lax.linalg.triangular_solve numpy.isreal
        numpy.iscomplex numpy.angle numpy.power numpy.pow numpy.logaddexp numpy.place
        numpy.interp numpy.insert numpy.pad numpy.diagflat numpy.polyadd numpy.polysub
        numpy.setdiff1d numpy.einsum numpy.cross scipy.special.logit scipy.special.kl_div
        scipy.special.rel_entr nn.celu nn.elu nn.hard_silu nn.hard_swish nn.leaky_relu
        nn.log_sigmoid nn.mish nn.relu6 nn.selu nn.soft_sign nn.softplus nn.sparse_plus
        nn.sparse_sigmoid nn.squareplus
        """.split(),
        "Weak types that meet constants inside of the function: what remains of them depends on "
        "how it is written.",
    ),
)


def difference(got: str, want: str) -> str | None:
    """How an outcome differs from the recorded one; None if it does not.

    What the reference refuses, pyjax may compute; classes of errors are compared elsewhere, in the
    tables of edge values.
    """
    if want.startswith("!") or got == want:
        return None
    if got.startswith("!"):
        return "error"
    return "weak" if got.replace("*", "") == want.replace("*", "") else "dtype"


def is_known(name: str, what: str) -> bool:
    """Whether a difference of the function `name` is listed."""
    return any(entry.what == what and name in entry.calls for entry in KNOWN)
