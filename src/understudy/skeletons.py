"""What `understudy.new` writes. NAME is as typed, MODULE as imported, Title the prefix of class names."""

METHOD = '''\
"""Title: "The title of the paper", algorithm 1.

What a client does, with the paper's equation and the symbol of each setting,

    w_k ← w − η ∇f_k(w),

and what the server does with the replies. Where we depart from the paper, and why.
"""

import torch
from pydantic import Field

from understudy.base_settings import Settings
from understudy.federation.client import Client
from understudy.federation.message import Message, scalar
from understudy.federation.method import Method, State, by_sums, task
from understudy.federation.registry import method
from understudy.federation.server import Server
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Feed, train
from understudy.learning.plan import passes


class TitleSettings(Settings):
    local: Local = Local(epochs=1, lr=0.1)
    share: float = Field(default=1.0, gt=0)  # how far the server moves towards the mean; 1: all the way


@method("NAME", settings=TitleSettings)
class Title(Method):
    def __init__(self, settings: TitleSettings):
        self.settings = settings

    # ---- on the client

    @task(change="weights", records="scalars")
    def fit(self, client: Client, brief: Message) -> Message:
        local, n = self.settings.local, len(client.own)
        plan = passes(n, local.step_count(n), local.batch, client.rng("batches"))
        trained = train(self.net, brief["model"], Feed(client.own, plan), Descent(local))
        return Message(change=n * (trained.model - trained.start), records=scalar(n))

    # ---- on the server

    @by_sums  # the server sees only sums; leave this out to use server.ask
    def round(self, server: Server, state: State) -> State:
        shapes = {"change": state["model"].shape, "records": ()}
        sums = server.sum(self.fit, state.only("model"), server.cohort(), shapes, least={"records": 0})
        mean = sums["change"] / sums["records"].clamp(min=1)  # no client has a record: no change
        return state.but(model=(state["model"] + self.settings.share * mean).to(torch.float32))
'''

METHOD_TEST = '''\
"""Title by hand."""

import pytest
from stage import coin, play, records

from understudy.learning.local import Local
from understudy.methods.MODULE import Title, TitleSettings

ONE_STEP = Local(epochs=1, batch=10, lr=0.1)
BY_HAND: float | None = None  # work it out, and write it here as arithmetic


def test_one_step_by_hand() -> None:
    # One record (x = 1, class 0) from w = 0: the slope is σ(0) − 1 = −0.5 and the rate 0.1. The server then goes …
    assert BY_HAND is not None, "NAME has no number worked by hand yet: fill in BY_HAND"
    after = play(Title(TitleSettings(local=ONE_STEP, share=0.5)), coin(), {"a": records([1], [0])}, 1)
    assert after["model"].item() == pytest.approx(BY_HAND)
'''

METHOD_BUG = """

[NAME-whole-way]
file = "methods/MODULE.py"
old = 'self.settings.share * mean'
new = 'mean'
tests = ["methods/test_MODULE.py"]
about = "the server goes the whole way to the mean"
"""

TERM = '''\
"""Title: "The title of the paper", equation 1.

A client minimises its loss plus a term, with the symbol of each setting,

    f_k(θ) + μ · r(θ, w),

where w is the broadcast model. The server averages as in FedAvg; μ = 0 is FedAvg. Where we depart from the paper, and
why.
"""

from pydantic import Field
from torch import Tensor

from understudy.base_settings import Settings
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.learning.local import Local
from understudy.methods.shared.term_registration import term
from understudy.methods.shared.terms_and_rules import Kit, Term
from understudy.models.network import Network


class TitleSettings(Settings):
    mu: float = Field(default=0.01, ge=0)  # μ


class TitleTerm(Term):
    """What it does to the local model."""

    def __init__(self, mu: float):
        self.mu = mu

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        return {"start": net.vector[net.trainable].clone()} if self.mu else None

    def gradient(self, kit: Kit, w: Tensor) -> Tensor:
        return self.mu * (w - kit["start"])  # here a spring: r = ½ ‖θ − w‖²


@term("NAME", settings=TitleSettings)  # the method NAME, and the add-on of that name
def MODULE(settings: TitleSettings, _: Local) -> Term:
    return TitleTerm(settings.mu)
'''

TERM_TEST = '''\
"""Title by hand."""

import pytest
import torch
from stage import coin, play, records, settings_of

from understudy.learning.local import Local
from understudy.methods.fedavg import fedavg
from understudy.methods.MODULE import MODULE
from understudy.methods.shared.averaging import AveragingSettings

TWO_STEPS = Local(epochs=2, batch=10, lr=0.1)
SITES = {"a": records([1], [0])}  # slope σ(w) − 1
BY_HAND: float | None = None  # work it out, and write it here as arithmetic


def test_two_steps_by_hand() -> None:
    # From w = 0 the first step has the slope σ(0) − 1 = −0.5 and goes to 0.05; the second one feels the term …
    assert BY_HAND is not None, "NAME has no number worked by hand yet: fill in BY_HAND"
    after = play(MODULE(settings_of("NAME", mu=0.5, local=TWO_STEPS)), coin(), SITES, 1)
    assert after["model"].item() == pytest.approx(BY_HAND)


def test_without_the_term_it_is_fedavg_to_the_last_bit() -> None:
    mine = play(MODULE(settings_of("NAME", mu=0, local=TWO_STEPS)), coin(), SITES, 2)
    plain = play(fedavg(AveragingSettings(local=TWO_STEPS)), coin(), SITES, 2)
    assert torch.equal(mine["model"], plain["model"])
'''

TERM_BUG = """

[NAME-sign]
file = "methods/MODULE.py"
old = 'w - kit["start"]'
new = 'kit["start"] - w'
tests = ["methods/test_MODULE.py"]
about = "the pull has the wrong sign"
"""

QUICK = """\
    "NAME": {"local": {"epochs": 2, "batch": 4, "lr": 0.1}},
"""
