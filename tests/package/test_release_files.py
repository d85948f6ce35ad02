"""What a release carries besides code, and what an index makes of the README."""

import re
import runpy
from pathlib import Path

import pytest
import yaml

import understudy

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SETUP = runpy.run_path(str(ROOT / "setup.py"))
SOURCE = "https://example.org/owner/understudy"


def linked(text: str) -> list[str]:
    """Targets of links and pictures, those in code blocks left out."""
    return re.findall(r"\]\(([^)]+)\)", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))


def shown(text: str, source: str = SOURCE) -> str:
    found: str = SETUP["for_an_index"](text, source, "v1")
    return found


def test_links_and_pictures_lead_to_the_repository_at_the_tag() -> None:
    text = "See [the *audit*](docs/audit.md#attacks).\n\n![curves](docs/a.png) [elsewhere](https://example.com)"
    assert shown(text) == (
        f"See [the *audit*]({SOURCE}/blob/v1/docs/audit.md#attacks).\n\n"
        f"![curves]({SOURCE}/raw/v1/docs/a.png) [elsewhere](https://example.com)"
    )


def test_without_an_address_links_are_text_and_pictures_are_left_out() -> None:
    assert shown("See [the audit](docs/audit.md).![curves](docs/a.png)", source="") == "See the audit."


def test_code_is_not_taken_for_links() -> None:
    text = "```python\nx = rows[0](1)\n```\n[a](b.md)"
    assert shown(text) == f"```python\nx = rows[0](1)\n```\n[a]({SOURCE}/blob/v1/b.md)"


@pytest.mark.parametrize("source", ["", SOURCE])
def test_no_link_of_the_readme_leads_nowhere(source: str) -> None:
    targets = linked(README)
    assert len(targets) > 10
    assert [path for path in targets if "://" not in path and not (ROOT / path.partition("#")[0]).exists()] == []
    assert [path for path in linked(shown(README, source)) if not path.startswith(("https://", "#"))] == []


def test_the_version_is_the_same_everywhere() -> None:
    assert SETUP["version"]() == understudy.__version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == understudy.__version__
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == understudy.__version__


def test_only_the_job_that_publishes_may_prove_who_it_is() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text())["jobs"]
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == ["publish"]
    assert jobs["publish"]["needs"] == "build"


def test_the_workflow_runs_what_every_change_must_pass() -> None:
    steps = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]["ci"]["steps"]
    assert steps[-1] == {"run": ".ci/run"}


@pytest.mark.parametrize(
    "file", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda file: file.stem
)
def test_issue_forms_have_what_github_asks_for(file: Path) -> None:
    form = yaml.safe_load(file.read_text())
    assert {"name", "description", "body"} <= form.keys()
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields) > 0
    assert all(field["attributes"]["label"] for field in fields)
