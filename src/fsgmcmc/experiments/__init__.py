"""The experiments of the paper, one folder each: `config` (settings and presets), `run` and `report`.

`runner` runs a sweep in worker processes, `tables` is shared by several reports.
"""
