"""Dataclasses that compile nothing until somebody asks for it, beside the standard ones."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass
from typing import Any, ClassVar

import pytest

from pyjax.core.exact_keys import exact_key
from xla_backend.process import light_dataclasses
from xla_backend.process.light_dataclasses import field

light: Any = light_dataclasses.dataclass
OPTIONS: list[dict[str, bool]] = [
    {},
    {"eq": False},
    {"eq": False, "slots": True},
    {"frozen": True},
    {"frozen": True, "eq": False},
    {"frozen": True, "slots": True},
    {"frozen": True, "eq": False, "repr": False},
    {"slots": True},
]


@light(frozen=True, slots=True)
class Point:
    """A module's class, as pickles need it."""

    x: int
    y: int = 2


def classes(decorator: Any, **options: bool) -> tuple[type, type]:
    """A class, and one that is derived from it."""

    @decorator(**options)
    class Base:
        """A docstring."""

        kinds: ClassVar[tuple[str, ...]] = ("a",)
        a: int
        b: list[int] = field(default_factory=list)
        c: Any = 3
        kept: dict[str, int] = field(default_factory=dict, init=False, compare=False, repr=False)

        def total(self) -> int:
            return self.a + int(self.c) + len(self.b)

    @decorator(**options)
    class Derived(Base):
        """Another one."""

        c: Any = 5
        d: str = field(default="d", compare=False)

        def __post_init__(self) -> None:
            self.kept["seen"] = self.a

    return Base, Derived


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, [2]), {"c": 4}),
    ((), {"a": 1, "b": [3], "c": float("nan")}),
    ((1,), {}),
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_objects_are_those_of_standard_dataclasses(options: dict[str, bool]) -> None:
    for ours, standard in zip(classes(light, **options), classes(dataclass, **options)):
        made = [ours(*given, **named) for given, named in CALLS]
        expected = [standard(*given, **named) for given, named in CALLS]
        for one, other in zip(made, expected):
            assert dataclasses.asdict(one) == dataclasses.asdict(other) or one.c != one.c
            assert one.total() == other.total() if one.c == one.c else True
            assert one.kept == other.kept and hasattr(one, "__dict__") == hasattr(other, "__dict__")
            if options.get("repr", True):
                assert repr(one) == repr(other)
        assert [x == y for x in made for y in made] == [x == y for x in expected for y in expected]
        assert (made[0] == expected[0], made[0] != made[1]) == (False, True)
        assert ours.__match_args__ == standard.__match_args__
        assert (ours.__hash__ is None) == (standard.__hash__ is None)
        for name in ("__slots__", "__doc__", "__qualname__", "kinds"):
            assert getattr(ours, name, None) == getattr(standard, name, None)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_errors_are_those_of_standard_dataclasses(options: dict[str, bool]) -> None:
    def error(action: Callable[[], Any]) -> tuple[type, str] | None:
        try:
            action()
        except (TypeError, AttributeError) as found:
            return type(found), str(found)
        return None

    def found(decorator: Any) -> list[Any]:
        _, cls = classes(decorator, **options)
        one = cls(1)
        return [
            error(cls),
            error(lambda: cls(1, 2, 3, 4, 5)),
            error(lambda: cls(1, z=2)),
            error(lambda: setattr(one, "a", 2)),
            error(lambda: delattr(one, "a")),
        ]

    assert found(light) == found(dataclass)


def test_values_are_hashed_pickled_and_immutable() -> None:
    point = Point(1)
    assert hash(point) == hash(Point(1, 2)) and len({point, Point(1), Point(2)}) == 2
    assert pickle.loads(pickle.dumps(point)) == copy.deepcopy(point) == copy.copy(point) == point
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 3
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    assert exact_key(Point(1, 0)) != exact_key(Point(1, False))


def test_functions_of_dataclasses_take_them() -> None:
    assert dataclasses.is_dataclass(Point) and dataclasses.is_dataclass(Point(1))
    assert [f.name for f in dataclasses.fields(Point)] == ["x", "y"]
    assert dataclasses.replace(Point(1), y=7) == Point(1, 7)

    @dataclass(frozen=True)
    class Further(Point):
        z: int = 3

    assert Further(1) == Further(1, 2, 3) != Further(1, 2, 4)


def test_nothing_is_compiled_until_an_object_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    compile_init = light_dataclasses._compiled_init

    def noting(cls: type, *rest: Any) -> Any:
        compiled.append(cls.__name__)
        return compile_init(cls, *rest)

    monkeypatch.setattr(light_dataclasses, "_compiled_init", noting)
    base, derived = classes(light)
    assert compiled == []
    for _ in range(2):
        derived(1)
    assert compiled == ["Derived"]
    assert base(1).total() == 4 and compiled == ["Derived", "Base"]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_parameters_are_told_before_an_object_is_made(options: dict[str, bool]) -> None:
    for ours, standard in zip(classes(light, **options), classes(dataclass, **options)):
        assert str(inspect.signature(ours)) == str(inspect.signature(standard))
        assert inspect.getfullargspec(ours.__init__).args == ["self", *ours.__match_args__]


def test_init_may_be_wrapped_before_an_object_is_made() -> None:
    _, cls = classes(light)
    before, seen = cls.__init__, []

    def noting(self: Any, *given: Any) -> None:
        seen.append(given)
        before(self, *given)

    cls.__init__ = noting
    assert [cls(1).a, cls(2).a, seen] == [1, 2, [(1,), (2,)]]


def test_init_may_be_patched_before_an_object_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    _, cls = classes(light)
    with monkeypatch.context() as patched:
        patched.setattr(cls, "__init__", lambda self: None)
        assert not hasattr(cls(), "b")
    assert cls(1).a == 1


def test_threads_that_make_the_first_object_at_the_same_time() -> None:
    for _ in range(50):
        _, cls = classes(light, slots=True)
        together = threading.Barrier(4)
        found: list[Any] = []

        def make() -> None:
            together.wait()  # noqa: B023
            found.append(cls(1, [2]))  # noqa: B023

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [cls(1, [2])] * 4


def test_mistakes_are_told_where_a_class_is_defined() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.b needs a default, for a has one"):

        @light
        class Wrong:
            a: int = 1
            b: int

    with pytest.raises(ValueError, match=r"Shared\.a: objects would share it"):

        @light
        class Shared:
            a: list[int] = []

    @dataclass
    class Standard:
        a: int

    with pytest.raises(TypeError, match="Derived is light, its base Standard a standard dataclass"):

        @light
        class Derived(Standard):
            b: int
