"""Tracing a Python function to a jaxpr: every primitive becomes an equation.

The staging trace is on the path of every compilation: at most 15 us an equation. Layer:
  interpreters.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core import dtypes
from pyjax.core.avals import MeshArray, ShapedArray, abstractify
from pyjax.core.call_chains import current_frame, in_traced_code
from pyjax.core.check_jaxpr import check_jaxpr
from pyjax.core.debug_info import EAGER, UNKNOWN, DebugInfo
from pyjax.core.effects import Effects, new_ref_effect, no_effects
from pyjax.core.errors import new_error
from pyjax.core.jaxpr import (
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    install_printer,
)
from pyjax.core.leaks import check_leaks
from pyjax.core.primitive import Primitive, as_list
from pyjax.core.refs import AbstractRef
from pyjax.core.source_info import summarize
from pyjax.core.structural import (
    casts_to_vary,
    convert_element_type,
    convert_element_type_p,
    dimension_p,
)
from pyjax.core.symbolic_dims import SymbolicDim
from pyjax.core.trace import (
    CustomCall,
    Trace,
    Tracer,
    escaped_tracer_error,
    eval_trace,
    state,
    under,
)
from pyjax.core.traced_sizes import FIX, Dimension, TracedSize, is_known
from pyjax.core.xla_attributes import attributed, attributes_in_force
from pyjax.interpreters.lift_constants import constants_as_inputs, lift_rules
from pyjax.interpreters.rules import (
    call_discharge_rules,
    discharge_rules,
    elementwise_primitives,
    keep_refs,
    sized_primitives,
)
from pyjax.interpreters.splits import split_results
from pyjax.interpreters.varying import refuse_to_cast, variation
from xla_backend.process.no_collections import with_few_collections
from xla_backend.process.on_first_use import on_first_use

# Text is for people; `core` cannot name what is above its jaxprs.
install_printer(on_first_use("pyjax.core.jaxpr_text", "to_text"))
FlatFun = Callable[..., Sequence[Any]]
SCALARS = (bool, int, float, complex)
_folding = options.eager_constant_folding.here
_auto_pcast = options.auto_pcast.here
_attributes = attributes_in_force.here


# Primitives that may expand while they are traced (jit with inline=True, conversion of a literal):
# `rule(trace, args, params)` returns outputs, or None to record the equation.
staging_rules: dict[Primitive, Callable[[Any, Any, dict[str, Any]], list[Any] | None]] = {}


class JaxprTracer(Tracer):
    """A value in the program that is being written."""

    __slots__ = ("atom", "source")

    def __init__(self, trace: StagingTrace, aval: Any, atom: Any, source: Any = None) -> None:
        self._trace = trace
        self.aval = aval
        self.atom = atom
        self.source = source

    def origin(self) -> str:
        trace: Any = self._trace
        where = summarize(self.source)
        made = f"\n  created at {where}" if where else ""
        depends = trace.depends_on(self)
        on = f"; the value depends on argument{'s' if len(depends) > 1 else ''} " if depends else ""
        return f"{trace.origin()}{on}{', '.join(depends)}{made}"

    def __repr__(self) -> str:
        trace: Any = self._trace
        kind = "JitTracer" if trace.debug_info.traced_for == "jit" else "JaxprTracer"
        return f"{kind}<{self.aval.str_short()}>"


class ScalarTracer(JaxprTracer):
    """A Python or NumPy scalar as an argument of a function of the library that is traced as if it
    were written where it is called: the function sees an array, equations have the number."""

    __slots__ = ("value",)

    def __init__(self, trace: StagingTrace, value: Any) -> None:
        aval = abstractify(value)
        super().__init__(trace, aval, Literal(literal_value(value), aval))
        self.value = value


class StagingTrace(Trace):
    """Records equations. `parent` is not used: nothing runs."""

    kind = "staging"

    def __init__(self, debug_info: DebugInfo = UNKNOWN) -> None:
        self.debug_info = debug_info
        self.eqns: list[JaxprEqn] = []
        self.invars: list[Var] = []
        self.constants: dict[int, tuple[Var, Any]] = {}  # by id; the value is kept alive here
        self.effects: Effects = no_effects
        self.closed = False
        self._has_refs = False
        # Whether types say along which mesh axes values vary, and anything of mesh axes at all.
        self._tracks_variation = options.check_vma.here()[0].value
        self._has_mesh_types = self._tracks_variation
        # What asked for folding before a single operation is traced has no say: that is traced in
        # order to be run. What asks for it in the middle is a signal handler.
        single = debug_info is UNKNOWN or debug_info.traced_for == EAGER
        self._overruled = _folding()[0] if single else None

    # -- values -----------------------------------------------------------------------------------

    def new_argument(self, aval: Any) -> JaxprTracer:
        var = Var(aval)
        self._has_refs = self._has_refs or type(aval) is AbstractRef
        self._has_mesh_types = self._has_mesh_types or type(aval) is MeshArray
        self.invars.append(var)
        return JaxprTracer(self, aval, var)

    def to_atom(self, x: Any) -> Any:
        """Variable or literal for a value used by an equation here."""
        if isinstance(x, JaxprTracer) and x._trace is self:
            return x.atom
        if isinstance(x, SCALARS) or isinstance(x, np.generic):
            return Literal(literal_value(x), abstractify(x))
        known = self.constants.get(id(x))
        if known is not None:
            return known[0]
        if isinstance(x, Tracer):
            check_alive(x)
        if type(x) is SymbolicDim:
            return self.to_atom(under(self, x.value))
        aval = abstractify(x)
        self._has_refs = self._has_refs or type(aval) is AbstractRef
        self._has_mesh_types = self._has_mesh_types or type(aval) is MeshArray
        if aval.shape == () and isinstance(x, np.ndarray) and x.dtype.fields is None:
            return Literal(literal_value(x[()]), aval)
        var = Var(aval)
        self.constants[id(x)] = (var, x)
        return var

    # -- equations --------------------------------------------------------------------------------

    def process_primitive(
        self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]
    ) -> list[Any]:
        if (
            _folding()[0].value
            and self.folds(args)
            and not primitive.effects(*map(abstractify, args), **params)
        ):
            return without_tracing(primitive, args, params)
        return self.record(primitive, args, params)

    def record(
        self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]
    ) -> list[Any]:
        """An operation becomes part of the program."""
        rule = staging_rules.get(primitive)
        if rule is not None:
            outs = rule(self, args, params)
            if outs is not None:
                return outs
        atoms: list[Any] = []
        avals: list[Any] = []
        for x in args:
            if type(x) is JaxprTracer and x._trace is self:
                atoms.append(x.atom)
                avals.append(x.aval)
            else:
                atom = self.to_atom(x)
                atoms.append(atom)
                avals.append(atom.aval)
        if self._has_refs:
            check_takes_refs(primitive, avals)
        out_avals = primitive.abstract_eval_rule(*avals, **params)
        if type(out_avals) is not list:
            out_avals = as_list(out_avals)
        effects = no_effects
        if primitive.effects_of is not None:
            effects = primitive.effects_of(*avals, **params)
        return self.emit(primitive, atoms, out_avals, params, effects)

    def emit(
        self,
        primitive: Primitive,
        atoms: list[Any],
        out_avals: Sequence[Any],
        params: dict[str, Any],
        effects: Effects = no_effects,
    ) -> list[Any]:
        """Append an equation; tracers for its outputs."""
        if self._has_mesh_types:
            atoms, out_avals = self._over_meshes(primitive, atoms, out_avals, params)
        lift = lift_rules.get(primitive)
        if lift is not None:
            given = atoms
            atoms, params = lift(atoms, params, self._lifted)
            if effects and atoms is not given:
                effects = primitive.effects(*[a.aval for a in atoms], **params)
        source = current_frame()
        attributes = _attributes()[0].value
        if attributes:
            source = attributed(source, attributes)
        if len(out_avals) == 1:  # nearly all equations
            (aval,) = out_avals
            if type(aval) is MeshArray and not self._has_mesh_types:
                self._has_mesh_types = True
                atoms, (aval,) = self._over_meshes(primitive, atoms, out_avals, params)
            var = Var(aval)
            self.eqns.append(JaxprEqn(atoms, [var], primitive, params, effects, source))
            if effects:
                self._note_effects(effects)
            return [JaxprTracer(self, aval, var, source)]
        if any(type(a) is MeshArray for a in out_avals):
            self._has_mesh_types = True
        outvars = [Var(a) for a in out_avals]
        self.eqns.append(JaxprEqn(atoms, outvars, primitive, params, effects, source))
        if effects:
            self._note_effects(effects)
        return [JaxprTracer(self, v.aval, v, source) for v in outvars]

    def _over_meshes(
        self,
        primitive: Primitive,
        atoms: list[Any],
        out_avals: Sequence[Any],
        params: dict[str, Any],
    ) -> tuple[list[Any], Sequence[Any]]:
        """Operands, those that vary along too few mesh axes cast, and the types of results: along
        which axes they vary, and how they are split."""
        if not self._tracks_variation:
            return atoms, split_results(primitive, [a.aval for a in atoms], out_avals, params)
        axes = [a.aval.vma for a in atoms]
        wanted, found = variation(primitive, axes, out_avals, params)
        for i, (have, want) in enumerate(zip(axes, wanted)):
            if not have >= want and isinstance(atoms[i].aval, ShapedArray):
                if not _auto_pcast()[0].value:
                    refuse_to_cast(primitive.name, [a.aval for a in atoms], want - have)
                for cast, missing, aval in casts_to_vary(atoms[i].aval, want - have):
                    (made,) = self.emit(cast, [atoms[i]], [aval], {"axes": missing})
                    atoms[i] = made.atom
        out_avals = split_results(primitive, [a.aval for a in atoms], out_avals, params)
        if found is not None:
            out_avals = [
                a.update(vma=vma) if isinstance(a, ShapedArray) else a
                for a, vma in zip(out_avals, found)
            ]
        return atoms, out_avals

    def _note_effects(self, effects: Effects) -> None:
        self.effects = self.effects | effects
        self._has_refs = self._has_refs or new_ref_effect in effects

    def _lifted(self, program: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
        """A program with its constants as leading inputs, and these as operands of its equation."""
        if not program.consts:
            return program, []
        return constants_as_inputs(program), [self.to_atom(c) for c in program.consts]

    def process_custom_call(self, call: CustomCall, args: Sequence[Any]) -> list[Any]:
        if self.folds(args):
            recorded = len(self.eqns)
            outs = call.fun(*args)
            if len(self.eqns) == recorded:
                return outs
            del self.eqns[recorded:]  # it closes over traced values: its rules must go with it
        return call.stage(self, args)

    def folds(self, args: Sequence[Any]) -> bool:
        """Whether an operation on these values is not recorded, but done at once: constants, where
        `eager_constant_folding` is on (in blocks of `ensure_compile_time_eval` it is)."""
        asks = _folding()[0]
        return (
            asks.value
            and asks is not self._overruled
            and not any(isinstance(x, Tracer) for x in args)
        )

    # -- the result -------------------------------------------------------------------------------

    def to_jaxpr(self, outs: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
        """(jaxpr, constants) with these outputs."""
        outvars = [self.to_atom(x) for x in outs]
        pairs = list(self.constants.values())
        constvars = [v for v, _ in pairs]
        eqns = self.eqns
        used: set[Any] = set(outvars)
        for eqn in eqns:
            used.update(eqn.invars)
        for eqn in eqns:
            if not used.issuperset(eqn.outvars):
                eqn.outvars = [v if v in used else DropVar(v.aval) for v in eqn.outvars]
        jaxpr = Jaxpr(constvars, self.invars, outvars, eqns, self.effects, self.debug_info)
        return jaxpr, [value for _, value in pairs]

    def origin(self) -> str:
        return self.debug_info.describe()

    def made_at(self, tracer: Any) -> Any:
        return tracer.source

    def depends_on(self, tracer: JaxprTracer) -> tuple[str, ...]:
        """Names of the arguments a value was computed from."""
        names = self.debug_info.names()
        producers = {v: e for e in self.eqns for v in e.outvars}
        seen: set[Any] = set()
        stack = [tracer.atom]
        while stack:
            atom = stack.pop()
            if type(atom) is Literal or atom in seen:
                continue
            seen.add(atom)
            if atom in producers:
                stack.extend(producers[atom].invars)
        return tuple(n for n, v in zip(names, self.invars) if v in seen)


def check_takes_refs(primitive: Primitive, avals: Sequence[Any]) -> None:
    """Mutable references are operands of few primitives.

    Raises:
      TypeError: this one takes arrays.
    """
    ref = next((a for a in avals if type(a) is AbstractRef), None)
    if ref is None or primitive in discharge_rules or primitive in call_discharge_rules:
        return
    if primitive not in keep_refs:
        raise new_error(
            TypeError,
            f"{primitive} got a Ref, {ref.str_short()}, where an array is needed.",
            "operations work on arrays; a Ref holds one, which changes",
            "Did you forget to load from it? Write ref[...].",
        )


def without_tracing(
    primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]
) -> list[Any]:
    """Results of a primitive on values, now: they are constants of what is traced."""
    outer = state.traces
    state.traces = [eval_trace]
    try:
        return eval_trace.process_primitive(primitive, args, params)
    finally:
        state.traces = outer


class SizeStagingTrace(StagingTrace):
    """Records equations on arrays whose sizes may be traced (option `dynamic_shapes`)."""

    def __init__(self, debug_info: DebugInfo = UNKNOWN) -> None:
        super().__init__(debug_info)
        self._dimensions: dict[Any, Dimension] = {}  # by the variable they refer to

    def dimension(self, tracer: JaxprTracer) -> Any:
        """What a traced integer of this program is as the size of an array; None if it is none."""
        atom, aval = tracer.atom, tracer.aval
        if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
            return None
        if type(atom) is Literal:
            return int(atom.val)
        found = self._dimensions.get(atom)
        if found is None:
            names = dict(zip(self.invars, self.debug_info.names()))
            found = Dimension(names.get(atom, f"size{len(self._dimensions)}"))
            self._dimensions[atom] = found
            under(self, self._bind_dimension, tracer, found)
        return found

    def _bind_dimension(self, tracer: JaxprTracer, dimension: Dimension) -> None:
        size = convert_element_type(tracer, dtypes.canonicalize_dtype(np.int64), weak_type=True)
        dimension_p.bind(size, dimension=dimension)

    def process_primitive(
        self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]
    ) -> list[Any]:
        args = tuple([x.value() if isinstance(x, TracedSize) else x for x in args])
        if primitive not in elementwise_primitives and primitive not in sized_primitives:
            traced = _of_traced_size(args)
            if traced is not None:
                raise unsupported_size(f"{primitive.name} of", traced)
        if _has_dimension(params):  # it has no value yet, even without traced operands
            return self.record(primitive, args, params)
        return super().process_primitive(primitive, args, params)

    def process_custom_call(self, call: CustomCall, args: Sequence[Any]) -> list[Any]:
        if _of_traced_size(args) is None:
            return super().process_custom_call(call, args)
        return call.fun(*args)  # nothing differentiates a program with such arrays


def new_staging_trace(debug_info: DebugInfo) -> StagingTrace:
    """A trace that records what the options in force ask for."""
    kind = SizeStagingTrace if options.dynamic_shapes.here()[0].value else StagingTrace
    return kind(debug_info)


def _has_dimension(params: dict[str, Any]) -> bool:
    """Whether a parameter is a dimension, or a shape with one."""
    values = [v for p in params.values() for v in (p if type(p) is tuple else (p,))]
    return any(type(v) is Dimension for v in values)


def _of_traced_size(args: Sequence[Any]) -> Any:
    """The aval of the first array whose size is traced, if there is one."""
    for x in args:
        aval = getattr(x, "aval", None)
        if aval is not None and not is_known(getattr(aval, "shape", ())):
            return aval
    return None


def unsupported_size(what: str, aval: Any, where: str | None = None) -> NotImplementedError:
    """The error for an operation on an array of a traced size."""
    return new_error(
        NotImplementedError,
        f"{what} an array whose size is traced ({aval.str_short()}) is not supported.",
        "Such arrays (option dynamic_shapes) take part in elementwise operations, broadcasting, "
        "transposition, reductions and matrix products.",
        FIX,
        where=where,
    )


def _fold_literal_conversion(
    trace: StagingTrace, args: Any, params: dict[str, Any]
) -> list[Any] | None:
    """A Python or NumPy scalar is converted here when no rounding rule of integers is involved."""
    (x,) = args
    if type(x) is ScalarTracer:
        x = x.value
    if not (isinstance(x, SCALARS) or isinstance(x, np.generic)):
        return None
    source, target = abstractify(x), params["new_dtype"]
    if not isinstance(target, np.dtype) or source.dtype == dtypes.float0:
        return None
    if target == np.bool_ or dtypes.issubdtype(target, np.integer):
        if source.dtype.kind not in "iub" or not _in_range(x, target):
            return None
    if source.dtype.kind == "c" and target.kind != "c":
        return None
    value = np.asarray(x, source.dtype).astype(target)[()]
    aval = ShapedArray((), target, params["weak_type"])
    if params["weak_type"]:
        # Only a Python scalar is weak again when the program is replayed from its literals.
        value = value.item()
        if abstractify(value) is not aval:
            return None
    return [JaxprTracer(trace, aval, Literal(value, aval), current_frame())]


def _in_range(x: Any, target: np.dtype) -> bool:
    if target.kind == "b":
        return isinstance(x, (bool, np.bool_))
    info = dtypes.iinfo(target)
    return bool(info.min <= int(x) <= info.max)


staging_rules[convert_element_type_p] = _fold_literal_conversion


def literal_value(x: Any) -> Any:
    """A scalar in the form literals hold: Python scalars stay, NumPy scalars are canonical."""
    if isinstance(x, np.generic):
        dtype = abstractify(x).dtype
        return x if x.dtype == dtype else x.astype(dtype)
    return x


def check_alive(x: Tracer) -> None:
    """Raise UnexpectedTracerError when a tracer's transformation is over."""
    trace: Any = x._trace
    while trace is not None:
        if getattr(trace, "closed", False):
            raise escaped_tracer_error(x)
        trace = trace.parent


def trace_to_jaxpr(
    fun: FlatFun, in_avals: Sequence[Any], *, debug: DebugInfo = UNKNOWN
) -> tuple[ClosedJaxpr, list[Any]]:
    """Trace `fun(*flat tracers) -> flat list` on abstract values.

    Returns:
      The closed jaxpr and its output avals. Constants are values the function closed over; they may
      be tracers of an enclosing transformation.
    Raises:
      UnexpectedTracerError: the function uses a leaked tracer.
      TracerLeakError: with `check_tracer_leaks`, a tracer survives.
    """
    if options.no_tracing.here()[0].value:
        raise new_error(
            RuntimeError,
            f"re-tracing function {debug.function} for `{debug.traced_for}`, but 'no_tracing' is "
            f"set",
        )
    follow = options.include_full_tracebacks_in_locations.here()[0].value and (
        options.traceback_in_locations_limit.here()[0].value not in (0, 1)
    )
    trace = new_staging_trace(debug)
    run = lambda: under(trace, in_traced_code, follow, _staged, trace, fun, in_avals)
    jaxpr, consts = with_few_collections(run) if state.traces[0] is eval_trace else run()
    trace.closed = True
    closed = ClosedJaxpr(jaxpr, consts)
    if options.check_tracer_leaks.here()[0].value:
        trace.constants = {}
        over = weakref.ref(trace)
        del trace
        check_leaks(over)
    if options.enable_checks.here()[0].value:
        check_jaxpr(jaxpr)
    return closed, closed.out_avals


def _staged(trace: StagingTrace, fun: FlatFun, in_avals: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
    outs = fun(*[trace.new_argument(a) for a in in_avals])
    return trace.to_jaxpr(outs)


def computed_now(values: Sequence[Any]) -> bool:
    """Whether a call with these operands is run instead of being part of the program that is
    recorded; see `StagingTrace.folds`."""
    trace: Any = state.traces[0]
    while trace is not None:
        if isinstance(trace, StagingTrace):
            return trace.folds(values)
        trace = trace.parent
    return False


def is_staging(trace: Any) -> bool:
    """Whether operations under `trace` are recorded (possibly below jvp and vmap) instead of
    run."""
    while trace is not None:
        if isinstance(trace, StagingTrace):
            return True
        trace = trace.parent
    return False
