"""The function of the guide, called by a real Spark; needs pyspark and a JVM, which are large."""

import shutil
from pathlib import Path

import pytest

from tests.documentation.markdown import ROOT, all_blocks

GUIDE = ROOT / "docs" / "guides" / "bulk-scoring.md"


# pyspark leaves the sockets to its JVM open.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_spark_scores_by_the_function_of_the_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs a JVM, and there is none")
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (example,) = (
        block.content
        for block in all_blocks(Path(GUIDE))
        if block.language == "python" and "def score(" in block.content
    )
    scope: dict[str, object] = {}
    exec(example, scope)  # noqa: S102  our own page
    spark = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = spark.getOrCreate()
    try:
        frame = session.createDataFrame([("A superb film.",), ("Dull and long.",)], "text string")
        rows = frame.mapInPandas(scope["score"], "text string, positive double").collect()
    finally:
        session.stop()

    assert [(row.text, row.positive > 0.5) for row in rows] == [
        ("A superb film.", True),
        ("Dull and long.", False),
    ]
