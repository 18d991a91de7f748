"""Where the operations of a module stand in the user's code, and who called those places: the
tables FileNames, FunctionNames, FileLocations and StackFrames.

The metadata of an instruction has the number of a stack frame: a location, and the frame that
called it. Lines may be looked up late: whoever makes a module knows frames early, but most modules
are never printed. Numbers begin at 1; 0 is none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

_Key = TypeVar("_Key", bound=Hashable)


class SourcePlace(NamedTuple):
    """A piece of source: names of file and function, lines from 1, columns from 0."""

    file: str
    function: str
    line: int = 0
    end_line: int = 0
    column: int = 0
    end_column: int = 0


def place_lines(places: Sequence[SourcePlace]) -> list[str]:
    """For messages: `train.py:42 in loss`, and who called that, `called at train.py:50 in main`."""
    lines = [
        f"{place.file}:{place.line}{f' in {place.function}' if place.function else ''}"
        for place in places
    ]
    return [*lines[:1], *(f"called at {line}" for line in lines[1:])]


class FileLocation(NamedTuple):
    """A row of FileLocations: the numbers of file and function, lines and columns."""

    file: int
    function: int
    line: int = 0
    end_line: int = 0
    column: int = 0
    end_column: int = 0


class StackFrame(NamedTuple):
    """A row of StackFrames: the number of the location, and that of the frame that called it."""

    location: int
    parent: int = 0


class TableProblem(NamedTuple):
    """What is wrong with a row: the table's title, the row's number, and words."""

    title: str
    number: int
    text: str

    def __str__(self) -> str:
        return self.text


class SourceTables:
    """The tables of a module, each by number.

    Args:
      files, functions, locations, frames: the rows.
      look_up: gives the places of the locations 1, 2, … that `frames` refers to, when somebody
        wants to know them; instead of the three tables.
    """

    __slots__ = ("_files", "_functions", "_joined", "_locations", "_look_up", "_numbers", "frames")

    def __init__(
        self,
        files: Mapping[int, str] | None = None,
        functions: Mapping[int, str] | None = None,
        locations: Mapping[int, FileLocation] | None = None,
        frames: Mapping[int, StackFrame] | None = None,
        *,
        look_up: Callable[[], Sequence[SourcePlace]] | None = None,
    ) -> None:
        self._files = dict(files or {})
        self._functions = dict(functions or {})
        self._locations = dict(locations or {})
        self._look_up = look_up
        self._joined: dict[tuple[int, int], int] = {}
        self._numbers: dict[StackFrame, int] | None = None
        self.frames = dict(frames or {})

    @property
    def files(self) -> Mapping[int, str]:
        self._look()
        return self._files

    @property
    def functions(self) -> Mapping[int, str]:
        self._look()
        return self._functions

    @property
    def locations(self) -> Mapping[int, FileLocation]:
        self._look()
        return self._locations

    def _look(self) -> None:
        if self._look_up is None:
            return
        files: dict[str, int] = {}
        functions: dict[str, int] = {}
        for number, place in enumerate(self._look_up(), 1):
            file = files.setdefault(place.file, len(files) + 1)
            function = functions.setdefault(place.function, len(functions) + 1)
            self._locations[number] = FileLocation(file, function, *place[2:])
        self._files = {number: name for name, number in files.items()}
        self._functions = {number: name for name, number in functions.items()}
        self._look_up = None

    def __repr__(self) -> str:
        rows = (self.files, self.functions, self.locations, self.frames)
        return f"SourceTables({', '.join(map(repr, rows))})"

    def copy(self) -> SourceTables:
        """Tables that get rows of their own."""
        return SourceTables(
            self._files, self._functions, self._locations, self.frames, look_up=self._look_up
        )

    # -- reading -----------------------------------------------------------------------------------

    def place(self, number: int) -> SourcePlace:
        """Where a stack frame stands."""
        row = self.locations[self.frames[number].location]
        return SourcePlace(self.files[row.file], self.functions[row.function], *row[2:])

    def callers(self, number: int) -> list[SourcePlace]:
        """Where a stack frame stands, and the frames that called it, the innermost first."""
        return [self.place(n) for n in self._path(number)]

    def _path(self, number: int) -> list[int]:
        found: list[int] = []
        while number:
            found.append(number)
            number = self.frames[number].parent
        return found

    # -- writing -----------------------------------------------------------------------------------

    def joined(self, inner: int, outer: int) -> int:
        """The frame `inner` of a function that was called at the frame `outer`; rows are added for
        it and its callers. Either may be 0."""
        if not inner or not outer:
            return inner or outer
        found = self._joined.get((inner, outer))
        if found is not None:
            return found
        numbers = self._numbers
        if numbers is None:
            numbers = self._numbers = {row: number for number, row in self.frames.items()}
        parent = outer
        for number in reversed(self._path(inner)):
            row = StackFrame(self.frames[number].location, parent)
            parent = numbers.get(row, 0)
            if not parent:
                parent = numbers[row] = max(self.frames, default=0) + 1
                self.frames[parent] = row
        self._joined[inner, outer] = parent
        return parent

    # -- checking ----------------------------------------------------------------------------------

    def problem(self) -> TableProblem | None:
        """The first row that refers to one that is not there, or a frame that is its own caller."""
        for number, row in self.locations.items():
            if row.file not in self.files:
                return _dangling("FileLocations", number, "file_name_id", row.file, "FileNames")
            if row.function not in self.functions:
                field = "function_name_id"
                return _dangling("FileLocations", number, field, row.function, "FunctionNames")
        for number, frame in self.frames.items():
            if frame.location not in self.locations:
                field = "file_location_id"
                return _dangling("StackFrames", number, field, frame.location, "FileLocations")
            if frame.parent and frame.parent not in self.frames:
                text = f"stack frame {number} was called by {frame.parent}, which is not there"
                return TableProblem("StackFrames", number, text)
        sound: set[int] = {0}
        for number in self.frames:
            path: dict[int, None] = {}
            while number not in sound:
                if number in path:
                    before = list(path)
                    circle = " <- ".join(map(str, [*before[before.index(number) :], number]))
                    text = f"stack frame {number} is its own caller ({circle})"
                    return TableProblem("StackFrames", number, text)
                path[number] = None
                number = self.frames[number].parent
            sound.update(path)
        return None


def _dangling(title: str, number: int, field: str, referred: int, target: str) -> TableProblem:
    return TableProblem(title, number, f"{field}={referred} of row {number} is not in {target}")


class FrameNumbering(Generic[_Key]):
    """Numbers stack frames as they are met, for tables to be."""

    def __init__(self) -> None:
        self._locations: dict[_Key, int] = {}
        self._frames: dict[tuple[int, int], int] = {}

    def frame(self, key: _Key, parent: int) -> int:
        """The number of the frame at a place that the frame `parent` called."""
        location = self._locations.setdefault(key, len(self._locations) + 1)
        return self._frames.setdefault((location, parent), len(self._frames) + 1)

    def tables(self, look_up: Callable[[_Key], SourcePlace]) -> SourceTables:
        """The tables of what was numbered so far. `look_up`: the place that a key stands for."""
        keys = list(self._locations)
        return SourceTables(
            frames={number: StackFrame(*row) for row, number in self._frames.items()},
            look_up=lambda: [look_up(key) for key in keys],
        )
