"""Running a program in which `import jax` gives pyjax."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence

from pyjax.tools.as_jax.modules import as_jax


def run_program(script: str, arguments: Sequence[str], is_module: bool = False) -> None:
    """Run a script, or a module by its name, as `__main__`, with `sys.argv` and `sys.path` as
    `python script ...` would set them."""
    with as_jax():
        usual = sys.argv, sys.path[0]
        sys.argv = [script, *arguments]
        try:
            if is_module:
                sys.path[0] = os.getcwd()
                runpy.run_module(script, run_name="__main__", alter_sys=True)
            else:
                sys.path[0] = os.path.dirname(os.path.abspath(script))
                runpy.run_path(script, run_name="__main__")
        finally:
            sys.argv, sys.path[0] = usual
