"""Python functions that run on the host of the devices of their arguments.

There is one process, whose host is this one: functions are called here, on arrays of its CPU
devices, and objects of classes live here.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast, overload

import numpy as np

from pyjax._config.options_devices import default_device
from pyjax.core.errors import fail, new_error
from pyjax.core.tree_util import tree_leaves, tree_map
from pyjax.runtime.array import DeviceArray
from pyjax.runtime.devices import devices as all_devices
from pyjax.runtime.placement import device_put
from pyjax.sharding.mesh import Mesh
from pyjax.sharding.shardings import NamedSharding, Sharding, SingleDeviceSharding
from xla_backend.runtime.client import Device

_Class = TypeVar("_Class", bound=type)


@overload
def colocated_cpu_devices(devices_or_mesh: Mesh) -> Mesh: ...


@overload
def colocated_cpu_devices(devices_or_mesh: Iterable[Device]) -> list[Device]: ...


def colocated_cpu_devices(devices_or_mesh: Mesh | Iterable[Device]) -> Mesh | list[Device]:
    """The CPU devices on the hosts of devices, in the same order.

    A CPU device is its own; the accelerator of number i has the CPU device of number i, and all
    accelerators the only one there is where there is one.

    Args:
      devices_or_mesh: devices, or a mesh of them.
    Returns:
      A list of devices, or a mesh with the same axes.
    Raises:
      ValueError: there are several CPU devices, and fewer than the number of an accelerator says.

    >>> import pyjax
    >>> [d.platform for d in colocated_cpu_devices(pyjax.devices())]
    ['cpu']
    """
    if isinstance(devices_or_mesh, Mesh):
        mesh = devices_or_mesh
        found = np.empty(mesh.devices.shape, dtype=object)
        found.reshape(-1)[:] = colocated_cpu_devices(mesh.devices.flat)
        return Mesh(found, mesh.axis_names, axis_types=mesh.axis_types)
    return [_cpu_device_of(device) for device in devices_or_mesh]


def _cpu_device_of(device: Device) -> Device:
    if device.platform == "cpu":
        return device
    hosts = all_devices("cpu")
    if len(hosts) == 1:
        return hosts[0]
    if device.id < len(hosts):
        return hosts[device.id]
    fail(
        ValueError,
        f"No CPU device belongs to {device}.",
        f"there are {len(hosts)} CPU devices, and the accelerator of number i has the one of "
        "number i",
        "set jax_num_cpu_devices to the number of accelerators, or to 1.",
    )


def _cpu_sharding_of(sharding: Sharding) -> Sharding:
    if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh):
        return NamedSharding(colocated_cpu_devices(sharding.mesh), sharding.spec)
    (device,) = colocated_cpu_devices(sharding.device_set)
    return SingleDeviceSharding(device)


def _on_cpu(array: DeviceArray) -> DeviceArray:
    if all(device.platform == "cpu" for device in array.devices()):
        return array
    return device_put(array, _cpu_sharding_of(array.sharding))


def _check_arrays(tree: Any, name: str) -> None:
    for leaf in tree_leaves(tree):
        if not isinstance(leaf, DeviceArray):
            fail(
                ValueError,
                f"colocated_python only supports jax.Array as input and output, but got "
                f"{type(leaf)} in {name}.",
                "what functions on other hosts take and give are arrays on devices",
                "make it an array with jnp.asarray or device_put; in traced functions use "
                "jax.pure_callback or jax.experimental.io_callback.",
            )


class _Specialization:
    """What is known of a function before it is called; each is said at most once."""

    def __init__(
        self,
        in_specs: Any = None,
        out_specs_fn: Callable[..., Any] | None = None,
        devices: Sequence[Device] | None = None,
    ) -> None:
        self.in_specs = in_specs
        self.out_specs_fn = out_specs_fn
        self.devices = None if devices is None else tuple(devices)

    def with_more(self, in_specs: Any, out_specs_fn: Any, devices: Any) -> _Specialization:
        more = {"in_specs": in_specs, "out_specs_fn": out_specs_fn, "devices": devices}
        for name, value in more.items():
            if getattr(self, name) is None:
                continue
            if value is not None:
                raise new_error(ValueError, f"{name} already specified")
            more[name] = getattr(self, name)
        return _Specialization(**more)

    def devices_for(self, arguments: Any, name: str) -> list[Device]:
        """The CPU devices to run on.

        Raises:
          ValueError: nothing says which, or arguments lie on different ones.
        """
        if self.devices:
            return colocated_cpu_devices(self.devices)
        known = tree_leaves(arguments) or tree_leaves(self.in_specs)
        sets = {frozenset(x.sharding.device_set) for x in known if x.sharding is not None}
        if not sets:
            fail(
                ValueError,
                "No devices found. colocated_python function without input arguments must be "
                "first specialized with devices.",
                f"{name} runs where its arguments are, and has none",
                f"write {name}.specialize(devices=jax.devices())().",
            )
        if len(sets) > 1:
            fail(
                ValueError,
                f"{name} has arguments on different devices.",
                "it runs where its arguments are",
                "put all of them on the same devices, with jax.device_put.",
            )
        return colocated_cpu_devices(sorted(*sets, key=lambda device: device.id))


def _checked_result(result: Any, specs: Any, name: str) -> Any:
    """The result, if it is what `out_specs_fn` said.

    Raises:
      ValueError: its structure, a shape or a dtype differs.
    """

    def check(spec: Any, x: DeviceArray) -> DeviceArray:
        if (spec.shape, spec.dtype) != (x.shape, x.dtype):
            fail(
                ValueError,
                f"{name} returned {x.dtype}{list(x.shape)}, where its out_specs_fn says "
                f"{spec.dtype}{list(spec.shape)}.",
                "callers count on what was said",
                "return arrays of that shape and dtype, or change out_specs_fn.",
            )
        return x

    return tree_map(check, specs, result)


def colocated_python(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs on the host of the devices of its arguments, eagerly.

    Arrays on accelerators are copied to the CPU devices beside them (`colocated_cpu_devices`), and
    the results stay there. In the function the default device is the first of these CPU devices.

    Args:
      fun: takes trees of arrays and returns one.
    Returns:
      The function, with a method `specialize(in_specs=None, out_specs_fn=None, devices=None)` that
      returns it with what is known before: the specs `(args, kwargs)` of its arguments, which say
      where it runs if it has none; a function from those of the arguments to the specs of the
      result, which is then checked; the devices to run for, which functions without arguments need.
    Raises:
      ValueError: (in calls) a leaf of arguments or results is no array, no devices are known,
        arguments lie on different ones, or something is specified twice.
    What `fun` raises comes out as it is.

    >>> import pyjax
    >>> import pyjax.numpy as jnp
    >>> @colocated_python
    ... def on_the_host(x):
    ...     return jnp.asarray(np.sort(np.asarray(x)))
    >>> on_the_host(jnp.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    >>> @colocated_python
    ... def ones():
    ...     return jnp.ones(2)
    >>> ones.specialize(devices=pyjax.devices())()
    Array([1., 1.], dtype=float32)
    """
    return _colocated(fun, _Specialization())


def _colocated(fun: Callable[..., Any], known: _Specialization) -> Callable[..., Any]:
    name = fun.__name__

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        _check_arrays((args, kwargs), f"the arguments of {name}")
        hosts = known.devices_for((args, kwargs), name)
        args, kwargs = tree_map(_on_cpu, (args, kwargs))
        with default_device(hosts[0]):
            result = fun(*args, **kwargs)
        _check_arrays(result, f"the result of {name}")
        if known.out_specs_fn is None:
            return result
        return _checked_result(result, known.out_specs_fn(*args, **kwargs), name)

    def specialize(
        in_specs: Any = None,
        out_specs_fn: Callable[..., Any] | None = None,
        devices: Sequence[Device] | None = None,
    ) -> Callable[..., Any]:
        """The function with more that is known of it; see `colocated_python`."""
        return _colocated(fun, known.with_more(in_specs, out_specs_fn, devices))

    call.specialize = specialize  # type: ignore[attr-defined]
    return call


def colocated_python_class(cls: _Class) -> _Class:
    """A class whose methods run on the host of the devices of their arguments.

    An object of it has the methods of `cls` (and its static ones) whose names do not begin with two
    underscores, each as `colocated_python` makes it, and nothing else: attributes stay on the host.
    The object of `cls` behind it is made by the first call of a method, with the arguments that
    the constructor was given, and goes with the last reference to the object in front.

    Args:
      cls: the class; its constructor takes anything.
    Returns:
      The class of the objects in front, with the name and the docstring of `cls`.
    Raises:
      TypeError: `cls` is no class.

    >>> import pyjax.numpy as jnp
    >>> @colocated_python_class
    ... class Counter:
    ...     def __init__(self, start):
    ...         self.count = start
    ...
    ...     def add(self, x):
    ...         self.count = self.count + x
    ...         return self.count
    >>> counter = Counter(10)
    >>> counter.add(jnp.int32(1)), counter.add(jnp.int32(1))
    (Array(11, dtype=int32), Array(12, dtype=int32))
    """
    if not isinstance(cls, type):
        fail(
            TypeError,
            f"colocated_python_class of {cls!r}.",
            "it wraps classes",
            "use colocated_python for a function.",
        )

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        self._behind = _Behind(cls, args, kwargs)
        for name in methods:
            setattr(self, name, _method(self._behind, name, getattr(cls, name)))

    methods = [
        name
        for name in dir(cls)
        if not name.startswith("__") and _is_method(getattr(cls, name, None))
    ]
    names = {"__init__": initialise, "__doc__": cls.__doc__, "__module__": cls.__module__}
    return cast(_Class, type(cls.__name__, (), {**names, "__qualname__": cls.__qualname__}))


def _is_method(found: Any) -> bool:
    # A class method is bound already: it needs no object, and has no place on the host.
    return callable(found) and not isinstance(found, type) and not hasattr(found, "__self__")


class _Behind:
    """The object of the user's class, made when it is first asked for."""

    def __init__(self, cls: type, args: Any, kwargs: Any) -> None:
        self._make = functools.partial(cls, *args, **kwargs)
        self._lock = threading.Lock()
        self._made: list[Any] = []

    def get(self) -> Any:
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]


def _method(behind: _Behind, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def method(*args: Any, **kwargs: Any) -> Any:
        return getattr(behind.get(), name)(*args, **kwargs)

    method.__name__ = name
    method.__doc__ = original.__doc__
    return colocated_python(method)


__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]
