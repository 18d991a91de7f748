"""Compiled programs as bytes. Layer: api.

    PYJAXRUN | format, 2 bytes | SHA-256 of what follows | pickles: numbers of devices, `_Record`

The checksum finds damage before anything is unpickled; whom bytes come from it does not tell.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from pyjax.api.stages import Compiled, MadeOf
from pyjax.core.avals import ShapedArray
from pyjax.core.debug_info import DebugInfo
from pyjax.core.errors import fail
from pyjax.core.tree_util import PyTreeDef
from pyjax.runtime.array import array_from_host
from pyjax.runtime.dispatch import make_program
from pyjax.runtime.placement import device_put
from pyjax.runtime.result_layouts import ProgramLayouts
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.proto import module_from_proto, module_to_proto
from xla_backend.runtime.client import AbstractClient, Device
from xla_backend.runtime.device_group import DeviceGroup, device_group

_START = struct.Struct("<8sH32s")
_MAGIC = b"PYJAXRUN"
_FORMAT = 2


class _Record(NamedTuple):
    platform: str
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
    pickle.dump(tuple(device.id for device in _devices(made_of.device)), buffer)
    _Pickler(buffer).dump(tuple(record))
    body = buffer.getvalue()
    return _START.pack(_MAGIC, _FORMAT, hashlib.sha256(body).digest()) + body


def _devices(device: Device) -> Sequence[Device]:
    return device.devices if isinstance(device, DeviceGroup) else (device,)


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
      devices: those to run on; None: those with the numbers of the ones that it was compiled for.
    Raises:
      TypeError, ValueError: as `experimental.serialize_executable.deserialize_and_load`.
    """
    body = _checked(blob)
    file = io.BytesIO(body)
    numbers: tuple[int, ...] = pickle.load(file)
    places = dict(zip(numbers, _chosen(numbers, client, devices)))
    record = _Record(*_Unpickler(file, places).load())
    device = device_group([places[number] for number in numbers])
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
    try:
        executable = device.client.load_program(record.content, module, options)
    except ValueError as error:
        _unusable(str(error))
    layouts = ProgramLayouts(*record.layouts)
    constants = [array_from_host(x, aval, device) for aval, x in record.constants]
    if isinstance(device, DeviceGroup):
        cut = layouts.inputs[len(record.in_avals) :]
        constants = [device_put(x, sharding) for x, sharding in zip(constants, cut)]
    debug = DebugInfo("jit", record.function)
    committed = record.committed or devices is not None
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
    """Devices are found by the numbers of those that stood for them."""

    def __init__(self, file: io.BytesIO, places: Mapping[int, Device]) -> None:
        super().__init__(file)
        self._places = places

    def persistent_load(self, pid: int) -> Device:
        return self._places[pid]


def _chosen(
    numbers: Sequence[int], client: AbstractClient, devices: Sequence[Device] | None
) -> Sequence[Device]:
    """The devices to run on, for these of the program."""
    if devices is not None:
        if len(devices) != len(numbers):
            count = f"{len(numbers)} device{'s' if len(numbers) > 1 else ''}"
            _unusable(f"it runs on {count}, and execution_devices has {len(devices)}")
        return devices
    here = {device.id: device for device in client.devices()}
    missing = [number for number in numbers if number not in here]
    if missing:
        _unusable(f"it was compiled for device {missing[0]}, which is not here")
    return [here[number] for number in numbers]


def _unusable(why: str) -> NoReturn:
    fail(
        ValueError,
        "the serialized program cannot be loaded",
        why,
        "serialize it again with what loads it; pyjax.export keeps programs that are compiled "
        "where they are loaded",
    )
