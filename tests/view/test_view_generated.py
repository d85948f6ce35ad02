"""What a FedCOG client generates, made again from a run folder and drawn."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from understudy import Federation, run
from understudy.config.schema import Live
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.data.tiling import lay_out
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.methods.fedcog import Consensus, Images
from understudy.models.network import Network
from understudy.runs.regenerated import Generated, generated
from understudy.view.generated import caption, class_means, draw_generated, generated_figure

COG = {"name": "fedcog", "kd_weighting": "fixed", "images": 20, "steps": 4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return digits_run(tmp_path_factory.mktemp("runs") / "cog", rounds=2)


def digits_run(out: Path, rounds: int, resume: bool = False, add: list[object] | None = None) -> Path:
    changes = {"data.limit": 60, "clients": 3, "engine": {"name": "inline"}, "method.local.epochs": 1}
    add = [COG] if add is None else add
    run("digits-skewed", model="softmax", changes=changes, add=add, rounds=rounds, out=out, resume=resume)  # type: ignore[arg-type]
    return out


def test_these_are_the_images_that_the_client_learns_from_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = digits_run(tmp_path / "cog", rounds=2)
    shown = {name: generated(out, name) for name in ("client-0", "client-2")}
    learnt: dict[str, Tensor] = {}
    made_by = Consensus.generate

    def overheard(self: Consensus, client: Client, net: Network) -> Images:
        made = made_by(self, client, net)
        learnt[client.id] = made.x
        return made

    monkeypatch.setattr(Consensus, "generate", overheard)
    digits_run(out, rounds=3, resume=True)
    for name, one in shown.items():
        assert one.round == 3
        assert torch.equal(one.examples.x, learnt[name])
        assert one.source == "the global model and the client's last one"
        assert one.disputed is not None


def test_a_client_that_was_never_asked_has_no_last_model(tmp_path: Path) -> None:
    small = {"data.limit": 60, "clients": 6, "engine": "inline", "method.local.epochs": 1, "method.cohort": 1}
    run("digits-skewed", model="softmax", changes=small, add=[COG], rounds=1, out=tmp_path / "cog")
    shown = [generated(tmp_path / "cog", f"client-{at}") for at in range(6)]
    assert [one.disputed for one in shown].count(None) == 5


def test_a_picture_is_written(folder: Path, tmp_path: Path) -> None:
    file = draw_generated(generated(folder, "client-1"), tmp_path / "sheet.png")
    assert file.read_bytes()[:4] == b"\x89PNG"
    assert file.stat().st_size > 10_000


def test_without_a_name_it_is_the_first_client(folder: Path) -> None:
    shown = generated(folder)
    assert shown.client == "client-0"
    assert len(shown.examples) == 20
    assert shown.label == "fedavg + fedcog"
    # Labels are the complement of what it holds.
    lacking = shown.held.max() - shown.held
    assert (shown.examples.label_counts(10)[lacking == 0] == 0).all()


def written(multilabel: bool = False, disputed: float | None = 0.5) -> Generated:
    problem = Problem((1, 1, 2), 3, multilabel=multilabel)
    x = torch.tensor([[0.0, 1.0], [2.0, 5.0], [7.0, 7.0]]).view(3, 1, 1, 2)
    y = torch.tensor([[1.0, 0, 0], [1, 0, 1], [0, 0, 1]]) if multilabel else torch.tensor([0, 0, 2])
    return Generated(
        "a + b", "north", 4, "noise alone", problem, Examples(x, y), torch.tensor([0, 2, 1]), 0.25, disputed
    )


def test_the_mean_of_a_class_is_stretched_from_black_to_white() -> None:
    # Class 0: the mean of (0, 1) and (2, 5) is (1, 3), stretched to (0, 255). Class 2: (7, 7) has no contrast.
    means = class_means(written())
    assert means.y.tolist() == [0, 2]
    assert means.x.flatten(1).tolist() == [[0, 255], [0, 0]]
    several = class_means(written(multilabel=True))
    # Label 2: (2, 5) and (7, 7) give (4.5, 6).
    assert several.y.tolist() == [[1, 0, 0], [0, 0, 1]]
    assert several.x.flatten(1).tolist() == [[0, 255], [0, 255]]


def test_the_caption_says_what_the_models_make_of_them() -> None:
    one = written()
    said = caption(one, lay_out({"north": one.examples}, ["north"], one.problem, 1))
    assert said.startswith("3 images from noise alone, none of which is kept or sent.")
    assert "gives 25% of the images the requested answer" in said
    assert "disagrees with it on 50%" in said
    without = written(disputed=None)
    assert "last model" not in caption(without, lay_out({"north": one.examples}, ["north"], one.problem, 1))


def test_every_column_says_what_was_made_and_what_is_held() -> None:
    figure = generated_figure(written(), 4)
    heads = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert heads == ["class 0\nmade 2\nhas 0", "class 1\nmade 0\nhas 2", "class 2\nmade 1\nhas 1"]
    assert "what north generates for round 4" in figure.texts[0].get_text()


def test_what_cannot_be_drawn_gets_one_sentence(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="per_class is 0"):
        draw_generated(written(), tmp_path / "a.png", per_class=0)
    with pytest.raises(UserError, match=r"There is no client in .*'client-9'"):
        generated(folder, "client-9")
    with pytest.raises(UserError, match="is a run without fedcog"):
        generated(digits_run(tmp_path / "plain", 1, add=[]))
    with pytest.raises(UserError, match="is not a run folder"):
        generated(tmp_path / "nowhere")
    (folder / "checkpoint").rename(tmp_path / "away")
    try:
        with pytest.raises(UserError, match="has no checkpoint yet"):
            generated(folder)
    finally:
        (tmp_path / "away").rename(folder / "checkpoint")


def test_a_run_on_own_arrays_is_shown_when_they_are_given_again(tmp_path: Path) -> None:
    x, y = torch.randint(256, (12, 2, 4, 4), dtype=torch.uint8), torch.tensor([0, 0, 1] * 4)
    data = Federation.from_arrays({"north": (x, y), "empty": (x[:0], y[:0])}, held_out=0.25, classes=2)
    out = tmp_path / "own"
    run(data=data, model="softmax", method="fedavg", add=[COG], rounds=1, out=out, changes={"engine.name": "inline"})
    with pytest.raises(UserError, match="given its data in Python"):
        generated(out)
    assert generated(out, "north", Live(data=data)).examples.x.shape == (20, 2, 4, 4)
    with pytest.raises(UserError, match="not a grey or colour image"):
        draw_generated(generated(out, live=Live(data=data)), tmp_path / "two-channels.png")
    with pytest.raises(UserError, match=r"empty in .* has no record"):
        generated(out, "empty", Live(data=data))
