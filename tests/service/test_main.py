"""A start that fails reports every error at once, and serves nothing."""

from pathlib import Path

import pytest

from service.__main__ import main
from service.settings import Settings
from tests.end_to_end.test_start import refuse

WRONG = [
    ("CHECKPOINT_KEY", "no/where", "no/where: cannot be read: No such file or directory"),
    ("API_KEYS_FILE", "no/where", "cannot read no/where: No such file or directory"),
    (
        "METRICS",
        "key",
        "is key, but no key is set: set HEADLIGHT_API_KEYS or HEADLIGHT_API_KEYS_FILE, or choose "
        "open or off",
    ),
]


@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_a_wrong_value_stops_the_start(
    checkpoint_folder: Path, name: str, value: str, message: str
) -> None:
    said = f"headlight-serve: 1 setting is wrong:\n  HEADLIGHT_{name}: {message}\n"
    assert refuse(checkpoint_folder, **{f"HEADLIGHT_{name}": value}) == said


def test_a_type_that_the_processor_lacks_is_reported_with_every_other_error(
    checkpoint_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.backends.kernels._load", lambda: ([], "they are not compiled"))
    assert refuse(checkpoint_folder, *("--dtype", "int8", "--max-queue-tokens", "8191")) == (
        "headlight-serve: 2 settings are wrong:\n"
        "  --dtype: dtype int8 needs the kernels on a processor, and they are not compiled: "
        "use auto\n"
        "  --max-queue-tokens: is 8191, but a request may have 256 sentences of 32 tokens: "
        "raise it to 8192, or lower HEADLIGHT_MAX_SENTENCES\n"
    )


def test_the_connections_must_fit_into_the_open_files(checkpoint_folder: Path) -> None:
    said = refuse(checkpoint_folder, "--max-connections", "900000000")
    assert said.startswith(
        "headlight-serve: 1 setting is wrong:\n"
        "  --max-connections: 900000000 connections do not fit into "
    )


def test_every_setting_but_the_keys_is_an_option_with_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for name, field in Settings.model_fields.items():
        option = f"--{name.replace('_', '-')} "
        assert (option in text) == (name != "api_keys")
        assert field.description is not None
        assert (field.description in text) == (name != "api_keys")


def test_an_unknown_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--prot", "1"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "headlight-serve: unrecognized arguments: --prot 1; did you mean --port?; see "
        "headlight-serve --help\n"
    )
