"""No cache takes one value for another that is merely equal to it.

`VALUES` are groups of values that compare equal and are not the same; `CACHES` are programs that
depend on such a value, one for each table in which the library remembers something. Whatever was
remembered for the values before, each result is the one of a fresh function and empty caches.
"""

from __future__ import annotations

import dataclasses
import decimal
import enum
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jit, lax, tree_util, vmap
from pyjax.core.avals import ShapedArray
from pyjax.core.exact_keys import exact_key
from pyjax.core.jaxpr import Jaxpr, JaxprEqn, subjaxprs
from pyjax.core.primitive import Primitive
from pyjax.interpreters.hlo import lower_fun
from pyjax.interpreters.rules import lowering_rules
from pyjax.runtime import dispatch
from tests import op_tables
from tests.op_table import cases
from tests.sampling import sampled
from xla_backend.process.values import Value


class Level(enum.IntEnum):
    ZERO = 0
    ONE = 1


class Grade(enum.IntEnum):
    ZERO = 0
    ONE = 1


class Pair(NamedTuple):
    first: Any
    second: Any = 2


class OtherPair(NamedTuple):
    first: Any
    second: Any = 2


@dataclasses.dataclass(frozen=True)
class Config:
    value: Any
    name: str = "c"


class Record(Value):
    value: Any
    name: str = "c"


@dataclasses.dataclass(frozen=True)
class SubConfig(Config):
    pass


class Fraction(float):
    """A float of a class of its own."""


def nan(payload: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", 0x7FF8 << 48 | payload << 40))[0]


NUMBERS: dict[str, list[Any]] = {
    "zeros": [
        *(0.0, -0.0, 0, False, 0j, complex(0.0, -0.0), complex(-0.0, 0.0)),
        *(np.float32(0), np.float32(-0.0), np.float64(-0.0), np.float16(-0.0)),
        *(np.int32(0), np.int64(0), np.int8(0), np.uint8(0), np.bool_(False)),
        *(np.complex64(complex(0.0, -0.0)), ml_dtypes.bfloat16(0), ml_dtypes.bfloat16(-0.0)),
        *(Level.ZERO, Grade.ZERO, Fraction(0.0), Fraction(-0.0)),
    ],
    "ones": [
        *(1, 1.0, True, 1 + 0j, complex(1.0, -0.0), np.float32(1), np.float64(1), np.int8(1)),
        *(np.int32(1), np.int64(1), np.bool_(True), ml_dtypes.bfloat16(1), Level.ONE, Grade.ONE),
    ],
    "nans": [nan(0), nan(1), -nan(1), np.float32(np.nan), -np.float32(np.nan)],
}
OTHERS: dict[str, list[Any]] = {
    "texts": ["a", np.str_("a"), enum.StrEnum("Texts", {"A": "a"}).A],
    "dtypes": [np.dtype("float32"), np.float32, jnp.float32, ml_dtypes.bfloat16],
    "decimals": [decimal.Decimal("0"), decimal.Decimal("-0"), decimal.Decimal("0.0"), 0],
    "ranges": [range(0), range(1, 1), range(0, 3, 2), range(0, 4, 2)],
}
WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda v: (v, 2),
    "nested": lambda v: ((1, (v,)), "x"),
    "named": Pair,
    "other_named": OtherPair,
    "config": Config,
    "sub_config": SubConfig,
    "record": Record,
    "config_of_tuple": lambda v: Config((Pair(v),)),
    "frozenset": lambda v: frozenset({v, "x"}),
}
STATIC = {
    **NUMBERS,
    **OTHERS,
    **{f"{w}_{n}": [wrap(v) for v in NUMBERS[n]] for w, wrap in WRAPPERS.items() for n in NUMBERS},
    "containers": [(1, 2), Pair(1), OtherPair(1)],
    "configs": [Config(1), SubConfig(1)],
}


def description(value: Any) -> int:
    """A number that differs for values that a program can tell apart."""
    return zlib.crc32(_text(value).encode()) & 0xFFFFFF


def _text(value: Any) -> str:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, np.generic):
        return f"{kind}:{value.tobytes().hex()}"
    if isinstance(value, complex):
        return f"{kind}:{struct.pack('<dd', value.real, value.imag).hex()}"
    if isinstance(value, float):
        return f"{kind}:{struct.pack('<d', value).hex()}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [_text(getattr(value, f.name)) for f in dataclasses.fields(value)]
        return f"{kind}({','.join(fields)})"
    if isinstance(value, Value):
        return f"{kind}({','.join(map(_text, value._key()))})"
    if isinstance(value, (tuple, frozenset)):
        parts = [_text(v) for v in value]
        return f"{kind}({','.join(parts if isinstance(value, tuple) else sorted(parts))})"
    return f"{kind}:{value!r}"


def outcome(function: Callable[[Any], Any], value: Any) -> Any:
    """Type and bits of each array of a result, or the exception that was raised."""
    try:
        result = function(value)
    except (TypeError, ValueError, OverflowError, IndexError) as error:
        return type(error)
    leaves = tree_util.tree_leaves(result)
    return [
        (np.asarray(x).dtype, getattr(x, "weak_type", None), np.shape(x), np.asarray(x).tobytes())
        for x in leaves
    ]


def check(make: Callable[[], Callable[[Any], Any]], values: list[Any]) -> None:
    """Results are those of fresh functions and caches, in whatever order values come."""
    fresh = []
    for value in values:
        dispatch.clear_caches()
        fresh.append(outcome(make(), value))
    dispatch.clear_caches()
    function = make()
    for order in (values, values[::-1]):
        for value in order:
            expected = fresh[next(i for i, v in enumerate(values) if v is value)]
            assert outcome(function, value) == expected, f"{value!r} of {type(value)}"


# -- static arguments: the value itself is part of the program -------------------------------------


def _static() -> Callable[[Any], Any]:
    return jit(lambda v: jnp.int32(description(v)), static_argnums=0)


def _static_by_name() -> Callable[[Any], Any]:
    f = jit(lambda x, *, v: x + description(v), static_argnames="v")
    return lambda v: f(jnp.int32(0), v=v)


def _static_in_trace() -> Callable[[Any], Any]:
    inner = jit(lambda x, v: x + description(v), static_argnums=1)
    return lambda v: vmap(lambda x: inner(x, v))(jnp.zeros(2, jnp.int32))


def _static_lowered() -> Callable[[Any], Any]:
    f = jit(lambda x, v: x + description(v), static_argnums=1)
    return lambda v: f.lower(jnp.int32(0), v).compile()(jnp.int32(0))


def _static_shape() -> Callable[[Any], Any]:
    f = jit(lambda x, v: x + description(v), static_argnums=1)
    return lambda v: f.eval_shape(jnp.int32(0), v).dtype.itemsize


def _static_pmap() -> Callable[[Any], Any]:
    f = pyjax.pmap(lambda x, v: x + description(v), static_broadcasted_argnums=1)
    return lambda v: f(jnp.zeros((1,), jnp.int32), v)


def _static_checkpoint() -> Callable[[Any], Any]:
    f = pyjax.checkpoint(lambda x, v: x * float(description(v)), static_argnums=1)
    return lambda v: grad(f)(1.0, v)


def _static_make_jaxpr() -> Callable[[Any], Any]:
    f = pyjax.make_jaxpr(lambda x, v: x + description(v), static_argnums=1)
    return lambda v: f(jnp.int32(0), v).eval(jnp.int32(0))


def _nondiff_jvp() -> Callable[[Any], Any]:
    f = pyjax.custom_jvp(lambda v, x: x * float(description(v)), nondiff_argnums=(0,))
    f.defjvp(lambda v, primals, tangents: (f(v, *primals), tangents[0] * float(description(v))))
    g = jit(grad(f, argnums=1), static_argnums=0)
    return lambda v: (f(v, 1.0), grad(f, argnums=1)(v, 1.0), g(v, 1.0))


def _nondiff_vjp() -> Callable[[Any], Any]:
    f = pyjax.custom_vjp(lambda v, x: x * float(description(v)), nondiff_argnums=(0,))
    f.defvjp(lambda v, x: (f(v, x), None), lambda v, residuals, ct: (ct * float(description(v)),))
    g = jit(grad(f, argnums=1), static_argnums=0)
    return lambda v: (f(v, 1.0), grad(f, argnums=1)(v, 1.0), g(v, 1.0))


STATIC_CACHES = {
    f.__name__.strip("_"): f
    for f in (
        *(_static, _static_by_name, _static_in_trace, _static_lowered, _static_shape),
        *(_static_pmap, _static_checkpoint, _static_make_jaxpr, _nondiff_jvp, _nondiff_vjp),
    )
}
FAST = ["zeros", "ones", "texts", "dtypes", "config_of_tuple_zeros"]


@pytest.mark.parametrize("group", STATIC)
def test_static_arguments(group):
    check(_static, STATIC[group])


@pytest.mark.parametrize("group", FAST)
@pytest.mark.parametrize("cache", [c for c in STATIC_CACHES if c != "static"])
def test_static_arguments_everywhere(cache, group):
    check(STATIC_CACHES[cache], STATIC[group])


@pytest.mark.parametrize("group", STATIC)
def test_keys_differ_as_descriptions_do(group):
    values = STATIC[group]
    keys = [exact_key(v) for v in values]
    for a, key_a in zip(values, keys):
        for b, key_b in zip(values, keys):
            assert (key_a == key_b) == (_text(a) == _text(b)), (a, b)


# -- structures: keys of dicts and auxiliary data -------------------------------------------------


@tree_util.register_pytree_node_class
class Scaled:
    """A container whose factor is auxiliary data."""

    def __init__(self, x: Any, factor: Any) -> None:
        self.x = x
        self.factor = factor

    def tree_flatten(self) -> Any:
        return (self.x,), self.factor

    @classmethod
    def tree_unflatten(cls, factor: Any, children: Any) -> Any:
        return cls(*children, factor)

    def described(self) -> Any:
        return self.x + description(self.factor)


def _dict_keys() -> Callable[[Any], Any]:
    f = jit(lambda d: {k: x + description(k) for k, x in d.items()})

    def call(v: Any) -> Any:
        (key,) = result = f({v: jnp.int32(0)})
        return result, description(key)

    return call


def _dict_keys_flattened() -> Callable[[Any], Any]:
    def call(v: Any) -> Any:
        (key,) = tree_util.tree_map(lambda x: x, {v: 0})
        return description(key)

    return call


def _auxiliary() -> Callable[[Any], Any]:
    f = jit(lambda s: Scaled(s.described(), s.factor))

    def call(v: Any) -> Any:
        result = f(Scaled(jnp.int32(0), v))
        return result, description(result.factor)

    return call


def _auxiliary_of_numbers() -> Callable[[Any], Any]:
    f = jit(lambda s: s.described())
    return lambda v: f(Scaled(3, v))


def _auxiliary_nested() -> Callable[[Any], Any]:
    f = jit(lambda tree: [s.described() for s in tree["a"]])
    return lambda v: f({"a": [Scaled(jnp.int32(0), 7), Scaled(jnp.int32(1), v)]})


def _auxiliary_scan() -> Callable[[Any], Any]:
    def body(carry: Scaled, _: Any) -> Any:
        return Scaled(carry.described(), carry.factor), None

    return lambda v: lax.scan(body, Scaled(jnp.int32(0), v), None, length=2)[0].x


def _auxiliary_cond() -> Callable[[Any], Any]:
    def branch(s: Scaled) -> Any:
        return s.described()

    return lambda v: lax.cond(True, branch, branch, Scaled(jnp.int32(0), v))


def _auxiliary_while() -> Callable[[Any], Any]:
    def more(s: Scaled) -> Any:
        return s.x == 0

    def body(s: Scaled) -> Any:
        return Scaled(s.described(), s.factor)

    return lambda v: lax.while_loop(more, body, Scaled(jnp.int32(0), v)).x


STRUCTURES = {
    f.__name__.strip("_"): f
    for f in (
        *(_dict_keys, _dict_keys_flattened, _auxiliary, _auxiliary_of_numbers),
        *(_auxiliary_nested, _auxiliary_scan, _auxiliary_cond, _auxiliary_while),
    )
}


@pytest.mark.parametrize("group", ["zeros", "ones", "texts", "decimals"])
@pytest.mark.parametrize("cache", STRUCTURES)
def test_structures(cache, group):
    check(STRUCTURES[cache], STATIC[group])


def test_equality_of_structures_is_that_of_their_data():
    assert tree_util.tree_structure({1: 0}) == tree_util.tree_structure({True: 0})
    assert tree_util.tree_structure(Scaled(0, 1)) == tree_util.tree_structure(Scaled(0, 1.0))
    assert tree_util.tree_structure(Scaled(0, 1)) != tree_util.tree_structure(Scaled(0, 2))


def test_a_compiled_function_refuses_a_structure_that_is_merely_equal():
    compiled = jit(lambda s: s.described()).lower(Scaled(jnp.int32(0), 1)).compile()
    assert int(compiled(Scaled(jnp.int32(0), 1))) == description(1)
    with pytest.raises(TypeError, match="another argument structure"):
        compiled(Scaled(jnp.int32(0), True))


# -- functions: two callable objects may call themselves equal ------------------------------------


@dataclasses.dataclass(frozen=True)
class AddDescription:
    value: Any

    def __call__(self, x: Any, *_: Any) -> Any:
        return x + description(self.value)


@dataclasses.dataclass(frozen=True)
class Step:
    value: Any

    def __call__(self, carry: Any, _: Any) -> Any:
        return carry + description(self.value), None


def _scan_body() -> Callable[[Any], Any]:
    return lambda v: lax.scan(Step(v), jnp.int32(0), None, length=2)[0]


def _while_body() -> Callable[[Any], Any]:
    return lambda v: lax.while_loop(lambda c: c == 0, AddDescription(v), jnp.int32(0))


def _cond_branch() -> Callable[[Any], Any]:
    return lambda v: lax.cond(True, AddDescription(v), AddDescription(v), jnp.int32(0))


@dataclasses.dataclass(frozen=True)
class LoopStep:
    value: Any

    def __call__(self, i: Any, x: Any) -> Any:
        return x + description(self.value)


def _fori_body() -> Callable[[Any], Any]:
    return lambda v: lax.fori_loop(0, 2, LoopStep(v), jnp.int32(0))


def _map_body() -> Callable[[Any], Any]:
    return lambda v: lax.map(AddDescription(v), jnp.zeros(2, jnp.int32))


def _map_body_batched() -> Callable[[Any], Any]:
    return lambda v: lax.map(AddDescription(v), jnp.zeros(4, jnp.int32), batch_size=2)


def _jit_of_object() -> Callable[[Any], Any]:
    return lambda v: jit(AddDescription(v))(jnp.int32(0))


def _vmap_of_object() -> Callable[[Any], Any]:
    return lambda v: vmap(AddDescription(v))(jnp.zeros(2, jnp.int32))


def _scatter_combiner() -> Callable[[Any], Any]:
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    x, where = jnp.zeros(2, jnp.int32), jnp.array([[1]])
    return lambda v: lax.scatter_apply(x, where, AddDescription(v), numbers, update_shape=(1,))


def _reduce_combiner() -> Callable[[Any], Any]:
    @dataclasses.dataclass(frozen=True)
    class Combine:
        value: Any

        def __call__(self, a: Any, b: Any) -> Any:
            return a + b + description(self.value)

    return lambda v: lax.reduce(jnp.zeros(2, jnp.int32), np.int32(0), Combine(v), (0,))


FUNCTIONS = {
    f.__name__.strip("_"): f
    for f in (
        *(_scan_body, _while_body, _cond_branch, _fori_body, _map_body, _map_body_batched),
        *(_jit_of_object, _vmap_of_object, _scatter_combiner, _reduce_combiner),
    )
}


@pytest.mark.parametrize("group", ["zeros", "ones"])
@pytest.mark.parametrize("cache", FUNCTIONS)
def test_callable_objects(cache, group):
    check(FUNCTIONS[cache], STATIC[group])


# -- numbers that become literals of programs ------------------------------------------------------

X = np.array([1.5, -2.0, 0.0], np.float32)
LITERALS: dict[str, Callable[[Any], Any]] = {
    "multiply": lambda v: jit(lambda x: x * v)(X),
    "multiply_array": lambda v: jnp.asarray(X) * v,
    "reflected": lambda v: v * jnp.asarray(X),
    "add_negative_zeros": lambda v: jnp.full(3, -0.0) + v,
    "where": lambda v: jit(lambda x: jnp.where(x > 0, v, x))(X),
    "lax_mul": lambda v: lax.mul(jnp.asarray(X), np.float32(np.real(v))),
    "nested_jit": lambda v: jit(lambda x: jit(lambda y: y * v)(x) + 0.0)(X),
    "two_in_a_program": lambda v: jit(lambda x: (x * v, x * 0.0, x * -0.0, x + v))(X),
    "copysign": lambda v: jnp.copysign(jnp.asarray(X), v),
    "full": lambda v: jnp.full(3, v),
    "asarray": lambda v: jnp.asarray(v),
    "array_of_list": lambda v: jnp.array([v, v]),
    "lax_full": lambda v: lax.full((2,), v),
    "pad": lambda v: jnp.pad(jnp.asarray(X), 1, constant_values=v),
    "lax_pad": lambda v: lax.pad(jnp.asarray(X), np.float32(np.real(v)), ((1, 1, 0),)),
    "initial": lambda v: jnp.sum(jnp.zeros(0), initial=v),
    "maximum_initial": lambda v: jnp.max(jnp.full(2, -jnp.inf), initial=v),
    "reduce": lambda v: lax.reduce(jnp.full(2, -0.0), np.float32(np.real(v)), lax.add, (0,)),
    "fill_value": lambda v: (
        jnp.asarray(X).at[jnp.array([7])].get(mode="fill", fill_value=np.real(v))
    ),
    "take_fill": lambda v: jnp.take(
        jnp.asarray(X), jnp.array([7]), mode="fill", fill_value=np.real(v)
    ),
    "set": lambda v: jnp.asarray(X).at[1].set(np.real(v)),
    "clip": lambda v: jnp.clip(jnp.asarray(X), v, v),
    "scan_carry": lambda v: lax.scan(lambda c, x: (c * x, c), jnp.asarray(v), jnp.asarray(X)),
    "scan_constant": lambda v: lax.scan(lambda c, x: (c, x * v), 0, jnp.asarray(X))[1],
    "cond_constant": lambda v: lax.cond(True, lambda x: x * v, lambda x: x * 3, jnp.asarray(X)),
    "while_constant": lambda v: lax.while_loop(
        lambda c: c[0] < 1, lambda c: (c[0] + 1, c[1] * v), (0, jnp.asarray(X))
    ),
    "vmap_constant": lambda v: vmap(lambda x: x * v)(jnp.asarray(X)),
    "grad_constant": lambda v: grad(lambda x: (x * v).sum().real)(jnp.asarray(X)),
    "jit_grad_constant": lambda v: jit(grad(lambda x: (x * v).sum().real))(jnp.asarray(X)),
    "checkpoint_constant": lambda v: grad(pyjax.checkpoint(lambda x: (x * v).real))(1.0),
    "result_type": lambda v: np.zeros((), jnp.result_type(v, jnp.float32)),
    "weak_type": lambda v: jnp.result_type(v).itemsize,
    "argument": jit(lambda v: (v, v + 0.0)),
    "default_argument": lambda v: jit(lambda x, y=v: x * y)(X),
    "linspace": lambda v: jnp.linspace(v, 1.0, 3),
    "arange": lambda v: jnp.arange(v, 2),
}


@pytest.mark.parametrize("group", NUMBERS)
@sampled("program", LITERALS, every=3)
def test_literals(program, group):
    check(lambda: LITERALS[program], NUMBERS[group])


def test_signs_of_zeros_reach_the_program():
    for zero, expected in ((0.0, np.inf), (-0.0, -np.inf)) * 2:
        assert float(1 / jit(lambda x: x * zero)(1.0)) == expected  # noqa: B023
        assert np.asarray(1 / jit(lambda x: x * zero)(jnp.ones(5)))[0] == expected  # noqa: B023


# -- indices ---------------------------------------------------------------------------------------

INDICES: dict[str, Callable[[Any], Any]] = {
    "element": lambda v: jnp.arange(6).reshape(3, 2)[v],
    "in_tuple": lambda v: jnp.arange(6).reshape(3, 2)[v, :],
    "slice": lambda v: jnp.arange(6).reshape(3, 2)[v:],
    "step": lambda v: jnp.arange(6).reshape(3, 2)[:, ::v],
    "traced": lambda v: jit(lambda x: x[v])(jnp.arange(6).reshape(3, 2)),
    "set": lambda v: jnp.arange(6).reshape(3, 2).at[v].set(9),
    "take": lambda v: jnp.take(jnp.arange(6).reshape(3, 2), v, axis=0),
    "shape": lambda v: jnp.ones((2, v)),
    "reshape": lambda v: jnp.ones(2).reshape((2, v)),
    "axis": lambda v: jnp.sum(jnp.ones((2, 3)), axis=v),
    "keepdims": lambda v: jnp.sum(jnp.ones((2, 3)), axis=1, keepdims=v),
    "expand": lambda v: jnp.expand_dims(jnp.ones((2, 3)), v),
    "repeat": lambda v: jnp.repeat(jnp.ones(3), v),
    "cumsum": lambda v: jnp.cumsum(jnp.ones((2, 3)), v),
    "var": lambda v: jnp.var(jnp.arange(3.0), ddof=v),
    "sort": lambda v: jnp.sort(jnp.array([3, 1, 2]), descending=v),
    "tri": lambda v: jnp.tri(3, k=v),
    "power": lambda v: jnp.arange(3.0) ** v,
    "option": lambda v: _under_option(v),
}


def _under_option(value: Any) -> Any:
    with pyjax.enable_x64(value):
        return jnp.asarray(1.0)


@pytest.mark.parametrize("group", ["zeros", "ones"])
@pytest.mark.parametrize("program", INDICES)
def test_indices_and_parameters(program, group):
    check(lambda: INDICES[program], NUMBERS[group])


# -- a dimension must be an integer, whether or not an equal shape was seen ---------------------


def test_shapes_that_equal_remembered_ones_are_still_checked():
    jnp.zeros((2, 1))
    with pytest.raises(TypeError, match=r"Shapes must be 1D sequences of .* integer type"):
        pyjax.ShapeDtypeStruct((2.0, 1), np.float32)
    (size, _) = pyjax.ShapeDtypeStruct((np.int64(2), True), np.float32).shape
    assert type(size) is int


@pytest.mark.parametrize("shape", [b"a", b"", "2", {2, 3}, frozenset({2}), {2: 3}], ids=repr)
@pytest.mark.parametrize(
    "make",
    [jnp.zeros, lambda s: jnp.full(s, 1), lambda s: jnp.broadcast_to(1, s), jnp.empty],
    ids=["zeros", "full", "broadcast_to", "empty"],
)
def test_integers_in_collections_that_are_no_sequences_are_no_shape(make, shape):
    with pytest.raises(TypeError, match=r"Shapes must be 1D sequences of .* integer type"):
        make(shape)


# -- parameters of eager primitives ----------------------------------------------------------------

PLAIN = (int, str, type(None), np.dtype, enum.Enum, ShapedArray)


def _is_plain(value: Any) -> bool:
    """Whether `==` tells values of this kind apart as well as programs do."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, PLAIN) or type(value).__eq__ is object.__eq__


def _equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    yield from jaxpr.eqns
    for inner in subjaxprs(jaxpr):
        yield from _equations(inner)


def test_parameters_are_plain_where_keys_compare_them_with_eq():
    seen = set()
    for op, dtype, shapes in cases(op_tables.OPS):
        closed = pyjax.make_jaxpr(op.fn)(*op.draw(dtype, shapes))
        for eqn in _equations(closed.jaxpr):
            seen.add(eqn.primitive)
            if not eqn.primitive.exact_params:
                numbers = {k: v for k, v in eqn.params.items() if not _is_plain(v)}
                assert not numbers, f"{eqn.primitive} needs exact_params"
    assert len(seen) > 150


def test_parameters_of_users_primitives_are_compared_exactly():
    scale_p = Primitive("scale_by_parameter")
    assert scale_p.exact_params
    scale_p.abstract_eval_rule = lambda x, *, factor: x
    lowering_rules[scale_p] = lower_fun(lambda x, *, factor: lax.mul(x, np.float32(factor)))
    for _ in range(2):
        for factor, expected in ((0.0, np.inf), (-0.0, -np.inf), (1, 1.0), (True, 1.0)):
            assert float(1 / scale_p.bind1(jnp.ones(()), factor=factor)) == expected
