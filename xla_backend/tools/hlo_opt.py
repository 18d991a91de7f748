"""hlo_opt: run the compiler, or single passes of it, on modules and print a stage.

    hlo_opt --passes=algsimp,dce module.hlo            the passes, in this order
    hlo_opt --platform=cpu module.hlo                  optimised HLO
    hlo_opt --platform=cpu --stage=llvm module.hlo     LLVM IR; see --list-stages
    hlo_opt --platform=cpu --stage=html module.hlo -o page.html
    hlo_opt --emit-proto module.hlo -o module.hlo.pb   as protobuf; passes are optional then

No device is needed. `-` reads standard input; several modules in one file are separated by lines
`// -----` and taken apart with --split-input-file.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.printer import module_to_text
from xla_backend.hlo.proto import hlo_proto_to_bytes
from xla_backend.hlo.verifier import verify
from xla_backend.passes.base import Pipeline
from xla_backend.passes.buffer_assignment import assign_buffers
from xla_backend.passes.registry import make_pass, pass_names
from xla_backend.program.printer import program_to_text
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.pipeline import build_pipeline
from xla_backend.targets.cpu.routines.contract_table import ROUTINES
from xla_backend.tools.command_line import (
    FORMATS,
    LOAD_HELP,
    ToolParser,
    UsageError,
    compile_options,
    load_files,
    parse_input,
    read_bytes,
    run_tool,
    write_bytes,
    write_text,
)
from xla_backend.tools.explorer.explore import explore

_SEPARATOR = re.compile(rb"^// -----\s*$", re.MULTILINE)

Stage = Callable[[HloModule, CompileOptions], str]


def _hlo(module: HloModule, options: CompileOptions) -> str:
    build_pipeline(options).run(module)
    return module_to_text(module)


def _buffer_assignment(module: HloModule, options: CompileOptions) -> str:
    build_pipeline(options).run(module)
    return assign_buffers(module).to_text() + "\n"


def _program(module: HloModule, options: CompileOptions) -> str:
    return program_to_text(compile_module(module, options).program, ROUTINES)


def _loops(module: HloModule, options: CompileOptions) -> str:
    return "\n\n".join(compile_module(module, options).loop_ir.values()) + "\n"


def _llvm(module: HloModule, options: CompileOptions) -> str:
    return compile_module(module, options).llvm_ir


def _assembly(module: HloModule, options: CompileOptions) -> str:
    kernels = compile_module(module, options).emitted_kernels
    return "\n\n".join(kernel.assembly for kernel in kernels) + "\n"


# Name -> what it prints, how. No pass of LLVM runs on the IR: there is one LLVM stage.
STAGES: dict[str, tuple[str, Stage]] = {
    "hlo": ("optimised, fused and scheduled HLO", _hlo),
    "html": ("a page that shows every step of the compilation", explore),
    "buffer-assignment": ("which memory each array has", _buffer_assignment),
    "program": ("what runs when, in which memory", _program),
    "loops": ("the loop nests of each kernel", _loops),
    "llvm": ("LLVM IR of the program", _llvm),
    "asm": ("assembly of each kernel", _assembly),
}
# XLA's names of the same stages.
_OTHER_NAMES = {
    "hlo-backend": "hlo",
    "llvm-before-optimizations": "llvm",
    "llvm-after-optimizations": "llvm",
}


def make_parser() -> ToolParser:
    parser = ToolParser("hlo_opt", "Run the compiler's passes on HLO text, without a device.")
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="the module; - is standard input")
    add(
        "--platform",
        choices=("cpu", "transforms"),
        default="transforms",
        help="cpu: its whole pipeline; transforms (default): the passes of --passes",
    )
    add("--stage", default="hlo", help="what to print (default: hlo); see --list-stages")
    add("--passes", default="", help="names, separated by commas; see --list-passes")
    add("--input_format", choices=sorted(FORMATS), help="default: by the file's suffix")
    add("-o", "--output", default="-", metavar="FILE", help="default: standard output")
    add("--load", action="append", default=[], metavar="FILE.py", help=LOAD_HELP)
    parser.add_boolean("list-passes", False, "print the names of all passes")
    parser.add_boolean("list-stages", False, "print the stages")
    parser.add_boolean("emit-proto", False, "write HLO as a binary HloProto; needs -o FILE")
    parser.add_boolean("split-input-file", False, "the file holds several modules")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; the exit status. See the module's docstring."""
    options, flags = make_parser().parse(arguments)
    load_files(options.load)
    if options.list_passes:
        print(",".join(pass_names()))
        return 0
    if options.list_stages:
        print("\n".join(f"{name:18} {text}" for name, (text, _) in STAGES.items()))
        return 0
    if options.file is None:
        raise UsageError("no module given; write hlo_opt --passes=... FILE")
    data = read_bytes(options.file)
    pieces = _SEPARATOR.split(data) if options.split_input_file else [data]
    if options.emit_proto:
        _check_emit_proto(options, len(pieces))
    run = _runner(options)
    printed = []
    for piece in pieces:
        module = parse_input(piece, options.file, options.input_format).module
        verify(module)
        printed.append(run(module, compile_options(flags)))
    if options.emit_proto:
        write_bytes(hlo_proto_to_bytes(module), options.output)
    else:
        write_text("// -----\n".join(printed), options.output)
    return 0


def _check_emit_proto(options: argparse.Namespace, modules: int) -> None:
    if options.output == "-":
        raise UsageError("--emit-proto writes bytes, which are no use on a screen; give -o FILE")
    if modules != 1:
        raise UsageError(f"--emit-proto writes one module, the input has {modules}")
    if _canonical(options.stage) != "hlo":
        raise UsageError(f"--emit-proto writes HLO; it does not go with --stage={options.stage}")


def _canonical(stage: str) -> str:
    return _OTHER_NAMES.get(stage, stage)


def _runner(options: argparse.Namespace) -> Stage:
    passes, stage = options.passes, options.stage
    if options.platform == "transforms" or passes:
        if not passes and not options.emit_proto:
            raise UsageError("nothing to do: give --passes=a,b or --platform=cpu")
        if stage != "hlo":
            raise UsageError(f"--passes prints HLO; --stage={stage} needs --platform=cpu alone")
        return _passes(passes.split(",")) if passes else _unchanged
    chosen = _canonical(stage)
    if chosen not in STAGES:
        names = ", ".join(sorted({*STAGES, *_OTHER_NAMES}))
        raise UsageError(f"no stage {stage!r}; there are {names}")
    return STAGES[chosen][1]


def _unchanged(module: HloModule, options: CompileOptions) -> str:
    return module_to_text(module)


def _passes(names: Sequence[str]) -> Stage:
    passes = [make_pass(name) for name in names]

    def run(module: HloModule, options: CompileOptions) -> str:
        if module.is_scheduled:
            print(f"module {module.name} is scheduled: no pass was run", file=sys.stderr)
        else:
            Pipeline("hlo_opt", list(passes), options).run(module)
            verify(module, after=names[-1])
        return module_to_text(module)

    return run


def console() -> None:
    """The console script."""
    run_tool(main)


if __name__ == "__main__":
    console()
