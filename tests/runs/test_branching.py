"""A branch: the rounds of one run, gone on with under other settings, and a record of it that cannot be edited."""

import contextlib
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from understudy.errors import UserError
from understudy.federation.incoming import Incoming
from understudy.privacy.charges import ChargeLog, epsilon_of
from understudy.runs.branching import branch
from understudy.runs.folder import RunFolder
from understudy.runs.play import play
from understudy.runs.resuming import digest_of_run

SCAFFOLD: dict[str, Any] = {
    "data": {"name": "digits", "limit": 90, "clients": 3},
    "model": "softmax",
    "method": {"name": "scaffold", "rounds": 2, "local": {"epochs": 1, "lr": 0.1}},
    "engine": "inline",
}
PRIVATE: dict[str, Any] = {
    **SCAFFOLD,
    "method": {"name": "dp-fedavg", "rounds": 3, "noise": 1.0, "local": {"steps": 2, "batch": 8}},
    "privacy": {"delta": 1e-5, "records": 30},
}
FASTER = {"method.local.lr": 0.3, "method.rounds": 4}


@pytest.fixture(scope="module")
def two_rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return us.run(SCAFFOLD, out=tmp_path_factory.mktemp("made") / "base").folder


@pytest.fixture
def base(two_rounds: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(two_rounds, tmp_path / "base"))


def model(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_a_branch_that_changes_nothing_is_the_run_gone_on_with(base: Path, tmp_path: Path) -> None:
    """SCAFFOLD's clients remember their control variates: a branch that lost them would end elsewhere."""
    config = branch(base, tmp_path / "branch", {"method.rounds": 4})
    play(config, tmp_path / "branch", resume=True)
    straight = us.run(SCAFFOLD, out=tmp_path / "straight", rounds=4)
    assert model(tmp_path / "branch") == model(straight.folder)


def test_what_it_came_from_and_what_changed_is_in_its_config(base: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in base.rglob("*") if path.is_file()}
    result = play(branch(base, tmp_path / "branch", FASTER), tmp_path / "branch", resume=True)
    words, source = RunFolder(tmp_path / "branch").config(), RunFolder(base)
    assert words["branched"] == {
        "run": source.id,
        "config": digest_of_run(source.config()),
        "round": 2,
        "changes": FASTER,
    }
    assert words["method"]["local"]["lr"] == 0.3
    assert RunFolder(tmp_path / "branch").id != source.id
    assert [line["round"] for line in result.metrics] == [0, 1, 2, 3, 4]
    assert result.metrics[:3] == source.metrics()
    assert {path: path.read_bytes() for path in base.rglob("*") if path.is_file()} == before


def test_a_branch_is_stopped_and_resumed_like_any_run(base: Path, tmp_path: Path) -> None:
    straight = play(branch(base, tmp_path / "straight", FASTER), tmp_path / "straight", resume=True)
    branch(base, tmp_path / "stopped", FASTER)
    us.run(out=tmp_path / "stopped", resume=True, rounds=3)
    us.run(out=tmp_path / "stopped", resume=True, rounds=4)
    assert model(tmp_path / "stopped") == model(straight.folder)


def test_done_again_it_stays_as_it_is(base: Path, tmp_path: Path) -> None:
    first = branch(base, tmp_path / "branch", FASTER)
    play(first, tmp_path / "branch", resume=True)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "branch/checkpoint").iterdir()}
    assert branch(base, tmp_path / "branch", FASTER) == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "branch/checkpoint").iterdir()} == before


def test_another_branch_in_the_same_folder_is_refused(base: Path, tmp_path: Path) -> None:
    branch(base, tmp_path / "branch", FASTER)
    with pytest.raises(UserError, match=r"a run other than this branch \(branched\.changes\.method\.local\.lr is 0\.3"):
        branch(base, tmp_path / "branch", {**FASTER, "method.local.lr": 0.5})
    us.run(out=base, resume=True, rounds=3)
    with pytest.raises(UserError, match=r"branched\.round is 2 there and 3 here"):
        branch(base, tmp_path / "branch", FASTER)


def test_neither_a_run_nor_a_branch_whose_config_was_edited_goes_on(base: Path, tmp_path: Path) -> None:
    branch(base, tmp_path / "branch", FASTER)
    for folder in (RunFolder(tmp_path / "branch"), RunFolder(base)):
        words = folder.config()
        words.setdefault("branched", {})["round"] = 1
        folder.write_config(words)
    with pytest.raises(UserError, match=r"branch/config\.yaml was edited"):
        us.run(out=tmp_path / "branch", resume=True)
    with pytest.raises(UserError, match=r"base/config\.yaml was edited"):
        branch(base, tmp_path / "another", FASTER)
    assert not (tmp_path / "another").exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"data.clients": 2}, r"only change its method, add-ons and rounds: data\.clients is 3 there and 2 here"),
        ({"seed": 5}, r"rounds: data_digest is|rounds: seed is 0"),
        ({"model": "mlp"}, r"rounds: model\."),
        ({"privacy": {"delta": 1e-5}}, "rounds: privacy is None"),
        ({"method.name": "fedavgm"}, r"has no '\w+' of the size that the branch needs to continue"),
        ({"with": ["fedssyn"]}, r"A branch has no opening, but this one would ask \w+\.generate there"),
        ({"method.local.speed": 1}, "There is no setting 'method.local.speed'"),
    ],
)
def test_what_cannot_go_on_from_the_checkpoint_is_refused(
    changes: dict[str, Any], sentence: str, base: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=sentence):
        branch(base, tmp_path / "branch", changes)
    assert not (tmp_path / "branch").exists()


def test_a_branch_may_begin_to_score_local_models(base: Path, tmp_path: Path) -> None:
    before = RunFolder(base).metrics()
    config = branch(base, tmp_path / "branch", {"method.score_local": True, "method.rounds": before[-1]["round"] + 1})
    metrics = play(config, tmp_path / "branch", resume=True).metrics
    assert "local_distance" not in metrics[-2]
    assert metrics[-1]["local_distance"] > 0


def test_an_opening_that_was_held_is_not_missed(tmp_path: Path) -> None:
    generator = {"name": "vae", "epochs": 1, "width": 4, "hidden": 8, "least_steps": 0}
    add_on = {"name": "fedssyn", "generator": generator, "sound_only": False}
    base = us.run(SCAFFOLD, out=tmp_path / "base", changes={"with": [add_on], "method.rounds": 1}).folder
    config = branch(base, tmp_path / "branch", {"method.local.lr": 0.2, "method.rounds": 2})
    assert play(config, tmp_path / "branch", resume=True).summary["finished"]


def test_a_run_cannot_begin_with_a_config_of_a_branch(base: Path, tmp_path: Path) -> None:
    branch(base, tmp_path / "branch", FASTER)
    with pytest.raises(UserError, match="to start a new run, leave out 'branched'"):
        us.run(tmp_path / "branch/config.yaml", out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_folder_without_a_run_or_without_a_checkpoint_has_no_branch(base: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run to branch from"):
        branch(tmp_path / "nowhere", tmp_path / "branch", {})
    RunFolder(base).checkpoints.keep_only([])
    with pytest.raises(UserError, match="has no checkpoint yet"):
        branch(base, tmp_path / "branch", {})


def test_what_was_spent_before_the_branch_counts_in_it(tmp_path: Path) -> None:
    base = us.run(PRIVATE, out=tmp_path / "base", rounds=1)
    config = branch(base.folder, tmp_path / "branch", {"method.local.lr": 0.2, "method.rounds": 2})
    result = play(config, tmp_path / "branch", resume=True)
    straight = us.run(PRIVATE, out=tmp_path / "straight", rounds=2)
    assert result.summary["epsilon"] == pytest.approx(straight.summary["epsilon"])
    assert result.summary["epsilon"] > base.summary["epsilon"]
    for client in ("client-0", "client-1", "client-2"):
        charges = (tmp_path / "branch/clients" / client / "charges.jsonl").read_text()
        assert charges.count('"charge"') == 2


class Killed(BaseException):
    """As if the process were gone."""


@pytest.fixture
def killed_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any], Path, int], Path]:
    """A run that is killed when the server is about to write down its n-th reply."""

    def made(words: dict[str, Any], out: Path, reply: int) -> Path:
        heard, record = count(1), Incoming._write_down

        def until(server: Incoming, *about: Any) -> None:
            if next(heard) == reply:
                raise Killed
            record(server, *about)

        with monkeypatch.context() as patched, contextlib.suppress(Killed):
            patched.setattr(Incoming, "_write_down", until)
            us.run(words, out=out)
        return out

    return made


def test_nothing_that_was_made_with_the_old_settings_counts_in_a_branch(
    killed_at: Callable[[dict[str, Any], Path, int], Path], tmp_path: Path
) -> None:
    """Clients that had answered in the round that was cut off would answer with what they had made then."""
    at_rest = us.run(SCAFFOLD, out=tmp_path / "at rest", rounds=1).folder
    for base in (at_rest, killed_at(SCAFFOLD, tmp_path / "killed", 6)):  # three clients; the last one of round 2
        play(branch(base, base.with_suffix(".branch"), FASTER), base.with_suffix(".branch"), resume=True)
    assert model(tmp_path / "killed.branch") == model(tmp_path / "at rest.branch")


def test_work_that_was_under_way_when_the_other_run_was_killed_counts_in_the_branch(
    killed_at: Callable[[dict[str, Any], Path, int], Path], tmp_path: Path
) -> None:
    base = killed_at(PRIVATE, tmp_path / "base", 5)  # the second client in round 2 is charged, and nobody wrote it down
    config = branch(base, tmp_path / "branch", {"method.local.lr": 0.2, "method.rounds": 3})
    assert spent(tmp_path / "branch") == charged(tmp_path / "branch") == charged(base)
    result = play(config, tmp_path / "branch", resume=True)
    assert [line["failures"] for line in result.metrics] == [[]] * 4
    assert spent(tmp_path / "branch") == charged(tmp_path / "branch")
    assert result.metrics[-1]["epsilon"] == max(charged(tmp_path / "branch").values())


def spent(folder: Path) -> dict[str, float]:
    """ε by client, as the ledger has it."""
    found: dict[str, float] = RunFolder(folder).ledger()["epsilon_by_client"]
    return found


def charged(folder: Path) -> dict[str, float]:
    """ε by client, as their own charge logs have it."""
    logs = folder.glob("clients/*/charges.jsonl")
    return {path.parent.name: epsilon_of(ChargeLog(path).charges(), 1e-5, "rdp") for path in logs}
