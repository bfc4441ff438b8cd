"""The commands of the guide to deployment do what the page says."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import yaml

from model.checkpoint.signing import verify_checkpoint
from model.files import SIGNATURE
from service.settings import PREFIX, Settings
from tests.commands import finish, give_up, printed
from tests.documentation.markdown import GUIDES, ROOT, blocks, code, codes, rows
from tests.end_to_end.servers import environment, local_service

PAGE = GUIDES / "deploy.md"
BASH = [block.content for block in blocks(PAGE, "bash")]
CHECKS = rows(PAGE, "what", "set", "check", "prints")


def _block(words: str) -> str:
    (found,) = [content for content in BASH if words in content]
    return found


def _run(commands: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    env = {**environment(), "PATH": path, **variables}
    return finish("bash", "-euc", commands, folder=folder, env=env, timeout=300)


def _need(program: str) -> None:
    if shutil.which(program) is None:
        give_up(f"{program} is not installed")


def test_the_keys_of_the_page_sign_and_verify(tmp_path: Path, checkpoint_folder: Path) -> None:
    _need("openssl")
    signed = tmp_path / "checkpoints" / "reviews"
    shutil.copytree(checkpoint_folder, signed)
    assert _run(_block("openssl genpkey"), tmp_path).returncode == 0
    assert (tmp_path / "private.pem").stat().st_mode & 0o777 == 0o600
    done = _run(_block("model_signing sign"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Verification succeeded" in done.stdout
    assert (signed / SIGNATURE).exists()
    verify_checkpoint(signed, tmp_path / "public.pem")
    (signed / "config.json").write_text("{}", encoding="utf-8")
    refused = _run(_block("HEADLIGHT_CHECKPOINT_KEY="), tmp_path)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Hash mismatch for 'config.json'" in refused.stderr


def test_each_check_shows_whether_its_setting_holds(
    tmp_path: Path, checkpoint_folder: Path
) -> None:
    _need("curl")
    (tmp_path / "keys").write_text("a-key", encoding="utf-8")
    settings = {
        name: value.replace("/run/keys", str(tmp_path / "keys"))
        for _, words, *_ in CHECKS
        for name, _, value in [span.partition("=") for span in codes(words)]
        if value
    }
    assert len(settings) == 6
    wanted = {code(check): prints for _, _, check, prints in CHECKS}
    with local_service(checkpoint_folder, tmp_path, settings=settings) as running:
        assert {check: _printed(check, tmp_path, running.url) for check in wanted} == wanted

    open_to_all = {"HEADLIGHT_ALLOWED_ORIGINS": "*"}
    with local_service(checkpoint_folder, tmp_path, settings=open_to_all) as running:
        without = {check: _printed(check, tmp_path, running.url) for check in wanted}
    healthy = {check for check in wanted if "/health/" in check}
    assert {check for check in wanted if without[check] == wanted[check]} == healthy


def _printed(check: str, folder: Path, url: str) -> str:
    return _run(f"{check.replace(chr(92) + '|', '|')} || true", folder, URL=url).stdout.strip()


def test_the_container_of_kserve_is_one_of_kubernetes(tmp_path: Path, url: str) -> None:
    """There is no schema of KServe's own kinds; what it runs is a pod."""
    (manifest,) = [
        content
        for content in (yaml.safe_load(block.content) for block in blocks(PAGE, "yaml"))
        if content.get("kind") == "InferenceService"
    ]
    # Of a service named headlight, Kubernetes would make variables that the settings refuse.
    assert not manifest["metadata"]["name"].upper().startswith(PREFIX.rstrip("_"))
    predictor = manifest["spec"]["predictor"]
    assert predictor.pop("minReplicas") <= predictor.pop("maxReplicas")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": predictor}
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(pod), encoding="utf-8")
    program = Path(sys.executable).parent / "kubernetes-validate"
    printed(program, "--strict", "--quiet", file)

    (container,) = predictor["containers"]
    (port,) = container["ports"]
    for probe in ("readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["port"] == port["containerPort"] == Settings.model_fields["port"].default
        assert httpx.get(url + asked["path"], timeout=60).status_code == 200
    for variable in container["env"]:
        assert variable["name"].removeprefix(PREFIX).lower() in Settings.model_fields


def test_the_page_names_the_torch_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (torch,) = [x for x in project["project"]["dependencies"] if x.startswith("torch==")]
    (setuptools,) = project["build-system"]["requires"]
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("torch==") == text.count(torch) > 0
    assert f" . {setuptools}" in text


def test_the_configurations_of_the_collector_are_yaml() -> None:
    override, configuration = (
        yaml.safe_load(block.content) for block in blocks(GUIDES / "operate.md", "yaml")
    )
    assert override["services"]["collector"]["networks"] == ["replicas", "public"]
    assert configuration["service"]["pipelines"]["traces"]["receivers"] == ["otlp"]
