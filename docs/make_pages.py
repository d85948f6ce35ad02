"""Writes docs/methods/*.md, a page per method, docs/settings.md, docs/api.md and README's table of families: from the
files of the methods, the comments behind their settings, docstrings (make_api_page.py), the tables of finished studies
(a study's `Shown` reads them) and what papers print (`papers.printed`). docs/papers/NAME/README.md, a page per table or
figure of a paper, and the scoreboard come from docs/papers/NAME/SCALE.json. In docs/studies/*/README.md it writes what
stands between `<!-- notes: … -->` and `<!-- end -->`: the sentences of table.json that begin so, or all of them.

Run ``python docs/make_pages.py`` after a method, a setting or a table has changed; a test compares the pages with what
it gives.
"""

import inspect
import json
import re
import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from make_api_page import api_page
from understudy.base_settings import Settings, settings_in
from understudy.config.describe import describe_generators, describe_methods, describe_models, reference
from understudy.config.families import FAMILIES
from understudy.config.schema import EngineSettings, MethodPlan, ModelPlan, Top
from understudy.data.kinds import KINDS, PLURAL
from understudy.data.settings import DataSettings
from understudy.data.splits.make import SplitSettings
from understudy.papers.claims import in_print
from understudy.papers.printed import PRINTED
from understudy.papers.published import Published
from understudy.papers.reproduce import ARTEFACTS, STUDIES
from understudy.papers.scoreboard import SUMMARY, scores, stored_at, summary, write_summary
from understudy.papers.stored import findings_of, ran_by
from understudy.papers.study import Findings, Scale, Shown
from understudy.papers.telling import told
from understudy.privacy.policy import Policy
from understudy.privacy.promise import PrivacySettings
from understudy.view.findings import markdown_table
from understudy.view.listings import flat, taken, typed
from understudy.view.papers_listed import scoreboard_table

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
PAPERS = HERE / "papers"
CARRIED_OVER = re.compile(r"carried over from (\S+), commit (\w+)")
FORMULA = re.compile(r"^    .*$", re.MULTILINE)  # set in, so a block of code
PACKAGED = HERE.parent / "src" / "understudy" / "papers" / SUMMARY


def page(roles: Sequence[Mapping[str, Any]]) -> str:
    """Of one name: a method, an add-on, or both."""
    first, *others = roles
    commands = "\n".join(about["command"] for about in roles)
    parts = [f"# {first['name']}", _for_markdown(first["about"])]
    parts += [_for_markdown(about["about"]) for about in others if about["about"] != first["about"]]
    parts += ["## Run it", f"```\n{commands}\n```"]
    parts += ["## Our numbers, and the published ones", _numbers(first["name"])]
    parts += ["## Settings", *_by_role(roles, _settings)]
    parts += ["## What it takes", *_by_role(roles, _takes)]
    parts += ["## What leaves a client", *_by_role(roles, _sends)]
    parts.append("What it combines with: [the table of all methods](README.md#what-combines-with-what).")
    return "\n\n".join(parts) + "\n"


def _for_markdown(docstring: str) -> str:
    """Settings are marked in its formulas too, where Markdown shows everything as it stands."""
    return FORMULA.sub(lambda block: block[0].replace("``", ""), docstring)


def _by_role(roles: Sequence[Mapping[str, Any]], say: Callable[[Mapping[str, Any]], str]) -> list[str]:
    """With a heading each, where there are two."""
    headed = {"method": "### As a method\n\n", "add-on": "### As an add-on\n\n"}
    return [(headed[about["role"]] if len(roles) > 1 else "") + say(about) for about in roles]


def _numbers(name: str) -> str:
    lines = ["| set-up | accuracy (%) | from |", "|---|--:|---|"]
    ours = [line for one in STUDIES.values() if one.shown and (line := _our_line(one.name, one.shown, name))]
    lines += ours or ["| not measured | | ours |"]
    theirs = [one for one in PRINTED if name in one.figures]
    lines += [f"| {one.setup} | {one.figures[name]} | {one.paper}, {one.place} |" for one in theirs]
    if not theirs:
        lines.append("| none published that we know of in a set-up of ours | | papers |")
    return "\n".join(lines)


def _our_line(study: str, shown: Shown, name: str) -> str:
    """All rows of a method in one study beside each other; nothing where there is no table, or none of it."""
    own = study not in ARTEFACTS
    folder = (HERE / "studies" if own else PAPERS) / study
    table = folder / ("table.json" if own else f"{shown.scale}.json")
    if not table.exists():
        return ""
    found = []
    for row in read_rows(json.loads(table.read_text())):
        match = re.fullmatch(shown.label, row.label)
        if match and shown.called.get(match["method"], match["method"]).lower() == name:
            found.append((match.groupdict().get("more") or "", row))
    if not found:
        return ""
    setup = shown.setup.format(" / ".join(more for more, _ in found))
    rates = [f"{row.rate:g}" for _, row in found if row.rate is not None]
    tuned = f"; rate {' / '.join(rates if len(set(rates)) > 1 else rates[:1])}" if rates else ""
    seeds = len(found[0][1].accuracies)
    figures = " / ".join(row.figure for _, row in found)
    has_page = not own or (folder / "README.md").exists()
    about = f"{folder.name}/README.md" if has_page else "README.md"
    command = f"understudy reproduce {study} --scale {shown.scale}"
    said = f"{setup}{tuned}; {seeds} {'seed' if seeds == 1 else 'seeds'}"
    return f"| {said} | {figures} | [ours](../{folder.parent.name}/{about}), `{command}` |"


@dataclass(frozen=True)
class Row:
    label: str
    rate: float | None
    accuracies: Sequence[float]  # after the last round, between 0 and 1, one per seed

    @property
    def figure(self) -> str:
        mean = f"{100 * statistics.fmean(self.accuracies):.1f}"
        return f"{mean} ± {100 * statistics.stdev(self.accuracies):.1f}" if len(self.accuracies) > 1 else mean


def read_rows(table: Mapping[str, Any]) -> list[Row]:
    return [Row(line.label, line.rate, line.accuracies) for line in findings_of(table).lines]


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


def _takes(about: Mapping[str, Any]) -> str:
    return f"Kinds of record ([what they are](../data-kinds.md)): {taken(about)}."


def _sends(about: Mapping[str, Any]) -> str:
    lines = ["| task | part | kind |", "|---|---|---|"]
    rows = [f"| {task} | {part} | {kind} |" for task, parts in about["sends"].items() for part, kind in parts.items()]
    return "\n".join([*lines, *(rows or ["| | nothing more | |"])])


def by_name() -> dict[str, list[dict[str, Any]]]:
    """All that is registered under a name: as a method first, if it is one."""
    found: dict[str, list[dict[str, Any]]] = {}
    for about in sorted(describe_methods(), key=lambda about: about["role"] != "method"):
        found.setdefault(about["name"], []).append(about)
    return found


def pages() -> dict[str, str]:
    return {name: page(roles) for name, roles in by_name().items()}


def index() -> str:
    lines = [
        "# Methods",
        "",
        "One page per method: what it does, how to run it, our numbers and the published ones.",
        "",
    ]
    for name, (about, *_) in sorted(by_name().items(), key=lambda item: (item[1][0]["role"], item[0])):
        lines.append(f"- [{name}]({name}.md): {about['title']}")
    lines += ["", "## What combines with what", "", combinations()]
    return "\n".join([*lines, "", "## What takes which records", "", kinds_taken(by_name())]) + "\n"


def kinds_taken(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Methods and add-ons down, kinds across; a setting where one is needed."""
    lines = [f"| method | {' | '.join(PLURAL.values())} |", "|---|" + ":-:|" * len(PLURAL)]
    for name, (about, *_) in found.items():
        said = [f"`{about['takes'][kind]}`" if about["takes"].get(kind) else "✓" for kind in KINDS]
        cells = (cell if kind in about["takes"] else "" for kind, cell in zip(KINDS, said, strict=True))
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def networks_and_generators() -> str:
    lines = [f"| | {' | '.join(PLURAL.values())} |", "|---|" + ":-:|" * len(PLURAL)]
    models = [(f"network `{one['name']}`", one["takes"]) for one in describe_models()]
    made = [(f"generator `{one['name']}`", one["makes"]) for one in describe_generators()]
    for name, kinds in (*models, *made):
        lines.append(f"| {name} | {' | '.join('✓' if kind in kinds else '' for kind in KINDS)} |")
    return "\n".join(lines)


KINDS_PAGE = HERE / "data-kinds.md"
KINDS_TABLE = re.compile(r"(<!-- kinds -->\n).*?(<!-- end -->)", re.DOTALL)


def kinds_page() -> str:
    """With its two tables; the rest of it is as written by hand."""
    tables = f"{kinds_taken(by_name())}\n\n{networks_and_generators()}"
    return KINDS_TABLE.sub(lambda place: f"{place[1]}{tables}\n{place[2]}", KINDS_PAGE.read_text())


def combinations() -> str:
    """Methods down, add-ons across."""
    add_ons = [roles[-1] for roles in by_name().values() if roles[-1]["role"] == "add-on"]
    methods = [roles[0] for roles in by_name().values() if roles[0]["role"] == "method"]
    head = ["| method | " + " | ".join(f"`{one['name']}`" for one in add_ons) + " |", "|---|" + ":-:|" * len(add_ons)]
    for about in methods:
        cells = ("✓" if one["name"] in about["joins"] else "" for one in add_ons)
        head.append(f"| `{about['name']}` | " + " | ".join(cells) + " |")
    return "\n".join(head)


def family_table(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """README's table: methods by family, with what most of a family send and then who sends something else."""
    families: dict[str, list[Mapping[str, Any]]] = {}
    for roles in found.values():
        families.setdefault(roles[0]["family"], []).append(roles[0])
    ordered = sorted(families, key=lambda one: (FAMILIES.index(one) if one in FAMILIES else len(FAMILIES), one))
    lines = ["| family | methods | what a client sends in a round |", "|---|---|---|"]
    for family in ordered:
        members = families[family]
        names = ", ".join(f"`{about['name']}`" for about in members)
        added = f" ({'add-on' if len(members) == 1 else 'add-ons'})" if members[0]["role"] == "add-on" else ""
        lines.append(f"| {family}{added} | {names} | {_sent_by(members)} |")
    return "\n".join(lines)


def _sent_by(members: Sequence[Mapping[str, Any]]) -> str:
    by_words: dict[str, list[str]] = {}
    for about in members:
        by_words.setdefault(about["sends_in_words"], []).append(f"`{about['name']}`")
    (usual, _), *others = sorted(by_words.items(), key=lambda item: -len(item[1]))
    return "; ".join([usual, *(f"{', '.join(names)}: {words}" for words, names in others)])


BOARD = re.compile(r"(<!-- scoreboard -->\n).*?(<!-- end scoreboard -->)", re.DOTALL)
TABLE = re.compile(r"(<!-- families -->\n).*?(<!-- end -->)", re.DOTALL)


def readme() -> str:
    """With the table of families between its marks; the rest of it is as written by hand."""
    text = TABLE.sub(lambda place: f"{place[1]}{family_table(by_name())}\n{place[2]}", README.read_text())
    board = scores(ARTEFACTS, PAPERS)
    said = _paragraph(f"{summary(board)} {summary(board, 'paper')}")
    return BOARD.sub(lambda place: f"{place[1]}{said}\n{place[2]}", text)


def settings_page() -> str:
    parts = [
        "# Settings",
        "Every key of a config, its default, and in brackets what there is to choose from. In a file they are YAML; on "
        "the command line write `data.split.alpha=0.01`, or only the last part of the name where no other setting ends "
        "in it: `alpha=0.01`. A key that does not exist is an error. `config.yaml` in a run folder has every value "
        "that was used.",
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


# ---- the papers' tables and figures


def artefact_page(name: str) -> str:
    """Printed and ours at each scale that was run, the verdicts, and what to bear in mind."""
    study = ARTEFACTS[name]
    published = study.published
    assert published is not None
    stored = stored_at(PAPERS, name)
    parts = [f"# {name}", _paragraph(study.about), _paragraph(f"{published.paper}, {published.place}.")]
    scales = ", ".join(f"`--scale {scale}`" for scale in study.scales)
    parts.append(f"```\nunderstudy reproduce {name}\n```\n\nScales: {scales}.")
    parts.append("## Claims\n\n" + _claims(published, stored))
    if causes := likely_causes(published, stored):
        parts.append("## Why a claim may not have held\n\n" + "".join(map(_bullet, causes)).strip())
    for scale, found in stored.items():
        said = told(study, found, scale)
        parts.append(f"## Ours at {'the desk' if scale == 'desk' else 'the scale of the paper'}")
        parts += [markdown_table(table).strip() for table in said.tables.get("table", ())]
        parts += [
            f"![{_first_line(study.about)}]({file.name})" for file in sorted((PAPERS / name).glob(f"{scale}-*.png"))
        ]
        if found.notes:
            parts.append("".join(map(_bullet, found.notes)).strip())
        parts.append(_paragraph(f"Made by {_makers(found)}."))
    if not stored:
        parts.append("Not run yet.")
    if published.remarks or study.more:
        parts.append("## Bear in mind\n\n" + "".join(map(_bullet, [*published.remarks, *study.more])).strip())
    return "\n\n".join(parts) + "\n"


def _paragraph(words: str) -> str:
    return textwrap.fill(words, 120, break_on_hyphens=False)


def _first_line(words: str) -> str:
    return words.splitlines()[0].rstrip(".")


def _claims(published: Published, stored: Mapping[Scale, Findings]) -> str:
    heads = [
        "claim",
        "in print",
        *(f"at the {scale}" if scale == "desk" else "at the paper's scale" for scale in stored),
    ]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    by_scale = {scale: published.verdicts(found, scale) for scale, found in stored.items()}
    for at, claim in enumerate(published.claims):
        printed = in_print(claim, published.cells)
        cells = [claim.sentence, "–" if printed.word == "not run" else printed.word]
        cells += [f"**{found[at].word}**: {found[at].because}" for found in by_scale.values()]
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines)


def likely_causes(published: Published, stored: Mapping[Scale, Findings]) -> list[str]:
    """Of each claim that does not hold at some scale."""
    by_scale = [published.verdicts(found, scale) for scale, found in stored.items()]
    failed = [any(found[at].word == "does not hold" for found in by_scale) for at in range(len(published.claims))]
    return [
        f"*{claim.sentence}* {claim.likely_cause}"
        for claim, lost in zip(published.claims, failed, strict=True)
        if lost and claim.likely_cause
    ]


def _makers(found: Findings) -> str:
    return maker_in_words(ran_by(found, "a version that did not note it"))


def maker_in_words(made_by: str) -> str:
    """Numbers that were carried over have the folder of the study they come from, which is in the history only."""
    return CARRIED_OVER.sub(r"an earlier study, \1 as of commit \2", made_by)


ABOUT_PAPERS = (
    "Every table and figure of the four papers by its name: what it claims, what was printed, what we got. "
    "`understudy reproduce NAME` repeats one (`--plan` tells first what it costs, `--only TEXT` runs only the lines "
    "with this text in their name, `--draw` shows what is there and runs nothing), `--scale paper` with every "
    "number as printed. Verdicts are computed from stored numbers: a claim **holds** if it is borne out by more "
    "than the spread over seeds, **does not hold** if it is contradicted by more than that, and is **not "
    "settled** in between. With one seed, one point of accuracy counts as the spread."
)


def papers_page() -> str:
    board = scores(ARTEFACTS, PAPERS)
    return (
        "\n\n".join(
            [
                "# The papers' tables and figures",
                _paragraph(ABOUT_PAPERS),
                _paragraph(f"{summary(board)} {summary(board, 'paper')}"),
                markdown_table(scoreboard_table(board)).strip(),
            ]
        )
        + "\n"
    )


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
    (HERE / "api.md").write_text(api_page())
    README.write_text(readme())
    KINDS_PAGE.write_text(kinds_page())
    for study in study_folders():
        (study / "README.md").write_text(study_page(study))
    for name in ARTEFACTS:
        (PAPERS / name).mkdir(parents=True, exist_ok=True)
        (PAPERS / name / "README.md").write_text(artefact_page(name))
    (PAPERS / "README.md").write_text(papers_page())
    write_summary(PACKAGED, scores(ARTEFACTS, PAPERS))
    print(f"{len(found)} pages in {folder.name}/, settings.md, api.md and the table of README")


if __name__ == "__main__":
    main()
