"""How far a line is after the first rounds, for claims about fast convergence."""

from understudy.papers.study import StudyLine

FIRST = "first rounds"  # of a column
EARLY = 5  # of so many rounds, one counts as the first ones


def early(line: StudyLine) -> list[float]:
    """By seed, after a fifth of the rounds, but at least one."""
    wanted = max(1, line.rounds[-1] // EARLY)
    at = next(at for at, number in enumerate(line.rounds) if number >= wanted)
    return [seed[at] for seed in line.values]
