"""The site's last word: whether a reply may leave, by the site's own policy."""

from collections.abc import Iterable, Mapping, Sequence

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.message import Kind, Message, labels_from_wire
from understudy.privacy.charges import Charge
from understudy.privacy.policy import Policy


class Forbidden(UserError):
    """The policy of the site does not allow it."""


def check_kinds(policy: Policy | None, kinds: Mapping[str, Kind], *, private: bool) -> None:
    """Before a record is touched: everything that the task may send is allowed."""
    if policy is None:
        return
    if policy.epsilon is not None and not private:
        _require_cover(policy, kinds, kinds, ())
    forbidden = {part: kind for part, kind in kinds.items() if kind not in policy.kinds}
    if forbidden:
        part, kind = next(iter(forbidden.items()))
        raise Forbidden(f"its policy does not let {kind} leave, and the task would send '{part}'")


def may_score(policy: Policy | None) -> bool:
    """Scores on held-out records are statistics without noise; where those may not leave, nothing is scored."""
    return policy is None or ("statistics" in policy.kinds and policy.epsilon is None)


def examples_in(reply: Message, kinds: Mapping[str, Kind]) -> int:
    """Synthetic (or real) records in a reply."""
    return max((len(reply[part]) for part in reply if kinds.get(part) == "examples" and reply[part].ndim), default=0)


def check_reply(
    policy: Policy | None,
    reply: Message,
    kinds: Mapping[str, Kind],
    own: Examples,
    sent: int,
    charges: Sequence[Charge] = (),
) -> None:
    """Before it leaves; ``sent`` examples left in this round already, ``charges`` were paid for it."""
    leaving = examples_in(reply, kinds)
    if policy is not None and policy.epsilon is not None:
        _require_cover(policy, reply, kinds, charges)
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


def _require_cover(policy: Policy, parts: Iterable[str], kinds: Mapping[str, Kind], charges: Sequence[Charge]) -> None:
    """A limit on ε is a limit on everything: what no mechanism covers would leave at an infinite ε."""
    covered = {part for charge in charges for part in charge.covers}
    bare = [part for part in parts if kinds[part] != "keys" and part not in covered]
    if bare:
        raise Forbidden(
            f"its policy allows ε up to {policy.epsilon:g}, and '{bare[0]}' would leave without any such guarantee"
        )
