"""Options on command lines, in both spellings: `--jax_<name>=v`, `--pyjax_<name>=v`,
`--nojax_<name>` for booleans.

absl gets a flag for every option, and is imported only when a program asks for that;
`parse_known` serves all other parsers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from .kinds import Bool
from .registry import Option, Source, all_options, short_name, suggestion

_FLAG_NAMES: dict[str, str] = {}  # absl's: flag name -> option name; filled once flags are defined


def _spellings(name: str) -> tuple[str, str]:
    return name, f"pyjax_{short_name(name)}"


def parse_known(argv: Sequence[str] | None = None) -> list[str]:
    """See `Config.parse_known`."""
    rest: list[str] = []
    # All flags are read before the first one acts.
    for option, text, flag in list(_flags_in(sys.argv[1:] if argv is None else argv, rest)):
        origin = f"flag {flag}"
        option.set(option.parsed(text, origin), Source.FLAG, origin)
    return rest


def _flags_in(argv: Sequence[str], rest: list[str]) -> Iterator[tuple[Option, str, str]]:
    """(option, text, as it was written) of the flags; the other arguments go to `rest`."""
    options = all_options()
    known = {flag: option for name, option in options.items() for flag in _spellings(name)}
    words = iter(argv)
    for word in words:
        if word == "--":
            rest += [word, *words]
            return
        written, given, text = word.partition("=")
        name = written[2:].replace("-", "_") if written.startswith("--") else ""
        option = known.get(name)
        negated = known.get(name.removeprefix("no")) if name.startswith("no") else None
        if option is not None:
            if not given:
                text = "true" if isinstance(option.kind, Bool) else _next(words, option, word)
            yield option, text, word if given or isinstance(option.kind, Bool) else f"{word} {text}"
        elif negated is not None and isinstance(negated.kind, Bool) and not given:
            yield negated, "false", word
        elif name.removeprefix("no").startswith(("jax_", "pyjax_")):
            bare = name.removeprefix("no").removeprefix("py").removeprefix("jax_")
            raise ValueError(f"unrecognized config option: flag {word}.{suggestion(bare)}")
        else:
            rest.append(word)


def _next(words: Iterator[str], option: Option, flag: str) -> str:
    for word in words:
        return word
    raise ValueError(
        f"option {option.name} has no value (flag {flag}): expected {option.kind.accepts}"
    )


# -- absl ------------------------------------------------------------------------------------------


def config_with_absl() -> None:
    """Define `--jax_<name>` and `--pyjax_<name>` for every option; call before `absl.app.run`.

    The values are applied once absl has parsed the command line.
    """
    import absl.app as app
    import absl.flags as flags

    if _FLAG_NAMES:
        return
    for name, option in all_options().items():
        # The environment's value is the flag's default, so that --help shows what holds.
        for flag in _spellings(name):
            if isinstance(option.kind, Bool):
                flags.DEFINE_bool(flag, option.process_value, option.help)
            else:
                flags.DEFINE_string(flag, None, f"{option.help} ({option.kind.accepts})")
            _FLAG_NAMES[flag] = name
    app.call_after_init(lambda: apply_flags(flags.FLAGS))


def apply_flags(values: Any) -> None:
    """Take the values of all flags that the command line named."""
    options = all_options()
    for flag, name in _FLAG_NAMES.items():
        if values[flag].present:
            option, value = options[name], values[flag].value
            origin = f"flag --{flag}={value}"
            if isinstance(value, str):
                value = option.parsed(value, origin)
            option.set(value, Source.FLAG, origin)


def parse_flags_with_absl() -> None:
    """Parse the options out of sys.argv now, for programs that do not use `absl.app.run`.

    Flags of others are left alone.
    """
    import absl.flags as flags

    config_with_absl()
    values = flags.FlagValues()
    for flag in _FLAG_NAMES:
        values[flag] = flags.FLAGS[flag]
    values(sys.argv, known_only=True)
    apply_flags(flags.FLAGS)
