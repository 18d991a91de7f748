"""jit: compile a function on first use for each kind of arguments, and call the compiled program
after that.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from pyjax._config import options
from pyjax._config.registry import deviating, trace_context
from pyjax.api.call_signature import CallSignature
from pyjax.api.eval_shape import ShapeDtypeStruct
from pyjax.api.flat import take_attributes
from pyjax.api.jit_primitive import jit_p
from pyjax.api.jit_shardings import JitShardings
from pyjax.api.spliced_calls import spliced_arguments, spliced_result
from pyjax.api.stages import Traced
from pyjax.core import compile_log, source_info
from pyjax.core.avals import ShapedArray, abstractify, aval_described
from pyjax.core.debug_info import arg_names
from pyjax.core.errors import fail, new_error
from pyjax.core.exact_keys import exact_key
from pyjax.core.pytree import PyTreeDef, flatten_into, tree_flatten, tree_unflatten
from pyjax.core.trace import (
    Tracer,
    entered,
    escaped_tracer_error,
    eval_trace,
    set_current_trace,
    state,
)
from pyjax.core.traceback_filter import api_boundary, leave
from pyjax.core.tree_util import (
    broadcast_prefix,
    keystr,
    tree_flatten_with_path,
    tree_map,
    tree_structure,
)
from pyjax.core.weak_tables import PerFunction
from pyjax.interpreters.cache_misses import Build, why_compiled
from pyjax.interpreters.flat_function import Static, with_static
from pyjax.interpreters.hlo import unusable_donations
from pyjax.interpreters.staging import computed_now, is_staging
from pyjax.interpreters.traced_function import TracedFunction, forget_traces, trace_function
from pyjax.runtime.array import DeviceArray
from pyjax.runtime.devices import get_backend
from pyjax.runtime.dispatch import (
    PROGRAMS,
    as_array,
    compile_jaxpr,
    constant_array,
    is_host_value,
    placement,
)
from pyjax.runtime.native_dispatch import ProgramTable, make_calls_native
from pyjax.runtime.placement import argument_on
from pyjax.runtime.program import Program
from pyjax.runtime.refs import DeviceRef
from pyjax.runtime.result_layouts import Place, ProgramLayouts, place_of
from pyjax.runtime.sized_programs import SizedProgram, has_traced_sizes
from pyjax.sharding.mesh import AbstractMesh
from pyjax.sharding.shardings import NamedSharding, resolve_device
from xla_backend.runtime.client import Device
from xla_backend.runtime.device_group import DeviceGroup

logger = logging.getLogger(__name__)


_WITH_SPEC = frozenset({DeviceArray, DeviceRef})
_OPTIONS_OF_LOWERING = frozenset({"lowering_platforms", "platforms"})
# Not empty while compiling is switched off somewhere: calls look at it in place of the option.
switched_off = deviating((options.disable_jit,), usual=(False,))


def is_jit_disabled() -> bool:
    """Whether `jit` calls its function as it is, here and now."""
    return bool(switched_off and options.disable_jit.here()[0].value)


class Compiled(NamedTuple):
    """A program, and how to rebuild the function's result."""

    program: Program | SizedProgram
    out_tree: PyTreeDef
    single: bool  # the result is one bare array


class _Programs(ProgramTable[Compiled]):
    """The programs of a function under one choice of static and donated arguments, device and
    compiler options, for all that `jit` makes of it.

    Attributes:
      direct: whether there were ever programs under shorter keys.
    """

    __slots__ = ("direct",)

    def __init__(self) -> None:
        super().__init__(PROGRAMS, lambda compiled: compiled.program.held_bytes)
        self.direct = False


# Held weakly with the function: a program refers to what the function closes over, not to it.
_programs: PerFunction[dict[Hashable, _Programs]] = PerFunction(dict)
_SHARED_SETTINGS = 64  # of one function; with more of them, each `jit` keeps its own programs


def _programs_of(
    fun: Callable[..., Any],
    signature: CallSignature,
    device: Device | None,
    compiler_options: dict[str, Any],
    shardings: JitShardings,
) -> _Programs:
    """Those that there are: `jit(f)` that is made twice compiles once."""
    try:
        options_key = exact_key(tuple(sorted(compiler_options.items()))) if compiler_options else ()
        settings = (signature.settings, device, options_key, shardings.key())
    except TypeError:  # an option has no hash: nothing tells it from others
        return _Programs()
    tables = _programs.of(fun)
    found = tables.get(settings)
    if found is not None:
        return found
    if len(tables) >= _SHARED_SETTINGS:
        return _Programs()
    return tables.setdefault(settings, _Programs())


class _SignatureOfFunction:
    """`inspect.signature` of a jitted function, also where it does not follow `__wrapped__`."""

    def __get__(self, instance: Any, owner: type) -> inspect.Signature:
        if instance is None:
            raise AttributeError("__signature__")  # the class has that of its `__init__`
        return inspect.signature(instance.__wrapped__)


class PjitFunction:
    """A function that is compiled when it is called; made by `jit`.

    >>> isinstance(pyjax.jit(jnp.sin), Wrapped)
    True
    """

    __slots__ = ("__dict__", "__weakref__", "_compiled")

    __signature__ = _SignatureOfFunction()

    def __init__(
        self,
        fun: Callable[..., Any],
        signature: CallSignature,
        *,
        keep_unused: bool,
        device: Device | None,
        moved: Any,
        inline: bool,
        compiler_options: dict[str, Any] | None,
        shardings: JitShardings,
    ) -> None:
        """`moved`: for a prefix of the positional arguments, whether they are brought to `device`
        if they are committed to another one."""
        functools.update_wrapper(self, fun, updated=())
        take_attributes(self, fun)
        self._fun = fun
        self._signature = signature
        self._keep_unused = keep_unused
        self._device = device
        self._moved = moved
        self._inline = inline
        self._is_spliced = inline and shardings.key() == () and source_info.is_of_library(fun)
        self._compiler_options = dict(compiler_options or {})
        # Calls with arrays as positional arguments only find programs under a shorter key.
        self._shardings = shardings
        self._compiled = _programs_of(fun, signature, device, self._compiler_options, shardings)
        # The direct path knows neither static arguments nor a fixed device.
        self._has_direct_path = not signature.has_static and device is None

    # -- calling -----------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if self._has_direct_path and (not entered or state.traces[0] is eval_trace):
                compiled, arrays = self._known(args, kwargs)
                if compiled is not None:
                    return self._run(compiled, arrays)
            return self._call(args, kwargs)
        except Exception as error:
            leave(error)
            raise

    def _known(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Compiled | None, Sequence[DeviceArray]]:
        """The program for a call and its arrays, if it is there already: the path of most calls."""
        context = trace_context()
        programs = self._compiled
        at_hand = programs.hot
        given = args
        # By type, not by attribute: a user's container may have a `spec` of its own.
        if programs.direct and not kwargs:
            parts: list[Any] = [context]
            for a in args:
                if type(a) is not DeviceArray:
                    args = tuple(
                        [
                            as_array(a) if type(a) is not DeviceArray and is_host_value(a) else a
                            for a in args
                        ]
                    )
                    parts = [context, *[a.spec for a in args if type(a) is DeviceArray]]
                    break
                parts.append(a.spec)
            if len(parts) > len(args):  # no containers, which go the general way
                known = tuple(parts)
                found = at_hand.get(known)
                if found is not None:
                    programs.learn(known, found.program, found.out_tree, given, kwargs, given)
                    return found, args
        leaves: list[Any] = []
        if kwargs:
            leaves, in_tree = tree_flatten((args, kwargs))
            trees: Any = in_tree.exact_key()
        else:  # structures of arguments are remembered, that of the call would be made anew
            trees = tuple([flatten_into(a, leaves).exact_key() for a in args])
        specs = [x.spec for x in leaves if type(x) is DeviceArray]
        plain = leaves
        if len(specs) != len(leaves):
            leaves = [
                as_array(x) if type(x) is not DeviceArray and is_host_value(x) else x
                for x in leaves
            ]
            specs = [x.spec for x in leaves if type(x) is DeviceArray]
            if len(specs) != len(leaves):
                specs = [x.spec for x in leaves if type(x) in _WITH_SPEC]
                if len(specs) != len(leaves):
                    return None, leaves
        key = (trees, (), tuple(specs), context)
        found = at_hand.get(key)
        if found is not None:
            programs.learn(key, found.program, found.out_tree, given, kwargs, plain)
        return found, leaves

    @api_boundary
    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if switched_off and is_jit_disabled():
            return self._fun(*args, **kwargs)
        if self._signature.has_static:
            args_now, names, static = self._signature.split(args, kwargs)
        else:
            args_now, names, static = args, kwargs, ()
        leaves, in_tree = tree_flatten((args_now, names))
        if state.traces[0] is not eval_trace or any(
            isinstance(x, Tracer) for x in leaves if type(x) is not DeviceArray
        ):
            if options.dynamic_shapes.here()[0].value and self._joins_caller(
                leaves, in_tree, static
            ):
                return self._fun(*args, **kwargs)
            if self._is_spliced:
                values = spliced_arguments(leaves)
                if values is not None and self._signature.static_key_if_any(static) is not None:
                    return self._splice(values, in_tree, static)
            return self._stage(leaves, in_tree, static)
        arrays = [
            x if type(x) in _WITH_SPEC else self._as_array(x, i, in_tree)
            for i, x in enumerate(leaves)
        ]
        if self._shardings.inputs is not None:
            arrays = [*self._shardings.moved(arrays, in_tree)]
        if self._device is not None:
            self._check_places(arrays, in_tree)
            if not isinstance(self._device, DeviceGroup):  # how they lie there, the program knows
                arrays = [argument_on(self._device, a) for a in arrays]
        static_key = self._signature.static_key(static) if static else ()
        key = (in_tree.exact_key(), static_key, tuple([a.spec for a in arrays]), trace_context())
        compiled = self._compiled.find(key)
        if compiled is None:
            # Only the compiler's work is waited for: the user's function may wait for a lock of the
            # user's, which a thread that would wait here may hold.
            traced = self._trace([a.aval for a in arrays], in_tree, static)
            compiled = self._compiled.make(key, lambda: self._compile(traced, arrays))
            if not kwargs and self._has_direct_path:
                context, specs = trace_context(), tuple([a.spec for a in arrays])
                trees = tuple([tree_structure(a).exact_key() for a in args])
                self._compiled.alias(key, (trees, (), specs, context))
                if all(type(a) is DeviceArray or is_host_value(a) for a in args):
                    self._compiled.alias(key, (context, *specs))
                    self._compiled.direct = True
        elif not self._has_direct_path and self._device is None:
            where = [place for place, _ in static]
            program, out_tree = compiled.program, compiled.out_tree
            self._compiled.learn(key, program, out_tree, args, kwargs, leaves, where)
        return self._run(compiled, arrays)

    def _run(self, compiled: Compiled, arrays: Sequence[DeviceArray]) -> Any:
        results = compiled.program.call(arrays)
        if compiled.single:
            return results[0]
        return tree_unflatten(compiled.out_tree, results)

    def _joins_caller(self, leaves: list[Any], in_tree: PyTreeDef, static: Static) -> bool:
        """Whether there is no program for a call inside another trace: sizes that are traced belong
        to one program, and another call may have others."""
        if is_staging(state.traces[0]):
            return True
        traced = self._trace([abstractify(x) for x in leaves], in_tree, static)
        return has_traced_sizes(traced.closed.jaxpr)

    def _stage(self, leaves: list[Any], in_tree: PyTreeDef, static: Static) -> Any:
        """Inside another trace: bind the traced function as one equation."""
        traced = self._trace([abstractify(x) for x in leaves], in_tree, static)
        traced.check_aliases(leaves)
        constants = traced.operands(constant_array) if traced.consts else []
        if computed_now((*constants, *leaves)):
            args, kwargs = tree_unflatten(in_tree, leaves)
            args, kwargs = with_static(args, kwargs, static)
            with set_current_trace(eval_trace):
                return self._call(tuple(args), kwargs)
        results = jit_p.bind(
            *constants,
            *self._shardings.constrained_arguments(traced, leaves),
            jaxpr=traced.closed,
            name=self._name,
            donated_invars=(False,) * len(constants) + self._donated(traced),
            keep_unused=self._keep_unused,
            inline=self._inline,
        )
        return tree_unflatten(traced.out_tree, self._shardings.constrained_results(traced, results))

    def _splice(self, values: list[Any], in_tree: PyTreeDef, static: Static) -> Any:
        """Inside of what is traced: run the function as if it were written there."""
        args, kwargs = tree_unflatten(in_tree, values)
        args, kwargs = with_static(args, kwargs, static)
        return spliced_result(self._fun(*args, **kwargs))

    @property
    def _name(self) -> str:
        return source_info.function_name(self._fun)

    def _as_array(self, value: Any, position: int, in_tree: PyTreeDef) -> DeviceArray:
        try:
            return as_array(value)
        except TypeError:
            raise self._bad_argument(value, position, in_tree) from None

    def _bad_argument(self, value: Any, position: int, in_tree: PyTreeDef) -> TypeError:
        return new_error(
            TypeError,
            f"argument {self._argument_name(position, in_tree)} of {self._name} has type "
            f"{type(value).__name__}, which is not a valid array type",
            "jit traces arguments as arrays: numbers, NumPy and pyjax arrays, in pytrees "
            "of tuples, lists and dicts",
            f"mark it static, jit({self._name}, static_argnames=...), or make it an array",
        )

    def _argument_name(self, position: int, in_tree: PyTreeDef) -> str:
        example = tree_unflatten(in_tree, list(range(in_tree.num_leaves)))
        paths, _ = tree_flatten_with_path(example)
        path = paths[position][0]
        where = self._signature.argument_name(path[1].idx) if path[0].idx == 0 else path[1].key
        return f"{where}{keystr(path[2:])}"

    def _check_places(self, leaves: Sequence[Any], in_tree: PyTreeDef) -> None:
        """An argument that is committed elsewhere is moved only if that was asked for."""
        if self._moved is True:
            return
        args, names = tree_unflatten(in_tree, leaves)
        if names and self._moved is not False:
            fail(
                ValueError,
                f"{self._name} does not support kwargs when in_shardings is specified, got "
                f"{', '.join(names)}",
                "in_shardings are those of the positional arguments",
                "pass them by position",
            )
        moved = broadcast_prefix(self._moved, args)
        for position, x in enumerate(leaves):
            place = _committed_place(x)
            if place in (None, self._device) or (position < len(moved) and moved[position]):
                continue
            name = self._argument_name(position, in_tree)
            fail(
                ValueError,
                f"Received incompatible devices for jitted computation: argument {name} of "
                f"{self._name}, {abstractify(x).str_short()}, is committed to {place}, and the "
                f"program runs on {self._device}",
                "in_shardings and out_shardings name that device; only an argument that has a "
                "sharding among in_shardings is moved there",
                f"in_shardings for {name}, or pyjax.device_put({name}, device) before the call",
            )

    # -- tracing and compiling ---------------------------------------------------------------------

    def _trace(
        self, avals: Sequence[ShapedArray], in_tree: PyTreeDef, static: Static
    ) -> TracedFunction:
        key = self._signature.static_key(static) if static else ()
        return self._shardings.as_told(
            trace_function("jit", self._fun, in_tree, avals, static, key)
        )

    def _donated(self, traced: TracedFunction) -> tuple[bool, ...]:
        """For each flat argument, whether it is donated."""
        in_tree = traced.in_tree
        if not self._signature.has_donated:
            return (False,) * in_tree.num_leaves
        numbers, names = tree_unflatten(in_tree, list(range(in_tree.num_leaves)))
        args, kwargs = with_static(numbers, names, traced.static)
        chosen = [args[i] for i in self._signature.donate_argnums if i < len(args)]
        chosen += [v for k, v in kwargs.items() if k in self._signature.donate_argnames]
        leaves = set(tree_flatten(chosen)[0])
        return tuple(i in leaves for i in range(in_tree.num_leaves))

    def _compile(self, traced: TracedFunction, arrays: Sequence[DeviceArray]) -> Compiled:
        for const in traced.consts:
            if isinstance(const, Tracer):
                raise escaped_tracer_error(const)
        device, committed = placement(arrays) if self._device is None else (self._device, True)
        donated = self._donated(traced)
        flags = tuple((name, repr(value)) for name, value in self._compiler_options.items())
        (device, committed, _), layouts = self._plan(traced, arrays, device, committed)
        layouts.check_devices()
        places = tuple([a.device if a.committed else None for a in arrays])
        build = Build(places, device, donated, flags)
        if options.explain_cache_misses.here()[0].value and (traced.builds or not traced.why):
            where, why = compile_log.caller(), self._why_compiled(traced, build)
            what = source_info.function_location(self._fun)
            logger.warning("COMPILATION CACHE MISS at %s for %s: %s", where, what, why)
        with compile_log.because(lambda: self._why_compiled(traced, build)):
            program = compile_jaxpr(
                traced.with_constants,
                self._name,
                device,
                committed,
                donated,
                self._compiler_options,
                layouts,
            )
        traced.builds[build] = None
        self._warn_of_donations(traced, donated)
        program.bring_from([a.spec for a in arrays])
        if options.distributed_debug.here()[0].value:
            logger.warning(
                "Running jitted function %s: process %d, device %s, arguments %s",
                self._name,
                device.client.process_index(),
                device,
                ", ".join(a.aval.str_short() for a in arrays),
            )
        return Compiled(program, traced.out_tree, traced.out_tree.is_leaf())

    def _plan(
        self, traced: TracedFunction, leaves: Sequence[Any], device: Device, committed: bool
    ) -> tuple[Place, ProgramLayouts]:
        """Where the program runs, for arguments that are committed to a device, or are not, and how
        these and its results lie."""
        inputs = self._shardings.of_arguments(traced, leaves)
        lying = [*inputs, *self._shardings.of_results(traced)]
        place = place_of(traced.with_constants, lying, device, committed, self._name)
        return place, self._shardings.layouts(traced, inputs, place)

    def _warn_of_donations(self, traced: TracedFunction, donated: tuple[bool, ...]) -> None:
        if not any(donated):
            return
        avals = traced.with_constants.in_avals
        unusable = unusable_donations(donated, avals, traced.out_avals)
        if unusable:
            source_info.warn_user(
                "Some donated buffers were not usable: "
                f"{', '.join(a.str_short() for a in unusable)}. No result of {self._name} of the "
                "same shape and dtype is left to take their memory: do not donate them."
            )

    def _why_compiled(self, traced: TracedFunction, build: Build) -> str:
        if not traced.builds and traced.why:
            return traced.why
        skipped = [where for where, _ in traced.static if isinstance(where, int)]
        return why_compiled(arg_names(self._fun, traced.in_tree, skipped), build, [*traced.builds])

    # -- stages and the rest -----------------------------------------------------------------------

    @api_boundary
    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace for these arguments (arrays or ShapeDtypeStructs) without compiling."""
        dynamic, names, static = self._signature.split(args, kwargs)
        leaves, in_tree = tree_flatten((dynamic, names))
        traced = self._trace([aval_described(x) for x in leaves], in_tree, static)
        if self._device is None:
            device = _committed_device(leaves)
        else:
            self._check_places(leaves, in_tree)
            device = self._device
        return Traced(
            traced.with_constants,
            in_tree,
            traced.out_tree,
            self._donated(traced),
            self._name,
            self._compiler_options,
            device,
            lambda device, committed: self._plan(traced, leaves, device, committed),
        )

    @api_boundary
    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Trace and lower to HLO for these arguments.

        Raises:
          TypeError: what the function does not take; to lower for another platform write
            `jit(f).trace(...).lower(lowering_platforms=(name,))`.
        """
        for name in _OPTIONS_OF_LOWERING & kwargs.keys():
            if not self._signature.takes(name):
                fail(
                    TypeError,
                    f"{self._name} takes no argument {name!r}",
                    "arguments of jit(f).lower are those of f",
                    "jit(f).trace(...).lower(lowering_platforms=('cuda',)), if it is to be lowered "
                    "for another platform",
                )
        return self.trace(*args, **kwargs).lower()

    @api_boundary
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the result for these arguments."""
        return self.trace(*args, **kwargs).out_info

    def clear_cache(self) -> None:
        """Forget all programs, and the traces of the function, also for what else `jit` made of it
        with the same settings."""
        self._compiled.clear()
        forget_traces(self._fun)

    def _cache_size(self) -> int:
        return len(self._compiled)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {source_info.function_location(self._fun)}>"


make_calls_native(PjitFunction, "_compiled", _Programs)


def _committed_place(x: Any) -> Device | None:
    """The device of a committed array, or of a description of an array with a sharding."""
    if type(x) in _WITH_SPEC:
        return x.spec.device if x.spec.committed else None
    sharding = x.sharding if isinstance(x, ShapeDtypeStruct) else None
    if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh):
        return None
    return resolve_device(sharding)


def _committed_device(leaves: Sequence[Any]) -> Device | None:
    """The device that leaves are committed to; None if none is.

    Raises:
      ValueError: there are several.
    """
    found = {place for place in map(_committed_place, leaves) if place is not None}
    if len(found) > 1:
        fail(
            ValueError,
            f"arguments are committed to different devices: {sorted(map(str, found))}",
            "a program runs on one device",
            "move one of them with pyjax.device_put(x, device)",
        )
    return found.pop() if found else None


def jit(
    fun: Callable[..., Any] | None = None,
    /,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    device: Device | None = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """Compile a function: it is traced and compiled at the first call for each kind of arguments.

    Args:
      fun: takes and returns pytrees of arrays; must be pure. Left out, `jit` returns a decorator.
      in_shardings, out_shardings: a one-device sharding, a PartitionSpec for the mesh in context at
        the call, or a Device; None leaves the choice to pyjax. Prefixes of the positional arguments
        and of the result. Arguments with a sharding among `in_shardings` are moved there, others
        must not be committed elsewhere.
      static_argnums, static_argnames: arguments that are part of the program instead of inputs.
        Their values must be hashable; each new value traces again.
      donate_argnums, donate_argnames: arguments whose memory the results may take over; they may
        not be used afterwards.
      keep_unused: keep arguments that the program does not read (they are always kept here).
      device, backend: where to run.
      inline: inside another jit, splice the equations in instead of making a call.
      compiler_options: XLA flags for this function, by name.
    Returns:
      A function with the same signature, with `.trace`, `.lower`, `.clear_cache`.
    Raises:
      TypeError: `fun` is not callable, or a leaf of the shardings is none of these; at a call, an
        argument is not a valid array type.
      ValueError: static or donated arguments that do not exist; at a call, unhashable static
        values, or an argument that is committed to another device than the shardings name; a
        sharding that does not fit an array.
      RuntimeError: at a call, a PartitionSpec where no mesh is in context.

    >>> float(jit(lambda x: x * x + 1)(3.0))
    10.0
    """
    if fun is None:
        return functools.partial(
            jit,
            in_shardings=in_shardings,
            out_shardings=out_shardings,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            keep_unused=keep_unused,
            device=device,
            backend=backend,
            inline=inline,
            compiler_options=compiler_options,
        )
    if not callable(fun):
        raise new_error(
            TypeError,
            f"jit expects a callable, got {type(fun).__name__}: {fun!r:.80}",
            "It returns a function that is traced when it is called.",
            "Pass the function and call the result: jit(f)(x), not jit(f(x)).",
        )
    shardings = JitShardings(in_shardings, out_shardings)
    in_shardings = shardings.inputs
    target, moved = device, True
    if target is None:
        target = shardings.device()
        if target is not None:
            moved = tree_map(lambda s: s is not None, in_shardings, is_leaf=lambda s: s is None)
        elif backend is not None:
            target = get_backend(backend).devices()[0]
    signature = CallSignature(fun, static_argnums, static_argnames, donate_argnums, donate_argnames)
    return PjitFunction(
        fun,
        signature,
        keep_unused=keep_unused,
        device=target,
        moved=moved,
        inline=inline,
        compiler_options=compiler_options,
        shardings=shardings,
    )
