"""Damaged programs, as text and as protobuf, given to the parsers: they are refused with an error
of this compiler that shows the place, or they are valid; never anything else, and never for long.
"""

from __future__ import annotations

import random
import re
import traceback
from collections.abc import Sequence
from pathlib import Path

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import HloError, ParseError
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.hlo.proto import module_from_proto, module_to_proto
from xla_backend.hlo.proto_wire import ProtoError
from xla_backend.hlo.verifier import verify
from xla_backend.passes.buffer_assignment import assign_buffers
from xla_backend.stablehlo.library import module_to_stablehlo, parse_stablehlo
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.pipeline import build_pipeline
from xla_backend.tools.fuzz.checks import Failure
from xla_backend.tools.fuzz.program import generate
from xla_backend.tools.fuzz.text_mutations import mutated, mutated_bytes

# line:column: message, the line of the text, a caret below it
_PLACED = re.compile(r"\A\d+:\d+: .+\n[^\n]*\n *\^\Z", re.DOTALL)
_MAX_BYTES = 1 << 20  # of all arrays together, for programs that are compiled
_MAX_INSTRUCTIONS = 200
_LLVM_PERIOD = 12

FORMS = ("hlo", "stablehlo", "proto")
# What reads a program of each form, by the end of a file's name.
SUFFIXES = {".hlo": "hlo", ".hlo.txt": "hlo", ".mlir": "stablehlo", ".pb": "proto"}

Sample = tuple[str, str | bytes]  # form, text or bytes


def generated_sample(seed: int) -> Sample | None:
    """A random program in one of the forms; None where StableHLO has none for it."""
    module = generate(seed)
    form = FORMS[seed % len(FORMS)]
    if form == "hlo":
        return form, module_to_text(module)
    if form == "proto":
        return form, module_to_proto(module)
    try:
        return form, module_to_stablehlo(module)
    except HloError:
        return None


def samples_in(folder: Path) -> list[Sample]:
    """The programs in a folder and its folders, in order of their names."""
    found: list[Sample] = []
    for path in sorted(folder.rglob("*")):
        form = next((f for end, f in SUFFIXES.items() if path.name.endswith(end)), None)
        if form == "proto":
            found.append((form, path.read_bytes()))
        elif form is not None:
            found.append((form, path.read_text(encoding="utf-8")))
    return found


def damaged(sample: Sample, seed: int) -> Sample:
    """The sample with the mutations of a seed."""
    form, content = sample
    choices = random.Random(f"damage {seed}")
    if isinstance(content, bytes):
        return form, mutated_bytes(choices, content)
    return form, mutated(choices, content)


def read(sample: Sample) -> HloModule:
    """The module of a sample.

    Raises:
      HloError: it is not valid.
    """
    form, content = sample
    if isinstance(content, bytes):
        return module_from_proto(content)
    return parse_stablehlo(content) if form == "stablehlo" else parse_module(content)


def check_sample(sample: Sample, seed: int) -> Failure | None:
    """Read, verify, print and, if it is small, compile a program. Anything but an error of this
    compiler is a failure."""
    form = sample[0]
    stage = "read"
    try:
        module = read(sample)
        stage = "verify"
        verify(module)
        stage = "print"
        module_to_text(module)
        if _is_small(module):
            stage = "compile"
            _compile(module, seed)
    except ParseError as error:
        if form != "proto" and stage == "read" and not _PLACED.match(str(error)):
            return Failure("text", form, f"no place in {str(error)!r}"[:300])
    except (HloError, ProtoError):
        return None
    except Exception as error:
        return Failure("text", form, f"{stage}: {_told(error)}")
    return None


def _compile(module: HloModule, seed: int) -> None:
    options = CompileOptions()
    if seed % _LLVM_PERIOD == 0:
        compile_module(module, options)
    else:
        build_pipeline(options).run(module)
        assign_buffers(module)


def _is_small(module: HloModule) -> bool:
    total = instructions = 0
    for computation in module.computations:
        for node in computation:
            instructions += 1
            total += sum(leaf.byte_size for leaf in node.shape.flatten() if leaf.is_array)
    return total <= _MAX_BYTES and instructions <= _MAX_INSTRUCTIONS


def _told(error: Exception) -> str:
    """Type, text, and the innermost frames."""
    frames = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{f.filename.rsplit('/', 1)[-1]}:{f.name}" for f in frames[:-4:-1])
    message = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {message}\n  {where}"


def damage_check(samples: Sequence[Sample], seed: int) -> Failure | None:
    """Check a damaged sample, chosen by the seed; without samples, a damaged random program."""
    if samples:
        sample: Sample | None = samples[seed % len(samples)]
    else:
        sample = generated_sample(seed // 8)  # several mutations of each program
    if sample is None:
        return None
    return check_sample(damaged(sample, seed), seed)
