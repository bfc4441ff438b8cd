"""MLflow's own client of its scoring server, and what SageMaker sends, against `/invocations`."""

import warnings
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest

from tests.end_to_end.routes import predict
from tests.end_to_end.servers import RunningService
from tests.matching import near

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # MLflow warns of its own types while it is imported
    from mlflow.pyfunc.scoring_server.client import ScoringServerClient

TEXTS = ["A superb film.", "a dull, boring plot"]


@pytest.fixture
def scoring(running: RunningService) -> ScoringServerClient:
    return ScoringServerClient("127.0.0.1", running.port)


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame({"text": TEXTS}),
        pd.DataFrame({"id": [1, 2], "text": TEXTS}, index=["x", "y"]),
        pd.DataFrame({"review": TEXTS}),
        np.array([[text] for text in TEXTS]),
        TEXTS,
        '{"instances": ["A superb film.", "a dull, boring plot"]}',
    ],
    ids=["frame", "columns", "one-column", "matrix", "list", "instances"],
)
def test_every_kind_of_data_gives_predictions(
    plain: httpx.Client,
    scoring: ScoringServerClient,
    data: Any,  # noqa: ANN401
) -> None:
    assert near(scoring.invoke(data)["predictions"], predict(plain, *TEXTS))


def test_params_choose_the_truncation(scoring: ScoringServerClient) -> None:
    long = pd.DataFrame({"text": ["good " * 100]})
    (prediction,) = scoring.invoke(long, params={"truncation": "left"})["predictions"]
    assert prediction["truncated"] is True
    with pytest.raises(Exception, match="error code 422") as raised:
        scoring.invoke(long, params={"truncation": "error"})
    assert "params.truncation" in str(raised.value)


def test_ping_and_version(running: RunningService, scoring: ScoringServerClient) -> None:
    scoring.wait_server_ready()
    scoring.ping()
    with running.client() as client:
        version = client.get("/openapi.json").json()["info"]["version"]
    assert scoring.get_version() == version


def test_what_sagemaker_sends(running: RunningService) -> None:
    """A probe, then a body that the caller of `InvokeEndpoint` chose, with SageMaker's headers."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "*/*",
        "X-Amzn-SageMaker-Custom-Attributes": "trace-id=1",
    }
    with running.client(**headers) as client:
        assert client.get("/ping").status_code == 200
        for body, texts in (
            ({"inputs": TEXTS[0], "parameters": None}, TEXTS[:1]),
            ({"inputs": TEXTS, "parameters": {"truncation": "left"}}, TEXTS),
        ):
            answer = client.post("/invocations", json=body)
            assert answer.status_code == 200
            assert near(answer.json(), {"predictions": predict(client, *texts)})
