"""Shapes, literals and metadata as protobuf messages (dicts of proto_wire.py), both ways."""

from __future__ import annotations

from typing import Any

import numpy as np

from xla_backend.hlo.instruction import OpMetadata
from xla_backend.hlo.layout import LayoutDetails, SplitConfig
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.proto_wire import Message, ProtoError
from xla_backend.hlo.shape import UNBOUNDED, Shape
from xla_backend.hlo.types import PrimitiveType

P = PrimitiveType
_TYPE_NUMBERS = {
    P.PRED: 1, P.S1: 30, P.S2: 26, P.S4: 21, P.S8: 2, P.S16: 3, P.S32: 4, P.S64: 5,
    P.U1: 31, P.U2: 27, P.U4: 22, P.U8: 6, P.U16: 7, P.U32: 8, P.U64: 9,
    P.F16: 10, P.F32: 11, P.BF16: 16, P.F64: 12, P.F8E5M2: 19, P.F8E4M3: 28, P.F8E4M3FN: 20,
    P.F8E4M3B11FNUZ: 23, P.F8E3M4: 29, P.F8E5M2FNUZ: 24, P.F8E4M3FNUZ: 25, P.F4E2M1FN: 32,
    P.F8E8M0FNU: 33, P.F6E3M2FN: 35, P.F6E2M3FN: 36, P.C64: 15, P.C128: 18,
    P.TUPLE: 13, P.OPAQUE: 14, P.TOKEN: 17, P.BUFFER: 34,
}  # fmt: skip
_TYPES = {number: element_type for element_type, number in _TYPE_NUMBERS.items()}
_UNBOUNDED_SIZE = -(1 << 63)  # how protobuf says that a dimension has no bound


# -- shapes ----------------------------------------------------------------------------------------


def shape_to_message(shape: Shape) -> Message:
    """A ShapeProto."""
    message: Message = {"element_type": _TYPE_NUMBERS[shape.element_type]}
    if shape.tuple_shapes:
        message["tuple_shapes"] = [shape_to_message(s) for s in shape.tuple_shapes]
    if shape.is_array:
        message["dimensions"] = [_UNBOUNDED_SIZE if d == UNBOUNDED else d for d in shape.dimensions]
        message["is_dynamic_dimension"] = list(shape.dynamic_dimensions)
        message["layout"] = _layout_to_message(shape)
    return message


def _layout_to_message(shape: Shape) -> Message:
    details = shape.layout_details or LayoutDetails()
    message: Message = {
        "minor_to_major": list(shape.minor_to_major),
        "tail_padding_alignment_in_elements": details.tail_padding_alignment,
    }
    if details.tiles:
        # A merged dimension is the smallest number there is.
        message["tiles"] = [
            {"dimensions": [_UNBOUNDED_SIZE if d < 0 else d for d in tile]}
            for tile in details.tiles
        ]
    for name, value in (
        ("element_size_in_bits", details.element_bits),
        ("memory_space", details.memory_space),
        ("dynamic_shape_metadata_prefix_bytes", details.metadata_prefix_bytes),
    ):
        if value:
            message[name] = value
    if details.index_type is not None:
        message["index_primitive_type"] = _TYPE_NUMBERS[details.index_type]
    if details.pointer_type is not None:
        message["pointer_primitive_type"] = _TYPE_NUMBERS[details.pointer_type]
    if details.splits:
        message["split_configs"] = [
            {"dimension": s.dimension, "split_indices": list(s.indices)} for s in details.splits
        ]
    return message


def shape_from_message(message: Message) -> Shape:
    """The shape of a ShapeProto.

    Raises:
      ProtoError: it names no element type, or its layout does not fit.
    """
    element_type = _type(message.get("element_type", 0))
    members = tuple(shape_from_message(m) for m in message.get("tuple_shapes", ()))
    if not element_type.is_array:
        if element_type is P.BUFFER and (len(members) != 1 or not members[0].is_array):
            raise ProtoError("a buffer holds one array")
        return Shape(element_type, (), None, members)
    dimensions = tuple(
        UNBOUNDED if d == _UNBOUNDED_SIZE else d for d in message.get("dimensions", ())
    )
    if any(d < 0 and d != UNBOUNDED for d in dimensions):
        raise ProtoError(f"a shape with dimensions {list(dimensions)}")
    flags = tuple(message.get("is_dynamic_dimension", ()))
    rank = len(dimensions)
    layout, details = _layout_from_message(message.get("layout", {}), rank)
    dynamic = flags if any(flags) and len(flags) == rank else None
    return Shape(element_type, dimensions, layout, (), dynamic, details)


def _type(number: int) -> PrimitiveType:
    found = _TYPES.get(number)
    if found is None:
        raise ProtoError(f"{number} is no element type")
    return found


def _layout_from_message(
    message: Message, rank: int
) -> tuple[tuple[int, ...] | None, LayoutDetails | None]:
    order = tuple(message.get("minor_to_major", ()))
    if order and sorted(order) != list(range(rank)):
        raise ProtoError(f"layout {list(order)} is not a permutation of {rank} dimensions")
    index, pointer = message.get("index_primitive_type"), message.get("pointer_primitive_type")
    details = LayoutDetails(
        tuple(
            tuple(max(d, -1) for d in tile.get("dimensions", ()))
            for tile in message.get("tiles", ())
        ),
        message.get("tail_padding_alignment_in_elements", 0) or 1,
        _type(index) if index else None,
        _type(pointer) if pointer else None,
        message.get("element_size_in_bits", 0),
        message.get("memory_space", 0),
        tuple(
            SplitConfig(s.get("dimension", 0), tuple(s.get("split_indices", ())))
            for s in message.get("split_configs", ())
        ),
        message.get("dynamic_shape_metadata_prefix_bytes", 0),
    )
    default = not order or order == tuple(range(rank - 1, -1, -1))
    return None if default else order, None if details == LayoutDetails() else details


# -- literals --------------------------------------------------------------------------------------

# Types whose elements are a repeated field; all others are bytes, little-endian.
_LISTS = {
    P.PRED: "preds", P.S32: "s32s", P.S64: "s64s", P.U32: "u32s", P.U64: "u64s",
    P.F32: "f32s", P.F64: "f64s", P.C64: "c64s", P.C128: "c128s",
}  # fmt: skip
_PARTS = {P.C64: np.float32, P.C128: np.float64}


def literal_to_message(literal: Literal) -> Message:
    """A LiteralProto."""
    message: Message = {"shape": shape_to_message(literal.shape)}
    if literal.shape.is_tuple:
        message["tuple_literals"] = [literal_to_message(e) for e in literal.elements]
        return message
    kind = literal.shape.element_type
    major_first = literal.shape.minor_to_major[::-1]
    flat = np.ascontiguousarray(literal.array.transpose(major_first)).reshape(-1)
    if kind in _LISTS:
        if kind in _PARTS:
            flat = flat.view(_PARTS[kind])
        # Floats go out as they are: packing doubles would make signalling NaNs quiet.
        message[_LISTS[kind]] = flat if kind.is_floating or kind.is_complex else flat.tolist()
    else:
        message[f"{kind.value}s"] = _bytes_of(flat, kind)
    return message


def literal_from_message(message: Message) -> Literal:
    """The literal of a LiteralProto.

    Raises:
      ProtoError: its shape is missing or has no values, or the number of values is wrong.
    """
    shape = shape_from_message(message.get("shape", {}))
    if shape.is_tuple:
        elements = [literal_from_message(m) for m in message.get("tuple_literals", ())]
        if tuple(e.shape for e in elements) != shape.tuple_shapes:
            raise ProtoError(f"a literal of shape {shape} has other elements")
        return Literal.tuple(elements)
    if not shape.is_array or UNBOUNDED in shape.dimensions:
        raise ProtoError(f"a literal of shape {shape}")
    plain = Shape(
        shape.element_type, shape.dimensions, shape.layout, layout_details=shape.layout_details
    )
    flat = _values(message, shape.element_type, plain)
    major_first = plain.minor_to_major[::-1]
    array = flat.reshape([plain.dimensions[d] for d in major_first])
    return Literal(array.transpose(np.argsort(major_first)), plain)


def _values(message: Message, kind: PrimitiveType, shape: Shape) -> np.ndarray:
    count = shape.num_elements
    if kind in _LISTS:
        values = message.get(_LISTS[kind], [])
        part = np.dtype(_PARTS.get(kind, kind.numpy_dtype))
        if len(values) != count * (2 if kind in _PARTS else 1):
            raise ProtoError(f"a literal of shape {shape} has {len(values)} values")
        return np.asarray(values, part).view(kind.numpy_dtype)
    data = message.get(f"{kind.value}s", b"")
    if len(data) != count * kind.byte_size:
        raise ProtoError(f"a literal of shape {shape} has {len(data)} bytes")
    if kind.bits >= 8 or kind.is_floating:
        return np.frombuffer(data, kind.numpy_dtype)
    codes = np.frombuffer(data, np.uint8).astype(np.int16) & (1 << kind.bits) - 1
    if kind.is_signed_integral:
        codes -= (codes >> kind.bits - 1) << kind.bits
    return codes.astype(np.int8).astype(kind.numpy_dtype)


def _bytes_of(flat: np.ndarray, kind: PrimitiveType) -> bytes:
    """The elements, small integers one to a byte in their lowest bits."""
    if kind.bits >= 8 or kind.is_floating:
        return flat.tobytes()
    return (flat.astype(np.int8).view(np.uint8) & np.uint8((1 << kind.bits) - 1)).tobytes()


# -- metadata --------------------------------------------------------------------------------------

_METADATA_FIELDS = (
    "op_type",
    "op_name",
    "source_file",
    "source_line",
    "source_end_line",
    "source_column",
    "source_end_column",
    "deduplicated_name",
    "scheduling_name",
    "stack_frame_id",
)


def metadata_to_message(metadata: OpMetadata) -> Message:
    values: dict[str, Any] = {name: getattr(metadata, name) for name in _METADATA_FIELDS}
    return {name: value for name, value in values.items() if value}


def metadata_from_message(message: Message) -> OpMetadata:
    return OpMetadata(**{n: message[n] for n in _METADATA_FIELDS if n in message})
