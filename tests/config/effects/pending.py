"""Options that have no row yet. To finish one, write its row and take its name out of here."""

from __future__ import annotations

PENDING: frozenset[str] = frozenset()
