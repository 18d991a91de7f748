"""From LLVM text to PTX."""

from __future__ import annotations

from xla_backend.llvm import objects
from xla_backend.llvm.target import TargetInfo, make_target
from xla_backend.llvm.versions import llvm_version
from xla_backend.persistent import store
from xla_backend.persistent.settings import cache_settings
from xla_backend.targets.gpu.architectures import TRIPLE, Architecture

# Of entries on disk.
_KIND = "ptx"
# Versions of PTX that instructions need which are written as such.
_NEEDED = {".e4m3": 84, ".e5m2": 84, ".s32.s8.u8": 84, ".s32.u8.s8": 84}
_LEVEL = 3  # of LLVM's code generator, which does what no pass before it did


def llvm_target(architecture: Architecture, ir: str = "") -> TargetInfo:
    """LLVM's names of an architecture and of the PTX that it is given; a later one than usual where
    a module has instructions that need it."""
    needed = [version for name, version in _NEEDED.items() if name in ir]
    return make_target(TRIPLE, architecture.name, f"+ptx{max([architecture.ptx, *needed])}")


def compile_ptx(ir: str, architecture: Architecture, cache: bool = False) -> str:
    """PTX of a module given as text; with `cache` it is looked up on disk first and kept there.

    Raises:
      IrError: the text does not parse or the module does not verify.
    """
    target = llvm_target(architecture, ir)
    keep = cache and cache_settings().internal
    key = store.entry_key(_KIND, ir, target.key, str(_LEVEL), llvm_version())
    found = store.load(key, _KIND, target.key) if keep else None
    if found is not None:
        return found.decode()
    text = objects.assembly(ir, target, _LEVEL, jit=False)
    if keep:
        store.store(key, _KIND, target.key, text.encode())
    return text
