"""docs/reference/open-inference.md names paths, fields and outputs, and its manifest is sound."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from fastapi.routing import APIRoute
from pydantic import BaseModel

from service.api.compat.families import ROUTERS
from service.api.compat.openinference_schemas import MOST_ID, InferRequest, RequestParameters
from service.formats.tensors import HEADER
from service.settings import PREFIX, Settings
from tests.documentation.markdown import REFERENCE, ROOT, blocks, code, codes, rows

PAGE = REFERENCE / "open-inference.md"
TEXT = PAGE.read_text("utf-8")


def test_every_path_is_named_with_its_methods() -> None:
    served = {
        (method, route.path)
        for route in ROUTERS["openinference"].routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }

    documented = {
        (method, code(path))
        for methods, path, _ in rows(PAGE, "method", "path", "answers")
        for method in codes(methods)
    }

    assert documented == served


@pytest.mark.parametrize(
    ("header", "schema"),
    [("sent to `infer`", InferRequest), ("in `parameters`", RequestParameters)],
)
def test_every_field_is_described(header: str, schema: type[BaseModel]) -> None:
    named = [name for cells in rows(PAGE, header) for name in codes(cells[0])]

    assert named == list(schema.model_fields)


def test_every_output_has_its_datatype(url: str) -> None:
    documented = [
        (code(name), code(datatype), code(shape).count(","))
        for name, datatype, shape, _ in rows(PAGE, "output", "datatype", "shape")
    ]

    metadata = httpx.get(f"{url}/v2/models/default", timeout=60).json()
    assert documented == [
        (output["name"], output["datatype"], len(output["shape"]) - 1)
        for output in metadata["outputs"]
    ]


def test_what_the_text_says_is_so() -> None:
    assert f"`{HEADER}`" in TEXT
    assert f"at most {MOST_ID} characters" in TEXT
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert '"tritonclient[http]==2.73.0"' in project
    assert "`tritonclient` 2.73.0" in TEXT


@pytest.fixture
def predictor() -> dict[str, Any]:
    """What the manifest tells KServe to run."""
    (block,) = blocks(PAGE, "yaml")
    manifest: dict[str, Any] = yaml.safe_load(block.content)
    assert manifest["apiVersion"] == "serving.kserve.io/v1beta1"
    assert manifest["kind"] == "InferenceService"
    # Of a service named headlight, Kubernetes would make variables that the settings refuse.
    assert not manifest["metadata"]["name"].upper().startswith(PREFIX.rstrip("_"))
    found: dict[str, Any] = manifest["spec"]["predictor"]
    return found


def test_the_container_of_kserve_is_one_of_kubernetes(
    predictor: dict[str, Any], tmp_path: Path
) -> None:
    """There is no schema of KServe's own kinds; what it runs is a pod."""
    assert predictor.pop("minReplicas") <= predictor.pop("maxReplicas")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": predictor}
    file = tmp_path / "pod.yaml"

    def judge() -> int:
        file.write_text(yaml.safe_dump(pod), encoding="utf-8")
        program = Path(sys.executable).parent / "kubernetes-validate"
        return subprocess.run([program, "--strict", "--quiet", file], check=False).returncode

    assert judge() == 0
    predictor["containers"][0]["livenessProb"] = {}
    assert judge() != 0


def test_its_probes_and_variables_are_those_of_the_service(
    predictor: dict[str, Any], url: str
) -> None:
    (container,) = predictor["containers"]
    assert container["name"] == "kserve-container"
    (port,) = container["ports"]
    for probe in ("readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["port"] == port["containerPort"] == Settings.model_fields["port"].default
        assert httpx.get(url + asked["path"], timeout=60).status_code == 200
    for variable in container["env"]:
        name = variable["name"].removeprefix(PREFIX).lower()
        assert name in Settings.model_fields
