"""A cache on disk that is a test's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyjax._config.registry import Source, all_options

from pyjax.experimental.compilation_cache import compilation_cache
from xla_backend.persistent import settings, store


@contextmanager
def own_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In a folder, as long as the block; options of caches that were set in it are taken back."""
    before = settings.cache_settings()
    monkeypatch.setattr(store, "_warned", set())
    compilation_cache.set_cache_dir(folder / "cache")
    yield folder / "cache"
    for name, option in all_options().items():
        if "cache" in name:
            option.clear(Source.UPDATE)
    assert settings.cache_settings() == before
