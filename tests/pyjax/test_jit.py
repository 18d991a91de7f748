"""jit: caching, static and donated arguments, nesting, stages, its options and its errors."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import jit


def traced_times(fun, **options):
    """A jitted function and a list that grows by one at each trace."""
    traces = []

    @functools.wraps(fun)
    def counted(*args, **kwargs):
        traces.append(1)
        return fun(*args, **kwargs)

    return jit(counted, **options), traces


def test_traces_once_per_kind_of_argument() -> None:
    f, traces = traced_times(lambda x: x + 1)
    for x in (jnp.ones(3), jnp.zeros(3), np.ones(3, np.float32)):
        f(x)
    assert len(traces) == 1
    f(jnp.ones(4))
    f(jnp.ones(3, np.int32))
    f(1.0)
    f(2.0)
    assert len(traces) == 4
    f.clear_cache()
    f(1.0)
    assert len(traces) == 5


def test_options_that_affect_tracing_trace_again() -> None:
    f, traces = traced_times(lambda x: x * 2)
    x = np.ones(2)
    assert f(x).dtype == np.float32
    with pyjax.enable_x64(True):
        assert f(x).dtype == np.float64
    assert f(x).dtype == np.float32
    assert len(traces) == 2


class Point(NamedTuple):
    x: pyjax.Array
    y: pyjax.Array


def test_pytrees_in_and_out() -> None:
    f = jit(lambda p, d: {"sum": p.x + d["k"][0], "point": Point(p.y, p.x), "none": None})
    out = f(Point(jnp.ones(2), jnp.zeros(2)), {"k": [jnp.full(2, 3.0), ()]})
    assert out["none"] is None and isinstance(out["point"], Point)
    np.testing.assert_array_equal(out["sum"], [4.0, 4.0])


def test_keyword_and_default_arguments() -> None:
    f = jit(lambda x, *, scale=2.0, **rest: x * scale + sum(rest.values()))
    assert f(1.0) == 2.0
    assert f(1.0, scale=3.0) == 3.0
    assert f(1.0, a=1.0, b=2.0) == 5.0


@pytest.mark.parametrize(
    "options", [{"static_argnums": 1}, {"static_argnames": "n"}, {"static_argnums": (-1,)}]
)
def test_static_arguments_by_position_or_name(options) -> None:
    f, traces = traced_times(lambda x, n: x * n if isinstance(n, int) else 0 / 0, **options)
    assert f(2.0, 3) == 6.0
    if "static_argnums" not in options or options["static_argnums"] == 1:
        assert f(2.0, n=3) == 6.0
    assert f(2.0, 4) == 8.0
    assert f(5.0, 3) == 15.0
    assert len(traces) in (2, 3)


def test_unhashable_static_argument() -> None:
    f = jit(lambda x, dims: x, static_argnames="dims")
    with pytest.raises(
        ValueError, match=r"static argument 'dims'.*type list.*not hashable"
    ) as error:
        f(1.0, dims=[1, 2])
    assert "test_jit.py" in str(error.value) and "tuple" in str(error.value)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"static_argnames": "z"}, "names 'z'.*no such parameter.*x, y"),
        ({"static_argnums": 5}, "has 5.*only 2"),
        ({"static_argnums": 0, "donate_argnums": 0}, "both static and donated"),
        ({"static_argnums": "x"}, "static_argnums"),
    ],
)
def test_bad_static_and_donated_arguments(options, message) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        jit(lambda x, y: x, **options)


def test_not_callable() -> None:
    with pytest.raises(TypeError, match="jit expects a callable, got int"):
        jit(3)


def test_bad_argument_names_its_path() -> None:
    f = jit(lambda params: params)
    with pytest.raises(
        TypeError, match=r"argument params\['w'\]\[1\].*type str.*not a valid array type"
    ):
        f({"w": [1.0, "two"]})


def test_decorator_with_options_and_methods() -> None:
    class Model:
        scale = 3.0

        @functools.partial(jit, static_argnums=0)
        def apply(self, x):
            return self.scale * x

        @jit
        def __repr__(self):  # pragma: no cover
            return "unused"

    assert Model().apply(2.0) == 6.0

    @jit(donate_argnums=0)
    def increment(x):
        """Adds one."""
        return x + 1

    assert increment(jnp.ones(2)).tolist() == [2.0, 2.0]
    assert (increment.__name__, increment.__doc__) == ("increment", "Adds one.")


class _Wrapped:
    """A container that hands on what it does not know to the array in it."""

    def __init__(self, value):
        self.value = value

    def __getattr__(self, name):
        return getattr(self.__dict__["value"], name)


class _Layer:
    """A container with a `spec` of its own."""

    def __init__(self, value):
        self.value = value
        self.spec = ["dense"]


for _kind in (_Wrapped, _Layer):
    pyjax.tree_util.register_pytree_node(
        _kind, lambda c: ([c.value], None), lambda _, values, kind=_kind: kind(*values)
    )


@pytest.mark.parametrize("kind", [_Wrapped, _Layer])
def test_containers_are_not_taken_for_arrays_by_their_attributes(kind) -> None:
    f = jit(lambda x: x.value + 1000 if isinstance(x, kind) else x * 2)
    pair = jit(lambda xs: xs["a"].value if isinstance(xs["a"], kind) else xs["a"] * 2)
    x = jnp.ones(2)
    for _ in range(2):  # the second round finds the programs of the first
        assert f(x).tolist() == [2.0, 2.0]
        assert f(kind(x)).tolist() == [1001.0, 1001.0]
        assert pair({"a": x}).tolist() == [2.0, 2.0]
        assert pair(xs={"a": kind(x)}).tolist() == [1.0, 1.0]


def test_nested_jit_and_closures() -> None:
    inner = jit(lambda x, y: x * y)
    offset = jnp.arange(100.0)  # large enough to become a hidden argument
    small = jnp.asarray(2.0)
    f = jit(lambda x: inner(x, small) + offset)
    np.testing.assert_allclose(f(jnp.ones(100)), 2.0 + np.arange(100.0))

    def outer(x):
        local = jit(lambda y: y + x)  # closes over a tracer
        return local(1.0) * 2

    assert jit(outer)(3.0) == 8.0
    assert pyjax.grad(jit(outer))(3.0) == 2.0


def test_outputs_may_be_inputs_constants_and_duplicates() -> None:
    f = jit(lambda x, y: (x, y, x, 3, jnp.ones(2), x + y, np.float32(1)))
    a, b = jnp.ones(2), jnp.zeros(2)
    out = f(a, b)
    assert [np.asarray(o).tolist() for o in out] == [[1, 1], [0, 0], [1, 1], 3, [1, 1], [1, 1], 1]
    assert out[0].unsafe_buffer_pointer() != a.unsafe_buffer_pointer()


def test_zero_sized_and_no_outputs() -> None:
    assert jit(lambda x: ())(1.0) == ()
    assert jit(lambda: jnp.zeros(3))().tolist() == [0, 0, 0]
    assert jit(lambda x: x + 1)(jnp.zeros((0, 3))).shape == (0, 3)


def test_disable_jit_runs_python() -> None:
    seen = []
    f = jit(lambda x: seen.append(x) or x + 1)
    with pyjax.disable_jit(True):
        assert f(jnp.ones(2)).tolist() == [2.0, 2.0]
    assert isinstance(seen[0], pyjax.Array) and not isinstance(seen[0], pyjax.core.Tracer)


def test_no_tracing() -> None:
    f = jit(lambda x: x + 1)
    f(1.0)
    with pyjax.no_tracing(True):
        assert float(f(2.0)) == 3.0
        with pytest.raises(RuntimeError, match="no_tracing"):
            f(jnp.ones(3))


def test_dump_ir_to(tmp_path: Path) -> None:
    pyjax.config.update("jax_dump_ir_to", str(tmp_path))
    try:
        jit(lambda x: x * 11.5)(jnp.ones(3))
    finally:
        pyjax.config.update("jax_dump_ir_to", "")
    names = sorted(p.name for p in tmp_path.iterdir())
    assert any(n.endswith(".jaxpr.txt") for n in names) and any(
        n.endswith(".hlo.txt") for n in names
    )
    assert any("11.5" in p.read_text() for p in tmp_path.iterdir())


@pytest.mark.parametrize("jitted", [False, True])
def test_debug_nans_names_the_primitive_and_the_line(jitted: bool) -> None:
    def f(x):
        y = x + 1
        return jnp.log(y - 5)  # the culprit

    fun = jit(f) if jitted else f
    with pyjax.debug_nans(True):
        assert np.isfinite(fun(jnp.asarray(10.0)))
        with pytest.raises(FloatingPointError, match=r"nan.* encountered in log") as error:
            fun(jnp.asarray(1.0))
    assert "the culprit" in str(error.value)
    assert np.isnan(fun(jnp.asarray(1.0)))


def test_stages() -> None:
    x = jnp.ones((4, 3))
    f = jit(lambda x, *, k: {"y": jnp.tanh(x @ x.T) * k})
    traced = f.trace(x, k=2.0)
    assert "tanh" in traced.as_text() and "dot_general" in traced.as_text()
    assert traced.out_info["y"].shape == (4, 4)
    lowered = traced.lower()
    assert lowered.as_text().startswith("module @jit_")
    assert "stablehlo.dot_general" in lowered.as_text()
    assert "jax.result_info = \"result['y']\"" in lowered.as_text("stablehlo")
    assert lowered.as_text("hlo").startswith("HloModule jit_") and "dot(" in lowered.as_text("hlo")
    assert str(lowered.compiler_ir()) == lowered.as_text()
    compiled = lowered.compile()
    assert "fusion" in compiled.as_text()
    np.testing.assert_allclose(compiled(x, k=2.0)["y"], f(x, k=2.0)["y"])
    assert lowered.cost_analysis()["flops"] >= 2 * 4 * 4 * 3
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == 4 * 3 * 4 + 4
    assert memory.output_size_in_bytes == 64
    assert memory.generated_code_size_in_bytes > 0
    with pytest.raises(TypeError, match=r"argument leaf 0 was float32\[4,3\].*is float32\[2,3\]"):
        compiled(jnp.ones((2, 3)), k=2.0)
    with pytest.raises(TypeError, match="another argument structure"):
        compiled(x)


def test_lowering_from_shapes_only() -> None:
    struct = pyjax.ShapeDtypeStruct((3,), np.float32)
    assert "tensor<3xf32>" in jit(jnp.sin).lower(struct).as_text()


def test_compiler_options(tmp_path: Path) -> None:
    lowered = jit(lambda x: x + 2).lower(jnp.ones(3))
    lowered.compile({"xla_dump_to": str(tmp_path)})
    names = [p.name for p in tmp_path.iterdir()]
    assert any("before_optimizations" in n for n in names)
    assert any("cpu_after_optimizations" in n for n in names)
    assert any(n.endswith(".ll") for n in names) and any(n.endswith(".o") for n in names)
    with pytest.raises(ValueError, match="no such compile option 'xla_dmp_to'"):
        lowered.compile({"xla_dmp_to": "x"})


def test_dump_variants(tmp_path: Path) -> None:
    lowered = jit(lambda x: jnp.sin(x) * 2 + np.arange(12.0, dtype=np.float32)).lower(jnp.ones(12))
    lowered.compile(
        {
            "xla_dump_to": str(tmp_path),
            "xla_dump_hlo_pass_re": "fusion",
            "xla_dump_disable_metadata": True,
            "xla_dump_large_constants": True,
        }
    )
    before = next(p for p in tmp_path.iterdir() if "before_optimizations" in p.name).read_text()
    assert "metadata" not in before and "10, 11}" in before
    after_fusion = [
        p for p in tmp_path.iterdir() if re.search(r"\.\d{4}\..*after_fusion\.before", p.name)
    ]
    assert after_fusion and "fusion(" in after_fusion[0].read_text()
    other = tmp_path / "other"
    lowered.compile({"xla_dump_to": str(other), "xla_dump_hlo_module_re": "nothing_like_this"})
    assert not [p for p in other.iterdir() if p.is_file()]  # only what the compiler was given


def test_passes_can_be_disabled() -> None:
    lowered = jit(lambda x: jnp.sin(x) * 2 + jnp.cos(x)).lower(jnp.ones(12))
    fused = lowered.compile()
    apart = lowered.compile({"xla_disable_hlo_passes": "fusion"})
    assert "fusion(" in fused.as_text() and "fusion(" not in apart.as_text()
    np.testing.assert_array_equal(apart(jnp.ones(12)), fused(jnp.ones(12)))


def test_unknown_dialect_and_stage() -> None:
    lowered = jit(lambda x: x).lower(1.0)
    with pytest.raises(ValueError, match="unknown dialect 'tosa'"):
        lowered.as_text("tosa")
    with pytest.raises(ValueError, match="no stage 'ptx'"):
        lowered.compile().as_text("ptx")


def test_results_do_not_depend_on_the_memory_they_reuse() -> None:
    f = jit(lambda x: jnp.cumsum(x)[::-1] * 2)
    expected = np.asarray(f(jnp.arange(1000.0))).copy()
    for _ in range(20):
        np.testing.assert_array_equal(f(jnp.arange(1000.0)), expected)


def test_threads_may_call_at_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    f = jit(lambda x: jnp.tanh(x @ x).sum())
    x = jnp.ones((64, 64)) * 0.01
    expected = float(f(x))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: float(f(x)), range(200)))
    assert set(results) == {expected}
