"""Sets options and looks: `python -m tests.config.effects.server`.

One process starts with every option of the table in its environment, as a program does that is
started so. It forgets what it found there, loads what the first computation of a program loads, and
forks for each question: the child has the options at their defaults, but for what the environment
said of its own one if that is the way. A question is a line of JSON on stdin,
`{"row": id, "way": "update"}`; the answer is one on stdout: `{"problems": [...], "seen": {...}}`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 60  # of one look
_TABLE = str(Path(__file__).resolve().parent)

with warnings.catch_warnings(record=True) as _at_start:
    warnings.simplefilter("always")
    from pyjax._config import config
    from pyjax._config.registry import Option, Source, all_options, find

    import pyjax
    import pyjax.numpy as jnp
    from pyjax.extend.backend import clear_backends
    from tests.config.effects.rows import ROWS
    from tests.config.effects.table import Row, meets

AT_START = [str(w.message) for w in _at_start]
ROW_OF = {row.id: row for row in ROWS}
IN_ENVIRONMENT: dict[str, tuple[Any, str]] = {}


class ReadBack(AssertionError):
    """A row looked at the option instead of at what it does."""


def refuse_read_backs() -> None:
    """From now on a row that asks for the value of an option fails."""
    registry = str(Path(sys.modules[Option.__module__].__file__ or "").resolve().parent)

    def refusing(read: Callable[..., Any]) -> Callable[..., Any]:
        def checked(self: Any, *args: Any) -> Any:
            frame = sys._getframe(1)
            while frame.f_back is not None and frame.f_code.co_filename.startswith(registry):
                frame = frame.f_back
            if frame.f_code.co_filename.startswith(_TABLE):
                raise ReadBack("the row reads an option; it must show what the option does")
            return read(self, *args)

        return checked

    value = Option.value
    assert isinstance(value, property) and value.fget is not None
    Option.value = property(refusing(value.fget))  # type: ignore[assignment, method-assign]
    Option.explain = refusing(Option.explain)  # type: ignore[method-assign]


@contextmanager
def being_set(row: Row, way: str, value: Any) -> Iterator[None]:
    """The option has the value, set in this way; the environment did it when the process began."""
    option = find(row.option)
    if way == "context":
        with option(value):
            yield
        return
    if way == "update":
        config.update(row.option, value)
        source = Source.UPDATE
    elif way == "flag":
        sys.argv = ["program", f"--{row.option}={value}"]
        config.parse_flags_with_absl()
        source = Source.FLAG
    else:
        source = Source.ENVIRONMENT
    yield
    option.clear(source)


def look(row: Row, way: str, scratch: Path, which: tuple[str, ...]) -> dict[str, Any]:
    """What is seen before the option is set, while it is, and after; each of `which`."""
    seen: dict[str, Any] = {}
    told: list[str] = []

    def now(when: str) -> None:
        if when in which:
            seen[when] = row.observed(scratch) if row.acts else "\n".join(told)

    value = row.value_in(scratch)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        if way != "environment":
            now("default")
        if which == ("default",):
            return seen
        with being_set(row, way, value):
            told += [str(w.message) for w in found if row.option in str(w.message)]
            if way == "environment":
                told += [text for text in AT_START if text.startswith(f"{row.option} ")]
            now("changed")
        told.clear()
        now("restored")
    return seen


def take_environment() -> dict[str, tuple[Any, str]]:
    """What the environment set, which holds no longer: values and their origins, by option."""
    found = {}
    for name, option in all_options().items():
        if Source.ENVIRONMENT in option._layers:
            found[name] = option._layers[Source.ENVIRONMENT]
            option.clear(Source.ENVIRONMENT)
        option._warned = False
    return found


def warm_up() -> None:
    """Load what the first computation loads; children need not, each for itself."""
    jnp.sin(jnp.arange(3.0) * 2).block_until_ready()
    pyjax.jit(lambda x: x @ x)(jnp.ones((2, 2))).block_until_ready()
    clear_backends()


def answer(row: Row, way: str, which: tuple[str, ...]) -> dict[str, Any]:
    """Look, in this process, and compare."""
    scratch = scratch_of(row, Path(os.environ["EFFECTS_SCRATCH"]))
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    os.chdir(scratch)
    if way == "environment":
        find(row.option).set(IN_ENVIRONMENT[row.option][0], Source.ENVIRONMENT, "environment")
    if row.option != "jax_first_code":  # as in all tests: what is compiled is there, and kept
        pyjax.config.update("jax_first_code", False)
    refuse_read_backs()
    try:
        seen = look(row, way, scratch, which)
    except BaseException:
        return {"problems": [traceback.format_exc()], "seen": {}}
    problems = []
    for when, value in seen.items():
        expected = row.changed if when == "changed" else row.default
        if not meets(expected, value):
            problems.append(f"{when}: seen {value!r}, expected {expected!r}")
    unset = seen.get("default", seen.get("restored"))
    if "changed" in seen and len(seen) > 1 and seen["changed"] == unset:
        problems.append(f"the option makes no difference: {unset!r}")
    return {"problems": problems, "seen": {when: repr(value) for when, value in seen.items()}}


def scratch_of(row: Row, root: Path) -> Path:
    """The folder that belongs to a row."""
    return root / re.sub(r"\W+", "_", row.id)


def in_a_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """`work()` in a fork; a child that dies is a problem, too."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        signal.alarm(SECONDS)
        with os.fdopen(writer, "w", encoding="utf-8") as out:
            out.write(json.dumps(work()))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as lines:
        text = lines.read()
    _, status = os.waitpid(pid, 0)
    if status != 0 or not text:
        return {"problems": [f"the process died: {os.waitstatus_to_exitcode(status)}"], "seen": {}}
    return json.loads(text)


def ask(row: Row, way: str) -> dict[str, Any]:
    """Look in fresh processes: one, or one a look for what is read at the start."""
    rounds = ("default", "changed", "restored")
    if not row.at_start:
        return in_a_child(lambda: answer(row, way, rounds))
    answers = [in_a_child(lambda r=r: answer(row, way, (r,))) for r in rounds]
    problems = [problem for a in answers for problem in a["problems"]]
    seen = {when: value for a in answers for when, value in a["seen"].items()}
    if "changed" in seen and seen["changed"] == seen.get("restored"):
        problems.append(f"the option makes no difference: {seen['changed']}")
    return {"problems": problems, "seen": seen}


def main() -> None:
    # Answers go where nothing else is printed.
    with os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1) as out:
        os.dup2(2, 1)
        IN_ENVIRONMENT.update(take_environment())
        warm_up()
        for line in sys.stdin:
            question = json.loads(line)
            reply = ask(ROW_OF[question["row"]], question["way"])
            out.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    assert pyjax.__version__
    main()
