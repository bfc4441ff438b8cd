"""Settings from options and the environment."""

import os
from pathlib import Path

import pytest

from service.settings import FAMILIES, Family, Rate, Settings, former_settings, read_settings


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("HEADLIGHT_"):
            monkeypatch.delenv(name)


PATHS = ("checkpoint", "checkpoint_key", "api_keys_file")
NUMBERS = (
    *("port", "threads", "max_sentences", "max_windows", "max_body_bytes", "max_batch_tokens"),
    *("max_queue_tokens", "max_attention_weights", "max_connections"),
)
VALUES = {
    **dict.fromkeys(PATHS, ("some/where", Path("some/where"))),
    **dict.fromkeys(NUMBERS, ("1", 1)),
    **dict.fromkeys(("metrics", "docs", "page", "language_warning"), ("off", "off")),
    "host": ("0.0.0.0", "0.0.0.0"),
    "device": ("cuda:12", "cuda:12"),
    "dtype": ("bfloat16", "bfloat16"),
    "request_timeout": ("0.5", 0.5),
    "drain_seconds": ("0", 0.0),
    "compat": (" MLflow, classify", frozenset({"classify", "mlflow"})),
    "allowed_hosts": ("example.org, *.Example.com", ("example.org", "*.example.com")),
    "allowed_origins": ("https://example.org", ("https://example.org",)),
    "rate_limit": ("600/minute", Rate(600, "minute")),
    "token_quota": (" 5000000/day ", Rate(5_000_000, "day")),
    "trusted_proxies": (" * ", ("*",)),
    "log_format": ("text", "text"),
}


@pytest.mark.parametrize("field", VALUES)
def test_each_by_the_environment_and_by_option(monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    text, value = VALUES[field]
    by_option, errors = read_settings({field: text})
    assert (getattr(by_option, field), errors) == (value, [])
    monkeypatch.setenv(f"HEADLIGHT_{field.upper()}", text)
    by_environment, errors = read_settings({})
    assert (getattr(by_environment, field), errors) == (value, [])


def test_a_wrong_value_is_reported_and_replaced_by_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADLIGHT_PORT", "x")
    monkeypatch.setenv("HEADLIGHT_UNRELATED", "x")
    monkeypatch.setenv("HEADLIGHT_THREADS", "1")  # an option wins
    settings, errors = read_settings({"threads": "-1"})
    assert (settings.port, settings.threads) == (8000, 0)
    known = ", ".join(f"HEADLIGHT_{name.upper()}" for name in Settings.model_fields)
    assert errors[0] == f"HEADLIGHT_UNRELATED: unknown setting; known are {known}"
    assert sorted(error.partition(":")[0] for error in errors) == [
        "--threads",
        "HEADLIGHT_PORT",
        "HEADLIGHT_UNRELATED",
    ]


def test_former_settings_are_accepted_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADLIGHT_WATCHDOG_SECONDS", "x")
    options = {"max_sending_bytes": "1", "port": "1"}
    settings, errors = read_settings(options)
    assert (settings.port, errors) == (1, [])
    named = ["--max-sending-bytes", "HEADLIGHT_WATCHDOG_SECONDS"]
    assert former_settings(options) == named


def test_keys_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADLIGHT_API_KEYS", "secret")
    settings, _ = read_settings({})
    assert "secret" not in repr(settings)
    assert settings.api_keys is not None
    assert settings.api_keys.get_secret_value() == "secret"


WHOLE = "must be a whole number"
AUTO = "must be auto, or a whole number from 1 to 999,999,999"
DEVICE = "must be auto, cpu, cuda or cuda:N"
ACCESS = "must be 'open', 'key' or 'off'"
FAMILY = "must be on, off, or some of huggingface, openinference, classify, mlflow, with commas"
RATE = "must be a number for each second, minute, hour or day, such as 600/minute"
HOST, ORIGIN, NETWORK = "a name without a port", "an origin", "an address or a network"
WRONG = [
    ("host", "", "must not be blank"),
    ("port", "65536", "must be at most 65535"),
    ("device", "GPU:0", f"{DEVICE} (cuda is the GPU)"),
    ("device", "tpu", DEVICE),
    ("dtype", "float64", "must be 'auto', 'float32', 'bfloat16', 'float16' or 'int8'"),
    ("threads", "100000", f"must be at most {max(64, os.cpu_count() or 1)}, more than the cores"),
    ("max_body_bytes", "1.5", WHOLE),
    *(("max_batch_tokens", value, AUTO) for value in ("0", "1.5", "1000000000")),
    ("max_connections", "0", AUTO),
    ("request_timeout", "nan", "must be at most 86400"),
    *(("rate_limit", value, RATE) for value in ("0/minute", "10", "10/week", "1.5/day")),
    ("token_quota", "[]", RATE),
    ("page", "ON", ACCESS),
    *(("compat", value, FAMILY) for value in ("hugginface", "on,off", "mlflow,off")),
    ("allowed_hosts", "a.example, b.example:80", f"'b.example:80' is not {HOST}"),
    ("allowed_hosts", ",", f"',' is not {HOST}"),
    ("allowed_origins", "https://a.example, *", f"'*' is not {ORIGIN}"),
    ("allowed_origins", "https://a.example/", f"'https://a.example/' is not {ORIGIN}"),
    ("trusted_proxies", "10.0.0.1/8", f"'10.0.0.1/8' is not {NETWORK}"),
]


@pytest.mark.parametrize(("field", "value", "message"), WRONG)
def test_a_wrong_value_is_named(
    monkeypatch: pytest.MonkeyPatch, field: str, value: str, message: str
) -> None:
    default = getattr(Settings(), field)
    settings, (by_option,) = read_settings({field: value})
    monkeypatch.setenv(f"HEADLIGHT_{field.upper()}", value)
    _, (by_environment,) = read_settings({})
    name = f"--{field.replace('_', '-')}"
    assert by_option.startswith(f"{name}: {message}")
    assert by_option.endswith(f", got {value!r}")
    assert by_environment == by_option.replace(name, f"HEADLIGHT_{field.upper()}", 1)
    assert getattr(settings, field) == default


@pytest.mark.parametrize(
    ("value", "names"),
    [("on", FAMILIES), ("", FAMILIES), ("off", ()), ("mlflow,huggingface", FAMILIES[::3])],
)
def test_families_are_switched_on_and_off(value: str, names: tuple[Family, ...]) -> None:
    settings, errors = read_settings({"compat": value})
    assert (settings.compat, errors) == (frozenset(names), [])
    assert Settings().compat == frozenset(FAMILIES)
