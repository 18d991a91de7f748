"""Solvers that see a matrix through its products only."""

from pyjax.scipy.sparse import linalg as linalg
