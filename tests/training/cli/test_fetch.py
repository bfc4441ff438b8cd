"""`headlight-train fetch` with the real client of the hub, against a hub on this machine."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from model.checkpoint.hub_folder import ORIGIN
from model.files import CONFIG, WEIGHTS
from tests.builders import tiny_checkpoint
from tests.families import save_family
from tests.hub_stand_in import Hub, files_of, run_hub

ROOT = Path(__file__).parents[3]
NAME = "people/film"
LATER = "; then copy the folder here and give its path"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_family(tmp_path_factory.mktemp("family") / "film", "distilbert")


@pytest.fixture
def hub() -> Iterator[Hub]:
    with run_hub() as running:
        yield running


def fetch(
    hub: Hub | str, tmp_path: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs the command as a user does."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return subprocess.run(
        [sys.executable, "-m", "training", "fetch", *arguments, "--output", str(tmp_path / "out")],
        cwd=ROOT,
        env={
            **clean,
            "HF_ENDPOINT": hub if isinstance(hub, str) else hub.url,
            "HF_HOME": str(tmp_path / "home"),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def refused(done: subprocess.CompletedProcess[str], tmp_path: Path) -> str:
    """The message of a command that failed and left nothing."""
    assert (done.returncode, done.stdout) == (1, "")
    assert not (tmp_path / "out").exists()
    *_, last = done.stderr.splitlines()
    assert last.startswith("headlight-train: ")
    return last.removeprefix("headlight-train: ")


def test_a_folder_comes_whole_from_one_commit(hub: Hub, folder: Path, tmp_path: Path) -> None:
    surplus = {"README.md": b"# Film", "pytorch_model.bin": b"pickled", "onnx/model.onnx": b"x"}
    commit = hub.add(NAME, {**files_of(folder), **surplus})

    done = fetch(hub, tmp_path, NAME)

    assert done.stderr == ""
    assert done.stdout == f"hf:{NAME}@main is commit {commit}\ncheckpoint: {tmp_path / 'out'}\n"
    found = files_of(tmp_path / "out")
    assert json.loads(found.pop(ORIGIN)) == {"name": NAME, "revision": "main", "commit": commit}
    assert found == files_of(folder)
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == ["out"]
    assert all(f"/resolve/{commit}/" in path for path in hub.asked if "/resolve/" in path)

    # It is there, so nothing but the commit is asked for.
    before = len(hub.downloads())
    again = fetch(hub, tmp_path, NAME, "--revision", commit)
    assert (again.returncode, again.stderr) == (0, "")
    assert len(hub.downloads()) == before

    # Another commit never replaces it.
    other = hub.add(NAME, {**files_of(folder), "vocab.txt": b"x"})
    done = fetch(hub, tmp_path, NAME)
    assert done.returncode == 1
    assert done.stderr == (
        f"headlight-train: {tmp_path / 'out'}: is there already, and is not {NAME}@{other}: "
        "choose another\n"
    )
    assert files_of(tmp_path / "out").keys() == {*found, ORIGIN}


def test_a_branch_and_a_token(hub: Hub, folder: Path, tmp_path: Path) -> None:
    hub.add(NAME, {"README.md": b""})
    commit = hub.add(NAME, files_of(folder), branch="refs/pr/2")
    hub[NAME].token = "hf_right"

    message = refused(fetch(hub, tmp_path, NAME, "--revision", "refs/pr/2"), tmp_path)
    assert message == (
        f"hf:{NAME}@refs/pr/2: the hub shows no model of this name: check the name, or set "
        "HF_TOKEN if it is private"
    )

    done = fetch(hub, tmp_path, f"hf:{NAME}@refs/pr/2", HF_TOKEN="hf_right")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"hf:{NAME}@refs/pr/2 is commit {commit}\n")


def test_a_cut_download_goes_on(hub: Hub, folder: Path, tmp_path: Path) -> None:
    hub.add(NAME, files_of(folder))
    hub[NAME].cut[WEIGHTS] = 2

    done = fetch(hub, tmp_path, NAME)

    assert done.returncode == 0, done.stderr
    assert hub.downloads().count(WEIGHTS) == 3
    assert (tmp_path / "out" / WEIGHTS).read_bytes() == (folder / WEIGHTS).read_bytes()


def test_a_wrong_checksum_is_refused(hub: Hub, folder: Path, tmp_path: Path) -> None:
    hub.add(NAME, files_of(folder))
    for name, kind in ((WEIGHTS, "SHA-256"), (CONFIG, "SHA-1")):
        hub[NAME].wrong = {name}
        assert refused(fetch(hub, tmp_path, NAME), tmp_path) == (
            f"hf:{NAME}@main: {name} does not match its {kind} on the hub: it was changed on its "
            "way; fetch it again"
        )
    # What is right is kept for the next try.
    hub[NAME].wrong = set()
    assert fetch(hub, tmp_path, NAME).returncode == 0


def test_a_broken_hub_leaves_nothing_that_serves(hub: Hub, folder: Path, tmp_path: Path) -> None:
    hub.add(NAME, files_of(folder))
    hub[NAME].gone = {WEIGHTS}

    message = refused(fetch(hub, tmp_path, NAME), tmp_path)
    assert message.startswith(f"hf:{NAME}@main: a file of the commit is not there: ")

    hub[NAME].gone = set()
    asked = len(hub.asked)
    assert fetch(hub, tmp_path, NAME).returncode == 0
    # Small files were there already.
    assert [
        path
        for path in hub.asked[asked:]
        if path.startswith("GET") and CONFIG in path and not path.endswith("tokenizer_config.json")
    ] == []


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"README.md": b""}, "has no config.json: it is no folder of transformers"),
        (
            {"config.json": b"{}", "pytorch_model.bin": b"pickled"},
            "has no model.safetensors, only pytorch_model.bin, and nothing is unpickled here: "
            "choose a revision with safetensors (the hub's bot offers one as a pull request, "
            "--revision refs/pr/N), or save it as safetensors with transformers",
        ),
        (
            {"config.json": b"{}", "model.safetensors.index.json": b"{}"},
            "has its weights in several files (model.safetensors.index.json), only one "
            "model.safetensors is read",
        ),
        ({"config.json": b"{}"}, "has no model.safetensors"),
        (
            {"config.json": b'{"model_type": "t5"}', "model.safetensors": b"x"},
            "is not accepted: config.json model_type is 't5', only 'bert', 'distilbert', "
            "'roberta', 'xlm-roberta' and 'conv_attention' can be loaded",
        ),
    ],
)
def test_what_is_not_served_is_refused(
    files: dict[str, bytes], fault: str, hub: Hub, tmp_path: Path
) -> None:
    commit = hub.add(NAME, files)

    message = refused(fetch(hub, tmp_path, NAME), tmp_path)

    assert message == f"hf:{NAME}@main ({commit[:12]}): {fault}"
    assert "pytorch_model.bin" not in hub.downloads()
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == []


def test_names_that_are_not_there(hub: Hub, folder: Path, tmp_path: Path) -> None:
    hub.add(NAME, files_of(folder))

    assert refused(fetch(hub, tmp_path, "people/other"), tmp_path) == (
        "hf:people/other@main: the hub shows no model of this name: check the name, or set "
        "HF_TOKEN if it is private"
    )
    assert refused(fetch(hub, tmp_path, NAME, "--revision", "v9"), tmp_path) == (
        f"hf:{NAME}@v9: the repository has no revision v9: check the name"
    )
    hub[NAME].gated = True
    assert refused(fetch(hub, tmp_path, NAME), tmp_path) == (
        f"hf:{NAME}@main: access needs consent: give it on the page of {NAME}, and set HF_TOKEN "
        "to a token of that account"
    )
    assert refused(fetch(hub, tmp_path, "../up"), tmp_path) == (
        "../up: is no name of the hub: give hf:NAME@REVISION, such as "
        "hf:distilbert/distilbert-base-uncased-finetuned-sst-2-english@main"
    )


def test_without_a_network_the_command_for_another_machine(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        message = refused(fetch(url, tmp_path, NAME, "--revision", "v2"), tmp_path)

    command = f"headlight-train fetch {NAME} --revision v2 --output DIR"
    assert message == (
        f"hf:{NAME}@v2: the hub at {url} cannot be read (ConnectError: [Errno 111] Connection "
        f"refused): try again, or on a machine that reaches it, run: {command}{LATER}"
    )

    secret = url.replace("//", "//somebody:secret@")
    assert refused(fetch(secret, tmp_path, NAME, "--revision", "v2"), tmp_path) == message

    message = refused(fetch(url, tmp_path, NAME, HF_HUB_OFFLINE="1"), tmp_path)
    assert message == (
        f"hf:{NAME}@main: HF_HUB_OFFLINE is set, so the hub is not asked: unset it, or on a "
        f"machine that reaches it, run: {command.replace('v2', 'main')}{LATER}"
    )


def test_without_the_extra_it_is_named(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['huggingface_hub'] = None\n"
        "from training.__main__ import main\n"
        f"sys.exit(main(['fetch', '{NAME}', '--output', {str(tmp_path / 'out')!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert refused(done, tmp_path) == (
        f"hf:{NAME}@main: huggingface_hub is not installed, which names of the hub need: install "
        "the extra hub (.venv/bin/pip install --constraint constraints.txt --editable '.[hub]')"
    )


def test_an_encoder_alone_is_accepted_if_asked_for(hub: Hub, folder: Path, tmp_path: Path) -> None:
    """Like a pretrained network, which has no classifier yet."""
    from safetensors.torch import load_file, save

    weights = {
        name: weight
        for name, weight in load_file(folder / WEIGHTS).items()
        if name.startswith("distilbert.")
    }
    hub.add(NAME, {**files_of(folder), WEIGHTS: save(weights)})

    message = refused(fetch(hub, tmp_path, NAME), tmp_path)
    assert "is not accepted: model.safetensors lacks classifier.bias" in message

    done = fetch(hub, tmp_path, NAME, "--encoder")
    assert (done.returncode, done.stderr) == (0, "")


def test_our_own_folder_keeps_its_record(hub: Hub, tmp_path: Path) -> None:
    ours = tiny_checkpoint(tmp_path / "ours")
    hub.add(NAME, files_of(ours))

    done = fetch(hub, tmp_path, NAME)

    assert done.returncode == 0, done.stderr
    found = files_of(tmp_path / "out")
    del found[ORIGIN]
    assert found == files_of(ours)
