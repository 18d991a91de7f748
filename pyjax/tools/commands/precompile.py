"""pyjax precompile: library routines and common operations compiled with the installation, for
processes that find nothing on disk."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyjax.native.entry_code import entry_code
from xla_backend.persistent.settings import installed_directory
from xla_backend.process.ending import ended_in_order
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
        "ahead, and the operations that programs call eagerly most often, and keep them beside the "
        "package: the first call of a process with an empty cache does not compile them. They are "
        "used until the sources or LLVM change, and operations until NumPy or Python change.",
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
            _compile_operations(tool, name, target, directory)
    except tool.PrecompileError as error:
        print(f"pyjax precompile: {error}", file=sys.stderr)
        return 1
    return 0


def _compile_operations(tool: Any, name: str, target: Any, directory: Path) -> None:
    """What programs call eagerly, each compiled by calling it in processes with a cache of their
    own and no options."""
    if not tool.runs_here(target):
        print(f"{name}: no operations, as this machine cannot run code for it")
        return
    begin = time.monotonic()
    with ended_in_order(), tempfile.TemporaryDirectory() as folder:
        _call_operations(name, folder)
        made = tool.make_programs_pack(target, directory, Path(folder))
    for stale in made.removed:
        print(f"removed {stale}: of other sources")
    seconds = time.monotonic() - begin
    print(
        f"{name}: {made.entries} operations, {made.size / 1e6:.1f} MB, in {seconds:.1f} s: "
        f"{made.path}"
    )


def _call_operations(name: str, folder: str) -> None:
    options = ("JAX_", "PYJAX_", "XLA_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(options)}
    environment |= {"JAX_PLATFORMS": "cpu", "PYJAX_CACHE_DIR": folder, "PYJAX_INSTALLED_DIR": ""}
    environment |= {"PYJAX_FIRST_CODE": "0"}  # all of it is to be there when they end
    command = [sys.executable, "-m", "pyjax.tools.common_operations", "--attended", "--cpu", name]
    processes = []
    try:
        for mode in ([], ["--x64"]):
            processes.append(
                subprocess.Popen([*command, *mode], stdin=subprocess.PIPE, env=environment)
            )
        ended = [process.wait() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()  # waits, and closes its standard input
    if any(ended):
        raise RuntimeError(f"calling the common operations ended with {max(ended, key=abs)}")


def _status(tool: Any, directory: Path) -> int:
    """Whether this machine has routines; exit status 1 if not."""
    found = tool.found_packs(directory)
    for each in found:
        use = f"for {each.use}" if each.use else "not used here: other sources, LLVM or processor"
        print(f"{each.path} ({each.entries} {each.what}, {each.size / 1e6:.1f} MB): {use}")
    used = {what: tool.used_here(found, what) for what in tool.WHAT}
    for what, of in used.items():
        print(f"{what} used here: {of or 'none; `pyjax precompile` makes them'}")
    return 0 if all(used.values()) else 1


def _progress(name: str) -> Callable[[int, int], None]:
    last = time.monotonic()

    def say(done: int, of: int) -> None:
        nonlocal last
        if time.monotonic() - last > _LINE_SECONDS or done in (0, of):
            last = time.monotonic()
            print(f"{name}: {done} of {of} groups of kernels", flush=True)

    return say
