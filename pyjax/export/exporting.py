"""export: from a jitted function to a program that leaves the process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xla_backend
from pyjax._config import options
from pyjax.api.jit import PjitFunction
from pyjax.api.stages import result_names
from pyjax.api.vjp import vjp
from pyjax.core import dtypes
from pyjax.core.errors import (
    InconclusiveDimensionOperation,
    JAXTypeError,
    PyjaxError,
    fail,
    new_error,
)
from pyjax.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, eval_jaxpr
from pyjax.core.source_info import summarize
from pyjax.core.symbolic_dims import sizes_in_programs
from pyjax.core.tree_util import PyTreeDef, tree_structure
from pyjax.export.call import argument_names, is_passed
from pyjax.export.exported import Exported, without_effects
from pyjax.export.over_devices import (
    Over,
    over_devices,
    spread_of,
    with_laid_out_inputs,
    without_devices,
)
from pyjax.export.safety import DisabledSafetyCheck, check_custom_calls
from pyjax.export.sizes import check_solvable, scope_of
from pyjax.export.versions import configured_version
from pyjax.interpreters.dead_code import dce_jaxpr
from pyjax.interpreters.hlo import Spread, lower_jaxpr_to_module
from pyjax.interpreters.staging import trace_to_jaxpr
from pyjax.runtime.devices import default_backend
from xla_backend.runtime.plugins import discover_plugins
from xla_backend.stablehlo.attributes import IntegerAttribute
from xla_backend.stablehlo.format_values import I32
from xla_backend.stablehlo.printer import module_to_text

# Platforms that programs may be written for though this machine has none of their devices.
_OTHER_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def default_export_platform() -> str:
    """The platform that `export` is for unless it is told another: that of the default device.

    >>> default_export_platform()
    'cpu'
    """
    return default_backend()


def _checked_platforms(platforms: Sequence[str] | None) -> tuple[str, ...]:
    if platforms is None:
        return (default_export_platform(),)
    if isinstance(platforms, str):
        fail(
            TypeError,
            f"export: platforms must be a sequence of names, got the string {platforms!r}",
            "its letters would be taken for names",
            f"write platforms=[{platforms!r}]",
        )
    known = sorted({*_OTHER_PLATFORMS, *discover_plugins()})
    for name in platforms:
        if name not in known:
            fail(
                ValueError,
                f"export: unknown platform {name!r}",
                f"the platforms are {', '.join(known)}",
                "name one of them; for a GPU write 'cuda' or 'rocm'",
            )
    if not platforms:
        fail(
            ValueError,
            "export: platforms is empty",
            "a program is lowered for at least one platform",
            "leave platforms out for that of the default device",
        )
    return tuple(platforms)


def export(
    fun_jit: Callable[..., Any],
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
    _override_lowering_rules: Any = None,
) -> Callable[..., Exported]:
    """Turn a jitted function into a program that other processes can load and run.

    Args:
      fun_jit: the result of `jit`.
      platforms: that the program will run on, as in `["cpu", "cuda"]`; None: the default one.
      disabled_checks: checks to leave out.
    Returns:
      A function that takes arrays or ShapeDtypeStructs as `fun_jit` does, and gives the Exported.
    Raises:
      ValueError: `fun_jit` is not jitted, or a platform is unknown; the function has custom calls
        without a promise, or symbolic sizes that arguments do not tell.
      NotImplementedError: it calls back into Python, is another one for each platform, or does what
        needs to know symbolic sizes.
      InconclusiveDimensionOperation: it compares symbolic sizes, and that is not decided.

    >>> import pyjax
    >>> import pyjax.numpy as jnp
    >>> exported = export(pyjax.jit(lambda x: x + 1))(pyjax.ShapeDtypeStruct((2,), jnp.float32))
    >>> exported.call(jnp.zeros(2)).tolist()
    [1.0, 1.0]
    """
    del _override_lowering_rules
    if not isinstance(fun_jit, PjitFunction):
        fail(
            ValueError,
            f"export takes the result of jit, got {fun_jit!r}",
            "jit knows which arguments are static",
            "write export(jit(f))(...)",
        )
    names = _checked_platforms(platforms)
    checks = tuple(disabled_checks)

    def exporter(*args: Any, **kwargs: Any) -> Exported:
        traced = fun_jit.trace(*args, **kwargs)
        return _export(
            traced.jaxpr,
            traced.fun_name,
            traced.in_tree,
            traced.out_tree,
            names,
            checks,
            over_devices(traced),
        )

    return exporter


def _export(
    closed: ClosedJaxpr,
    name: str,
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
    platforms: tuple[str, ...],
    checks: tuple[DisabledSafetyCheck, ...],
    over: Over | None,
) -> Exported:
    version = configured_version()
    symbolic = scope_of(closed.in_avals) is not None
    check_solvable(name, closed.in_avals, argument_names(in_tree))
    wanted = [is_passed(a) for a in closed.out_avals]
    whole = closed if over is None else with_laid_out_inputs(closed, over)
    jaxpr, used = dce_jaxpr(whole.jaxpr, wanted)
    program = ClosedJaxpr(jaxpr, whole.consts)
    spread = None if over is None else spread_of(over, program, wanted)
    results = [text for text, passed in zip(result_names(out_tree), wanted) if passed]
    texts = {
        p: _text(program, name, p, version, results, checks, symbolic, spread) for p in platforms
    }
    first = texts[platforms[0]]
    for platform, text in texts.items():
        if text != first:
            fail(
                NotImplementedError,
                f"{name} is another program on {platform} than on {platforms[0]}",
                "platform_dependent chooses its branch when the program is exported, and one "
                "exported program has one branch",
                "export the function once for each platform",
            )
    return Exported(
        fun_name=name,
        in_tree=in_tree,
        in_avals=tuple(closed.in_avals),
        out_tree=out_tree,
        out_avals=tuple(closed.out_avals),
        platforms=platforms,
        disabled_safety_checks=checks,
        mlir_module_serialized=first.encode(),
        calling_convention_version=version,
        module_kept_var_idx=tuple([i for i, u in enumerate(used) if u]),
        _get_vjp=lambda exported: _export_vjp(closed, exported, over),
        **without_effects(
            closed.in_avals,
            closed.out_avals,
            1 if over is None else len(over.devices),
            () if over is None else without_devices(over.inputs),
            () if over is None else without_devices(over.results),
        ),
    )


def _text(
    program: ClosedJaxpr,
    name: str,
    platform: str,
    version: int,
    results: Sequence[str],
    checks: Sequence[DisabledSafetyCheck],
    symbolic: bool,
    spread: Spread | None,
) -> str:
    """StableHLO of the program on a platform; symbolic sizes stand between « and »."""
    try:
        module = lower_jaxpr_to_module(program, name, platform=platform, spread=spread)
        check_custom_calls(module, name, checks)
        written = xla_backend.hlo_to_stablehlo(
            module, results, in_shardy=options.use_shardy_partitioner.value
        )
        written.attributes["jax.uses_shape_polymorphism"] = symbolic
        written.attributes["pyjax.calling_convention_version"] = IntegerAttribute(version, I32)
        with sizes_in_programs():
            return module_to_text(written, debug_info=True)
    except (JAXTypeError, InconclusiveDimensionOperation) as error:
        if not symbolic:
            raise
        raise _not_for_all_sizes(program, name, platform, error) from None


def _not_for_all_sizes(
    program: ClosedJaxpr, name: str, platform: str, error: PyjaxError
) -> Exception:
    """The error about the first operation that cannot be lowered without knowing its sizes."""
    what = where = ""
    for eqn in program.jaxpr.eqns:
        inputs = list(dict.fromkeys(a for a in eqn.invars if type(a) is not Literal))
        alone = Jaxpr([], inputs, eqn.outvars, [eqn], None, program.jaxpr.debug_info)
        try:
            module = lower_jaxpr_to_module(ClosedJaxpr(alone, []), name, platform=platform)
            with sizes_in_programs():
                str(xla_backend.hlo_to_stablehlo(module, []))
        except (JAXTypeError, InconclusiveDimensionOperation):
            what, where = eqn.primitive.name, summarize(eqn.source)
            break
    return new_error(
        NotImplementedError,
        f"{name} cannot be exported for symbolic sizes: {what or 'an operation'} needs numbers",
        error.what,
        "export the function for known sizes, or leave this operation out",
        where or None,
    )


def _export_vjp(closed: ClosedJaxpr, exported: Exported, over: Over | None) -> Exported:
    """The derivative of an exported jaxpr, exported for the same platforms."""
    count = len(closed.in_avals)
    tangents = [a.to_tangent_aval() for a in closed.out_avals]

    def pulled(*leaves: Any) -> list[Any]:
        _, pullback = vjp(
            lambda *primals: eval_jaxpr(closed.jaxpr, closed.consts, *primals), *leaves[:count]
        )
        cts = [
            ct if is_passed(a) else np.zeros(a.shape, dtypes.float0)
            for ct, a in zip(leaves[count:], tangents)
        ]
        return list(pullback(cts))

    traced, _ = trace_to_jaxpr(pulled, [*closed.in_avals, *tangents])
    arguments = tuple(range(count + len(tangents)))
    return _export(
        traced,
        f"{exported.fun_name}_vjp",
        tree_structure((arguments, {})),
        tree_structure(tuple(range(count))),
        exported.platforms,
        tuple(exported.disabled_safety_checks),
        None if over is None else over.of_derivative(),
    )
