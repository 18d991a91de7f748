"""absl flags for every option, in both spellings. absl is imported only when a program asks for
flags.
"""

from __future__ import annotations

import sys
from typing import Any

from .kinds import Bool
from .registry import Option, Source, all_options, short_name

_FLAG_NAMES: dict[str, str] = {}  # flag name -> option name; filled once flags are defined


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
        for flag in (name, f"pyjax_{short_name(name)}"):
            if isinstance(option.kind, Bool):
                flags.DEFINE_bool(flag, option._value, option.help)
            else:
                flags.DEFINE_string(flag, None, f"{option.help} ({option.kind.accepts})")
            _FLAG_NAMES[flag] = name
    app.call_after_init(lambda: apply_flags(flags.FLAGS))


def apply_flags(values: Any) -> None:
    """Take the values of all flags that the command line named."""
    options = all_options()
    for flag, name in _FLAG_NAMES.items():
        if values[flag].present:
            option: Option = options[name]
            text = values[flag].value
            option.set(_parsed(option, text, flag), Source.FLAG, f"flag --{flag}={text}")


def _parsed(option: Option, text: Any, flag: str) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return option.kind.parse(text)
    except ValueError as error:
        raise ValueError(
            f"bad value {text!r} for option {option.name} (flag --{flag}): {error}"
        ) from None


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
