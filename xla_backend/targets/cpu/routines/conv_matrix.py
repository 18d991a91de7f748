"""Convolution of few pixels by many weights, as in the last layers of a network, and its gradient
by the weights: images are unfolded whole, and one product reads the other operand where it lies.

Copying weights into panels would take longer than the multiplications: a layer of 512 by 512
channels has 9 MB of them, for 49 pixels.

  matrix          [pixels, taps and channels] times weights
  matrix_turned   the window is the gradient of a result, its places are those pixels and the places
                  of the output the taps: the same matrix, transposed, times the window
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.conv_unfold import emit_unfold_last
from xla_backend.targets.cpu.routines.gemm_context import PRODUCT, parameters
from xla_backend.targets.cpu.routines.gemm_paths import PATHS, Path, path_of
from xla_backend.targets.cpu.routines.gemm_tiles import GemmType
from xla_backend.targets.cpu.routines.task_context import TaskContext, run_tasks
from xla_backend.targets.cpu.routines.workspace import GIVE, TAKE

# A matrix of more elements takes too much memory, where it is larger than what it is made for.
_MOST_ELEMENTS = 1 << 22
# Elements of a row of taps that are copied at once, at least.
_LEAST_RUN = 16
_UNITS = ("groups", "oc", "wo")
_CONTEXT = TaskContext(("x", "dims", "matrix"), pointers=3)
# Extents and strides, from the inside out.
_Steps = tuple[tuple[str, str], ...]


class _Form(NamedTuple):
    """Fields:
    rows, weights: extents and strides of the result's rows, and of what is added up, in the window.
    pixels: the extents of the matrix's rows that `unfold_last` knows as those of the output.
    taps: those of its columns.
    renamed: the fields that `unfold_last` is to take for others.
    most: pixels for each output channel up to which this is the way. Below it a copy of the image
      for each tap costs less than one of the weights, or than results that are put in order.
    """

    rows: _Steps
    weights: _Steps
    pixels: tuple[str, ...]
    taps: tuple[str, ...]
    renamed: Mapping[str, str]
    most: int


_OUT = ("out0", "out1", "out2", "n")
_WINDOW = ("win0", "win1", "win2", "ci")
FORMS = {
    "matrix": _Form(
        (("out2", "o2"), ("out1", "o1"), ("out0", "o0"), ("n", "ob")),
        (("ci", "wi"), ("win2", "w2"), ("win1", "w1"), ("win0", "w0")),
        _OUT,
        _WINDOW,
        {},
        2,
    ),
    "matrix_turned": _Form(
        (("n", "ob"), ("out2", "o2"), ("out1", "o1"), ("out0", "o0")),
        (("win2", "w2"), ("win1", "w1"), ("win0", "w0"), ("ci", "wi")),
        _WINDOW,
        _OUT,
        {
            **dict(zip(_OUT, _WINDOW)),
            **dict(zip(_WINDOW, _OUT)),
            **{f"stride{s}": f"wdil{s}" for s in "012"},
            **{f"wdil{s}": f"stride{s}" for s in "012"},
            "xb": "xc",
            "xc": "xb",
        },
        16,
    ),
}


def form_of(d: Mapping[str, int]) -> str | None:
    """The form in which a convolution runs like this: few pixels; rows of the result, and what is
    added up, in even steps; and output channels contiguous, of the window and the result. None: it
    does not."""
    if any(d[name] != 1 for name in _UNITS) or d["co"] == 1:
        return None
    for name, form in FORMS.items():
        even = all(_even_step(d, steps) is not None for steps in (form.rows, form.weights))
        contiguous, *run = (d[form.renamed.get(x, x)] for x in ("xc", "ci", "win2"))
        runs = contiguous == 1 and math.prod(run) >= _LEAST_RUN
        pixels = _product(d, form.pixels)
        small = pixels * _product(d, form.taps) <= _MOST_ELEMENTS or not form.renamed
        if even and runs and small and pixels <= form.most * d["co"]:
            return name
    return None


def conditions(w: FunctionWriter, d: Any) -> dict[str, list[str]]:
    """The same of sizes that are known at run time only."""
    units = [w.cmp("eq", "i64", d[name], "1") for name in _UNITS]
    units.append(w.cmp("ne", "i64", d["co"], "1"))
    found: dict[str, list[str]] = {}
    for name, form in FORMS.items():
        even = [_step_at_run_time(w, d, steps)[1] for steps in (form.rows, form.weights)]
        contiguous, ci, win2 = (d[form.renamed.get(x, x)] for x in ("xc", "ci", "win2"))
        runs = [w.cmp("eq", "i64", contiguous, "1")]
        runs.append(w.cmp("sge", "i64", w.imul(ci, win2), str(_LEAST_RUN)))
        pixels = _count(w, d, form.pixels)
        few = [w.cmp("sle", "i64", pixels, w.imul(d["co"], form.most))]
        if form.renamed:
            elements = w.imul(pixels, _count(w, d, form.taps))
            few.append(w.cmp("sle", "i64", elements, str(_MOST_ELEMENTS)))
        found[name] = [*units, *even, *runs, *few]
    return found


def product_of(t: GemmType, target: TargetInfo, d: Mapping[str, int], name: str) -> Path:
    """The way that the product of a form takes."""
    form = FORMS[name]
    pixels, taps = (_product(d, extents) for extents in (form.pixels, form.taps))
    step, pitch = _even_step(d, form.weights), _even_step(d, form.rows)
    assert step is not None and pitch is not None
    numbers = {"N": d["co"], "rsB": step, "csB": 1, "ldc": pitch}
    if form.renamed:
        numbers |= {"M": taps, "K": pixels, "rsA": 1, "csA": taps}
    else:
        numbers |= {"M": pixels, "K": taps, "rsA": taps, "csA": 1}
    return path_of(t, target, numbers)


def products() -> list[Path]:
    """What `product_of` may say."""
    return [path for path in PATHS if not path.turned]


def over(t: GemmType, name: str) -> str:
    """The symbol of a form."""
    return f"pyjax_conv_{t.name}.over_{name}"


def emit_form(
    module: ModuleWriter,
    t: GemmType,
    prefix: str,
    dims: Callable[..., Any],
    fields: tuple[str, ...],
    name: str,
) -> None:
    """void over_<name>(x, w, out, dims, product), where `form_of` says so; product: a routine."""
    form = FORMS[name]
    emit_unfold_last(module, t, prefix, dims)
    _emit_task(module, t, prefix, dims)
    names = [("ptr", p) for p in ("x", "w", "out", "dims", "product")]
    w = module.function(over(t, name), names)
    d = dims(w, "%dims")
    pixels, taps = _count(w, d, form.pixels), _count(w, d, form.taps)
    space = w.imul(w.imul(pixels, taps), t.source.byte_size)
    block = w.call(TAKE, "ptr", [("i64", space)])
    matrix = w.gep("i8", block, 64)
    unfolded = "%dims"
    if form.renamed:
        unfolded = w.alloca("i64", len(fields), 8)
        for i, field in enumerate(fields):
            w.store("i64", d[form.renamed.get(field, field)], w.gep("i64", unfolded, i), 8)
    context = _CONTEXT.make(w, ("%x", unfolded, matrix))
    lines = w.op("udiv", "i64", pixels, d[form.renamed.get("out2", "out2")])
    run_tasks(w, f"{prefix}.matrix.line", context, lines)
    step, pitch = (_step_at_run_time(w, d, steps)[0] for steps in (form.weights, form.rows))
    sizes = (taps, d["co"], pixels) if form.renamed else (pixels, d["co"], taps)
    steps = ("1", taps) if form.renamed else (taps, "1")
    values = (*sizes, matrix, *steps, "%w", step, "1", "%out", pitch, "0")
    product = [(ty, value) for (ty, _), value in zip(parameters(*PRODUCT), values, strict=True)]
    w.call_pointer("%product", "void", product)
    w.call(GIVE, "void", [("ptr", block)])
    w.ret()


def _emit_task(module: ModuleWriter, t: GemmType, prefix: str, dims: Callable[..., Any]) -> None:
    """void line(ctx, block): unfolds one line of pixels of all images."""
    w = module.function(f"{prefix}.matrix.line", [("ptr", "ctx"), ("i64", "block")], internal=True)
    d = dims(w, _CONTEXT.field(w, "dims"))
    elem = f"i{8 * t.source.byte_size}"
    per_image = w.imul(d["out0"], d["out1"])
    image = w.op("udiv", "i64", "%block", per_image)
    line = w.isub("%block", w.imul(image, per_image))
    size = w.imul(d["out2"], _count(w, d, _WINDOW))
    x = w.gep(elem, _CONTEXT.field(w, "x"), w.imul(image, d["xb"]))
    target = w.gep(elem, _CONTEXT.field(w, "matrix"), w.imul("%block", size))
    args = [("ptr", x), ("ptr", target), ("ptr", d.ptr)]
    args += [("i64", v) for v in (line, w.iadd(line, 1), "0", d["out2"])]
    w.call(f"{prefix}.unfold_last", "void", args)
    w.ret()


def _count(w: FunctionWriter, d: Any, extents: tuple[str, ...]) -> str:
    count = "1"
    for extent in extents:
        count = w.imul(count, d[extent])
    return count


def _product(d: Mapping[str, int], extents: tuple[str, ...]) -> int:
    return math.prod(d[extent] for extent in extents)


def _even_step(d: Mapping[str, int], steps: _Steps) -> int | None:
    """The step between elements in dimensions of these extents and strides, 0 if there is only one;
    None: it is not the same everywhere, or backwards."""
    step, count = 0, 1
    for extent, stride in steps:
        if d[extent] == 1:
            continue
        if count == 1:
            step = d[stride]
        elif d[stride] != step * count:
            return None
        count *= d[extent]
    return step if step >= 0 else None


def _step_at_run_time(w: FunctionWriter, d: Any, steps: _Steps) -> tuple[str, str]:
    """(the step, whether there is one), as `_even_step` has it."""
    step, count, even = "0", "1", "true"
    for extent, stride in steps:
        single = w.cmp("eq", "i64", d[extent], "1")
        first = w.cmp("eq", "i64", count, "1")
        follows = w.cmp("eq", "i64", d[stride], w.imul(step, count))
        follows = w.op("or", "i1", follows, w.op("or", "i1", single, first))
        even = w.op("and", "i1", even, follows)
        step = w.select(first, "i64", w.select(single, "i64", step, d[stride]), step)
        count = w.imul(count, d[extent])
    return step, w.op("and", "i1", even, w.cmp("sge", "i64", step, "0"))
