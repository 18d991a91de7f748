"""Array: metadata, conversions, protocols, life and the errors of each."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax.dlpack import is_supported_dtype
from pyjax.numpy import array_methods
from pyjax.runtime import native_dispatch
from pyjax.runtime.array import DeviceArray
from xla_backend.runtime.memory import POOL

DTYPES = [np.bool_, np.int8, np.uint16, np.int32, np.uint32, np.float16, np.float32, np.complex64]


@pytest.mark.parametrize("dtype", [*DTYPES, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3)])
def test_round_trip_through_numpy(dtype: type, shape: tuple[int, ...]) -> None:
    value = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape).astype(dtype)
    x = jnp.asarray(value)
    assert (x.shape, x.dtype, x.ndim, x.size) == (shape, value.dtype, value.ndim, value.size)
    assert x.nbytes == value.nbytes and x.itemsize == value.dtype.itemsize
    back = np.asarray(x)
    assert back.dtype == value.dtype
    np.testing.assert_array_equal(back, value)


def test_input_is_copied() -> None:
    value = np.zeros(4, np.float32)
    x = jnp.asarray(value)
    value[0] = 7
    assert x[0] == 0


def test_numpy_view_is_read_only_free_of_copies_and_outlives_the_array() -> None:
    x = jnp.arange(5.0)
    view = np.asarray(x)
    assert view.ctypes.data == x.unsafe_buffer_pointer()
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    expected = view.copy()
    del x
    gc.collect()
    jnp.ones(5)  # would take over the memory if it had been freed
    np.testing.assert_array_equal(view, expected)


def test_array_protocol_dtype_and_copy() -> None:
    x = jnp.arange(3)
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert np.array(x).flags.writeable
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype=np.float64, copy=False)


@pytest.mark.parametrize("value", [np.float32(1.5), np.int32(-3), np.bool_(True)])
def test_python_scalars(value: np.generic) -> None:
    x = jnp.asarray(value)
    assert float(x) == float(value) and int(x) == int(value) and bool(x) == bool(value)
    assert complex(x) == complex(value)
    assert x.item() == value.item()


def test_index_only_for_integer_scalars() -> None:
    assert [10, 20, 30][jnp.asarray(1)] == 20
    with pytest.raises(TypeError, match=r"only integer scalar arrays.*float32\[\]"):
        [1, 2][jnp.asarray(1.0)]
    with pytest.raises(TypeError, match=r"only integer scalar arrays"):
        [1, 2][jnp.asarray([1])]


def test_ambiguous_truth_and_scalar_conversion() -> None:
    with pytest.raises(ValueError, match=r"float32\[3\](?s:.*)x.any\(\) or x.all\(\)"):
        bool(jnp.ones(3))
    with pytest.raises(TypeError, match=r"0-dimensional arrays convert to float"):
        float(jnp.ones(3))
    with pytest.raises(TypeError, match="len"):
        len(jnp.asarray(1.0))
    with pytest.raises(TypeError, match="iteration"):
        iter(jnp.asarray(1.0))


def test_iteration_gives_rows() -> None:
    rows = list(jnp.arange(6).reshape(3, 2))
    assert [r.tolist() for r in rows] == [[0, 1], [2, 3], [4, 5]]
    assert all(isinstance(r, pyjax.Array) and r.dtype == np.int32 for r in rows)


def test_immutability_error_names_the_way_out() -> None:
    x = jnp.zeros(3)
    with pytest.raises(TypeError, match=r"x = x.at\[idx\].set\(y\)"):
        x[0] = 1.0


def test_unhashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(jnp.zeros(3))


def test_constructor_is_not_public() -> None:
    with pytest.raises(TypeError, match=r"pyjax.numpy.array"):
        pyjax.Array()


@pytest.mark.parametrize(
    "value, text",
    [
        (np.float32(1.5), "Array(1.5, dtype=float32)"),
        (np.array([1, 2], np.int32), "Array([1, 2], dtype=int32)"),
        (np.array([[True]]), "Array([[ True]], dtype=bool)"),
        (np.zeros((0, 2), np.float32), "Array([], shape=(0, 2), dtype=float32)"),
    ],
)
def test_repr(value: np.ndarray, text: str) -> None:
    assert repr(jnp.asarray(value)) == text


def test_repr_of_weak_types_and_formats() -> None:
    assert repr(jnp.asarray(2.0)) == "Array(2., dtype=float32, weak_type=True)"
    assert f"{jnp.asarray(1.25):.1f}" == "1.2"
    assert str(jnp.arange(3)) == "[0 1 2]"


@pytest.mark.parametrize(
    "copier", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_are_equal_and_separate(copier) -> None:
    x = jnp.arange(4.0)
    y = copier(x)
    assert y.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    assert (y.dtype, y.weak_type, y.tolist()) == (x.dtype, x.weak_type, x.tolist())


def test_deleted_arrays_say_so() -> None:
    x = jnp.ones((2, 3))
    x.delete()
    assert x.is_deleted() and "deleted" in repr(x)
    for use in (
        lambda: x + 1,
        lambda: np.asarray(x),
        x.block_until_ready,
        lambda: pyjax.jit(jnp.sin)(x),
    ):
        with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[2,3\]"):
            use()


def test_donation_reuses_memory_and_forbids_reuse() -> None:
    step = pyjax.jit(lambda x: x + 1, donate_argnums=0)
    x = jnp.zeros(1000)
    address = x.unsafe_buffer_pointer()
    y = step(x)
    assert y.unsafe_buffer_pointer() == address and x.is_deleted()
    np.testing.assert_array_equal(y, np.ones(1000))
    with pytest.raises(RuntimeError, match="donate_argnums"):
        step(x)


def test_dlpack_both_ways_without_copies() -> None:
    x = jnp.arange(6.0).reshape(2, 3)
    theirs = np.from_dlpack(x)
    assert theirs.ctypes.data == x.unsafe_buffer_pointer()
    source = np.arange(4, dtype=np.int32)
    ours = jnp.from_dlpack(source)
    assert ours.tolist() == [0, 1, 2, 3]
    assert ours.unsafe_buffer_pointer() == source.ctypes.data
    assert jnp.from_dlpack(source, copy=True).unsafe_buffer_pointer() != source.ctypes.data
    strided = jnp.from_dlpack(source[::2])  # arrays are dense: this one needs a copy
    assert strided.tolist() == [0, 2]
    with pytest.raises(ValueError, match="copy"):
        jnp.from_dlpack(source[::2], copy=False)
    assert x.__dlpack_device__() == (1, 0)


def test_dlpack_of_an_unsupported_dtype_names_the_way_out() -> None:
    with pytest.raises(BufferError, match="int4 cannot be exported"):
        jnp.ones(2, jnp.int4).__dlpack__()


class _Exporter:
    """Another library's array."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **wishes: Any) -> Any:
        return self.array.__dlpack__(**wishes)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.parametrize("copy", [None, True])
def test_dlpack_of_bfloat16_both_ways(copy: bool | None) -> None:
    x = jnp.array([1.5, -2.0, float("inf")], jnp.bfloat16)
    back = jnp.from_dlpack(_Exporter(x), copy=copy)
    assert back.dtype == jnp.bfloat16 and back.tolist() == x.tolist()
    assert (back.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()) == (copy is None)
    # NumPy reads the element type, and knows none of code 4.
    with pytest.raises((BufferError, RuntimeError), match=r"(?i)unsupported dtype"):
        np.from_dlpack(x)
    assert is_supported_dtype(x.dtype) and not is_supported_dtype("float8_e5m2")


def test_dlpack_of_traced_arrays_is_refused() -> None:
    with pytest.raises(TypeError, match=r"from_dlpack: .* has no memory to share"):
        pyjax.jit(jnp.from_dlpack)(jnp.ones(3))


def test_array_namespace() -> None:
    x = jnp.ones(2)
    assert x.__array_namespace__() is jnp
    assert x.__array_namespace__(api_version="2024.12") is jnp
    with pytest.raises(ValueError, match="1999"):
        x.__array_namespace__(api_version="1999")


def test_placement_queries() -> None:
    x = jnp.ones(2)
    assert x.devices() == {x.device} == {pyjax.devices()[0]}
    assert x.sharding.device_set == {x.device}
    (shard,) = x.addressable_shards
    assert shard.data is x and shard.index == (slice(None),)
    assert x.is_fully_addressable and x.is_fully_replicated and x.is_ready()


def test_tracers_are_arrays_to_isinstance() -> None:
    seen = []
    pyjax.jit(lambda x: seen.append(isinstance(x, pyjax.Array)) or x)(1.0)
    assert seen == [True]
    assert not isinstance(np.ones(2), pyjax.Array)
    with pytest.raises(TypeError, match="not called directly"):
        pyjax.Array()


def test_the_type_declares_what_arrays_have() -> None:
    """What checkers see of `pyjax.Array` is what `array_methods` installs, no more and no less."""
    native = {name for name, _ in native_dispatch._methods}  # again, on devices
    declared = pyjax.Array.__annotations__.keys() - (vars(DeviceArray).keys() - native)
    installed = {
        *(f"__{name}__" for name in {**array_methods._BINARY, **array_methods._COMPARISONS}),
        *(f"__r{name}__" for name in array_methods._BINARY),
        *array_methods._UNARY,
        *array_methods._METHODS,
        *array_methods._PROPERTIES,
    }
    refusing = {"flat", "__delitem__", "__setitem__"}
    of_devices = {"delete", "is_deleted"}  # of the buffer below
    own = {"__iter__", "__len__"}  # stand in the class
    operators = {f"__{r}{name}__" for name in array_methods._COMPILED for r in ("", "r")}
    assert declared - of_devices == installed - refusing - own
    assert operators & installed <= pyjax.Array.__annotations__.keys()


def test_device_put_and_get() -> None:
    tree = {"a": np.ones(2, np.float32), "b": [1.0, 2]}
    put = pyjax.device_put(tree, pyjax.devices()[0])
    assert put["a"].committed and put["b"][1].dtype == np.int32
    back = pyjax.device_get(put)
    assert isinstance(back["a"], np.ndarray)
    with pytest.raises(ValueError, match="expected a Device"):
        pyjax.device_put(1.0, "cpu")


def test_memory_goes_back_to_the_pool() -> None:
    x = jnp.ones(12345)
    address = x.unsafe_buffer_pointer()
    free = POOL.size_class(x.nbytes).free
    del x
    gc.collect()
    assert address in free


@pytest.mark.parametrize(
    ("method", "names"),
    [
        ("__array__", "dtype context copy"),
        ("__contains__", "other"),
        ("__format__", "format_spec"),
        ("__getitem__", "item"),
    ],
)
def test_parameters_have_the_names_of_the_reference(method: str, names: str) -> None:
    assert " ".join(inspect.signature(getattr(jnp.zeros(2), method)).parameters) == names


def test_array_protocol_by_position_and_keyword() -> None:
    x = jnp.arange(3)
    assert x.__array__(np.float64, None, True).dtype == np.float64
    assert np.asarray(x, copy=None).tolist() == np.array(x, copy=True).tolist() == [0, 1, 2]
