"""pyjax explain: a page that shows how a function of a file is compiled."""

from __future__ import annotations

import argparse
import importlib
import re
import runpy
import sys
from typing import Any

import numpy as np

from pyjax.api.eval_shape import ShapeDtypeStruct
from pyjax.core import dtypes
from xla_backend.compile_target import find_target

_ARGUMENT = re.compile(r"(\w+)\[([\d,\s]*)\]")


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "explain",
        help="write a page that shows how a function is compiled",
        description="Write a page with a function's lines, jaxpr, HLO after each pass, loops, LLVM "
        "IR and assembly, linked with each other.",
    )
    parser.add_argument("function", metavar="FILE:FUNCTION")
    parser.add_argument("arguments", nargs="*", metavar="DTYPE[SHAPE]", help="such as float32[8,3]")
    parser.add_argument("-o", "--out", default="explain.html", help="default: explain.html")
    parser.add_argument(
        "--target", help="a GPU that need not be here, such as sm_90; by default the CPU"
    )
    parser.set_defaults(run=run)


def argument(text: str) -> ShapeDtypeStruct:
    """An argument as it is written on the command line.

    >>> argument("float32[2,3]").shape
    (2, 3)
    """
    found = _ARGUMENT.fullmatch(text.strip())
    names = {dtype.name: dtype for dtype in map(np.dtype, dtypes.ALL_DTYPES)}
    if found is None or found[1] not in names:
        raise ValueError(f"{text!r} is no argument: write one as float32[8,3], or int32[]")
    shape = tuple(int(size) for size in found[2].split(",") if size.strip())
    return ShapeDtypeStruct(shape, names[found[1]])


def run(chosen: argparse.Namespace) -> int:
    path, _, name = chosen.function.rpartition(":")
    try:
        arguments = [argument(text) for text in chosen.arguments]
        if not path:
            raise ValueError(f"{chosen.function!r} names no function: write FILE:FUNCTION")
        found = runpy.run_path(path)
        if name not in found:
            raise ValueError(f"{path} has no function {name!r}")
        if chosen.target is not None:
            find_target(chosen.target)
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    # Not above: it takes SciPy, which programs that `pyjax run` starts set up before its import.
    explorer = importlib.import_module("pyjax.tools.explorer")
    if chosen.target is None:
        page = explorer.explain(found[name], *arguments)
    else:
        page = explorer.explain_for(chosen.target, found[name], *arguments)
    print(page.save(chosen.out))
    return 0
