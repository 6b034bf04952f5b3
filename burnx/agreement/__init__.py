"""Agreement: whether two results are the same.

Enters: results by name.  Leaves: differences, and how far rounding alone moves a model.
May import: api and below.  Start reading at ``tolerance.py``; ``spread.py`` is for what rounds to few steps.
"""
