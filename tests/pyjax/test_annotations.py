"""What public functions return, for type checkers: arrays and tuples of them, unless a reason is
given here."""

from __future__ import annotations

import inspect
import re
from types import ModuleType

import pytest

import pyjax.numpy
from pyjax import lax

_ONE_OR_MANY = "one array, or several, by the arguments"
_DTYPE = "a dtype, NumPy's or an extended one"
_TREE = "the structure of the arguments"
_OF_FUNCTIONS = "what the user's function returns"
_NO_ARRAY = "no array"

ANY: dict[ModuleType, dict[str, str]] = {
    pyjax.numpy: {
        **dict.fromkeys(["atleast_1d", "atleast_2d", "atleast_3d", "average"], _ONE_OR_MANY),
        **dict.fromkeys(["gradient", "indices", "intersect1d", "linspace"], _ONE_OR_MANY),
        **dict.fromkeys(["polyfit", "unique", "where"], _ONE_OR_MANY),
        **dict.fromkeys(["finfo", "iinfo", "promote_types", "result_type"], _DTYPE),
        **dict.fromkeys(["einsum_path", "get_printoptions", "printoptions"], _NO_ARRAY),
        **dict.fromkeys(["fromfunction", "vectorize"], _OF_FUNCTIONS),
        "load": "what is in the file: one array, or a mapping to arrays",
    },
    lax: {
        **dict.fromkeys(["all_gather", "all_to_all", "pbroadcast", "pcast", "pmax"], _TREE),
        **dict.fromkeys(["pmean", "pmin", "ppermute", "pshuffle", "psum", "psum_scatter"], _TREE),
        **dict.fromkeys(["pswapaxes", "optimization_barrier", "precv", "stop_gradient"], _TREE),
        **dict.fromkeys(["custom_linear_solve", "custom_root", "associative_scan"], _TREE),
        **dict.fromkeys(["reduce", "reduce_window", "with_sharding_constraint"], _TREE),
        **dict.fromkeys(["cond", "switch", "map", "scan", "fori_loop"], _OF_FUNCTIONS),
        **dict.fromkeys(["composite", "while_loop", "platform_dependent", "stage"], _OF_FUNCTIONS),
        **dict.fromkeys(["create_token", "after_all"], _NO_ARRAY),
        "dtype": _DTYPE,
        "sort": _ONE_OR_MANY,
    },
}


@pytest.mark.parametrize("module", ANY, ids=lambda module: module.__name__)
def test_functions_that_return_any_are_listed_with_a_reason(module: ModuleType) -> None:
    found = set()
    for name in dir(module):
        value = getattr(module, name)
        function = inspect.unwrap(value) if callable(value) else value
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        if re.search(r"\bAny\b", str(function.__annotations__.get("return", "Any"))):
            found.add(name)
    assert found == set(ANY[module])
