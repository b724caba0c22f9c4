"""From a table to a saved model: the commands fit, predict, evaluate and info.

`reading` opens files, `columns` encodes them as numbers, `model` fits, predicts and scores, `checks` compares
predictions with held-out rows, `report` writes an HTML page.
"""
