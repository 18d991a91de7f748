"""Mutable references: their primitives, indices into them, and what users do with them."""
