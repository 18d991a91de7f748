"""`make gpu-check` without a GPU: budgets, parts that do not run, the report; the plain runner of
tests; and the benchmarks' rows for GPUs, rehearsed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks_main
from benchmarks import gpu_check, gpu_rows
from benchmarks.gpu_check import Budget, Machine, NotRun, Part, Result
from benchmarks.harness import Row

ROOT = Path(__file__).resolve().parent.parent
GPU = Machine("")


def part(name: str, program: str, share: float = 1.0) -> Part:
    return Part(name, share, lambda machine, seconds: [machine.python, "-c", program])


def run(program: str, seconds: float = 60.0, machine: Machine = GPU) -> Result:
    return gpu_check.run_part(part("p", program), machine, seconds, dict(os.environ))


def test_time_that_is_left_goes_to_the_parts_behind() -> None:
    now = [0.0]
    budget = Budget(100.0, lambda: now[0])
    first, second, third = part("a", "", 1), part("b", "", 1), part("c", "", 2)
    assert budget.limit(first, [second, third]) == 25
    now[0] = 4
    assert budget.limit(second, [third]) == 32
    now[0] = 90
    assert budget.limit(third, []) == 10
    now[0] = 101
    assert budget.limit(third, []) == 0


def test_all_parts_fit_into_ten_minutes() -> None:
    assert sum(p.share for p in gpu_check.PARTS) <= 600
    names = [p.name for p in gpu_check.PARTS]
    assert len(set(names)) == len(names)


def test_what_becomes_of_a_part() -> None:
    passed = run("print('all well')")
    assert (passed.state, passed.output) == ("passed", "all well\n")
    failed = run("import sys; print('oh'); sys.exit(3)")
    assert failed.line.startswith("failed: exit status 3")
    assert failed.output == "oh\n"


def test_a_part_that_runs_over_is_stopped_with_what_it_started() -> None:
    inner = "import time; time.sleep(60)"
    program = (
        "import subprocess, sys; print('begun', flush=True);"
        f"c = subprocess.Popen([sys.executable, '-c', {inner!r}]); print(c.pid, flush=True);"
        "c.wait()"
    )
    start = time.monotonic()
    result = run(program, 1.5)
    assert time.monotonic() - start < 30
    assert result.line.startswith("stopped: after its 2 s")
    child = int(result.output.split()[1])
    for _ in range(100):  # until the system has taken note of its end
        if not Path(f"/proc/{child}").exists() or " Z " in Path(f"/proc/{child}/stat").read_text():
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the child runs on")


@pytest.mark.parametrize(
    ("machine", "seconds", "reason"),
    [
        (Machine("CuPy finds no device"), 60.0, "CuPy finds no device"),
        (GPU, 0.5, "the time was used up before it"),
    ],
)
def test_parts_that_do_not_run_say_why(machine: Machine, seconds: float, reason: str) -> None:
    assert run("raise SystemExit(1)", seconds, machine).line == f"not run: {reason}"


def test_tools_and_folders_that_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = {p.name: p.command for p in gpu_check.PARTS}
    with pytest.raises(NotRun, match=r"no folder was given \(--corpus FOLDER\)"):
        commands["corpus"](GPU, 60)
    with pytest.raises(NotRun, match="is no folder"):
        commands["corpus"](Machine("", tmp_path / "none"), 60)
    assert str(tmp_path) in commands["corpus"](Machine("", tmp_path), 60)
    monkeypatch.setattr(gpu_check.shutil, "which", lambda *args, **kwargs: None)
    for name in ("memcheck", "racecheck"):
        with pytest.raises(NotRun, match="compute-sanitizer was not found"):
            commands[name](GPU, 60)
    with pytest.raises(NotRun, match="ncu was not found"):
        commands["ncu"](GPU, 60)
    monkeypatch.setattr(gpu_check, "gpu_tests", list)
    with pytest.raises(NotRun, match="no test is marked gpu"):
        commands["gpu tests"](GPU, 60)


def test_a_checker_that_cannot_work_here_has_not_run() -> None:
    result = run("import sys; print('Error: Device not supported'); sys.exit(1)")
    assert result.line.startswith("not run: ")
    assert "Device not supported" in result.reason


def test_files_with_marked_tests(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "a"
    folder.mkdir(parents=True)
    mark = f"pytest.mark.{'gpu'}"
    (folder / "test_marked.py").write_text(f"@{mark}\ndef test_it(): ...\n")
    (folder / "test_listed.py").write_text(f"pytestmark = [\n    {mark},\n]\n")
    (folder / "test_other.py").write_text("def test_it(): ...\n")
    expected = ["tests/a/test_listed.py", "tests/a/test_marked.py"]
    assert gpu_check.gpu_tests(tmp_path) == expected
    assert "tests/test_gpu_check.py" not in gpu_check.gpu_tests()


def test_report() -> None:
    results = [
        Result("doctor", "passed", "", 1.0, "fine\n"),
        Result("gpu tests", "failed", "exit status 1", 2.0, "line\n" * 300),
        Result("ncu", "not run", "ncu was not found"),
    ]
    text = gpu_check.report(results, ["a machine"], 3.2)
    assert "| doctor | passed (1 s) |" in text
    assert "| gpu tests | failed: exit status 1 (2 s) |" in text
    assert "| ncu | not run: ncu was not found |" in text
    assert "(50 lines before these are left out)" in text
    assert "## ncu" not in text


@pytest.mark.parametrize(
    ("states", "status"),
    [
        ({"doctor": "passed", "gpu tests": "passed", "ncu": "not run"}, 0),
        ({"doctor": "passed", "gpu tests": "failed"}, 1),
        ({"gpu tests": "stopped"}, 1),
        ({"gpu tests": "passed", "benchmarks": "stopped"}, 0),
        ({"doctor": "passed", "gpu tests": "not run"}, 2),
    ],
)
def test_exit_status(states: dict[str, str], status: int) -> None:
    results = [Result(name, state) for name, state in states.items()]
    assert gpu_check.exit_status(results, gpu_check.PARTS) == status


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check, "NEEDED", ("numpy", "no_such_library"))
    assert gpu_check.missing_gpu() == "not installed: no_such_library"


def test_whole_run_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_check, "missing_gpu", lambda: "there is none")
    report = tmp_path / "report.md"
    only = ["--only", "corpus", "--only", "memcheck"]
    assert gpu_check.main(["--report", str(report), *only]) == 2
    printed = capsys.readouterr().out
    assert "corpus: not run: there is none" in printed
    assert "| memcheck | not run: there is none |" in report.read_text()


def test_options_are_found_without_installing(tmp_path: Path) -> None:
    """A Python that has the libraries, but not pyjax."""
    libraries = str(Path(pytest.__file__).resolve().parent.parent)
    base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    if not base.exists():
        pytest.skip(f"no {base}")
    script = (
        "import runpy, subprocess, sys, pathlib;"
        f"m = runpy.run_path({str(ROOT / 'benchmarks' / 'gpu_check.py')!r});"
        f"e = m['environment'](pathlib.Path({str(tmp_path)!r}));"
        "look = 'import pyjax._config; print(pyjax._config.__file__)';"
        "print(subprocess.run([sys.executable, '-c', look], env=e, cwd='/', text=True,"
        " capture_output=True, check=True).stdout)"
    )
    variables = {**os.environ, "PYTHONPATH": libraries}
    done = subprocess.run(
        [str(base), "-c", script], env=variables, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.strip() == str(ROOT / "config" / "__init__.py"), done.stderr
    assert (tmp_path / "sitecustomize.py").exists()


PLAIN = """
import os
import pytest

gpu = getattr(pytest.mark, "gpu")

@gpu
@pytest.mark.parametrize(("a", "b"), [(1, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("c", [0, 1])
def test_table(a, b, c):
    assert a == b

@gpu
def test_raises(tmp_path, monkeypatch):
    monkeypatch.setenv("PLAIN", str(tmp_path))
    assert os.path.isdir(os.environ["PLAIN"])
    with pytest.raises(ValueError, match="bad"):
        raise ValueError("a bad one")
    assert 1.0 == pytest.approx(1.0 + 1e-9)

@gpu
def test_skips():
    pytest.skip("no such card")

@gpu
def test_fixture(capsys): ...

@gpu
@pytest.mark.skipif(True, reason="not today")
def test_not_today(): ...

@pytest.fixture(scope="module")
def numbers():
    made.append(1)
    yield [1, 2]
    made.append(2)

made = []

@pytest.fixture
def more(numbers):
    return [*numbers, 3]

@gpu
def test_own_fixtures(more, numbers):
    assert (more, numbers, made) == ([1, 2, 3], [1, 2], [1])

@gpu
def test_they_last(numbers):
    assert made == [1]

def test_not_marked():
    raise AssertionError
"""


def test_runner_where_pytest_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "test_plain.py"
    file.write_text(PLAIN)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.plain_tests", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "5 passed, 2 failed, 3 not run"
    assert "not run: test_plain.py::test_skips[0]: no such card" in done.stdout
    assert "it needs the fixture 'capsys'" in done.stdout
    assert "test_not_today[0]: not today" in done.stdout


@pytest.mark.parametrize(
    ("marks", "printed"),
    [
        ("pytest.mark.gpu", "1 passed, 0 failed, 0 not run"),
        ("[pytest.mark.gpu, pytest.mark.skipif(False, reason='x')]", "1 passed, 0 failed, 0 not"),
        ("[pytest.mark.gpu, pytest.mark.skipif(True, reason='no GPU')]", "0 passed, 0 failed, 1"),
        ("pytest.mark.slow", "0 passed, 0 failed, 0 not run"),
    ],
)
def test_marks_of_whole_files(tmp_path: Path, marks: str, printed: str) -> None:
    file = tmp_path / "test_whole.py"
    file.write_text(f"import pytest\npytestmark = {marks}\ndef test_it(): ...\n")
    command = [sys.executable, "-m", "benchmarks.plain_tests", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and printed in done.stdout
    assert ("no GPU" in done.stdout) == ("'no GPU'" in marks)


def test_rows_of_gpus_are_compared() -> None:
    faster = Row("copy", {}, "GB/s", rate=lambda s: 1 / s, results={"pyjax": 9.0, "cupy": 10.0})
    slower = Row("step", {}, "ms", results={"pyjax": 3.0, "jax": 2.0})
    alone = Row("sort", {}, "ms", results={"pyjax": 3.0})
    rows = [
        gpu_rows.GpuRow(faster, "cupy", 0.85),
        gpu_rows.GpuRow(slower, "jax", 1.1),
        gpu_rows.GpuRow(alone, "jax", 1.1),
    ]
    lines = gpu_rows.table(rows).splitlines()[2:]
    assert lines == [
        "| copy | - | 10 GB/s | 9 GB/s | cupy | 0.90 | ≥ 0.85 | yes |",
        "| step | 2 ms | - | 3 ms | jax | 1.50 | ≤ 1.10 | no |",
        "| sort | - | - | 3 ms | jax | - | ≤ 1.10 | - |",
    ]


def test_no_row_begins_after_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    made = list(benchmarks_main.in_time([lambda: 1, lambda: 2], None))
    assert made == [1, 2]
    assert list(benchmarks_main.in_time([lambda: 1, lambda: 2], 0.0)) == []
    assert "not run: 2 rows, for the 0 seconds are over" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("benchmarks --platform gpu_emulator --small transpose", "| transpose, 32×32 | - | - |"),
        ("benchmarks.gpu_sample --platform gpu_emulator --only transpose", "transpose: right"),
        ("benchmarks.gpu_sample --platform cpu", "concatenate: right"),
    ],
)
def test_rehearsal(words: str, printed: str) -> None:
    command = [sys.executable, "-m", *words.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert printed in done.stdout
