"""Every collective over four devices, of however many processes; process 0 writes the results.

mpiexec -n N python collectives.py RESULTS.npz      with 4 / N devices for each process
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import pyjax
import pyjax.numpy as jnp
from pyjax import P, lax
from pyjax.experimental.multihost_utils import process_allgather
from pyjax.sharding import AxisType, NamedSharding

pyjax.distributed.initialize()
RNG = np.random.default_rng(0)
AUTO = (AxisType.Auto,)
MESH = pyjax.make_mesh((4,), ("i",), AUTO)
GRID = pyjax.make_mesh((2, 2), ("i", "j"), AUTO * 2)
RESULTS: dict[str, Any] = {}


def array(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    values = RNG.standard_normal(shape) * 100
    return (values + 1j * RNG.standard_normal(shape) if dtype == np.complex64 else values).astype(
        dtype
    )


def run(name: str, f: Any, x: Any, ins: Any, outs: Any, mesh: Any = MESH) -> None:
    """The result of a function on parts, put together."""
    mapped = pyjax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False)
    RESULTS[name] = process_allgather(pyjax.jit(mapped)(x), tiled=True)


# -- each collective, along one axis of all devices ------------------------------------------------

X = array(8, 4, 6)
EACH = {
    "psum": lambda x: lax.psum(x, "i"),
    "pmax": lambda x: lax.pmax(x, "i"),
    "pmean": lambda x: lax.pmean(x, "i"),
    "all_gather": lambda x: lax.all_gather(x, "i"),
    "all_gather_tiled": lambda x: lax.all_gather(x, "i", axis=1, tiled=True),
    "psum_scatter": lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True),
    "all_to_all": lambda x: lax.all_to_all(x, "i", 1, 2),
    "all_to_all_tiled": lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True),
    "ppermute": lambda x: lax.ppermute(x, "i", [(0, 3), (3, 1), (1, 2)]),
    "pbroadcast": lambda x: lax.pbroadcast(x, "i", 2),
    "axis_index": lambda x: x * lax.axis_index("i"),
    "two": lambda x: lax.psum((x, x[0] * 2), "i")[0] + lax.psum(x, "i")[::-1],
    "groups": lambda x: lax.psum(x, "i", axis_index_groups=[[0, 3], [2, 1]]),
}
for name, f in EACH.items():
    run(name, f, X, P("i"), P("i"))
for dtype in (np.int8, np.float64, np.complex64, jnp.bfloat16, np.bool_):
    run(
        f"all_gather {np.dtype(dtype).name}",
        lambda x: lax.all_gather(x, "i", tiled=True),
        array(8, 3, dtype=dtype),
        P("i"),
        P(),
    )
# So large that members combine blocks for each other.
run("large sum", lambda x: lax.psum(x, "i"), array(4, 300_001), P("i"), P())
run(
    "large scatter",
    lambda x: lax.psum_scatter(x, "i", scatter_dimension=0, tiled=True),
    array(4 * 4096, 64),
    P("i"),
    P("i"),
)


def ragged(x: Any) -> Any:
    """Device d sends d rows to each device."""
    own = lax.axis_index("i")
    others = jnp.arange(4, dtype=np.int32)
    sizes = jnp.full(4, own, np.int32)
    place = jnp.full(4, own * (own - 1) // 2, np.int32)
    out = jnp.full((7, 2), -1.0, x.dtype)
    return lax.ragged_all_to_all(x, out, others, sizes, place, others, axis_name="i")


run("ragged_all_to_all", ragged, array(4 * 8, 2), P("i"), P("i"))

# -- over a grid: groups in one process, and across ------------------------------------------------

Y = array(4, 6)
for axes in (("i",), ("j",), ("i", "j"), ("j", "i")):
    run(f"sum over {axes}", lambda x, a=axes: lax.psum(x, a), Y, P("i", "j"), P("i", "j"), GRID)
    run(
        f"gather over {axes}",
        lambda x, a=axes: lax.all_gather(x, a, tiled=True),
        Y,
        P("i", "j"),
        P("i", "j"),
        GRID,
    )


def loops(x: Any) -> Any:
    """Collectives in a loop, whose number of turns is known when it runs."""

    def body(state: Any) -> Any:
        n, x = state
        x = x + lax.psum(x, "i") / 4 - lax.ppermute(x, "j", [(0, 1), (1, 0)])
        return n + 1, x / lax.pmax(jnp.abs(x).max(), ("i", "j"))

    goes_on = lambda s: lax.psum(s[0], ("i", "j")) < 40
    return lax.while_loop(goes_on, body, (0, x))[1]


run("loops", loops, Y, P("i", "j"), P("i", "j"), GRID)


# -- what the compiler cuts ------------------------------------------------------------------------


def put(x: np.ndarray, *spec: Any) -> Any:
    return pyjax.device_put(x, NamedSharding(GRID, P(*spec)))


def whole(x: Any) -> np.ndarray:
    return process_allgather(x, tiled=True) if not x.is_fully_addressable else np.asarray(x)


a, b = put(array(8, 16), "i", "j"), put(array(16, 12), "j", "i")
RESULTS["product"] = whole(pyjax.jit(jnp.matmul)(a, b))
RESULTS["softmax"] = whole(pyjax.jit(lambda a: pyjax.nn.softmax(a, axis=1))(a))
RESULTS["sort"] = whole(pyjax.jit(lambda a: jnp.sort(a, axis=0))(a))
RESULTS["eager"] = whole((a + 1)[2:5].T @ put(array(3, 4), None, "j"))
RESULTS["random"] = whole(
    pyjax.jit(
        lambda k: pyjax.random.normal(k, (8, 4)), out_shardings=NamedSharding(GRID, P("i", "j"))
    )(pyjax.random.key(3))
)
RESULTS["laid out anew"] = whole(pyjax.device_put(a, NamedSharding(GRID, P("j", "i"))))
order = pyjax.sharding.Mesh(MESH.devices[::-1], ("i",))
RESULTS["other devices"] = whole(pyjax.device_put(a, NamedSharding(order, P("i"))))

# -- data-parallel training ------------------------------------------------------------------------


def loss(weights: Any, x: Any, y: Any) -> Any:
    hidden = jnp.tanh(x @ weights[0])
    return jnp.mean((hidden @ weights[1] - y) ** 2)


@pyjax.jit
def step(weights: Any, x: Any, y: Any) -> Any:
    value, gradients = pyjax.value_and_grad(loss)(weights, x, y)
    return [w - 0.01 * g for w, g in zip(weights, gradients)], value


over = NamedSharding(MESH, P("i"))
inputs, targets = array(32, 8) / 100, array(32, 3) / 100
rows = 32 // pyjax.process_count()
own = slice(pyjax.process_index() * rows, (pyjax.process_index() + 1) * rows)
x = pyjax.make_array_from_process_local_data(over, inputs[own])
y = pyjax.make_array_from_callback((32, 3), over, lambda index: targets[index])
everywhere = NamedSharding(MESH, P())
weights = [pyjax.device_put(array(*shape) / 100, everywhere) for shape in ((8, 16), (16, 3))]
losses = []
for _ in range(5):
    weights, value = step(weights, x, y)
    losses.append(float(value))
assert losses[-1] < losses[0]
RESULTS["losses"] = np.array(losses)

if pyjax.process_index() == 0:
    np.savez(sys.argv[1], **{k: np.asarray(v).view(np.uint8) for k, v in RESULTS.items()})
