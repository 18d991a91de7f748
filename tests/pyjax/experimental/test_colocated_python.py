"""Functions and classes that run on the host of the devices of their arguments."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pyjax
from pyjax import numpy as jnp
from pyjax.experimental import colocated_python as module
from pyjax.experimental.colocated_python import (
    colocated_cpu_devices,
    colocated_python,
    colocated_python_class,
)
from pyjax.experimental.layout import Format, Layout
from pyjax.sharding import Mesh, SingleDeviceSharding

DEVICES = pyjax.devices("cpu")[:1]
X = jnp.arange(3)


def _sum(x: Any, y: Any = 0) -> Any:
    return x + y


def test_cpu_devices() -> None:
    assert colocated_cpu_devices(DEVICES) == DEVICES == colocated_cpu_devices(tuple(DEVICES))
    assert colocated_cpu_devices([]) == []
    mesh = Mesh(np.array(DEVICES), "x")
    assert colocated_cpu_devices(mesh) == mesh


def test_cpu_devices_of_accelerators(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [SimpleNamespace(platform="gpu", id=i) for i in range(3)]
    monkeypatch.setattr(module, "all_devices", lambda platform: [platform])
    assert colocated_cpu_devices(gpus) == ["cpu"] * 3
    monkeypatch.setattr(module, "all_devices", lambda _: ["first", "second"])
    assert colocated_cpu_devices(gpus[1::-1]) == ["second", "first"]
    with pytest.raises(ValueError, match="jax_num_cpu_devices"):
        colocated_cpu_devices(gpus)


def test_functions_run_eagerly_on_arrays_of_the_host() -> None:
    seen = []

    @colocated_python
    def mean_and_more(tree: Any, *, by: Any) -> Any:
        """Says so."""
        seen.append((tree, pyjax.devices()[0] in jnp.ones(()).devices()))
        return {"mean": jnp.asarray(np.mean(tree["x"])), "by": (tree["x"] * by, None)}

    got = mean_and_more({"x": X}, by=jnp.int32(2))
    assert seen[0][0]["x"] is X and seen[0][1]
    assert got["mean"] == 1 and got["by"][0].tolist() == [0, 2, 4] and got["by"][1] is None
    assert mean_and_more.__name__ == "mean_and_more" and mean_and_more.__doc__ == "Says so."


def _refused(_: Any) -> Any:
    raise LookupError("of the user")


def _struct(*shape: int) -> pyjax.ShapeDtypeStruct:
    return pyjax.ShapeDtypeStruct(shape, "int32", sharding=SingleDeviceSharding(DEVICES[0]))


SPECIALIZED = colocated_python(_sum).specialize(
    ((_struct(3),), {}), lambda x, y=None: _struct(3), DEVICES
)
RAISES = [
    (lambda: colocated_python(_sum)(np.arange(3)), ValueError, "ndarray.*arguments of _sum"),
    (lambda: colocated_python(_sum)(X, 2), ValueError, "int.*arguments of _sum"),
    (lambda: pyjax.jit(colocated_python(_sum))(X), ValueError, "pure_callback"),
    (lambda: colocated_python(lambda x: 3)(X), ValueError, "int.*result"),
    (lambda: colocated_python(lambda: X)(), ValueError, "No devices found"),
    (lambda: colocated_python(_refused)(X), LookupError, "of the user"),
    (lambda: SPECIALIZED.specialize(devices=DEVICES), ValueError, "devices already specified"),
    (lambda: SPECIALIZED.specialize(in_specs=((), {})), ValueError, "in_specs already specified"),
    (lambda: SPECIALIZED.specialize(out_specs_fn=_sum), ValueError, "out_specs_fn already"),
    (lambda: SPECIALIZED(jnp.arange(4)), ValueError, r"int32\[4\].*int32\[3\]"),
    (lambda: SPECIALIZED(jnp.ones(3)), ValueError, r"float32\[3\].*int32\[3\]"),
    (lambda: colocated_python_class(3), TypeError, "it wraps classes"),
]


@pytest.mark.parametrize(("call", "error", "says"), RAISES)
def test_what_is_refused(call: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=f"(?s){says}"):
        call()


def test_specialized() -> None:
    assert SPECIALIZED(X, X).tolist() == [0, 2, 4]
    ones = colocated_python(lambda: jnp.ones(2))
    assert ones.specialize(devices=DEVICES)().tolist() == [1, 1]
    assert ones.specialize(in_specs=((_struct(1),), {}))().tolist() == [1, 1]


def test_classes() -> None:
    made = []

    @colocated_python_class
    class Counter:
        """Counts."""

        limit = 3

        def __init__(self, start: int) -> None:
            made.append(start)
            self.count = start

        def __call__(self, x: Any) -> Any:
            return x

        def add(self, x: Any) -> Any:
            self.count = self._sum(x)
            return self.count

        def _sum(self, x: Any) -> Any:
            return self.count + x

        @staticmethod
        def twice(x: Any) -> Any:
            return 2 * x

        @classmethod
        def named(cls, x: Any) -> Any:
            return x

        @property
        def half(self) -> Any:
            return self.count / 2

    counter, other = Counter(10), Counter(start=5)
    assert made == [] and (Counter.__name__, Counter.__doc__) == ("Counter", "Counts.")
    one = jnp.int32(1)
    assert (counter.add(one), counter.add(one), other.add(one)) == (11, 12, 6)
    assert made == [10, 5] and counter.twice(one) == 2
    assert counter.add.specialize(devices=DEVICES)(one) == 13
    assert not any(hasattr(counter, n) for n in ("limit", "count", "half", "named", "__call__"))
    Counter()  # makes nothing, and finds out in the first call
    with pytest.raises(TypeError, match="start"):
        Counter().add(one)


ONE = SingleDeviceSharding(DEVICES[0])
FORMATS = [Format(), Format(None, ONE), Format(Layout((0,)), ONE), Format(Layout.AUTO, ONE)]


@pytest.mark.parametrize("target", FORMATS, ids=str)
def test_device_put_takes_formats(target: Format) -> None:
    got = pyjax.device_put({"a": X, "b": np.ones(2, "float32")}, target)
    assert got["a"].tolist() == [0, 1, 2] and got["b"].devices() == set(DEVICES)
    mixed = pyjax.device_put([X, X], [target, None])
    assert mixed[0].tolist() == mixed[1].tolist() == [0, 1, 2]


def test_device_put_refuses_layouts_that_no_array_has() -> None:
    with pytest.raises(NotImplementedError, match="order of NumPy"):
        pyjax.device_put(jnp.ones((2, 3)), Format(Layout((1, 0)), ONE))
    with pytest.raises(ValueError, match="rank of the value"):
        pyjax.device_put(X, Format(Layout((0, 1)), ONE))
