"""What a person is told when something that they can mend is wrong."""


class UserError(Exception):
    """One sentence for the person who has to act: what was wrong, where, and what to write instead."""


def missing_extra(what: str, extra: str) -> UserError:
    """``what`` needs packages that come with an extra of ours."""
    return UserError(
        f"{what} needs further packages; in the clone of understudy: pip install -c constraints.txt '.[{extra}]'."
    )
