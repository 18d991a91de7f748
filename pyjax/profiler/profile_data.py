"""Reading traces: the planes, lines and events of an XSpace. Layer: profiler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyjax.profiler.formats import SCHEMA

_VALUES = ("int64_value", "uint64_value", "double_value", "str_value", "bytes_value", "ref_value")


class ProfileEvent:
    """Something that took time.

    Attributes:
      name.   start_ns: since 1970.   duration_ns, end_ns.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with pyjax.profiler.trace(folder), pyjax.profiler.TraceAnnotation("load"):
    ...         pass
    ...     (file,) = pathlib.Path(folder).rglob("*.xplane.pb")
    ...     data = pyjax.profiler.ProfileData.from_file(str(file))
    >>> [e.name for plane in data.planes for line in plane.lines for e in line.events]
    ['load']
    """

    def __init__(self, plane: ProfilePlane, line: dict[str, Any], event: dict[str, Any]) -> None:
        self._plane = plane
        self._event = event
        self.name: str = plane._events.get(event.get("metadata_id", 0), "")
        self.start_ns = line.get("timestamp_ns", 0) + event.get("offset_ps", 0) / 1000
        self.duration_ns = event.get("duration_ps", 0) / 1000

    @property
    def end_ns(self) -> float:
        return self.start_ns + self.duration_ns

    @property
    def stats(self) -> Iterator[tuple[str, Any]]:
        """Names and values of what is known besides."""
        return self._plane._read_stats(self._event.get("stats", []))

    def __repr__(self) -> str:
        return f"ProfileEvent({self.name!r}, start_ns={self.start_ns}, {self.duration_ns} ns)"


class ProfileLine:
    """The events of a thread, or of a queue.

    Attributes:
      name.
    """

    def __init__(self, plane: ProfilePlane, message: dict[str, Any]) -> None:
        self._plane = plane
        self._message = message
        self.name: str = message.get("name", "")

    @property
    def events(self) -> Iterator[ProfileEvent]:
        for event in self._message.get("events", []):
            yield ProfileEvent(self._plane, self._message, event)


class ProfilePlane:
    """What one host, or device, did.

    Attributes:
      name.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with pyjax.profiler.trace(folder):
    ...         pass
    ...     (file,) = pathlib.Path(folder).rglob("*.xplane.pb")
    ...     data = pyjax.profiler.ProfileData.from_file(str(file))
    >>> [plane.name for plane in data.planes]
    ['/host:CPU']
    """

    def __init__(self, message: dict[str, Any]) -> None:
        self._message = message
        self.name: str = message.get("name", "")
        self._events = _names(message.get("event_metadata", []))
        self._stats = _names(message.get("stat_metadata", []))

    @property
    def lines(self) -> Iterator[ProfileLine]:
        for line in self._message.get("lines", []):
            yield ProfileLine(self, line)

    @property
    def stats(self) -> Iterator[tuple[str, Any]]:
        """Names and values of what is known of the whole plane."""
        return self._read_stats(self._message.get("stats", []))

    def _read_stats(self, stats: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
        for stat in stats:
            kind = next((k for k in _VALUES if k in stat), None)
            value = 0 if kind is None else stat[kind]
            if kind == "ref_value":
                value = self._stats.get(value, "")
            yield self._stats.get(stat.get("metadata_id", 0), ""), value


def _names(entries: list[dict[str, Any]]) -> dict[int, str]:
    return {e.get("key", 0): e.get("value", {}).get("name", "") for e in entries}


class ProfileData:
    """A trace that was written by `trace` (`*.xplane.pb`), or by another tool.

    >>> ProfileData.from_serialized_xspace(b"").find_plane_with_name("/host:CPU") is None
    True
    """

    def __init__(self, data: bytes) -> None:
        self._message = SCHEMA.decode("XSpace", data)

    @classmethod
    def from_file(cls, path: str) -> ProfileData:
        """The trace in a file."""
        return cls(Path(path).read_bytes())

    @classmethod
    def from_serialized_xspace(cls, data: bytes) -> ProfileData:
        """The trace in bytes.

        Raises:
          ValueError: they are none.
        """
        return cls(data)

    @property
    def planes(self) -> Iterator[ProfilePlane]:
        for plane in self._message.get("planes", []):
            yield ProfilePlane(plane)

    def find_plane_with_name(self, name: str) -> ProfilePlane | None:
        """The plane of that name, if there is one."""
        return next((p for p in self.planes if p.name == name), None)
