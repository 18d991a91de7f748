"""What the command-line tools share: boolean flags in XLA's spelling, XLA flags among the
arguments, reading modules in their formats, and errors without tracebacks."""

from __future__ import annotations

import argparse
import gzip
import runpy
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from xla_backend.compile_options import CompileOptions
from xla_backend.debug_options import DebugOptions, FlagError, parse_flags
from xla_backend.flag_effects import with_flags
from xla_backend.hlo.errors import HloError
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.proto import ProtoError, Snapshot, read_proto
from xla_backend.stablehlo import parse_stablehlo

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}

Reader = Callable[[bytes], Snapshot]


def _text_reader(parse: Callable[[str], HloModule]) -> Reader:
    return lambda data: Snapshot(parse(data.decode("utf-8")))


# Formats by name, and which one a file's suffix stands for. Texts hold no arguments.
FORMATS: dict[str, Reader] = {
    "hlo": _text_reader(parse_module),
    "pb": read_proto,
    "stablehlo": _text_reader(parse_stablehlo),
}
_SUFFIXES = {".hlo": "hlo", ".txt": "hlo", ".mlir": "stablehlo", ".pb": "pb"}
_GZIP = b"\x1f\x8b"

LOAD_HELP = "run this Python file first, such as one that registers passes"


class UsageError(Exception):
    """The command line or an input file cannot be used; the text is for the person who typed it."""


class ToolParser(argparse.ArgumentParser):
    """An argument parser that also takes `--xla_...` flags, and booleans as XLA's tools do:
    `--name`, `--noname`, `--name=true`, `--name=0`."""

    def __init__(self, program: str, description: str) -> None:
        super().__init__(
            prog=program,
            description=description,
            epilog="Every --xla_... flag is taken as well; see python -m xla_backend.flags.",
        )
        self._booleans: set[str] = set()

    def add_boolean(self, name: str, default: bool, help: str) -> None:
        self._booleans.add(name)
        self.add_argument(
            f"--{name}",
            type=_boolean,
            default=default,
            metavar="BOOL",
            help=f"{help} (default: {str(default).lower()})",
        )

    def parse(self, arguments: Sequence[str] | None) -> tuple[argparse.Namespace, DebugOptions]:
        """The tool's own arguments, and the XLA flags among them."""
        given = sys.argv[1:] if arguments is None else arguments
        own, rest = self.parse_known_intermixed_args([self._with_value(a) for a in given])
        flags = [a for a in rest if a.startswith("--xla_")]
        unknown = [a for a in rest if a not in flags]
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        try:
            return own, parse_flags(" ".join(_quoted(f) for f in flags), "the command line")
        except FlagError as error:
            self.error(str(error))

    def _with_value(self, argument: str) -> str:
        name = argument.removeprefix("--")
        if argument.startswith("--") and name in self._booleans:
            return f"{argument}=true"
        if argument.startswith("--no") and name[2:] in self._booleans:
            return f"--{name[2:]}=false"
        return argument


def _boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text.lower()]
    except KeyError:
        raise argparse.ArgumentTypeError(f"{text!r} is not true, false, 1 or 0") from None


def _quoted(flag: str) -> str:
    name, equals, value = flag.partition("=")
    return f"{name}='{value}'" if equals else name


def compile_options(flags: DebugOptions) -> CompileOptions:
    """Options of a compilation with these XLA flags."""
    return with_flags(CompileOptions(), flags)


def read_bytes(path: str) -> bytes:
    """What a file holds, unpacked if it is gzipped; `-` is standard input.

    Raises:
      UsageError: it cannot be read.
    """
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return gzip.decompress(data) if data.startswith(_GZIP) else data
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"cannot read {path}: {error}") from None


def write_text(text: str, path: str) -> None:
    """Write to a file; `-` is standard output.

    Raises:
      UsageError: it cannot be written.
    """
    if path == "-":
        sys.stdout.write(text)
    else:
        write_bytes(text.encode("utf-8"), path)


def write_bytes(data: bytes, path: str) -> None:
    """Write to a file.

    Raises:
      UsageError: it cannot be written.
    """
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error}") from None


def load_files(paths: Sequence[str]) -> None:
    """Run Python files, such as those that register passes.

    Raises:
      UsageError: a file cannot be read. What it raises itself goes on to the caller.
    """
    for path in paths:
        if not Path(path).is_file():
            raise UsageError(f"cannot read {path}: no such file")
        runpy.run_path(path, run_name="__loaded__")


def read_input(path: str, format: str | None = None) -> Snapshot:
    """The module in a file, and the arguments and the result that came with it. The file's suffix
    tells the format unless it is given.

    Raises:
      UsageError: the file cannot be read, or holds no module.
    """
    return parse_input(read_bytes(path), path, format)


def read_module(path: str, format: str | None = None) -> HloModule:
    """The module in a file; see `read_input`."""
    return read_input(path, format).module


def format_of(path: str, format: str | None = None) -> str:
    """The format that is asked for, else the one of the file's suffix."""
    return format or _SUFFIXES.get(Path(path.removesuffix(".gz")).suffix, "hlo")


def parse_input(data: bytes, path: str, format: str | None = None) -> Snapshot:
    """A module from bytes that were read from `path`.

    Raises:
      UsageError: they are no module in this format.
    """
    chosen = format_of(path, format)
    try:
        return FORMATS[chosen](data)
    except (HloError, ProtoError) as error:
        raise UsageError(f"{path}: {error}") from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: no {chosen} text: {error}; is it another --input_format?"
        ) from None


def run_tool(main: Callable[[], int]) -> None:
    """Run a tool as a process: its result is the exit status; errors of use are one message."""
    try:
        status = main()
    except (UsageError, HloError) as error:
        print(error, file=sys.stderr)
        status = 1
    except BrokenPipeError:
        # The reader of our output has gone: nothing is left to say.
        sys.stderr.close()
        status = 1
    sys.exit(status)
