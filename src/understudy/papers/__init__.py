"""What papers compare: runs, printed numbers, claims. Nothing here draws or formats."""
