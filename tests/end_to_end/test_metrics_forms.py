"""`/metrics` as Prometheus text and as OpenMetrics, whatever a scraper accepts."""

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (None, TEXT),
        ("", TEXT),
        ("*/*", TEXT),
        ("text/*", TEXT),
        ("text/plain", TEXT),
        ("text/plain;version=0.0.4;q=0.3, */*;q=0.1", TEXT),
        ("image/png, text/plain;q=0.2", TEXT),
        ("application/openmetrics-text", OPEN),
        ("Application/OpenMetrics-Text", OPEN),
        ("application/*", OPEN),
        ("text/plain;q=0, */*", OPEN),
        ("application/openmetrics-text; version=0.0.1", OPEN),
        (  # Prometheus 2
            "application/openmetrics-text;version=1.0.0,"
            "application/openmetrics-text;version=0.0.1;q=0.75,"
            "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            OPEN,
        ),
        (  # Prometheus 3, which prefers protocol buffers if native histograms are on
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;"
            "encoding=delimited;q=0.7,"
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
            "application/openmetrics-text;version=0.0.1;q=0.5,"
            "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
            "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            OPEN,
        ),
    ],
)
def test_every_scraper_is_answered_in_its_form(
    client: httpx.Client, accept: str | None, form: str
) -> None:
    headers = {} if accept is None else {"accept": accept}
    request = client.build_request("GET", "/metrics", headers=headers)
    if accept is None:
        del request.headers["accept"]
    response = client.send(request)
    assert response.status_code == 200
    assert response.headers["content-type"] == form
    assert response.text.endswith("# EOF\n") == (form == OPEN)


def test_both_forms_have_the_same_series(client: httpx.Client) -> None:
    text = client.get("/metrics").text
    opened = client.get("/metrics", headers={"accept": "application/openmetrics-text"}).text
    assert {
        (sample.name, frozenset(sample.labels.items()))
        for family in read_text(text)
        for sample in family.samples
    } == {
        (sample.name, frozenset(sample.labels.items()))
        for family in read_openmetrics(opened)
        for sample in family.samples
    }
    assert not [line for line in opened.splitlines() if "_created" in line]
