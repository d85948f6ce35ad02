"""Several clients trained as one program: their weights are stacked, and each step moves all of them.

The arithmetic is that of `learning.loop` for every client: results are equal up to rounding. What one client has (a
NaN, fewer steps, a smaller last batch) never touches another's row.
"""
