"""PartitionSpec: one object for each value, and what it refuses."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from pyjax import P

SPECS = [
    (P(), "P()"),
    (P("x"), "P('x',)"),
    (P(None), "P(None,)"),
    (P(None, ()), "P(None, None)"),
    (P("x", None, ("a", "b")), "P('x', None, ('a', 'b'))"),
    (P(P.UNCONSTRAINED), "P(UNCONSTRAINED,)"),
    (P("x", unreduced={"z", "y"}), "P('x', unreduced={'y', 'z'})"),
    (P("x", reduced={"y"}, unreduced={"z"}), "P('x', unreduced={'z'}, reduced={'y'})"),
]


@pytest.mark.parametrize("spec, text", SPECS, ids=repr)
def test_equal_specs_are_one_object(spec: P, text: str) -> None:
    assert repr(spec) == text
    assert P(*spec, unreduced=spec.unreduced, reduced=spec.reduced) is spec
    assert pickle.loads(pickle.dumps(spec)) is spec
    assert copy.copy(spec) is spec is copy.deepcopy(spec)
    assert [other for other, _ in SPECS if other == spec] == [spec]


def test_entries() -> None:
    assert P("x") is P(("x",)) is P(["x"]) and P(()) is P(None)
    assert P("x") != ("x",) and P("x") != P("x", None) and P("x") != "x"
    assert len(P("x", None)) == 2 and P("x", "y")[1] == "y" and list(P("x", None)) == ["x", None]
    assert P("x", "y")[:1] == ("x",) and P("x", "y").partitions == ("x", "y")
    assert P("x", "y").index("y") == 1 and P("x", "y").count("z") == 0 and "x" in P("x")


def test_joined() -> None:
    assert P("x") + P("y") is P("x", "y") is P("x") + ("y",) is ("x",) + P("y")
    assert P("x", unreduced={"a"}) + P("y", unreduced={"b"}) is P("x", "y", unreduced={"a", "b"})
    assert P("x", unreduced={"a"}).update(partitions=("y",)) is P("y", unreduced={"a"})


def _assign() -> None:
    P("x").unreduced = frozenset("y")  # type: ignore[misc]


def _delete() -> None:
    del P("x").reduced


ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: type("Own", (P,), {}), TypeError, "Subclassing `PartitionSpec` is prohibited"),
    (_assign, AttributeError, "cannot assign to field 'unreduced'"),
    (_delete, AttributeError, "cannot delete field 'reduced'"),
    (lambda: P((P.UNCONSTRAINED, "x")), ValueError, "UNCONSTRAINED stands alone"),
    (lambda: P((("x",), "y")), ValueError, r"\('x',\) in it"),
    (lambda: P({"x"}), TypeError, "unhashable"),
    (lambda: P("x", unreduced="y"), TypeError, "unreduced argument .* must be a set"),
    (lambda: P("x", reduced=("y",)), TypeError, "reduced argument .* must be a set"),
    (lambda: P(unreduced={None}), ValueError, "None is none"),
    (lambda: P("x", unreduced={"x"}), ValueError, "partitions and unreduced cannot overlap"),
    (lambda: P(("y", "x"), reduced={"x"}), ValueError, "partitions and reduced cannot overlap"),
    (lambda: P(unreduced={"x"}, reduced={"x"}), ValueError, "unreduced and reduced cannot"),
    (lambda: P("x", unreduced={"y"}) + ("z",), TypeError, "is a tuple, and cannot be joined"),
    (lambda: P("x") + ["z"], TypeError, "unsupported operand"),
    (lambda: P("x").index("z"), ValueError, "'z' is no entry of P"),
]


@pytest.mark.parametrize("call, kind, message", ERRORS)
def test_errors(call: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
