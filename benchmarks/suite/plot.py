"""The picture of a report: each program as a point, by what it takes beside JAX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from benchmarks.suite.measuring import Measured
from benchmarks.suite.report import QUANTITIES, geometric_mean, ratio

SHOWN = ("steady", "cold", "warm", "beside 4")
_RANGE = (0.01, 8.0)  # of ratios; what lies outside is drawn at its end


def draw(done: Sequence[Measured], file: Path) -> None:
    """Writes a picture (its suffix says of what kind): a row for each group of programs, a panel
    for each of `SHOWN`, a point for each program, and a stroke at the geometric mean. The same
    figures give the same bytes."""
    groups = list(dict.fromkeys(each.program.group for each in done))[::-1]
    picture = Figure(figsize=(11, 0.9 + 0.3 * len(groups)), layout="constrained")
    for panel, name in zip(picture.subplots(1, len(SHOWN), sharey=True), SHOWN, strict=True):
        for row, group in enumerate(groups):
            inside = [ratio(e, QUANTITIES[name]) for e in done if e.program.group == group]
            known = [min(max(value, _RANGE[0]), _RANGE[1]) for value in inside if value > 0]
            colours = ["tab:red" if value > 1 else "tab:blue" for value in known]
            panel.scatter(known, [row] * len(known), s=12, c=colours, alpha=0.6, linewidths=0)
            mean = geometric_mean(known)
            if not math.isnan(mean):
                panel.plot([mean, mean], [row - 0.35, row + 0.35], color="black", linewidth=1.5)
        panel.axvline(1.0, color="grey", linewidth=0.8)
        panel.set(xscale="log", xlim=(_RANGE[0] / 1.2, _RANGE[1] * 1.2), title=name)
        panel.set_yticks(range(len(groups)), groups)
        panel.set_xticks([0.01, 0.1, 1.0], ["0.01", "0.1", "1"])
    picture.supxlabel("pyjax / JAX")
    with matplotlib.rc_context({"svg.hashsalt": "pyjax"}):
        picture.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
