"""What a row of the corpus is, and how its programs are run."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import Any

import numpy as np

import pyjax
import pyjax.numpy as jnp
from pyjax import lax, nn, random

HERE = "# here"
_NAMES = {
    "AUTO": pyjax.sharding.AxisType.Auto,
    "jnp": jnp,
    "lax": lax,
    "nn": nn,
    "np": np,
    "pyjax": pyjax,
    "random": random,
}


@dataclass(frozen=True)
class Mistake:
    """A mistake of a user.

    Attributes:
      name: of the row, and of the program's file.
      kind: the name of the exception's type, as the reference raises it.
      bad: the program. The line that the message must name ends in `# here`; else it is the last.
      says: what the message must have: operands with shapes and dtypes, words of the reason.
      good: what the message advises, as a program that runs.
    """

    name: str
    kind: str
    bad: str
    says: tuple[str, ...]
    good: str

    @property
    def file(self) -> str:
        return f"mistake_{self.name}.py"

    @property
    def places(self) -> tuple[str, str]:
        """How a message, and a traceback in a message, name the line."""
        lines = self.bad.strip().splitlines()
        marked = [i for i, line in enumerate(lines, 1) if line.endswith(HERE)]
        line = marked[0] if marked else len(lines)
        return f"{self.file}:{line} in ", f'"{self.file}", line {line}, in '


def run(text: str, file: str) -> dict[str, Any]:
    """Run a program as if it were the text of a file, and return its names."""
    text = text.strip() + "\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {"__name__": "__main__", **_NAMES}
    exec(compile(text, file, "exec"), names)
    return names
