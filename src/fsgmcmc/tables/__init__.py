"""From a table to a model that can be kept: what the commands fit, predict, evaluate and info do.

`reading` opens files, `columns` turns them into numbers, `model` fits, predicts and scores, `report` tells a person.
"""
