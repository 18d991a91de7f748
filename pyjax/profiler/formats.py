"""Recorded spans as files: JSON that Perfetto and Chrome open, and XSpace for TensorBoard.

Layer: profiler.
"""

from __future__ import annotations

import gzip
import json
import os
from typing import Any

from pyjax.profiler.recorder import Recorder, Span
from xla_backend.hlo.proto_wire import Schema

# Field numbers of XSpace and its parts, and of pprof's profile.
SCHEMA = Schema(
    {
        "XSpace": "1 planes XPlane*; 4 hostnames string*",
        "XPlane": (
            "1 id int64; 2 name string; 3 lines XLine*; 4 event_metadata EventEntry*; 5 "
            "stat_metadata StatEntry*; 6 stats XStat*"
        ),
        "EventEntry": "1 key int64; 2 value XEventMetadata",
        "StatEntry": "1 key int64; 2 value XStatMetadata",
        "XEventMetadata": "1 id int64; 2 name string",
        "XStatMetadata": "1 id int64; 2 name string",
        "XLine": (
            "1 id int64; 2 name string; 3 timestamp_ns int64; 4 events XEvent*; 9 duration_ps "
            "int64; 10 display_id int64; 11 display_name string"
        ),
        "XEvent": "1 metadata_id int64; 2 offset_ps int64; 3 duration_ps int64; 4 stats XStat*",
        "XStat": (
            "1 metadata_id int64; 2 double_value double; 3 uint64_value uint64; 4 int64_value "
            "int64; 5 str_value string; 6 bytes_value bytes; 7 ref_value uint64"
        ),
        "Profile": (
            "1 sample_type ValueType*; 2 sample Sample*; 4 location Location*; 5 function "
            "Function*; 6 string_table string*; 9 time_nanos int64"
        ),
        "ValueType": "1 type int64; 2 unit int64",
        "Sample": "1 location_id uint64*; 2 value int64*; 3 label Label*",
        "Label": "1 key int64; 2 str int64; 3 num int64",
        "Location": "1 id uint64; 4 line Line*",
        "Line": "1 function_id uint64; 2 line int64",
        "Function": "1 id uint64; 2 name int64; 3 system_name int64; 4 filename int64",
    }
)


def tracks(recorder: Recorder) -> dict[int | str, tuple[int, str]]:
    """The number and the name of each track, in order of appearance."""
    found: dict[int | str, tuple[int, str]] = {}
    for span in recorder.spans:
        if span.track not in found:
            name = span.track
            if isinstance(name, int):
                name = recorder.thread_names.get(name, str(name))
            found[span.track] = (len(found) + 1, name)
    return found


def perfetto_trace(recorder: Recorder) -> bytes:
    """JSON of trace events, compressed: times in microseconds from the start of the trace."""
    process = os.getpid()
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": process, "name": "process_name", "args": {"name": "/host:CPU"}}
    ]
    numbers = tracks(recorder)
    for number, name in numbers.values():
        common = {"ph": "M", "pid": process, "tid": number}
        events.append({**common, "name": "thread_name", "args": {"name": name}})
    for span in sorted(recorder.spans, key=lambda s: (s.start, -s.duration)):
        events.append(
            {
                "ph": "X",
                "pid": process,
                "tid": numbers[span.track][0],
                "ts": (span.start - recorder.began) / 1e3,
                "dur": span.duration / 1e3,
                "name": span.name,
                "cat": span.category,
                "args": {key: str(value) for key, value in span.args.items()},
            }
        )
    text = json.dumps({"displayTimeUnit": "ns", "traceEvents": events})
    return gzip.compress(text.encode())


def xspace(recorder: Recorder) -> bytes:
    """The spans as one plane of an XSpace."""
    events, stats = _Names(), _Names()
    lines = []
    for track, (number, name) in tracks(recorder).items():
        spans = sorted((s for s in recorder.spans if s.track == track), key=lambda s: s.start)
        lines.append(
            {
                "id": number,
                "name": name,
                "timestamp_ns": recorder.began_at,
                "events": [_event(recorder, span, events, stats) for span in spans],
            }
        )
    plane = {
        "id": 1,
        "name": "/host:CPU",
        "lines": lines,
        "event_metadata": events.entries(),
        "stat_metadata": stats.entries(),
    }
    return SCHEMA.encode("XSpace", {"planes": [plane]})


def _event(recorder: Recorder, span: Span, events: _Names, stats: _Names) -> dict[str, Any]:
    values = {"category": span.category, **span.args}
    return {
        "metadata_id": events.number(span.name),
        "offset_ps": max(0, span.start - recorder.began) * 1000,
        "duration_ps": span.duration * 1000,
        "stats": [_stat(stats.number(key), value) for key, value in values.items()],
    }


def _stat(number: int, value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"metadata_id": number, "int64_value": int(value)}
    if isinstance(value, float):
        return {"metadata_id": number, "double_value": value}
    return {"metadata_id": number, "str_value": str(value)}


class _Names:
    """Texts by number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers) + 1)

    def entries(self) -> list[dict[str, Any]]:
        return [{"key": n, "value": {"id": n, "name": s}} for s, n in self._numbers.items()]
