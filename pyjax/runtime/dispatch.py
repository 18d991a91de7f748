"""Running things: compile a jaxpr for a device, keep the result, call it on arrays. Eager
primitives come through here.

CompileOptions are filled from the configuration in this file and nowhere else.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pyjax._config import options
from pyjax._config.registry import ContextKey, set_compile_environment, trace_context
from pyjax.core import dtypes
from pyjax.core import trace as core_trace
from pyjax.core.avals import ShapedArray, abstractify
from pyjax.core.compile_log import because, compiling, is_counting
from pyjax.core.debug_info import EAGER, UNKNOWN, DebugInfo
from pyjax.core.errors import fail, new_error
from pyjax.core.exact_keys import exact_key
from pyjax.core.fault_checks import fault_checks
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.primitive import Primitive
from pyjax.core.source_info import Frame, warn_user
from pyjax.interpreters import hlo, partial_eval
from pyjax.interpreters.hlo import Spread
from pyjax.interpreters.layouts import layout_sources
from pyjax.runtime import persistent_cache as persistent_cache  # wires the options to it
from pyjax.runtime import shape_generic, sized_programs
from pyjax.runtime.array import DeviceArray, array_from, array_from_host, from_numpy
from pyjax.runtime.array_spec import ArraySpec, array_spec, laid_out, mesh_of_group
from pyjax.runtime.devices import default_device
from pyjax.runtime.first_code import with_first_code
from pyjax.runtime.module_sources import module_source, tell_of_lowering
from pyjax.runtime.profile_guided import compile_when_used, recompile_when_measured
from pyjax.runtime.program import Call, Program
from pyjax.runtime.refs import DeviceRef, ref_program
from pyjax.runtime.result_layouts import (
    ProgramLayouts,
    place_of,
    result_shardings,
)
from pyjax.runtime.sized_programs import SizedProgram
from pyjax.runtime.transfers import Direction, Transfer, armed, check_transfer, description
from pyjax.sharding.mesh import devices_in_context
from pyjax.sharding.shardings import NamedSharding, Sharding
from xla_backend.compile_options import CompileOptions
from xla_backend.compile_target import Target
from xla_backend.debug_options import DebugOptions, current_debug_options, with_overrides
from xla_backend.flag_effects import with_flags
from xla_backend.gpu_options import GpuOptions
from xla_backend.hlo.errors import UnknownTargetError
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.module_source import ModuleSource
from xla_backend.process import bounded_cache
from xla_backend.process.bounded_cache import BoundedCache, Budget
from xla_backend.process.no_collections import without_collections
from xla_backend.runtime.client import Device, LoadedExecutable
from xla_backend.runtime.device_group import DeviceGroup
from xla_backend.runtime.target_code import TargetCode
from xla_backend.targets import built_in
from xla_backend.user_passes import on_user_passes_change, user_passes

logger = logging.getLogger(__name__)
_dump_ids = itertools.count()


# jax_optimization_level, jax_memory_fitting_level → CompileOptions
_LEVELS = {"UNKNOWN": 2, "O0": 0, "O1": 1, "O2": 2, "O3": 3}


# The latest, and for which context: all that it is made of is in the key of the context.
_configured: tuple[ContextKey | None, CompileOptions] = (None, CompileOptions())


def compile_options(debug: DebugOptions) -> CompileOptions:
    """Options of a compilation under the current configuration; flags come last and win."""
    global _configured
    context = trace_context()
    known = _configured
    if known[0] is not context:
        known = _configured = (context, _from_configuration())
    return with_flags(known[1], debug)


def _from_configuration() -> CompileOptions:
    level = _LEVELS[options.optimization_level.value]
    memory = options.cpu_memory_limit.value
    again = options.compiler_enable_remat_pass.value
    return CompileOptions(
        optimization_level=0 if options.disable_most_optimizations.value else level,
        exec_time_optimization_effort=options.exec_time_optimization_effort.value,
        memory_fitting_level=_LEVELS[options.memory_fitting_level.value],
        memory_fitting_effort=options.memory_fitting_effort.value,
        memory_limit=None if memory < 0 else memory,
        num_threads=options.num_threads.block_value,
        disabled_passes=frozenset() if again else frozenset({"rematerialization"}),
        verify=options.enable_checks.value,
        profile_version=options.xla_profile_version.value,
        gpu=GpuOptions(group_products=options.gpu_group_products.value),
        expect_measured_costs=options.compilation_cache_expect_pgle.value,
    )


# Programs compiled with other passes are other programs.
on_user_passes_change(set_compile_environment)


def _is_large(constant: Any) -> bool:
    """Whether a closed-over array is passed as a hidden argument, so that neither compile time nor
    memory depends on it, and not a constant of the program, where it can be folded."""
    size = np.size(constant)
    if size <= 1:
        return False
    return size * _item_bytes(constant) > options.embedded_constants_max_bytes.value


def _item_bytes(constant: Any) -> int:
    dtype = getattr(constant, "dtype", None)
    return int(getattr(dtype, "itemsize", 8))


def _warn_of_captured(values: Sequence[DeviceArray]) -> None:
    limit = options.captured_constants_warn_bytes.value
    total = sum(int(v.nbytes) for v in values)
    if 0 <= limit < total:
        largest = max(values, key=lambda v: int(v.nbytes))
        warn_user(
            f"A large amount of constants were captured during lowering ({total} bytes total); the "
            f"largest is {largest.aval.str_short()}. They are kept as long as the program is: pass "
            "large arrays as arguments. jax_captured_constants_warn_bytes=-1 says this no more."
        )


def hoist_constants(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[DeviceArray]]:
    """Turn large constants into trailing arguments: (jaxpr, their values). Those of nested programs
    are constants of the whole one."""
    large = [i for i, c in enumerate(closed.consts) if _is_large(c)]
    if not large:
        return closed, []
    jaxpr = closed.jaxpr
    moved = set(large)
    kept = [i for i in range(len(closed.consts)) if i not in moved]
    hoisted = jaxpr.replace(
        constvars=[jaxpr.constvars[i] for i in kept],
        invars=[*jaxpr.invars, *(jaxpr.constvars[i] for i in large)],
    )
    values = [constant_array(closed.consts[i]) for i in large]
    _warn_of_captured(values)
    return ClosedJaxpr(hoisted, [closed.consts[i] for i in kept]), values


def program_source(
    closed: ClosedJaxpr,
    name: str,
    platform: str,
    donated: Sequence[bool] = (),
    spread: Spread | None = None,
) -> ModuleSource:
    """HLO of a jaxpr whose large constants have been hoisted, for the devices of a platform, or for
    several that run it together: it is lowered when the module is needed."""

    def lower(caller: Frame | None) -> HloModule:
        return hlo.lower_jaxpr_to_module(
            closed, name, donated=donated, platform=platform, spread=spread, caller=caller
        )

    # How devices share a program is no part of a digest.
    made_from = (closed, tuple(donated), platform) if spread is None else ()
    return module_source(name, lower, *made_from)


def overridden_options(overrides: Mapping[str, Any]) -> CompileOptions:
    """How to compile, with XLA flags for this compilation only."""
    return compile_options(with_overrides(dict(overrides)))


def compile_for_target(
    module: HloModule, device: Device, target: Target, overrides: Mapping[str, Any]
) -> TargetCode:
    """Code of a module, which stays as it is, for a machine that need not be here. `device`: whose
    client makes code for CPUs."""
    chosen = overridden_options(overrides)
    return built_in.emit(module, lambda: device.client, chosen, target)


def _compile(source: ModuleSource, device: Device, compile_for: CompileOptions) -> LoadedExecutable:
    size = sum(map(len, source.module.computations))
    with compiling(source.name, device):
        try:
            executable = device.client.compile_source(source, compile_for)
        except UnknownTargetError as error:
            raise new_error(
                NotImplementedError,
                f"no function is registered for custom-call target {error.target!r}.",
                "a foreign call is compiled with the function of its target; those that are "
                'registered for platforms other than "cpu" are passed over',
                f"Call pyjax.ffi.register_ffi_target({error.target!r}, function) before this.",
                where=error.place or None,
            ) from None
    if options.log_compiles.value and size >= options.compiler_detailed_logging_min_ops.value:
        _log_details(executable, size)
    return executable


def _find_kept(
    source: ModuleSource, device: Device, compile_for: CompileOptions
) -> LoadedExecutable | None:
    """What is on disk of a program that was not lowered."""
    if source.digest is None:
        return None
    kept = device.client.find_without_module(source, compile_for)
    if kept is not None:
        tell_of_lowering(source)
        with compiling(source.name, device):  # for listeners: it took no time
            pass
    return kept


def find_or_compile(
    source: ModuleSource, device: Device, compile_for: CompileOptions
) -> LoadedExecutable:
    """Machine code of a program, whose module may be changed."""
    kept = None if _watched(compile_for) else _find_kept(source, device, compile_for)
    return _compile(source, device, compile_for) if kept is None else kept


def _log_details(executable: LoadedExecutable, size: int) -> None:
    """What the compiler was given and what it made, of a program that is worth the lines."""
    left = sum(map(len, executable.module.computations))
    stats = executable.memory_stats()
    logger.warning(
        "Details of %s: %d operations, %d after the passes; %d bytes of code, %d of arguments, "
        "%d of results, %d of temporaries\n%s",
        executable.module.name,
        size,
        left,
        stats["generated_code_size"],
        stats["argument_size"],
        stats["output_size"],
        stats["temp_size"],
        executable.pass_report() or "no passes ran: it was on disk",
    )


def make_program(
    executable: LoadedExecutable,
    constants: Sequence[DeviceArray],
    out_avals: Sequence[ShapedArray],
    device: Device,
    committed: bool,
    debug: DebugInfo = UNKNOWN,
    layouts: ProgramLayouts = ProgramLayouts(),
) -> Program:
    """Wrap an executable; which donations came true is read off its aliases.

    Args:
      layouts: of arguments and results; on a group of devices of all of them.
    """
    specs = [array_spec(aval, device, committed) for aval in out_avals]
    for i, sharding in enumerate(layouts.results):
        if sharding is not None:
            specs[i] = laid_out(array_spec(out_avals[i], device, True), sharding)
    inputs = layouts.inputs if isinstance(device, DeviceGroup) else ()
    return Program(executable, device, constants, specs, debug, inputs)


class Guarded(NamedTuple):
    """What stands between a program and its callers while an option has something looked for.

    Attributes:
      closed: the program to compile instead.
      donated: of its inputs.
      wrap: takes how it is called, and gives what is called instead.
    """

    closed: ClosedJaxpr
    donated: Sequence[bool]
    wrap: Callable[[Call], Call]


# Installed by lax, which knows operations: `guard(closed, donated)` is None if there is nothing to
# look for. The first one added sees each program as it is, and its callers first.
_Guard = Callable[[ClosedJaxpr, Sequence[bool]], Guarded | None]
_guards: list[_Guard] = []


def add_guard(guard: _Guard) -> None:
    """Let `guard` look at programs that are compiled from now on."""
    _guards.append(guard)


def check_execution(name: str) -> None:
    """Programs are made to run: not where the option jax_no_execution forbids it.

    Raises:
      RuntimeError: it does.
    """
    if options.no_execution.value:
        fail(
            RuntimeError,
            f"JAX tried to execute function {name}, but the no_execution config option is set",
            "Inside of no_execution(True), or with jax_no_execution, nothing runs.",
            "Look at it without running it: jit(f).trace(...), .lower(), .compile(), eval_shape.",
        )


def compile_jaxpr(
    closed: ClosedJaxpr,
    name: str,
    device: Device,
    committed: bool,
    donated: Sequence[bool] = (),
    overrides: Mapping[str, Any] | None = None,
    layouts: ProgramLayouts = ProgramLayouts(),
) -> Program | SizedProgram:
    """Lower and compile a jaxpr for one device, or for a group that runs it together.

    Args:
      overrides: XLA flags for this program.
      layouts: of its arguments and results.
    """
    check_execution(name)
    with_refs = ref_program(closed, donated)
    if with_refs is not None:
        closed, donated = with_refs.closed, with_refs.donated
        layouts = with_refs.layouts(layouts)
    has_sizes = options.dynamic_shapes.value and sized_programs.has_traced_sizes(closed.jaxpr)
    if has_sizes and fault_checks() is not None:
        fail(
            NotImplementedError,
            f"{name} has arrays of traced sizes, and is to look for faults.",
            "A program in which sizes are traced (option dynamic_shapes) does not say where a NaN, "
            "an infinity, a zero divisor or an index out of bounds comes from.",
            "Take back debug_nans, debug_infs and error_checking_behavior_*, or dynamic_shapes.",
        )
    wraps: list[Callable[[Call], Call]] = []
    for guard in _guards:
        guarded = guard(closed, donated)
        if guarded is not None:
            closed, donated, wrap = guarded
            wraps.append(wrap)
    program: Program | SizedProgram
    if has_sizes:
        program = _compile_sized(closed, name, device, committed, overrides)
    else:
        # Lowering, too, makes many objects that stay.
        program = without_collections(
            _compile_jaxpr, closed, name, device, committed, donated, overrides, layouts
        )
    for wrap in reversed(wraps):
        program.wrap(wrap)
    if with_refs is not None:
        program.wrap(with_refs.wrap)
        if isinstance(program, Program):
            program.in_shardings = tuple(with_refs.of_arguments(program.in_shardings))
    return program


def _compile_sized(
    closed: ClosedJaxpr,
    name: str,
    device: Device,
    committed: bool,
    overrides: Mapping[str, Any] | None,
) -> SizedProgram:
    return sized_programs.compile_sized_program(
        closed,
        name,
        device,
        committed,
        compile_options(with_overrides(dict(overrides or {}))),
        lambda part, name: _compile_jaxpr(part, name, device, committed, (), overrides),
        constant_array,
    )


def _compile_jaxpr(
    closed: ClosedJaxpr,
    name: str,
    device: Device,
    committed: bool,
    donated: Sequence[bool],
    overrides: Mapping[str, Any] | None,
    layouts: ProgramLayouts = ProgramLayouts(),
) -> Program:
    options_now = compile_options(
        with_overrides(dict(overrides)) if overrides else current_debug_options()
    )
    profiled_runs = options.pgle_profiling_runs.value if options.enable_pgle.value else 0
    plain = not (any(donated) or overrides or profiled_runs or _watched(options_now))
    first = options_now if _watched(options_now) else with_first_code(options_now)
    debug = closed.jaxpr.debug_info
    sources: list[ModuleSource] = []  # of the program with its shapes, if that was looked for

    def own() -> LoadedExecutable | None:
        spread = layouts.spread(device, closed, ())  # programs for any sizes have no constants
        sources.append(program_source(closed, name, device.platform, (), spread))
        return _find_kept(sources[0], device, options_now)

    if plain:
        # Who waits for no compiler wants code for all sizes where there is some, or at the second
        # meeting: then others will follow.
        generic = shape_generic.find(
            closed, name, device.client, options_now, own=own if first.first_code else None
        )
        if isinstance(generic, LoadedExecutable):
            found = layouts.found(generic, closed)
            return make_program(generic, (), closed.out_avals, device, committed, debug, found)
        if generic is not None:
            constants = [constant_array(scalar) for scalar in generic.scalars]
            avals = closed.out_avals
            program = make_program(
                generic.executable, constants, avals, device, committed, debug, layouts
            )
            if generic.calls:
                known = lambda: program_source(closed, name, device.platform)
                compiled = lambda: find_or_compile(known(), device, options_now)
                compile_when_used(program, generic.calls, compiled, ())
            return program
    hoisted, constants = hoist_constants(closed)
    if sources:
        (source,) = sources
    else:
        spread = layouts.spread(device, hoisted, [x.sharding for x in constants])
        given = tuple(donated) if any(donated) else ()
        source = program_source(hoisted, name, device.platform, given, spread)
    if options.dump_ir_to.value:
        _dump_ir(closed, source.module, device)

    def made(executable: LoadedExecutable) -> Program:
        avals, found = closed.out_avals, layouts.found(executable, hoisted)
        return make_program(executable, constants, avals, device, committed, debug, found)

    if not (sources or profiled_runs or _watched(options_now)):
        kept = _find_kept(source, device, options_now)
        if kept is not None:
            return made(kept)
    moved = device.client.find_movement(source.module) if plain else None
    if moved is not None:
        program = made(moved)
        if moved.calls_until_compiled:
            again = source.copy()
            compiled = lambda: _compile(again, device, options_now)
            compile_when_used(program, moved.calls_until_compiled, compiled, program.constants)
        return program
    if not profiled_runs:
        return made(_compile(source, device, first))
    original = source.copy()  # compiling changes the module
    program = made(_compile(source, device, options_now._replace(profiled_runs=profiled_runs)))
    runs = program.executable.measured_runs
    if runs is not None:  # there is something to measure, and it is not known from the disk
        recompile_when_measured(
            program,
            runs,
            options.pgle_aggregation_percentile.value,
            lambda costs: _compile(original.copy(), device, options_now._replace(measured=costs)),
        )
    return program


def _watched(options_now: CompileOptions) -> bool:
    """Whether somebody wants to see or change each compilation: then nothing takes a short cut."""
    return bool(
        options.dump_ir_to.value
        or options.log_compiles.value
        or is_counting()
        or options_now.dump is not None
        or user_passes()
    )


def _dump_ir(closed: ClosedJaxpr, module: HloModule, device: Device) -> None:
    directory = Path(options.dump_ir_to.value)
    directory.mkdir(parents=True, exist_ok=True)
    stem = f"pyjax_ir{next(_dump_ids):04d}_{module.name}"
    (directory / f"{stem}.jaxpr.txt").write_text(str(closed) + "\n", encoding="utf-8")
    with_places = options.include_debug_info_in_dumps.value.lower() in ("true", "1")
    text = device.client.module_text(module, metadata=with_places)
    (directory / f"{stem}.hlo.txt").write_text(text, encoding="utf-8")


def as_array(value: Any, transfer: Transfer = Transfer.IMPLICIT) -> DeviceArray:
    """An Array of a valid input: itself, or a copy of a NumPy array, NumPy scalar or Python scalar.

    Raises:
      TypeError: not a valid array type.
      JaxRuntimeError: a transfer guard disallows the copy.
    """
    kind = type(value)
    if kind is DeviceArray:
        return value
    if armed:
        check_transfer(Direction.TO_DEVICE, transfer, description(value), default_device())
    if kind in SCALAR_KINDS:
        return scalar_array(kind, value)
    if kind is np.ndarray and value.dtype in NUMPY_DTYPES:
        return _array_of_numpy(value)
    return array_from_host(value, abstractify(value))


# Of NumPy arrays by dtype and shape: frequent arguments, too.
_numpy_specs: BoundedCache[Any, ArraySpec] = BoundedCache(Budget("NumPy arguments", entries=4096))


def _array_of_numpy(value: np.ndarray) -> DeviceArray:
    key = (value.dtype, value.shape, trace_context())
    spec = _numpy_specs.hot.get(key)
    if spec is None:
        spec = _numpy_specs.make(key, lambda: array_spec(abstractify(value), default_device()))
    return from_numpy(value, spec)


def as_operand(value: Any) -> Any:
    """`as_array`, for what may be a mutable reference."""
    return value if type(value) is DeviceRef else as_array(value)


# Of a program's own constants.
constant_array = functools.partial(as_array, transfer=Transfer.CONSTANT)

SCALAR_KINDS = frozenset({bool, int, float, np.bool_, np.int32, np.int64, np.float32, np.float64})
# Of NumPy arrays that become arrays as they are, or with half as many bits.
NUMPY_DTYPES = frozenset(dtypes.ALL_DTYPES)


def is_host_value(x: Any) -> bool:
    """Whether it is a number or NumPy array, which `as_array` takes by its type alone."""
    kind = type(x)
    return kind in SCALAR_KINDS or (kind is np.ndarray and x.dtype in NUMPY_DTYPES)


_scalar_specs: BoundedCache[Any, ArraySpec] = BoundedCache(Budget("scalars", entries=1024))
_INT32_LIMIT = 1 << 31


def scalar_array(kind: type, value: Any) -> DeviceArray:
    """A scalar as an Array; numbers are frequent operands, and going through NumPy takes ten times
    as long.
    """
    key = (kind, trace_context())
    spec = _scalar_specs.hot.get(key)
    if spec is None:
        spec = _scalar_specs.make(key, lambda: _scalar_spec(kind))
    if kind is int and not -_INT32_LIMIT <= value < _INT32_LIMIT:
        return array_from_host(value, abstractify(value))  # checks what the dtype can hold
    return array_from(spec.kind.from_scalar, value, spec)


def _scalar_spec(kind: type) -> ArraySpec:
    return array_spec(abstractify(kind(0)), default_device(), False)


def placement(arrays: Sequence[DeviceArray]) -> tuple[Device, bool]:
    """Device a computation on these arrays runs on, and whether its results are committed to it.

    Raises:
      ValueError: arrays are committed to different devices.
    """
    committed: DeviceArray | None = None
    for array in arrays:
        if array.spec.committed:
            if committed is not None and committed.spec.device is not array.spec.device:
                raise new_error(
                    ValueError,
                    "arguments are committed to different devices: "
                    f"{committed.aval.str_short()} on {committed.spec.device} and "
                    f"{array.aval.str_short()} on {array.spec.device}.",
                    "an array that was put somewhere stays there, and a program runs in one place.",
                    "Move one of them with pyjax.device_put(x, device).",
                )
            committed = array
    if committed is not None:
        return committed.spec.device, True
    return default_device(), False


# Of all jitted functions and eager primitives together.
PROGRAMS = Budget("programs", entries=8192, nbytes=256 << 20)
_programs: BoundedCache[Any, Program | SizedProgram] = BoundedCache(
    PROGRAMS, lambda p: p.held_bytes
)


def apply_primitive(
    primitive: Primitive, args: Sequence[Any], params: Mapping[str, Any]
) -> list[DeviceArray]:
    """Evaluate one primitive now. Programs are kept by primitive, parameters and kinds of
    arguments.
    """
    arrays = [a if type(a) is DeviceArray else as_operand(a) for a in args]
    values: Any = tuple(params.items())
    if primitive.exact_params:
        values = exact_key(values)
    key = (primitive, values, tuple([a.spec for a in arrays]), trace_context())
    program = _programs.hot.get(key)
    if program is None:
        with because(lambda: _why_compiled(primitive, arrays)):
            program = _programs.make(key, lambda: _compile_primitive(primitive, arrays, params))
    return program.call(arrays)


def _why_compiled(primitive: Primitive, arrays: Sequence[DeviceArray]) -> str:
    kinds = ", ".join([a.aval.str_short() for a in arrays]) or "no arrays"
    return f"first {primitive.name} with these parameters and {kinds}"


def _compile_primitive(
    primitive: Primitive, arrays: Sequence[DeviceArray], params: Mapping[str, Any]
) -> Program | SizedProgram:
    check_execution(primitive.name)
    device, committed = placement(arrays)
    avals = [a.aval for a in arrays]
    debug = DebugInfo(EAGER, primitive.name)
    options_now = compile_options(current_debug_options())
    inputs = [a.spec.sharding for a in arrays]
    over_mesh = any(isinstance(s, NamedSharding) for s in inputs) or not devices_in_context().empty
    names_mesh = primitive in layout_sources
    if not (fault_checks() or _watched(options_now) or over_mesh or names_mesh):
        found = shape_generic.find_primitive(primitive, avals, params, device.client, options_now)
        if found is not None:
            program = make_program(found[0], (), found[1], device, committed, debug)
            program.bring_from([a.spec for a in arrays])
            return program
    closed, _ = partial_eval.trace_to_jaxpr(
        lambda *xs: primitive.bind_all(*xs, **params), avals, debug=debug
    )
    return compile_for(closed, arrays, primitive.name)


def compile_for(
    closed: ClosedJaxpr, arrays: Sequence[DeviceArray], name: str
) -> Program | SizedProgram:
    """A program for arrays of these kinds, on the devices where they lie or that it names."""
    inputs = [a.spec.sharding for a in arrays]
    place = place_of(closed, inputs, *placement(arrays), name)
    results = result_shardings(closed, inputs, place.device)
    layouts = ProgramLayouts(inputs, results, place.mesh)
    compiled = compile_jaxpr(closed, name, place.device, place.committed, layouts=layouts)
    compiled.bring_from([a.spec for a in arrays])
    return compiled


def resharded(array: DeviceArray, sharding: Sharding) -> DeviceArray:
    """An array that lies over a group of devices, laid out over them in another way: the devices
    exchange what the others need."""
    spec = array.spec
    assert isinstance(spec.device, DeviceGroup)
    key = (spec, sharding, trace_context())
    program = _resharding.find(key)
    if program is None:
        closed, _ = partial_eval.trace_to_jaxpr(lambda x: [x], [spec.aval])
        layouts = ProgramLayouts([spec.sharding], [sharding], mesh_of_group(spec.device))
        program = _resharding.make(
            key, lambda: compile_jaxpr(closed, "reshard", spec.device, True, layouts=layouts)
        )
    return program.call([array])[0]


# Programs that lay arrays out anew: by the array's kind, and how it is to lie.
_resharding: BoundedCache[Any, Program | SizedProgram] = BoundedCache(
    PROGRAMS, lambda p: p.held_bytes
)


def clear_caches() -> None:
    """Forget everything that is remembered to save time: traces and programs of all functions and
    operations, and what was worked out for them. Programs that run, or that somebody still holds
    (`jit(f).lower(x).compile()`), stay; object code on disk does, too.

    >>> clear_caches()
    """
    bounded_cache.clear_all()


core_trace.set_eval_handler(apply_primitive)
