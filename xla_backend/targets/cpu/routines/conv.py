"""Convolution with run-time sizes: direct register tiles, products over windows, or unfolding.

Any strides (so any dimension order), up to three spatial dimensions, window strides, low padding
of any sign, both dilations, feature and batch groups. High padding is implied by the output size; a
reversed window is a negative weight stride with the pointer at the last tap.

  void pyjax_conv_<t>(ptr x, ptr w, ptr out, ptr dims)
        t: the kinds of pyjax_gemm_<t>. dims: i64 slots as in FIELDS below; unused spatial
        dimensions (put them first) have size 1, stride 1, padding 0, dilation 1
  FIELDS / pack_dims(**fields) -> list[int]

How a convolution runs, the first that fits:
  1x1 windows                                     GEMM (channels last or first)
  one channel per group                           vectors of channels or of columns
  windows larger than the output (weight gradients)  GEMM over the window: `conv_window`
  f32, f64 with unit output channel or column stride  register tiles: `conv_direct`
  the rest                                        tiles of the image unfolded, then GEMM: an output
        with unit channel stride from [pixel][tap, channel], else from [tap, channel][pixel]
"""

from __future__ import annotations

from functools import partial

from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.conv_depthwise import emit_depthwise
from xla_backend.targets.cpu.routines.conv_depthwise_planes import emit_depthwise_planes
from xla_backend.targets.cpu.routines.conv_direct import can_run_direct, direct_symbol, emit_direct
from xla_backend.targets.cpu.routines.conv_unfold import emit_unfold
from xla_backend.targets.cpu.routines.conv_window import emit_window_products
from xla_backend.targets.cpu.routines.gemm_tiles import GEMM_TYPES, GemmType
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.workspace import emit_workspace

_SPATIAL = ("0", "1", "2")


def _three(name: str) -> tuple[str, ...]:
    return tuple(name + d for d in _SPATIAL)


# n: batch per group; groups; ci, co: channels per group. x*, w*, o*: strides in elements
# (b: batch, c: channel, i: input channel, o: output channel, g: group, 0 1 2: spatial).
FIELDS: tuple[str, ...] = (
    "n", "groups", "ci", "co",
    *_three("in"), *_three("win"), *_three("out"), *_three("stride"), *_three("pad"),
    *_three("xdil"), *_three("wdil"),
    "xb", "xc", "xg", *_three("x"),
    "wi", "wo", "wg", *_three("w"),
    "ob", "oc", "og", *_three("o"),
)  # fmt: skip
_SLOT = {name: i for i, name in enumerate(FIELDS)}
# Slots of the task context: x, w (packed), out, dims, and how pixels are tiled.
_CTX = ("x", "w", "out", "dims", "rows_per_tile", "row_tiles", "columns_per_tile", "column_tiles")
_TILE_BYTES = 192 * 1024
_MIN_PIXELS = 48
# A window this many times larger than the output is the depth of one product.
LARGE_WINDOW = 4


def pack_dims(**fields: int) -> list[int]:
    """The dims array from keyword arguments, one per name in FIELDS.

    Raises:
      TypeError: a field is missing or unknown.
    """
    unknown = set(fields) - set(FIELDS)
    missing = set(FIELDS) - set(fields)
    if unknown or missing:
        raise TypeError(f"conv dims: unknown {sorted(unknown)}, missing {sorted(missing)}")
    return [fields[name] for name in FIELDS]


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


def _context(w: FunctionWriter, name: str) -> str:
    ty = "ptr" if name in _CTX[:4] else "i64"
    return w.load_invariant(ty, w.gep("i64", "%ctx", _CTX.index(name)), 8)


def _emit_tile_task(module: ModuleWriter, t: GemmType, prefix: str) -> None:
    """void task(ctx, block): block = ((image * groups + group) * row tiles + r) * column tiles +
    c.
    """
    w = module.function(f"{prefix}.tile", [("ptr", "ctx"), ("i64", "block")], internal=True)
    d = Dims(w, _context(w, "dims"))
    elem, out_elem = element_type(t), element_type(t, "target")
    column_tiles, row_tiles = _context(w, "column_tiles"), _context(w, "row_tiles")

    def split(value: str, by: str) -> tuple[str, str]:
        q = w.op("udiv", "i64", value, by)
        return q, w.isub(value, w.imul(q, by))

    rest, column_tile = split("%block", column_tiles)
    rest, row_tile = split(rest, row_tiles)
    image, group = split(rest, d["groups"])
    rows = w.imul(d["out0"], d["out1"])
    row_lo = w.imul(row_tile, _context(w, "rows_per_tile"))
    row_hi = w.imin(w.iadd(row_lo, _context(w, "rows_per_tile")), rows)
    col_lo = w.imul(column_tile, _context(w, "columns_per_tile"))
    col_hi = w.imin(w.iadd(col_lo, _context(w, "columns_per_tile")), d["out2"])
    width = w.isub(col_hi, col_lo)
    pixels = w.imul(w.isub(row_hi, row_lo), width)
    depth = w.imul(d.taps(), d["ci"])
    x_offset = w.iadd(w.imul(image, d["xb"]), w.imul(group, d["xg"]))
    x = w.gep(elem, _context(w, "x"), x_offset)
    size = t.source.byte_size
    block = w.call("pyjax.workspace.take", "ptr", [("i64", w.imul(w.imul(pixels, depth), size))])
    tile = w.gep("i8", block, 64)
    weights = w.gep(elem, _context(w, "w"), w.imul(w.imul(group, depth), d["co"]))
    outer, inner = split(row_lo, d["out1"])
    out_offset = w.iadd(w.imul(image, d["ob"]), w.imul(group, d["og"]))
    for index, name in ((outer, "o0"), (inner, "o1"), (col_lo, "o2")):
        out_offset = w.iadd(out_offset, w.imul(index, d[name]))
    out = w.gep(out_elem, _context(w, "out"), out_offset)
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
            spare = w.call("pyjax.workspace.take", "ptr", [("i64", space)])
            result = w.gep("i8", spare, 64)
            args = [("i64", d["co"]), ("i64", pixels), ("i64", depth)]
            args += [("ptr", weights), ("i64", "1"), ("i64", d["co"])]
            args += [("ptr", tile), ("i64", pixels), ("i64", "1")]
            w.call(gemm, "void", [*args, ("ptr", result), ("i64", pixels), ("i64", "0")])
            with w.loop("0", d["co"]) as o, w.loop("0", pixels) as p:
                source = w.gep(out_elem, result, w.iadd(w.imul(o.index, pixels), p.index))
                at = w.iadd(w.imul(o.index, d["oc"]), w.imul(p.index, d["o2"]))
                w.store(out_elem, w.load(out_elem, source), w.gep(out_elem, out, at))
            w.call("pyjax.workspace.give", "void", [("ptr", spare)])
            return []

        w.if_else(unit, [], direct, scattered)
        return []

    w.if_else(channels_last, [], last, first)
    w.call("pyjax.workspace.give", "void", [("ptr", block)])
    w.ret()


def _all(w: FunctionWriter, conditions: list[str]) -> str:
    result = conditions[0]
    for condition in conditions[1:]:
        result = w.op("and", "i1", result, condition)
    return result


def _emit_case(w: FunctionWriter, kernel: str, conditions: list[str], nulls: int = 0) -> None:
    """Runs a kernel (with so many more arguments, which are null) and returns, if all conditions
    hold."""
    yes, no = w.new_label("yes"), w.new_label("other")
    w.cond_br(_all(w, conditions), yes, no)
    w.label(yes)
    with w.scope():
        names = ("%x", "%w", "%out", "%dims", *["null"] * nulls)
        w.call(kernel, "void", [("ptr", n) for n in names])
        w.ret()
    w.label(no)


def _emit_entry(module: ModuleWriter, t: GemmType, prefix: str) -> None:
    params = [("ptr", p) for p in ("x", "w", "out", "dims")]
    w = module.function(f"pyjax_conv_{t.name}", params)
    d = Dims(w, "%dims")

    def equal(name: str, value: str | int) -> str:
        return w.cmp("eq", "i64", d[name], str(value))

    pixels = w.imul(w.imul(d["out0"], d["out1"]), d["out2"])
    results = w.imul(w.imul(d["n"], d["groups"]), w.imul(pixels, d["co"]))
    nothing, some = w.new_label("nothing"), w.new_label("some")
    w.cond_br(w.cmp("sle", "i64", results, "0"), nothing, some)
    w.label(nothing)
    w.ret()
    w.label(some)
    plain = [equal(f"{name}{s}", value) for s in _SPATIAL for name, value in (
        ("stride", 1), ("pad", 0), ("win", 1), ("xdil", 1))]  # fmt: skip
    plain += [equal(f"in{s}", d[f"out{s}"]) for s in _SPATIAL]
    for side in "xo":
        plain.append(w.cmp("eq", "i64", d[f"{side}1"], w.imul(d[f"{side}2"], d["out2"])))
        slab = w.imul(d[f"{side}1"], d["out1"])
        plain.append(w.cmp("eq", "i64", d[f"{side}0"], slab))
    plain.append(equal("oc", 1))
    plain.append(equal("groups", 1))
    pointwise, other = w.new_label("pointwise"), w.new_label("windows")
    w.cond_br(_all(w, plain), pointwise, other)
    w.label(pointwise)
    with w.scope():
        args = [("i64", d["n"]), ("i64", pixels), ("i64", d["co"]), ("i64", d["ci"])]
        args += [("ptr", "%x"), ("i64", d["xb"]), ("i64", d["x2"]), ("i64", d["xc"])]
        args += [("ptr", "%w"), ("i64", "0"), ("i64", d["wi"]), ("i64", d["wo"])]
        args += [("ptr", "%out"), ("i64", d["ob"]), ("i64", d["o2"]), ("i64", "0")]
        w.call(f"pyjax_gemm_batched_{t.name}", "void", args)
        w.ret()
    w.label(other)
    # The same with channels first: weights times planes.
    planes, other = w.new_label("planes"), w.new_label("windows")
    w.cond_br(_all(w, [*plain[:-2], equal("o2", 1), equal("groups", 1)]), planes, other)
    w.label(planes)
    with w.scope():
        args = [("i64", d["n"]), ("i64", d["co"]), ("i64", pixels), ("i64", d["ci"])]
        args += [("ptr", "%w"), ("i64", "0"), ("i64", d["wo"]), ("i64", d["wi"])]
        args += [("ptr", "%x"), ("i64", d["xb"]), ("i64", d["xc"]), ("i64", d["x2"])]
        args += [("ptr", "%out"), ("i64", d["ob"]), ("i64", d["oc"]), ("i64", "0")]
        w.call(f"pyjax_gemm_batched_{t.name}", "void", args)
        w.ret()
    w.label(other)
    if t.source is t.compute is t.target and t.compute.is_floating:
        single = [equal("ci", 1), equal("co", 1), *[equal(f"xdil{s}", 1) for s in _SPATIAL]]
        last = [*single, equal("xg", 1), equal("wg", 1), equal("og", 1)]
        first = [*single, equal("x2", 1), equal("o2", 1), equal("stride2", 1)]
        _emit_case(w, f"{prefix}.depthwise", last)
        _emit_case(w, f"{prefix}.planes", first)
    if not t.needs_packing:
        large = w.cmp("sgt", "i64", d.taps(), w.imul(pixels, LARGE_WINDOW))
        whole = w.cmp("eq", "i64", d["w1"], w.imul(d["w2"], d["win2"]))
        conditions = [large, whole, *[equal(f"xdil{s}", 1) for s in _SPATIAL]]
        _emit_case(w, f"{prefix}.windows", conditions)
    if can_run_direct(t, w.module):
        # Tiles of channels take any strides and dilations, tiles of planes not both at once.
        simple = w.op("or", "i1", equal("xdil2", 1), equal("stride2", 1))
        several = w.cmp("ne", "i64", d["co"], "1")
        last = [equal("oc", 1), w.op("or", "i1", several, w.cmp("ne", "i64", d["o2"], "1"))]
        first = [equal("o2", 1), simple]
        _emit_case(w, direct_symbol(t.name, "channels"), last, 2)
        _emit_case(w, direct_symbol(t.name, "planes"), first, 2)
    _emit_unfolded(w, t, prefix, d)
    w.ret()


def _emit_unfolded(w: FunctionWriter, t: GemmType, prefix: str, d: Dims) -> None:
    size = t.source.byte_size
    depth = w.imul(d.taps(), d["ci"])
    weights_bytes = w.imul(w.imul(w.imul(depth, d["co"]), d["groups"]), size)
    block = w.call("pyjax.workspace.take", "ptr", [("i64", weights_bytes)])
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
    context = w.alloca("i64", len(_CTX), 8)
    values = ("%x", packed, "%out", "%dims", per_tile, row_tiles, columns, column_tiles)
    for i, value in enumerate(values):
        w.store("ptr" if i < 4 else "i64", value, w.gep("i64", context, i), 8)
    blocks = w.imul(w.imul(d["n"], d["groups"]), w.imul(row_tiles, column_tiles))
    args = [("ptr", f"@{prefix}.tile"), ("ptr", context), ("i64", blocks)]
    w.call("pyjax_parallel_for_polled", "void", args)
    w.call("pyjax.workspace.give", "void", [("ptr", block)])


def emit_group(t: GemmType, module: ModuleWriter) -> None:
    prefix = f"conv.{t.name}"
    emit_workspace(module)
    emit_unfold(module, t, prefix, Dims)
    _emit_pack_weights(module, t, prefix)
    if can_run_direct(t, module):
        emit_direct(module, t, prefix, Dims)
    if t.source is t.compute is t.target and t.compute.is_floating:
        emit_depthwise(module, t, prefix, Dims)
        emit_depthwise_planes(module, t, prefix, Dims)
    if not t.needs_packing:
        emit_window_products(module, t, prefix, Dims)
    _emit_tile_task(module, t, prefix)
    _emit_entry(module, t, prefix)


def register() -> None:
    """Declares the convolutions of every GEMM type."""
    for name, t in GEMM_TYPES.items():
        symbols = [f"pyjax_conv_{name}"]
        if t.source is t.compute is t.target and t.compute.is_floating:
            symbols += [direct_symbol(name, kind) for kind in ("channels", "planes")]
        register_group(f"conv_{name}", tuple(symbols), partial(emit_group, t))
