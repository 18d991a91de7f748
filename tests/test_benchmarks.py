"""The benchmarks: programs over devices give what they say; the suite measures and reports."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.suite.measuring import Figures, Measured, Worker, difference, measured
from benchmarks.suite.plot import draw
from benchmarks.suite.programs import PROGRAMS, Program
from benchmarks.suite.report import page, routines_found
from xla_backend.llvm.installed_code import pack_of
from xla_backend.llvm.target import host_target
from xla_backend.persistent.installed import write_pack

ROOT = Path(__file__).resolve().parents[1]

SEVERAL_DEVICES = """
import numpy as np
import pyjax
from benchmarks.__main__ import frameworks
from benchmarks.several_devices import COLLECTIVES, collective, exchange, rows, training

pyjax.config.update("jax_num_cpu_devices", 2)
f = frameworks(with_jax=False)["pyjax"]
expected = {
    "all-reduce": (16, 2),
    "all-gather": (32, 1),
    "reduce-scatter": (8, 2),
    "all-to-all": (16, 1),
    "permute": (16, 1),
}
assert set(expected) == set(COLLECTIVES)
for name, (size, value) in expected.items():
    np.testing.assert_array_equal(collective(f, name, 2, 8)(), np.full(size, value))
alone, split = (training(f, count)() for count in (1, 2))
assert [w.shape for w in split] == [(512, 512)] * 3
assert len(split[0].devices()) == 2 and len(alone[0].devices()) == 1
assert [(w.shape, w.is_fully_replicated) for w in exchange(f, 2)()] == [((512, 512), True)] * 3
assert len({name for name, _, _ in rows()}) == len(list(rows())) == 47
"""


# Prints a digest of the bits of all results of each program of the suite.
DIGESTS = """
import hashlib, json
import numpy as np
from benchmarks.suite.package import jax
from benchmarks.suite.programs import PROGRAMS

def digest(program):
    fun, arguments = program.make()
    found = hashlib.sha256()
    for leaf in jax.tree.leaves((jax.jit(fun) if program.compiled else fun)(*arguments)):
        if isinstance(leaf, (jax.Array, np.ndarray)):
            found.update(f"{leaf.shape} {leaf.dtype}".encode() + np.asarray(leaf).tobytes())
    return found.hexdigest()

print(json.dumps({name: digest(each) for name, each in PROGRAMS.items() if each.tolerance}))
"""


def run(*words, timeout=120, **environment):
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        timeout=timeout,
        cwd=ROOT,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_programs_of_several_devices():
    run("-c", SEVERAL_DEVICES)


def test_rows_of_several_devices():
    printed = run("-m", "benchmarks.several_devices", "permute of 2 x 4 KiB")
    (row,) = [line for line in printed.splitlines() if line.startswith("| permute")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[0] == "permute of 2 x 4 KiB"
    assert float(cells[2].removesuffix(" ms")) > 0


def test_the_suite_has_many_programs_of_each_family():
    assert len(PROGRAMS) >= 100
    groups = [program.group for program in PROGRAMS.values()]
    assert min(groups.count(group) for group in groups) >= 5


def test_the_suite_measures_each_package(monkeypatch):
    monkeypatch.setattr("benchmarks.suite.measuring.BUSY", (1,))
    (done,) = measured({"pyjax": sys.executable}, ["jit call, two arguments"], 0.01, 2)
    figures = done.figures["pyjax"]
    assert figures.error is None
    assert 0 < figures.least <= figures.steady < figures.cold
    assert {what: len(taken) for what, taken in figures.firsts.items()} == {
        "cold": 2,
        "settled": 2,
        "warm": 2,
    }
    assert min(figures.firsts["warm"]) > 0
    assert set(figures.beside) == {0, 1}
    assert len(figures.turns) == 2 and len(figures.peaks) == 4
    assert done.difference is None and not done.close


def test_where_packages_are_close_more_processes_are_asked(monkeypatch):
    """Here both are pyjax: a turn of each process of first calls, too."""
    monkeypatch.setattr("benchmarks.suite.measuring.BUSY", ())
    monkeypatch.setattr("benchmarks.suite.measuring.CLOSE", 0.0)
    pythons = dict.fromkeys(("pyjax", "jax"), sys.executable)
    ours = lambda _package, *rest: Worker("pyjax", *rest)
    monkeypatch.setattr("benchmarks.suite.measuring.Worker", ours)
    (done,) = measured(pythons, ["jit call, two arguments"], 0.01, 2)
    assert done.close
    assert [len(figures.turns) for figures in done.figures.values()] == [2 + 3, 2 + 3]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system does not tell")
def test_a_package_comes_to_rest(tmp_path):
    """Its processor time is known, and stands still when it waits."""
    with Worker("pyjax", sys.executable, str(tmp_path)) as worker:
        worker.ask("make", "jit call, two arguments", str(tmp_path / "made.npz"))
        used = worker._processor_time()
        worker.ask("time", "jit call, two arguments", 0.02)
        worker.rest()
        assert 0 < used < worker._processor_time()
    worker.rest()  # one that has ended


def test_the_report_says_whether_routines_were_compiled_ahead(tmp_path, monkeypatch):
    monkeypatch.setenv("PYJAX_INSTALLED_DIR", str(tmp_path))
    assert routines_found(True) == "No routines of pyjax were compiled ahead."
    write_pack(tmp_path, pack_of(host_target()), [])
    assert routines_found(True) == "pyjax's library routines were compiled ahead, for host."
    assert routines_found(False) == "No routines of pyjax were compiled ahead."


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the system does not tell")
def test_workers_may_do_without_installed_routines(tmp_path, monkeypatch):
    monkeypatch.setenv("PYJAX_INSTALLED_DIR", str(tmp_path))
    for routines, expected in ((True, str(tmp_path)), (False, "")):
        with Worker("pyjax", sys.executable, "", installed_routines=routines) as worker:
            environment = ""
            while not environment:  # a process that begins just now
                environment = Path(f"/proc/{worker._process.pid}/environ").read_text()
        assert f"PYJAX_INSTALLED_DIR={expected}" in environment.split("\0")


def test_rows_beside_numpy():
    """Of those for all axes and dtypes, too, each once, with a copy of the same bytes beside it."""
    pattern = r"^(sort, axis 0 of 2|argmax, axis 0|sum, axes 0,2 of 3), float32"
    words = ["--all", "--copy", "--size", "1000", "--seconds", "0.001"]
    shown = run("-m", "benchmarks.numpy_rows", pattern, *words)
    found = re.findall(r"^\| (.*) \| .* ms \| .* ms \| [0-9.]+ \| .* ms \|$", shown, re.M)
    assert sorted(name.rsplit(",", 2)[0] for name in found) == [
        "argmax, axis 0",
        "sort, axis 0 of 2",
        "sum, axes 0,2 of 3",
    ]


def test_what_fails_is_reported():
    """A worker without its package ends at once."""
    (done,) = measured({"no_package": sys.executable}, ["jit call, two arguments"], 0.01, 1)
    assert "ended" in done.figures["no_package"].error
    assert "jit call, two arguments (no_package: the process" in page([done], "")


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([np.nan, np.inf], [np.nan, np.inf], 0),
        ([np.nan, 1], [1, 1], math.inf),
        ([1 + 1j], [1 - 1j], math.sqrt(2)),
        ([1, 2, 3], [1, 2], math.inf),
    ],
)
def test_differences_of_results(tmp_path, ours, theirs, expected):
    files = [tmp_path / "ours.npz", tmp_path / "theirs.npz"]
    for file, values in zip(files, (ours, theirs), strict=True):
        np.savez(file, np.array(values))
    assert difference(files) == pytest.approx(expected)


def row(name, ours, theirs, apart):
    figures = {
        package: Figures(
            firsts={"cold": [9, 4, 1], "settled": [8], "warm": [1]},
            turns=[[s, 2 * s, s / 2], [s], [9 * s]],
            beside={0: s, 2: 2 * s, 4: 3 * s},
            peaks=[0, 0, 1 << 30],
        )
        for package, s in (("pyjax", ours), ("jax", theirs))
    }
    return Measured(Program(name, "family", lambda: (print, ())), figures, apart)


def test_the_picture_has_a_point_for_each_program(tmp_path):
    """In red those that are slower; figures that are missing have none."""
    files = [tmp_path / name for name in ("one.svg", "two.svg")]
    done = [row("quick", 1e-3, 4e-3, 0.0), row("slow", 4e-3, 1e-3, 0.0)]
    done.append(Measured(done[0].program, {"pyjax": Figures(), "jax": Figures(error="no")}))
    for file in files:
        draw(done, file)
    text = files[0].read_text()
    assert text == files[1].read_text()
    panels = re.findall(r'<g id="PathCollection_\d+">(.*?)<g id="matplotlib', text, re.DOTALL)
    assert [panel.count("<use ") for panel in panels] == [2] * 4
    assert [panel.count("fill: #d62728") for panel in panels] == [1, 0, 0, 1]


def test_the_page_has_means_and_what_is_slower():
    done = [row("quick", 1e-3, 4e-3, 0.0), row("slow", 4e-3, 4e-3 / 9, 0.5)]
    printed = page(done, "As told.", "picture.svg")
    assert "geometric means.](picture.svg)" in printed and "![" not in page(done, "As told.")
    means = (
        "| family | 2 | 1.50 | 1.00 | 1.00 | 1.00 | 1.00 | 1.50 | 1.50 | 0.25 | 2.00, 2.00 "
        "| 3.00, 3.00 |"
    )
    assert means in printed
    assert "- **steady**: 1 of 2: slow 9.00." in printed
    assert "- **cold**: 0 of 2." in printed
    assert "- **Results apart**: slow." in printed
    assert "| family | quick | 4 ms | 1 ms | 0.25 | 1.00 |" in printed


@pytest.mark.slow
@pytest.mark.parametrize("group", sorted({program.group for program in PROGRAMS.values()}))
def test_every_program_of_the_suite_runs(group):
    names = [name for name, program in PROGRAMS.items() if program.group == group]
    done = list(measured({"pyjax": sys.executable}, names, 0.001, 1))
    assert {each.program.name: each.figures["pyjax"].error for each in done} == dict.fromkeys(names)


@pytest.mark.slow
def test_bits_do_not_depend_on_threads_or_runs():
    """Nor on what is compiled: the first run compiles, the others read from disk."""
    runs = [
        json.loads(run("-c", DIGESTS, timeout=900, PYJAX_NUM_THREADS=threads))
        for threads in ("1", "2", "7", "2")
    ]
    assert len(runs[0]) > 150
    apart = [name for name in runs[0] if len({digests[name] for digests in runs}) > 1]
    assert not apart
