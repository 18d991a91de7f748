"""ragged_all_to_all, psend and precv under vmap and shard_map."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.sharding import AxisType
from pyjax.sharding import PartitionSpec as P

RNG = np.random.RandomState(0)


def exchanged(operand: Any, out: Any, starts: Any, sizes: Any, targets: Any) -> np.ndarray:
    """The same by loops: slice i of each sender goes to receiver i // slices."""
    out = np.array(out)
    count = len(operand)
    slices = starts.shape[1] // count
    for sender in range(count):
        for i in range(starts.shape[1]):
            a, n, b = starts[sender, i], sizes[sender, i], targets[sender, i]
            out[i // slices, b : b + n] = operand[sender, a : a + n]
    return out


def case(positions: int, slices: int, rest: tuple[int, ...] = ()) -> Any:
    n = positions * slices
    sizes = RNG.randint(0, 4, (positions, n)).astype(np.int32)
    starts = RNG.randint(0, 5, (positions, n)).astype(np.int32)
    # Each receiver has a place of four rows for each sender's slice.
    place = 4 * (np.arange(positions)[:, None] * slices + np.arange(n) % slices)
    operand = RNG.rand(positions, 9, *rest).astype(np.float32)
    out = -np.ones((positions, 4 * n, *rest), np.float32)
    received = sizes.reshape(positions, positions, slices).swapaxes(0, 1).reshape(positions, n)
    return operand, out, starts, sizes, place.astype(np.int32), received


def send(*args: Any) -> Any:
    return lax.ragged_all_to_all(*args, axis_name="i")


CASES = [(1, 1, ()), (2, 1, ()), (3, 2, ()), (2, 2, (2, 3)), (4, 1, (2,))]


@pytest.mark.parametrize("positions, slices, rest", CASES)
def test_ragged_values(positions: int, slices: int, rest: tuple[int, ...]) -> None:
    args = case(positions, slices, rest)
    expected = exchanged(*args[:5])
    np.testing.assert_array_equal(pyjax.vmap(send, axis_name="i")(*args), expected)
    np.testing.assert_array_equal(pyjax.jit(pyjax.vmap(send, axis_name="i"))(*args), expected)


def test_ragged_in_shard_map() -> None:
    args = [x[0] for x in case(1, 2)]
    mesh = pyjax.make_mesh((1,), ("i",), (AxisType.Auto,))
    mapped = pyjax.shard_map(send, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    expected = exchanged(*(np.asarray(x)[None] for x in args[:5]))[0]
    np.testing.assert_array_equal(pyjax.jit(mapped)(*args), expected)


@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.uint32])
def test_ragged_under_vmap_of_another_axis(dtype: Any) -> None:
    """Each lane has offsets of its own."""
    lanes = [case(3, 2, (2,)) for _ in range(15)]
    expected = np.stack([exchanged(*args[:5]) for args in lanes], axis=1)
    operand, out, *lists = (np.stack(parts, axis=1) for parts in zip(*lanes))
    args = operand, out, *(x.astype(dtype) for x in lists)
    found = pyjax.vmap(pyjax.vmap(send), axis_name="i")(*args)
    np.testing.assert_array_equal(found, expected)
    # The same lists for all lanes.
    found = pyjax.vmap(pyjax.vmap(send, (0, 0, None, None, None, None)), axis_name="i")(
        *args[:2], *(x[:, 0] for x in args[2:])
    )
    np.testing.assert_array_equal(found[:, 0], expected[:, 0])
    want = exchanged(operand[:, 1], out[:, 1], *(x[:, 0] for x in lists[:3]))
    np.testing.assert_array_equal(found[:, 1], want)


def test_ragged_gradients_under_vmap_of_another_axis() -> None:
    lanes = [case(2, 2) for _ in range(3)]
    operand, out, *lists = (np.stack(parts, axis=1) for parts in zip(*lanes))
    weights = RNG.rand(*out.shape).astype(np.float32)

    def loss(operand: Any) -> Any:
        sent = pyjax.vmap(pyjax.vmap(send), axis_name="i")(operand, np.zeros_like(out), *lists)
        return jnp.sum(weights * sent)

    gradient = pyjax.grad(loss)(operand)
    direction = RNG.rand(*operand.shape).astype(np.float32)
    np.testing.assert_allclose(np.sum(gradient * direction), loss(direction), rtol=1e-5)


def test_ragged_gradients() -> None:
    operand, out, *lists = case(3, 2)
    weights = RNG.rand(*out.shape).astype(np.float32)

    def loss(operand: Any, out: Any) -> Any:
        return jnp.sum(weights * pyjax.vmap(send, axis_name="i")(operand, out, *lists))

    by_operand, by_out = pyjax.grad(loss, (0, 1))(operand, out)
    # Linear: the gradient against any direction is the loss of that direction.
    for position, gradient in enumerate((by_operand, by_out)):
        direction = RNG.rand(*gradient.shape).astype(np.float32)
        args = [np.zeros_like(operand), np.zeros_like(out)]
        args[position] = direction
        np.testing.assert_allclose(np.sum(gradient * direction), loss(*args), rtol=1e-5)


def _shape(x: Any) -> Any:
    return pyjax.ShapeDtypeStruct(x.shape, x.dtype)


def test_send_and_receive() -> None:
    pairs = [(0, 1), (1, 2)]

    def around(x: Any) -> Any:
        token = lax.psend({"x": x, "y": 2 * x}, "i", pairs)
        return lax.precv(token, {"x": _shape(x), "y": _shape(x)}, "i", pairs)

    found = pyjax.vmap(around, axis_name="i")(jnp.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(found["x"], [0, 1, 2])
    np.testing.assert_array_equal(found["y"], [0, 2, 4])
    mesh = pyjax.make_mesh((1,), ("i",), (AxisType.Auto,))

    def alone(x: Any) -> Any:
        token = lax.optimization_barrier(lax.psend(x, "i", [(0, 0)]))
        return lax.precv(token, _shape(x), "i", [(0, 0)])

    mapped = pyjax.shard_map(alone, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    np.testing.assert_array_equal(pyjax.jit(mapped)(jnp.arange(3.0)), [0, 1, 2])


def _mapped(f: Any) -> Any:
    return lambda: pyjax.vmap(f, axis_name="i")(jnp.ones((2, 3)))


def _ragged(**changes: Any) -> Any:
    args = {
        "operand": jnp.ones(3),
        "output": jnp.ones(4),
        "input_offsets": jnp.zeros(2, int),
        "send_sizes": jnp.zeros(2, int),
        "output_offsets": jnp.zeros(2, int),
        "recv_sizes": jnp.zeros(2, int),
    } | changes
    return _mapped(lambda x: lax.ragged_all_to_all(**args, axis_name="i"))


PAIRS = [(0, 1)]
LISTS = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")
ERRORS = [
    (_ragged(send_sizes=jnp.zeros(3, int)), ValueError, "one length"),
    (_ragged(send_sizes=jnp.zeros(2)), ValueError, "send_sizes must be integer"),
    (_ragged(output=jnp.ones(4, int)), ValueError, "same dtype"),
    (_ragged(output=jnp.ones((4, 2))), ValueError, "but for the first"),
    (
        _ragged(**dict.fromkeys(LISTS, jnp.zeros(3, int))),
        ValueError,
        "3 slices for an axis of size 2",
    ),
    (lambda: lax.psend(jnp.ones(3), "i", PAIRS), NameError, "unbound axis name"),
    (
        _mapped(lambda x: lax.precv(jnp.zeros(()), _shape(x), "i", PAIRS)),
        TypeError,
        "not what psend returned",
    ),
    (
        _mapped(lambda x: lax.precv(lax.psend(x, "i", PAIRS), _shape(x), "i", [(1, 0)])),
        ValueError,
        "who sends to whom",
    ),
    (
        _mapped(lambda x: lax.precv(lax.psend(x, "i", PAIRS), _shape(x[:1]), "i", PAIRS)),
        ValueError,
        "psend sent",
    ),
]


@pytest.mark.parametrize("call, kind, message", ERRORS)
def test_errors(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
