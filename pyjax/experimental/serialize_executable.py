"""Compiled programs as bytes, for other processes on machines of the same kind."""

from __future__ import annotations

from collections.abc import Sequence

from pyjax.api import serialized_programs
from pyjax.api.stages import Compiled
from pyjax.core.errors import new_error
from pyjax.core.tree_util import PyTreeDef
from pyjax.runtime.devices import devices
from xla_backend.runtime.client import AbstractClient, Device


def serialize(compiled: Compiled) -> tuple[bytes, PyTreeDef, PyTreeDef]:
    """A compiled program as bytes: machine code, with its large constants.

    Args:
      compiled: of `jit(f).lower(...).compile()`.
    Returns:
      The bytes; and the trees of its arguments, as `(args, kwargs)`, and of its results, which can
      be pickled as far as the types in them can.
    Raises:
      TypeError: it is no compiled program.
      ValueError: it calls functions of this process (callbacks), takes mutable references, or the
        platform has no such bytes: they are made for CPUs.

    >>> compiled = pyjax.jit(jnp.sin).lower(0.0).compile()
    >>> loaded = deserialize_and_load(*serialize(compiled))
    >>> loaded(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    blob = serialized_programs.serialize(compiled)
    return blob, compiled.in_tree, compiled.out_tree


def deserialize_and_load(
    serialized: bytes,
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
    backend: str | AbstractClient | None = None,
    execution_devices: Sequence[Device] | None = None,
) -> Compiled:
    """The compiled program that `serialize` wrote, ready to be called; nothing is compiled.

    Load only what you have written yourself: bytes from elsewhere may run any code, here already
    and when the program is called.

    Args:
      serialized, in_tree, out_tree: what `serialize` returned.
      backend: name of a platform, or its client; None: the default one.
      execution_devices: the devices to run on, as many as it was compiled for; None: those with the
        same numbers.
    Raises:
      TypeError: `serialized` is no bytes.
      ValueError: they are damaged; or compiled by another version of pyjax, for another processor
        or another platform; or for a device that is not here, or one of another client than
        `backend`.

    >>> blob, in_tree, out_tree = serialize(pyjax.jit(lambda x: x + 1).lower(1).compile())
    >>> deserialize_and_load(blob, in_tree, out_tree)(2)
    Array(3, dtype=int32, weak_type=True)
    """
    if backend is None or isinstance(backend, str):
        backend = devices(backend)[0].client
    for device in execution_devices or ():
        if device.client is not backend:
            raise new_error(
                ValueError,
                "Execution devices belong to a client other than `backend`. Got backend client: "
                f"{(backend.platform, backend.platform_version)} and execution devices client: "
                f"{(device.client.platform, device.client.platform_version)}.",
                "A program is loaded by the client of the device that it runs on.",
                "Leave `backend` out and give devices of the default platform, or give both.",
            )
    return serialized_programs.deserialize(
        serialized, in_tree, out_tree, backend, execution_devices
    )


__all__ = ["deserialize_and_load", "serialize"]
