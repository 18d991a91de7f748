"""Geometry: the submodule `transform`."""

from pyjax.scipy.spatial import transform as transform
