"""DumpOptions: which stages of a compilation are written where. Settings only; writing is the job
of `xla_backend.dump`, which loads when a compilation wants a dump.
"""

from __future__ import annotations

from typing import Any

from xla_backend.process.values import Value


class DumpOptions(Value):
    """The `xla_dump_*` flags of one compilation.

    Fields:
      to: directory; "-" or "" is stdout, "sponge" the directory in $TEST_UNDECLARED_OUTPUTS_DIR.
      as_text, as_proto, as_dot, as_html, as_url: formats of HLO; text if none is chosen.
      compress_protos: protos of HLO are gzipped.
      snapshots: each run writes its arguments and result with the compiled module; a format of its
        own, so no text is written unless it is chosen.
      unoptimized_snapshots: each run of any module writes its arguments with the module as it was
        received; nothing else is written then.
      pass_re, pipeline_re, module_re, emitter_re: what is dumped, by name; "" is no filter, but
        without `pass_re` no pass is dumped.
      max_modules: of this process; -1 for all.
      flags: (name, value) of the XLA flags that differ from their defaults.
    """

    to: str = ""
    as_text: bool = False
    as_proto: bool = False
    as_dot: bool = False
    as_html: bool = False
    as_url: bool = False
    compress_protos: bool = False
    snapshots: bool = False
    unoptimized_snapshots: bool = False
    pass_re: str = ""
    pipeline_re: str = ""
    module_re: str = ""
    emitter_re: str = ""
    max_modules: int = -1
    timestamp: bool = False
    subfolder: bool = False
    long_text: bool = True
    metadata: bool = True
    large_constants: bool = False
    buffer_analysis: bool = True
    pretty_mlir: bool = True
    fusion_visualization: bool = False
    module_metadata: bool = False
    graph_addresses: bool = False
    graph_sharding_color: bool = False
    flags: tuple[tuple[str, Any], ...] = ()

    @property
    def wanted(self) -> bool:
        """Whether anything is written at all: filters alone ask for nothing."""
        return bool(self.to or self.as_text or self.formats_besides_text)

    @property
    def formats_besides_text(self) -> bool:
        """Whether something other than text is asked for, which is then the only form of HLO."""
        return (
            self.as_proto
            or self.as_dot
            or self.as_html
            or self.as_url
            or self.snapshots
            or self.unoptimized_snapshots
        )
