"""Convolution with run-time sizes: direct register tiles, products over windows, or unfolding.

Any strides (so any dimension order), up to three spatial dimensions, window strides, low padding
of any sign, both dilations, feature and batch groups. High padding is implied by the output size; a
reversed window is a negative weight stride with the pointer at the last tap.

  void pyjax_conv_<t>(ptr x, ptr w, ptr out, ptr dims)
        t: the kinds of pyjax_gemm_<t>. dims: i64 slots as in FIELDS; unused spatial
        dimensions (put them first) have size 1, stride 1, padding 0, dilation 1
  FIELDS and pack_dims(**fields) -> list[int] are in `conv_dims`

How a convolution runs, the first that fits:
  1x1 windows                                     GEMM (channels last or first)
  one channel per group                           vectors of channels or of columns
  f32, f64, few pixels, channels last               images unfolded whole, then one GEMM that reads
                                                  the window in place: `conv_matrix`
  windows larger than the output (weight gradients)  GEMM over the window: in place if it is one
                                                  line (`conv_lines`), else copied (`conv_window`)
  f32, f64 with unit output channel or column stride  register tiles: `conv_direct`
  the rest                                        tiles of the image unfolded, then GEMM: an output
        with unit channel stride from [pixel][tap, channel], else from [tap, channel][pixel]
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines import conv_matrix
from xla_backend.targets.cpu.routines.conv_depthwise import emit_depthwise
from xla_backend.targets.cpu.routines.conv_depthwise_planes import emit_depthwise_planes
from xla_backend.targets.cpu.routines.conv_dims import FIELDS, LARGE_WINDOW, SPATIAL
from xla_backend.targets.cpu.routines.conv_direct import can_run_direct, direct_symbol, emit_direct
from xla_backend.targets.cpu.routines.conv_lines import emit_line_products
from xla_backend.targets.cpu.routines.conv_unfold import emit_unfold
from xla_backend.targets.cpu.routines.conv_window import (
    emit_window_products,
    over_windows,
    product_of,
    products,
)
from xla_backend.targets.cpu.routines.gemm_context import PRODUCT, parameters
from xla_backend.targets.cpu.routines.gemm_paths import ANY, Path, symbol_of
from xla_backend.targets.cpu.routines.gemm_tiles import GEMM_TYPES, GemmType
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.task_context import TaskContext, run_tasks
from xla_backend.targets.cpu.routines.workspace import GIVE, TAKE

_SLOT = {name: i for i, name in enumerate(FIELDS)}
# Slots of the task context: x, w (packed), out, dims, and how pixels are tiled.
_CONTEXT = TaskContext(
    ("x", "w", "out", "dims", "rows_per_tile", "row_tiles", "columns_per_tile", "column_tiles"),
    pointers=4,
)
_TILE_BYTES = 192 * 1024
_MIN_PIXELS = 48
# Of one that is a line, which then is not copied: deep enough for a product.
LONG_LINE = 64
# How a convolution runs, as a suffix of `pyjax_conv_<t>`: programs know the sizes. Without one a
# routine has them all and chooses at run time.
PATHS = (
    "rows", "columns", "depthwise", "depthwise_planes", *conv_matrix.FORMS, "lines", "windows",
    "channels", "planes", "unfolded",
)  # fmt: skip
_WINDOWS = "windows"
# Functions of this module by path.
_INTERNAL = {"depthwise": "depthwise", "depthwise_planes": "planes", "lines": "lines"}
# What makes a window a single point.
_POINTWISE = (("stride", 1), ("pad", 0), ("win", 1), ("xdil", 1))


class Dims:
    """Run-time sizes, loaded on first use."""

    def __init__(self, w: FunctionWriter, ptr: str) -> None:
        self.w = w
        self.ptr = ptr

    def __getitem__(self, name: str) -> str:
        return self.w.load_invariant("i64", self.w.gep("i64", self.ptr, _SLOT[name]), 8)

    def taps(self) -> str:
        w = self.w
        return w.imul(w.imul(self["win0"], self["win1"]), self["win2"])


def element_type(t: GemmType, which: str = "source") -> str:
    return f"i{8 * getattr(t, which).byte_size}"


def _emit_pack_weights(module: ModuleWriter, t: GemmType, prefix: str) -> None:
    """void pack(w, dst, dims): [group][tap][ci][co] contiguous."""
    params = [("ptr", "w"), ("ptr", "dst"), ("ptr", "dims")]
    w = module.function(f"{prefix}.packw", params, internal=True)
    d, elem = Dims(w, "%dims"), element_type(t)
    ci, co = d["ci"], d["co"]
    with w.loop("0", d["groups"]) as g, w.loop("0", d["win0"]) as a, w.loop("0", d["win1"]) as b:
        with w.loop("0", d["win2"]) as c, w.loop("0", ci) as i:
            tap = w.iadd(w.imul(a.index, d["win1"]), b.index)
            tap = w.iadd(w.imul(tap, d["win2"]), c.index)
            row = w.iadd(w.imul(w.iadd(w.imul(g.index, d.taps()), tap), ci), i.index)
            target = w.imul(row, co)
            source = w.iadd(w.imul(g.index, d["wg"]), w.imul(i.index, d["wi"]))
            for loop, name in ((a, "w0"), (b, "w1"), (c, "w2")):
                source = w.iadd(source, w.imul(loop.index, d[name]))
            with w.loop("0", co) as o:
                value = w.load(elem, w.gep(elem, "%w", w.iadd(source, w.imul(o.index, d["wo"]))))
                w.store(elem, value, w.gep(elem, "%dst", w.iadd(target, o.index)))
    w.ret()


def _emit_tile_task(module: ModuleWriter, t: GemmType, prefix: str) -> None:
    """void task(ctx, block): block = ((image * groups + group) * row tiles + r) * column tiles +
    c.
    """
    w = module.function(f"{prefix}.tile", [("ptr", "ctx"), ("i64", "block")], internal=True)
    d = Dims(w, _CONTEXT.field(w, "dims"))
    elem, out_elem = element_type(t), element_type(t, "target")
    column_tiles, row_tiles = _CONTEXT.field(w, "column_tiles"), _CONTEXT.field(w, "row_tiles")

    def split(value: str, by: str) -> tuple[str, str]:
        q = w.op("udiv", "i64", value, by)
        return q, w.isub(value, w.imul(q, by))

    rest, column_tile = split("%block", column_tiles)
    rest, row_tile = split(rest, row_tiles)
    image, group = split(rest, d["groups"])
    rows = w.imul(d["out0"], d["out1"])
    row_lo = w.imul(row_tile, _CONTEXT.field(w, "rows_per_tile"))
    row_hi = w.imin(w.iadd(row_lo, _CONTEXT.field(w, "rows_per_tile")), rows)
    col_lo = w.imul(column_tile, _CONTEXT.field(w, "columns_per_tile"))
    col_hi = w.imin(w.iadd(col_lo, _CONTEXT.field(w, "columns_per_tile")), d["out2"])
    width = w.isub(col_hi, col_lo)
    pixels = w.imul(w.isub(row_hi, row_lo), width)
    depth = w.imul(d.taps(), d["ci"])
    x_offset = w.iadd(w.imul(image, d["xb"]), w.imul(group, d["xg"]))
    x = w.gep(elem, _CONTEXT.field(w, "x"), x_offset)
    size = t.source.byte_size
    block = w.call(TAKE, "ptr", [("i64", w.imul(w.imul(pixels, depth), size))])
    tile = w.gep("i8", block, 64)
    weights = w.gep(elem, _CONTEXT.field(w, "w"), w.imul(w.imul(group, depth), d["co"]))
    outer, inner = split(row_lo, d["out1"])
    out_offset = w.iadd(w.imul(image, d["ob"]), w.imul(group, d["og"]))
    for index, name in ((outer, "o0"), (inner, "o1"), (col_lo, "o2")):
        out_offset = w.iadd(out_offset, w.imul(index, d[name]))
    out = w.gep(out_elem, _CONTEXT.field(w, "out"), out_offset)
    unfold_args = [("ptr", x), ("ptr", tile), ("ptr", d.ptr)]
    unfold_args += [("i64", v) for v in (row_lo, row_hi, col_lo, col_hi)]
    channels_last = w.cmp("eq", "i64", d["oc"], "1")
    gemm = f"pyjax_gemm_{t.name}"

    def last() -> list[str]:
        w.call(f"{prefix}.unfold_last", "void", unfold_args)
        args = [("i64", pixels), ("i64", d["co"]), ("i64", depth)]
        args += [("ptr", tile), ("i64", depth), ("i64", "1")]
        args += [("ptr", weights), ("i64", d["co"]), ("i64", "1")]
        w.call(gemm, "void", [*args, ("ptr", out), ("i64", d["o2"]), ("i64", "0")])
        return []

    def first() -> list[str]:
        w.call(f"{prefix}.unfold_first", "void", unfold_args)
        unit = w.cmp("eq", "i64", d["o2"], "1")

        def direct() -> list[str]:
            args = [("i64", d["co"]), ("i64", pixels), ("i64", depth)]
            args += [("ptr", weights), ("i64", "1"), ("i64", d["co"])]
            args += [("ptr", tile), ("i64", pixels), ("i64", "1")]
            w.call(gemm, "void", [*args, ("ptr", out), ("i64", d["oc"]), ("i64", "0")])
            return []

        def scattered() -> list[str]:
            # Neither channels nor columns are contiguous: through a temporary [co][pixel].
            size_out = t.target.byte_size
            space = w.imul(w.imul(pixels, d["co"]), size_out)
            spare = w.call(TAKE, "ptr", [("i64", space)])
            result = w.gep("i8", spare, 64)
            args = [("i64", d["co"]), ("i64", pixels), ("i64", depth)]
            args += [("ptr", weights), ("i64", "1"), ("i64", d["co"])]
            args += [("ptr", tile), ("i64", pixels), ("i64", "1")]
            w.call(gemm, "void", [*args, ("ptr", result), ("i64", pixels), ("i64", "0")])
            with w.loop("0", d["co"]) as o, w.loop("0", pixels) as p:
                source = w.gep(out_elem, result, w.iadd(w.imul(o.index, pixels), p.index))
                at = w.iadd(w.imul(o.index, d["oc"]), w.imul(p.index, d["o2"]))
                w.store(out_elem, w.load(out_elem, source), w.gep(out_elem, out, at))
            w.call(GIVE, "void", [("ptr", spare)])
            return []

        w.if_else(unit, [], direct, scattered)
        return []

    w.if_else(channels_last, [], last, first)
    w.call(GIVE, "void", [("ptr", block)])
    w.ret()


def _all(w: FunctionWriter, conditions: list[str]) -> str:
    result = conditions[0]
    for condition in conditions[1:]:
        result = w.op("and", "i1", result, condition)
    return result


def _symbol(t: GemmType, path: str | None, product: Path | None = None) -> str:
    return f"pyjax_conv_{t.name}" + ("" if path is None else f".{_with_product(path, product)}")


def _emit_entry(
    module: ModuleWriter, t: GemmType, prefix: str, path: str | None, product: Path | None
) -> None:
    params = [("ptr", p) for p in ("x", "w", "out", "dims")]
    w = module.function(_symbol(t, path, product), params)
    d = Dims(w, "%dims")
    pixels = w.imul(w.imul(d["out0"], d["out1"]), d["out2"])
    results = w.imul(w.imul(d["n"], d["groups"]), w.imul(pixels, d["co"]))
    nothing, some = w.new_label("nothing"), w.new_label("some")
    w.cond_br(w.cmp("sle", "i64", results, "0"), nothing, some)
    w.label(nothing)
    w.ret()
    w.label(some)
    if path is not None:
        _emit_path(w, t, prefix, path, product)
        w.ret()
        return
    conditions = _conditions(w, t, d)
    for case, holds in conditions.items():
        yes, no = w.new_label("yes"), w.new_label("other")
        w.cond_br(_all(w, holds), yes, no)
        w.label(yes)
        with w.scope():
            _emit_path(w, t, prefix, case)
            w.ret()
        w.label(no)
    _emit_path(w, t, prefix, "unfolded")
    w.ret()


def _conditions(w: FunctionWriter, t: GemmType, d: Dims) -> dict[str, list[str]]:
    """What must hold for each path, in order of preference, as `path_of` has it."""

    def equal(name: str, value: str | int) -> str:
        return w.cmp("eq", "i64", d[name], str(value))

    pixels = w.imul(w.imul(d["out0"], d["out1"]), d["out2"])
    plain = [equal(f"{name}{s}", value) for s in SPATIAL for name, value in _POINTWISE]
    plain += [equal(f"in{s}", d[f"out{s}"]) for s in SPATIAL]
    for side in "xo":
        plain.append(w.cmp("eq", "i64", d[f"{side}1"], w.imul(d[f"{side}2"], d["out2"])))
        slab = w.imul(d[f"{side}1"], d["out1"])
        plain.append(w.cmp("eq", "i64", d[f"{side}0"], slab))
    plain.append(equal("groups", 1))
    undilated = [equal(f"xdil{s}", 1) for s in SPATIAL]
    found = {"rows": [*plain, equal("oc", 1)], "columns": [*plain, equal("o2", 1)]}
    if _has_depthwise(t):
        single = [equal("ci", 1), equal("co", 1), *undilated]
        found["depthwise"] = [*single, equal("xg", 1), equal("wg", 1), equal("og", 1)]
        units = [equal("x2", 1), equal("o2", 1), equal("stride2", 1)]
        found["depthwise_planes"] = [*single, *units]
    if can_run_direct(t, w.target):
        found |= conv_matrix.conditions(w, d)
    if not t.needs_packing:
        large = w.cmp("sgt", "i64", d.taps(), w.imul(pixels, LARGE_WINDOW))
        whole = w.cmp("eq", "i64", d["w1"], w.imul(d["w2"], d["win2"]))
        one_line = [equal(f"{name}{s}", 1) for s in "01" for name in ("win", "out")]
        long = w.cmp("sge", "i64", d["win2"], str(LONG_LINE))
        found["lines"] = [large, *one_line, long, equal("groups", 1), *undilated]
        found["windows"] = [large, whole, *undilated]
    if can_run_direct(t, w.target):
        # Tiles of channels take any strides and dilations, tiles of planes not both at once.
        simple = w.op("or", "i1", equal("xdil2", 1), equal("stride2", 1))
        several = w.cmp("ne", "i64", d["co"], "1")
        wide = w.op("or", "i1", several, w.cmp("ne", "i64", d["o2"], "1"))
        found["channels"] = [equal("oc", 1), wide]
        found["planes"] = [equal("o2", 1), simple]
    return found


def path_of(t: GemmType, target: TargetInfo, d: Mapping[str, int]) -> str:
    """The way that a convolution takes, as the routine with all of them would choose."""
    pixels = d["out0"] * d["out1"] * d["out2"]
    taps = d["win0"] * d["win1"] * d["win2"]
    plain = d["groups"] == 1 and all(
        d[f"{name}{s}"] == value for s in SPATIAL for name, value in _POINTWISE
    )
    plain = plain and all(d[f"in{s}"] == d[f"out{s}"] for s in SPATIAL)
    for side in "xo":
        plain = plain and d[f"{side}1"] == d[f"{side}2"] * d["out2"]
        plain = plain and d[f"{side}0"] == d[f"{side}1"] * d["out1"]
    if plain and 1 in (d["oc"], d["o2"]):
        return "rows" if d["oc"] == 1 else "columns"
    undilated = all(d[f"xdil{s}"] == 1 for s in SPATIAL)
    if _has_depthwise(t) and undilated and d["ci"] == d["co"] == 1:
        if d["xg"] == d["wg"] == d["og"] == 1:
            return "depthwise"
        if d["x2"] == d["o2"] == d["stride2"] == 1:
            return "depthwise_planes"
    form = conv_matrix.form_of(d) if can_run_direct(t, target) else None
    if form is not None:
        return form
    whole = d["w1"] == d["w2"] * d["win2"]
    if not t.needs_packing and taps > pixels * LARGE_WINDOW and undilated and d["groups"] == 1:
        one_line = all(d[f"{name}{s}"] == 1 for s in "01" for name in ("win", "out"))
        if one_line and d["win2"] >= LONG_LINE:
            return "lines"
    if not t.needs_packing and taps > pixels * LARGE_WINDOW and whole and undilated:
        return "windows"
    if can_run_direct(t, target):
        if d["oc"] == 1 and (d["co"] != 1 or d["o2"] != 1):
            return "channels"
        if d["o2"] == 1 and 1 in (d["xdil2"], d["stride2"]):
            return "planes"
    return "unfolded"


def variant_of(t: GemmType, target: TargetInfo, d: Mapping[str, int]) -> str:
    """What the symbol for a convolution of these sizes ends in: its way, and that of its products
    where these are of one kind."""
    path = path_of(t, target, d)
    if path in conv_matrix.FORMS:
        return _with_product(path, conv_matrix.product_of(t, target, d, path))
    return _with_product(path, product_of(t, target, d) if path == _WINDOWS else None)


def _with_product(path: str, product: Path | None) -> str:
    return path if product is None else f"{path}_{product.name}"


def _has_depthwise(t: GemmType) -> bool:
    return t.source is t.compute is t.target and t.compute.is_floating


def _emit_path(
    w: FunctionWriter, t: GemmType, prefix: str, path: str, product: Path | None = None
) -> None:
    d = Dims(w, "%dims")
    pixels = w.imul(w.imul(d["out0"], d["out1"]), d["out2"])
    if path == "rows":
        args = [("i64", d["n"]), ("i64", pixels), ("i64", d["co"]), ("i64", d["ci"])]
        args += [("ptr", "%x"), ("i64", d["xb"]), ("i64", d["x2"]), ("i64", d["xc"])]
        args += [("ptr", "%w"), ("i64", "0"), ("i64", d["wi"]), ("i64", d["wo"])]
        args += [("ptr", "%out"), ("i64", d["ob"]), ("i64", d["o2"]), ("i64", "0")]
        w.call(f"pyjax_gemm_batched_{t.name}", "void", args)
    elif path == "columns":
        # The same with channels first: weights times planes.
        args = [("i64", d["n"]), ("i64", d["co"]), ("i64", pixels), ("i64", d["ci"])]
        args += [("ptr", "%w"), ("i64", "0"), ("i64", d["wo"]), ("i64", d["wi"])]
        args += [("ptr", "%x"), ("i64", d["xb"]), ("i64", d["xc"]), ("i64", d["x2"])]
        args += [("ptr", "%out"), ("i64", d["ob"]), ("i64", d["oc"]), ("i64", "0")]
        w.call(f"pyjax_gemm_batched_{t.name}", "void", args)
    elif path == _WINDOWS or path in conv_matrix.FORMS:
        symbol = symbol_of(t, "", product or ANY)
        w.module.declare(symbol, "void", [ty for ty, _ in parameters(*PRODUCT)])
        names = ["%x", "%w", "%out", "%dims", f"@{symbol}"]
        routine = over_windows(t) if path == _WINDOWS else conv_matrix.over(t, path)
        w.call(routine, "void", [("ptr", n) for n in names])
    elif path == "unfolded":
        _emit_unfolded(w, t, prefix, d)
    else:
        names = ["%x", "%w", "%out", "%dims"]
        if path in ("channels", "planes"):
            kernel, names = direct_symbol(t.name, path), [*names, "null", "null"]
        else:
            kernel = f"{prefix}.{_INTERNAL[path]}"
        w.call(kernel, "void", [("ptr", n) for n in names])


def _emit_unfolded(w: FunctionWriter, t: GemmType, prefix: str, d: Dims) -> None:
    size = t.source.byte_size
    depth = w.imul(d.taps(), d["ci"])
    weights_bytes = w.imul(w.imul(w.imul(depth, d["co"]), d["groups"]), size)
    block = w.call(TAKE, "ptr", [("i64", weights_bytes)])
    packed = w.gep("i8", block, 64)
    w.call(f"{prefix}.packw", "void", [("ptr", "%w"), ("ptr", packed), ("ptr", "%dims")])
    # Tiles of whole output rows where rows follow each other evenly, else parts of one row.
    row_bytes = w.imax(w.imul(depth, size), 1)
    wanted = w.imax(w.op("udiv", "i64", str(_TILE_BYTES), row_bytes), str(_MIN_PIXELS))
    columns = w.imin(d["out2"], wanted)
    even = _all(
        w,
        [
            w.cmp("eq", "i64", d["o1"], w.imul(d["o2"], d["out2"])),
            w.cmp("eq", "i64", d["o0"], w.imul(d["o1"], d["out1"])),
            w.cmp("eq", "i64", columns, d["out2"]),
        ],
    )
    rows = w.imul(d["out0"], d["out1"])
    per_tile = w.imin(w.imax(w.op("udiv", "i64", wanted, columns), 1), rows)
    per_tile = w.select(even, "i64", per_tile, "1")

    def tiles(count: str, each: str) -> str:
        return w.op("udiv", "i64", w.iadd(count, w.isub(each, 1)), each)

    row_tiles, column_tiles = tiles(rows, per_tile), tiles(d["out2"], columns)
    values = ("%x", packed, "%out", "%dims", per_tile, row_tiles, columns, column_tiles)
    context = _CONTEXT.make(w, values)
    blocks = w.imul(w.imul(d["n"], d["groups"]), w.imul(row_tiles, column_tiles))
    run_tasks(w, f"{prefix}.tile", context, blocks)
    w.call(GIVE, "void", [("ptr", block)])


def emit_group(
    t: GemmType, module: ModuleWriter, path: str | None = None, product: Path | None = None
) -> None:
    """The convolution of a type, for all paths or a single one; direct kernels are groups of their
    own. product: the way of products over windows, if there is one only."""
    prefix = f"conv.{t.name}"
    if path in (None, "unfolded"):
        emit_unfold(module, t, prefix, Dims)
        _emit_pack_weights(module, t, prefix)
        _emit_tile_task(module, t, prefix)
    if _has_depthwise(t) and path in (None, "depthwise"):
        emit_depthwise(module, t, prefix, Dims)
    if _has_depthwise(t) and path in (None, "depthwise_planes"):
        emit_depthwise_planes(module, t, prefix, Dims)
    if not t.needs_packing and path in (None, "lines"):
        emit_line_products(module, t, prefix, Dims)
    _emit_entry(module, t, prefix, path, product)


def _emit_direct_group(t: GemmType, kind: str, module: ModuleWriter) -> None:
    emit_direct(module, t, f"conv.{t.name}", Dims, kind)


def _emit_matrix_group(t: GemmType, form: str, module: ModuleWriter) -> None:
    conv_matrix.emit_form(module, t, f"conv.{t.name}", Dims, FIELDS, form)


def _emit_windows_group(t: GemmType, module: ModuleWriter) -> None:
    emit_window_products(module, t, f"conv.{t.name}", Dims)


def register() -> None:
    """Declares the convolutions of every GEMM type."""
    for name, t in GEMM_TYPES.items():
        ways: list[tuple[str | None, Path | None]] = [(path, None) for path in (None, *PATHS)]
        if not t.needs_packing:
            group = over_windows(t).removeprefix("pyjax_")
            register_group(group, (over_windows(t),), partial(_emit_windows_group, t))
            ways += [(_WINDOWS, product) for product in products()]
        for form in conv_matrix.FORMS if _has_depthwise(t) else ():
            symbol = conv_matrix.over(t, form)
            emit = partial(_emit_matrix_group, t, form)
            register_group(symbol.removeprefix("pyjax_"), (symbol,), emit)
            ways += [(form, product) for product in conv_matrix.products()]
        for path, product in ways:
            symbol = _symbol(t, path, product)
            emit = partial(emit_group, t, path=path, product=product)
            register_group(symbol.removeprefix("pyjax_"), (symbol,), emit)
        for kind in ("channels", "planes") if _has_depthwise(t) else ():
            symbols = (direct_symbol(name, kind),)
            register_group(
                f"conv_direct_{kind}_{name}", symbols, partial(_emit_direct_group, t, kind)
            )
