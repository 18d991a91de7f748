"""print_saved_residuals, debug.log, structures as messages."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import debug
from pyjax.ad_checkpoint import (
    Offloadable,
    Recompute,
    Saveable,
    checkpoint_name,
    print_saved_residuals,
)
from pyjax.tree_util import default_registry, tree_structure


def f(x: Any, y: float = 2.0) -> Any:
    return jnp.sum(jnp.sin(jnp.cos(x)) * x)


def printed(capsys: Any, *args: Any, **kwargs: Any) -> list[str]:
    print_saved_residuals(*args, **kwargs)
    lines = capsys.readouterr().out.splitlines()
    return sorted(line.partition(" from ")[0] for line in lines)


def test_residuals(capsys: Any) -> None:
    x = jnp.ones(3)
    outputs = printed(capsys, f, x)
    assert outputs == ["f32[3]", "f32[3] output of cos", *["f32[3] output of sin"] * 2]
    print_saved_residuals(pyjax.checkpoint(f), x)
    assert capsys.readouterr().out == "f32[3] from the argument x\n"
    print_saved_residuals(lambda d, y: d["a"] * y, {"a": x}, 2.0)
    assert "f32[3] from the argument d['a']" in capsys.readouterr().out
    policy = pyjax.checkpoint_policies.save_only_these_names("kept")
    named = pyjax.checkpoint(lambda x: jnp.sin(checkpoint_name(jnp.sin(x), "kept")), policy=policy)
    print_saved_residuals(named, x)
    assert "f32[3] named 'kept' from" in capsys.readouterr().out


def test_answers_of_policies() -> None:
    def residuals(answer: Any) -> int:
        g = pyjax.checkpoint(lambda x: jnp.sin(jnp.sin(x)), policy=lambda *_, **__: answer)
        return len(pyjax.tree.leaves(pyjax.vjp(g, 1.0)[1]))

    assert residuals(Saveable) == residuals(True) > residuals(Recompute) == residuals(False)
    assert residuals(Offloadable("device", "pinned_host")) == residuals(True)
    assert (repr(Saveable), repr(Recompute)) == ("Saveable", "Recompute")


def test_log(caplog: Any) -> None:
    with caplog.at_level(logging.INFO, "pyjax.debug"):
        debug.log("x={}", 3)
        pyjax.jit(lambda x: debug.log("y={y}", y=x, ordered=True))(2.0)
        pyjax.effects_barrier()
    assert [r.getMessage() for r in caplog.records] == ["x=3", "y=2.0"]


TREES = [0, None, [1, (2, None)], {"a": [1, 2], "b": None, "c": (3,)}, {"b": {"a": 0}, "a": {}}, ()]


@pytest.mark.parametrize("tree", TREES)
def test_structures_as_messages(tree: Any) -> None:
    structure = tree_structure(tree)
    message = structure.serialize_using_proto()
    assert type(structure).deserialize_using_proto(default_registry, message) == structure


# What JAX 0.10.2 gives for the same structure.
KNOWN = (
    b"\n\x02\x10\x01\n\x02\x10\x01\n\x04\x08\x02\x10\x02\n\x02\x10\x03\n\x02\x10\x01\n\x04\x08\x01"
    b"\x10\x04\n\x0b\x08\x03\x10\x05\x1a\x05\n\x03\x00\x01\x02\x12\x01a\x12\x01b\x12\x01c"
)


def test_messages_are_those_of_the_reference() -> None:
    structure = tree_structure({"a": [1, 2], "b": None, "c": (3,)})
    assert structure.serialize_using_proto() == KNOWN
    with pytest.raises(ValueError, match="text keys"):
        tree_structure({1: 2}).serialize_using_proto()
    for broken in (KNOWN[:-1], b"\n\x02\x10\x09", b"\n\x04\x08\x02\x10\x02", KNOWN[:8]):
        with pytest.raises(ValueError, match="PyTreeDef"):
            type(structure).deserialize_using_proto(default_registry, broken)


def test_registry_and_roots() -> None:
    structure = tree_structure([1, (2,)])
    made = type(structure).from_node_data_and_children(
        default_registry, structure.node_data(), structure.children()
    )
    assert made == structure
    assert default_registry.is_node(list) and not default_registry.is_node(int)
    assert default_registry.flatten([1, 2])[0] == [1, 2]
    assert default_registry.flatten_one_level(3) is None


def test_small_names_of_arrays() -> None:
    x = jnp.arange(3.0)
    again = x.clone()
    np.testing.assert_array_equal(again, x)
    assert again.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    struct = pyjax.ShapeDtypeStruct((2,), "float32")
    assert (struct.is_ref, struct.manual_axis_type) == (False, None)
