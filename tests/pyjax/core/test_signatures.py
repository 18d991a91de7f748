"""Parameters of functions are read in one place, remembered, and keep no function alive."""

from __future__ import annotations

import functools
import gc
import inspect
import weakref

import pytest

from pyjax import custom_jvp, custom_vjp, vmap
from pyjax import numpy as jnp
from pyjax.core.signatures import parameters_of, positional_names, signature_of


def f(a, /, b, *rest, c, **others):
    return a


class Scale:
    def __call__(self, x, y):
        return x


def wrapped(*args):
    return f(*args)


functools.update_wrapper(wrapped, f)


@pytest.mark.parametrize(
    ("function", "every", "positional"),
    [
        (f, "a b rest c others", "a b"),
        (functools.partial(f, 1), "b rest c others", "b"),
        (functools.partial(Scale(), y=1), "x y", "x"),
        (Scale(), "x y", "x y"),
        (Scale().__call__, "x y", "x y"),
        (wrapped, "a b rest c others", "a b"),
        (dict.update, "", ""),
        (1, "", ""),
    ],
    ids=[
        "function",
        "partial",
        "partial of object",
        "object",
        "method",
        "wrapped",
        "builtin",
        "none",
    ],
)
def test_parameters(function, every, positional):
    for _ in range(2):
        assert [p.name for p in parameters_of(function)] == every.split()
        assert positional_names(function) == positional.split()


def test_without_a_signature():
    assert signature_of(dict.update) is None
    assert parameters_of(dict.update) == ()


def test_replaced_code_is_read_again():
    def g(x):
        return x

    assert positional_names(g) == ["x"]
    g.__code__ = (lambda y: y).__code__
    assert positional_names(g) == ["y"]


def test_a_default_that_leads_back_to_its_function():
    holder = []

    def g(x, again=holder):
        return x

    holder.append(g)
    parameters_of(g)
    alive = weakref.ref(g)
    del g, holder
    gc.collect()
    assert alive() is None


def test_vmap_names_further_arguments_as_everything_does():
    with pytest.raises(ValueError, match=r"size 3: axis 0 of argument rest\[0\] of type"):
        vmap(lambda x, *rest: x)(jnp.ones(2), jnp.ones(3))


@pytest.mark.parametrize("rule", [custom_jvp, custom_vjp])
def test_unknown_nondiff_argname(rule):
    with pytest.raises(
        ValueError, match=r"nondiff_argnames names 'z', but g has no such parameter; .* are x\n"
    ):

        @functools.partial(rule, nondiff_argnames="z")
        def g(x):
            return x


@pytest.mark.parametrize(
    "function",
    [
        lambda: None,
        lambda a, b=1: a,
        lambda a, /: a,
        lambda a, /, b, *, c: a,
        lambda *args: args,
        lambda **kwargs: kwargs,
        lambda a, *args, b, c=2, **kwargs: a,
        f,
    ],
)
def test_functions_have_the_parameters_that_inspect_finds(function):
    local = "a local variable is no parameter"
    assert local
    found = [(p.name, p.kind) for p in inspect.signature(function).parameters.values()]
    assert [(p.name, p.kind) for p in parameters_of(function)] == found


def test_a_function_may_say_that_it_has_another_signature():
    def g(*args):
        return args

    g.__signature__ = inspect.signature(f)
    assert [p.name for p in parameters_of(g)] == ["a", "b", "rest", "c", "others"]
