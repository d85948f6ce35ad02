"""The quality of synthetic sets: measured once, kept, and worth something only if the images are."""

from pathlib import Path

import pytest
import torch

import understudy as us
from understudy.audits import measure_quality as measuring
from understudy.audits.measure_quality import measure_quality, qualities
from understudy.audits.quality import read_quality
from understudy.config.build import build_data
from understudy.config.resolve import resolve
from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.learning.local import Local
from understudy.runs.folder import RunFolder


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A finished run of one round; what its clients sent is up to the test."""
    monkeypatch.setattr(measuring, "RECIPE", Local(steps=30, batch=32, lr=0.05, momentum=0.9))
    changes = {
        "data.clients": 3,
        "data.split": "iid",
        "model.fast": "eager",
        "engine": "inline",
        "method.local": {"epochs": 1},
    }
    return RunFolder(us.run("digits-skewed", rounds=1, changes=changes, out=tmp_path / "run").folder)


def sent(run: RunFolder, *, worthless: bool) -> None:
    """Some of a client's own records, as they are or with labels that mean nothing."""
    data = build_data(resolve(run.config()))
    for client, holding in data.sites.items():
        some = holding.own.take(range(100))
        y = some.y.roll(1) if worthless else some.y
        x = torch.zeros_like(some.x) if worthless else some.x
        run.keep_examples(client, Examples(data.problem.scale(x), y))  # floats, as most methods send them


def test_records_in_place_of_images_are_as_good_as_records(run: RunFolder) -> None:
    sent(run, worthless=False)
    found = measure_quality(run.path)
    assert found.synthetic.records == 300
    assert found.as_many is not None
    assert found.as_many.records == 300
    assert found.all_records.records == 1437
    assert found.synthetic.score is not None
    assert found.synthetic.score > 0.5
    assert found.images_like is not None
    assert found.unseen_like is not None
    # They are records: no farther from the others than unseen ones are.
    assert found.images_like.precision >= found.unseen_like.precision
    assert found.images_like.coverage >= found.unseen_like.coverage
    assert abs(found.images_like.kid) < 0.01
    assert found.network == "small-convnet, trained for 30 steps on the records of all clients"
    assert read_quality(run.path) == found


def test_black_images_teach_nothing_and_look_like_nothing(run: RunFolder) -> None:
    sent(run, worthless=True)
    found = measure_quality(run.path)
    assert found.synthetic.score is not None
    assert found.synthetic.score < 0.25
    assert found.images_like is not None
    assert found.unseen_like is not None
    assert found.images_like.coverage < 0.1 < found.unseen_like.coverage
    assert found.images_like.kid > 10 * abs(found.unseen_like.kid)


def test_it_is_measured_again_once_the_run_has_gone_on(run: RunFolder) -> None:
    sent(run, worthless=False)
    assert qualities([run.path], measure=False) == {}
    first = qualities([run.path], measure=True)[run.path]
    assert qualities([run.path], measure=False) == {run.path: first}
    run.add_line({**run.metrics()[-1], "round": 2})
    assert read_quality(run.path) is None


def test_what_cannot_be_measured_has_a_reason(run: RunFolder) -> None:
    with pytest.raises(UserError, match="holds no synthetic sets to measure"):
        measure_quality(run.path)
    sent(run, worthless=False)
    (run.path / "quality.json").write_text('{"schema": 1}')
    assert "is damaged or of another version; delete it" in str(qualities([run.path], measure=True)[run.path])


@pytest.mark.parametrize("section", ["method", "model", "with", "bare"])
def test_a_report_runs_no_code_that_a_folder_brings(run: RunFolder, section: str) -> None:
    sent(run, worthless=False)
    code = run.path / "mine.py"
    code.write_text("raise SystemExit('it ran')")
    words, name = run.config(), f"{code}:Mine"
    if section == "with":
        words["with"] = [{"name": name}]
    elif section == "bare":
        words["model"] = name
    else:
        words[section]["name"] = name
    run.write_config(words)
    assert "a report runs no code from a run's folder" in str(qualities([run.path], measure=True)[run.path])
