"""The options as people read them: as text, as a page, as a table in a notebook."""

from __future__ import annotations

import html as html_text
import textwrap
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from . import (
    options_compilation,
    options_debugging,
    options_devices,
    options_kernels,
    options_logging,
    options_migration,
    options_numerics,
)
from .kinds import AbstractKind, Bool, Enum, Float, Int, Optional
from .registry import Affects, Option, Scope, environment_names, short_name

Areas = Mapping[str, list[Option]]


def _declared(module: ModuleType) -> list[Option]:
    found = {id(v): v for v in vars(module).values() if isinstance(v, Option)}
    return list(found.values())


AREAS: Areas = {
    "Numerics and dtypes": _declared(options_numerics),
    "Debugging and errors": _declared(options_debugging),
    "Logging, dumping, profiling": _declared(options_logging),
    "Compilation": _declared(options_compilation),
    "Devices and distribution": _declared(options_devices),
    "Kernel language": _declared(options_kernels),
    "Parts that pyjax does not have": _declared(options_migration),
}

_PAGE = """# Options

Made from the declarations in `config/` by `python -m pyjax config --markdown`;
`python -m pyjax config` shows the values in force, too, and who set them.

An option is set in one of these ways; the first of them that says something holds.

1. In a block, for a thread or a task of asyncio: `with pyjax.enable_x64(True): ...` (scope:
   thread). Tasks that start inside keep the value.
2. At run time: `pyjax.config.update("jax_enable_x64", True)`.
3. On the command line: `--jax_enable_x64`, `--jax_enable_x64=true`, `--nojax_enable_x64`, also with
   the prefix `pyjax_`: after `pyjax.config.config_with_absl()` in a program of absl, through
   `pyjax.config.parse_known(argv)` in any other.
4. In the environment: `PYJAX_ENABLE_X64=1`, or `JAX_ENABLE_X64=1`. A variable `PYJAX_...` that
   no option has is warned of.
5. In the nearest `pyjax.toml`, or the table `[tool.pyjax]` of the nearest `pyproject.toml`, from
   the working directory upwards: `enable_x64 = true`. The file must belong to you.

Options marked "pyjax only" are not JAX's. Where traces or programs depend on an option, a change
makes them anew, and finds those of before when it is taken back.
"""


def kind_name(kind: AbstractKind) -> str:
    """The type of an option in a few words."""
    if isinstance(kind, Optional):
        return f"{kind_name(kind.kind)} or None"
    if isinstance(kind, Enum):
        return "one of " + ", ".join(kind.choices)
    if isinstance(kind, (Int, Float)):
        return kind.accepts
    return "boolean" if isinstance(kind, Bool) else kind.accepts


def flag_of(option: Option) -> str:
    """The flag, in the spelling of the reference."""
    return f"--{option.name}"


def facts(option: Option) -> dict[str, str]:
    """What is said of an option, by title, but for its value."""
    scope = "thread" if option.scope is Scope.THREAD else "process"
    found = {
        "Type": kind_name(option.kind),
        "Default": repr(option.default),
        "Scope": scope,
        "May change": "before the first use of a device" if option.at_start else "at any time",
        "Part of keys of": {
            Affects.NOTHING: "nothing",
            Affects.TRACE: "traces and programs",
            Affects.COMPILE: "traces and programs",
            Affects.COMPILE_IN_BLOCKS: "traces and programs in a block",
        }[option.affects if option.keyed else Affects.NOTHING],
        "Environment": ", ".join(environment_names(option.name)),
        "Flag": f"{flag_of(option)}, --pyjax_{short_name(option.name)}",
        "Since": option.since + (", pyjax only" if option.ours else ""),
    }
    if option.no_effect is not None:
        found["No effect"] = f"{option.no_effect}; setting it warns."
    if option.waits_for is not None:
        found["Waits"] = f"{option.waits_for}; until then setting it warns."
    if option.interactions:
        found["With others"] = option.interactions
    return found


def matching(areas: Areas, words: str) -> dict[str, list[Option]]:
    """Options whose name or description has all the words."""
    wanted = words.lower().split()

    def has_all(option: Option) -> bool:
        text = " ".join((option.name, option.help, *facts(option).values())).lower()
        return all(word in text for word in wanted)

    chosen = {title: [o for o in options if has_all(o)] for title, options in areas.items()}
    return {title: options for title, options in chosen.items() if options}


def text(areas: Areas) -> Iterator[str]:
    """Lines for a terminal: values in force, who set them, and all that is said."""
    for title, options in areas.items():
        yield f"{title} ({len(options)})"
        for option in options:
            mark = "  [pyjax only]" if option.ours else ""
            yield f"  {option.explain()}{mark}"
            yield f"      {option.help}"
            said = facts(option)
            yield "      " + "; ".join(
                (
                    said["Type"],
                    f"default {said['Default']}",
                    f"of a {said['Scope']}",
                    said["May change"],
                    environment_names(option.name)[0],
                    flag_of(option),
                    f"since {option.since}",
                )
            )
            for key in ("No effect", "Waits", "With others"):
                if key in said:
                    yield f"      {key}: {said[key]}"
        yield ""


def markdown(areas: Areas) -> str:
    """The reference page."""
    count = sum(len(options) for options in areas.values())
    ours = sum(option.ours for options in areas.values() for option in options)
    parts = [_PAGE, f"{count - ours} options of JAX, {ours} of pyjax.\n"]
    for title, options in areas.items():
        parts.append(f"## {title}\n")
        for option in options:
            parts.append(f"### `{option.name}`\n\n{_filled(option.help)}\n")
            said = [_filled(f"- {key}: {value}", "  ") for key, value in facts(option).items()]
            parts.append("\n".join(said) + "\n")
    return "\n".join(parts)


def _filled(text: str, indent: str = "") -> str:
    """Lines of at most 100 letters; `indent` stands before those after the first."""
    return textwrap.fill(
        text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


_FILTER = (
    "const words = this.value.toLowerCase().split(' ');"
    "for (const row of this.parentElement.querySelectorAll('tbody tr'))"
    " row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word));"
)


def html(areas: Areas) -> str:
    """A table with a box to search in it."""
    cell = lambda value: f"<td style='text-align: left'>{html_text.escape(str(value))}</td>"

    def row(option: Option) -> str:
        name = option.name + (" (pyjax only)" if option.ours else "")
        values: list[Any] = [name, repr(option.value), option.set_by, kind_name(option.kind)]
        return f"<tr>{''.join(map(cell, (*values, option.help)))}</tr>"

    rows = "".join(row(option) for options in areas.values() for option in options)
    heads = "".join(f"<th>{title}</th>" for title in ("option", "value", "set by", "type", "help"))
    return (
        f'<div><input type="search" placeholder="search options" oninput="{_FILTER}">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
