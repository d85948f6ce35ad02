"""A run folder that came from somebody else: HTML in every text that a page could show."""

import json
from pathlib import Path

import torch
import yaml

from understudy.data.examples import Examples
from understudy.runs.folder import RunFolder
from written_runs import GREY, change_config, keep, line, write_run

MARK = '</script><script>window.hurt=1</script><img src=x onerror="window.hurt=1">\'`{{7*7}}'


def write_hostile_run(root: Path) -> Path:
    folder = write_run(root / "<b>run<b>", (0.1, 0.5), method=f"mine.py:{MARK}", add=[MARK])
    change_config(folder, version=MARK, seed=MARK, device=MARK, data={"name": MARK, MARK: MARK})
    failure = {"client": MARK, "why": MARK}
    lines = [
        line(0, 0.1),
        line(
            1, 0.5, failed=1, failures=[failure], bytes_by_client={MARK: [5, 6], "north": [MARK, None]},
            seconds_by_client={MARK: MARK, "north": 2.0}, recall=[0.5, MARK, None], calibration_error=MARK,
            remarks=[MARK], **{MARK: 3.5},
        ),
    ]  # fmt: skip
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    clients = {MARK: {"records": 3, "held_out": 0, "classes": {"0": 3}}}
    RunFolder(folder).write_json("holdings.json", {"classes": [MARK, "1", "2"], "clients": clients})
    RunFolder(folder).write_json("machine.json", [{MARK: MARK, "cores": 2}])
    keep(folder, {"north": Examples(torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1]))})
    sent = {"task": MARK, "part": MARK, "kind": MARK, "releases": 1, "bytes": 1, "covered": 0, "mechanism": MARK}
    RunFolder(folder).write_json("ledger.json", {"epsilon": None, "unit": MARK, "clients": {MARK: [sent]}})
    assert yaml.safe_load((folder / "config.yaml").read_text())["problem"]["classes"] == GREY.classes
    return folder
