"""Options for finding errors: checks, tracebacks, error behaviour."""

from __future__ import annotations

import re
import sys
import traceback

import numpy as np

import pyjax
import pyjax.numpy as jnp
from tests.config.effects.observe import error_of
from tests.config.effects.table import effect


@effect("jax_disable_jit", True, default="tracer", changed="3.0")
def disable_jit() -> str:
    """What Python code in a jitted function sees."""
    seen = []

    @pyjax.jit
    def f(x: pyjax.Array) -> pyjax.Array:
        seen.append("tracer" if isinstance(x, pyjax.core.Tracer) else str(float(x)))
        return x

    f(jnp.float32(3))
    return seen[0]


@effect("jax_disable_jit", True, default=1, changed=3)
def disable_jit_in_loops() -> int:
    """How often the body of a loop of three turns runs in Python."""
    turns: list[int] = []

    def body(carry: pyjax.Array, _: None) -> tuple[pyjax.Array, None]:
        turns.append(1)
        return carry + 1, None

    pyjax.lax.scan(body, jnp.float32(0), None, length=3)
    return len(turns)


@effect(
    "jax_debug_nans",
    True,
    default="",
    changed=re.compile(r"^FloatingPointError: (?s:.*)nan", re.IGNORECASE),
)
def debug_nans() -> str:
    return error_of(lambda: jnp.log(jnp.float32(-1)).block_until_ready())


@effect(
    "jax_debug_nans",
    True,
    default="",
    changed=re.compile(r"^FloatingPointError: (?s:.*)nan", re.IGNORECASE),
)
def debug_nans_under_jit() -> str:
    f = pyjax.jit(lambda x: jnp.log(x) + 1)
    return error_of(lambda: f(jnp.float32(-1)).block_until_ready())


@effect(
    "jax_check_tracer_leaks",
    True,
    default="",
    changed=re.compile(r"^\w+: (?s:.*)[Ll]eaked trace"),
)
def check_tracer_leaks() -> str:
    leaked = []

    def f(x: pyjax.Array) -> pyjax.Array:
        leaked.append(x + 1)
        return x

    return error_of(lambda: pyjax.jit(f)(1.0))


@effect("jax_enable_checks", True, default="", changed=re.compile("^JaxprTypeError: (?s:.*)sin"))
def enable_checks() -> str:
    """A rule is broken: it says another shape each time it is asked."""
    sin = pyjax.make_jaxpr(pyjax.lax.sin)(jnp.ones(3)).eqns[0].primitive
    answers = iter(range(100, 200))
    right = sin.abstract_eval_rule
    sin.abstract_eval_rule = lambda x, **_: pyjax.core.ShapedArray((next(answers),), x.dtype)
    try:
        return error_of(lambda: pyjax.make_jaxpr(lambda x: pyjax.lax.sin(x))(jnp.ones(3)))
    finally:
        sin.abstract_eval_rule = right


@effect(
    "jax_no_tracing",
    True,
    default="",
    changed=re.compile("^RuntimeError: re-tracing function (?s:.*)no_tracing"),
)
def no_tracing() -> str:
    return error_of(lambda: pyjax.jit(lambda y: y * 2)(np.float32(3)))


class Terminal:
    """As much of one as printing needs."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True


@effect("jax_pprint_use_color", False, default=True, changed=False)
def pprint_use_color() -> bool:
    """Whether a jaxpr is printed to a terminal in colour."""
    jaxpr = pyjax.make_jaxpr(jnp.sin)(1.0)
    usual, sys.stdout = sys.stdout, Terminal()  # type: ignore[assignment]
    try:
        return "\x1b[" in str(jaxpr)
    finally:
        sys.stdout = usual


def frames_of_error() -> tuple[int, BaseException]:
    """How many frames the library has in the traceback of a user's mistake."""

    def mistake(x: pyjax.Array) -> pyjax.Array:
        return x if x > 0 else -x

    try:
        pyjax.jit(mistake)(1.0)
    except pyjax.errors.TracerBoolConversionError as error:
        files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        assert __file__ in files
        return sum("/pyjax/" in f for f in files), error
    raise AssertionError("no error")


def few(frames: int) -> bool:
    """Those of the function that was called, which takes the others away."""
    return 1 <= frames <= 2


def many(frames: int) -> bool:
    return frames > 4


@effect("jax_traceback_filtering", "off", default=few, changed=many)
def traceback_filtering_off() -> int:
    return frames_of_error()[0]


@effect("jax_traceback_filtering", "remove_frames", default="a note", changed="the whole one")
def traceback_filtering_remove_frames() -> str:
    frames, error = frames_of_error()
    assert few(frames)
    if error.__cause__ is None:
        return "a note" if "internal frames" in "".join(error.__notes__) else "nothing"
    whole = len(traceback.extract_tb(error.__cause__.__traceback__))
    return "the whole one" if whole > 4 else "a part"


@effect("jax_traceback_filtering", "tracebackhide", default=few, changed=many)
def traceback_filtering_tracebackhide() -> int:
    """Frames that say that they want to be hidden."""
    _, error = frames_of_error()
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return sum("__tracebackhide__" in frame.f_locals for frame in frames)


class InIPython:
    """Makes the library believe that an IPython session runs."""

    def __enter__(self) -> None:
        sys.modules["IPython"] = type(sys)("IPython")
        sys.modules["IPython"].get_ipython = object  # type: ignore[attr-defined]

    def __exit__(self, *exc: object) -> None:
        del sys.modules["IPython"]


@effect("jax_traceback_filtering", "quiet_remove_frames", default=many, changed=few)
def traceback_filtering_quiet_in_ipython() -> int:
    """By default all frames are there in IPython, which hides those that ask for it."""
    with InIPython():
        return frames_of_error()[0]


@effect(
    "jax_custom_vjp_disable_shape_check",
    True,
    default=re.compile(r"^ValueError: (?s:.*)same shapes and dtypes"),
    changed="",
)
def custom_vjp_disable_shape_check() -> str:
    @pyjax.custom_vjp
    def f(x: pyjax.Array) -> pyjax.Array:
        return x.sum()

    f.defvjp(lambda x: (f(x), None), lambda _, g: (jnp.ones((5,)) * g,))
    return error_of(lambda: pyjax.grad(f)(np.ones(3, np.float32)))
