"""Attacks on planted truths: each finds what it is for, and nothing where nothing is."""

import pytest
import torch
from known_members import CLASSES, PROBLEM, WIDE, World, averages, network, records, world
from torch.nn import functional

from understudy.audits.attacks import ATTACKS
from understudy.audits.sighting import Seen, Sighting, View
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.randomness import generator
from understudy.synthesis.matching import ImageSteps, Look, embedding, match_means

ON_IMAGES = ("distance", "density", "embedding", "mixture")


@pytest.fixture(scope="module")
def here() -> World:
    return world()


def shared(x: Examples, here: World | None = None) -> Sighting:
    return Sighting(1, None if here is None else here.view.net.initial(), x)


# ---- what is there is found


@pytest.mark.parametrize("name", ["distance", "density", "mixture"])
def test_records_that_were_sent_are_found(here: World, name: str) -> None:
    half = here.members.take(range(0, 300, 2))
    found = World(half, here.others, here.view).reached(name, shared(half))
    assert found.auc.low > 0.95
    assert found.caught.low > 0.9
    # Over two rounds, every record was sent in one of them.
    rest = here.members.take(range(1, 300, 2))
    assert here.reached(name, shared(half), shared(rest)).auc.low > 0.95


def test_an_image_with_another_label_does_not_tell_on_a_record(here: World) -> None:
    mislabelled = Examples(here.members.x, (here.members.y + 1) % CLASSES)
    assert here.reached("distance", shared(mislabelled)).caught.high < 0.1


@pytest.mark.parametrize("name", ON_IMAGES)
def test_images_that_have_nothing_to_do_with_the_records_say_nothing(here: World, name: str) -> None:
    found = here.reached(name, shared(records(60, "foreign"), here), shared(records(60, "foreign too"), here))
    assert found.auc.low < 0.5 < found.auc.high
    assert found.caught.low < 0.01 < found.caught.high


def test_averages_of_eight_are_found_by_mixture_and_not_by_distance(here: World) -> None:
    blurred = shared(averages(here.members, 8, 60))
    assert here.reached("mixture", blurred).auc.low > 0.6
    blind = here.reached("distance", blurred).auc
    assert blind.low < 0.5 < blind.high


def test_a_mean_embedding_is_found_by_embedding_and_not_by_distance(here: World) -> None:
    few = World(here.members.take(range(90)), here.others, here.view)  # 30 per class
    sighting = shared(matched(few), few)
    assert few.reached("embedding", sighting).auc.low > 0.65
    assert few.reached("distance", sighting).auc.low < 0.5 < few.reached("distance", sighting).auc.high
    # It needs the model under which the means were matched.
    assert (
        ATTACKS["embedding"].attack(Seen("a", (Sighting(1, None, sighting.examples),)), few.members, few.view) is None
    )


def matched(here: World) -> Examples:
    """Images from noise whose mean embedding per class, under the first model, is that of the members."""
    net, ipc = network(), 10
    with torch.no_grad():
        means = torch.stack([embedding(net, here.members.x[here.members.y == c]).mean(0) for c in range(CLASSES)])
    look = Look(net.initial(), None, means)
    x = torch.randn(CLASSES * ipc, WIDE, generator=generator(5, "noise"))
    made = match_means(net, x, [look] * 300, ipc, ImageSteps(lr=2.0, momentum=0.5))
    return Examples(made, torch.arange(CLASSES).repeat_interleave(ipc))


def test_a_network_that_learnt_by_heart_is_found_by_loss(here: World) -> None:
    few = World(here.members.take(range(30)), here.others, here.view)
    trained = by_heart(few.members)
    first = few.view.net.initial()
    assert few.reached("loss", Sighting(1, first, None, trained)).auc.low > 0.7
    assert few.reached("loss", Sighting(1, None, None, trained)).auc.low > 0.6  # without the broadcast model
    foreign = here.reached("loss", Sighting(1, first, None, by_heart(records(30, "foreign"))))
    assert foreign.auc.low < 0.5 < foreign.auc.high


def by_heart(own: Examples, start: torch.Tensor | None = None) -> torch.Tensor:
    net = network()
    net.load(net.initial() if start is None else start)
    for _ in range(200):
        net.grad.zero_()
        functional.cross_entropy(net(own.x)[1], own.y).backward()  # type: ignore[no-untyped-call]
        net.vector[net.trainable] -= 0.1 * net.grad
    return net.vector.clone()


def test_what_was_known_before_is_no_sign_of_membership(here: World) -> None:
    # Confidence differs more between records than through membership; the broadcast model knows how.
    few = World(here.members.take(range(60)), here.others, here.view)
    before = by_heart(records(900, "earlier"))
    after = by_heart(few.members, start=before)
    with_it, without = (few.reached("loss", Sighting(1, known, None, after)).auc for known in (before, None))
    assert with_it.low > without.value + 0.02


# ---- what must not tell


def test_where_records_are_dense_anyway_is_no_sign_of_membership(here: World) -> None:
    _, outside = here.scores("density", shared(records(900, "foreign")))
    for c in range(CLASSES):
        of_class = here.others.y == c
        centre = here.view.reference.x[here.view.reference.y == c].mean(0)
        depth = -(here.others.x[of_class] - centre).norm(dim=1)
        assert float(torch.corrcoef(torch.stack([depth, outside[of_class]]))[0, 1]) < 0.5


@pytest.mark.parametrize("name", ON_IMAGES)
def test_a_class_that_was_never_shared_says_nothing_about_its_records(here: World, name: str) -> None:
    two = here.members.take(torch.nonzero(here.members.y != 1).flatten())
    inside, outside = here.scores(name, shared(two, here))
    assert inside[here.members.y == 1].tolist() == [0.0] * 100
    assert outside[here.others.y == 1].tolist() == [0.0] * 200
    assert float(inside[here.members.y == 0].abs().min()) > 0


@pytest.mark.parametrize("name", ON_IMAGES)
def test_scores_do_not_depend_on_who_else_is_judged(here: World, name: str) -> None:
    sighting = shared(here.members.take(range(60)), here)
    inside, _ = here.scores(name, sighting)
    alone = ATTACKS[name].attack(Seen("a", (sighting,)), here.members.take([7]), here.view)
    assert alone is not None
    assert float(alone[0]) == pytest.approx(float(inside[7]), rel=1e-6, abs=1e-6)


# ---- what comes from outside


@pytest.mark.parametrize("name", ON_IMAGES)
def test_a_client_that_shared_nothing_gives_nothing(here: World, name: str) -> None:
    for sighting in (Sighting(1, None, None), shared(here.members.none(), here)):
        assert ATTACKS[name].attack(Seen("a", (sighting,)), here.members, here.view) is None
    assert ATTACKS["loss"].attack(Seen("a", (shared(here.members),)), here.members, here.view) is None


@pytest.mark.parametrize("name", ON_IMAGES)
def test_values_that_are_not_finite_are_left_out(here: World, name: str) -> None:
    sent = here.members.take(range(60))
    broken = Examples(
        torch.cat([sent.x, torch.full((2, WIDE), torch.nan), torch.full((1, WIDE), torch.inf)]),
        torch.cat([sent.y, torch.tensor([0, 1, 2])]),
    )
    clean, _ = here.scores(name, shared(sent, here))
    found, _ = here.scores(name, shared(broken, here))
    assert torch.allclose(found, clean)
    assert ATTACKS[name].attack(Seen("a", (shared(broken.take([60, 61]), here),)), here.members, here.view) is None


@pytest.mark.parametrize("name", ON_IMAGES)
def test_pixels_as_bytes_and_as_the_network_sees_them_are_the_same(name: str) -> None:
    problem = Problem((1, 4, 4), 2, mean=(0.4,), std=(0.3,))
    own, rest, reference = (pixels(n, name) for n, name in ((40, "own"), (40, "rest"), (80, "reference")))
    here = World(own, rest, View(network(problem), reference))
    scaled = Examples(problem.scale(own.x[:10]), own.y[:10])
    as_bytes, as_floats = (here.scores(name, shared(sent, here))[0] for sent in (own.take(range(10)), scaled))
    assert torch.allclose(as_bytes, as_floats, atol=1e-5)


def pixels(n: int, name: str) -> Examples:
    x = torch.randint(0, 256, (n, 1, 4, 4), dtype=torch.uint8, generator=generator(5, name))
    return Examples(x, torch.arange(n) % 2)


@pytest.mark.parametrize("name", ["distance", "density", "mixture"])
def test_records_with_several_labels_are_judged_without_classes(here: World, name: str) -> None:
    problem = Problem((WIDE,), CLASSES, multilabel=True)
    labelled = [
        Examples(some.x, functional.one_hot(some.y, CLASSES).float())
        for some in (here.members, here.others, here.view.reference)
    ]
    several = World(labelled[0], labelled[1], View(network(problem), labelled[2]))
    assert several.reached(name, shared(several.members)).auc.low > 0.95


def test_several_labels_have_embeddings_and_losses_too(here: World) -> None:
    problem = Problem((WIDE,), CLASSES, multilabel=True)
    own, reference = (
        Examples(some.x, functional.one_hot(some.y, CLASSES).float()) for some in (here.members, here.view.reference)
    )
    several = World(own, reference, View(network(problem), reference))
    first = several.view.net.initial()
    for name in ("embedding", "loss"):
        inside, _ = several.scores(name, Sighting(1, first, own, first.flip(0)))
        assert len(inside.unique()) > 200  # type: ignore[no-untyped-call]


def test_few_reference_records_leave_distance(here: World) -> None:
    poor = World(here.members, here.others, View(here.view.net, here.view.reference.take(range(5))))
    assert poor.reached("distance", shared(here.members)).auc.low > 0.95
    none = World(here.members, here.others, View(here.view.net, here.view.reference.none()))
    assert none.reached("distance", shared(here.members)).auc.low > 0.95
    for name in ("density", "embedding", "mixture"):
        assert ATTACKS[name].attack(Seen("a", (shared(here.members, here),)), here.members, poor.view) is None


def test_the_reference_is_embedded_once_for_all_clients_of_a_round(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def counted(net: object, x: torch.Tensor) -> torch.Tensor:
        seen.append(len(x))
        return embedding(net, x)  # type: ignore[arg-type]

    monkeypatch.setattr("understudy.audits.attacks.embedding.embedding", counted)
    view = View(here.view.net, here.view.reference)
    for client in ("a", "b"):
        ATTACKS["embedding"].attack(Seen(client, (shared(here.members, here),)), here.others, view)
    assert sum(seen) == 900 + 2 * (300 + 600)


def test_the_networks_own_weights_stay(here: World) -> None:
    net = network()
    before, mode = net.vector.clone(), net.module.training
    sighting = Sighting(1, net.initial() + 1, here.members, net.initial() + 2)
    for name, entry in ATTACKS.items():
        found = entry.attack(Seen("a", (sighting,)), here.others, View(net, here.view.reference))
        assert (found is None) == (name == "tracing")  # no sums left
    assert torch.equal(net.vector, before)
    assert net.module.training == mode


def test_every_attack_says_what_it_needs() -> None:
    assert {name: entry.needs for name, entry in ATTACKS.items()} == {
        **dict.fromkeys(ON_IMAGES, "examples"),
        "loss": "model",
        "tracing": "sums",
    }
    assert PROBLEM.classes == CLASSES
    assert all(entry.about.endswith(".") for entry in ATTACKS.values())
