"""Options for finding errors: checks, tracebacks, error behaviour."""

from __future__ import annotations

import gc
import re
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import pyjax
import pyjax.numpy as jnp
from pyjax import P, lax
from pyjax.experimental import checkify
from pyjax.sharding import AbstractMesh, AxisType, use_abstract_mesh
from tests.config.effects.observe import error_of, records_of
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


@effect(
    "jax_experimental_unsafe_xla_runtime_errors",
    True,
    default=re.compile("^ValueError: (?s:.*)not functionalized"),
    changed=re.compile("^_RaisedByProgram: x is -1.0 (?s:.*) in f: "),
)
def unsafe_xla_runtime_errors() -> str:
    def f(x: pyjax.Array) -> pyjax.Array:
        checkify.check(x > 0, "x is {}", x)
        return x

    return error_of(lambda: pyjax.jit(f)(jnp.float32(-1)))


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
    """None: the function that was called takes its own away, too."""
    return frames == 0


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


@effect(
    "jax_debug_infs",
    True,
    default="",
    changed=re.compile(
        r"^FloatingPointError: invalid value \(inf\) encountered in exp(?s:.*)\.exp"
    ),
)
def debug_infs() -> str:
    f = pyjax.jit(lambda x: jnp.exp(x) + 1)
    return error_of(lambda: f(jnp.float32(1000)))


@effect(
    "jax_error_checking_behavior_nan",
    "raise",
    default="",
    changed=re.compile(
        r"^FloatingPointError: (?s:.*)log\(-1.0\) = nan\n(?s:.*)debugging.py:.* in <lambda>"
    ),
)
def error_checking_of_nans() -> str:
    """One that does not get into the result."""
    f = pyjax.jit(lambda x: jnp.where(x > 0, jnp.log(x), 0))
    return error_of(lambda: f(jnp.float32(-1)))


@effect(
    "jax_error_checking_behavior_divide",
    "raise",
    default="",
    changed=re.compile(
        r"^FloatingPointError: division by zero(?s:.*)debugging.py:.* in <lambda>"
        r"(?s:.*)lane 1 of vmap"
    ),
)
def error_checking_of_divisors() -> str:
    f = pyjax.jit(pyjax.vmap(lambda x, y: x // y))
    return error_of(lambda: f(jnp.arange(3), jnp.asarray([1, 0, 2])))


@effect(
    "jax_error_checking_behavior_oob",
    "raise",
    default="",
    changed=re.compile(
        r"^OutOfBoundsError: index 3 is out of bounds for axis 0 with size 3"
        r"(?s:.*)iteration 3 of scan"
    ),
)
def error_checking_of_indices() -> str:
    table = jnp.arange(3)
    return error_of(lambda: pyjax.lax.scan(lambda c, i: (c, table[i]), 0, jnp.arange(5)))


@effect("eager_constant_folding", True, default=("iota", "add", "mul"), changed=("mul",))
def eager_constant_folding() -> tuple[str, ...]:
    """What is traced of an expression in which only one operand is not known."""
    eqns = pyjax.make_jaxpr(lambda x: x * (jnp.arange(3.0) + 1))(jnp.ones(3)).eqns
    return tuple(str(e.primitive) for e in eqns)


@effect(
    "jax_array_garbage_collection_guard",
    "log",
    default="",
    changed=re.compile(r"^WARNING:pyjax.*float32\[4321\].*garbage collector"),
)
def array_garbage_collection_guard() -> str:
    """Arrays that only a cycle keeps."""

    def make_a_cycle() -> None:
        array = jnp.ones(4321)
        cycle: list[object] = [array]
        cycle.append(cycle)

    def collect() -> None:
        gc.collect()
        make_a_cycle()
        gc.collect()

    return records_of(collect)


@effect(
    "jax_hlo_source_file_canonicalization_regex",
    ".*/",
    default=re.compile('"/.*/debugging.py"'),
    changed=re.compile('"debugging.py"'),
)
def hlo_source_file_canonicalization_regex() -> str:
    lowered = pyjax.jit(lambda x: jnp.sin(x)).lower(1.0)
    return lowered.as_text("hlo", debug_info=True)


def _sine(x: pyjax.Array) -> pyjax.Array:
    return jnp.sin(x)


def _texts_with_places() -> str:
    """StableHLO and HLO of an operation that a function of a function made."""

    def calls_sine(x: pyjax.Array) -> pyjax.Array:
        return _sine(x) + 1

    lowered = pyjax.jit(calls_sine).lower(1.0)
    return lowered.as_text(debug_info=True) + lowered.as_text("hlo", debug_info=True)


def _has_callers(text: str) -> bool:
    frames = re.findall(r'callsite|"calls_sine"|"_texts_with_places\.<locals>\.calls_sine"', text)
    return len(set(frames)) == 2 and "StackFrames" in text and "source_file=" not in text


@effect(
    "jax_include_full_tracebacks_in_locations",
    False,
    default=_has_callers,
    changed=re.compile(
        r'(?s)\A(?!.*(callsite|StackFrames)).*sine.* loc\(#loc\d*\).*"/.*debugging.py":\d+:11\)'
        r'.*sine\(.*source_file="/.*debugging.py" source_line=\d+ source_column=11'
    ),
)
def include_full_tracebacks_in_locations() -> str:
    return _texts_with_places()


@effect(
    "jax_traceback_in_locations_limit",
    1,
    default=_has_callers,
    changed=re.compile(r'(?s)\A(?!.*callsite).*"_sine"\(#loc\d*\).*2 {file_location_id=2 parent_f'),
)
def traceback_in_locations_limit() -> str:
    return _texts_with_places()


@effect(
    "jax_traceback_in_locations_limit",
    0,
    default=_has_callers,
    changed=re.compile(r'(?s)\A(?!.*(callsite|"_sine"|StackFrames|debugging.py)).*loc\("jit\('),
    ways=("update",),
)
def no_places() -> str:
    return _texts_with_places()


@effect("jax_include_debug_info_in_dumps", "False", default=True, changed=False)
def include_debug_info_in_dumps(folder: Path) -> bool:
    """Whether a dumped program says where it comes from."""
    pyjax.config.update("jax_dump_ir_to", str(folder))
    try:
        pyjax.jit(lambda x: jnp.sin(x) * 3.25)(jnp.ones(3))
    finally:
        pyjax.config.update("jax_dump_ir_to", "")
    texts = [path.read_text() for path in folder.glob("*.hlo.txt")]
    for path in folder.glob("*"):
        path.unlink()
    return "stack_frame_id" in "".join(texts)


@effect("jax_tracer_error_num_traceback_frames", 2, default=4, changed=2)
def tracer_error_num_traceback_frames() -> int:
    """How many of the user's functions an error about a tracer names."""

    def innermost(x: pyjax.Array) -> int:
        return 1 if x > 0 else 2

    def middle(x: pyjax.Array) -> int:
        return innermost(x)

    def outer(x: pyjax.Array) -> int:
        return middle(x)

    text = error_of(lambda: pyjax.jit(lambda x: outer(x) + x)(1.0))
    shown = [
        name for name in ("innermost", "middle", "outer", "<lambda>") if f" in {name}:" in text
    ]
    return len(shown)


@effect(
    "jax_use_direct_linearize", False, default=("LinearizeTracer", 6.0), changed=("JVPTracer", 6.0)
)
def use_direct_linearize() -> tuple[str, float]:
    """What Python sees in a function that is differentiated."""
    seen = []

    def square(x: pyjax.Array) -> pyjax.Array:
        seen.append(type(x).__name__)
        return x * x

    slope = float(pyjax.grad(square)(3.0))
    return seen[0], slope


@effect("jax_use_direct_linearize", False, default=6, changed=7)
def products_with_zeros_of_rules() -> int:
    """The products in the program of a gradient, one of them with what a rule gives as zeros."""
    f = pyjax.custom_jvp(lambda x: (jnp.round(x) * 2, x))
    f.defjvp(lambda p, t: (f(*p), (jnp.zeros_like(t[0]), t[0] * 3)))
    program = pyjax.make_jaxpr(pyjax.grad(lambda x: sum(jnp.sum(v * x) for v in f(x))))
    return sum(eqn.primitive.name == "mul" for eqn in program(jnp.ones(3)).eqns)


@effect(
    "check_vma",
    True,
    default="{ lambda ; a:f32[2]. let b:f32[2] = psum[axes=('i',) axis_index_groups=None] a "
    "in (b,) }",
    changed="{ lambda ; a:f32[2]. let b:f32[2]{V:i} = pvary[axes=('i',)] a "
    "c:f32[2] = psum_invariant[axes=('i',)] b in (c,) }",
)
def check_vma() -> str:
    """A sum over an axis that is manual, as in the function of a shard_map."""
    mesh = AbstractMesh((2,), ("i",), (AxisType.Manual,))
    with use_abstract_mesh(mesh):
        make = pyjax.make_jaxpr(lambda x: lax.psum(x, "i"), axis_env=[("i", 2)])
        return " ".join(str(make(jnp.ones(2))).split())


@effect(
    "jax_disable_vmap_shmap_error",
    True,
    default=re.compile(r"^ValueError: vmap spmd_axis_name cannot appear in shard_map in_specs"),
    changed="[11.0, 22.0]",
)
def disable_vmap_shmap_error() -> str:
    """A mapped axis that is cut along a mesh axis, beside an array that is cut along it, too."""
    mesh = AbstractMesh((2,), ("i",))
    add = pyjax.shard_map(
        lambda x, y: x + y[0],
        mesh=mesh,
        in_specs=(P(), P("i")),
        out_specs=P(),
        check_vma=False,
    )
    mapped = pyjax.vmap(add, in_axes=(0, None), spmd_axis_name="i")
    arrays = jnp.array([1.0, 2.0]), jnp.array([10.0, 20.0])
    return error_of(lambda: mapped(*arrays)) or str(mapped(*arrays).tolist())


@effect("jax_mutable_array_checks", False, default=re.compile("argument 'b' and as"), changed="3.0")
def mutable_array_checks() -> str:
    """What comes of a reference that is two arguments."""
    ref = pyjax.new_ref(jnp.arange(3.0))

    def both(a: pyjax.Ref, b: pyjax.Ref) -> pyjax.Array:
        return a[1] + b[2]

    try:
        return str(pyjax.jit(both)(ref, ref))
    except ValueError as error:
        return str(error)


@effect("jax_mutable_array_checks", False, default=True, changed=False)
def mutable_array_checks_of_results() -> bool:
    """Whether a function must not return a reference."""
    return "cannot be returned" in error_of(lambda: pyjax.jit(lambda: pyjax.new_ref(1.0))())


def _tripled() -> Any:
    """sin, with three times its derivative."""
    f = pyjax.custom_vjp(jnp.sin)
    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (3 * ct * jnp.cos(x),))
    return f


@effect(
    "jax_enable_custom_vjp_by_custom_transpose",
    True,
    default=("custom_vjp_call", 3.0),
    changed=("custom_jvp_call", 3.0),
)
def custom_vjp_in_programs() -> tuple[str, float]:
    """What a function with a rule of its own is in a program, and its derivative."""
    (eqn,) = pyjax.make_jaxpr(_tripled())(0.0).eqns
    return eqn.primitive.name, float(pyjax.grad(_tripled())(0.0))


@effect(
    "jax_enable_custom_vjp_by_custom_transpose", True, default="custom_lin", changed="linear_call"
)
def custom_vjp_linearized() -> str:
    """What stands for its derivative until it is transposed."""
    f = _tripled()
    eqns = pyjax.make_jaxpr(lambda x: pyjax.linearize(f, x)[1](x))(0.0).eqns
    return eqns[-1].primitive.name


@effect(
    "jax_check_static_indices",
    True,
    default="",
    changed=re.compile("^IndexError: index 7 out of bounds for axis 0 with size 5"),
)
def static_index_out_of_bounds() -> str:
    assert float(pyjax.jit(lambda x: x[4])(jnp.arange(5.0))) == 4
    return error_of(lambda: pyjax.jit(lambda x: x[7])(jnp.arange(5.0)))


@effect(
    "jax_no_execution",
    True,
    default=["", ""],
    changed=["RuntimeError", "RuntimeError"],
)
def what_runs() -> list[str]:
    """How a jitted function and an operation end; tracing and compilation go on."""
    x = np.ones(3, np.float32)
    assert pyjax.eval_shape(jnp.sin, x).shape == (3,)
    pyjax.jit(jnp.sin).lower(x).compile()
    calls = (lambda: pyjax.jit(lambda x: x + 1)(x), lambda: pyjax.lax.sin(x))
    return [error_of(call).partition(":")[0] for call in calls]


@effect(
    "jax_captured_constants_warn_bytes",
    100,
    default=[],
    changed=["A large amount of constants were captured during lowering (4000 bytes total)"],
)
def captured_arrays() -> list[str]:
    """The beginnings of warnings about a function that closes over an array."""
    captured = jnp.arange(1000.0)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        pyjax.jit(lambda x: x + captured)(1.0)
    return [str(w.message).partition(";")[0] for w in found]
