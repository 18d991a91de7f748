"""Compiled programs as bytes. Layer: api.

    PYJAXRUN | format, 2 bytes | SHA-256 of what follows | a pickle: `_Record`

The checksum finds damage before anything is unpickled; whom bytes come from it does not tell.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from pyjax.api.stages import Compiled, MadeOf
from pyjax.core.avals import ShapedArray
from pyjax.core.debug_info import DebugInfo
from pyjax.core.errors import fail
from pyjax.core.tree_util import PyTreeDef
from pyjax.runtime.array import array_from_host
from pyjax.runtime.dispatch import make_program
from pyjax.runtime.result_layouts import ProgramLayouts
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.proto import module_from_proto, module_to_proto
from xla_backend.runtime.client import AbstractClient, Device

_START = struct.Struct("<8sH32s")
_MAGIC = b"PYJAXRUN"
_FORMAT = 1


class _Record(NamedTuple):
    platform: str
    device_id: int
    committed: bool
    module: bytes
    content: bytes  # what the client wrote
    compile_options: CompileOptions
    in_avals: Sequence[ShapedArray]
    out_avals: Sequence[ShapedArray]
    donated: tuple[bool, ...]
    constants: Sequence[tuple[ShapedArray, np.ndarray]]
    function: str  # its name and place, for messages
    layouts: ProgramLayouts


def serialize(compiled: Compiled) -> bytes:
    """The bytes of a compiled program.

    Raises:
      ValueError: it holds what cannot leave the process.
    """
    if not isinstance(compiled, Compiled):
        fail(
            TypeError,
            f"serialize takes a compiled program, got {type(compiled).__name__}",
            "functions are compiled for one kind of arguments at a time",
            "write serialize(jit(f).lower(*args).compile())",
        )
    made_of = compiled._made_of
    name = made_of.debug.function
    if made_of.with_refs:
        _no_serialization(name, "it takes or closes over mutable references")
    client = made_of.device.client
    try:
        content = client.serialize_program(made_of.module, made_of.compile_options)
    except UnimplementedError as error:
        _no_serialization(name, str(error))
    record = _Record(
        client.platform,
        made_of.device.id,
        made_of.committed,
        module_to_proto(made_of.module),
        content,
        made_of.compile_options,
        compiled._flat_in_avals,
        compiled._flat_out_avals,
        compiled._donated,
        [(x.aval, np.asarray(x.stored_array)) for x in made_of.constants],
        name,
        made_of.layouts,
    )
    buffer = io.BytesIO()
    _Pickler(buffer).dump(tuple(record))
    body = buffer.getvalue()
    return _START.pack(_MAGIC, _FORMAT, hashlib.sha256(body).digest()) + body


def _no_serialization(name: str, why: str) -> NoReturn:
    fail(
        ValueError,
        f"Compilation does not support serialization: {name}",
        why,
        "pyjax.export.export(f)(...).serialize() keeps programs that are compiled where they are "
        "loaded",
    )


def deserialize(
    blob: bytes,
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
    client: AbstractClient,
    devices: Sequence[Device] | None,
) -> Compiled:
    """The compiled program of bytes.

    Args:
      devices: one to run on; None: that with the number of the one that it was compiled for.
    Raises:
      TypeError, ValueError: as `experimental.serialize_executable.deserialize_and_load`.
    """
    body = _checked(blob)
    found = _Unpickler(io.BytesIO(body), client, devices)
    record = _Record(*found.load())
    if record.platform != client.platform:
        _unusable(f"it was compiled for {record.platform}, and is loaded for {client.platform}")
    for name, tree, avals in (
        ("in_tree", in_tree, record.in_avals),
        ("out_tree", out_tree, record.out_avals),
    ):
        if tree.num_leaves != len(avals):
            _unusable(f"{name} has {tree.num_leaves} leaves, and the program {len(avals)} arrays")
    module = module_from_proto(record.module)
    options = record.compile_options
    device = found.persistent_load(record.device_id)
    try:
        executable = client.load_program(record.content, module, options)
    except ValueError as error:
        _unusable(str(error))
    constants = [array_from_host(x, aval, device) for aval, x in record.constants]
    debug = DebugInfo("jit", record.function)
    committed = record.committed or devices is not None
    layouts = ProgramLayouts(*record.layouts)
    program = make_program(
        executable, constants, record.out_avals, device, committed, debug, layouts
    )
    made_of = MadeOf(module, options, constants, device, committed, debug, None, False, layouts)
    signature = (record.in_avals, record.out_avals, in_tree, out_tree, record.donated)
    return Compiled(signature, made_of, executable, program)


def _checked(blob: bytes) -> bytes:
    if not isinstance(blob, (bytes, bytearray, memoryview)):
        fail(
            TypeError,
            f"deserialize_and_load takes bytes, got {type(blob).__name__}",
            "a serialized program is the first result of serialize(compiled)",
            "read the file in binary mode: open(path, 'rb').read()",
        )
    data = bytes(blob)
    if len(data) < _START.size or not data.startswith(_MAGIC):
        _unusable(f"it begins with {data[:8]!r} instead of {_MAGIC!r}")
    _, version, digest = _START.unpack_from(data)
    if version != _FORMAT:
        _unusable(f"it has format {version}, and this version of pyjax reads {_FORMAT}")
    body = data[_START.size :]
    if hashlib.sha256(body).digest() != digest:
        _unusable("it is damaged: its checksum is not that of its contents")
    return body


class _Pickler(pickle.Pickler):
    """Devices are written by their numbers."""

    def persistent_id(self, obj: Any) -> int | None:
        return obj.id if isinstance(obj, Device) else None


class _Unpickler(pickle.Unpickler):
    """Devices are those of a client; or one that was chosen, as programs run on one."""

    def __init__(
        self, file: io.BytesIO, client: AbstractClient, devices: Sequence[Device] | None
    ) -> None:
        super().__init__(file)
        self._client = client
        self._devices = devices

    def persistent_load(self, pid: int) -> Device:
        if self._devices is not None:
            if len(self._devices) != 1:
                _unusable(f"it runs on one device, and execution_devices has {len(self._devices)}")
            return self._devices[0]
        for device in self._client.devices():
            if device.id == pid:
                return device
        _unusable(f"it was compiled for device {pid}, which is not here")


def _unusable(why: str) -> NoReturn:
    fail(
        ValueError,
        "the serialized program cannot be loaded",
        why,
        "serialize it again with what loads it; pyjax.export keeps programs that are compiled "
        "where they are loaded",
    )
