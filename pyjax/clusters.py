"""Descriptions of chips and links, for `pyjax.plan`."""

from pyjax.parallel.clusters import Chip as Chip
from pyjax.parallel.clusters import Cluster as Cluster
from pyjax.parallel.clusters import Link as Link

__all__ = ["Chip", "Cluster", "Link"]
