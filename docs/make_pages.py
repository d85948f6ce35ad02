"""Writes docs/methods/*.md, a page a method, and docs/settings.md: from the files of the methods, the comments behind
their settings and the tables of finished studies. In docs/studies/*/README.md it writes what stands between
`<!-- notes: … -->` and `<!-- end -->`: the sentences of table.json that begin so, or all of them.

Run ``python docs/make_pages.py`` after a method, a setting or a table has changed; a test compares the pages with what
it gives.
"""

import inspect
import json
import re
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from understudy.base_settings import Settings, settings_in
from understudy.config.describe import describe_generators, describe_methods, describe_models, reference
from understudy.config.schema import EngineSettings, MethodPlan, ModelPlan, Top
from understudy.data.settings import DataSettings
from understudy.data.splits import SplitSettings
from understudy.papers.fedcog import SAID
from understudy.privacy.policy import Policy
from understudy.privacy.promise import PrivacySettings
from understudy.view.listings import flat, typed

HERE = Path(__file__).parent
# What papers print for a method, with the set-up; figures only, each with the title of its paper.
COG = "“Fake It Till Make It: Federated Learning with Consensus-Oriented Generation”"
SSYN = "“Synthetic data shuffling accelerates the convergence of federated learning under data heterogeneity”"
DM = "“FedDM: Iterative Distribution Matching for Communication-Efficient Federated Learning”"
LAP = "“FedLAP-DP: Federated Learning by Sharing Differentially Private Loss Approximations”"
FMNIST = "Fashion-MNIST, SimpleCNN, 10 clients, Dirichlet 0.1 / groups of two labels"
PUBLISHED: dict[str, list[tuple[str, str, str]]] = {
    "fedavg": [
        (FMNIST, "73.07 / 64.11", COG),
        ("CIFAR-10, ConvNet, 5 clients with class pairs", "75.20 in the table, 71.91 in the text", LAP),
        ("CIFAR-10, ConvNet, 10 clients, Dirichlet 0.1", "57.32 (the same figure stands for 0.01)", DM),
    ],
    "fedcog": [(FMNIST, "77.34 / 73.68", COG)],
    "fedgen": [("CIFAR-10, VGG-11, 10 clients, Dirichlet 0.01 / 0.1, 100 rounds", "47.6 / 78.6", SSYN)],
    "dense": [("the same, after 10 rounds of FedAvg", "15.2 / 40.1", SSYN)],
    "fedssyn": [("CIFAR-10, VGG-11, 10 clients, Dirichlet 0.01 / 0.1, 100 rounds", "83.0 / 84.1", SSYN)],
    "feddm": [("CIFAR-10, ConvNet, 10 clients, Dirichlet 0.5 / 0.1 / 0.01", "69.66 / 67.38 / 63.82", DM)],
    "dc": [("CIFAR-10 / Fashion-MNIST, one shot, not federated, called DSC there", "53.9 / 83.6", LAP)],
    "real": [("CIFAR-10, ConvNet, 10 clients, Dirichlet 0.5", "68.66", DM)],
    "fedlap": [("MNIST / Fashion-MNIST / CIFAR-10, ConvNet, 5 clients with class pairs", "98.08 / 87.37 / 71.91", LAP)],
    "fedlap-dp": [("CIFAR-10, ConvNet, class pairs, ε 2.79 / 10.18", "21.42 / 36.09", LAP)],
}


@dataclass(frozen=True)
class Told:
    """A study whose table.json has our numbers of methods."""

    study: str
    setup: str  # {}: what differs between the rows of one method
    label: str  # of a row, as a pattern: the method, and what differs
    called: Mapping[str, str] = field(default_factory=dict)  # methods that have another name there
    scale: str = "desk"


MNIST = "4000 MNIST images at 14×14"
OURS = [
    Told("averaging-family", f"{MNIST}, MLP, 10 clients, Dirichlet 0.1, 20 rounds", r"(fedavg\+)?(?P<method>[\w-]+)"),
    Told(
        "feddm-skew",
        f"{MNIST}, small ConvNet, 10 clients, 5 rounds, Dirichlet {{}}",
        r"(?P<method>[a-z]+)-(?P<more>[\d.]+)",
    ),
    Told("feddm-options", f"{MNIST}, small ConvNet, 10 clients, 5 rounds, Dirichlet 0.1", r"(?P<method>real)"),
    Told("fedlap-pairs", f"{MNIST}, small ConvNet, 5 clients with class pairs, 4 rounds", r"(?P<method>\w+)"),
    Told(
        "fedlap-dp",
        "Fashion-MNIST at 14×14, small ConvNet, 5 clients with class pairs, 2 rounds, ε {}",
        r"(?P<method>[\w-]+) ε=(?P<more>[\d.]+)",
    ),
    Told(
        "personal-models",
        f"{MNIST}, MLP, 10 clients, Dirichlet 0.1, 20 rounds, own models on own held-out records",
        r"(?P<method>fedrep|ditto)",
    ),
    Told(
        "fedcog-fashion-mnist",
        "Fashion-MNIST, SimpleCNN, 10 clients, 50 rounds of FedAvg and 20 more: {}",
        r"(?P<more>(?P<method>fedavg|fixed|balanced), .+)",
        {"fixed": "fedcog", "balanced": "fedcog"},
        "paper",
    ),
    Told("fedssyn-rounds", f"{MNIST}, MLP, 10 clients: {{}}", r"(FedAvg \+ )?(?P<method>\w+), (?P<more>.+)"),
    Told(
        "fedssyn-controls",
        f"{MNIST}, MLP, 10 clients, Dirichlet 0.01, 20 rounds",
        r"\(\w\) (?P<method>shuffled images|central, records)",
        {"shuffled images": "fedssyn", "central, records": "central"},
    ),
    Told("fedssyn-peers", f"{MNIST}, 10 clients, Dirichlet 0.1", r"(FedAvg \+ )?(?P<method>\w+)"),
]

PROMISE = " 'privacy={delta: 1e-4, records: 140}'"
# What a method must be told beside its name.
NEEDED = {
    "fedcog": ", kd_weighting: fixed",
    "fedsgd": " 'method.local={epochs: null, steps: 1}'",
    "fedrep": " data.held_out=0.2",
    "dp-fedavg": PROMISE,
    "dp-fedprox": PROMISE,
    "fedlap-dp": PROMISE,
    "psg": " 'privacy={epsilon: 10, delta: 1e-4, records: 140}'",
}


def page(about: Mapping[str, Any]) -> str:
    name = about["name"]
    parts = [f"# {name}", about["about"], "## Run it", f"```\n{_command(about)}\n```"]
    parts += ["## Our numbers, and the published ones", _numbers(name)]
    parts += ["## Settings", _settings(about)]
    parts += ["## What leaves a client", _sends(about)]
    if about["joins"]:
        joined = "Add-ons that join it" if about["role"] == "method" else "Methods that it joins"
        parts.append(f"{joined}: {', '.join(about['joins'])}.")
    return "\n\n".join(parts) + "\n"


def _command(about: Mapping[str, Any]) -> str:
    name = about["name"]
    if about["role"] == "add-on":
        return f"understudy run digits-skewed 'with=[{{name: {name}{NEEDED.get(name, '')}}}]'"
    return f"understudy run digits-skewed method.name={name}{NEEDED.get(name, '')}"


def _numbers(name: str) -> str:
    lines = ["| set-up | accuracy (%) | from |", "|---|--:|---|"]
    ours = [line for told in OURS if (line := _our_line(told, name))]
    lines += ours or ["| not measured | | ours |"]
    lines += [f"| {setup} | {figure} | {source} |" for setup, figure, source in PUBLISHED.get(name, [])]
    if name not in PUBLISHED:
        lines.append("| none published that we know of in a set-up of ours | | papers |")
    return "\n".join(lines)


def _our_line(told: Told, name: str) -> str:
    """All rows of a method in one study beside each other; nothing where there is no table, or none of it."""
    folder = HERE / "studies" / told.study
    if not (folder / "table.json").exists():
        return ""
    found = []
    for row in read_rows(json.loads((folder / "table.json").read_text())):
        match = re.fullmatch(told.label, row.label)
        if match and told.called.get(match["method"], match["method"]).lower() == name:
            found.append((match.groupdict().get("more") or "", row))
    if not found:
        return ""
    setup = told.setup.format(" / ".join(more for more, _ in found))
    rates = [f"{row.rate:g}" for _, row in found if row.rate is not None]
    tuned = f"; rate {' / '.join(rates if len(set(rates)) > 1 else rates[:1])}" if rates else ""
    seeds = len(found[0][1].accuracies)
    figures = " / ".join(row.figure for _, row in found)
    about = f"{folder.name}/README.md" if (folder / "README.md").exists() else "README.md"
    command = f"understudy reproduce {told.study} --scale {told.scale}"
    said = f"{setup}{tuned}; {seeds} {'seed' if seeds == 1 else 'seeds'}"
    return f"| {said} | {figures} | [ours](../studies/{about}), `{command}` |"


@dataclass(frozen=True)
class Row:
    label: str
    rate: float | None
    accuracies: Sequence[float]  # after the last round, between 0 and 1, a number a seed

    @property
    def figure(self) -> str:
        mean = f"{100 * statistics.fmean(self.accuracies):.1f}"
        return f"{mean} ± {100 * statistics.stdev(self.accuracies):.1f}" if len(self.accuracies) > 1 else mean


def read_rows(table: Mapping[str, Any]) -> list[Row]:
    """From any of the shapes that studies write: rows, lines with curves by seed, or FedCOG's curves by split."""
    if "rows" in table:
        return [Row(row["label"], row["rate"], row["accuracies"]) for row in table["rows"]]
    if "lines" in table:
        curves = table.get("accuracies") or {label: line["accuracies"] for label, line in table["lines"].items()}
        rates = {label: line["rate"] for label, line in table["lines"].items()}
        return [Row(label, rates[label], [seed[-1] for seed in curves[label]]) for label in rates]
    return [
        Row(f"{variant}, {SAID[split]}", None, [list(by_round.values())[-1] / 100])
        for split, curves in table["accuracy"].items()
        for variant, by_round in curves.items()
    ]


def _settings(about: Mapping[str, Any]) -> str:
    lines = [_lines(about["reference"])]
    for preset, values in about["presets"].items():
        said = ", ".join(f"`{key}` {value}" for key, value in flat(values))
        lines.append(f"| preset `{preset}` | | {said} |")
    return "\n".join(lines)


def _lines(found: Sequence[Mapping[str, Any]]) -> str:
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    lines += [f"| `{one['setting']}` | {typed(one['default'])} | {_cell(one['meaning'])} |" for one in found]
    return "\n".join(lines if found else [*lines, "| none | | |"])


def _cell(words: str) -> str:
    return words.replace("|", "\\|")


def _sends(about: Mapping[str, Any]) -> str:
    lines = ["| task | part | kind |", "|---|---|---|"]
    rows = [f"| {task} | {part} | {kind} |" for task, parts in about["sends"].items() for part, kind in parts.items()]
    return "\n".join([*lines, *(rows or ["| | nothing more | |"])])


def pages() -> dict[str, str]:
    """One per name: a method that is an add-on as well has a section about that."""
    found: dict[str, str] = {}
    for about in reversed(describe_methods()):  # methods are behind add-ons
        name = about["name"]
        found[name] = found[name] + _as_add_on(about) if name in found else page(about)
    return found


def _as_add_on(about: Mapping[str, Any]) -> str:
    own = ", ".join(f"`{one['setting']}`" for one in about["reference"])
    joins = f"It has {own}, and the method that it joins has the rest; it joins {', '.join(about['joins'])}."
    return f"\n## As an add-on\n\n```\n{_command(about)}\n```\n\n{joins}\n"


def index() -> str:
    lines = ["# Methods", "", "One page a method: what it does, how to run it, our numbers and the published ones.", ""]
    for about in reversed({one["name"]: one for one in reversed(describe_methods())}.values()):
        lines.append(f"- [{about['name']}]({about['name']}.md): {about['title']}")
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    parts = [
        "# Settings",
        "Every key of a config, its default, and in brackets what there is to choose from. In a file they are YAML; on "
        "the command line a key is written whole, such as `data.split.alpha=0.01`. A key that does not exist is an "
        "error. `config.yaml` in a run folder has every value that was used.",
        "## Beside the sections",
        "All draws but those of privacy come from `seed`. `device` is auto, cpu, mps, cuda or one of several, cuda:0.",
        _of(Top),
        "## data",
        _of(DataSettings),
        "### data.split",
        "`data.split.kind` says how records are dealt out to clients; each kind has settings of its own.",
        *map(_split, settings_in(SplitSettings)),
        "## model",
        "`name` is one of the networks below. `fast` is the layout in memory and whether training is compiled; `auto` "
        "takes what was measured to be fastest for the network.",
        _of(ModelPlan),
        "Beside these, what the network itself lets one choose:",
        _by_name(describe_models()),
        "## method",
        _of(MethodPlan),
        "Beside these, the settings of the method: [a page each](methods/README.md), or `understudy methods NAME`.",
        "## with",
        "A list of add-ons, by name or with settings, such as `with: [{name: fedssyn, records: 0.5}]`; on the command "
        "line `with=fedssyn with.fedssyn.records=0.5`. Their settings: [a page each](methods/README.md).",
        "## engine",
        "Where clients run: one after the other in this process, in `workers` processes, or on machines "
        "([a federation](federation.md)). The result has the same bits.",
        _of(EngineSettings),
        "## privacy",
        "Nothing is promised unless this section is there. `delta` is δ, to be less than one in the number of records; "
        "`accountant` is how releases are added up ([privacy](privacy.md)).",
        _of(PrivacySettings),
        "## A site's policy",
        f"A YAML file of its own, read on the client's side ([privacy](privacy.md)).\n\n{_of(Policy)}",
        "## Generators",
        "For `with.fedssyn.generator` and `method.generator` of `central`, by name or with settings, such as "
        "`{name: vae, epochs: 60}`.",
        *(f"### {one['name']}\n\n{one['about']}\n\n{_lines(one['reference'])}" for one in describe_generators()),
    ]
    return "\n\n".join(parts) + "\n"


def _split(kind: type[Settings]) -> str:
    said = inspect.getdoc(kind) if "__doc__" in vars(kind) and kind.__doc__ else inspect.getdoc(inspect.getmodule(kind))
    return f"#### {kind.model_fields['kind'].default}\n\n{said}\n\n{_of(kind)}"


def _of(kind: type[Settings]) -> str:
    """Without settings that have a section of their own."""
    lines = [asdict(line) for line in reference(kind)]
    return _lines([line for line in lines if not line["setting"].startswith(("privacy.", "split."))])


def _by_name(found: Sequence[Mapping[str, Any]]) -> str:
    lines = ["| network | setting | default | meaning |", "|---|---|---|---|"]
    for one in found:
        for line in one["reference"]:
            meaning = _cell(line["meaning"])
            lines.append(f"| {one['name']} | `{line['setting']}` | {typed(line['default'])} | {meaning} |")
    return "\n".join(lines)


NOTES = re.compile(r"(<!-- notes:? ?(.*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def study_page(folder: Path) -> str:
    """A study's page with its computed sentences; the rest of it is as written by hand."""
    notes = json.loads((folder / "table.json").read_text()).get("notes", [])

    def said(place: re.Match[str]) -> str:
        chosen = [note for note in notes if note.startswith(place[2])]
        if not chosen:
            raise ValueError(f"{folder.name}/table.json has no note that begins with '{place[2]}'.")
        return place[1] + "".join(map(_bullet, chosen)) + place[3]

    return NOTES.sub(said, (folder / "README.md").read_text())


def _bullet(note: str) -> str:
    return textwrap.fill(note, 120, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False) + "\n"


def study_folders() -> list[Path]:
    return sorted(page.parent for page in (HERE / "studies").glob("*/README.md"))


def main() -> None:
    folder = HERE / "methods"
    folder.mkdir(exist_ok=True)
    found = pages()
    for name, text in found.items():
        (folder / f"{name}.md").write_text(text)
    (folder / "README.md").write_text(index())
    (HERE / "settings.md").write_text(settings_page())
    for study in study_folders():
        (study / "README.md").write_text(study_page(study))
    print(f"{len(found)} pages in {folder.name}/, and settings.md")


if __name__ == "__main__":
    main()
