"""The experiments of the paper, one module each: a `Config`, and `run`, `table` and `figure`."""
