"""Convolution kernels against a direct NumPy definition over layouts, windows, groups and
dilations.
"""

import ctypes
import itertools

import numpy as np
import pytest

from xla_backend.llvm.target import host_target
from xla_backend.targets.cpu.routines.conv_dims import FIELDS, pack_dims
from xla_backend.targets.cpu.routines.gemm_paths import has_direct_kernels
from xla_backend.targets.cpu.routines.gemm_tiles import GEMM_TYPES, tile_for
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.variants import variant

PTR = ctypes.c_void_p
KIND = {np.float32: "f32", np.float64: "f64", np.int32: "s32_s32", np.complex64: "c64_c64"}


def reference(x, w, stride, pad, xdil, wdil, groups, batch_groups):
    """x [N, C, spatial], w [O, I, spatial], out [N', O, spatial], as HLO defines convolution."""
    nd = x.ndim - 2
    dilated = np.zeros(
        x.shape[:2] + tuple((s - 1) * d + 1 for s, d in zip(x.shape[2:], xdil)), x.dtype
    )
    dilated[(slice(None), slice(None), *[slice(None, None, d) for d in xdil])] = x
    width = [(0, 0), (0, 0), *[(max(lo, 0), max(hi, 0)) for lo, hi in pad]]
    padded = np.pad(dilated, width)
    cut = [
        slice(max(-lo, 0), p - max(-hi, 0))
        for (lo, hi), p in zip(pad, padded.shape[2:], strict=True)
    ]
    padded = padded[(slice(None), slice(None), *cut)]
    out_shape = [
        (p - ((k - 1) * d + 1)) // s + 1
        for p, k, d, s in zip(padded.shape[2:], w.shape[2:], wdil, stride, strict=True)
    ]
    g = groups * batch_groups
    n = x.shape[0] // batch_groups
    co = w.shape[0] // g
    out = np.zeros((n, w.shape[0], *out_shape), x.dtype)
    for group in range(g):
        if batch_groups > 1:
            part = padded[group * n : (group + 1) * n]
        else:
            ci = x.shape[1] // groups
            part = padded[:, group * ci : (group + 1) * ci]
        weights = w[group * co : (group + 1) * co]
        for tap in itertools.product(*[range(k) for k in w.shape[2:]]):
            at = [
                slice(t * d, t * d + (o - 1) * s + 1, s)
                for t, d, o, s in zip(tap, wdil, out_shape, stride, strict=True)
            ]
            piece = part[(slice(None), slice(None), *at)]
            out[:, group * co : (group + 1) * co] += np.einsum(
                "nc...,oc->no...", piece, weights[(slice(None), slice(None), *tap)]
            )
    assert nd == len(out_shape)
    return out


def run(x, w, out, stride, pad, xdil, wdil, groups, batch_groups):
    """Calls the kernel on arrays viewed as [N, C, spatial], [O, I, spatial], [N, O, spatial];
    returns the way that it takes."""
    nd = x.ndim - 2
    fill = 3 - nd

    def three(values, default):
        return [default] * fill + list(values)

    def steps(a):
        return [s // a.itemsize for s in a.strides]

    xs, ws, os_ = steps(x), steps(w), steps(out)
    g = groups * batch_groups
    n = x.shape[0] // batch_groups
    co = w.shape[0] // g
    fields = dict(n=n, groups=g, ci=w.shape[1], co=co)
    named = {
        "in": three(x.shape[2:], 1),
        "win": three(w.shape[2:], 1),
        "out": three(out.shape[2:], 1),
        "stride": three(stride, 1),
        "pad": three([p[0] for p in pad], 0),
        "xdil": three(xdil, 1),
        "wdil": three(wdil, 1),
    }
    for letter, a_steps, shape in (("x", xs, x.shape), ("w", ws, w.shape), ("o", os_, out.shape)):
        spatial = list(a_steps[2:])
        lead = spatial[0] * shape[2] if spatial else 1
        named[letter] = [lead] * fill + spatial
    for name, values in named.items():
        fields.update({f"{name}{i}": v for i, v in enumerate(values)})
    x_group = n * xs[0] if batch_groups > 1 else w.shape[1] * xs[1]
    fields.update(xb=xs[0], xc=xs[1], xg=x_group, wi=ws[1], wo=ws[0], wg=co * ws[0])
    fields.update(ob=os_[0], oc=os_[1], og=co * os_[1])
    dims = np.array(pack_dims(**fields), np.int64)
    fn = ctypes.CFUNCTYPE(None, PTR, PTR, PTR, PTR)
    name = f"conv_{KIND[x.dtype.type]}"
    # What a program calls, which knows the sizes, does what the choice at run time does.
    results = []
    for routine in (name, variant(name, {"dims": dims.tolist()}, host_target())):
        out[...] = 0
        fn(kernel_library()[f"pyjax_{routine}"])(
            x.ctypes.data, w.ctypes.data, out.ctypes.data, dims.ctypes.data
        )
        results.append(out.tobytes())
    assert results[0] == results[1], routine
    return routine.removeprefix(f"{name}.")


def arrange(a, order):
    """A copy whose memory order of dimensions is `order`, viewed with the original dimensions."""
    back = np.argsort(order)
    return np.ascontiguousarray(a.transpose(order)).transpose(back)


LAST, FIRST, ODD = (0, 2, 3, 1), (0, 1, 2, 3), (2, 0, 3, 1)
HWIO = (2, 3, 1, 0)
CASES = [
    # image, channels, out channels, window, stride, pad, xdil, wdil, groups, batch groups
    ((2, 9, 8), 3, 5, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1, 1),
    ((1, 10, 11), 4, 6, (3, 2), (2, 3), ((0, 1), (2, 0)), (1, 1), (1, 1), 1, 1),
    ((2, 7, 7), 8, 3, (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1, 1),
    ((2, 6, 5), 2, 4, (3, 3), (1, 1), ((2, 2), (2, 2)), (2, 3), (1, 2), 1, 1),
    ((2, 8, 8), 6, 9, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 3, 1),
    ((4, 6, 6), 3, 8, (2, 2), (1, 2), ((0, 0), (1, 0)), (1, 1), (2, 1), 1, 2),
    ((1, 9, 9), 2, 3, (3, 3), (1, 1), ((-1, 0), (0, -2)), (1, 1), (1, 1), 1, 1),
    ((2, 12, 13), 20, 20, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 20, 1),
    ((1, 11, 9), 17, 17, (3, 5), (2, 2), ((1, 1), (2, 2)), (1, 1), (1, 2), 17, 1),
    ((1, 11, 37), 5, 5, (3, 4), (2, 1), ((1, 1), (5, 2)), (1, 1), (1, 3), 5, 1),
    # Windows larger than the output, as weight gradients have them.
    ((5, 12, 14), 7, 9, (12, 14), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1, 1),
    ((40, 13, 12), 2, 5, (6, 6), (1, 1), ((0, 1), (1, 2)), (1, 1), (2, 2), 1, 1),
    ((6, 9, 8), 2, 12, (9, 9), (2, 1), ((1, 1), (1, 2)), (1, 1), (1, 1), 1, 3),
    # Several vectors and channel blocks; depth in pieces; narrow and strided rows.
    ((2, 7, 7), 50, 53, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1, 1),
    ((1, 13, 70), 9, 21, (3, 5), (2, 2), ((1, 1), (2, 2)), (1, 1), (1, 1), 1, 1),
    ((2, 8, 9), 24, 10, (3, 3), (1, 1), ((2, 1), (2, 1)), (2, 2), (1, 1), 1, 1),
    ((1, 40, 50), 16, 32, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1, 1),
]


@pytest.mark.parametrize(
    "layout", [(LAST, HWIO), (FIRST, FIRST), (ODD, FIRST)], ids=["last", "first", "odd"]
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_two_dimensional(case, dtype, layout):
    image, c, o, window, stride, pad, xdil, wdil, groups, batch_groups = CASES[case]
    rng = np.random.default_rng(case)
    x = rng.integers(-4, 5, (image[0], c, *image[1:])).astype(dtype)
    w = rng.integers(-4, 5, (o, c // groups, *window)).astype(dtype)
    expected = reference(x, w, stride, pad, xdil, wdil, groups, batch_groups)
    out = arrange(np.full(expected.shape, 77, dtype), layout[0])
    run(
        arrange(x, layout[0]),
        arrange(w, layout[1]),
        out,
        stride,
        pad,
        xdil,
        wdil,
        groups,
        batch_groups,
    )
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("nd", [1, 3])
def test_other_ranks(nd):
    rng = np.random.default_rng(nd)
    x = rng.standard_normal((2, 3, *(7, 6, 5)[:nd]))
    w = rng.standard_normal((4, 3, *(3, 2, 2)[:nd]))
    ones, pad = (1,) * nd, ((1, 0),) * nd
    expected = reference(x, w, ones, pad, ones, ones, 1, 1)
    out = np.empty(expected.shape)
    run(x, w, out, ones, pad, ones, ones, 1, 1)
    np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_long_one_dimensional_row_is_cut():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 8, 30000)), rng.standard_normal((5, 8, 7))
    expected = reference(x, w, (1,), ((3, 3),), (1,), (1,), 1, 1)
    for order in ((0, 1, 2), (0, 2, 1)):
        out = arrange(np.empty(expected.shape), order)
        run(arrange(x, order), arrange(w, order), out, (1,), ((3, 3),), (1,), (1,), 1, 1)
        np.testing.assert_allclose(out, expected, rtol=1e-10, atol=1e-12)


IMAGES_LAST = (1, 2, 3, 0)
# Images, output channels, orders of the image's and the window's dimensions, and the way where
# processors have masks, with tiles of 8 by 48.
OVER_WINDOWS = [
    (3, 8, IMAGES_LAST, IMAGES_LAST, "windows_transposed_even_any"),
    (20, 5, IMAGES_LAST, IMAGES_LAST, "windows_transposed_any"),
    (7, 16, IMAGES_LAST, FIRST, "windows_direct_even_any"),
    (2, 5, IMAGES_LAST, FIRST, "windows_direct_any"),
    (3, 80, IMAGES_LAST, FIRST, "windows"),
    (5, 8, FIRST, FIRST, "windows_packed_even_any_turned"),
    (2, 3, FIRST, FIRST, "windows_packed_any_turned"),
    (4, 5, FIRST, IMAGES_LAST, "windows_direct_narrow"),
    (9, 20, FIRST, IMAGES_LAST, "windows_direct"),
    (2, 60, FIRST, IMAGES_LAST, "windows"),
    (2, 1, FIRST, IMAGES_LAST, "windows"),
]


@pytest.mark.parametrize(("n", "co", "x_order", "w_order", "way"), OVER_WINDOWS)
def test_products_over_windows_have_one_way(n, co, x_order, w_order, way):
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, 2, 10, 10)).astype(np.float32)
    w = rng.standard_normal((co, 2, 8, 8)).astype(np.float32)
    given = (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1, 1
    expected = reference(x, w, *given)
    out = np.empty(expected.shape, np.float32)
    taken = run(arrange(x, x_order), arrange(w, w_order), out, *given)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    tile = tile_for(GEMM_TYPES["f32"], host_target())
    if has_direct_kernels(GEMM_TYPES["f32"], host_target()) and tile.columns == 48:
        assert taken == way


# Images, pixels of a side, input and output channels, and whether few enough pixels read weights
# where they lie.
FEW_PIXELS = [
    (1, 7, 32, 64, True),
    (2, 5, 12, 70, True),  # columns that fill no tile
    (1, 2, 2000, 12, True),  # K in parts
    (3, 9, 8, 16, False),
]


@pytest.mark.parametrize(("n", "side", "ci", "co", "few"), FEW_PIXELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_pixels_read_weights_in_place(n, side, ci, co, few, dtype):
    rng = np.random.default_rng(side)
    x = rng.integers(-4, 5, (n, ci, side + 2, side + 1)).astype(dtype)
    w = rng.integers(-4, 5, (co, ci, 3, 2)).astype(dtype)
    given = (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1, 1
    expected = reference(x, w, *given)
    last, hwio = (0, 2, 3, 1), (2, 3, 1, 0)
    out = arrange(np.full(expected.shape, 77, dtype), last)
    taken = run(arrange(x, last), arrange(w, hwio), out, *given)
    np.testing.assert_array_equal(out, expected)
    if has_direct_kernels(GEMM_TYPES["f32"], host_target()):
        assert taken.startswith("matrix_") == few
    # Weights with channels in another order are copied.
    assert not run(arrange(x, last), w, out, *given).startswith("matrix_")
    np.testing.assert_array_equal(out, expected)


# Images, pixels of a side, input and output channels, strides, and whether one product makes the
# gradient by weights.
WEIGHT_GRADIENTS = [
    (1, 7, 20, 64, 1, True),
    (3, 5, 12, 70, 2, True),
    (2, 6, 1, 33, 1, False),  # runs of three
    (4, 17, 8, 16, 1, False),
]


@pytest.mark.parametrize(("n", "side", "ci", "co", "stride", "few"), WEIGHT_GRADIENTS)
def test_gradients_by_weights_of_few_pixels(n, side, ci, co, stride, few):
    rng = np.random.default_rng(side)
    # Channels are images, images channels, and the gradient of the result is the window.
    x = rng.integers(-4, 5, (ci, n, side * stride, side * stride)).astype(np.float32)
    w = rng.integers(-4, 5, (co, n, side, side)).astype(np.float32)
    given = (1, 1), ((1, 1), (1, 1)), (1, 1), (stride, stride), 1, 1
    expected = reference(x, w, *given)
    channels_last = (1, 2, 3, 0)
    out = arrange(np.full(expected.shape, 77, np.float32), (2, 3, 0, 1))
    taken = run(arrange(x, channels_last), arrange(w, channels_last), out, *given)
    np.testing.assert_array_equal(out, expected)
    if has_direct_kernels(GEMM_TYPES["f32"], host_target()):
        assert taken.startswith("matrix_turned_") == few, taken


def test_complex():
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((1, 2, 6, 6)) + 1j * rng.standard_normal((1, 2, 6, 6))).astype(
        np.complex64
    )
    w = (rng.standard_normal((3, 2, 2, 2)) + 0.5j).astype(np.complex64)
    expected = reference(x, w, (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1, 1)
    out = np.empty(expected.shape, np.complex64)
    run(x, w, out, (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1, 1)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


def test_dims_are_checked():
    with pytest.raises(TypeError, match="missing"):
        pack_dims(n=1)
    assert len(pack_dims(**dict.fromkeys(FIELDS, 1))) == len(FIELDS)
