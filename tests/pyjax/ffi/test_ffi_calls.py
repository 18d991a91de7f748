"""ffi_call with Python functions: what they get, what becomes of it, what is refused."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import pyjax
from pyjax import ffi
from pyjax import numpy as jnp

X = jnp.arange(3.0)
_seen: list = []


def _scaled(x, *, by=2.0):
    assert not x.flags.writeable
    _seen.append(x.shape)
    return by * x


def _sum_and_product(x, y):
    return x + y, x * y


ffi.register_ffi_target("test.scaled", _scaled)
ffi.register_ffi_target("test.both", _sum_and_product)
ffi.register_ffi_target("test.other", _scaled, platform="CUDA")


def _like(x, **options):
    return ffi.ffi_call("test.scaled", pyjax.ShapeDtypeStruct(x.shape, x.dtype), **options)


def test_results() -> None:
    assert _like(X)(X, by=3.0).tolist() == [0, 3, 6]
    assert pyjax.jit(lambda x: _like(x)(x) + 1)(X).tolist() == [1, 3, 5]
    two = ffi.ffi_call("test.both", [pyjax.ShapeDtypeStruct((3,), "float32")] * 2)
    assert [y.tolist() for y in pyjax.jit(two)(X, X)] == [[0, 2, 4], [0, 1, 4]]
    assert ffi.ffi_call("test.scaled", X)(np.float64([1.5, 2, 3])).tolist() == [3, 4, 6]


ATTRIBUTES = {
    "flag": True,
    "count": 3,
    "ratio": 2.5,
    "text": 'with "quotes"',
    "small": np.float32(0.1),
    "byte": np.uint8(200),
    "numbers": np.arange(6, dtype=np.int16).reshape(2, 3),
    "nested": {"x": -1, "y": np.array([0.5])},
}


def test_attributes_come_as_they_went() -> None:
    got: dict = {}

    def keep(x, **attributes):
        got.update(attributes)
        return x

    ffi.register_ffi_target("test.keep", keep)
    pyjax.jit(lambda x: ffi.ffi_call("test.keep", X)(x, **ATTRIBUTES))(X)
    assert got.keys() == ATTRIBUTES.keys()
    for name in ("flag", "count", "ratio", "text", "small", "byte"):
        assert got[name] == ATTRIBUTES[name] and type(got[name]) is type(ATTRIBUTES[name])
    np.testing.assert_array_equal(got["numbers"], ATTRIBUTES["numbers"])
    assert got["numbers"].dtype == np.int16 and got["nested"]["x"] == -1
    text = pyjax.jit(lambda x: ffi.ffi_call("test.keep", X)(x, by=1)).lower(X).as_text()
    assert "stablehlo.custom_call @test.keep(%arg0)" in text
    assert "mhlo.backend_config = {by = 1 : i64}" in text


def test_programs_differ_by_types_of_attributes() -> None:
    kinds = []
    ffi.register_ffi_target("test.kind", lambda x, a: kinds.append(type(a)) or x)
    call = ffi.ffi_call("test.kind", X)
    for value in (1, 1.0, True, np.float32(1)):
        call(X, a=value)
    assert kinds == [int, float, bool, np.float32]


TABLE = jnp.arange(6.0).reshape(2, 3)


_LONG = np.zeros(2000, np.float32)
_LATE = np.where(np.arange(2000) == 1000, np.float32(5), _LONG)
# Pairs that print alike, or whose dtypes have one name, or that are equal to ==.
ALIKE = {
    "long": (_LONG, _LATE),
    "nested": ({"in": {"w": _LONG}}, {"in": {"w": _LATE}}),
    "digits": (np.array([0.123456789012]), np.array([0.123456789913])),
    "dtype": (np.zeros(2, np.float16), np.zeros(2, "bfloat16")),
    "shape": (np.zeros((0, 2)), np.zeros((0, 3))),
    "sign": (np.zeros(1), -np.zeros(1)),
    "scalar sign": (0.0, -0.0),
    "numpy scalar": (np.float64(0.1), np.float64(0.1) + 2.0**-56),
}


@pytest.mark.parametrize("name", ALIKE)
def test_programs_differ_by_exact_attributes(name) -> None:
    got: list = []
    ffi.register_ffi_target("test.exact", lambda x, w: got.append(w) or x)
    call = ffi.ffi_call("test.exact", X)
    for value in ALIKE[name]:
        call(X, w=value)
    for value, found in zip(ALIKE[name], got, strict=True):
        if name == "nested":
            value, found = value["in"]["w"], found["in"]["w"]
        assert np.asarray(found).dtype == np.asarray(value).dtype
        assert np.shape(found) == np.shape(value)
        assert np.asarray(found).tobytes() == np.asarray(value).tobytes()


def test_names_and_texts_are_utf8() -> None:
    got: list = []
    ffi.register_ffi_target("test.grüße", lambda x, **attributes: got.append(attributes) or x)
    sent = {"ä": "é", "aß": "日本 \\ \n 😀", "plain": {"ключ": "değer"}}
    program = pyjax.jit(lambda x: ffi.ffi_call("test.grüße", X)(x, **sent))
    program(X)
    assert got == [sent]
    assert r'"\C3\A4" = "\C3\A9"' in program.lower(X).as_text()
    for bad in ({"w": "\ud800"}, {"\udcff": 1}, {"in": {"w": "\udcff"}}):
        with pytest.raises(ValueError, match=r"has no form in UTF-8; pass bytes as np\.frombuffer"):
            ffi.ffi_call("test.grüße", X)(X, **bad)


@pytest.mark.parametrize(
    "method, shapes",
    (
        ("sequential", [(3,), (3,)]),
        ("expand_dims", [(2, 3)]),
        ("broadcast_all", [(2, 3)]),
        ("legacy_vectorized", [(2, 3)]),
    ),
)
def test_vmap(method: str, shapes: list) -> None:
    _seen.clear()
    found = pyjax.vmap(_like(X, vmap_method=method))(TABLE)
    assert found.tolist() == (2 * TABLE).tolist() and _seen == shapes
    both = ffi.ffi_call("test.both", [X, X], vmap_method=method)
    total, product = pyjax.vmap(both, (0, None))(TABLE, X)
    assert total.tolist() == (TABLE + X).tolist() and product.tolist() == (TABLE * X).tolist()


def test_side_effects_and_aliases() -> None:
    times = []
    ffi.register_ffi_target("test.count", lambda x: times.append(1) or x)
    call = ffi.ffi_call("test.count", X, has_side_effect=True)
    pyjax.jit(lambda x: (call(x), x + 1)[1])(X)
    assert len(times) == 1
    aliased = _like(X, input_output_aliases={0: 0})
    assert pyjax.jit(lambda x: (aliased(x), x))(X)[0].tolist() == [0, 2, 4]


def test_custom_derivatives() -> None:
    @pyjax.custom_jvp
    def twice(x):
        return _like(x)(x)

    twice.defjvps(lambda t, ans, x: 2 * t)
    assert pyjax.grad(lambda x: twice(x).sum())(X).tolist() == [2, 2, 2]


def test_lowering_rule_of_a_primitive() -> None:
    rule = ffi.ffi_lowering("test.scaled", backend_config={"by": 4.0})
    assert ffi.build_ffi_lowering_function is ffi.ffi_lowering
    primitive = pyjax.interpreters.rules.define_primitive(
        "test_ffi_scaled",
        abstract_eval=lambda x: [x],
        jvp=pyjax.interpreters.rules.FullJvp(lambda *_: None),
        transpose=pyjax.interpreters.rules.Unsupported("a test"),
        batching=pyjax.interpreters.rules.Unsupported("a test"),
        lowering=rule,
    )
    assert pyjax.jit(primitive.bind1)(X).tolist() == [0, 4, 8]


ONE = pyjax.ShapeDtypeStruct((3,), "float32")


def _returning(value, dtype="float32"):
    ffi.register_ffi_target("test.returning", lambda x: value)
    return ffi.ffi_call("test.returning", pyjax.ShapeDtypeStruct((3,), dtype))(X)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int8", "complex64"])
def test_results_are_converted_to_larger_kinds(dtype) -> None:
    assert _returning(np.array([0, 1, 2]), dtype).tolist() == [0, 1, 2]
    assert _returning([np.array([True, False, True])], dtype).tolist() == [1, 0, 1]


@pytest.mark.parametrize("wrap", [lambda f: f, pyjax.jit, lambda f: pyjax.jit(pyjax.jit(f))])
def test_unknown_targets_name_the_line_and_the_fix(wrap) -> None:
    def call(x):
        return ffi.ffi_call("test.nobody", ONE)(x)  # here

    lines, first = inspect.getsourcelines(call)
    line = first + next(i for i, text in enumerate(lines) if "# here" in text)
    with pytest.raises(NotImplementedError) as caught:
        wrap(call)(X)
    message = str(caught.value)
    assert f"test_ffi_calls.py:{line}" in message
    assert "Call pyjax.ffi.register_ffi_target('test.nobody', function)" in message
    assert "%" not in message and "register_custom_call" not in message


def test_a_name_that_is_registered_again() -> None:
    call = ffi.ffi_call("test.again", ONE)
    jitted = pyjax.jit(lambda x: call(x))
    ffi.register_ffi_target("test.again", lambda x: x + 1)
    assert jitted(X).tolist() == call(X).tolist() == [1, 2, 3]
    ffi.register_ffi_target("test.again", lambda x: x + 2)
    assert jitted(X).tolist() == call(X).tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    "call, error, message",
    (
        (lambda: ffi.ffi_call("test.nobody", ONE)(X), NotImplementedError, "no function is regis"),
        (lambda: ffi.ffi_call("test.other", ONE)(X), NotImplementedError, "no function is regis"),
        (lambda: _like(X, vmap_method="bad"), ValueError, "allowed methods"),
        (lambda: pyjax.vmap(_like(X))(TABLE), NotImplementedError, "Got vmap_method=None"),
        (lambda: pyjax.grad(lambda x: _like(x)(x).sum())(X), ValueError, "cannot be differ"),
        (lambda: _like(X)(X, by=object()), TypeError, "attributes are bools"),
        (lambda: _like(X)(X, by=X), TypeError, "Pass arrays that programs compute as operands"),
        (lambda: _like(X, custom_call_api_version=3), NotImplementedError, "Use version 4"),
        (lambda: _like(X, legacy_backend_config="a"), ValueError, "custom_call_api_version < 4"),
        (lambda: _like(X, input_output_aliases={1: 0})(X), ValueError, r"outside the range \[0, 1"),
        (lambda: _like(X, input_output_aliases={0: 0})(TABLE), ValueError, "different abstract"),
        (
            lambda: _like(X, input_output_aliases={0: 0, 1: 0})(X, X),
            ValueError,
            "gives output 0 the memory of two inputs, 0 and 1.*each output at most once",
        ),
        (lambda: _like(TABLE, input_layouts=[(1, 0)])(TABLE), NotImplementedError, "Transpose"),
        (lambda: _like(TABLE, output_layouts=(0, 0))(TABLE), ValueError, "for an array of rank 2"),
        (lambda: _like(TABLE, input_layouts=[])(TABLE), ValueError, "0 input_layouts for 1"),
        (lambda: ffi.ffi_call("test.scaled", 3.0), TypeError, "which has no shape and dtype"),
        (lambda: ffi.ffi_call("test.both", ONE)(X, X), ValueError, "2 arrays, and 1 were declared"),
        (lambda: ffi.ffi_call("test.scaled", TABLE)(X), ValueError, r"of shape \(3,\), and \(2, 3"),
        (lambda: _returning(None), ValueError, "0 arrays, and 1 were declared.*Write return"),
        (lambda: _returning((None,)), ValueError, r"of shape \(\), and"),
        (lambda: _returning(np.array([None] * 3)), TypeError, "of dtype object, and float32"),
        (lambda: _returning(np.ones(3) * 1j), TypeError, "complex128, and float32 was.*x.real"),
        (lambda: _returning(np.ones(3), "int32"), TypeError, "float64, and int32 was declared"),
        (lambda: _returning(np.ones(2)), ValueError, "the target is <lambda> at test_ffi_calls"),
        (lambda: ffi.register_ffi_target("x", 3), TypeError, "expected a PyCapsule"),
        (lambda: ffi.register_ffi_target("x", {"bla": 3}), ValueError, "the stages are"),
        (lambda: ffi.register_ffi_target("x", {}), ValueError, "no handler for the stage"),
        (lambda: ffi.register_ffi_target("x", len, api_version=3), ValueError, "0 and 1 are known"),
        (lambda: ffi.register_ffi_target("x", len, bla=3), TypeError, "takes no 'bla'"),
        (lambda: ffi.pycapsule(None), ValueError, "null pointer"),
        (
            lambda: ffi.ffi_lowering("x", input_output_aliases={1: 0, 2: 0}),
            ValueError,
            "output 0 the memory of two inputs, 1 and 2",
        ),
        (lambda: ffi.ffi_lowering("x", bla=1), TypeError, "takes no bla"),
    ),
)
def test_errors(call, error, message) -> None:
    with pytest.raises(error, match=f"(?s){message}"):
        call()
