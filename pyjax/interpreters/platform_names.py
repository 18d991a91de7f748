"""Names under which programs ask for platforms. Layer: interpreters."""

from __future__ import annotations

# Two run the CPU's programs.
_ALIASES = {
    "gpu": ("cuda", "rocm"),
    "interpreter": ("cpu",),
    "emulator": ("cpu",),
    "gpu_emulator": ("cuda",),
}
# What lowering rules can be registered for.
KNOWN_PLATFORMS = ("cpu", "cuda", "gpu", "oneapi", "rocm", "tpu", *sorted(set(_ALIASES) - {"gpu"}))


def names_of_platform(platform: str) -> set[str]:
    """A platform's name, and those it answers to as well."""
    return {platform, *_ALIASES.get(platform, ())}
