"""Benchmarks of a source checkout; not part of the installed package."""
