"""NVIDIA's assembler: from PTX to the code of one architecture, and what it says about that.

`ptxas` is looked for in this order: the toolkit that options name, $PYJAX_PTXAS, the files of the
packages nvidia-cuda-nvcc and nvidia-cuda-nvcc-cu12, $CUDA_HOME and $CUDA_PATH, the search path,
/usr/local/cuda.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.util import find_spec
from json import dumps, loads
from pathlib import Path

from xla_backend.persistent import store
from xla_backend.persistent.settings import cache_settings
from xla_backend.process.light_dataclasses import dataclass

VARIABLE = "PYJAX_PTXAS"
_NAME = "ptxas.exe" if os.name == "nt" else "ptxas"
_USUAL = Path("/usr/local/cuda/bin")
_PACKAGE_FILES = ("cuda_nvcc/bin/ptxas", "cu13/bin/ptxas", "cu12/bin/ptxas")
# Of entries on disk: what it said about the functions, then a line's end, then the code.
_KIND = "cubin"
_MOST_SECONDS = 600


class PtxasNotFoundError(RuntimeError):
    """There is no assembler here."""


class PtxasError(RuntimeError):
    """The assembler refuses a text: a bug in an emitter, shown with the offending line."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What one function takes, as the assembler says.

    Fields:
      registers: of 32 bits, of each thread.
      spill_stores, spill_loads: bytes that a thread moves to and from memory for want of them.
      stack: bytes of a thread's own memory, spills among them.
      shared: bytes of a block, those that a launch asks for not counted.
      barriers: how many it uses.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int
    barriers: int


@dataclass(frozen=True, slots=True)
class Assembled:
    """Code of an architecture (an ELF file that drivers load), and its functions' resources."""

    code: bytes
    resources: Mapping[str, Resources]


def find_ptxas(toolkit: str = "") -> Path | None:
    """The assembler that is used, that of a toolkit's folder first; None if there is none.

    Raises:
      PtxasNotFoundError: the environment names one, which is not there.
    """
    if toolkit and _is_program(found := Path(toolkit, "bin", _NAME)):
        return found
    chosen = os.environ.get(VARIABLE)
    if chosen:
        path = shutil.which(chosen)
        if path is None:
            raise PtxasNotFoundError(f"${VARIABLE} is {chosen!r}, which is no program")
        return Path(path)
    return next(filter(_is_program, _candidates()), None)


def _candidates() -> Iterator[Path]:
    package = find_spec("nvidia")
    for folder in (package.submodule_search_locations or ()) if package is not None else ():
        for file in _PACKAGE_FILES:
            yield Path(folder, file).with_name(_NAME)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable], "bin", _NAME)
    on_path = shutil.which(_NAME)
    if on_path is not None:
        yield Path(on_path)
    yield _USUAL / _NAME


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def require_ptxas(toolkit: str = "") -> Path:
    """The assembler that is used.

    Raises:
      PtxasNotFoundError: there is none; it says where it may come from.
    """
    found = find_ptxas(toolkit)
    if found is None:
        raise PtxasNotFoundError(
            "no ptxas here, which assembles code for GPUs: pip install nvidia-cuda-nvcc-cu12, or "
            f"let ${VARIABLE} be its path"
        )
    return found


def version(ptxas: Path) -> str:
    """The release of an assembler, "12.9.86"."""
    return _version(str(ptxas), ptxas.stat().st_mtime_ns)


@cache
def _version(path: str, changed: int) -> str:
    said = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=True, timeout=_MOST_SECONDS
    ).stdout
    found = re.search(r"\bV(\d+(\.\d+)+)", said)
    return found[1] if found else said.strip()


def assemble(
    ptx: str,
    architecture: str,
    *,
    flags: Sequence[str] = (),
    toolkit: str = "",
    keep: bool = False,
) -> Assembled:
    """Code of an architecture ("sm_90"); with `keep` it is looked up on disk first and kept there.
    `flags`: more of ptxas.  `toolkit`: see `find_ptxas`.

    Raises:
      PtxasNotFoundError: there is no assembler.
      PtxasError: it refuses the text.
    """
    ptxas = require_ptxas(toolkit)
    keep = keep and cache_settings().internal
    key = store.entry_key(_KIND, ptx, architecture, *flags, version(ptxas))
    found = store.load(key, _KIND, architecture) if keep else None
    if found is not None:
        head, _, code = found.partition(b"\n")
        return Assembled(code, {k: Resources(**v) for k, v in loads(head).items()})
    made = _assemble(ptxas, ptx, architecture, flags)
    if keep:
        said = dumps({k: asdict(v) for k, v in made.resources.items()})
        store.store(key, _KIND, architecture, said.encode() + b"\n" + made.code)
    return made


def _assemble(ptxas: Path, ptx: str, architecture: str, flags: Sequence[str]) -> Assembled:
    """Code, made anew where registers spill for no need: left alone, ptxas has as many blocks at a
    time as there can be, and takes registers away for that."""
    made = _assemble_once(ptxas, ptx, architecture, flags)
    spilling = [name for name, used in made.resources.items() if _spilled(used)]
    if not spilling:
        return made
    again = _assemble_once(ptxas, with_few_blocks(ptx, spilling), architecture, flags)
    gained = [
        name
        for name in spilling
        if _spilled(again.resources[name]) < _spilled(made.resources[name])
    ]
    if len(gained) == len(spilling):
        return again
    # Some would spill all the more.
    return (
        _assemble_once(ptxas, with_few_blocks(ptx, gained), architecture, flags) if gained else made
    )


def _spilled(used: Resources) -> int:
    return used.spill_stores + used.spill_loads


def with_few_blocks(ptx: str, functions: Sequence[str]) -> str:
    """PTX in which some functions say that one block at a time is enough."""
    names = "|".join(map(re.escape, functions))
    pattern = re.compile(rf"(\.entry (?:{names})\([^)]*\)\s*\.reqntid [\d, ]+)")
    return pattern.sub(r"\1\n.minnctapersm 1", ptx)


def _assemble_once(ptxas: Path, ptx: str, architecture: str, flags: Sequence[str]) -> Assembled:
    with tempfile.TemporaryDirectory(prefix="pyjax-ptxas-") as folder:
        source, code = Path(folder, "code.ptx"), Path(folder, "code.cubin")
        source.write_text(ptx)
        command: list[str | Path] = [
            ptxas,
            f"-arch={architecture}",
            "-v",
            *flags,
            source,
            "-o",
            code,
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_MOST_SECONDS
        )
        said = done.stdout + done.stderr
        if done.returncode != 0:
            raise PtxasError(_explain(ptx, architecture, version(ptxas), said))
        return Assembled(code.read_bytes(), parse_resources(said))


_LINE = re.compile(r"^ptxas [^,]*, line (\d+); (?:error|fatal)\s*: (.*)$", re.MULTILINE)


def _explain(ptx: str, architecture: str, release: str, said: str) -> str:
    """What is wrong, with the line and the function that it is in."""
    found = _LINE.search(said)
    if found is None:
        return f"ptxas {release} refuses the code for {architecture}:\n{said.strip()}"
    number, why = int(found[1]), found[2]
    lines = ptx.splitlines()
    text = lines[number - 1].strip() if number <= len(lines) else ""
    entries = [re.search(r"\.entry\s+(\S+?)\(", line) for line in lines[:number]]
    function = next((entry[1] for entry in reversed(entries) if entry), "the module")
    return (
        f"ptxas {release} refuses the code for {architecture}: {why}, at line {number} in "
        f"{function}:\n{text}"
    )


_FUNCTION = re.compile(r"Compiling entry function '([^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(.*)")


def parse_resources(said: str) -> dict[str, Resources]:
    """What `ptxas -v` prints, by function."""
    found: dict[str, Resources] = {}
    name, stack = "", (0, 0, 0)
    for line in said.splitlines():
        if entry := _FUNCTION.search(line):
            name, stack = entry[1], (0, 0, 0)
        elif frame := _STACK.search(line):
            stack = (int(frame[1]), int(frame[2]), int(frame[3]))
        elif (used := _USED.search(line)) and name:
            shared = re.search(r"(\d+) bytes smem", used[2])
            barriers = re.search(r"used (\d+) barriers", used[2])
            found[name] = Resources(
                registers=int(used[1]),
                spill_stores=stack[1],
                spill_loads=stack[2],
                stack=stack[0],
                shared=int(shared[1]) if shared else 0,
                barriers=int(barriers[1]) if barriers else 0,
            )
    return found
