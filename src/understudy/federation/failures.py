"""What a site tells a server when nothing leaves: a code, for which the server has a sentence.

An error message may hold numbers computed from records ("neighbouring pixels differ by 1.14 …"), and no policy,
approval or ledger would stop it. So it stays in the site's own log. Only the code travels, and the server looks up the
sentence.
"""

from collections.abc import Mapping

from understudy.errors import UserError
from understudy.federation.message import Kind

SENTENCES = {
    "failed": "its work failed; the site's own log says why",
    "defect": "its work hit a bug in the program; the site's error.txt has the details",
    "unsound": "its generator made nothing worth sending; the site's own log says why",
    "overfit": "its generator made too many near-copies of records to send anything; the site's own log says how many",
    "not-finite": "its reply is not finite (a smaller learning rate may help)",
    "budget": "it has no privacy budget left for this",
    "policy": "its policy does not let this leave; the site's own log says what",
    "declined": "a person there declined its reply",
    "waits": "its reply waits for a person's approval there (understudy review FOLDER)",
    "other-config": "it was set up with another config than the server's "
    "(seed, problem, model and its fast path, method, add-ons or privacy differ)",
    "past": "it is already past this step",
    "other-brief": "it has already answered this step, for another brief",
    "bad-request": "it got an invalid request; the site's own log says why",
}


class Refused(UserError):
    """The site refuses to do what a request asks."""

    def __init__(self, code: str, why: str | None = None):
        self.code = code  # type: ignore[misc]
        super().__init__(why or SENTENCES[code])


class NotFinite(UserError):
    """A reply that would spoil the sum for everyone."""

    code = "not-finite"

    def __init__(self, parts: list[str], kinds: Mapping[str, Kind] | None = None):
        hint = smaller_rate((kinds or {}).get(parts[0]))
        super().__init__(f"its reply is not finite in {', '.join(parts)} ({hint})")


def smaller_rate(kind: Kind | None) -> str:
    """What to try against numbers that grew without end."""
    which = ", such as method.image_lr," if kind == "examples" else ""
    return f"a smaller learning rate{which} may help"


def may_travel(code: str) -> str:
    """The code, if it is one of ours: the code of a foreign error might reveal something about records too."""
    return code if code in SENTENCES else UserError.code


def sentence(code: str) -> str:
    """As the server shows it; an unknown code is not repeated."""
    return f"{SENTENCES[code]} ({code})" if code in SENTENCES else "it failed with a code unknown to this server"
