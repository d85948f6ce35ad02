"""What a person is told when something that they can mend is wrong."""


class UserError(Exception):
    """One sentence for the person who has to act: what was wrong, where, and what to write instead."""
