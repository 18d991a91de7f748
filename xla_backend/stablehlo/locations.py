"""Locations of StableHLO and metadata of HLO, from one into the other.

A stack frame is a place in a file under the name of its function, `"f"("a.py":3:4)`; a chain of
them is `callsite(frame at callers)`, and an operation's path is a name above its frames.
"""

from __future__ import annotations

from xla_backend.hlo.instruction import NO_METADATA, OpMetadata
from xla_backend.hlo.source_tables import FrameNumbering, SourcePlace, SourceTables
from xla_backend.stablehlo.attributes import UNKNOWN_LOCATION, Location


class LocationsOfMetadata:
    """The locations that metadata of one module stands for; equal ones are one object."""

    def __init__(self, tables: SourceTables) -> None:
        self._tables = tables
        self._frames: dict[int, Location] = {}
        self._found: dict[OpMetadata, Location] = {}

    def of(self, metadata: OpMetadata) -> Location:
        if metadata is NO_METADATA:
            return UNKNOWN_LOCATION
        found = self._found.get(metadata)
        if found is None:
            found = self._found[metadata] = self._make(metadata)
        return found

    def _make(self, metadata: OpMetadata) -> Location:
        place: Location | None = None
        if metadata.source_file:
            place = Location(
                file=metadata.source_file,
                line=metadata.source_line,
                column=metadata.source_column,
                end_line=metadata.source_end_line,
                end_column=metadata.source_end_column,
            )
        elif metadata.stack_frame_id:
            place = self._frame(metadata.stack_frame_id)
        if not metadata.op_name:
            return place or UNKNOWN_LOCATION
        return Location(name=metadata.op_name, child=place)

    def _frame(self, number: int) -> Location:
        path: list[int] = []
        caller: Location | None = None
        while number:
            caller = self._frames.get(number)
            if caller is not None:
                break
            path.append(number)
            number = self._tables.frames[number].parent
        for inner in reversed(path):
            file, function, *where = self._tables.place(inner)
            line, end_line, column, end_column = where
            place = Location(
                file=file, line=line, column=column, end_line=end_line, end_column=end_column
            )
            frame = Location(name=function, child=place) if function else place
            caller = Location(child=frame, caller=caller) if caller is not None else frame
            self._frames[inner] = caller
        assert caller is not None
        return caller


class MetadataOfLocations:
    """The metadata of locations, and the tables that it refers to."""

    def __init__(self) -> None:
        self._numbering: FrameNumbering[SourcePlace] = FrameNumbering()
        self._found: dict[Location, OpMetadata] = {}

    def of(self, location: Location) -> OpMetadata:
        if location is UNKNOWN_LOCATION:
            return NO_METADATA
        found = self._found.get(location)
        if found is None:
            found = self._found[location] = self._make(location)
        return found

    def tables(self) -> SourceTables:
        return self._numbering.tables(lambda place: place)

    def _make(self, location: Location) -> OpMetadata:
        """The name of a location, and its frames: one file and line if it names no functions."""
        name, place = "", _first(location)
        if place.name and not place.caller:
            name, place = place.name, _first(place.child or UNKNOWN_LOCATION)
        if place.file:
            return OpMetadata(
                op_name=name,
                source_file=place.file,
                source_line=place.line,
                source_end_line=place.end_line,
                source_column=place.column,
                source_end_column=place.end_column,
            )
        number = 0
        for frame in reversed(_frames(place)):
            number = self._numbering.frame(frame, number)
        if not name and not number:
            return NO_METADATA
        return OpMetadata(op_name=name, stack_frame_id=number)


def _first(location: Location) -> Location:
    """What stands for a location of several: the first of them."""
    while location.fused:
        location = location.fused[0]
    return location


def _frames(location: Location) -> list[SourcePlace]:
    """The places of a chain of calls, the innermost first."""
    found: list[SourcePlace] = []
    waiting = [(location, "")]
    while waiting:
        at, function = waiting.pop()
        at = _first(at)
        if at.caller is not None:
            waiting.append((at.caller, ""))
            waiting.append((at.child or UNKNOWN_LOCATION, ""))
        elif at.file:
            place = (at.line, at.end_line or at.line, at.column, at.end_column or at.column)
            found.append(SourcePlace(at.file, function, *place))
        elif at.child is not None:
            waiting.append((at.child, at.name))
    return found
