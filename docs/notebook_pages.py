"""Runs notebooks, and writes each as a page with what it printed."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from docs.reference_pages import write_if_new

_COLOUR = re.compile("\x1b\\[[0-9;]*m")


def write_notebooks(notebooks: Path, folder: Path, root: Path) -> None:
    """A page for each notebook that is newer than its page."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(notebooks.glob("*.ipynb")):
        page = folder / f"{path.stem}.md"
        if page.exists() and page.stat().st_mtime > path.stat().st_mtime:
            continue
        notebook = nbformat.read(path, as_version=4)
        NotebookClient(
            notebook,
            timeout=300,
            kernel_name="python3",
            resources={"metadata": {"path": str(root)}},
        ).execute()
        parts = []
        for at, cell in enumerate(notebook.cells):
            if cell.cell_type == "markdown":
                parts.append(cell.source.replace("](../docs/", "](../").replace(".ipynb)", ".md)"))
            elif cell.cell_type == "code":
                parts.append(_fenced(cell.source, "python"))
                parts += _outputs(cell.outputs, folder, f"{path.stem}_{at}")
        write_if_new(page, "\n\n".join(parts) + "\n")


def _fenced(text: str, language: str) -> str:
    text = text.rstrip("\n")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def _outputs(outputs: list[Any], folder: Path, stem: str) -> list[str]:
    parts = []
    for at, output in enumerate(outputs):
        if output.output_type == "stream":
            parts.append(_fenced(_COLOUR.sub("", output.text), "text"))
        elif output.output_type in ("display_data", "execute_result"):
            data = output.data
            if "image/png" in data:
                picture = folder / f"{stem}_{at}.png"
                picture.write_bytes(base64.b64decode(data["image/png"]))
                parts.append(f"![]({picture.name})")
            elif "text/html" in data:
                parts.append(_fenced(data["text/html"], "{raw} html"))
            else:
                parts.append(_fenced(data["text/plain"], "text"))
    return parts
