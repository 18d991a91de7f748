"""The array API standard: names, signatures, attributes, inspection, and special cases of functions
that sort, search, find sets and reduce.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from tests.array_api.functions import ATTRIBUTES, CONSTANTS, DTYPES, METHODS, SIGNATURES

P = inspect.Parameter
POSITIONAL = (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD)
NAN, INF = float("nan"), float("inf")

# Defaults that are written in another way, or that the reference has differently.
OTHER_DEFAULTS = {
    "arange": {"step": None},
    "astype": {"copy": False},  # nobody can tell: arrays are immutable
    "expand_dims": {"axis": P.empty},
    **{
        f"fft.{name}": {"norm": None}
        for name in "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft".split()
    },
    **{name: {"keepdims": None} for name in ("argmax", "argmin")},
    **{name: {"correction": None} for name in ("std", "var")},
}


def _public(name: str) -> Any:
    found: Any = jnp
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _standard(line: str) -> tuple[str, inspect.Signature]:
    name, _, rest = line.partition("(")
    scope: dict[str, Any] = {}
    exec(f"def function({rest}: ...", scope)
    return name, inspect.signature(scope["function"])


def _misfits(
    want: inspect.Signature, got: inspect.Signature, other: dict[str, Any]
) -> Iterator[str]:
    places = [p for p in got.parameters.values() if p.kind in POSITIONAL]
    variadic = any(p.kind is P.VAR_POSITIONAL for p in got.parameters.values())
    for place, (name, parameter) in enumerate(want.parameters.items()):
        if parameter.kind in POSITIONAL and place >= len(places) and not variadic:
            yield f"{name} is not positional"
        if parameter.kind in (P.KEYWORD_ONLY, P.POSITIONAL_OR_KEYWORD):
            found = got.parameters.get(name)
            if found is None or found.kind is P.POSITIONAL_ONLY:
                yield f"{name} is no keyword"
            elif parameter.default is not P.empty:
                default = other.get(name, parameter.default)
                if found.default != default:
                    yield f"{name} is {found.default} by default, not {default}"


@pytest.mark.parametrize("line", SIGNATURES, ids=[line.split("(")[0] for line in SIGNATURES])
def test_signature(line: str) -> None:
    name, want = _standard(line)
    found = inspect.signature(_public(name))
    misfits = list(_misfits(want, found, OTHER_DEFAULTS.get(name, {})))
    assert not misfits, f"{name}{found}: {misfits}"


@pytest.mark.parametrize("name", (*CONSTANTS, *DTYPES))
def test_constants_and_dtypes(name: str) -> None:
    found = getattr(jnp, name)
    if name in DTYPES:
        with pyjax.enable_x64(True):
            assert jnp.zeros(1, dtype=found).dtype == found == np.dtype(name)
    else:
        assert found is getattr(np, name) or found == getattr(np, name) or found != found


def test_arrays_have_attributes_and_methods() -> None:
    array = jnp.ones((2, 3))
    missing = [name for name in ATTRIBUTES if not hasattr(array, name)]
    missing += [name for name in METHODS if not hasattr(array, f"__{name}__")]
    assert not missing and callable(array.to_device)
    assert array.__array_namespace__() is jnp is array.__array_namespace__(api_version="2024.12")
    with pytest.raises(ValueError):
        array.__array_namespace__(api_version="1999.01")


class TestInspection:
    info = jnp.__array_namespace_info__()

    def test_version(self) -> None:
        assert jnp.__array_api_version__ == "2024.12"

    def test_capabilities(self) -> None:
        found = self.info.capabilities()
        assert set(found) == {"boolean indexing", "data-dependent shapes", "max dimensions"}
        assert jnp.ones((1,) * found["max dimensions"]).ndim == found["max dimensions"]

    def test_devices(self) -> None:
        assert self.info.default_device() in self.info.devices()
        for device in self.info.devices():
            assert jnp.zeros(1, device=device).device == device

    @pytest.mark.parametrize("wide", [False, True])
    def test_default_dtypes(self, wide: bool) -> None:
        with pyjax.enable_x64(wide):
            found = self.info.default_dtypes()
            assert found == {
                "real floating": jnp.ones(1).dtype,
                "complex floating": jnp.asarray([1j]).dtype,
                "integral": jnp.asarray([1]).dtype,
                "indexing": jnp.argsort(jnp.ones(2)).dtype,
            }
            assert self.info.default_dtypes(device=jnp.ones(1).device) == found

    @pytest.mark.parametrize("wide", [False, True])
    def test_dtypes(self, wide: bool) -> None:
        with pyjax.enable_x64(wide):
            everything = self.info.dtypes()
            assert set(everything) == {
                n for n in DTYPES if wide or (n[-3:] != "128" and "64" not in n)
            } | (set() if wide else {"complex64"})
            for name, dtype in everything.items():
                kinds = [
                    k
                    for k in (
                        "bool",
                        "signed integer",
                        "unsigned integer",
                        "integral",
                        "real floating",
                        "complex floating",
                        "numeric",
                    )
                    if name in self.info.dtypes(kind=k)
                ]
                assert kinds and all(jnp.isdtype(dtype, kind) for kind in kinds)
            both = self.info.dtypes(kind=("bool", "real floating"))
            assert both == self.info.dtypes(kind="bool") | self.info.dtypes(kind="real floating")
        with pytest.raises(ValueError):
            self.info.dtypes(kind="no kind")


# Functions of one array that is a list here, the list, and what they give.
CASES: list[tuple[str, Callable[[Any], Any], Any, Any]] = [
    ("a sum of nothing is 0", jnp.sum, [], 0),
    ("a product of nothing is 1", jnp.prod, [], 1),
    ("a mean of nothing is nan", jnp.mean, [], NAN),
    ("sums keep nan", jnp.sum, [1, NAN], NAN),
    ("products keep nan", jnp.prod, [0, NAN], NAN),
    ("means keep nan", jnp.mean, [1, NAN], NAN),
    ("max keeps nan", jnp.max, [1, NAN, 3], NAN),
    ("min keeps nan", jnp.min, [1, NAN, 3], NAN),
    ("var keeps nan", jnp.var, [1, NAN, 3], NAN),
    ("var without freedom is nan", lambda x: jnp.var(x, correction=1), [2], NAN),
    ("std without freedom is nan", lambda x: jnp.std(x, correction=2), [2, 3], NAN),
    ("all of nothing", jnp.all, [], True),
    ("any of nothing", jnp.any, [], False),
    ("nan counts as true", jnp.all, [NAN, INF], True),
    ("-0.0 counts as false", jnp.any, [-0.0, 0.0], False),
    ("count_nonzero counts nan", jnp.count_nonzero, [0, -0.0, NAN, 2], 2),
    ("the first of the largest", jnp.argmax, [1, 3, 3], 1),
    ("the first of the least", jnp.argmin, [2, 1, 1], 1),
    ("argmax in flattened order", jnp.argmax, [[1, 2], [5, 4]], 2),
    ("argmax keeps dimensions", lambda x: jnp.argmax(x, keepdims=True), [[1, 5]], [[1]]),
    ("sort", jnp.sort, [3, 1, 2], [1, 2, 3]),
    ("sort descending", lambda x: jnp.sort(x, descending=True), [3, 1, 2], [3, 2, 1]),
    ("argsort is stable", jnp.argsort, [1, 0, 1, 0], [1, 3, 0, 2]),
    (
        "argsort is stable when descending",
        lambda x: jnp.argsort(x, descending=True),
        [1, 0, 1, 0],
        [0, 2, 1, 3],
    ),
    ("searchsorted left", lambda x: jnp.searchsorted(x, jnp.array([2.0])), [1, 2, 2, 3], [1]),
    (
        "searchsorted right",
        lambda x: jnp.searchsorted(x, jnp.array([2.0]), side="right"),
        [1, 2, 2, 3],
        [3],
    ),
    (
        "searchsorted by a sorter",
        lambda x: jnp.searchsorted(x, jnp.array([2.0]), sorter=jnp.array([1, 0])),
        [3, 1],
        [1],
    ),
    ("each nan is unique", jnp.unique_values, [NAN, 1, NAN], [1, NAN, NAN]),
    ("zeros of both signs are one", lambda x: jnp.unique_values(x).shape[0], [0.0, -0.0], 1),
    ("counts of nans", lambda x: jnp.unique_counts(x).counts, [NAN, 1, NAN, 1], [2, 1, 1]),
    (
        "inverse indices have the shape",
        lambda x: jnp.unique_inverse(x).inverse_indices,
        [[2, 1], [1, 2]],
        [[1, 0], [0, 1]],
    ),
    ("first indices", lambda x: jnp.unique_all(x).indices, [2, 1, 2, 1], [1, 0]),
    (
        "cumulative sums may begin with 0",
        lambda x: jnp.cumulative_sum(x, include_initial=True),
        [1, 2],
        [0, 1, 3],
    ),
    (
        "cumulative products may begin with 1",
        lambda x: jnp.cumulative_prod(x, include_initial=True),
        [3, 2],
        [1, 3, 6],
    ),
    ("diff", lambda x: jnp.diff(x, prepend=jnp.array([0.0])), [1, 4], [1, 3]),
    ("clip of nan", lambda x: jnp.clip(x, 0, 1), [NAN, -1, 2], [NAN, 0, 1]),
    ("repeat by an array", lambda x: jnp.repeat(x, jnp.array([2, 0])), [1, 2], [1, 1]),
    ("unstack", lambda x: jnp.unstack(x, axis=1)[1], [[1, 2], [3, 4]], [2, 4]),
    (
        "take along the last axis",
        lambda x: jnp.take_along_axis(x, jnp.array([[1]])),
        [[1, 2]],
        [[2]],
    ),
    (
        "count nonzero along an axis",
        lambda x: jnp.count_nonzero(x, axis=0),
        [[1, 0], [1, 0]],
        [2, 0],
    ),
    ("expand several axes", lambda x: jnp.expand_dims(x, axis=(0, -1)).shape, [1, 2], (1, 2, 1)),
    ("vecdot conjugates the first", lambda x: jnp.vecdot(x * 1j, x * 1j), [1, 2], 5),
    ("outer", lambda x: jnp.linalg.outer(x, x), [1, 2], [[1, 2], [2, 4]]),
    ("norms of vectors flatten", lambda x: jnp.linalg.vector_norm(x), [[3], [4]], 5),
    ("counting norm", lambda x: jnp.linalg.vector_norm(x, ord=0), [0, 2, 3], 2),
]


@pytest.mark.parametrize(
    "function, values, want", [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_special_case(function: Callable[[Any], Any], values: Any, want: Any) -> None:
    found = np.asarray(function(jnp.asarray(values, jnp.float32)))
    np.testing.assert_array_equal(found, np.asarray(want))


@pytest.mark.parametrize("function", [jnp.max, jnp.min, jnp.argmax, jnp.argmin])
def test_extremes_of_nothing(function: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError):
        function(jnp.ones(0))


def test_nonzero_of_no_dimension() -> None:
    with pytest.raises(ValueError):
        jnp.nonzero(jnp.asarray(3))


@pytest.mark.parametrize("function", [jnp.sum, jnp.prod, jnp.cumulative_sum, jnp.cumulative_prod])
def test_sums_are_of_the_default_type(function: Callable[[Any], Any]) -> None:
    with pyjax.enable_x64(True):
        for name, want in (("int8", "int64"), ("uint8", "uint64"), ("float32", "float32")):
            assert function(jnp.ones(2, name)).dtype == want


@pytest.mark.parametrize(
    "result, names",
    [
        (jnp.unique_all(jnp.ones(2)), "values indices inverse_indices counts"),
        (jnp.unique_counts(jnp.ones(2)), "values counts"),
        (jnp.unique_inverse(jnp.ones(2)), "values inverse_indices"),
        (jnp.linalg.eigh(jnp.eye(2)), "eigenvalues eigenvectors"),
        (jnp.linalg.qr(jnp.eye(2)), "Q R"),
        (jnp.linalg.slogdet(jnp.eye(2)), "sign logabsdet"),
        (jnp.linalg.svd(jnp.eye(2)), "U S Vh"),
    ],
)
def test_tuples_have_names(result: Any, names: str) -> None:
    assert list(result._fields) == names.split()


@pytest.mark.parametrize("name", ["float32", "float64", "complex64", "complex128"])
def test_finfo(name: str) -> None:
    found, real = jnp.finfo(getattr(jnp, name)), name.replace("complex64", "float32")
    real = real.replace("complex128", "float64")
    assert found.dtype == np.dtype(real)
    assert {type(getattr(found, n)) for n in ("eps", "max", "min", "smallest_normal")} <= {
        float,
        np.float32,
        np.float64,
    }
    assert found.bits == np.finfo(name).bits and found.smallest_normal > 0


@pytest.mark.parametrize("name", [n for n in DTYPES if "int" in n])
def test_iinfo(name: str) -> None:
    found = jnp.iinfo(getattr(jnp, name))
    wanted = np.iinfo(name)
    assert (found.bits, found.min, found.max) == (wanted.bits, wanted.min, wanted.max)
    assert found.dtype == np.dtype(name)
