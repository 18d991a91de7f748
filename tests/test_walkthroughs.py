"""The walk-throughs of CONTRIBUTING.md, followed by the letter in a copy of the tree."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PLACE = re.compile(r"# (?P<file>[\w/.]+)(, after `(?P<line>.*)`)?\n")

# How many files of the library a change touches at most, and how many with its tests.
FILES = {
    "Add an op": (1, 3),
    "Add a pass": (3, 4),
    "Add a target": (2, 2),
    "Add an option": (1, 1),
}


def blocks(title: str) -> list[tuple[str, str]]:
    """(language, content) of the code blocks of one section."""
    section = TEXT.split(f"### {title}\n")[1].split("\n### ")[0]
    return _BLOCK.findall(section)


def edit(tree: Path, block: str) -> str:
    """Add a block to the file that its first line names; returns the name."""
    place = _PLACE.match(block)
    assert place is not None, f"a block that names no file:\n{block}"
    path, code = tree / place["file"], block[place.end() :]
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if place["line"] is None:
        text += ("\n\n" if text else "") + code
    else:
        before, line, after = text.partition(place["line"] + "\n")
        assert line, f"{place['file']} has no line {place['line']!r}"
        text = before + line + code + after
    path.write_text(text, encoding="utf-8")
    return place["file"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for folder in ("pyjax", "xla_backend", "config", "docs", "tests"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "pyjax" / "_config").symlink_to(tmp_path / "config")  # as it is installed
    return tmp_path


def run(tree: Path, command: str) -> None:
    command = re.sub(r"\bpython\b", shlex.quote(sys.executable), command, count=1)
    done = subprocess.run(
        command,
        shell=True,
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"


@pytest.mark.parametrize("title", FILES)
def test_walk_through(tree: Path, title: str) -> None:
    library, total = FILES[title]
    commands = 0
    touched = set()
    for language, content in blocks(title):
        if language == "python":
            touched.add(edit(tree, content))
        else:
            for command in content.splitlines():
                run(tree, command)
                commands += 1
    assert commands
    assert len({f for f in touched if not f.startswith("tests/")}) == library
    assert len(touched) == total
