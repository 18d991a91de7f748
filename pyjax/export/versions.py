"""Which calling conventions exported programs may have."""

from __future__ import annotations

from pyjax._config import options
from pyjax.core.errors import fail

minimum_supported_calling_convention_version = 9
maximum_supported_calling_convention_version = 10


def checked_version(version: int, of_what: str, fix: str) -> int:
    """The version, if this library knows it.

    Raises:
      ValueError: it does not.
    """
    low, high = (
        minimum_supported_calling_convention_version,
        maximum_supported_calling_convention_version,
    )
    if not low <= version <= high:
        fail(
            ValueError,
            f"{of_what} has calling convention version {version}, which is outside the range of "
            f"supported versions [{low}..{high}]",
            "the version says how arguments and results are passed, and this library knows how "
            "only for these versions",
            fix,
        )
    return version


def configured_version() -> int:
    """The version that programs are exported with."""
    return checked_version(
        options.export_calling_convention_version.value,
        "the export that jax_export_calling_convention_version asks for",
        "leave the option at its default, or set it to a version of the range",
    )
