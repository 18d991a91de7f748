"""Scenarios that are hard on threads, processes, memory and signals; run by `make stress`, and for
a moment each by the tests."""
