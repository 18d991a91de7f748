"""Runs a case under a framework, the reference or pyjax, and writes the outcome down.

The framework is an argument; nothing here imports one. An outcome is plain JSON:

    {"error": ["TypeError"]}                        names of the exception's class and of its bases
                                                    up to Exception
    {"tree": "(*, *)", "leaves": [leaf, ...]}       a leaf: [dtype, weak type, shape, hex of bytes]
                                                    or [Python value as text]
"""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from tests.edge_values.operands import DTYPES, X64, direction, is_inexact, operand
from tests.edge_values.rows import Case

Outcome = dict[str, Any]
# Makes the operand of a name and a dtype.
Operands = Callable[[str, str], np.ndarray]


def resolve(jax: Any, name: str) -> Any:
    """The object of this name; modules that are imported by their own names are imported."""
    found = jax
    for part in name.split("."):
        if isinstance(found, ModuleType) and not hasattr(found, part):
            import_module(f"{found.__name__}.{part}")
        found = getattr(found, part)
    return found


def arguments(jax: Any, case: Case, operand: Operands = operand) -> dict[str, Any]:
    """The operands of the case as arrays of the framework."""
    found = {}
    for name in case.operands:
        array = operand(name, case.dtype)
        found[name] = (
            jax.random.wrap_key_data(jax.numpy.asarray(array))
            if name == "key"
            else jax.numpy.asarray(array)
        )
    return found


def function_of(jax: Any, case: Case) -> Callable[..., Any]:
    """The case as a function of its operands, by keyword."""
    code = compile(case.call, case.key, "eval")
    env = {
        "f": resolve(jax, case.row.name),
        "jax": jax,
        "jnp": jax.numpy,
        "lax": jax.lax,
        "np": np,
        "inf": np.inf,
        "nan": np.nan,
        "dtype": DTYPES[case.dtype],
    }
    return lambda **operands: eval(code, {**env, **operands})


def flatten(result: Any) -> tuple[str, list[Any]]:
    """Structure as text, and leaves; tuples of any class are tuples."""
    if isinstance(result, dict):
        tree, leaves = flatten([result[key] for key in sorted(result)])
        return f"{sorted(result)}: {tree}", leaves
    if isinstance(result, (tuple, list)):
        parts = [flatten(part) for part in result]
        inside = ", ".join(tree for tree, _ in parts)
        text = f"({inside})" if isinstance(result, tuple) else f"[{inside}]"
        return text, [leaf for _, leaves in parts for leaf in leaves]
    return "*", [result]


def _is_array(jax: Any, value: Any) -> bool:
    return isinstance(value, (jax.Array, np.ndarray, np.generic))


def _leaf(jax: Any, value: Any) -> list[Any]:
    if not _is_array(jax, value):
        return [str(value)]
    weak = bool(getattr(value, "weak_type", False))
    if isinstance(value, jax.Array) and str(value.dtype).startswith("key"):
        return [str(value.dtype), weak, *_leaf(jax, jax.random.key_data(value))[2:]]
    array = np.asarray(value)
    if array.dtype.hasobject or (array.dtype.kind in "SUV" and array.dtype.name not in DTYPES):
        return [str(value)]
    return [array.dtype.name, weak, list(array.shape), array.tobytes().hex()]


def describe(jax: Any, result: Any) -> Outcome:
    tree, leaves = flatten(result)
    return {"tree": tree, "leaves": [_leaf(jax, leaf) for leaf in leaves]}


def describe_error(error: Exception) -> Outcome:
    names = [cls.__name__ for cls in type(error).__mro__]
    return {"error": names[: names.index("Exception")] or ["Exception"]}


def built_in(names: list[str]) -> str:
    """The first class of an exception's classes that Python has."""
    return next((n for n in names if hasattr(builtins, n)), "Exception")


def run(jax: Any, case: Case, call: Callable[[], Any]) -> Outcome:
    """The outcome of a computation in the setting of the case."""
    with warnings.catch_warnings(), jax.enable_x64(case.dtype in X64):
        warnings.simplefilter("ignore")
        try:
            result = call()
        except Exception as error:
            return describe_error(error)
        return describe(jax, result)


def value(jax: Any, case: Case) -> Outcome:
    return run(jax, case, lambda: function_of(jax, case)(**arguments(jax, case)))


def jitted(jax: Any, case: Case) -> Outcome:
    def call() -> Any:
        function = function_of(jax, case)
        return jax.jit(lambda operands: _arrays_only(jax, function(**operands)))(
            arguments(jax, case)
        )

    return run(jax, case, call)


def traces(jax: Any, case: Case) -> Outcome:
    """{} if the case can be traced by `jit`, else the error."""

    def call() -> Any:
        function = function_of(jax, case)
        jax.eval_shape(
            lambda operands: _arrays_only(jax, function(**operands)), arguments(jax, case)
        )
        return ()

    outcome = run(jax, case, call)
    return {} if "tree" in outcome else outcome


def _arrays_only(jax: Any, result: Any) -> tuple[Any, ...]:
    """The leaves that a traced function may return."""
    return tuple(leaf for leaf in flatten(result)[1] if _is_array(jax, leaf))


def batched(jax: Any, case: Case) -> list[Outcome]:
    """Outcomes of the rows of a `vmap` whose batch repeats the operands, batched at the end."""

    def call() -> Any:
        function = function_of(jax, case)
        operands = arguments(jax, case)
        stacked, axes = {}, {}
        for position, (name, array) in enumerate(operands.items()):
            axis = 0 if position % 2 or name == "key" else array.ndim
            stacked[name], axes[name] = jax.numpy.stack([array, array], axis), axis
        mapped = jax.vmap(
            lambda operands: _arrays_only(jax, function(**operands)), in_axes=(axes,), out_axes=0
        )
        result = mapped(stacked)
        return tuple(tuple(leaf[row] for leaf in result) for row in range(2))

    outcome = run(jax, case, call)
    if "error" in outcome:
        return [outcome]
    half = len(outcome["leaves"]) // 2
    return [{"leaves": outcome["leaves"][:half]}, {"leaves": outcome["leaves"][half:]}]


def inexact_part(
    jax: Any, case: Case, operand: Operands = operand
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The inexact results as a function of the differentiated operands, and these operands."""
    function = function_of(jax, case)
    operands = arguments(jax, case, operand)
    names = case.differentiable

    def part(*values: Any) -> tuple[Any, ...]:
        result = function(**{**operands, **dict(zip(names, values, strict=True))})
        leaves = [leaf for leaf in flatten(result)[1] if _is_array(jax, leaf)]
        return tuple(leaf for leaf in leaves if is_inexact(np.dtype(leaf.dtype)))

    return part, tuple(operands[name] for name in names)


def directions(jax: Any, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        jax.numpy.asarray(direction(a.shape, np.dtype(a.dtype)), dtype=a.dtype) for a in arrays
    )


def jvp(jax: Any, case: Case) -> Outcome:
    def call() -> Any:
        part, values = inexact_part(jax, case)
        return jax.jvp(part, values, directions(jax, values))[1]

    return run(jax, case, call)


def vjp(jax: Any, case: Case) -> Outcome:
    def call() -> Any:
        part, values = inexact_part(jax, case)
        results, pull = jax.vjp(part, *values)
        return pull(directions(jax, results))

    return run(jax, case, call)
