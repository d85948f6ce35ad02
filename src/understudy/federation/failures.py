"""What a site tells a server when nothing leaves: a code, and the sentence that goes with it.

The sentence of an error may hold numbers that were computed from records ("neighbouring pixels differ by 1.14 …"), and
neither policy nor approval nor ledger stands in its way. So it stays in the site's own log. What travels is the code
alone, and the server looks the sentence up.
"""

from understudy.errors import UserError

SENTENCES = {
    "failed": "its work failed; the site's own log says why",
    "defect": "its work ended in a defect of the program; the site's error.txt has the details",
    "unsound": "its generator made nothing worth sending; the site's own log says why",
    "not-finite": "its reply is not finite (a smaller learning rate may help)",
    "budget": "its privacy budget ends here",
    "policy": "its policy does not let this leave; the site's own log says what",
    "declined": "a person there said no to its reply",
    "waits": "its reply waits for a person's approval there (understudy approve FOLDER)",
    "other-config": "it was set up with another config than the server "
    "(seed, problem, model and its fast path, method, add-ons or privacy differ)",
    "past": "it is past this step already",
    "other-brief": "it answered this step already, to another brief",
    "bad-request": "it got a request that cannot be right; the site's own log says why",
}


class Refused(UserError):
    """The site does not do what a request asks for."""

    def __init__(self, code: str, why: str | None = None):
        self.code = code  # type: ignore[misc]
        super().__init__(why or SENTENCES[code])


class NotFinite(UserError):
    """A reply that would spoil everybody's sum."""

    code = "not-finite"

    def __init__(self, parts: list[str]):
        super().__init__(f"its reply is not finite in {', '.join(parts)} (a smaller learning rate may help)")


def may_travel(code: str) -> str:
    """The code, where it is one of ours: what an error of another make calls itself may tell of records too."""
    return code if code in SENTENCES else UserError.code


def sentence(code: str) -> str:
    """As the server shows it; a code that nobody here knows is not repeated."""
    return f"{SENTENCES[code]} ({code})" if code in SENTENCES else "it failed, with a code that this server lacks"
