"""What any opcode may carry, and the raw attributes of a few, as fields of HloInstructionProto.

Instructions keep these as text; protobuf has messages for some of them. The text is read here by
the parser's own readers, and written back in the form they give.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from xla_backend.hlo.annotation_text import config_text, is_braced, read_frontend_attributes
from xla_backend.hlo.attribute_values import ALIASING, CONV_LABELS, WINDOW
from xla_backend.hlo.errors import ParseError
from xla_backend.hlo.proto_attributes import (
    aliasing_from_message,
    aliasing_to_message,
    convolution_numbers_from_message,
    convolution_numbers_to_message,
    window_from_message,
    window_to_message,
)
from xla_backend.hlo.proto_sharding import sharding_from_message, sharding_to_message
from xla_backend.hlo.proto_wire import Message, ProtoError
from xla_backend.hlo.sharding import parse_sharding, sharding_text
from xla_backend.hlo.text_cursor import Cursor, quote, unescape

_ITEM = re.compile(r"([\w.]+)=(-?[\w.+\-]+)")


def frontend_to_message(text: str) -> Message:
    """FrontendAttributes of `{a="1",b={x="2"}}`; a value in braces is stored as it is."""
    cursor = Cursor(text)
    cursor.expect("{")
    entries = []
    while not cursor.accept("}"):
        name = cursor.read_name()
        cursor.expect("=")
        value = cursor.read_value_text()
        if value.startswith('"'):
            value = unescape(value[1:-1])
        entries.append({"key": name, "value": value})
        cursor.accept(",")
    return {"map": entries}


def frontend_from_message(message: Message) -> str:
    pairs = [(e.get("key", ""), e.get("value", "")) for e in message.get("map", ())]
    items = [f"{k}={v if is_braced(v) else quote(v)}" for k, v in sorted(pairs)]
    return read_frontend_attributes(Cursor("{" + ",".join(items) + "}"))


def _statistics_to(text: str) -> Message:
    (_, index), *values = _ITEM.findall(text)
    statistics = [{"stat_name": name, "stat_val": float(value)} for name, value in values]
    return {"stat_index_to_visualize": int(index), "statistics": statistics}


def _statistics_from(message: Message) -> str:
    values = message.get("statistics", ())
    if not values:
        return ""
    parts = [f"visualizing_index={message.get('stat_index_to_visualize', 0)}"]
    parts += [f"{s.get('stat_name', '')}={s.get('stat_val', 0.0):g}" for s in values]
    return "{" + ",".join(parts) + "}"


def _accuracy_to(text: str) -> Message:
    if text == "{mode=highest}":
        return {"mode": 1}
    values = dict(_ITEM.findall(text))
    return {
        "tolerance": {
            "atol": float(values["atol"]),
            "rtol": float(values["rtol"]),
            "ulps": int(values["ulps"]),
        }
    }


def _accuracy_from(message: Message) -> str:
    if "tolerance" in message:
        t = message["tolerance"]
        atol, rtol = t.get("atol", 0.0), t.get("rtol", 0.0)
        return f"{{tolerance={{atol={atol:g},rtol={rtol:g},ulps={t.get('ulps', 0)}}}}}"
    return "{mode=highest}" if message.get("mode") == 1 else ""


def _replication_to(text: str) -> Message:
    return {"replicated_at_leaf_buffers": [flag == "true" for flag in re.findall(r"\w+", text)]}


def _replication_from(message: Message) -> str:
    flags = message.get("replicated_at_leaf_buffers", ())
    return "{" + ",".join("true" if flag else "false" for flag in flags) + "}" if flags else ""


def _bytes_to(text: str) -> bytes:
    config = unescape(text[1:-1]) if text.startswith('"') else text
    return config.encode("utf-8", "surrogateescape")


def _config_from(data: bytes) -> str:
    return config_text(data.decode("utf-8", "surrogateescape"))


def _quoted_from(data: bytes) -> str:
    return quote(data.decode("utf-8", "surrogateescape")) if data else ""


def _window_to(text: str) -> Message:
    return window_to_message(WINDOW.read(Cursor(text)))


def _window_from(message: Message) -> str:
    return WINDOW.show(window_from_message(message)) or ""


def _labels_to(text: str) -> Message:
    return convolution_numbers_to_message(CONV_LABELS.read(Cursor(text)))


def _labels_from(message: Message) -> str:
    return CONV_LABELS.show(convolution_numbers_from_message(message)) or ""


# Text attributes: name, field, text to field, field to text. An empty text is not kept.
_Row = tuple[str, str, Callable[[str], Any], Callable[[Any], str]]
_COMMON: tuple[_Row, ...] = (
    (
        "sharding",
        "sharding",
        lambda text: sharding_to_message(parse_sharding(text)),
        lambda message: sharding_text(sharding_from_message(message)),
    ),
    (
        "frontend_attributes",
        "frontend_attributes",
        frontend_to_message,
        frontend_from_message,
    ),
    ("statistics", "statistics_viz", _statistics_to, _statistics_from),
    ("result_accuracy", "result_accuracy", _accuracy_to, _accuracy_from),
    ("parameter_replication", "parameter_replication", _replication_to, _replication_from),
)
_BACKEND_CONFIG: _Row = ("backend_config", "backend_config", _bytes_to, _config_from)
_ALIASING: _Row = (
    "output_to_operand_aliasing",
    "output_operand_aliasing",
    lambda text: aliasing_to_message(ALIASING.read(Cursor(text))),
    lambda messages: ALIASING.show(aliasing_from_message(messages)) or "",
)
_WINDOW_ROWS: tuple[_Row, ...] = (
    ("window", "window", _window_to, _window_from),
    ("dim_labels", "convolution_dimension_numbers", _labels_to, _labels_from),
)
_BY_OPCODE: dict[str, tuple[_Row, ...]] = {
    "custom-call": _WINDOW_ROWS,
    "fusion": (_BACKEND_CONFIG, _ALIASING),
}
_THREAD: _Row = (
    "async_execution_thread",
    "async_execution_thread",
    lambda text: text.strip('"'),
    lambda thread: quote(thread) if thread not in ("", "main") else "",
)
# Attributes of RawAttributes, by opcode.
_RAW: dict[str, tuple[_Row, ...]] = {
    "infeed": (("infeed_config", "infeed_config", _bytes_to, _quoted_from),),
    "copy-start": (("cross_program_prefetch_index", "cross_program_prefetch_index", int, str),),
    "async-start": (_THREAD,),
    "async-update": (_THREAD,),
    "async-done": (_THREAD,),
}


def _rows(opcode: str) -> tuple[_Row, ...]:
    return (*_COMMON, *_BY_OPCODE.get(opcode, (_BACKEND_CONFIG,)))


def texts_to_message(opcode: str, texts: dict[str, Any]) -> Message:
    """Fields for the text attributes of an instruction.

    Raises:
      ProtoError: a text that its readers do not take.
    """
    message: Message = {}
    try:
        for name, field, to_field, _ in (*_rows(opcode), *_RAW.get(opcode, ())):
            if texts.get(name):
                message[field] = to_field(texts[name])
    except (ParseError, ValueError) as error:
        raise ProtoError(f"attributes of {opcode}: {error}") from None
    return message


def annotations_from_message(opcode: str, message: Message) -> dict[str, Any]:
    """Text attributes of an instruction."""
    return _texts(_rows(opcode), message)


def raw_from_message(opcode: str, message: Message) -> dict[str, str]:
    """What RawAttributes of the opcode hold."""
    return _texts(_RAW.get(opcode, ()), message)


def _texts(rows: tuple[_Row, ...], message: Message) -> dict[str, str]:
    texts = {}
    try:
        for name, field, _, to_text in rows:
            text = to_text(message[field]) if field in message else ""
            if text:
                texts[name] = text
    except ParseError as error:
        raise ProtoError(str(error)) from None
    return texts
