"""Variables of the environment that look like options and are none."""

from __future__ import annotations

import os
import warnings

from .registry import all_options, environment_names, suggestion

_PREFIX = "PYJAX_"
# Where files are, before any option is known.
_NO_OPTIONS = frozenset({"PYJAX_CACHE_DIR", "PYJAX_INSTALLED_DIR"})


def warn_of_unknown() -> None:
    """Warn of variables with our prefix that name no option: nobody else would notice the typo."""
    found = {name for name in os.environ if name.startswith(_PREFIX)} - _NO_OPTIONS
    if found:
        known = {variable for name in all_options() for variable in environment_names(name)}
        for name in sorted(found - known):
            bare = name.removeprefix(_PREFIX).lower()
            warnings.warn(
                f"the environment variable {name} is no option of pyjax.{suggestion(bare)}",
                UserWarning,
                stacklevel=2,
            )
