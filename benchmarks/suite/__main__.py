"""`python -m benchmarks.suite --jax PYTHON [pattern]`: all programs (or those whose group or name
has the pattern in it) by pyjax, and by the JAX of another interpreter; the report is a page, with a
picture beside it if it is written to a file.
"""

from __future__ import annotations

import argparse
import compileall
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.suite.measuring import ROOT, measured
from benchmarks.suite.plot import draw
from benchmarks.suite.programs import PROGRAMS
from benchmarks.suite.report import page, routines_found


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suite", description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="part of a group or of a name")
    parser.add_argument("--jax", metavar="PYTHON", help="an interpreter that has JAX")
    parser.add_argument("--seconds", type=float, default=0.1, help="of calls at a time")
    parser.add_argument("--rounds", type=int, default=3, help="how often packages take turns")
    parser.add_argument("--output", type=Path, help="where the page goes; else it is printed")
    parser.add_argument(
        "--without-installed-routines", action="store_true", help="compile those of pyjax, too"
    )
    parser.add_argument("--note", default="", help="what else the page says of the machine")
    chosen = parser.parse_args(words)
    names = [n for n, p in PROGRAMS.items() if chosen.pattern in n or chosen.pattern in p.group]
    pythons = {"pyjax": sys.executable} | ({"jax": chosen.jax} if chosen.jax else {})
    installed = not chosen.without_installed_routines
    # As an installation has it, and the packages beside us do, whatever PYTHONDONTWRITEBYTECODE
    # says: else each process compiles the modules that it meets within some first call.
    for package in ("pyjax", "xla_backend", "config", "benchmarks"):
        compileall.compile_dir(ROOT / package, quiet=1)
    done = list(measured(pythons, names, chosen.seconds, chosen.rounds, installed))
    how = f"Calls for {chosen.seconds:g} s at a time, {chosen.rounds} times in turn."
    how += f" {routines_found(installed)}"
    how = f"{how} {chosen.note}".strip()
    if chosen.output is None:
        print(page(done, how))
    else:
        picture = chosen.output.with_suffix(".svg")
        draw(done, picture)
        chosen.output.write_text(page(done, how, picture.name), encoding="utf-8")


if __name__ == "__main__":
    main()
