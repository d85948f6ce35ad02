"""Terms as methods and as add-ons: one registration, the same bits, and sentences where they do not go together."""

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
import torch
from numpy_terms import layered_net
from stage import Stage, bound, cloud, image_net, pictures, play, settings_of
from torch import Tensor, nn

from understudy.config.describe import describe_methods
from understudy.config.resolve import resolve
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation import registry
from understudy.federation.message import Kind
from understudy.federation.method import Method
from understudy.learning.local import Local
from understudy.learning.loop import Batch
from understudy.learning.losses import per_record_loss
from understudy.methods.fedavg import fedavg
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.methods.shared.terms_and_rules import Kit, Term
from understudy.models.network import Network
from understudy.models.zoo import entry as model

LOCAL = Local(epochs=2, batch=4, lr=0.1)
BOTH = [
    e.name
    for e in registry.entries()
    if e.role == "add-on" and e.name in {m.name for m in registry.entries() if m.role == "method"}
]
SITES = {"a": pictures([0, 1, 1, 2, 0, 1, 2]), "b": pictures([2] * 5, name="b"), "none": pictures([])}
PROBLEM = Problem(shape=(1, 4, 4), classes=3)


def alone(name: str, **words: Any) -> Method:
    return registry.entry(name, "method").build(settings_of(name, **{"local": LOCAL, **words}))


def joined(name: str, inner: Method, **words: Any) -> Method:
    add_on = registry.entry(name, "add-on")
    return add_on.build(add_on.settings.model_validate(words), inner)


def dressed(method: Method) -> Network:
    """Pixels through a small network, as the method needs it."""
    chosen = model("mlp")
    return Network(
        lambda: method.adapt_network(chosen.build(PROBLEM, chosen.settings.model_validate({"hidden": [5]})), PROBLEM),
        PROBLEM,
    )


def test_these_are_both() -> None:
    assert {"feddecorr", "fedntd", "fedprox", "fedpvr", "moon", "scaffold", "vhl"} <= set(BOTH)
    assert "feddyn" not in BOTH


@pytest.mark.parametrize("name", BOTH)
def test_fedavg_with_the_add_on_is_the_method_to_the_last_bit(name: str) -> None:
    words = {"noise_images": 4, "noise_batch": 5} if name == "vhl" else {}
    method, added = alone(name, **words), joined(name, fedavg(AveragingSettings(local=LOCAL)), **words)
    first, second = (play(one, dressed(one), SITES, 3) for one in (method, added))
    assert {part: value.tolist() for part, value in first.items()} == {
        part: value.tolist() for part, value in second.items()
    }


@pytest.mark.parametrize("name", BOTH)
def test_the_method_has_the_settings_of_averaging_and_those_of_the_add_on(name: str) -> None:
    method, add_on = registry.entry(name, "method"), registry.entry(name, "add-on")
    own, whole = list(add_on.settings.model_fields), list(method.settings.model_fields)
    assert whole[:4] == list(AveragingSettings.model_fields)
    assert [field for field in whole[4:] if field != "server_lr"] == own  # the rate of the rule is the method's
    assert method.title == add_on.title
    assert [one["role"] for one in describe_methods(name)] == ["method", "add-on"]


def test_presets_say_of_an_add_on_what_is_its_own() -> None:
    assert registry.entry("fedpvr", "method").presets["fedssyn"] == {"block": "fully-connected", "weights": "uniform"}
    assert registry.entry("fedpvr", "add-on").presets == {"fedssyn": {"block": "fully-connected"}}
    config = resolve({"with": [{"name": "fedprox", "preset": "fedlap"}]})
    assert config.add_ons[0].settings.model_dump() == {"mu": 0.2}


def test_a_term_acts_under_another_rule_and_beside_another_term() -> None:
    sites = {"a": cloud("a", 7), "b": cloud("b", 12)}

    def result(*names: str) -> Tensor:
        method = alone("fedadam")
        for name in names:
            method = joined(name, method, **({"mu": 0.5} if name == "fedprox" else {}))
        return play(method, layered_net(), sites, 2)["model"]

    found = [result(), result("fedprox"), result("feddecorr"), result("fedprox", "feddecorr")]
    assert len({tuple(model.tolist()) for model in found}) == 4


def test_the_order_in_which_terms_are_listed_is_free() -> None:
    for names in (["moon", "fedprox", "fedcog"], ["fedcog", "fedprox", "moon"]):
        words = [{"name": name, "kd_weighting": "fixed"} if name == "fedcog" else name for name in names]
        assert [one.name for one in resolve({"with": words}).add_ons] == ["fedcog", "fedprox", "moon"]


@pytest.mark.parametrize("order", [("moon", "vhl"), ("vhl", "moon")])
def test_two_terms_dress_one_network(order: tuple[str, str]) -> None:
    method: Method = fedavg(AveragingSettings(local=LOCAL))
    for name in order:
        method = joined(name, method, **({"projection": 7} if name == "moon" else {}))
    head = dressed(method).module.head
    assert isinstance(head, nn.Linear)
    assert (head.in_features, head.out_features) == (7, 6)


# ---- what does not go together

PLAIN = "moves the local model other than through the loss, but"
REFUSED = [
    ("fedprox", "feddm", "fedprox joins methods in which clients train and the server averages, but FedDM has"),
    ("scaffold", "scaffold", "scaffold is already in this method"),
    ("fedprox", "dp-fedprox", "fedprox is already in this method"),
    ("fedpvr", "scaffold", "scaffold and fedpvr would both send a part called control"),
    ("scaffold", "fednova", f"scaffold {PLAIN} fednova counts only steps"),
    (
        "fedprox",
        "fednova",
        rf"fedprox {PLAIN} fednova counts only steps on the loss and its own proximal term \(method.mu\)",
    ),
    ("scaffold", "feddyn", f"scaffold {PLAIN} feddyn's dual"),
    ("fedpvr", "fedreg", f"fedpvr {PLAIN} fedreg's corrections"),
    ("scaffold", "fedrep", "scaffold sends a control variate for everything a client trains, but in this method heads"),
    ("scaffold", "dense", "scaffold needs sums from the clients every round"),
    ("fedprox", "fedsgd", "fedprox would do nothing, because in its only step"),
    ("feddecorr", "dp-fedavg", "privacy: the loss that feddecorr adds is not one number per record"),
    ("vhl", "dp-fedavg", "privacy: the loss that vhl adds is not one number per record"),
]


@pytest.mark.parametrize(("name", "inner", "sentence"), REFUSED)
def test_a_pair_that_makes_no_sense_gets_one_sentence(name: str, inner: str, sentence: str) -> None:
    entry = registry.entry(inner, "method")
    with pytest.raises(UserError, match=sentence) as error:
        joined(name, entry.build(entry.settings()))
    assert "\n" not in str(error.value)


def test_local_momentum_and_a_control_variate_are_refused_wherever_it_is_said() -> None:
    fast = Local(momentum=0.9)
    with pytest.raises(UserError, match=r"scaffold: method\.local\.momentum must be 0"):
        alone("scaffold", local=fast)
    with pytest.raises(UserError, match=r"scaffold: method\.local\.momentum must be 0"):
        joined("scaffold", alone("fedadam", local=fast))


def test_each_place_says_where_a_name_belongs() -> None:
    with pytest.raises(UserError, match="'feddyn' is a method: write it under `method`"):
        resolve({"with": ["feddyn"]})
    with pytest.raises(UserError, match="'fedcog' is an add-on: write it under `with`"):
        resolve({"method": "fedcog"})
    with pytest.raises(UserError, match=r"There is no add-on 'fedprix'\. Did you mean 'fedprox'"):
        resolve({"with": ["fedprix"]})


class Hinge(Term):
    """Twice the usual loss, halved."""

    per_record: ClassVar[bool] = True

    def data_weight(self, kit: Kit) -> float:
        return 0.5

    def data_loss(self, kit: Kit, net: Network, batch: Batch) -> Tensor:
        return 2 * per_record_loss(net.problem, batch.logits, batch.y)


class Other(Hinge):
    up: ClassVar[Mapping[str, Kind]] = {}


def test_a_loss_in_the_place_of_the_datas_is_weighed_like_it() -> None:
    plain = play(fedavg(AveragingSettings(local=LOCAL)), image_net(), SITES, 2)
    doubled = play(Averaging(AveragingSettings(local=LOCAL), terms=[Hinge()]), image_net(), SITES, 2)
    assert torch.equal(plain["model"], doubled["model"])  # factors of two are exact


def test_one_term_at_the_most_replaces_the_loss() -> None:
    with pytest.raises(UserError, match="Hinge and Other both replace the loss of the data"):
        Averaging(AveragingSettings(), terms=[Hinge(), Other()])


def test_a_control_variate_of_the_usual_loss_goes_with_no_other() -> None:
    with pytest.raises(UserError, match="Hinge replaces the loss of the data, but scaffold needs the gradient"):
        joined("scaffold", Averaging(AveragingSettings(), terms=[Hinge()]), option="I")
    assert len(joined("scaffold", Averaging(AveragingSettings(), terms=[Hinge()])).terms) == 2  # type: ignore[attr-defined]


def test_a_loss_in_the_place_of_the_datas_says_whether_it_is_made_record_by_record() -> None:
    with pytest.raises(UserError, match="The term Quiet adds a loss: write `per_record = True` if"):
        type("Quiet", (Term,), {"data_loss": lambda *_: None})
    by_batch = type("ByBatch", (Hinge,), {"per_record": False})()
    with pytest.raises(UserError, match="privacy: the loss that ByBatch adds is not one number per record"):
        alone("dp-fedavg").and_term(by_batch)  # type: ignore[attr-defined]


class Weighing(Term):
    up: ClassVar[Mapping[str, Kind]] = {"weight": "scalars"}


def test_a_part_that_every_reply_has_is_nobodys() -> None:
    with pytest.raises(UserError, match="Weighing would send a part whose name is taken, weight"):
        Averaging(AveragingSettings(), terms=[Weighing()])


def test_a_control_variate_travels_beside_another_rule() -> None:
    stage = Stage(bound(joined("scaffold", alone("fedavgm")), layered_net()), {"a": cloud("a", 5)})
    stage.play(1)
    assert {part for _, _, reply in stage.replies for part in reply} == {"change", "control", "weight"}
