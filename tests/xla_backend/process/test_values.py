"""Small immutable records."""

import copy
import pickle

import pytest

from xla_backend.process.values import Value


class Point(Value):
    x: int
    y: int = 2


class Other(Value):
    x: int
    y: int = 2


def test_records_are_values() -> None:
    point = Point(1)
    assert (
        point == Point(1, y=2)
        and hash(point) == hash(Point(1, 2))
        and repr(point) == "Point(x=1, y=2)"
    )
    assert point != Point(1, 3) and point != Other(1) and point != (1, 2)
    assert pickle.loads(pickle.dumps(point)) == copy.deepcopy(point) == copy.copy(point) == point
    with pytest.raises(AttributeError, match="Point is immutable"):
        point.x = 3  # type: ignore[misc]


def test_with_some_fields_changed() -> None:
    point = Point(1)
    assert point._replace(y=5) == Point(1, 5) and point == Point(1, 2)
    assert point._asdict() == {"x": 1, "y": 2}
    with pytest.raises(TypeError, match=r"Point: missing \[\], unknown \['z'\]"):
        point._replace(z=1)


def test_fields_that_are_missing_unknown_or_too_many() -> None:
    with pytest.raises(TypeError, match=r"missing \['x'\]"):
        Point(y=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="has 2 fields, got 3"):
        Point(1, 2, 3)  # type: ignore[call-arg]
