"""Rule tables: what each interpreter does with each primitive, and `define_primitive`, which fills
them.

Absence is spelled out: `Unsupported("reason")` is a rule whose reason is the user's error message.
Layer: interpreters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyjax.core.errors import new_error
from pyjax.core.primitive import Primitive
from pyjax.interpreters import jvp_forms


class Unsupported:
    """A rule that does not exist, with the reason users read."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class FullJvp:
    """A jvp rule `fn(primals, tangents, **params) -> (outs list, tangent outs list)`.

    Tangents in and out may be `ad.Zero`.
    """

    def __init__(self, fn: Callable[..., tuple[list[Any], list[Any]]]) -> None:
        self.fn = fn


class _Marker:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


# jvp=LINEAR: linear in all operands jointly; the primitive is applied to the tangents.
LINEAR = _Marker("LINEAR")
# jvp=ZERO_TANGENT: piecewise constant; tangents are zero.
ZERO_TANGENT = _Marker("ZERO_TANGENT")


class PerPrimitive:
    """A rule that needs to know its primitive: `make(primitive) -> rule`, called by
    define_rules."""

    def __init__(self, make: Callable[[Primitive], Any]) -> None:
        self.make = make

    def __call__(self, primitive: Primitive) -> Any:
        return self.make(primitive)


class RuleTable:
    """Rules of one interpreter by primitive.

    Args:
      missing: what is said of a primitive without a rule, `{}` standing for its name.
      fix: how users give it one.
      instead: what to do where there can be none.

    Attributes:
      changes: how often a rule was set or taken out.
      first: the rule that a primitive was defined with.
    """

    def __init__(self, name: str, missing: str, fix: str, instead: str = "") -> None:
        self.name = name
        self._missing = missing
        self._fix = fix
        self._instead = instead
        self._rules: dict[Primitive, Any] = {}
        self.first: dict[Primitive, Any] = {}
        self.changes = 0

    def __setitem__(self, primitive: Primitive, rule: Any) -> None:
        self.changes += 1
        made = rule(primitive) if type(rule) is PerPrimitive else rule
        self.first.setdefault(primitive, made)
        self._rules[primitive] = made

    def __getitem__(self, primitive: Primitive) -> Any:
        """The rule; NotImplementedError with the reason if there is none."""
        rule = self._rules.get(primitive)
        if rule is None:
            raise new_error(
                NotImplementedError,
                self._missing.format(repr(primitive.name)) + ".",
                "no rule is registered for this primitive",
                self._fix,
            )
        if type(rule) is Unsupported:
            raise new_error(
                NotImplementedError,
                f"{self.name} of primitive {primitive} is not supported: {rule.reason}",
                fix=self._instead,
            )
        return rule

    def get(self, primitive: Primitive) -> Any:
        """The rule (possibly `Unsupported`) or None."""
        return self._rules.get(primitive)

    def discard(self, primitive: Primitive) -> None:
        """Forget the rule, if there is one."""
        self.changes += 1
        self._rules.pop(primitive, None)

    def __contains__(self, primitive: Primitive) -> bool:
        return primitive in self._rules

    def __iter__(self) -> Iterator[Primitive]:
        return iter(self._rules)


def _optional(name: str) -> RuleTable:
    """A table for primitives that need more than interpreters do by themselves."""
    return RuleTable(name, f"{name} of {{}} is not special", "Ask `get` for the rule.")


jvp_rules = RuleTable(
    "differentiation (jvp)",
    "Differentiation rule for {} not implemented",
    "Write ad.defjvp(p, one rule per operand), or ad.primitive_jvps[p] = rule (ad is "
    "pyjax.interpreters.ad).",
    "Give the function that uses it a rule of its own (custom_jvp, custom_vjp), or take it as "
    "constant: lax.stop_gradient of its operands.",
)
# Other primitives are linearized by their jvp rule.
linearize_rules = _optional("linearization")
transpose_rules = RuleTable(
    "transposition (reverse-mode differentiation)",
    "Transpose rule (for reverse-mode differentiation) for {} not implemented",
    "Write ad.deflinear2(p, rule), or ad.primitive_transposes[p] = rule (ad is "
    "pyjax.interpreters.ad).",
    "Transpose linear functions only; grad and vjp differentiate others. A derivative rule of your "
    "own must be linear in its tangents, or be given backwards: custom_vjp.",
)
batching_rules = RuleTable(
    "batching (vmap)",
    "Batching rule for {} not implemented",
    "Write batching.primitive_batchers[p] = rule, or batching.defvectorized(p) if it treats all "
    "elements alike (batching is pyjax.interpreters.batching).",
    "Call it for one element at a time: lax.map, or a loop in Python.",
)
lowering_rules = RuleTable(
    "lowering",
    "MLIR translation rule for primitive {} not found",
    "Write mlir.register_lowering(p, mlir.lower_fun(function, multiple_results=False)) (mlir is "
    "pyjax.interpreters.mlir).",
    "Call the function that uses it, instead of lowering it.",
)
# Primitives with jaxprs inside; others have default behaviour.
partial_eval_rules = _optional("partial evaluation")
dce_rules = _optional("dead-code elimination")
partial_eval_jaxpr_rules = _optional("partial evaluation of equations")
# Collectives: `rule(axis_name, axis_size, args, dims, **params) -> (outs, out dims)`, called when a
# parameter `axis_name`/`axes` names the axis that vmap maps.
collective_batching_rules = _optional("batching of collectives")
# Whose batching rules are asked though no operand is mapped.
batches_unmapped: set[Primitive] = set()

all_primitives: dict[str, Primitive] = {}
# Calls: which parameter is the program that takes the operands and gives the results.
called_programs: dict[Primitive, str] = {}
# Calls whose lowering looks at some of their parameters only: not at derivative rules.
lowered_parameters: dict[Primitive, tuple[str, ...]] = {}
# Element i of the outputs needs element i of the operands only, whatever the shape.
elementwise_primitives: set[Primitive] = set()
# Sums, products, extremes: along `axes`, with a monoid.
reduction_primitives: set[Primitive] = set()
# Others that take arrays whose sizes are traced: their rules ask only whether sizes are equal.
sized_primitives: set[Primitive] = set()

# What becomes of equations on mutable references (interpreters/discharge.py): of those that use
# them, and of those that have programs inside which do.
discharge_rules: dict[Primitive, Any] = {}
call_discharge_rules: dict[Primitive, Any] = {}
# Others that take references.
keep_refs: set[Primitive] = set()

JvpSpec = Any


def define_rules(
    primitive: Primitive,
    *,
    abstract_eval: Callable[..., Any],
    jvp: JvpSpec,
    transpose: Any,
    batching: Any,
    lowering: Any,
    partial_eval: Any = None,
    linearize: Any = None,
    dce: Any = None,
    effects: Callable[..., frozenset] | None = None,
    impl: Callable[..., Any] | None = None,
    partial_eval_jaxpr: Any = None,
    collective_batching: Any = None,
    exact_params: bool = False,
    multiple_results: bool = False,
) -> Primitive:
    """Give a declared primitive (core.structural) its rules; the keywords are those of
    `define_primitive`."""
    all_primitives[primitive.name] = primitive
    primitive.abstract_eval_rule = abstract_eval
    primitive.effects_of = effects
    primitive.impl = impl
    primitive.exact_params = exact_params
    primitive.multiple_results = multiple_results or primitive.multiple_results
    define_jvp(primitive, jvp, linearize)
    transpose_rules[primitive] = transpose
    batching_rules[primitive] = batching
    lowering_rules[primitive] = lowering
    if partial_eval is not None:
        partial_eval_rules[primitive] = partial_eval
    if partial_eval_jaxpr is not None:
        partial_eval_jaxpr_rules[primitive] = partial_eval_jaxpr
    if dce is not None:
        dce_rules[primitive] = dce
    if collective_batching is not None:
        collective_batching_rules[primitive] = collective_batching
    return primitive


def define_primitive(
    name: str,
    *,
    abstract_eval: Callable[..., Any],
    jvp: JvpSpec,
    transpose: Any,
    batching: Any,
    lowering: Any,
    partial_eval: Any = None,
    linearize: Any = None,
    dce: Any = None,
    effects: Callable[..., frozenset] | None = None,
    impl: Callable[..., Any] | None = None,
    partial_eval_jaxpr: Any = None,
    collective_batching: Any = None,
    exact_params: bool = False,
    multiple_results: bool = False,
) -> Primitive:
    """Make a primitive with all its rules; every keyword without a default must be decided.

    Args:
      abstract_eval: `(*avals, **params) -> aval or list of avals`.
      jvp: one rule (unary primitives) or a tuple with one per operand,
        `rule(g, ans, *primals, **params) -> tangent` (None: no tangent comes from that operand);
        or LINEAR, ZERO_TANGENT, FullJvp(fn), Unsupported(reason).
      transpose: `(cts, *args, **params) -> list of cotangents (None for non-linear operands)`;
        linear operands arrive as `ad.UndefinedPrimal`, cotangents may be `ad.Zero`.
      batching: `(axis_size, args, dims, **params) -> (outs, out dims)`.
      lowering: `(ctx, *operands, **params) -> instruction or list`.
      partial_eval: for primitives with jaxprs, see `interpreters/partial_eval.py`.
      linearize: the same, see `interpreters/linearize.py`; others go by their jvp rule.
      dce: `(used_outputs, eqn) -> (used_inputs, new eqn or None)`.
      effects: `(*avals, **params) -> frozenset`.
      impl: runs it eagerly in Python instead of compiling.
      partial_eval_jaxpr: `(unknown_in, inst_in, eqn) -> ...`, see `interpreters/partial_eval.py`.
      exact_params: a parameter is a float, or an int in some calls and a float in others.
      multiple_results: it may have any other number of results than one.
    """
    return define_rules(
        Primitive(name),
        abstract_eval=abstract_eval,
        jvp=jvp,
        transpose=transpose,
        batching=batching,
        lowering=lowering,
        partial_eval=partial_eval,
        linearize=linearize,
        dce=dce,
        effects=effects,
        impl=impl,
        partial_eval_jaxpr=partial_eval_jaxpr,
        collective_batching=collective_batching,
        exact_params=exact_params,
        multiple_results=multiple_results,
    )


def define_jvp(primitive: Primitive, jvp: JvpSpec, linearize: Any = None) -> None:
    """Give a primitive its derivative, as `define_primitive` takes it."""
    jvp_rules[primitive] = _expand_jvp(primitive, jvp)
    linearization = linearize or _linearization_of(primitive, jvp)
    if linearization is None:
        linearize_rules.discard(primitive)
    else:
        linearize_rules[primitive] = linearization


def _expand_jvp(primitive: Primitive, spec: JvpSpec) -> Any:
    if isinstance(spec, (Unsupported, FullJvp)):
        return spec if isinstance(spec, Unsupported) else spec.fn
    if spec is LINEAR:
        return jvp_forms.linear_jvp(primitive)
    if spec is ZERO_TANGENT:
        return jvp_forms.zero_jvp(primitive)
    return jvp_forms.operandwise_jvp(primitive, spec)


def _linearization_of(primitive: Primitive, spec: JvpSpec) -> Any:
    """The linearization rule that a short form of jvp rule stands for; None of a full rule."""
    if isinstance(spec, (Unsupported, FullJvp)):
        return None
    if spec is LINEAR:
        return jvp_forms.linear_linearization(primitive)
    if spec is ZERO_TANGENT:
        return jvp_forms.zero_linearization(primitive)
    return jvp_forms.operandwise_linearization(primitive, spec)
