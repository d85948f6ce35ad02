import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console

from understudy.data.skew import ClientSkew, Skew
from understudy.runs.compare import compare
from understudy.runs.leak import Leak
from understudy.view.listings import (
    flat,
    print_data_sets,
    print_generators,
    print_methods,
    print_models,
    print_skew,
    shape_words,
)
from understudy.view.numbers import duration, megabytes, percent, size
from understudy.view.tables import print_comparison, print_summary
from written_runs import write_run


def printed(show: Any, *given: Any, width: int = 80) -> list[str]:
    """What goes into a pipe: no terminal, so no control characters, and nothing wider than the width."""
    file = io.StringIO()
    show(*given, console=Console(file=file, width=width))
    text = file.getvalue()
    assert "\x1b" not in text
    lines = [line.rstrip() for line in text.splitlines()]
    assert max(cell_len(line) for line in lines) <= width
    return lines


def test_numbers_are_written_for_people() -> None:
    assert (percent(0.96389), percent(1.0), percent(None)) == ("96.4 %", "100.0 %", "–")
    assert [megabytes(n) for n in (0, 160_920, 12_345_678, 3e9)] == ["0.0", "0.16", "12.3", "3,000.0"]
    assert [size(n) for n in (51, 33_280, 2_400_000, 28e6, 5e9)] == ["51 B", "33 kB", "2.4 MB", "28 MB", "5.0 GB"]
    assert [duration(s) for s in (0, 75, 3661, -3)] == ["0:00", "1:15", "1:01:01", "0:00"]


def test_a_comparison_says_in_numbers_and_notes_what_happened(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "a", [0.1, 0.5, 0.6]),
        write_run(tmp_path / "b", [0.1, 0.8, 0.9], method="feddm", sent=100_000),
    ]
    lines = printed(print_comparison, compare(runs, after=(1,)))
    assert lines[1].split() == ["run", "1", "%", "%", "81.0", "up", "down", "ε", "%", "s"]
    unknown = ["–", "not", "audited", "6.0"]
    assert lines[3].split() == ["fedavg", "50.0", "60.0", "60.0", "–", "2.00", "2.00", *unknown]
    assert lines[4].split() == ["feddm", "80.0", "90.0", "90.0", "2", "0.20", "0.20", *unknown]
    notes = " ".join(lines[5:])
    assert "to 81.0: rounds until the accuracy first reaches 81.0 % (90 % of the best run" in notes
    assert "ε –: no privacy guarantee." in notes
    assert "not audited: `understudy audit DIR` measures what a run gave away." in notes


def test_what_an_audit_found_stands_beside_the_accuracy(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", [0.1, 0.5, 0.6])
    leak = Leak("distance", 0.171, 0.152, 0.19, 0.012, 0.63, 0.5, 0.4, 0.9)
    content = {"leak": vars(leak), "share_sent": 0.25, "rounds": 2}
    (run / "audit.json").write_text(json.dumps(content))
    lines = printed(print_comparison, compare([run], target=0.5))
    assert lines[3].split()[6:] == ["–", "25.0", "17.1", "(15–19)", "6.0"]
    notes = " ".join(lines[4:])
    assert "1.2 % where nothing was sent" in notes
    assert "not audited" not in notes
    (run / "audit.json").write_text(json.dumps({**content, "rounds": 1}))  # it went on after its audit
    assert compare([run])[0].leak is None


def test_every_number_of_a_row_stands_under_its_own_heading(tmp_path: Path) -> None:
    # Best in round 1, worse in round 2; more up than down; an ε.
    run = write_run(tmp_path / "a", [0.1, 0.8, 0.6], sent=1_000_000, epsilon=1.25)
    (row,) = compare([run], target=0.7, after=(1, 2))
    shown = printed(print_comparison, [replace(row, bytes_down=500_000)])[3]
    assert shown.split() == ["fedavg", "80.0", "60.0", "60.0", "80.0", "1", "2.00", "0.50", "1.25", "≤", "ε", "6.0"]


def test_numbers_stand_right_under_each_other(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "a", sent=1_000_000), write_run(tmp_path / "b", sent=300_000_000)]
    lines = printed(print_comparison, compare(runs, target=0.4))
    small, large = lines[3], lines[4]
    assert small.index("1.00") + 4 == large.index("300.0") + 5


def test_what_is_alike_in_all_runs_has_no_column_and_a_given_target_no_explanation(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", epsilon=2.0)
    lines = printed(print_comparison, compare([run], target=0.5))
    assert "rounds" not in lines[1]
    assert "failed" not in lines[1]
    assert "2.00" in lines[3]
    assert not any("guarantee" in line or "--target" in line for line in lines)


def test_unfinished_and_failing_runs_say_so(tmp_path: Path) -> None:
    whole = write_run(tmp_path / "a")
    short = write_run(tmp_path / "b", [0.1, 0.2, 0.3], failed=2)
    (short / "metrics.jsonl").write_text((short / "metrics.jsonl").read_text().splitlines()[0] + "\n")
    lines = printed(print_comparison, compare([whole, short]))
    assert lines[1].split()[:2] == ["run", "rounds"]
    assert lines[4].split()[2] == "0/2"
    assert lines[4].split()[-1] == "2"


def test_long_names_are_broken_before_anything_runs_over_the_edge(tmp_path: Path) -> None:
    adds = ["fedssyn", "fedcog", "secure"]
    runs = [write_run(tmp_path / f"{n}-with-a-long-name", sent=10**9, add=adds) for n in range(2)]
    printed(print_comparison, compare(runs, after=(1, 3)))
    printed(print_comparison, compare(runs, after=(1, 3)), width=70)


def test_square_brackets_in_names_are_no_markup(tmp_path: Path) -> None:
    lines = printed(print_comparison, compare([write_run(tmp_path / "a", method="[bold]mine")]))
    assert lines[3].startswith("[bold]mine")


METHOD = {
    "name": "feddm",
    "role": "method",
    "command": "understudy run digits-skewed method=feddm",
    "about": "FedDM: a paper,\nwhich is good.\n\n    x = y\n    y = z",
    "reference": [
        {"setting": "server.lr", "default": 0.01, "meaning": "of SGD"},
        {"setting": "server.clip", "default": None, "meaning": ""},
    ],
    "sends": {"FedDM.distil": {"x": "examples", "weight": "statistics"}},
    "joins": ["fedssyn"],
    "takes": {"image": "", "vector": "dsa=false"},
}
ALL = dict.fromkeys(("image", "vector", "sequence", "tokens"), "")
ADD_ON = {**METHOD, "name": "fedcog", "role": "add-on", "sends": {}, "joins": [], "reference": [], "takes": ALL}


def test_methods_are_listed_with_the_kinds_that_they_send() -> None:
    lines = printed(print_methods, [METHOD, ADD_ON], False)
    assert lines[2].split() == ["fedcog", "nothing", "more", "all", "–"]
    assert lines[6].split() == ["feddm", "examples,", "statistics", "image,", "vector*", "fedssyn"]
    assert len(lines) == 11


def test_more_than_three_that_join_are_counted_and_only_named_for_one_method() -> None:
    three, four = ({**METHOD, "joins": list("abcd")[:many]} for many in (3, 4))
    lines = printed(print_methods, [three, four, {**ADD_ON, "joins": list("abcd")}], False)
    assert lines[2].split()[4:] == ["4", "methods"]
    assert [lines[at].split()[5:] for at in (6, 7)] == [["a,", "b,", "c"], ["4", "add-ons"]]
    whole = printed(print_methods, [four], True)
    assert "joins a, b, c, d" in whole
    assert "takes image, vector (with dsa=false)" in whole


def test_one_method_shows_every_setting_as_it_is_typed_and_each_part_sent() -> None:
    whole = printed(print_methods, [METHOD], True)
    assert whole[1:5] == ["FedDM: a paper, which is good.", "", "    x = y", "    y = z"]
    lines = [line.split() for line in whole]
    assert ["server.lr", "0.01", "of", "SGD"] in lines
    assert ["server.clip", "null"] in lines
    assert ["FedDM.distil", "weight", "statistics"] in lines
    assert "Run it: understudy run digits-skewed method=feddm" in whole
    assert flat({"a": {}, "b": True}) == [("a", "{}"), ("b", "true")]


def test_an_add_on_without_settings_that_sends_nothing_says_so() -> None:
    assert any("nothing of its own leaves a client" in line for line in printed(print_methods, [ADD_ON], True))


def test_networks_show_their_parameters_by_input_and_their_settings() -> None:
    width = {"setting": "width", "default": 3, "meaning": "channels"}
    one = {"name": "net", "about": "One layer.", "parameters": {"8×8 grey": 650, "32×32 colour": None}}
    lines = [line.split() for line in printed(print_models, [{**one, "reference": [width]}])]
    assert ["net", "650", "–", "One", "layer."] in lines
    assert ["net", "width", "3", "channels"] in lines


def test_generators_are_listed_and_shown_with_their_settings() -> None:
    one = {"name": "vae", "about": "A β-VAE.", "reference": [{"setting": "lr", "default": 0.1, "meaning": "of Adam"}]}
    one["makes"] = ["image", "vector"]
    assert ["vae", "image,", "vector", "A", "β-VAE."] in [line.split() for line in printed(print_generators, [one])]
    assert ["lr", "0.1", "of", "Adam"] in [line.split() for line in printed(print_generators, [one], True)]


def test_data_sets_say_whether_they_are_here() -> None:
    shared = {"classes": 10, "records": (50_000, 10_000), "origin": "its home"}
    rows = [
        {"name": "digits", "shape": (1, 8, 8), "here": True, **shared},
        {"name": "cifar10", "shape": (3, 32, 32), "here": False, **shared},
    ]
    lines = printed(print_data_sets, rows)
    assert lines[2].split() == ["digits", "yes", "8×8", "10", "50,000", "10,000", "its", "home"]
    assert lines[3].split()[:3] == ["cifar10", "no", "32×32×3"]
    assert shape_words((5,)) == "5"


def test_skew_lists_clients_and_means() -> None:
    clients = tuple(ClientSkew(f"client-{n}", 10 * n, 0, n, 0.0, float(n), 0.5) for n in range(40))
    skew = Skew(clients, (), (), 7800, 1, 0, 390, 30.0, 20.5, 0.25, 0.5, 2.3)
    lines = printed(print_skew, skew)
    assert lines[3].split() == ["client-0", "0", "0", "0", "0.00", "0.0", "0.50"]
    assert not any(line.startswith("client-30") for line in lines)
    assert any(line.split() == ["all,", "or", "mean", "7,800", "0", "20.5", "0.25", "–", "0.50"] for line in lines)
    assert "The first 30 are listed; --json has all." in lines


def test_the_end_of_a_run_is_said_in_a_few_lines() -> None:
    summary = {
        "accuracy": 0.964,
        "best_accuracy": None,
        "rounds": 5,
        "bytes_up": 160_920,
        "bytes_down": 2_201_200,
        "epsilon": None,
        "failed": 3,
        "seconds": 75.0,
    }
    lines = printed(print_summary, Path("runs/a"), summary)
    assert lines[0].split(maxsplit=1) == ["accuracy", "96.4 % after round 5, best –"]
    assert lines[1].split(maxsplit=1) == ["sent", "161 kB up, 2.2 MB down"]
    assert lines[2].split(maxsplit=1) == ["privacy", "no guarantee"]
    assert lines[-1].split() == ["folder", "runs/a"]
    with_deaths = printed(print_summary, Path("runs/a"), {**summary, "workers_died": 4, "lost": ["client-3"]})
    said = "4 died, their work was repeated; client-3 still failed"
    assert with_deaths[-2].split(maxsplit=1) == ["workers", said]
