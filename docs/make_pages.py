"""Writes docs/methods/*.md: a page a method, from its file, its settings and the tables of finished studies.

Run ``python docs/make_pages.py`` after a method or a table has changed; a test compares the pages with what it gives.
"""

import inspect
import json
from pathlib import Path
from typing import Any

from understudy.federation import registry
from understudy.studies.catalogue import describe_methods
from understudy.studies.reproduce import FAMILY
from understudy.view.listings import flat

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
    "real": [("CIFAR-10, ConvNet, 10 clients, Dirichlet 0.5", "68.66", DM)],
    "fedlap": [("MNIST / Fashion-MNIST / CIFAR-10, ConvNet, 5 clients with class pairs", "98.08 / 87.37 / 71.91", LAP)],
    "fedlap-dp": [("CIFAR-10, ConvNet, class pairs, ε 2.79 / 10.18", "21.42 / 36.09", LAP)],
}


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


def page(about: dict[str, Any], standings: dict[str, dict[str, Any]]) -> str:
    name = about["name"]
    entry = next(e for e in registry.entries() if e.name == name)
    said = inspect.getdoc(inspect.getmodule(entry.build)) or ""
    parts = [f"# {name}", said, "## Run it", f"```\n{_command(about)}\n```"]
    parts += ["## Our number, and the published one", _numbers(name, about["role"], standings)]
    parts += ["## Settings", _settings(about)]
    parts += ["## What leaves a client", _sends(about)]
    if about["joins"]:
        joined = "Add-ons that join it" if about["role"] == "method" else "Methods that it joins"
        parts.append(f"{joined}: {', '.join(about['joins'])}.")
    return "\n\n".join(parts) + "\n"


def _command(about: dict[str, Any]) -> str:
    name = about["name"]
    if about["role"] == "add-on":
        return f"understudy run digits-skewed 'with=[{{name: {name}{NEEDED.get(name, '')}}}]'"
    return f"understudy run digits-skewed method.name={name}{NEEDED.get(name, '')}"


def _numbers(name: str, role: str, standings: dict[str, dict[str, Any]]) -> str:
    lines = ["| set-up | accuracy (%) | from |", "|---|--:|---|"]
    label = f"fedavg+{name}" if role == "add-on" else name
    if label in standings:
        row = standings[label]
        ours = f"{100 * row['mean']:.1f} ± {100 * row['spread']:.1f}"
        lines.append(f"| `understudy reproduce averaging-family`, rate {row['rate']:g}, three seeds | {ours} | ours |")
    for setup, figure, source in PUBLISHED.get(name, []):
        lines.append(f"| {setup} | {figure} | {source} |")
    if name not in PUBLISHED:
        lines.append("| | none that we know of in a set-up of ours | |")
    return "\n".join(lines)


def _settings(about: dict[str, Any]) -> str:
    lines = ["| setting | default |", "|---|---|"]
    lines += [f"| `{key}` | {value} |" for key, value in flat(about["settings"])]
    for preset, values in about["presets"].items():
        said = ", ".join(f"`{key}` {value}" for key, value in flat(values))
        lines.append(f"| preset `{preset}` | {said} |")
    return "\n".join(lines)


def _sends(about: dict[str, Any]) -> str:
    lines = ["| task | part | kind |", "|---|---|---|"]
    rows = [f"| {task} | {part} | {kind} |" for task, parts in about["sends"].items() for part, kind in parts.items()]
    return "\n".join([*lines, *(rows or ["| | nothing more | |"])])


def read_standings() -> dict[str, dict[str, Any]]:
    table = HERE / "studies" / "averaging-family" / "table.json"
    if not table.exists():
        return {}
    return {row["label"]: row for row in json.loads(table.read_text())["rows"] if row["label"] in FAMILY}


def pages() -> dict[str, str]:
    standings = read_standings()
    return {about["name"]: page(about, standings) for about in describe_methods()}


def index() -> str:
    lines = ["# Methods", "", "One page a method: what it does, how to run it, our number and the published one.", ""]
    for about in describe_methods():
        lines.append(f"- [{about['name']}]({about['name']}.md): {about['title']}")
    return "\n".join(lines) + "\n"


def main() -> None:
    folder = HERE / "methods"
    folder.mkdir(exist_ok=True)
    found = pages()
    for name, text in found.items():
        (folder / f"{name}.md").write_text(text)
    (folder / "README.md").write_text(index())
    print(f"{len(found)} pages in {folder.name}/")


if __name__ == "__main__":
    main()
