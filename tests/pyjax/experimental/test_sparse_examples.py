"""The examples in the documentation of sparse arrays."""

import doctest
import importlib
import pkgutil

import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax.experimental import sparse

MODULES = [m.name for m in pkgutil.iter_modules(sparse.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module(f"{sparse.__name__}.{name}")
    assert doctest.testmod(module, extraglobs={"pyjax": pyjax, "jnp": jnp}).failed == 0
