"""Where the operations of one module come from, as its metadata and tables say it.

Which frames an operation has is decided by options: `include_full_tracebacks_in_locations` gives it
a stack frame with those that called it, at most `traceback_in_locations_limit`, else it has one
file and line. Frames are numbered while the module is made; lines are looked up when the tables
are read. Layer: interpreters.
"""

from __future__ import annotations

import re
from types import CodeType

from pyjax._config import options
from pyjax.core.call_chains import under_caller
from pyjax.core.source_info import Frame
from xla_backend.hlo.instruction import OpMetadata
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.source_tables import FrameNumbering, SourcePlace, SourceTables

# The id of a code object, and the offset of an instruction; or a place of another module.
_Place = tuple[int, int] | SourcePlace


class SourceLocations:
    """Makes metadata from places, and the tables that it refers to."""

    def __init__(self) -> None:
        self._whole = options.include_full_tracebacks_in_locations.here()[0].value
        self._most = options.traceback_in_locations_limit.here()[0].value
        self._pattern = options.hlo_source_file_canonicalization_regex.here()[0].value
        self._joined: dict[tuple[Frame, Frame | None], Frame] = {}
        self._numbers: dict[tuple[Frame, int], int] = {}
        self._codes: dict[int, CodeType] = {}  # a code object's hash is made from all its contents
        self._numbering: FrameNumbering[_Place] = FrameNumbering()
        self._positions: dict[int, list[tuple[int | None, ...]]] = {}

    def under(self, place: Frame | None, caller: Frame | None) -> Frame | None:
        """The place of an operation of a program that is used at `caller`."""
        if place is None or place.outside:
            return caller  # a function of the library, which may have been traced for another line
        return under_caller(place, caller, self._joined)

    def metadata(self, place: Frame | None, op_type: str, op_name: str) -> OpMetadata:
        if place is None:
            return OpMetadata(op_type, op_name)
        if self._whole:
            return OpMetadata(op_type, op_name, stack_frame_id=self._number(place))
        found = self._look_up(self._key(place))
        return OpMetadata(op_type, op_name, found.file, found.line, source_column=found.column)

    def adopt(self, module: HloModule) -> None:
        """Let the metadata of a module, whose computations become part of this one, refer to the
        tables of this one."""
        tables = module.source_tables
        numbers = {0: 0}
        for computation in module.computations:
            for node in computation:
                frame = node.metadata.stack_frame_id
                if not frame:
                    continue
                if frame not in numbers:
                    number = 0
                    for place in reversed(tables.callers(frame)):
                        number = self._numbering.frame(place, number)
                    numbers[frame] = number
                node.metadata = node.metadata._replace(stack_frame_id=numbers[frame])

    def tables(self) -> SourceTables:
        """Of all that has metadata; nothing gets any after that."""
        self._numbers, self._joined = {}, {}  # they keep frames
        return self._numbering.tables(self._look_up)

    def _key(self, place: Frame) -> _Place:
        code = place.code
        self._codes[id(code)] = code
        return id(code), place.lasti

    def _number(self, place: Frame) -> int:
        """The number of the frame; places that are called from the same one, and have as many
        callers, share the numbers of these."""
        left = place.depth if self._most < 0 else min(place.depth, self._most)
        path: list[tuple[Frame, int]] = []
        node: Frame | None = place
        number = 0
        while node is not None and left:
            found = self._numbers.get((node, left))
            if found is not None:
                number = found
                break
            path.append((node, left))
            node = node.caller
            left -= 1
        for key in reversed(path):
            number = self._numbers[key] = self._numbering.frame(self._key(key[0]), number)
        return number

    def _look_up(self, key: _Place) -> SourcePlace:
        if isinstance(key, SourcePlace):
            return key
        number, lasti = key
        code = self._codes[number]
        positions = self._positions.get(number)
        if positions is None:
            positions = self._positions[number] = list(code.co_positions())
        index = lasti // 2
        line, end_line, column, end_column = (
            positions[index] if 0 <= index < len(positions) else (None,) * 4
        )
        name = code.co_filename
        if self._pattern is not None:
            name = re.sub(self._pattern, "", name)
        line = line or Frame(code, lasti).line
        return SourcePlace(
            name, code.co_qualname, line, end_line or line, column or 0, end_column or 0
        )
