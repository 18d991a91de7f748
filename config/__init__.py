"""The option registry, installed as `pyjax._config`; users see `config` as `pyjax.config`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from . import environment, files, flags, options
from .registry import Source, all_options, find

__all__ = ["Config", "config", "options"]


class Config:
    """All options as one object: attributes to read, `update` to write.

    >>> config.jax_enable_x64 in (True, False)
    True
    """

    def update(self, name: str, val: Any) -> None:
        """Set an option for the whole process.

        Args:
          name: `jax_enable_x64`, `pyjax_enable_x64` or `enable_x64`.
          val: of the option's kind; texts as in the environment are accepted.
        Raises:
          AttributeError: unknown name (with the closest match).
          ValueError, TypeError: the value is not accepted.
          RuntimeError: the option can no longer change.
        """
        find(name).set(val, Source.UPDATE, f"config.update({name!r}, {val!r})")

    def read(self, name: str) -> Any:
        """Value in force of an option."""
        return find(name).value

    @property
    def values(self) -> dict[str, Any]:
        """Values in force of all options, by full name."""
        return {name: option.value for name, option in all_options().items()}

    @property
    def x64_enabled(self) -> bool:
        """Whether 64-bit types are kept here: `jax_enable_x64`."""
        return options.enable_x64.value

    def explain(self, name: str | None = None) -> str:
        """Who set an option (or, without a name, each option that is not at its default)."""
        if name is not None:
            return find(name).explain()
        changed = [o for o in all_options().values() if o.value != o.default]
        return "\n".join(o.explain() for o in changed) or "every option is at its default"

    def config_with_absl(self) -> None:
        """Define absl flags for all options (see `config.flags`)."""
        flags.config_with_absl()

    def parse_flags_with_absl(self) -> None:
        """Define absl flags and take those on the command line."""
        flags.parse_flags_with_absl()

    def parse_known(self, argv: Sequence[str] | None = None) -> list[str]:
        """Take the options out of a command line, for whatever parser reads the rest.

        `--jax_x=v`, `--jax_x v` and `--nojax_x` are understood, `pyjax_` as prefix, too; what comes
        after `--` is left alone.

        Args:
          argv: without the program's name; None: those of this process.
        Returns:
          The other arguments, in order: for `ArgumentParser.parse_args(...)`, for a click command's
          `main(args=...)`, for `pytest.main(...)`.
        Raises:
          ValueError: a flag with one of the prefixes is no option (with the closest match), or its
            value is bad; then no option has changed but those before it.

        >>> config.parse_known(["train.txt", "--jax_log_compiles=false", "--epochs", "3"])
        ['train.txt', '--epochs', '3']
        """
        return flags.parse_known(argv)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return find(name).value

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"options are set by config.update({name!r}, {value!r})")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *all_options()})

    def _repr_html_(self) -> str:
        listing = import_module("pyjax._config.listing")  # for notebooks alone
        return listing.html(listing.AREAS)

    def __repr__(self) -> str:
        return f"<pyjax.config: {len(all_options())} options; see config.values, config.explain()>"


config = Config()
files.apply_files()
environment.warn_of_unknown()
