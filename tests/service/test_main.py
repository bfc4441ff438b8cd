"""A start that fails reports every fault at once, and serves nothing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from service.__main__ import main
from service.settings import Settings
from tests.builders import tiny_checkpoint, tiny_conv_checkpoint

Refuse = Callable[..., str]


@pytest.fixture
def refuse(
    checkpoint_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Refuse:
    """Starts with options and settings, and returns the reason of the refusal."""
    for name in list(os.environ):
        if name.upper().startswith("HEADLIGHT_"):
            monkeypatch.delenv(name)

    def refuse(*options: str, checkpoint: Path = checkpoint_folder, **settings: str) -> str:
        for name, value in settings.items():
            monkeypatch.setenv(f"HEADLIGHT_{name}", value)
        assert main(["--checkpoint", str(checkpoint), *options]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        return printed.err

    return refuse


WHOLE = "must be a whole number"
WRONG = [
    ("HOST", "", "must not be blank, got ''"),
    ("PORT", "65536", "must be at most 65535, got '65536'"),
    ("PORT", "", f"{WHOLE}, got ''"),
    (
        "DEVICE",
        "gpu",
        "must be auto, cpu, cuda or cuda:N (cuda is the GPU), got 'gpu'",
    ),
    (
        "DTYPE",
        "float64",
        "must be 'auto', 'float32', 'bfloat16', 'float16' or 'int8', got 'float64'",
    ),
    ("THREADS", "-1", "must be at least 0, got '-1'"),
    ("MAX_SENTENCES", "0", "must be at least 1, got '0'"),
    ("MAX_ITEM_SENTENCES", "0", "must be at least 1, got '0'"),
    ("MAX_WINDOWS", "0", "must be at least 1, got '0'"),
    ("MAX_BODY_BYTES", "1.5", f"{WHOLE}, got '1.5'"),
    *(
        (
            "MAX_BATCH_TOKENS",
            value,
            f"must be auto, or a whole number from 1 to 999,999,999, got {value!r}",
        )
        for value in ("0", "-1", "1.5", "many", "1000000000")
    ),
    ("MAX_QUEUE_TOKENS", "many", f"{WHOLE}, got 'many'"),
    ("MAX_ATTENTION_WEIGHTS", "0", "must be at least 1, got '0'"),
    ("MAX_SENDING_BYTES", "0", "must be at least 1, got '0'"),
    ("MAX_CONNECTIONS", "0", "must be auto, or a whole number from 1 to 999,999,999, got '0'"),
    ("REQUEST_TIMEOUT", "0", "must be more than 0, got '0'"),
    ("REQUEST_TIMEOUT", "inf", "must be a finite number of seconds, got 'inf'"),
    ("DRAIN_SECONDS", "-1", "must be at least 0, got '-1'"),
    ("API_KEYS", ",", "is set but holds no key; unset it to let everybody in"),
    (
        "API_KEYS",
        "fine,s\u00e9cret",
        "key number 2 holds a character that is not visible ASCII, or a comma",
    ),
    ("CHECKPOINT_KEY", "no/where", "no/where: cannot be read: No such file or directory"),
    ("API_KEYS_FILE", "no/where", "cannot read no/where: No such file or directory"),
    ("WATCHDOG_SECONDS", "0", "must be more than 0, got '0'"),
    ("METRICS", "no", "must be 'open', 'key' or 'off', got 'no'"),
    ("DOCS", "", "must be 'open', 'key' or 'off', got ''"),
    ("PAGE", "ON", "must be 'open', 'key' or 'off', got 'ON'"),
    (
        "COMPAT",
        "on,tei",
        "must be on, off, or some of huggingface, openinference, classify, mlflow, with commas "
        "between, got 'on,tei'",
    ),
    (
        "METRICS",
        "key",
        "is key, but no key is set: set HEADLIGHT_API_KEYS or HEADLIGHT_API_KEYS_FILE, or choose "
        "open or off",
    ),
    (
        "ALLOWED_HOSTS",
        "fine.org, example.org:8000",
        "'example.org:8000' is not a name without a port, such as example.org or *.example.org, "
        "got 'fine.org, example.org:8000'",
    ),
    (
        "ALLOWED_ORIGINS",
        "https://fine.org,*",
        "'*' is not an origin, such as https://example.org, or * alone for all, got "
        "'https://fine.org,*'",
    ),
    (
        "TRUSTED_PROXIES",
        "10.0.0.1, proxy",
        "'proxy' is not an address or a network, such as 10.0.0.0/8, or * alone for all, got "
        "'10.0.0.1, proxy'",
    ),
    (
        "RATE_LIMIT",
        "many",
        "must be a number for each second, minute, hour or day, such as 600/minute, got 'many'",
    ),
    (
        "TOKEN_QUOTA",
        "1/week",
        "must be a number for each second, minute, hour or day, such as 600/minute, got '1/week'",
    ),
    ("LOG_FORMAT", "xml", "must be 'auto', 'json' or 'text', got 'xml'"),
]


def test_each_setting_has_a_wrong_value_here() -> None:
    tried = {name.lower() for name, _, _ in WRONG}
    assert tried | {"checkpoint"} == Settings.model_fields.keys()


@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_each_wrong_value_stops_the_start(
    refuse: Refuse, name: str, value: str, message: str
) -> None:
    told = f"headlight-serve: 1 setting is wrong:\n  HEADLIGHT_{name}: {message}\n"
    assert refuse(**{name: value}) == told


def test_an_unknown_name_lists_the_known_ones_if_none_is_near(refuse: Refuse) -> None:
    known = ", ".join(f"HEADLIGHT_{name.upper()}" for name in Settings.model_fields)
    assert refuse(XYZZY="1") == (
        "headlight-serve: 1 setting is wrong:\n"
        f"  HEADLIGHT_XYZZY: unknown setting; known are {known}\n"
    )


def test_a_missing_device(refuse: Refuse) -> None:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    assert refuse("--device", "cuda:999") == (
        "headlight-serve: 1 setting is wrong:\n"
        f"  --device: device cuda:999 was asked for, but torch finds {count} CUDA devices: "
        "use cpu or auto, or install torch with CUDA\n"
    )


def test_a_type_that_the_processor_lacks_is_reported_with_every_other_fault(
    refuse: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.backends.device.computes_int8", lambda _: False)
    assert refuse("--dtype", "int8", "--max-queue-tokens", "8191") == (
        "headlight-serve: 2 settings are wrong:\n"
        "  --dtype: dtype int8 needs a processor that multiplies bytes natively (AVX-512 "
        "VNNI), which cpu is not: use auto\n"
        "  --max-queue-tokens: is 8191, but a request may have 256 sentences of 32 tokens: "
        "raise it to 8192, or lower HEADLIGHT_MAX_SENTENCES\n"
    )


def test_a_type_that_the_network_does_not_support(
    refuse: Refuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.backends.device.computes_int8", lambda _: True)
    course = tiny_conv_checkpoint(tmp_path / "course")
    assert refuse("--dtype", "int8", checkpoint=course).startswith(
        "headlight-serve: 1 setting is wrong:\n  --dtype: dtype int8 is for encoders, and "
        "course is a "
    )


def test_a_checkpoint_that_cannot_be_read(refuse: Refuse, tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 300)
    assert refuse(checkpoint=folder) == (
        "headlight-serve: 1 setting is wrong:\n"
        f"  --checkpoint: {folder}: cannot be read: File name too long\n"
    )


def test_the_queue_must_hold_the_largest_request(refuse: Refuse) -> None:
    assert refuse("--max-queue-tokens", "8191") == (
        "headlight-serve: 1 setting is wrong:\n"
        "  --max-queue-tokens: is 8191, but a request may have 256 sentences of 32 tokens: "
        "raise it to 8192, or lower HEADLIGHT_MAX_SENTENCES\n"
    )


def test_the_largest_answer_must_fit_into_its_room(refuse: Refuse) -> None:
    assert refuse("--max-sending-bytes", "63999999") == (
        "headlight-serve: 1 setting is wrong:\n"
        "  --max-sending-bytes: is 63999999, but an answer of 2000000 weights takes up to "
        "64000000 bytes while it is made: raise it to 64000000, or lower "
        "HEADLIGHT_MAX_ATTENTION_WEIGHTS\n"
    )


def test_the_connections_must_fit_into_the_open_files(refuse: Refuse) -> None:
    said = refuse("--max-connections", "900000000")
    assert said.startswith(
        "headlight-serve: 1 setting is wrong:\n"
        "  --max-connections: 900000000 connections do not fit into "
    )


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "tokenizer.json", "headlight.json"]
)
def test_a_damaged_checkpoint_is_refused_with_the_name_of_the_file(
    refuse: Refuse, tmp_path: Path, name: str
) -> None:
    folder = tiny_checkpoint(tmp_path / "damaged")
    damaged = folder / name
    damaged.write_bytes(damaged.read_bytes()[:-10])
    told = refuse(checkpoint=folder)
    assert told.startswith(f"headlight-serve: 1 setting is wrong:\n  --checkpoint: {damaged}: ")


@pytest.mark.parametrize("host", ["no such host", "a..b", ".example", f"{'x' * 64}.org"])
def test_an_unknown_host(refuse: Refuse, host: str) -> None:
    told = refuse("--host", host, "--port", "0")
    assert told.startswith(f"headlight-serve: cannot listen on {host} port 0: ")
    assert told.count("\n") == 1
    assert told.endswith("; choose others with --host and --port\n")


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
