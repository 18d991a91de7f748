"""What caches take objects for: those with an equality of their own, functions and methods, objects
at addresses that others had; and what they hold is their own."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jit, lax, tree_util
from pyjax.core.exact_keys import exact_key
from pyjax.runtime.array import DeviceArray


@dataclasses.dataclass(frozen=True)
class Holder:
    value: Any


# -- objects with their own __eq__ ----------------------------------------------------------------


class Parity:
    """Equal for numbers of the same parity."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __hash__(self) -> int:
        return self.n % 2

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parity) and self.n % 2 == other.n % 2


class SubParity(Parity):
    pass


@dataclasses.dataclass(frozen=True)
class Named:
    n: Any
    comment: str = dataclasses.field(default="", compare=False)


def test_an_objects_own_equality_decides_within_its_class():
    seen = []

    def note(x, v):
        seen.append(v)
        return x

    f = jit(note, static_argnums=1)
    for value in (Parity(1), Parity(3), Parity(2), SubParity(1), SubParity(3), Named(1), Named(1)):
        f(0.0, value)
    assert [type(v) for v in seen] == [Parity, Parity, SubParity, Named]
    f(0.0, Named(1, "another comment"))
    f(0.0, Named(True))
    assert len(seen) == 5


class Unhashable:
    __hash__ = None  # type: ignore[assignment]


class BadHash:
    def __hash__(self) -> int:
        raise KeyError("no hash today")


class ArrayEquality:
    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> Any:
        return np.array([True, False])


@pytest.mark.parametrize(
    "value, text",
    [
        ([1], "unhashable type: 'list'"),
        ({"a": 1}, "unhashable type: 'dict'"),
        ((1, [2]), "unhashable type: 'list'"),
        (Holder([1]), "unhashable type: 'list'"),
        (Unhashable(), "unhashable type: 'Unhashable'"),
        (np.zeros(2), "unhashable type: 'numpy.ndarray'"),
        (jnp.zeros(2), "arrays .* have no hash"),
    ],
)
def test_static_arguments_without_a_hash(value, text):
    f = jit(lambda x, v: x, static_argnums=1)
    with pytest.raises(pyjax.errors.UnhashableStaticError, match=f"not hashable: .*{text}") as e:
        f(0.0, value)
    assert "static argument 'v'" in str(e.value)
    assert "test_cache_keys_of_objects.py" in str(e.value)
    assert "frozen dataclass" in str(e.value)


class InterruptedHash:
    """The first call is interrupted by a handler's exception."""

    def __init__(self) -> None:
        self.errors = [RuntimeError("from a handler")]

    def __hash__(self) -> int:
        if self.errors:
            raise self.errors.pop()
        return 1


@dataclasses.dataclass
class Layer:
    """Compared by its fields, which may be arrays, and with a hash that is its own."""

    w: Any
    by: float

    def __hash__(self) -> int:
        return hash(self.by)


def test_a_dataclass_whose_own_hash_leaves_arrays_out():
    traced = []

    @functools.partial(jit, static_argnums=0)
    def f(layer: Layer, x: Any) -> Any:
        traced.append(layer.by)
        return layer.w * layer.by + x

    first, second = Layer(jnp.ones(2), 2.0), Layer(jnp.ones(2), 3.0)
    for layer in (first, second, first):
        assert f(layer, 1.0).tolist() == [layer.by + 1.0] * 2
    assert traced == [2.0, 3.0]
    with pytest.raises(pyjax.errors.UnhashableStaticError, match="cannot be compared"):
        f(Layer(jnp.ones(2), 2.0), 1.0)  # as many a program finds out: == of arrays is no bool


def test_what_a_hash_raises_arrives():
    f = jit(lambda x, v: x + 1, static_argnums=1)
    for _ in range(2):
        with pytest.raises(KeyError, match="no hash today"):
            f(0.0, BadHash())


def test_a_signal_handler_that_raises_where_a_hash_is_computed():
    f = jit(lambda x, v: x + 1, static_argnums=1)
    value = InterruptedHash()
    with pytest.raises(RuntimeError, match="from a handler"):
        f(0.0, value)
    assert f(0.0, value) == 1


def test_static_arguments_that_cannot_be_compared():
    f = jit(lambda x, v: x, static_argnums=1)
    f(0.0, ArrayEquality())
    with pytest.raises(pyjax.errors.UnhashableStaticError, match="cannot be compared") as e:
        f(0.0, ArrayEquality())
    assert "test_cache_keys_of_objects.py" in str(e.value)
    assert "== must give a bool" in str(e.value)
    assert "define __eq__" in str(e.value)


# -- what a cache holds is not handed out ----------------------------------------------------------


@pytest.mark.parametrize("argnums", [0, (0, 1)])
def test_a_gradient_of_one_belongs_to_the_caller(argnums):
    f = grad(lambda x, y: x + y, argnums)
    consume = jit(lambda x: x + 1, donate_argnums=0)
    first, second = tree_util.tree_leaves([f(1.0, 2.0), f(1.0, 2.0)])[-2:]
    assert float(consume(first)) == 2.0
    assert first.is_deleted() and not second.is_deleted()
    second.delete()
    assert [float(g) for g in tree_util.tree_leaves(f(1.0, 2.0))] == [1.0] * np.size(argnums)


def test_constant_results_of_inner_jits_are_arrays():
    f = jit(lambda x: (3.0, (x, 2)))
    out, vjp = pyjax.vjp(f, 1.0)
    value, _ = pyjax.value_and_grad(jit(lambda x: 3.0))(1.0)
    for x in (value, *tree_util.tree_leaves(out)):
        assert type(x) is DeviceArray and x.weak_type
    assert float(vjp((1.0, (2.0, np.zeros((), pyjax.dtypes.float0))))[0]) == 2.0


# -- objects at reused addresses, and functions that are alike ------------------------------------


def test_functions_with_equal_code_are_different_functions():
    def make(k):
        return lambda x: x * k

    for k in (2.0, 3.0, 4.0):
        f = make(k)
        assert float(jit(f)(1.0)) == k
        assert float(lax.map(f, jnp.ones(1))[0]) == k


def test_addresses_are_reused_without_confusion():
    for k in range(50):
        body = eval(f"lambda c, _: (c + {k}, None)")
        assert int(lax.scan(body, 0, None, length=1)[0]) == k
        assert int(jit(eval(f"lambda x: x + {k}"))(0)) == k
        del body


def test_methods_of_two_instances():
    class Model:
        def __init__(self, k):
            self.k = k

        @jit
        def whole(self, x):
            return x * self.k

        def step(self, c, _):
            return c * self.k, None

        def plain(self, x):
            return x * self.k

    a, b = Model(2.0), Model(3.0)
    jitted = jit(Model.plain, static_argnums=0)
    for _ in range(2):
        for model in (a, b):
            assert float(jitted(model, 1.0)) == model.k
            assert float(jit(model.plain)(1.0)) == model.k
            assert float(lax.scan(model.step, 1.0, None, length=1)[0]) == model.k
    with pytest.raises(TypeError, match="not a valid array type"):
        a.whole(1.0)


_FROM_TEXT = """
@dataclasses.dataclass(frozen=True)
class Named:
    name: str
    table: object

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)
"""


def test_equality_that_a_class_made_from_text_has_of_its_own_decides():
    """As of classes in a program that is given with `python -c`, whose code is `<string>`, as is
    that of the methods which the dataclass decorator writes."""
    names: dict[str, Any] = {"dataclasses": dataclasses}
    exec(compile(_FROM_TEXT, "<string>", "exec"), names)
    one, same, other = (names["Named"](name, np.zeros(2)) for name in ("a", "a", "b"))
    assert exact_key(one) == exact_key(same) != exact_key(other)
    traced = []
    f = jit(lambda x, named: traced.append(named.name) or x + 1, static_argnums=1)
    for each in (one, same, other, one):
        assert f(1, each) == 2
    assert traced == ["a", "b"]
