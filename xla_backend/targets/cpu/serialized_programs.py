"""Programs as bytes that users keep: what `kept_programs` puts on disk, with what it depends on.

The bytes say what compiled them, and for which processor: elsewhere they are refused, as there is
nothing that would be compiled instead.
"""

from __future__ import annotations

import time

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.module_source import ModuleSource
from xla_backend.llvm.jit import UnresolvedSymbolError
from xla_backend.persistent.sources import source_digest
from xla_backend.program.records import ProgramFormatError
from xla_backend.runtime.client import Device
from xla_backend.targets.cpu.compiler import compile_code
from xla_backend.targets.cpu.executable import CpuExecutable
from xla_backend.targets.cpu.installed_programs import library_versions
from xla_backend.targets.cpu.kept_programs import (
    Unfit,
    key_parts,
    read_entry,
    shapes_of,
    write_entry,
)
from xla_backend.targets.cpu.loaded_code import load_code
from xla_backend.targets.cpu.program_code import CodeFacts, ProgramCode
from xla_backend.targets.cpu.target_options import target_for


def serialize_program(module: HloModule, options: CompileOptions, device: Device) -> bytes:
    """The code of a module.

    Raises:
      UnimplementedError: it calls something of this process; or the sources of the compiler, by
        which versions are told apart, cannot be read.
    """
    if key_parts(ModuleSource.of(module), options) is None:
        raise UnimplementedError(
            f"the program {module.name!r} calls functions of this process, such as callbacks"
        )
    start = time.perf_counter()
    code = compile_code(module.clone(), options._replace(dump=None), device).code
    try:
        entry = write_entry(code.facts, code.files, time.perf_counter() - start)
    except ProgramFormatError as error:
        what = f"the program {module.name!r} cannot be written: {error}"
        raise UnimplementedError(what) from None
    return b"\n".join([*_made_by(options), entry])


def load_serialized(
    content: bytes, module: HloModule, options: CompileOptions, device: Device
) -> CpuExecutable:
    """The executable that `serialize_program` wrote.

    Raises:
      ValueError: it was compiled for another processor, by another version of the compiler, or is
        not of this module; or it calls a function that is not registered here.
    """
    compiler, processor, *rest = content.split(b"\n", 2)
    here_compiler, here_processor = _made_by(options)
    if compiler != here_compiler:
        raise ValueError("it was compiled by another version of the compiler")
    if processor != here_processor:
        raise ValueError(
            f"it was compiled for the processor {processor.decode()}, and this one is "
            f"{here_processor.decode()}"
        )
    try:
        found = read_entry(b"".join(rest), CodeFacts, shapes_of(module))
        facts = found.facts
        assert isinstance(facts, CodeFacts)
        made_with = options._replace(dump=None, measured=facts.measured)
        source = ModuleSource.of(module)
        return load_code(ProgramCode(facts, found.objects), source, made_with, device)
    except (Unfit, ProgramFormatError, UnresolvedSymbolError) as error:
        raise ValueError(f"it cannot be used: {error}") from None


def _made_by(options: CompileOptions) -> tuple[bytes, bytes]:
    """The compiler and the processor, each on a line."""
    processor = repr(target_for(options).key).encode()
    return f"{source_digest()}, {library_versions()}".encode(), processor
