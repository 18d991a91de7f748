"""Dumper: which files one compilation writes, and when."""

from __future__ import annotations

import gzip
import itertools
import re
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xla_backend.dump.buffer_reports import buffer_reports
from xla_backend.dump.graph_dot import module_dot
from xla_backend.dump.graph_html import Frame, graph_page, module_drawing, module_page
from xla_backend.dump.graph_nodes import GraphOptions
from xla_backend.dump.inputs import compile_options_text, topology_text
from xla_backend.dump.run_recorder import RunRecorder
from xla_backend.dump.sink import Sink, file_name, make_sink
from xla_backend.dump.text_format import flag_lines, message
from xla_backend.dump.usage_proto import usage_report
from xla_backend.dump_options import DumpOptions
from xla_backend.emitted_kernel import EmittedKernel
from xla_backend.hlo.errors import HloError
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.printer import LONG, SHORT, module_to_text
from xla_backend.hlo.proto import ProtoError, hlo_proto_to_bytes
from xla_backend.passes.base import PassRun
from xla_backend.passes.buffer_assignment import BufferAssignment
from xla_backend.process.forks import LEAF, take_for_forks
from xla_backend.stablehlo.from_hlo import module_from_hlo
from xla_backend.stablehlo.printer import module_to_text as stablehlo_text

_NO_RENDERER = (
    "Error rendering graph: UNAVAILABLE: Can't render as URL; no URL renderer was registered."
)

_lock = threading.RLock()  # a signal handler may compile, too
take_for_forks(_lock, LEAF)
# Module numbers are even, as under XLA, where the module that is received and the one that is
# compiled are two: what reads dumps expects 0000, 0002, ...
_numbers = itertools.count(step=2)
_dumped_modules = 0


def new_dumper(options: DumpOptions, module_name: str) -> Dumper:
    """The dumper of the next compilation."""
    return Dumper(options, module_name, next(_numbers))


class Dumper:
    """Writes the stages of one compilation; also what watches its passes."""

    def __init__(self, options: DumpOptions, module_name: str, number: int) -> None:
        self.options = options
        self.number = number
        self.module_name = module_name
        self.sink: Sink = make_sink(
            options, f"module_{number:04d}.{file_name(module_name)}", module_name
        )
        # Other modules leave only what the compiler was given, and so does every module where
        # runs are all that is wanted.
        self.matches = not options.unoptimized_snapshots and _found(options.module_re, module_name)
        self._received: HloModule | None = None
        self._pass_numbers = itertools.count()
        self._style = replace(
            LONG if options.long_text else SHORT,
            large_constants=options.large_constants,
            metadata=options.metadata,
        )
        self._graph = GraphOptions(options.graph_addresses, options.graph_sharding_color)
        self._frames: list[Frame] = []
        self._counted: set[str] = set()

    # -- formats -----------------------------------------------------------------------------------

    @property
    def _text(self) -> bool:
        """Whether HLO is written as text: chosen, or no other format is."""
        return self.options.as_text or not self.options.formats_besides_text

    def _allowed(self, kind: str) -> bool:
        """Whether this module is dumped, counting it against `max_modules`: the module as received
        and the compiled one count apart."""
        global _dumped_modules
        if not self.matches:
            return False
        limit = self.options.max_modules
        with _lock:
            # No call between looking and counting, after which a signal handler could run.
            if kind not in self._counted and (limit < 0 or _dumped_modules < limit):
                _dumped_modules += 1
                self._counted.add(kind)
        if kind in self._counted:
            return True
        print(
            f"Have already dumped {_dumped_modules} modules, more than the limit of {limit}",
            file=sys.stderr,
        )
        return False

    def text(self, module: HloModule) -> str:
        """HLO text in the style of this dump."""
        return module_to_text(module, self._style)

    def _write_stage(self, stage: str, module: HloModule, *, final: bool = False) -> None:
        """One module in every format that is wanted; `final`: as it is compiled."""
        options, sink = self.options, self.sink
        if self._text:
            sink.write_hlo(f"{stage}.txt", self.text(module))
        if options.as_proto:
            self._write_proto(stage, module)
        if options.as_dot:
            sink.write_hlo(f"{stage}.dot", module_dot(module, self._title(stage), self._graph))
        if options.as_html:
            sink.write_hlo(f"{stage}.html", module_page(module, self._title(stage), self._graph))
            if final:
                top = module_page(module, self._title(stage), self._graph, collapse=True)
                sink.write_hlo(f"{stage}.top_level.html", top)
        if options.as_url:
            sink.announce(f"{self._title(stage)} --> {_NO_RENDERER}")
            if sink.folder is not None:
                sink.write_hlo(f"{stage}.url", _NO_RENDERER)

    def _write_proto(self, stage: str, module: HloModule) -> None:
        try:
            data = hlo_proto_to_bytes(module)
        except ProtoError as error:
            print(f"No proto for {self._title(stage)}: {error}", file=sys.stderr)
            return
        self._write_packed(f"{stage}.hlo.pb", data)

    def _write_packed(self, suffix: str, data: bytes) -> None:
        if self.options.compress_protos:
            self.sink.write_hlo(f"{suffix}.gz", gzip.compress(data, mtime=0))
        else:
            self.sink.write_hlo(suffix, data)

    def _title(self, stage: str) -> str:
        return f"{self.sink.prefix}.{stage}"

    # -- stages ------------------------------------------------------------------------------------

    def inputs(self, module: HloModule, target: dict[str, str], profile_version: int) -> None:
        """What the compiler was given: the program as StableHLO, options and target."""
        try:
            stablehlo = stablehlo_text(
                module_from_hlo(module),
                debug_info=self.options.metadata,
                generic=not self.options.pretty_mlir,
            )
        except HloError as error:  # HLO says more than StableHLO can; the HLO text is there too
            print(f"No module.mlir for {self.sink.prefix}: {error}", file=sys.stderr)
        else:
            self.sink.write_input("module.mlir", stablehlo)
        options = compile_options_text(self.options.flags, profile_version)
        self.sink.write_input("compile_options.textproto", options)
        self.sink.write_input("topology.textproto", topology_text(target))

    def before_optimizations(self, module: HloModule) -> None:
        """The module as received."""
        if self.options.unoptimized_snapshots:
            self._received = module.clone()
        if self._allowed("before"):
            self._write_stage("before_optimizations", module)

    def between_passes(
        self, module: HloModule, pipeline: str, after: str, before: str, changed: bool
    ) -> None:
        """The module around the passes that `xla_dump_hlo_pass_re` names."""
        if self.options.fusion_visualization and "fusion" in (after, before):
            self._frames.append(Frame(module_drawing(module, self._graph), f"after {after}"))
        if not self._wants_passes(pipeline, after, before, changed):
            return
        if self._allowed("compiled"):
            number = next(self._pass_numbers)
            self._write_stage(f"{number:04d}.{pipeline}.after_{after}.before_{before}", module)

    def _wants_passes(self, pipeline: str, after: str, before: str, changed: bool) -> bool:
        pattern = self.options.pass_re
        if not pattern or not self.matches or not _found(self.options.pipeline_re, pipeline):
            return False
        if pattern == ".*":
            return changed  # everything, so only what is new
        return _found(pattern, after) or _found(pattern, before)

    def after_optimizations(
        self, module: HloModule, assignment: BufferAssignment, backend: str = "cpu"
    ) -> None:
        """The scheduled module, and where its arrays lie."""
        options, sink = self.options, self.sink
        stage = f"{backend}_after_optimizations"
        if not self._allowed("compiled"):
            return
        if options.flags:
            sink.write("debug_options", "\n".join(flag_lines(options.flags)) + "\n")
        if self._frames:
            name = f"{module.entry.name}.{sink.prefix}._fusion.html" if module.entry else ""
            sink.write_named(name, graph_page(self._frames, f"Fusion of {module.name}"))
        self._write_stage(stage, module, final=True)
        if self._text:
            reports = buffer_reports(module, assignment, analysis=options.buffer_analysis)
            for suffix, content in reports.items():
                sink.write_hlo(f"{stage}-{suffix}.txt", content)
        if options.as_proto:
            self._write_packed(f"{stage}-memory-usage-report.pb", usage_report(module, assignment))

    def recorder(self, module: HloModule) -> RunRecorder | None:
        """What writes the runs of the compiled module, if that is wanted."""
        compiled = module if self.options.snapshots and self.matches else None
        if compiled is None and self._received is None:
            return None
        return RunRecorder(self.sink, received=self._received, compiled=compiled)

    def units(self, units: Sequence[tuple[str, str, str, bytes]]) -> None:
        """LLVM modules: name, text before LLVM, text after it, object code."""
        if not self._allowed("compiled"):
            return
        for name, before, after, object_code in units:
            self.sink.write(f"{name}.ir-no-opt.ll", before)
            self.sink.write(f"{name}.ir-with-opt.ll", after)
            self.sink.write(f"obj-file.{name}.o", object_code)

    def kernels(self, loop_ir: dict[str, str]) -> None:
        """Loop nests by kernel."""
        if not self._allowed("compiled"):
            return
        for name, text in loop_ir.items():
            self.sink.write(f"{name}.loop-ir.txt", text + "\n")

    @property
    def wants_emitters(self) -> bool:
        """Whether the code of single kernels is asked for."""
        return bool(self.options.emitter_re) and self.matches

    def emitted(self, kernels: Iterable[EmittedKernel]) -> None:
        """LLVM IR and assembly of the kernels that `xla_dump_emitter_re` names."""
        for kernel in kernels:
            if _found(self.options.emitter_re, kernel.name):
                self.sink.write(f"{kernel.name}.ll", kernel.llvm_ir + "\n")
                self.sink.write(f"{kernel.name}.s", kernel.assembly + "\n")

    def code(self, files: Mapping[str, str | bytes]) -> None:
        """Generated code in further forms, by the end of the file's name."""
        if not self._allowed("compiled"):
            return
        for suffix, content in files.items():
            self.sink.write(suffix, content)

    @property
    def prefix(self) -> str:
        """How the names of all files of this compilation begin."""
        return self.sink.prefix

    def metadata(self, log: Sequence[PassRun]) -> None:
        """When each pass ran and whether it changed something (`xla_dump_module_metadata`)."""
        if self.options.module_metadata and self.matches:
            self.sink.write_named(
                f"module_{self.number:04d}.metadata.textproto", _metadata_text(self.number, log)
            )


def _found(pattern: str, text: str) -> bool:
    return not pattern or re.search(pattern, text) is not None


def _metadata_text(number: int, log: Sequence[PassRun]) -> str:
    # The clock of the log has no date.
    clock = time.time() - time.perf_counter()
    runs = [
        {
            "pass_id": i,
            "pass_name": run.name,
            "pipeline_name": run.pipeline,
            "module_changed": run.changed,
            "module_id": number,
            "start_timestamp_usec": int((clock + run.start) * 1e6),
            "end_timestamp_usec": int((clock + run.start + run.seconds) * 1e6),
        }
        for i, run in enumerate(log, 1)
    ]
    return message({"canonical_module_id": number, "pass_metadata": runs})
