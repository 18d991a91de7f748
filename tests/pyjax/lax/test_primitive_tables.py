"""Every primitive has all its rules, and a row in the operator tables (or a test file of
its own).
"""

from __future__ import annotations

import inspect

import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.interpreters import rules
from tests.op_tables import OPS

# Primitives that are not functions of arrays to compare with NumPy, and where they are tested.
TESTED_ELSEWHERE = {
    "after_all": "test_tokens (below)",
    "create_token": "test_tokens (below)",
    "dce_sink": "test_dce_sink (below)",
    "rng_uniform": "test_random_primitives.py",
    "rng_bit_generator": "test_random_primitives.py",
    "random_seed": "test_random_primitives.py",
    "random_split": "test_random_primitives.py",
    "random_fold_in": "test_random_primitives.py",
    "random_bits": "test_random_primitives.py",
    "random_wrap": "test_random_primitives.py",
    "random_unwrap": "test_random_primitives.py",
    "random_clone": "test_random_primitives.py",
    "all_gather_invariant": "test_shard_map.py",
    "psum_invariant": "test_shard_map.py",
    "pvary": "test_shard_map.py",
    "all_gather_reduced": "test_shard_map_sums.py",
    "preduced": "test_shard_map_sums.py",
    "reduced_vary_cast": "test_shard_map_sums.py",
    "unreduced_psum": "test_shard_map_sums.py",
    "unreduced_reduce_scatter": "test_shard_map_sums.py",
    "vary_unreduced_cast": "test_shard_map_sums.py",
}
_LAX_MODULES = {
    "arithmetic", "bitwise", "collectives", "collectives_gather", "compare", "convert", "creation",
    "cumulative", "dot", "elementwise", "fft", "linalg", "misc", "nary", "random_bits",
    "random_keys", "reduce", "reduce_general", "shape", "shape_extra", "shape_join", "sort",
    "special.bessel", "special.error_functions", "special.gamma", "special.incomplete", "varying",
}  # fmt: skip


def _own_primitives():
    """Primitives that the modules above define."""
    names = set()
    for module in _LAX_MODULES:
        members = vars(inspect.importlib.import_module(f"pyjax.lax.{module}"))
        names |= {v.name for k, v in members.items() if k.endswith("_p") and hasattr(v, "bind")}
    return sorted(names)


@pytest.mark.parametrize("name", _own_primitives())
def test_has_a_row(name):
    rows = {op.primitive for op in OPS}
    assert name in rows or name in TESTED_ELSEWHERE


@pytest.mark.parametrize("name", _own_primitives())
def test_has_all_rules(name):
    primitive = rules.all_primitives[name]
    for table in (
        rules.jvp_rules,
        rules.transpose_rules,
        rules.batching_rules,
        rules.lowering_rules,
    ):
        rule = table.get(primitive)
        assert rule is not None, f"{name} has no {table.name} rule"
        if isinstance(rule, rules.Unsupported):
            assert len(rule.reason) > 10, f"{name}: say why there is no {table.name} rule"


@pytest.mark.parametrize("row", OPS, ids=lambda op: op.label)
def test_row_uses_its_primitive(row):
    """The jaxpr of a row contains the primitive the row is filed under."""
    args = row.draw(row.dtypes[0], row.shapes[0])
    text = str(pyjax.make_jaxpr(lambda *xs: row.fn(*xs))(*args))
    indirect = {
        "stop_gradient", "pad", "collapse", "getrf", "psum", "pmax", "pmin", "ppermute",
        "all_gather", "all_to_all", "reduce_scatter", "axis_index", "empty",
    }  # fmt: skip
    assert row.primitive in text or row.primitive in indirect


def test_tokens():
    def f(x):
        return x, lax.after_all(lax.create_token())

    assert "after_all" in str(pyjax.make_jaxpr(f)(1.0))


@pytest.mark.parametrize(
    "call", [lax.create_token, pyjax.jit(lax.create_token), pyjax.jit(lambda: lax.after_all())]
)
def test_tokens_stay_inside_of_programs(call) -> None:
    with pytest.raises(
        NotImplementedError, match=r"(?s)A token is an argument or a result.*ordered"
    ):
        call()


def test_dce_sink():
    def f(x):
        lax.dce_sink(lax.sin(x))
        return x

    assert float(pyjax.jit(f)(jnp.float32(2.0))) == 2.0
    assert "dce_sink" in str(pyjax.make_jaxpr(f)(1.0))
