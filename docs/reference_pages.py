"""Writes a page for each public module, from the docstrings of its objects."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from docs.docstring_text import as_markdown
from docs.public_names import Public, documented, public_modules, public_objects

_INTRODUCTION = """# Reference

Every public module, class and function. Examples take for granted `import numpy as np`,
`import pyjax`, `import pyjax.numpy as jnp`, `from pyjax import lax` and the names of the module
that the page describes; all of them are run by the tests.
"""


def write_reference(folder: Path) -> None:
    """One page for each module that has objects, and an index."""
    folder.mkdir(parents=True, exist_ok=True)
    by_id = {id(public.value): public for public in documented()}
    listed = []
    for name, module in public_modules().items():
        objects = public_objects(module)
        if objects:
            write_if_new(folder / f"{name}.md", _page(name, module, objects, by_id))
            listed.append(name)
    toctree = "\n".join(["```{toctree}", ":maxdepth: 1", "", *listed, "```"])
    write_if_new(folder / "index.md", f"{_INTRODUCTION}\n{toctree}\n")


def write_if_new(path: Path, text: str) -> None:
    """Pages that stay as they were are not built again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _page(name: str, module: ModuleType, objects: dict[str, Any], by_id: dict[int, Public]) -> str:
    parts = [f"# {name}", as_markdown(inspect.getdoc(module) or "")]
    elsewhere = []
    for short, value in objects.items():
        public = by_id[id(value)]
        if public.name == f"{name}.{short}":
            parts.append(_entry(public))
        else:
            elsewhere.append(f"- `{short}`: {{py:obj}}`{public.name}`")
    if elsewhere:
        parts += ["## Also here", "\n".join(elsewhere)]
    return "\n\n".join(parts) + "\n"


def _entry(public: Public) -> str:
    is_class = inspect.isclass(public.value)
    body = [as_markdown(public.doc)]
    if public.aliases:
        body.append("Also: " + ", ".join(f"`{alias}`" for alias in public.aliases) + ".")
    if is_class:
        body += _members(public.value)
    kind = "class" if is_class else "function"
    signature = "" if is_class else _signature(public.value)
    return _directive(kind, public.name + signature, "\n\n".join(body), fence="::::::")


def _members(kind: type) -> list[str]:
    """The methods and properties that the class itself has and describes."""
    found = []
    for name, value in sorted(vars(kind).items()):
        function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        doc = inspect.getdoc(function)
        if name.startswith("_") or not doc:
            continue
        if isinstance(function, property):
            found.append(_directive("property", name, as_markdown(doc), fence="::::"))
        elif inspect.isfunction(function):
            found.append(
                _directive("method", name + _signature(function), as_markdown(doc), fence="::::")
            )
    return found


def _directive(kind: str, head: str, body: str, fence: str) -> str:
    return f"{fence}{{py:{kind}}} {head}\n\n{body}\n{fence}"


def _signature(value: Any) -> str:
    """Names and defaults; types are in the text."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    plain = [
        p.replace(
            annotation=inspect.Parameter.empty,
            default=p.default if p.default is p.empty else _Shown(p.default),
        )
        for p in signature.parameters.values()
    ]
    return str(inspect.Signature(plain))


class _Shown:
    """Prints as the default's text, if it is short and Python; as dots else."""

    def __init__(self, value: Any) -> None:
        text = getattr(value, "__name__", None) if callable(value) else repr(value)
        self.text = text if text and re.fullmatch(r"[\w.\-+'\"\[\](){}, :=]{1,40}", text) else "..."

    def __repr__(self) -> str:
        return self.text
