"""Fedssyn beside other uses of synthetic data: FedGen (features from the server), DENSE (images against an ensemble)
and FedDM (condensed images every round), over rounds and over megabytes.

All have the same network and the same passes over records per round, and their rates are tuned alike: the clients' for
methods that train there, the server's for FedDM. Fedssyn's images are counted when they are sent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.papers.compared import curves_table, over_megabytes, over_rounds
from understudy.papers.study import Changes, Drawing, Findings, StudyLine, said
from understudy.papers.trained_once import TrainedOnce
from understudy.papers.tuned import Comparison, Contender, compare_tuned
from understudy.runs.watching import Observer

ABOUT = "Fedssyn beside FedGen, DENSE and FedDM: 4000 MNIST images at 14×14 over ten clients, Dirichlet 0.1"
SSYN = "FedAvg + Fedssyn"


@dataclass(frozen=True)
class PeersPlan:
    config: Changes
    generator: Changes
    peers: Mapping[str, Changes]  # by label: what it changes
    server_rates: Sequence[str]  # labels of peers whose server rate is tuned
    rates: Sequence[float]
    seeds: Sequence[int]
    tuning: Changes


def peers_study(plan: PeersPlan, out: Path, observer: Observer) -> Findings:
    comparison = _comparison(plan, TrainedOnce(plan.config, out / "generators", observer))
    return _findings(compare_tuned(comparison, out, observer))


def _comparison(plan: PeersPlan, once: TrainedOnce) -> Comparison:
    contenders = [
        Contender("FedAvg", {}),
        Contender(SSYN, {}, by_seed=once.shuffling("vae", plan.generator)),
    ]
    for label, changes in plan.peers.items():
        rate = "method.server.lr" if label in plan.server_rates else "method.local.lr"
        contenders.append(Contender(label, changes, rate))
    return Comparison("fedssyn-peers", ABOUT, plan.config, plan.rates, plan.seeds, contenders, tuning=plan.tuning)


def _findings(lines: Sequence[StudyLine]) -> Findings:
    curves = {one.label: one for one in lines}
    looks = {label: number for number, label in enumerate(curves)}
    best = max(lines, key=lambda one: one.mean)
    least = min(one.sent_by_round[-1] for one in lines)
    cheapest = max(lines, key=lambda one: sum(one.within(least)))
    notes = [
        f"After the last round {best.label} is highest: {said(best.accuracies)}.",
        f"Within {least:.2f} MB, the least any sends, {cheapest.label} is highest: {said(cheapest.within(least))}.",
    ]
    panels = [over_rounds("over rounds", curves, looks), over_megabytes("over megabytes", curves, looks)]
    tables = {"table": [curves_table({"Dirichlet 0.1": curves})]}
    return Findings(ABOUT, lines, tables, {"table": Drawing(ABOUT, panels)}, notes=notes)
