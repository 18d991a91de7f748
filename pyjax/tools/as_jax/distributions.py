"""What `importlib.metadata` says of JAX: libraries ask which version is installed."""

from __future__ import annotations

from importlib.metadata import Distribution
from typing import Any, NoReturn

from pyjax.version import jax_version

NAMES = ("jax", "jaxlib")


class JaxDistribution(Distribution):
    """`jax` or `jaxlib`, in the version whose API pyjax follows."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read_text(self, filename: str) -> str | None:
        if filename == "METADATA":
            return f"Metadata-Version: 2.1\nName: {self._name}\nVersion: {jax_version}\n"
        return None

    def locate_file(self, path: Any) -> NoReturn:
        raise FileNotFoundError(f"{self._name} is pyjax: it has no file {path}")
