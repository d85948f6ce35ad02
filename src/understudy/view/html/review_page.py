"""What waits for review, as pages: all of it in a table, each reply as a gallery by class, suspicious ones first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from understudy.audits.own_records import NearestRecords
from understudy.data.problem import Problem
from understudy.federation.held import Held
from understudy.view.html.assets import Asset, Assets
from understudy.view.html.page import render
from understudy.view.html.pictures import png
from understudy.view.html.review_tiles import columns_of, copies_among, groups_of, is_image, thresholds_of
from understudy.view.numbers import epsilon_shown, size
from understudy.view.waiting import content_of, standing

ASSETS = Assets(
    [Asset(address=f"/static/{name}") for name in ("understudy.css", "review.css")],
    [Asset(address="/static/review.js")],
)
SIDE = 96  # of an image on the page, in its pixels


@dataclass(frozen=True)
class ShownReply:
    """How one reply is shown: beside records or not, and what is told around it."""

    held: Held
    beside: NearestRecords | None  # None: without records
    alone: str  # why there are none beside it; empty if there are
    token: str  # to be sent back with a decision
    by: str  # the reviewer's name, as far as known
    next_step: str
    message: str = ""
    labels: Sequence[str] = ()  # names of classes


def png_of(record: Tensor, problem: Problem) -> bytes:
    """One image, as its pixels are; the browser enlarges it."""
    pixels = problem.unscale(record.nan_to_num()[None] if record.is_floating_point() else record[None])[0]
    return png(pixels.numpy().transpose(1, 2, 0))


def waiting_page(replies: Sequence[Held], messages: Sequence[str], next_step: str) -> str:
    open_ones = sum(one.decision is None for one in replies)
    many = len(replies)
    summary = "Nothing waits here." if not many else f"{_replies(many)} here, {open_ones or 'none'} of them undecided."
    rows = [
        {
            "id": one.id,
            **{key: one.about[key] for key in ("client", "round", "task")},
            "content": _content(one),
            "bytes": size(sum(part["bytes"] for part in one.about["parts"])),
            "epsilon": epsilon_shown(one.about["epsilon"] or None, 3),
            "standing": standing(one),
        }
        for one in replies
    ]
    page = {"summary": summary, "rows": rows, "messages": list(messages), "next_step": next_step if many else ""}
    return render("waiting.html", assets=ASSETS, page=page)


def _content(one: Held) -> str:
    """60 images of 6 classes, and what is beside them."""
    examples, shown = one.examples(), ("examples", "labels")
    if examples is None or not len(examples):
        return "; ".join(f"{part['part']}: {content_of(part)}" for part in one.about["parts"])
    classes = "" if examples.multilabel else f" of {len(one.a_class())} classes"
    beside = [f"{part['part']}: {content_of(part)}" for part in one.about["parts"] if part["kind"] not in shown]
    return "; ".join([f"{_count(len(examples), one.problem)}{classes}", *beside])


def _replies(many: int) -> str:
    return "One reply waits" if many == 1 else f"{many} replies wait"


def review_page(shown: ShownReply) -> str:
    one, examples = shown.held, shown.held.examples()
    about, problem = one.about, one.problem
    groups = [] if examples is None or not len(examples) else groups_of(one, examples, shown.beside, shown.labels)
    many = sum(len(group.tiles) for group in groups)
    compared_with = "" if shown.beside is None else _compared_with(shown.beside)
    thresholds = thresholds_of(shown.beside)
    page = {
        **{key: about[key] for key in ("client", "round", "task")},
        "when": f"round {about['round']}" if about["round"] else "the opening",
        "id": one.id,
        "sha256": one.sha256,
        "count": _count(many, problem),
        "many": many,
        "tally": f"{many} of {many} leave" if many else "",
        "token": shown.token,
        "by": shown.by,
        "message": shown.message,
        "decided": _decided(one),
        "next_step": shown.next_step,
        "privacy": _privacy(shown),
        "whole": one.whole if many else None,
        "parts": [_part(part) for part in about["parts"]],
        "groups": groups,
        "images": is_image(problem),
        "side": SIDE,
        "height": round(SIDE * problem.shape[1] / problem.shape[2]) if is_image(problem) else SIDE,
        "columns": columns_of(problem),
        "compared_with": compared_with,
        "thresholds": thresholds,
        "threshold_steps": len(thresholds),
        **copies_among(groups, shown.beside),
    }
    return render("review.html", assets=ASSETS, page=page)


def _count(many: int, problem: Problem) -> str:
    return f"{many:,} {_what(problem)}{'' if many == 1 else 's'}" if many else "a reply"


def _what(problem: Problem) -> str:
    return "image" if is_image(problem) else "example"


def _compared_with(beside: NearestRecords) -> str:
    return "held-out records" if beside.held_out else "the site's own records to one another"


def _privacy(shown: ShownReply) -> str:
    one, spent = shown.held, epsilon_shown(shown.held.about["epsilon"] or None, 3)
    if shown.beside is not None:
        covered = " although a mechanism covers what would leave" if one.private else ""
        return (
            f"Each {_what(one.problem)} stands beside the record of this site that it is nearest to. What you decide "
            f"with records in view tells something about them{covered}: the ledger lists it as not covered, a plain "
            "no included."
        )
    if one.private:
        seen = (
            " Records were in view before, so the ledger lists this decision as not covered."
            if one.records_seen
            else ""
        )
        return (
            f"These examples were made with differential privacy (ε = {spent} for this reply, spent whatever you "
            "decide). They are shown without records and without distances: choosing among them by what you see here "
            f"costs nothing.{seen}"
        )
    return shown.alone


def _decided(one: Held) -> dict[str, str] | None:
    decision = one.decision
    if decision is None:
        return None
    many, dropped = len(one.ids()), len(decision.dropped)
    what = {"no": "declined all of it", "yes": "approved all of it"}[decision.said]
    if dropped:
        what = f"dropped {dropped:,} and approved the other {many - dropped:,} of {many:,}"
    return {"words": f"{decision.by} {what}, {decision.when}. It has not been sent yet.", "reason": decision.reason}


def _part(part: Mapping[str, Any]) -> dict[str, str]:
    told = {"name": part["part"], "kind": part["kind"], "content": content_of(part), "bytes": size(part["bytes"])}
    return {**told, "covered": "yes" if part["covered"] else "no"}
