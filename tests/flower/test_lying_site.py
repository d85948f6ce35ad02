"""An admitted site, with its key, its node and TLS, that sends what it likes: real processes from end to end."""

from pathlib import Path

import pytest
from federation_of_processes import Federation

from understudy.engines.flower.proxy import nginx

pytestmark = [
    pytest.mark.slow,  # seven rounds of real processes
    pytest.mark.skipif(nginx() is None, reason="nginx is not installed"),
]

SITES = ("client-0", "client-1", "client-2")
LIAR = "client-2"
WHY = {
    1: "its reply holds more, which is not declared",
    2: "cannot be read",
    3: "a part whose name is too long or cannot be printed",
    4: "its change is below 0",
    5: "its reply goes beyond ±1e+15 in change",
    6: "an impossible version of its memory",
    7: "2000 privacy charges",
}


def test_an_admitted_site_that_lies_fails_alone_and_every_round_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = Federation(tmp_path, SITES)
    federation.write_config(
        data={"name": "digits", "clients": 3, "limit": 60},
        model={"name": "softmax"},
        method={"name": f"{Path(__file__).parent / 'rude.py'}:Rude", "rounds": 8},
        engine={"name": "flower", "timeout": 60},
    )
    try:
        for site in SITES:
            with monkeypatch.context() as patched:
                if site == LIAR:
                    patched.setenv("RUDE", "yes")
                federation.start_site(site)
        federation.wait_for_sites(300)
        federation.start_server()
        federation.finish(400)
    finally:
        federation.stop()
    lines = federation.lines()
    for round, why in WHY.items():
        (failure,) = lines[round]["failures"]
        assert failure["client"] == LIAR
        assert why in failure["why"], round
        assert (lines[round]["clients"], lines[round]["undone"]) == (2, False)
    assert lines[8]["failures"] == []
    assert lines[8]["total"] == 7 * 2 + 3
    assert "\x1b[2J" not in federation.log("server") + (tmp_path / "run" / "metrics.jsonl").read_text()
