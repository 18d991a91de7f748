"""pyjax.plan: bytes, memory and time of programs on meshes of devices that are not here, against
what is known of them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.clusters import Chip, Cluster, Link
from pyjax.parallel.clusters import exchange_seconds
from pyjax.sharding import AbstractMesh, NamedSharding
from pyjax.sharding import PartitionSpec as P

MESH = AbstractMesh((4, 8), ("data", "model"))
Found = dict[tuple[str, tuple[str, ...]], tuple[int, float]]


def spec(shape: tuple[int, ...], *axes: Any, mesh: AbstractMesh = MESH, dtype: str = "f4") -> Any:
    return pyjax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*axes)))


def sent(plan: Any) -> Found:
    """Kind and axes -> how often, and bytes that a device sends."""
    return {(c.kind, c.axes): (c.times, c.sent) for c in plan.by_kind()}


def resharded(*axes: Any) -> Callable[[Any], Any]:
    return lambda x: lax.with_sharding_constraint(x + 1, P(*axes))


def mlp(x: Any, w1: Any, w2: Any) -> Any:
    return jnp.maximum(x @ w1, 0) @ w2


def loss(weights: Any, x: Any) -> Any:
    return jnp.sum(mlp(x, *weights) ** 2)


def train(weights: Any, x: Any) -> Any:
    gradient = pyjax.grad(loss)(weights, x)
    return pyjax.tree.map(lambda w, g: w - 0.1 * g, weights, gradient)


def sharded_layers(weights: Any, x: Any) -> Any:
    """A loop over layers whose weights are in parts wherever they are not used."""

    @pyjax.checkpoint
    def layer(x: Any, w: Any) -> tuple[Any, None]:
        return lax.with_sharding_constraint(jnp.tanh(x @ w), P("data")), None

    return jnp.sum(lax.scan(layer, x, weights)[0])


def ring(x: Any) -> Any:
    def turn(_: Any, carry: Any) -> Any:
        x, total = carry
        x = lax.ppermute(x, "model", [(j, (j + 1) % 8) for j in range(8)])
        return x, total + x

    return lax.fori_loop(0, 7, turn, (x, x))[1]


def mapped_ring(x: Any) -> Any:
    return pyjax.shard_map(ring, in_specs=P(None, "model"), out_specs=P(None, "model"))(x)


WEIGHTS = 1024 * 4096 * 4  # bytes of one of two
ONE_OF_EIGHT = 64 * 512 * 4
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Found]] = {
    "gathered": (
        resharded(),
        (spec((64, 512), None, "model"),),
        {("all-gather", ("model",)): (1, ONE_OF_EIGHT * 7 / 8)},
    ),
    "gathered along both axes": (
        resharded(),
        (spec((64, 512), ("data", "model")),),
        {("all-gather", ("data", "model")): (1, ONE_OF_EIGHT * 31 / 32)},
    ),
    "turned": (
        resharded("model"),
        (spec((64, 512), None, "model"),),
        {("all-to-all", ("model",)): (1, ONE_OF_EIGHT / 8 * 7 / 8)},
    ),
    "cut": (resharded("model"), (spec((64, 512)),), {}),
    # Megatron: columns, then rows; the parts of the sum are added once.
    "tensor parallel": (
        mlp,
        (spec((128, 1024), "data"), spec((1024, 4096), None, "model"), spec((4096, 1024), "model")),
        {("all-reduce", ("model",)): (1, 2 * (32 * 1024 * 4) * 7 / 8)},
    ),
    "data parallel": (
        train,
        ((spec((1024, 4096)), spec((4096, 1024))), spec((128, 1024), ("data", "model"))),
        {("all-reduce", ("data", "model")): (2, 2 * (2 * WEIGHTS) * 31 / 32)},
    ),
    "a ring": (
        mapped_ring,
        (spec((64, 512), None, "model"),),
        {("collective-permute", ("model",)): (7, 7 * ONE_OF_EIGHT / 8)},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_known_byte_counts(case: str) -> None:
    function, specs, expected = CASES[case]
    found = pyjax.plan(function, MESH, *specs)
    assert sent(found) == expected
    assert found.sent == sum(bytes for _, bytes in expected.values())


def test_weights_in_parts_are_gathered_for_use_and_gradients_scattered() -> None:
    layers, width, rows, data = 5, 256, 4096, 4
    weights = spec((layers, width, width), None, "data")
    gradient = pyjax.jit(pyjax.grad(sharded_layers), out_shardings=P(None, "data"))
    plan = pyjax.plan(gradient, MESH, weights, spec((rows, width), "data"))
    found = sent(plan)
    array = width * width * 4
    times, bytes = found["all-gather", ("data",)]
    # Once forwards and once backwards for each layer.
    assert (times, bytes) == (2 * layers, 2 * layers * array * (data - 1) / data)
    kinds = {kind for kind, _ in found}
    assert kinds <= {"all-gather", "reduce-scatter", "all-reduce"}
    scattered = sum(bytes for (kind, _), (_, bytes) in found.items() if kind != "all-gather")
    assert layers * array * (data - 1) / data <= scattered <= 2 * layers * array


def test_three_axes_one_of_which_the_program_handles_itself() -> None:
    """Stages that hand on microbatches; the compiler cuts their layers, and the batch."""
    mesh = AbstractMesh((8, 16, 8), ("pipe", "data", "model"))

    def stage(w: Any, x: Any) -> Any:
        def tick(_: Any, carry: Any) -> Any:
            x, total = carry
            x = lax.ppermute(jnp.tanh(x @ w[0]) @ w[0].T, "pipe", [(k, k + 1) for k in range(7)])
            return x, total + x

        return lax.fori_loop(0, 11, tick, (x, jnp.zeros_like(x)))[1]

    stages = pyjax.shard_map(
        stage, in_specs=P("pipe"), out_specs=P("pipe"), axis_names={"pipe"}, check_vma=False
    )
    w = spec((8, 1024, 4096), "pipe", None, "model", mesh=mesh)
    plan = pyjax.plan(stages, mesh, w, spec((8 * 512, 1024), ("pipe", "data"), mesh=mesh))
    part = 512 // 16 * 1024 * 4
    assert sent(plan) == {
        ("all-reduce", ("model",)): (11, 11 * 2 * part * 7 / 8),
        ("collective-permute", ("pipe",)): (11, 11 * part),
    }


def test_lines_are_those_of_the_user() -> None:
    (found,) = pyjax.plan(mlp, MESH, *CASES["tensor parallel"][1]).collectives
    lines, start = inspect.getsourcelines(mlp)
    assert (found.file, found.line, found.function) == (__file__, start + 1, "mlp")
    assert found.where == f"test_plan.py:{start + 1}" and lines[1].strip().endswith("@ w2")
    assert found.array == "f32[32,1024]" and found.group == 8


def test_operations_memory_and_time() -> None:
    chip = Chip("slow", 1e6, 1e9, {"f32": 1e9}, 1e9)
    x, w = spec((64, 512), "data"), spec((512, 256), None, "model")
    plan = pyjax.plan(jnp.matmul, MESH, x, w, cluster=Cluster(chip))
    assert plan.flops == 2 * 64 * 512 * 256 / 32
    assert plan.memory.arguments == (64 * 512 // 4 + 512 * 256 // 8) * 4
    assert plan.memory.results == 64 * 256 * 4 // 32
    assert plan.memory.peak == plan.memory.arguments + plan.memory.results and plan.fits
    assert plan.bytes == plan.memory.peak
    assert plan.compute_seconds == pytest.approx(max(plan.flops, plan.bytes) / 1e9)
    assert plan.seconds == plan.overlapped_seconds == plan.compute_seconds
    tight = pyjax.plan(jnp.matmul, MESH, x, w, cluster=Cluster(Chip("x", 9e4, 1, {}, 1)))
    assert not tight.fits and "TOO LITTLE" in str(tight)


def test_donated_arguments_hold_the_results() -> None:
    x = spec((64, 512), "data")
    kept = pyjax.plan(lambda x: x * 2, MESH, x).memory
    donated = pyjax.plan(pyjax.jit(lambda x: x * 2, donate_argnums=0), MESH, x).memory
    part = 64 * 512 * 4 // 4
    assert (kept.aliased, kept.peak) == (0, 2 * part)
    assert (donated.aliased, donated.peak) == (part, part)


def test_links_of_axes_and_times_of_collectives() -> None:
    fast, slow = Link(100.0, 0.5), Link(10.0, 1.0)
    cluster = Cluster("A100", {"data": slow})
    links = cluster.links_of({"data": 4, "model": 8})
    assert links["data"] is slow and links["model"].bandwidth == 450e9
    assert cluster.links_of({"data": 4, "model": 9})["model"].bandwidth == 50e9
    with pytest.raises(ValueError, match="links of axes \\['rows'\\] are given for a mesh with"):
        Cluster(links={"rows": slow}).links_of({"data": 4})
    with pytest.raises(ValueError, match="no data of a card 'abacus'"):
        pyjax.plan(jnp.sin, MESH, jnp.ones(3), cluster=Cluster("abacus"))
    # A ring of 4: 3 steps with a quarter each; what is left of a sum goes on along the slow axis.
    gathered = exchange_seconds(400.0, 1, [(4, fast)], shrinks=True)
    assert gathered == pytest.approx(3 * (0.5 + 1.0))
    both = exchange_seconds(400.0, 2, [(2, slow), (4, fast)], shrinks=True)
    assert both == pytest.approx(2 * gathered + 2 * (1.0 + 50.0 / 10.0))
    # Small arrays go up a tree: two steps, not three.
    assert exchange_seconds(0.0, 1, [(4, fast)], shrinks=True) == 2 * 0.5
    plan = pyjax.plan(*_planned("gathered"), cluster=Cluster(links={"model": slow}))
    assert plan.communication_seconds == pytest.approx(7 * (1.0 + ONE_OF_EIGHT / 8 / 10))


def _planned(case: str) -> tuple[Any, ...]:
    function, specs, _ = CASES[case]
    return function, MESH, *specs


def test_texts_and_tables() -> None:
    plan = pyjax.plan(*_planned("tensor parallel"))
    text, table = str(plan), plan._repr_html_()
    for part in ("plan of mlp", "32 ('data': 4, 'model': 8)", "all-reduce", "f32[32,1024]"):
        assert part in text
    assert "<td>all-reduce</td>" in table and "&#x27;model&#x27;: 8" in table
    nothing = pyjax.plan(lambda x: x, MESH, jnp.ones(3))
    assert nothing.sent == nothing.communication_seconds == 0 and "all-" not in str(nothing)


def test_static_arguments_and_arrays_stand_for_themselves() -> None:
    power = pyjax.jit(lambda x, n: x**n, static_argnums=1)
    assert pyjax.plan(power, MESH, spec((64, 512), "data"), 3).flops == 2 * 64 * 512 / 4
    scaled = pyjax.plan(lambda x, *, by: x * by, MESH, spec((64, 512), "data"), by=jnp.ones(512))
    assert scaled.memory.arguments == 64 * 512 * 4 / 4 + 512 * 4


def test_loops_of_unknown_length_are_told() -> None:
    def halved(x: Any) -> Any:
        return lax.while_loop(lambda x: jnp.sum(x) > 1, lambda x: x / 2, x)

    plan = pyjax.plan(halved, MESH, spec((64, 512), "data"))
    assert len(plan.open_loops) == 1 and __file__ in plan.open_loops[0]
    assert "loops of unknown length" in str(plan)
    assert {c.times for c in plan.collectives} == {1}


def test_thousands_of_devices() -> None:
    """Each of them moves, computes and holds what it does among few, and nothing is allocated."""
    found = []
    for count in (16, 1_250):
        mesh = AbstractMesh((count, 8), ("data", "model"))
        x = spec((32 * count, 1024), "data", mesh=mesh)
        w1 = spec((1024, 4096), None, "model", mesh=mesh)
        w2 = spec((4096, 1024), "model", mesh=mesh)
        plan = pyjax.plan(mlp, mesh, x, w1, w2)
        assert plan.devices == 8 * count
        found.append((sent(plan), plan.flops, plan.memory.peak))
    assert found[0] == found[1]


def test_arguments_and_meshes_that_do_not_fit() -> None:
    other = AbstractMesh((3,), ("rows",))
    with pytest.raises(ValueError, match="an argument of type float32\\[9\\] lies over Abstract"):
        pyjax.plan(jnp.sin, MESH, spec((9,), "rows", mesh=other))
    with pytest.raises(TypeError, match="plan: the mesh is 3, a int"):
        pyjax.plan(jnp.sin, 3, jnp.ones(3))  # type: ignore[arg-type]


# -- a transformer of 70 billion parameters --------------------------------------------------------

LAYERS, WIDTH, HEADS, GROUPS, HIDDEN, WORDS = 80, 8192, 64, 8, 28672, 128256
HEAD = WIDTH // HEADS
# Of each weight its shape and axes: cut by heads or columns, and once more by `data`.
OF_LAYERS = {
    "q": ((LAYERS, WIDTH, HEADS, HEAD), (None, "data", "model")),
    "k": ((LAYERS, WIDTH, GROUPS, HEAD), (None, "data", "model")),
    "v": ((LAYERS, WIDTH, GROUPS, HEAD), (None, "data", "model")),
    "o": ((LAYERS, HEADS, HEAD, WIDTH), (None, "model", None, "data")),
    "gate": ((LAYERS, WIDTH, HIDDEN), (None, "data", "model")),
    "up": ((LAYERS, WIDTH, HIDDEN), (None, "data", "model")),
    "down": ((LAYERS, HIDDEN, WIDTH), (None, "model", "data")),
}
ENDS = {
    "embed": ((WORDS, WIDTH), ("model", "data")),
    "unembed": ((WIDTH, WORDS), ("data", "model")),
}


def normalised(x: Any) -> Any:
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)).astype(x.dtype)


def layer(x: Any, w: Any) -> tuple[Any, None]:
    w = pyjax.tree.map(lambda a: a.astype(jnp.bfloat16), w)
    h = normalised(x)
    q, k, v = (jnp.einsum("btd,dhk->bthk", h, w[name]) for name in "qkv")
    mixed = pyjax.nn.dot_product_attention(q, k, v, is_causal=True)
    x = x + lax.with_sharding_constraint(jnp.einsum("bthk,hkd->btd", mixed, w["o"]), P("data"))
    h = normalised(x)
    h = pyjax.nn.silu(h @ w["gate"]) * (h @ w["up"])
    return x + lax.with_sharding_constraint(h @ w["down"], P("data")), None


def model_loss(weights: Any, tokens: Any) -> Any:
    x = weights["embed"].astype(jnp.bfloat16)[tokens[:, :-1]]
    x = lax.with_sharding_constraint(x, P("data"))
    x, _ = lax.scan(pyjax.checkpoint(layer), x, weights["layers"])
    scores = (normalised(x) @ weights["unembed"].astype(jnp.bfloat16)).astype(jnp.float32)
    scores = lax.with_sharding_constraint(scores, P("data", None, "model"))
    chosen = lax.broadcasted_iota(jnp.int32, scores.shape, 2) == tokens[:, 1:, None]
    picked = jnp.sum(jnp.where(chosen, scores, 0), -1)
    return jnp.mean(pyjax.nn.logsumexp(scores, -1) - picked)


def model_step(weights: Any, momentum: Any, tokens: Any) -> Any:
    value, gradient = pyjax.value_and_grad(model_loss)(weights, tokens)
    momentum = pyjax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
    return pyjax.tree.map(lambda w, m: w - 1e-4 * m, weights, momentum), momentum, value


def test_a_model_of_70_billion_parameters() -> None:
    mesh = AbstractMesh((64, 8), ("data", "model"))
    weights: dict[str, Any] = {n: spec(s, *a, mesh=mesh) for n, (s, a) in ENDS.items()}
    weights["layers"] = {n: spec(s, *a, mesh=mesh) for n, (s, a) in OF_LAYERS.items()}
    count = sum(math.prod(w.shape) for w in pyjax.tree.leaves(weights))
    assert 70e9 < count < 71e9
    rows, length = 2, 4096
    tokens = spec((64 * rows, length + 1), "data", mesh=mesh, dtype="i4")
    step = pyjax.jit(model_step, donate_argnums=(0, 1))
    plan = pyjax.plan(step, mesh, weights, weights, tokens)
    # 2 of each parameter and token forwards, twice that backwards, and forwards again.
    assert plan.flops == pytest.approx(8 * count * rows * length / 8, rel=0.15)
    # Weights and momentum in f32, cut into 512 parts.
    assert plan.memory.arguments == pytest.approx(2 * 4 * count / 512, rel=1e-3)
    kept = LAYERS * rows * length * WIDTH * 2  # what goes into each layer, in bf16
    assert kept < plan.memory.temporaries < 2 * kept and plan.memory.largest[0][0] == kept
    found = sent(plan)
    gathered = found["all-gather", ("data",)][1] / (2 * count / 8)  # bf16; in times of all weights
    assert gathered == pytest.approx(2, rel=0.1)
    # Of each layer two sums forwards, one again, and two backwards.
    added = found["all-reduce", ("model",)][1] / (LAYERS * rows * length * WIDTH * 2)
    assert added == pytest.approx(5 * 2 * 7 / 8, rel=0.02)
    assert {axes for _, axes in found} == {("data",), ("model",)}
