"""Differences to the reference that stay, with their reasons.

The tests accept exactly these; docs/differences_to_jax.md is generated from them by
`python -m tests.edge_values.document`. Each names one case that shows it, and a test fails when
that case no longer differs.
"""

from __future__ import annotations

from tests.edge_values.known_arithmetic import ARITHMETIC
from tests.edge_values.known_difference import Difference
from tests.edge_values.known_errors import ERRORS
from tests.edge_values.known_experimental import EXPERIMENTAL
from tests.edge_values.known_gradients import GRADIENTS
from tests.edge_values.known_scipy import SCIPY
from tests.edge_values.known_special import SPECIAL
from tests.edge_values.known_stats import STATS
from tests.edge_values.known_stats_gradients import STATS_GRADIENTS
from tests.edge_values.known_transformations import TRANSFORMATIONS
from tests.edge_values.not_smooth import NOT_SMOOTH

# What no list of cases can say.
GENERAL = (
    (
        "Subnormal numbers",
        "pyjax computes with subnormals as IEEE 754 says. XLA's CPU backend flushes them to zero "
        "in most operations, and keeps them in some.",
    ),
    (
        "Complex functions at infinities and signed zeros",
        "Where a part of a complex operand is infinite, NaN, -0.0 or so large that its square "
        "overflows, pyjax's elementary functions keep the signs of zeros (and so the side of the "
        "branch cut) as C99 and NumPy do; XLA's formulas lose them, and give NaN in other places. "
        "These elements, and signs of zeros in complex results that round, are not compared.",
    ),
    (
        "Last digits of elementary and special functions",
        "Both round, in different ways. Of 400,000 random float32 numbers for each function, "
        "pyjax's results are within 0.8 units in the last place of the true value (log), 1.5 (exp, "
        "log1p, log2, erf, tanh, logistic), 1.8 (log10), 2.6 (erf_inv) and 0.5 (lgamma, digamma); "
        "JAX's within 1.1 (exp, log), 2.7 (log1p, log2, log10, logistic), 5.3 (erf, tanh), 65 "
        "(erf_inv), 27 (digamma from 2 on) and, near the zeros of lgamma, without a bound. Cases "
        "are compared up to a number of such units that their row states. Samples that are made "
        "by these functions differ as far; where their last digits decide whether a sample is "
        "taken (poisson of rates from 1000 on), other samples follow.",
    ),
    (
        "gcd and lcm of the smallest integer",
        "pyjax gives what NumPy gives. JAX does not return for most pairs with the smallest "
        "integer of a signed type, so that no result could be recorded.",
    ),
    (
        "Primitives that users define",
        "A primitive without `def_impl` that has a lowering rule is compiled and run; JAX raises. "
        "Rules of `mlir.register_lowering` take and give instructions of pyjax's HLO, not values "
        "of MLIR; `lower_fun` makes such rules, here as there. `cacheable` and `inline` change "
        "nothing. Gradients are weakly typed where the argument is; JAX's are not where the rule "
        "of `def_abstract_eval` drops the mark.",
    ),
    (
        "Functions with a rule for vmap",
        "`grad` of a `custom_vmap` function works: values come from the rule, cotangents from the "
        "function. JAX raises.",
    ),
    (
        "Narrow integers and wide indices",
        "`abs` and its like take int4 and uint4; JAX refuses them. uint32 indices above 2**31 are "
        "out of bounds, as they say; JAX takes them for negative ones, or leaves small unsigned "
        "types as they are, so that jaxprs of indexing have other conversions.",
    ),
    (
        "Masks with more axes than the array",
        "Reductions with a `where=` of more axes than the array reduce every axis of the two "
        "broadcast together if `axis` is None; JAX reduces as many as the array has, the first.",
    ),
    (
        "Reverse mode of while_loop",
        "`grad` and the other ways of reverse mode go through `lax.while_loop`, and through "
        "`lax.fori_loop` with traced bounds: the loop counts its rounds, and the backward pass "
        "computes its states again from checkpoints. JAX raises ValueError.",
    ),
    (
        "Devices",
        "`Device.memory_stats()` has numbers on CPUs, too; JAX has None there.",
    ),
    (
        "Messages",
        "Texts of exceptions are pyjax's own: they name the user's line, the operands, the reason "
        "and a way out, and no page of JAX's documentation. The note about removed frames says "
        "pyjax. `__module__` of functions says where they are in pyjax.",
    ),
    (
        "Objects that stand for arrays",
        "What has `__jax_array__` is taken by every function; some of JAX's (`where`, `vdot`, "
        "`ravel`) raise ValueError.",
    ),
    (
        "Arrays as Python objects",
        "Arrays have a `__hash__` that raises, so that its message can name the line: "
        "`isinstance(x, Hashable)` is True. They take no attributes of the user's: `x.name = ...` "
        "raises AttributeError, so that a misspelt name is noticed. Their class is `DeviceArray`.",
    ),
    (
        "Effects in mapped loops",
        "A `while_loop` under vmap evaluates its condition once a round; JAX does so twice where "
        "examples stop at different rounds, and prints of `debug.print` in it come twice.",
    ),
    (
        "Minimisers",
        "`scipy.optimize` is there without an import of its own. BFGS and L-BFGS search along "
        "lines by bisection and doubling, and so find minima of functions with which JAX's line "
        "search fails in float32 (the one of Rosenbrock from (-1.2, 1), for example). Numbers of "
        "rounds differ, and where several minima can be reached, so may the one that is found. "
        "`tol` sets `gtol`; JAX ignores it.",
    ),
    (
        "Functions without arguments",
        "`vectorize` of a function without arguments calls it; JAX fails an assertion.",
    ),
    (
        "Special functions at infinity",
        "`expi`, `exp1`, `expn`, `wofz`, `spence`, `hyp1f1`, `hyp2f1`, `zeta` and `polygamma` have "
        "SciPy's limits at infinite arguments where JAX has NaN or other values, and the slope "
        "of `spence` at 0 is -inf (JAX: 0).",
    ),
    (
        "Small differences of functions",
        "`owens_t` of half-precision arguments keeps their dtype; JAX gives float32. `lpmn` gives "
        "no DeprecationWarning.",
    ),
    (
        "Composites",
        "`lax.composite` works under vmap: the function is mapped; JAX raises NotImplementedError. "
        "`lax.scaled_dot` is a composite in jaxprs, not a primitive of its own.",
    ),
    (
        "Constants of programs",
        "Closed-over arrays of up to 64 bytes become constants of a program "
        "(`jax_embedded_constants_max_bytes`; JAX: 32), larger ones become its arguments, so that "
        "programs that differ in them alone are one: the text of a lowered function has no "
        "`dense<...>` of theirs, and more arguments. JAX writes them all into the text. An array "
        "that a function closes over cannot be donated to it: that is an error, where JAX has a "
        "copy in the program.",
    ),
    (
        "Texts of programs",
        "Jaxprs mean the same as JAX's, but may have other equations for the same function, and "
        "with `source_info=True` they are printed with the line of each equation. In StableHLO "
        "and HLO, small jitted functions are written out where JAX has calls of them.",
    ),
    (
        "Options",
        "Values of options are what they are written as: `config.jax_explicit_x64_dtypes` is "
        '"warn", where JAX has the member of an enumeration, which prints as 1.',
    ),
    (
        "Tables of rules",
        "`interpreters.batching.primitive_batchers`, `ad.primitive_jvps` and their like are "
        "mappings with a length that can be walked through; those of JAX are proxies, without.",
    ),
    (
        "Functions with rules under named axes",
        "Under vmap with an `axis_name`, results of functions with `custom_jvp` or `custom_vjp` "
        "are taken to differ between examples, so that the function and its rules agree whatever "
        "they do with the axis. `out_axes=None` is an error for them; JAX accepts it where no "
        "operand is mapped. `out_axes=0` gives the same values.",
    ),
    (
        "DLPack and strings",
        "`from_dlpack(x, copy=False)` shares memory of any alignment; JAX refuses what is not "
        "aligned to 64 bytes. `device_put` of an array of strings raises InvalidInputException, "
        "which is a TypeError.",
    ),
)

KNOWN: tuple[Difference, ...] = (
    *ERRORS,
    *ARITHMETIC,
    *SPECIAL,
    *GRADIENTS,
    *SCIPY,
    *STATS,
    *STATS_GRADIENTS,
    *TRANSFORMATIONS,
    *EXPERIMENTAL,
)


def known(key: str, mode: str) -> bool:
    return any(d.covers(key, mode) for d in (*KNOWN, *NOT_SMOOTH))
