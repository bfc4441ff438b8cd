"""Which folder a name stands for: the checkpoint that ships is found from anywhere."""

from pathlib import Path

import pytest

from model import load
from model.checkpoint.location import DEFAULT, local_folder, renamed
from service.settings import read_settings
from training import TextClassifier

SHIPPED = Path(__file__).parents[3] / "checkpoints" / "default"


def test_the_checkpoint_that_ships_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_folder(DEFAULT) == SHIPPED
    assert load(DEFAULT, device="cpu").info.name == "default"
    # What the service and the estimator begin with.
    assert read_settings({})[0].checkpoint == Path(str(TextClassifier().init_from)) == DEFAULT
    # No other name is looked for there.
    assert local_folder(Path("checkpoints/two-classes")) == Path("checkpoints/two-classes")
    (tmp_path / DEFAULT).mkdir(parents=True)
    assert local_folder(DEFAULT) == DEFAULT


def test_the_earlier_name_leads_to_it_for_one_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    earlier = DEFAULT.with_name("neutral")
    told = "checkpoints/neutral is checkpoints/default now: name that, the old name goes with the "
    assert local_folder(earlier) == DEFAULT
    assert [record.message for record in caplog.records] == [f"{told}next release"]
    monkeypatch.chdir(tmp_path)
    assert local_folder(earlier, note=lambda _: None) == SHIPPED
    assert renamed(Path("other/neutral")) is None
    (tmp_path / earlier).mkdir(parents=True)
    assert local_folder(earlier) == earlier
