"""What turns text into object code, without loading it."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def llvm_version() -> str:
    """The version of LLVM, as a part of keys. llvmlite brings it; another build of the same version
    has another size."""
    import llvmlite

    folder = Path(llvmlite.__file__).parent / "binding"
    sizes = sorted(path.stat().st_size for path in folder.glob("*llvmlite.*") if path.is_file())
    return f"llvmlite {llvmlite.__version__} {sizes}"
