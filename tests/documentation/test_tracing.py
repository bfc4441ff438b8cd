"""The guide to operation names what a collector gets."""

from pathlib import Path

import yaml
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.documentation.markdown import GUIDES, blocks, codes, rows
from tests.end_to_end.collector import attributes, collecting
from tests.end_to_end.misbehaving import patches
from tests.end_to_end.servers import local_service

PAGE = GUIDES / "operate.md"


def _documented(header: str) -> set[str]:
    return {name for cells in rows(PAGE, header) for name in codes(cells[0])}


def _said(spans: list[Span]) -> set[str]:
    return {name for span in spans for name in attributes(span.attributes)}


def test_every_attribute_and_stage_is_described(checkpoint_folder: Path, tmp_path: Path) -> None:
    with collecting() as collector:
        settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
        changes = patches(tmp_path)
        with (
            local_service(
                checkpoint_folder, tmp_path, settings=settings, changes=changes
            ) as running,
            running.client() as client,
        ):
            assert client.get("/attention?sentence=good").status_code == 200
            (tmp_path / "pass").write_text("fail", encoding="ascii")
            assert client.get("/attention?sentence=good").status_code == 500
            collector.wait_for(2)
    assert _said(collector.requests()) == _documented("attribute of a request")
    children = [span for span in collector.spans if span.parent_span_id]
    assert {span.name for span in children} == _documented("child")
    passes = [span for span in children if span.name == "forward"]
    assert _said(passes) == _documented("attribute of `forward`")
    [resource] = collector.received[0].message.resource_spans
    said = {name for name in attributes(resource.resource.attributes) if "telemetry" not in name}
    assert said == _documented("attribute of the process")


def test_the_configurations_are_yaml() -> None:
    override, configuration = (yaml.safe_load(block.content) for block in blocks(PAGE, "yaml"))
    assert override["services"]["collector"]["networks"] == ["replicas", "public"]
    assert configuration["service"]["pipelines"]["traces"]["receivers"] == ["otlp"]
