"""pyjax precompile: library routines compiled with the installation, for processes that find
nothing on disk."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyjax.native.entry_code import entry_code
from xla_backend.persistent.settings import installed_directory
from xla_backend.process.on_first_use import import_now, on_first_use
from xla_backend.runtime.host_threads import available_threads

_TOOL = "xla_backend.tools.precompile"
_pieces = on_first_use("xla_backend.targets.cpu.routines.installable", "pieces")
_LINE_SECONDS = 5.0


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "precompile",
        help="compile the library's routines once, for all processes",
        description="Compile matrix products, convolutions, sorts, transforms and other routines "
        "ahead, and keep them beside the package: the first call of a process with an empty cache "
        "does not compile them. They are used until the compiler's sources or LLVM change.",
    )
    parser.add_argument(
        "--cpu", action="append", metavar="NAME",
        help="host (the default), or a level that machines of others have, such as x86-64-v3; may "
        "be given several times",
    )  # fmt: skip
    parser.add_argument("--into", metavar="DIRECTORY", type=Path, help="by default the package's")
    parser.add_argument("--jobs", type=int, help="processes; by default one for each processor")
    parser.add_argument(
        "--all", action="store_true", help="also products of 8 and 16 bits with results of as many"
    )
    parser.add_argument("--list", action="store_true", help="print what would be compiled")
    parser.add_argument("--status", action="store_true", help="print what there is, for whom")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    if chosen.list:
        print(*sorted(_pieces(chosen.all)), sep="\n")
        return 0
    tool: Any = import_now(_TOOL)
    known = chosen.into or installed_directory()
    if known is None:
        print("PYJAX_INSTALLED_DIR is empty: unset it, or name a directory with --into")
        return 2
    directory = Path(known)
    if chosen.status:
        return _status(tool, directory)
    if chosen.jobs is not None and chosen.jobs < 1:
        print(f"--jobs {chosen.jobs}: at least one process compiles")
        return 2
    jobs = chosen.jobs or available_threads()
    try:
        for name in chosen.cpu or [tool.HOST]:
            target = tool.target_named(name)
            texts = [entry_code(target)]
            made = tool.make_pack(
                target, directory, _pieces(chosen.all), texts, jobs, _progress(name)
            )
            for stale in made.removed:
                print(f"removed {stale}: of other sources")
            print(
                f"{name}: {made.entries} entries, {made.size / 1e6:.1f} MB, in "
                f"{made.seconds:.1f} s on {jobs} processes: {made.path}"
            )
    except tool.PrecompileError as error:
        print(f"pyjax precompile: {error}", file=sys.stderr)
        return 1
    return 0


def _status(tool: Any, directory: Path) -> int:
    """Whether this machine has routines; exit status 1 if not."""
    found = tool.found_packs(directory)
    for each in found:
        use = f"for {each.use}" if each.use else "not used here: other sources, LLVM or processor"
        print(f"{each.path} ({each.size / 1e6:.1f} MB): {use}")
    used = tool.used_here(found)
    print(f"used here: {used or 'none; `pyjax precompile` makes them'}")
    return 0 if used else 1


def _progress(name: str) -> Callable[[int, int], None]:
    last = time.monotonic()

    def say(done: int, of: int) -> None:
        nonlocal last
        if time.monotonic() - last > _LINE_SECONDS or done in (0, of):
            last = time.monotonic()
            print(f"{name}: {done} of {of} groups of kernels", flush=True)

    return say
