"""The commands of the guide to hardening do what the page says."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from model.checkpoint.signing import SIGNATURE, verify_checkpoint
from tests.documentation.markdown import ROOT, blocks, code, codes, rows
from tests.end_to_end.servers import environment, service

PAGE = ROOT / "docs" / "guides" / "hardening.md"
MAKE_KEYS, SIGN, SERVE, _ = (block.content for block in blocks(PAGE, "bash"))
CHECKS = rows(PAGE, "what", "set", "check", "prints")


@pytest.fixture
def folder(tmp_path: Path, checkpoint_folder: Path) -> Path:
    """Where a reader stands: with a checkpoint of their own."""
    shutil.copytree(checkpoint_folder, tmp_path / "checkpoints" / "reviews")
    return tmp_path


def run(commands: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return subprocess.run(
        ["bash", "-euc", commands],
        cwd=folder,
        env={**environment(), "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.skipif(
    shutil.which("openssl") is None and "CI" not in os.environ, reason="openssl is not installed"
)
def test_the_keys_of_the_page_sign_and_verify(folder: Path) -> None:
    assert run(MAKE_KEYS, folder).returncode == 0
    assert (folder / "private.pem").stat().st_mode & 0o777 == 0o600
    done = run(SIGN, folder)
    assert (done.returncode, done.stderr) == (0, "")
    [signed, verified] = done.stdout.splitlines()
    assert signed.endswith(f": checkpoints/reviews/{SIGNATURE}")
    assert verified == "checkpoints/reviews: signed by the key public.pem, and unchanged since"
    verify_checkpoint(folder / "checkpoints" / "reviews", folder / "public.pem")

    (folder / "checkpoints" / "reviews" / "config.json").write_text("{}", encoding="utf-8")
    refused = run(SERVE, folder)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "headlight-serve: 1 setting is wrong:\n"
        "  --checkpoint: checkpoints/reviews/config.json: was changed after model.sig was "
        "made\n"
    )


@pytest.mark.skipif(
    shutil.which("curl") is None and "CI" not in os.environ, reason="curl is not installed"
)
def test_each_check_of_the_service_tells_whether_its_setting_holds(
    tmp_path: Path, checkpoint_folder: Path
) -> None:
    (tmp_path / "keys").write_text("a-key", encoding="utf-8")
    settings = {
        name: value.replace("/run/keys", str(tmp_path / "keys"))
        for _, words, *_ in CHECKS
        for name, _, value in [span.partition("=") for span in codes(words)]
        if value
    }
    assert len(settings) == 6
    wanted = {code(check): prints for _, _, check, prints in CHECKS}
    with service(checkpoint_folder, tmp_path, settings=settings) as running:
        found = {check: _said(check, tmp_path, running.url) for check in wanted}
    assert found == wanted

    open_to_all = {"HEADLIGHT_ALLOWED_ORIGINS": "*"}
    with service(checkpoint_folder, tmp_path, settings=open_to_all) as running:
        without = {check: _said(check, tmp_path, running.url) for check in wanted}
    healthy = {check for check in wanted if "/health/" in check}
    assert {check for check in wanted if without[check] == wanted[check]} == healthy


def _said(check: str, folder: Path, url: str) -> str:
    return run(f"{check.replace(chr(92) + '|', '|')} || true", folder, URL=url).stdout.strip()
