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
        ("scipy.special.multigammaln",),
        "With 64 bits, a boolean becomes float32, as in functions of one array; the reference adds "
        "a float64 constant to it.",
    ),
    Known(
        "dtype",
        ("numpy.cumulative_prod",),
        "It accumulates in the default integer, as the array API standard asks and cumulative_sum "
        "does.",
    ),
    Known(
        "dtype",
        ("numpy.interp",),
        "The dtype is that of the values fp; the reference promotes it with x where it adds the "
        "slope, and takes constants of another dtype for the ends.",
    ),
    Known(
        "dtype",
        ("numpy.polyfit",),
        "A weakly typed x and values of half precision give half precision; the reference computes "
        "the powers of x in the default float first.",
    ),
    Known(
        "dtype",
        ("random.weibull_min", "random.double_sided_maxwell"),
        "Samples are real: of a complex scale the real part is taken; the reference's are complex.",
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
        "error",
        ("image.scale_and_translate",),
        "8-bit floats as scale or translation do not promote.",
    ),
    Known(
        "error",
        """
        numpy.histogram numpy.histogramdd numpy.array_equiv random.binomial random.multinomial
        random.double_sided_maxwell random.generalized_normal numpy.full_like
        """.split(),
        "8-bit floats and integers of 4 bits do not promote with other types; complex numbers are "
        "no parameters, and do not become real ones.",
    ),
    Known(
        "error",
        """
        lax.clamp lax.argmax lax.argmin numpy.argmax numpy.argmin numpy.nanargmax numpy.nanargmin
        lax.scatter_apply scipy.special.loggamma nn.dot_product_attention
        """.split(),
        "Of complex numbers: they have no order (and their absolute values another type); the "
        "reference fails when the program is compiled, or gives a result of an order by parts.",
    ),
    Known(
        "error",
        """
        lax.reshape lax.reduce lax.cumlogsumexp lax.random_gamma_grad lax.custom_linear_solve
        lax.linalg.cholesky lax.linalg.eigh
        """.split(),
        "lax functions take arrays of the types that the operation has: no Python numbers in place "
        "of arrays, no integers for floats, and no operands of several types.",
    ),
    Known(
        "error",
        """
        lax.conv lax.conv_general_dilated lax.conv_with_general_padding lax.conv_transpose
        lax.conv_general_dilated_local lax.conv_general_dilated_patches
        """.split(),
        "Booleans have no products to sum; the reference fails when the program is compiled.",
    ),
    Known(
        "weak",
        ("numpy.interp", "numpy.angle", "numpy.setdiff1d", "lax.ragged_dot"),
        "Weak types that meet constants inside of the function in the reference: interp of weakly "
        "typed values and angle of a weakly typed float array keep theirs there; setdiff1d of "
        "complex numbers and ragged_dot of integers lose it.",
    ),
    Known(
        "weak",
        ("lax.random_gamma_grad",),
        "The result is weakly typed if both operands are; the reference's is not where the first "
        "is a weakly typed array.",
    ),
    Known(
        "weak",
        ("numpy.isreal", "numpy.iscomplex"),
        "Booleans are never weakly typed here.",
    ),
    Known(
        "weak",
        ("scipy.special.kl_div", "scipy.special.rel_entr"),
        "The result is weakly typed if both operands are; the reference's only if the first is a "
        "Python number.",
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
