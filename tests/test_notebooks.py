"""The notebooks run, and the README's code does."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.name)
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
