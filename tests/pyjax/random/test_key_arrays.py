"""Arrays of random keys under functions of arrays: words of the results, and what is refused."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax, random
from pyjax.sharding import AxisType, NamedSharding, PartitionSpec, SingleDeviceSharding

LAST = 2**32 - 1
WORDS = np.array([[1, 2], [3, 4], [5, 6]], np.uint32)
A, B, C = WORDS.tolist()
ZERO, ONE, FULL = [0, 0], [1, 1], [LAST, LAST]


def keys():
    return random.wrap_key_data(WORDS)


def square():
    return random.wrap_key_data(np.arange(8, dtype=np.uint32).reshape(2, 2, 2))


FILLED = {
    "zeros_like": (lambda k: jnp.zeros_like(k), [ZERO] * 3),
    "ones_like": (lambda k: jnp.ones_like(k), [ONE] * 3),
    "empty_like": (lambda k: jnp.empty_like(k), [ZERO] * 3),
    "full_like": (lambda k: jnp.full_like(k, 7), [[7, 7]] * 3),
    "full_like of a key": (lambda k: jnp.full_like(k, k[1]), [B] * 3),
    "lax.full_like": (lambda k: lax.full_like(k, 7, shape=()), [7, 7]),
    "zeros": (lambda k: jnp.zeros((1,), k.dtype), [ZERO]),
    "full": (lambda k: jnp.full((2,), k[0]), [A] * 2),
    "zeros of rbg": (lambda k: jnp.zeros((), random.key_dtype("rbg")), [0] * 4),
    "tril": (lambda k: jnp.tril(square()), [[[0, 1], ZERO], [[4, 5], [6, 7]]]),
    "get out of bounds": (lambda k: k.at[5].get(mode="fill"), FULL),
    "get some out of bounds": (lambda k: k.at[jnp.array([1, 9])].get(mode="fill"), [B, FULL]),
    "get with a value": (lambda k: k.at[5].get(mode="fill", fill_value=3), [3, 3]),
    "get clipped": (lambda k: k.at[5].get(mode="clip"), C),
    "take": (lambda k: jnp.take(k, jnp.array([0, 5])), [A, FULL]),
    "set": (lambda k: k.at[0].set(k[2]), [C, B, C]),
    "set all": (lambda k: k.at[:].set(k[0]), [A] * 3),
    "set out of bounds": (lambda k: k.at[7].set(k[0]), [A, B, C]),
    "where": (lambda k: jnp.where(np.array([True, False, True]), k, k[1]), [A, B, C]),
    "where zeros": (lambda k: jnp.where(k == k[0], k, jnp.zeros_like(k)), [A, ZERO, ZERO]),
    "concatenate": (lambda k: jnp.concatenate([k[1:], k[:1]]), [B, C, A]),
    "stack": (lambda k: jnp.stack([k[0], k[2]]), [A, C]),
    "array of a list": (lambda k: jnp.array([k[0], k[1]]), [A, B]),
    "append": (lambda k: jnp.append(k[:1], k[2]), [A, C]),
    "roll": (lambda k: jnp.roll(k, 1), [C, A, B]),
    "pad": (lambda k: lax.pad(k, k[1], [(1, 0, 0)]), [B, A, B, C]),
    "astype": (lambda k: k.astype(k.dtype), [A, B, C]),
    "cond": (lambda k: lax.cond(True, lambda x: x, jnp.zeros_like, k), [A, B, C]),
    "scan": (lambda k: lax.scan(lambda c, x: (x, c), jnp.zeros_like(k[0]), k)[1], [ZERO, A, B]),
    "vmap": (lambda k: pyjax.vmap(jnp.ones_like)(k), [ONE] * 3),
    "vmapped get": (
        lambda k: pyjax.vmap(lambda i: k.at[i].get(mode="fill"))(jnp.array([2, 3])),
        [C, FULL],
    ),
}


@pytest.mark.parametrize("case", FILLED)
def test_words(case):
    function, expected = FILLED[case]
    for run in (function, pyjax.jit(function)):
        out = run(keys())
        assert dtypes_are_keys(out) and random.key_data(out).tolist() == expected


def dtypes_are_keys(x):
    return jnp.issubdtype(x.dtype, pyjax.dtypes.prng_key)


other = random.key_dtype("rbg")
REFUSED = {
    "astype": (lambda k: k.astype(np.uint32), ValueError, "Cannot convert_element_type"),
    "to keys": (lambda k: jnp.arange(3).astype(k.dtype), ValueError, "Cannot convert_element"),
    "to other keys": (lambda k: k.astype(other), ValueError, "from key<fry> to key<rbg>"),
    "convert": (lambda k: lax.convert_element_type(k, np.int8), ValueError, "Cannot convert"),
    "padded by 0": (lambda k: jnp.pad(k, 1), ValueError, "Cannot convert"),
    "a key fills numbers": (lambda k: jnp.full((2,), k[0], np.int32), ValueError, "Cannot"),
    "set of an integer": (lambda k: k.at[0].set(0), TypeError, "cannot be put into an array"),
    "set of words": (lambda k: k.at[0].set(WORDS[0]), TypeError, "cannot be put"),
    "masked set": (lambda k: k.at[np.array([True, False, True])].set(0), TypeError, "be put"),
    "set of another": (
        lambda k: k.at[0].set(random.key(0, impl="rbg")),
        TypeError,
        "values of key<rbg>",
    ),
    "set into numbers": (lambda k: jnp.arange(3).at[0].set(k[0]), TypeError, "be put"),
    "multiply": (lambda k: k.at[0].multiply(2), TypeError, "cannot be put"),
    "== number": (lambda k: k == 0, TypeError, "equal does not accept dtypes key<fry>, int32"),
    "!= words": (lambda k: k[0] != WORDS[0], TypeError, "does not accept dtypes key<fry>, uint32"),
    "== other": (lambda k: k[0] == random.key(0, impl="rbg"), TypeError, "key<fry>, key<rbg>"),
    "+": (lambda k: k + 1, TypeError, "add does not accept dtypes"),
    "sum": (lambda k: k.sum(), TypeError, "reduce_sum does not accept dtype key<fry>"),
    "sum of one": (lambda k: jnp.sum(k[0]), TypeError, "reduce_sum does not accept dtype"),
    "maximum of one": (lambda k: k[0].max(), TypeError, "reduce_max does not accept dtype"),
    "product of one": (lambda k: jnp.prod(k[0]), TypeError, "reduce_prod does not accept dtype"),
    "sum over no axis": (lambda k: k.sum(axis=()), TypeError, "reduce_sum does not accept dtype"),
    "any": (lambda k: k.any(), TypeError, "key<fry> are neither true nor false"),
    "all of one": (lambda k: jnp.all(k[0]), TypeError, "key<fry> are neither true nor false"),
    "count_nonzero": (lambda k: jnp.count_nonzero(k), TypeError, "neither true nor false"),
    "logical_not": (lambda k: jnp.logical_not(k), TypeError, "neither true nor false"),
    "nonzero": (lambda k: jnp.nonzero(k), TypeError, "neither true nor false"),
    "mean": (lambda k: k.mean(), TypeError, "no floating dtype goes with key<fry>"),
    "var": (lambda k: k.var(), TypeError, "no floating dtype goes with key<fry>"),
    "median": (lambda k: jnp.median(k), TypeError, "no floating dtype goes with key<fry>"),
    "norm": (lambda k: jnp.linalg.norm(k), TypeError, "no floating dtype goes with key<fry>"),
    "sin": (lambda k: jnp.sin(k), TypeError, "key<fry>"),
    "where": (lambda k: jnp.where(True, k, 0), ValueError, "promotion path"),
    "stack": (lambda k: jnp.stack([k[0], 0]), ValueError, "promotion path"),
    "dlpack": (lambda k: k.__dlpack__(), BufferError, "key_data"),
    "np.asarray": (lambda k: np.asarray(k), TypeError, "key_data"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    function, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        function(keys())


@pytest.mark.parametrize("impl", ["threefry2x32", "philox2x32", "unsafe_rbg"])
def test_copies(impl):
    k = random.split(random.key(3, impl=impl), 2)
    made = (
        pickle.loads(pickle.dumps(k)),
        copy.copy(k),
        copy.deepcopy(k),
        k.copy(),
        pyjax.device_get({"a": k})["a"],
        pyjax.device_put(k),
    )
    for other in made:
        assert isinstance(other, pyjax.Array) and other.dtype == k.dtype
        assert (other == k).all()
    assert "key<" in str(pyjax.device_get(k))


def test_legacy_keys():
    raw = random.PRNGKey(0)
    begins = "Legacy uint32 key array passed as key to jax.random function"
    for use in (random.uniform, random.split, lambda k: random.fold_in(k, 1), random.key_impl):
        with pyjax.legacy_prng_key("warn"), pytest.warns(UserWarning, match=f"^{begins}"):
            use(raw)
        with pyjax.legacy_prng_key("error"), pytest.raises(ValueError, match=f"^{begins}"):
            use(raw)
    with warnings.catch_warnings(), pyjax.legacy_prng_key("error"):
        warnings.simplefilter("error")
        assert random.clone(raw).tolist() == [0, 0]
        assert random.wrap_key_data(raw) == random.key(0)
        assert random.PRNGKey(0).tolist() == [0, 0]


def test_reuse_is_a_type_error():
    k = random.key(9)
    with pyjax.debug_key_reuse(True), pytest.raises(TypeError, match="random key"):
        random.bits(k)
        random.bits(k)


DRAWS = {
    "bits": lambda **kw: random.bits(random.key(1), (4,), **kw),
    "uniform": lambda **kw: random.uniform(random.key(1), (4,), **kw),
    "permutation": lambda **kw: random.permutation(random.key(1), 4, **kw),
    "gamma": lambda **kw: random.gamma(random.key(1), 2.0, (4,), **kw),
    "poisson": lambda **kw: random.poisson(random.key(1), 2.0, (4,), **kw),
    "categorical": lambda **kw: random.categorical(random.key(1), jnp.zeros((4, 3)), **kw),
}


@pytest.mark.parametrize("name", DRAWS)
def test_out_sharding(name):
    draw = DRAWS[name]
    plain = draw()
    mesh = pyjax.make_mesh((1,), ("x",), axis_types=(AxisType.Explicit,))
    assert (draw(out_sharding=NamedSharding(mesh, PartitionSpec("x"))) == plain).all()
    with pyjax.set_mesh(mesh):
        assert (draw(out_sharding=PartitionSpec("x")) == plain).all()
    with pytest.raises(ValueError, match="mesh"):
        draw(out_sharding=PartitionSpec("x"))
    with pytest.raises(ValueError):
        draw(out_sharding=NamedSharding(mesh, PartitionSpec(None, "x")))
    for wrong in (SingleDeviceSharding(pyjax.devices()[0]), "x"):
        with pytest.raises(TypeError, match=f"`out_sharding` argument of {name}"):
            draw(out_sharding=wrong)
