"""The notebooks run, and the README's code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ipykernel
import nbformat
import pytest
from IPython.core import interactiveshell
from nbclient import NotebookClient

from pyjax.core.source_info import is_internal_file

ROOT = Path(__file__).resolve().parent.parent


# The others run in `make test-slow`; of what they show, most has tests of its own.
ALWAYS = ("quickstart", "configuration", "several_devices", "sharp_bits", "writing_a_pass")


def notebooks() -> list[Any]:
    found = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert {path.stem for path in found} >= set(ALWAYS)
    return [
        pytest.param(path, id=path.stem, marks=() if path.stem in ALWAYS else pytest.mark.slow)
        for path in found
    ]


@pytest.mark.parametrize("path", notebooks())
@pytest.mark.filterwarnings("ignore")  # of the notebook machinery itself
def test_notebook_runs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    ).execute()


def test_readme_code_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # it writes a page
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 3
    namespace: dict[str, object] = {}
    expected = []
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
        expected += re.findall(r"print\(.*\)\s+# (\([\d, ]+\)|\w+\d+)", block)
    printed = capsys.readouterr().out
    for line in expected:
        assert line in printed


def test_messages_in_notebooks_name_cells_only() -> None:
    assert is_internal_file(interactiveshell.__file__)
    assert is_internal_file(ipykernel.__file__)
    assert not is_internal_file("/tmp/ipykernel_123/456.py")
