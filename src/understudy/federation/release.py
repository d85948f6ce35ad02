"""The site's last word: whether a reply may leave, by the site's own policy."""

from collections.abc import Mapping

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.message import Kind, Message, labels_from_wire
from understudy.privacy.policy import Policy


class Forbidden(UserError):
    """The policy of the site does not allow it."""


def check_kinds(policy: Policy | None, kinds: Mapping[str, Kind]) -> None:
    """Before a record is touched: everything that the task may send is allowed."""
    if policy is None:
        return
    forbidden = {part: kind for part, kind in kinds.items() if kind not in policy.kinds}
    if forbidden:
        part, kind = next(iter(forbidden.items()))
        raise Forbidden(f"its policy does not let {kind} leave, and the task would send '{part}'")


def may_score(policy: Policy | None) -> bool:
    """Scores on held-out records are statistics; where those may not leave, nothing is scored."""
    return policy is None or "statistics" in policy.kinds


def examples_in(reply: Message, kinds: Mapping[str, Kind]) -> int:
    """Synthetic (or real) records in a reply."""
    return max((len(reply[part]) for part in reply if kinds.get(part) == "examples" and reply[part].ndim), default=0)


def check_reply(policy: Policy | None, reply: Message, kinds: Mapping[str, Kind], own: Examples, sent: int) -> None:
    """Before it leaves; ``sent`` examples left in this round already."""
    leaving = examples_in(reply, kinds)
    if policy is None or not leaving:
        return
    if policy.examples_a_round is not None and sent + leaving > policy.examples_a_round:
        raise Forbidden(
            f"its policy lets {policy.examples_a_round} examples leave in a round, and these would be {sent + leaving}"
        )
    if policy.smallest_class and "y" in reply and kinds.get("y") == "examples" and not own.multilabel:
        held = [int((own.y == label).sum()) for label in set(labels_from_wire(reply["y"]).tolist())]
        if min(held) < policy.smallest_class:  # which class it is, is nobody's business
            raise Forbidden(
                f"its policy wants {policy.smallest_class} records behind every class whose examples leave, "
                "and some class has fewer"
            )
