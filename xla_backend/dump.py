"""Writing the stages of a compilation to files, with XLA's file names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from xla_backend.debug_options import DebugOptions

_module_ids = itertools.count()


@dataclass(frozen=True)
class Dumper:
    """Writes files `module_NNNN.<module>.<suffix>` of one compilation into a directory."""

    directory: Path
    prefix: str
    pass_pattern: str
    large_constants: bool
    metadata: bool
    pass_numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def text_options(self) -> dict[str, bool]:
        """How modules are printed: arguments of `module_to_text`."""
        return {"large_constants": self.large_constants, "metadata": self.metadata}

    def write_pass(self, pipeline: str, pass_name: str, text: str) -> None:
        """HLO after a pass, numbered in the order of the passes."""
        number = next(self.pass_numbers)
        suffix = f"{number:04d}.{pipeline}.after_{pass_name}.txt".replace(" ", "_")
        self.write(suffix, text)

    def write(self, suffix: str, content: str | bytes) -> None:
        path = self.directory / f"{self.prefix}.{suffix}"
        self.directory.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content, encoding="utf-8")

    def wants_pass(self, pass_name: str) -> bool:
        """Whether HLO before and after this pass is asked for."""
        return bool(self.pass_pattern) and re.search(self.pass_pattern, pass_name) is not None


def make_dumper(options: DebugOptions, module_name: str) -> Dumper | None:
    """The dumper of one compilation, or None if nothing is to be dumped."""
    if not options.xla_dump_to:
        return None
    pattern = options.xla_dump_hlo_module_re
    if pattern and re.search(pattern, module_name) is None:
        return None
    safe_name = re.sub(r"[^\w.-]", "_", module_name)
    return Dumper(
        Path(options.xla_dump_to),
        f"module_{next(_module_ids):04d}.{safe_name}",
        options.xla_dump_hlo_pass_re,
        options.xla_dump_large_constants,
        not options.xla_dump_disable_metadata,
    )
