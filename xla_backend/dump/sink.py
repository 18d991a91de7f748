"""Where dumped files go: a directory, or stdout between banners."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
import time
from pathlib import Path

from xla_backend.debug_options import FlagError
from xla_backend.dump_options import DumpOptions
from xla_backend.hlo.errors import HloError
from xla_backend.process.light_dataclasses import dataclass, field

# Text that is no use between other lines.
_FILES_ONLY = (".dot", ".html", ".url", ".debug_options")
_SPONGE_VARIABLE = "TEST_UNDECLARED_OUTPUTS_DIR"


def file_name(text: str) -> str:
    """A name with the characters that are unfit for files replaced."""
    return re.sub(r"[^\w.%+=@-]", "_", text)


@dataclass(slots=True)
class Sink:
    """Files of one module, all called `<prefix>.<suffix>`.

    Fields:
      folder: None for stdout.
      stamp: the microsecond the dump began, put in front of names of HLO files; "" without.
    """

    prefix: str
    folder: Path | None
    root: Path | None
    stamp: str = ""
    written: list[str] = field(default_factory=list)

    def write_hlo(self, suffix: str, content: str | bytes) -> None:
        """A file that holds HLO or an analysis of it."""
        self.write_named(f"{self.stamp}{self.prefix}.{suffix}", content)

    def write(self, suffix: str, content: str | bytes) -> None:
        """A file of a later stage; never stamped."""
        self.write_named(f"{self.prefix}.{suffix}", content)

    def write_named(self, name: str, content: str | bytes) -> None:
        """A file under its whole name."""
        if self.folder is None:
            _print(name, content)
            return
        _store(self.folder / file_name(name), content)
        self.written.append(file_name(name))

    def write_input(self, name: str, content: str | bytes) -> None:
        """A file in the directory of what the compiler was given; none of these goes to stdout."""
        if self.root is not None:
            _store(self.root / self.prefix / name, content)

    def announce(self, line: str) -> None:
        """A line for the user, on stdout."""
        print(line, flush=True)


def make_sink(options: DumpOptions, prefix: str, module_name: str) -> Sink:
    """The sink of one module.

    Raises:
      HloError: `--xla_dump_to=sponge` without the directory's environment variable.
      FlagError: the directory cannot be made or written.
    """
    stamp = f"{time.time_ns() // 1000}." if options.timestamp else ""
    root = _directory(options.to)
    folder = root
    if root is not None and options.subfolder:
        folder = root / file_name(module_name) / f"{platform.node()}_{os.getpid()}"
    if folder is not None:
        _make_folder(folder, options.to)
    return Sink(prefix, folder, root, stamp)


def _make_folder(folder: Path, to: str) -> None:
    """Find out before anything is compiled whether its stages can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FlagError(
            f"--xla_dump_to={to}: nothing can be written to {folder} ({error.strerror}); "
            "name a directory that can be made and written, or - for stdout"
        ) from None


def _directory(to: str) -> Path | None:
    if to in ("", "-"):
        return None
    if to == "sponge":
        directory = os.environ.get(_SPONGE_VARIABLE)
        if not directory:
            raise HloError(
                f"--xla_dump_to=sponge writes to the directory in {_SPONGE_VARIABLE}, which is "
                "not set; set it, or name a directory"
            )
        return Path(directory)
    return Path(to)


def _store(path: Path, content: str | bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise FlagError(
            f"--xla_dump_to: {path} cannot be written ({error.strerror}); make room for it, or "
            "leave the flag away"
        ) from None


def _print(name: str, content: str | bytes) -> None:
    if isinstance(content, bytes) or name.endswith(_FILES_ONLY):
        print(
            f"Refusing to write {name} to stdout. Pass --xla_dump_to=<path> to write to a file.",
            file=sys.stderr,
        )
        return
    print(f"*** Begin {name} ***\n{content}\n*** End {name} ***", flush=True)
