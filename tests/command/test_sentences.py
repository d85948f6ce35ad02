"""What a stranger types wrong, and files that are not what they should be: one sentence each, and exit code 2."""

import errno
import json
import shutil
from pathlib import Path
from unittest.mock import patch

import pytest

from in_a_fork import Done, understudy
from understudy.runs import remote as serving  # noqa: F401 - imported once here, and not in every copy

QUICK = ["data.limit=60", "clients=2", "model=softmax", "rounds=1", "engine=inline"]
PRIVATE = ["method.name=dp-fedavg", "privacy={epsilon: 80, delta: 1e-4, records: 20}", "method.noise=null"]
BINARY = bytes(range(256))


def refused(*words: str, cwd: Path) -> Done:
    done = understudy(*words, cwd=cwd, code=2)
    assert done.stderr.startswith("understudy: "), done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout
    return done


SETTINGS = [
    ("model.width=1000000000", "model: small-convnet is too large for any memory"),
    ("model.width=1000000", "model: small-convnet would have 9,000,"),
    ("rounds=true", "'method': rounds must be a number, not true or false"),
    ("seed=false", "seed must be a number, not true or false"),
    ("data.clients=true", "'data': clients must be a number"),
    ("method.local.epochs=true", "'method.local': epochs must be a number"),
    ("method.local.batch=1000000000", "'method.local.batch'"),
    ("engine.workers=100000", "'engine.workers'"),
    ("rounds=2024-13-45", "The value of 'rounds' is not valid YAML: month must be in 1..12"),
    ("rounds=0x_", "The value of 'rounds' is not valid YAML"),
    ("data=[]", "'data' must be a name or keys and values"),
]


@pytest.mark.parametrize(("change", "sentence"), SETTINGS, ids=[change for change, _ in SETTINGS])
def test_a_setting_that_cannot_be(change: str, sentence: str, tmp_path: Path) -> None:
    assert sentence in refused("run", "digits-skewed", change, cwd=tmp_path).stderr
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes("# Grüße\nmethod: fedavg\n".encode("latin-1"))
    (tmp_path / "deep.yaml").write_text("a: " + "[" * 5000)
    assert "latin.yaml is not text in UTF-8" in refused("run", "latin.yaml", cwd=tmp_path).stderr
    assert "deep.yaml is not valid YAML" in refused("run", "deep.yaml", cwd=tmp_path).stderr
    (tmp_path / "twice.yaml").write_text("seed: 1\nmethod: {rounds: 1, rounds: 2}\n")
    assert "the key 'rounds' appears twice" in refused("run", "twice.yaml", cwd=tmp_path).stderr
    (tmp_path / "odd.yaml").write_text("method: {3: 4}\n")
    assert "method has the key 3, which is not the name" in refused("run", "odd.yaml", cwd=tmp_path).stderr
    (tmp_path / "itself.yaml").write_text("data: {labels: &x [*x]}\n")
    assert "data.labels.0 is nested too deeply" in refused("run", "itself.yaml", cwd=tmp_path).stderr
    policy = refused("run", "digits-skewed", *QUICK, "policy=latin.yaml", cwd=tmp_path)
    assert "cannot work without its policy" in policy.stderr


@pytest.mark.parametrize("content", [b"hello world\n", BINARY, b"ssh-rsa AAAA me\n", b""])
def test_a_file_that_is_no_key_admits_nobody(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "north.pub").write_bytes(content)
    assert "north.pub is not a site's public key" in refused("keys", "admit", "north.pub", cwd=tmp_path).stderr
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize("words", [["server", "afile/keys"], ["client", "north", "--keys", "afile/keys"]])
def test_keys_where_nothing_can_be_written(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "afile").touch()
    assert "cannot be used (Not a directory)" in refused("keys", *words, cwd=tmp_path).stderr


def test_keys_on_a_full_disk_leave_nothing_in_the_way(tmp_path: Path) -> None:
    from understudy.engines.flower import keys

    write = keys._write

    def full(file: Path, content: bytes, *, secret: bool) -> None:
        write(file, content[:10], secret=secret)
        if file.name == "ca.crt":
            raise OSError(errno.ENOSPC, "No space left on device")

    with patch.object(keys, "_write", full):
        assert "No space left on device" in refused("keys", "server", "keys", cwd=tmp_path).stderr
    understudy("keys", "server", "keys", cwd=tmp_path)


@pytest.mark.parametrize("host", ["", "bad host", "http://a", "ü.example"])
def test_a_host_that_nobody_can_dial(host: str, tmp_path: Path) -> None:
    assert f"--host {host}" in refused("keys", "server", "keys", "--host", host, cwd=tmp_path).stderr


def test_too_many_sites_for_one_machine(tmp_path: Path) -> None:
    words = ["run", "digits-skewed", "model=softmax", "clients=51", "--engine", "flower"]
    assert "at most 50 sites, not 51; write engine=workers" in refused(*words, cwd=tmp_path).stderr


# ---- run folders


@pytest.fixture(scope="module")
def private_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("runs")
    understudy("run", "digits-skewed", *QUICK, *PRIVATE, "--out", "run", cwd=at)
    return at / "run"


def copied(run: Path, to: Path) -> Path:
    shutil.copytree(run, to / "run")
    return to / "run"


OTHER_MAKES = ['{"a": 1}', '{"clients": [], "charges": 5}', '{"clients": {"a": [{"task": 1}]}}', "[1]", "{", "[" * 5000]


@pytest.mark.parametrize("content", OTHER_MAKES, ids=lambda text: text[:20])
def test_a_ledger_of_another_make(private_run: Path, content: str, tmp_path: Path) -> None:
    run = copied(private_run, tmp_path)
    (run / "releases.jsonl").unlink(missing_ok=True)
    (run / "ledger.json").write_text(content)
    for json_too in ([], ["--json"]):
        assert "run/ledger.json" in refused("privacy", "ledger", "run", *json_too, cwd=tmp_path).stderr


ODD_CHARGES = [b'{"charge": 5}', b'{"charge": {"x": 1}}', b"[1]", b'{"closed": 3}', b'{"closed": [1, 2]}', BINARY]


@pytest.mark.parametrize("line", ODD_CHARGES, ids=[str(line)[:20] for line in ODD_CHARGES])
def test_charges_of_another_make_leave_no_budget(private_run: Path, line: bytes, tmp_path: Path) -> None:
    run = copied(private_run, tmp_path)
    (run / "clients/client-1/charges.jsonl").write_bytes(line + b"\n")
    said = refused("privacy", "ledger", "run", cwd=tmp_path).stderr
    assert "client-1/charges.jsonl, line " in said
    assert "what was spent is unknown" in said


@pytest.mark.parametrize(
    ("file", "content", "command"),
    [
        ("metrics.jsonl", b"[1]\n", "run --resume --out run"),
        ("metrics.jsonl", BINARY, "run --resume --out run"),
        ("metrics.jsonl", b'{"a": 1}\n', "compare run"),
        ("run-id", BINARY, "run --resume --out run"),
        ("run-id", b"../../elsewhere", "run --resume --out run"),
        ("config.yaml", BINARY, "run --resume --out run"),
        ("config.yaml", b"{data: {name: a}, method: {name: a, rounds: 1}, problem: 5}", "compare run"),
        ("model.safetensors", b"", "measure run"),
        ("model.safetensors", json.dumps({"a": 1}).encode(), "measure run"),
    ],
)
def test_a_damaged_file_of_a_run_is_named(
    private_run: Path, file: str, content: bytes, command: str, tmp_path: Path
) -> None:
    (copied(private_run, tmp_path) / file).write_bytes(content)
    assert f"run/{file}" in refused(*command.split(), cwd=tmp_path).stderr


# ---- told, since somebody may mean it


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("rounds=0", "method.rounds is 0: the run ends after its opening."),
        ("method.local.epochs=0", "method.local has neither epochs nor steps: the clients do not train."),
    ],
)
def test_a_run_that_learns_nothing_says_so(change: str, sentence: str, tmp_path: Path) -> None:
    assert sentence in understudy("run", "digits-skewed", *QUICK, change, cwd=tmp_path).stderr.splitlines()


# ---- a site


FEDERATION = "data: {sites: {north: null, south: null}, shape: [1, 8, 8], classes: 10}\nmodel: softmax\n"


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ("federation.yaml", "nrth"),
        ("federation.yaml", "../north"),
        ("digits-skewed", "north"),
        ("digits-skewed", "client-10"),
        ("digits-skewed", "client-x"),
    ],
)
def test_a_sites_name_is_checked_before_anything_is_dialled_or_made(config: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "federation.yaml").write_text(FEDERATION)
    said = refused("client", config, "--name", name, "--insecure", "--server", "127.0.0.1:1", cwd=tmp_path).stderr
    assert "no site" in said or "cannot name a site" in said
    assert [path.name for path in tmp_path.iterdir()] == ["federation.yaml"]


def test_a_site_may_be_listed_by_an_override(tmp_path: Path) -> None:
    (tmp_path / "federation.yaml").write_text(FEDERATION)
    words = ["client", "federation.yaml", "data.sites={east: null}", "--keys", "none", "--name"]
    assert "There is no key none/east" in refused(*words, "east", cwd=tmp_path).stderr
    assert "it has north, south, east." in refused(*words, "west", cwd=tmp_path).stderr


def test_keys_are_for_their_owner_only(tmp_path: Path) -> None:
    understudy("keys", "server", "at-server", cwd=tmp_path)
    understudy("keys", "client", "north", "--keys", "at-north", cwd=tmp_path)
    understudy("keys", "admit", "at-north/north.pub", "--keys", "new", cwd=tmp_path)
    for folder in ("at-server", "at-north", "new"):
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700
