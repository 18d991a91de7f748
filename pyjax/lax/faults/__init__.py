"""Faults (NaN, infinity, division by zero, index out of bounds): noticed by the compiled program,
found by running it again, equation by equation."""
