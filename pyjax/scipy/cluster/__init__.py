"""Clustering."""

from pyjax.scipy.cluster import vq as vq
