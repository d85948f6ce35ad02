"""The page on Python: its snippets run one after another, its command is one."""

import re
import shlex
from pathlib import Path

from in_a_fork import in_a_fork, understudy

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_snippets_run_one_after_another_and_print_what_they_say(tmp_path: Path) -> None:
    assert len(SNIPPETS) == 9

    def work() -> None:
        words: dict[str, object] = {"__name__": "__main__"}
        for snippet in SNIPPETS:
            exec(snippet, words)
        own, found = words["own"], words["found"]
        assert own.predict(words["pixels"][:3]).shape == (3,)  # type: ignore[attr-defined, index]
        assert set(found.best) == {"lr"}  # type: ignore[attr-defined]

    done = in_a_fork(work, tmp_path)
    assert done.returncode == 0, done.stderr
    *_, share, rounds, error = done.stdout.strip().splitlines()
    assert float(share) > 0.15
    assert rounds == "4"
    assert f"# {error}" in PAGE
    assert (tmp_path / "curves.png").exists()
    assert (tmp_path / "run.html").exists()


def test_its_command_runs(tmp_path: Path) -> None:
    (command,) = re.findall(r"^understudy (.*)$", PAGE, re.MULTILINE)
    done = understudy(*shlex.split(command), "limit=100", "clients=2", cwd=tmp_path)
    assert "◀ chosen" in done.stdout
    assert len((tmp_path / "runs.csv").read_text().splitlines()) == 7
