"""Convolutions whose window is larger than the output, as gradients by weights have them."""

import numpy as np
import pytest

from tests.xla_backend.targets.cpu.native_checks import arguments_of, check_native, module_of
from xla_backend.program.ir import Library
from xla_backend.runtime.host_threads import num_threads, set_num_threads


def module(x, k, out, window, labels, rest="", type="f32"):
    return module_of(
        f"""x = {type}[{x}] parameter(0)
        k = {type}[{k}] parameter(1)
        ROOT r = {type}[{out}] convolution(x, k), window={{{window}}}, dim_labels={labels}{rest}"""
    )


LAST = "f01b_i01o->01bf"


@pytest.mark.parametrize("type", ["f32", "f64"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "window, side, taps",
    [
        ("size=13x17 pad=1_1x1_1", (13, 17), (3, 3)),
        ("size=9x11 pad=2_0x0_2", (9, 11), (3, 3)),
        ("size=7x9 pad=1_0x1_0 rhs_dilate=2x2", (13, 17), (2, 2)),
    ],
)
def test_channels_last(window, side, taps, channels, type):
    """Of one input channel, whose pixels are contiguous, and of several."""
    height, width = (int(n) for n in window.split()[0].removeprefix("size=").split("x"))
    x = f"4,{side[0]},{side[1]},{channels}"
    out = f"{taps[0]},{taps[1]},{channels},5"
    executable = check_native(
        module(x, f"4,{height},{width},5", out, window, LAST, type=type), scale=100
    )
    (step,) = (s for s in executable.program.steps if isinstance(s, Library))
    assert step.routine == f"conv_{type}"


def test_channels_first():
    check_native(
        module("3,4,13,17", "4,5,13,17", "5,3,3,3", "size=13x17 pad=1_1x1_1", "bf01_io01->fb01"),
        scale=100,
    )


@pytest.mark.parametrize("channels", [3, 20])
def test_depthwise_ones_are_loops_over_channels(channels):
    text = module(
        f"4,9,11,{channels}",
        f"4,9,11,{channels}",
        f"3,3,1,{channels}",
        "size=9x11 pad=1_1x1_1",
        LAST,
        f", batch_group_count={channels}",
    )
    executable = check_native(text, scale=100)
    assert not [s for s in executable.program.steps if isinstance(s, Library)]
    arguments = arguments_of(text)
    before, found = num_threads(), []
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            found.append(executable.run_arrays(arguments)[0])
    finally:
        set_num_threads(before)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_what_is_not_finite_stays_where_it_is():
    text = module("4,9,11,1", "4,9,11,5", "3,3,1,5", "size=9x11 pad=1_1x1_1", LAST)
    x, k = arguments_of(text)
    k[1, 4, 5, 2] = np.nan
    executable = check_native(text, [x, k], scale=100)
    (found,) = executable.run_arrays([x, k])
    assert np.isnan(found[..., 2]).all()
    assert np.isfinite(np.delete(found, 2, axis=-1)).all()


LINES = {
    "channels last": ("3,90,7", "3,90,40", "3,7,40", "size=90 pad=1_1", "f0b_i0o->0bf"),
    "channels first": ("3,7,90", "3,40,90", "40,7,3", "size=90 pad=1_1", "fb0_io0->fb0"),
    "stride": ("2,151,6", "2,75,5", "3,6,5", "size=75 rhs_dilate=2", "f0b_i0o->0bf"),
    "dilation": ("2,100,6", "2,92,5", "3,6,5", "size=92 stride=4", "f0b_i0o->0bf"),
    "beside the image": ("2,70,3", "2,70,4", "200,3,4", "size=70 pad=99_100", "f0b_i0o->0bf"),
    "many channels": ("1,80,5", "1,80,200", "3,5,200", "size=80 pad=1_1", "f0b_i0o->0bf"),
}


@pytest.mark.parametrize("type", ["f32", "f64"])
@pytest.mark.parametrize("name", LINES)
def test_lines_are_products_in_place(name, type):
    x, k, out, window, labels = LINES[name]
    text = module(x, k, out, window, labels, type=type)
    executable = check_native(text, scale=100)
    arguments = arguments_of(text)
    before, found = num_threads(), []
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            found.append(executable.run_arrays(arguments)[0])
    finally:
        set_num_threads(before)
    for one in found:
        np.testing.assert_array_equal(one, found[0])
