"""Budgets, coverage and policies through a whole run, with a method that does nothing but spend."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from understudy.config.resolve import resolve
from understudy.config.schema import Live
from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.method import Method, State, task
from understudy.federation.running import RunServer
from understudy.federation.server import Server, TooFewReplies
from understudy.privacy.accounting import Spending, epsilon
from understudy.privacy.charges import ChargeLog, epsilon_of
from understudy.privacy.ledger import Release
from understudy.runs.folder import RunFolder
from understudy.runs.play import play
from understudy.runs.releases import Releases
from understudy.runs.rounds import Result
from understudy.runs.watching import Observer, RunStopped

# One round: 200 releases at rate 0.0256 and σ = 1, ε 2.787 after it; two rounds 3.6, three 4.3.
RATE, NOISE, STEPS = 0.0256, 1.0, 200


class Spender(Method):
    """Sends a noised mean of its pixels, and whatever else ``more`` says."""

    more: tuple[str, ...] = ()

    @task(mean="statistics", radius="scalars", x="examples", y="labels")
    def release(self, client: Client, brief: Message) -> Message:
        client.budget.charge(rate=RATE, noise=NOISE, steps=STEPS, clip=1.0, covers=("mean",))
        noise = torch.randn(4, generator=client.secret_rng("noise"))
        parts = {"mean": client.own.x.float().mean() + noise, "radius": torch.ones(())}
        parts |= {"x": client.own.x[:3], "y": client.own.y[:3].to(torch.uint8)}
        return Message({part: parts[part] for part in ("mean", *self.more)})

    def round(self, server: Server, state: State) -> State:
        replies = list(server.ask(self.release, Message(model=state["model"]), to=server.cohort()))
        return state.but(total=torch.stack([reply["mean"] for reply in replies]).sum(0))


class Leaky(Spender):
    more = ("radius",)


class Open(Spender):
    more = ("x", "y")


class Diverging(Spender):
    """At ash, what it sends is no number, after records were touched."""

    @task(mean="statistics")
    def release(self, client: Client, brief: Message) -> Message:
        client.budget.charge(rate=RATE, noise=NOISE, steps=STEPS, clip=1.0, covers=("mean",))
        return Message(mean=torch.full((4,), torch.nan if client.id == "ash" else 1.0))


class Uneven(Spender):
    """Ash spends everything at once, the others a little each round."""

    @task(mean="statistics")
    def release(self, client: Client, brief: Message) -> Message:
        steps = STEPS if client.id == "ash" else 1
        client.budget.charge(rate=RATE, noise=NOISE, steps=steps, clip=1.0, covers=("mean",))
        return Message(mean=torch.zeros(4))


def sites() -> Federation:
    rng = np.random.default_rng(0)
    made = {name: (rng.integers(0, 9, (8, 4)).astype(np.float32), np.array([0, 1] * 4)) for name in ("ash", "beech")}
    return Federation.from_arrays(made, test=made["ash"])


def private_run(out: Path, method: type[Method] = Spender, plan: Any = None, **words: Any) -> Result:
    given = {"model": {"name": "softmax"}, "method": plan or {"rounds": 3}, "engine": {"name": "inline"}, **words}
    return play(resolve(given, {}, Live(data=sites(), method=method)), out, resume=True)


def ledger(out: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((out / "ledger.json").read_text())
    return found


def test_every_round_prints_what_is_spent_so_far(tmp_path: Path) -> None:
    result = private_run(tmp_path / "run", privacy={"delta": 1e-5})
    assert [line["epsilon"] for line in result.metrics] == pytest.approx([0, 2.787, 3.71, 4.42], abs=0.1)
    assert result.metrics[1]["epsilon"] == pytest.approx(2.787, abs=1e-3)
    charge = ledger(tmp_path / "run")["charges"]["ash"][0]
    wanted = {"mechanism": "sampled Gaussian", "clip": 1.0, "noise": 1.0, "rate": 0.0256, "steps": 200, "delta": 1e-5}
    assert {key: charge[key] for key in wanted} == wanted


def test_a_budget_that_ends_is_noted_on_both_sides(tmp_path: Path) -> None:
    result = private_run(tmp_path / "run", privacy={"delta": 1e-5, "epsilon": 3.0})
    why = result.metrics[-1]["failures"][0]["why"]
    assert "its privacy budget is used up" in why
    at_home = (tmp_path / "run" / "clients" / "ash" / "answers.jsonl").read_text().splitlines()
    assert [json.loads(line)["why"] for line in at_home] == [why]


def test_who_has_no_budget_left_is_not_asked_again_not_even_after_a_stop(tmp_path: Path) -> None:
    # 200 releases cost 2.787, and 400 more than 3: ash is asked in vain in round 2, and from then on not at all.
    words = {"privacy": {"delta": 1e-5, "epsilon": 3.0}}
    for rounds in (3, 4):  # stopped after round 3, and gone on with
        result = private_run(tmp_path / "run", Uneven, {"rounds": rounds}, **words)
    assert [line["clients"] for line in result.metrics[1:]] == [2, 1, 1, 1]
    assert [len(line["failures"]) for line in result.metrics[1:]] == [0, 1, 0, 0]
    assert result.summary["epsilon"] == pytest.approx(2.787, abs=1e-3)  # the largest, which is ash's


def test_what_a_failed_task_spent_is_in_the_ledger(tmp_path: Path) -> None:
    result = private_run(tmp_path / "run", Diverging, privacy={"delta": 1e-5})
    assert [failure["client"] for failure in result.metrics[1]["failures"]] == ["ash"]
    spent = ledger(tmp_path / "run")["epsilon_by_client"]
    assert spent["ash"] == spent["beech"] == pytest.approx(4.42, abs=0.1)


def test_a_charge_log_that_cannot_be_read_ends_its_clients_part_and_nothing_else(tmp_path: Path) -> None:
    private_run(tmp_path / "run", plan={"rounds": 1}, privacy={"delta": 1e-5})
    (tmp_path / "run/clients/ash/charges.jsonl").write_text("?\n")
    result = private_run(tmp_path / "run", plan={"rounds": 2}, privacy={"delta": 1e-5})
    (failure,) = result.metrics[-1]["failures"]
    assert failure["client"] == "ash"
    assert "what was spent is unknown" in failure["why"]


def test_a_part_that_no_charge_covers_takes_the_guarantee_away(tmp_path: Path) -> None:
    result = private_run(tmp_path / "run", Leaky, privacy={"delta": 1e-5})
    assert result.summary["epsilon"] is None
    uncovered = [line["part"] for line in ledger(tmp_path / "run")["clients"]["ash"] if line["covered"] == 0]
    assert uncovered == ["radius"]


def test_test_noise_repeats_and_promises_nothing(tmp_path: Path) -> None:
    totals = []
    for name in ("one", "two"):
        private = {"delta": 1e-5, "test_noise": True}
        result = private_run(tmp_path / name, privacy=private)
        assert result.summary["epsilon"] is None
        lines = sorted((tmp_path / name / "checkpoint/parts").iterdir())
        totals.append([path.name for path in lines])
    assert totals[0] == totals[1]


def test_secret_noise_differs_under_the_same_seed(tmp_path: Path) -> None:
    names = []
    for name in ("one", "two"):
        private_run(tmp_path / name, privacy={"delta": 1e-5})
        names.append({path.name for path in (tmp_path / name / "checkpoint/parts").iterdir()})
    assert names[0] != names[1]


def test_a_run_ends_in_good_order_where_the_budget_does(tmp_path: Path) -> None:
    said: list[str] = []

    class Listening(Observer):
        def says(self, sentence: str) -> None:
            said.append(sentence)

    given = {"model": {"name": "softmax"}, "method": {"rounds": 9}, "engine": {"name": "inline"}}
    given["privacy"] = {"epsilon": 4.0, "delta": 1e-5}
    result = play(resolve(given, {}, Live(data=sites(), method=Spender)), tmp_path / "run", observer=Listening())
    spent = [line["epsilon"] for line in result.metrics if line["epsilon"] is not None]
    assert max(spent) <= 4.0
    assert result.metrics[-1]["failures"][0]["why"].startswith("its privacy budget is used up")
    assert any("has spent its privacy budget" in sentence for sentence in said)
    resumed = play(resolve(given, {}, Live(data=sites(), method=Spender)), tmp_path / "run", resume=True)
    assert resumed.summary["epsilon"] == result.summary["epsilon"], "going on spends nothing more"


def test_without_a_promise_no_record_is_touched(tmp_path: Path) -> None:
    with pytest.raises(RunStopped, match=r"Spender\.release spends privacy; write `privacy"):
        private_run(tmp_path / "run")


def test_a_delta_that_promises_nothing_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'privacy': delta is 0\.2, which promises nothing for 9 records"):
        private_run(tmp_path / "run", privacy={"delta": 0.2, "records": 9})
    assert not (tmp_path / "run").exists()


def test_nor_does_one_for_a_public_count_of_records(tmp_path: Path) -> None:
    with pytest.raises(RunStopped, match=r"privacy\.delta is 0\.2, which promises nothing for"):
        private_run(tmp_path / "run", privacy={"delta": 0.2, "public": ["counts"]})


@pytest.mark.parametrize(
    ("method", "policy", "sentence"),
    [
        (Spender, "kinds: [weights, scalars, examples]", "its policy does not let statistics leave"),
        (Open, "examples_a_round: 2", "its policy lets 2 examples leave per round, and this would make 3"),
        (Open, "smallest_class: 5", "5 records behind every class whose examples leave, but some class has fewer"),
        (Spender, "epsilon: 2.0", "the site's policy allows 2 at"),
        (Leaky, "epsilon: 9", "its policy allows ε up to 9, but 'radius' would leave without any such guarantee"),
    ],
)
def test_a_site_has_the_last_word(method: type[Method], policy: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(policy)
    try:
        result = private_run(tmp_path / "run", method, privacy={"delta": 1e-5}, policy=str(tmp_path / "site.yaml"))
        why = result.metrics[-1]["failures"][0]["why"]
    except RunStopped as stopped:
        why = str(stopped)
    assert sentence in why
    if "epsilon" not in policy:
        refused = (tmp_path / "run/clients/ash/answers.jsonl").read_text()
        assert sentence in json.loads(refused.splitlines()[0])["why"]


@pytest.mark.parametrize(("configs", "sites_own", "whose"), [(8, 2, "the site's policy"), (2, 8, "the config")])
def test_of_two_budgets_the_smaller_one_ends_a_clients_part(
    configs: float, sites_own: float, whose: str, tmp_path: Path
) -> None:
    (tmp_path / "site.yaml").write_text(f"epsilon: {sites_own}")
    privacy = {"delta": 1e-5, "epsilon": configs}
    result = private_run(tmp_path / "run", plan={"rounds": 1}, privacy=privacy, policy=str(tmp_path / "site.yaml"))
    assert all(f"{whose} allows 2 at" in failure["why"] for failure in result.metrics[-1]["failures"])
    assert len(result.metrics[-1]["failures"]) == 2


@pytest.mark.parametrize(("sites_delta", "servers_delta", "allowed"), [(1e-5, 1e-3, False), (1e-3, 1e-5, True)])
def test_a_sites_limit_is_counted_at_its_own_delta_whatever_the_server_writes(
    sites_delta: float, servers_delta: float, allowed: bool, tmp_path: Path
) -> None:
    """One round costs ε = 2.79 at δ = 1e-5 and 1.81 at δ = 1e-3: with a limit between them, only δ decides."""
    at_strict, at_loose = (epsilon([Spending(RATE, NOISE, STEPS)], delta) for delta in (1e-5, 1e-3))
    assert at_loose < 2.4 < at_strict
    policy = tmp_path / "site.yaml"
    policy.write_text(f"{{epsilon: 2.4, delta: {sites_delta:.6f}}}")
    result = private_run(tmp_path / "run", plan={"rounds": 1}, privacy={"delta": servers_delta}, policy=str(policy))
    refusals = [failure["why"] for failure in result.metrics[-1]["failures"]]
    assert len(refusals) == (0 if allowed else 2)
    assert all("the site's policy allows 2.4 at δ = 1e-05" in why for why in refusals)


def test_a_refusal_never_tells_a_number_of_records_that_is_not_public(tmp_path: Path) -> None:
    result = private_run(tmp_path / "run", privacy={"delta": 0.2})  # 8 records, which is nobody's business
    assert not any(line["failures"] for line in result.metrics)


def test_a_policy_that_cannot_be_read_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("epsilom: 3")
    with pytest.raises(UserError, match=r"policy site\.yaml\.epsilom'\. Did you mean 'epsilon'"):
        private_run(tmp_path / "run", policy=str(tmp_path / "site.yaml"))


def test_a_limit_on_epsilon_is_one_on_everything_that_leaves(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("epsilon: 8")
    words = {"model": {"name": "softmax"}, "policy": str(tmp_path / "site.yaml"), "engine": {"name": "inline"}}
    with pytest.raises(RunStopped, match="' would leave without any such guarantee"):
        play(resolve({**words, "method": {"name": "fedavg"}}, {}, Live(data=sites())), tmp_path / "run")


def test_under_a_limit_on_epsilon_nobody_scores_at_home(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("epsilon: 8")
    words = {"model": {"name": "softmax"}, "policy": str(tmp_path / "site.yaml"), "engine": {"name": "inline"}}
    data = Federation.from_arrays({name: (one.own.x, one.own.y) for name, one in sites().sites.items()}, held_out=0.25)
    config = resolve(
        {**words, "method": {"rounds": 1}, "privacy": {"delta": 1e-5}}, {}, Live(data=data, method=Spender)
    )
    result = play(config, tmp_path / "run")
    assert result.accuracy is None
    assert (result.summary["failed"], result.metrics[1]["clients"]) == (0, 2)  # they answered, without scores


class OtherNames(Method):
    """Sends records under names of its own."""

    @task(pictures="examples", classes="labels")
    def release(self, client: Client, brief: Message) -> Message:
        return Message(pictures=client.own.x[:3], classes=client.own.y[:3])

    def round(self, server: Server, state: State) -> State:
        list(server.ask(self.release, Message(model=state["model"]), to=server.cohort()))
        return state


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ("smallest_class: 1000", "requires 1000 records behind every class"),
        ("examples_a_round: 2", "lets 2 examples leave per round"),
        ("kinds: [examples]", "does not let labels leave"),
        ("approval: [examples]", "A person must approve"),
    ],
)
def test_other_names_bring_nothing_past_a_policy(policy: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(policy)
    plan = {"rounds": 1, "min_replies": 1}
    try:
        result = private_run(tmp_path / "run", OtherNames, plan, policy=str(tmp_path / "site.yaml"))
        told = result.metrics[-1]["failures"][0]["why"]
    except RunStopped as stopped:
        told = str(stopped)
    assert sentence in told
    assert not list((tmp_path / "run").glob("synthetic/*"))


def test_what_left_is_kept_to_be_looked_at_under_any_name(tmp_path: Path) -> None:
    private_run(tmp_path / "run", OtherNames, {"rounds": 1})
    kept = Examples.load(tmp_path / "run" / "synthetic" / "ash.npz")
    assert (tuple(kept.x.shape), kept.y.tolist()) == ((3, 4), [0, 1, 0])


# ---- what left in a round that does not count


class Killed(BaseException):
    """As if the process were gone: nothing is tidied up."""


class CutShort(Spender):
    """In round 2 (or in the opening) it ends after the first reply."""

    how: BaseException
    at = 2

    def start(self, server: Server) -> State:
        return self.round(server, super().start(server)) if self.at == 0 else super().start(server)

    def round(self, server: Server, state: State) -> State:
        for _ in server.ask(self.release, Message(model=state["model"]), to=server.cohort()):
            if server.round == self.at and self.how is not None:
                raise self.how
        return state


def spent_by_sites(out: Path) -> float:
    """The largest ε by the sites' own charge logs."""
    charges = [ChargeLog(path).charges() for path in out.glob("clients/*/charges.jsonl")]
    return max(epsilon_of(mine, 1e-5, "rdp") for mine in charges)


@pytest.mark.parametrize("how", [KeyboardInterrupt(), TooFewReplies("gone"), UserError("wrong"), Killed()])
@pytest.mark.parametrize("at", [0, 2])
def test_what_left_in_a_round_that_never_counted_is_in_the_ledger(how: BaseException, at: int, tmp_path: Path) -> None:
    method = type("CutShort", (CutShort,), {"how": how, "at": at})
    with contextlib.suppress(BaseException):
        private_run(tmp_path / "run", method, {"rounds": 2}, privacy={"delta": 1e-5})
    told = RunFolder(tmp_path / "run").ledger()
    assert told["epsilon"] == pytest.approx(spent_by_sites(tmp_path / "run"))
    assert told["epsilon"] == pytest.approx(3.674 if at else 2.787, abs=2e-3)
    # Both clients in round 1, and whoever was read first in the round that ended early.
    assert sum(lines[0]["releases"] for lines in told["clients"].values()) == (3 if at else 1)


def test_the_same_bytes_sent_again_after_a_kill_count_once(tmp_path: Path) -> None:
    killed = type("CutShort", (CutShort,), {"how": Killed()})
    whole = type("CutShort", (CutShort,), {"how": None})
    noise = {"delta": 1e-5, "test_noise": True}
    with pytest.raises(Killed):
        private_run(tmp_path / "run", killed, {"rounds": 2}, privacy=noise)
    private_run(tmp_path / "run", whole, {"rounds": 2}, privacy=noise)
    private_run(tmp_path / "straight", whole, {"rounds": 2}, privacy=noise)
    after, straight = (RunFolder(tmp_path / name).ledger() for name in ("run", "straight"))
    assert after["clients"] == straight["clients"]
    assert [line["releases"] for lines in after["clients"].values() for line in lines] == [2, 2]


def test_a_line_that_was_cut_off_in_the_journal_does_not_spoil_those_after_it(tmp_path: Path) -> None:
    killed = type("CutShort", (CutShort,), {"how": Killed()})
    for _ in range(2):
        with contextlib.suppress(Killed):
            private_run(tmp_path / "run", killed, {"rounds": 2}, privacy={"delta": 1e-5})
        with (tmp_path / "run/releases.jsonl").open("a") as journal:
            journal.write('{"client": "as')
    assert RunFolder(tmp_path / "run").ledger()["epsilon"] == pytest.approx(spent_by_sites(tmp_path / "run"))


LINE = {"client": "ash", "round": 1, "step": 1, "task": "t", "parts": {}, "charges": [], "sha256": "", "heard": 1}
WRONG: list[object] = [5, [], {}, {**LINE, "parts": []}, {**LINE, "round": "x"}, {**LINE, "charges": [5]}]


@pytest.mark.parametrize("line", [b"?", b"\xff\xfe", *(json.dumps(wrong).encode() for wrong in WRONG)])
def test_a_damaged_journal_is_said_in_a_sentence(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "releases.jsonl").write_bytes(json.dumps(LINE).encode() + b"\n" + line + b"\n")
    with pytest.raises(UserError, match=r"releases.jsonl, line 2, cannot be read; restore it from a copy"):
        RunFolder(tmp_path).ledger()
    assert RunFolder(tmp_path).epsilon() is None


def test_what_came_too_late_is_in_the_ledger_of_the_round_in_which_it_came(tmp_path: Path) -> None:
    """A reply of round 1 after its checkpoint; sent twice, it left once."""
    private_run(tmp_path / "run", plan={"rounds": 1}, privacy={"delta": 1e-5})
    folder = RunFolder(tmp_path / "run")
    before = folder.ledger()["clients"]["ash"][0]["releases"]
    for _ in range(2):
        folder.releases.add(Release("ash", 1, 1, "Spender.release", {"mean": ("statistics", 16)}, (), "late", heard=2))
        assert folder.ledger()["clients"]["ash"][0]["releases"] == before + 1
    folder.releases.close()


def test_what_a_folder_of_an_older_version_kept_in_its_checkpoint_is_still_in_the_ledger(tmp_path: Path) -> None:
    """There the journal was emptied at every checkpoint, which had the ledger; a line heard before it counts once."""
    straight = private_run(tmp_path / "straight", plan={"rounds": 3}, privacy={"delta": 1e-5, "test_noise": True})
    private_run(tmp_path / "run", plan={"rounds": 2}, privacy={"delta": 1e-5, "test_noise": True})
    folder = RunFolder(tmp_path / "run")
    _as_an_older_version_left_it(folder)
    assert json.loads(json.dumps(folder.ledger())) == ledger(folder.path)
    private_run(tmp_path / "run", plan={"rounds": 3}, privacy={"delta": 1e-5, "test_noise": True})
    assert folder.ledger()["clients"] == RunFolder(straight.folder).ledger()["clients"]
    assert "ledger" not in folder.checkpoints.newest_notes()


def _as_an_older_version_left_it(folder: RunFolder) -> None:
    checkpoint, lines = folder.newest_checkpoint(), (folder.path / "releases.jsonl").read_text().splitlines()
    assert checkpoint is not None
    folder.save_checkpoint(replace(checkpoint, ledger=folder.ledger()))
    of_last_round = [line for line in lines if json.loads(line)["round"] == 2]  # killed before they were deleted
    (folder.path / "releases.jsonl").write_text("".join(line + "\n" for line in of_last_round))


class Moody(Spender):
    """Fails after it has spent, the first time that anyone is asked."""

    tries = 0

    @task(mean="statistics")
    def release(self, client: Client, brief: Message) -> Message:
        reply = super().release(client, brief)
        type(self).tries += 1
        if self.tries == 1:
            raise UserError("not today")
        return reply


@pytest.mark.parametrize("logs_elsewhere", [False, True])
def test_what_was_spent_by_work_whose_failure_nobody_heard_of_is_in_every_later_line(
    logs_elsewhere: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its charge is closed, so the same work costs again after the kill. Where charge logs are at the sites, the run
    knows only what these tell: they tell it again with their answer."""
    monkeypatch.setattr(Moody, "tries", 0)
    if logs_elsewhere:
        monkeypatch.setattr(Releases, "with_charge_logs", lambda self, ledger: ledger)

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched, contextlib.suppress(Killed):
        patched.setattr(RunServer, "_message", killed)
        private_run(tmp_path / "run", Moody, {"rounds": 1}, privacy={"delta": 1e-5})
    result = private_run(tmp_path / "run", Moody, {"rounds": 1}, privacy={"delta": 1e-5})
    assert result.metrics[-1]["failures"] == []
    assert spent_by_sites(tmp_path / "run") == pytest.approx(3.674, abs=2e-3)  # as after two rounds
    assert result.metrics[-1]["epsilon"] == pytest.approx(spent_by_sites(tmp_path / "run"))
