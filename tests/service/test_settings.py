"""Settings from options and the environment."""

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.settings import FAMILIES, Families, Family, Rate, Settings, name_of, read_settings


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("HEADLIGHT_"):
            monkeypatch.delenv(name)


def test_defaults() -> None:
    settings, faults = read_settings({})
    assert faults == []
    assert settings.model_dump() == {
        "checkpoint": Path("checkpoints/default"),
        "checkpoint_key": None,
        "host": "127.0.0.1",
        "port": 8000,
        "device": "auto",
        "dtype": "auto",
        "threads": 0,
        "max_sentences": 256,
        "max_item_sentences": 1024,
        "max_windows": 64,
        "max_body_bytes": 2_000_000,
        "max_batch_tokens": "auto",
        "max_queue_tokens": 262_144,
        "max_attention_weights": 2_000_000,
        "max_sending_bytes": 100_000_000,
        "max_connections": "auto",
        "request_timeout": 10.0,
        "watchdog_seconds": 30.0,
        "drain_seconds": 5.0,
        "api_keys": None,
        "api_keys_file": None,
        "rate_limit": None,
        "token_quota": None,
        "metrics": "open",
        "docs": "open",
        "page": "open",
        "compat": {"names": frozenset(FAMILIES)},
        "allowed_hosts": None,
        "allowed_origins": None,
        "trusted_proxies": None,
        "log_format": "auto",
    }


VALUES = {
    "checkpoint": ("some/where", Path("some/where")),
    "checkpoint_key": ("public.pem", Path("public.pem")),
    "host": ("0.0.0.0", "0.0.0.0"),
    "port": ("0", 0),
    "device": ("cuda:12", "cuda:12"),
    "dtype": ("bfloat16", "bfloat16"),
    "threads": ("3", 3),
    "max_sentences": ("1", 1),
    "max_item_sentences": ("1", 1),
    "max_windows": ("1", 1),
    "max_body_bytes": ("1", 1),
    "max_batch_tokens": ("1", 1),
    "max_queue_tokens": ("1", 1),
    "max_attention_weights": ("1", 1),
    "max_sending_bytes": ("1", 1),
    "max_connections": ("7", 7),
    "request_timeout": ("0.5", 0.5),
    "watchdog_seconds": ("0.5", 0.5),
    "drain_seconds": ("0", 0.0),
    "api_keys_file": ("keys", Path("keys")),
    "metrics": ("off", "off"),
    "docs": ("key", "key"),
    "page": ("off", "off"),
    "compat": (" MLflow, classify", Families(frozenset({"classify", "mlflow"}))),
    "allowed_hosts": ("example.org, *.Example.com", ("example.org", "*.example.com")),
    "allowed_origins": ("https://example.org", ("https://example.org",)),
    "rate_limit": ("600/minute", Rate(600, "minute")),
    "token_quota": (" 5000000/day ", Rate(5_000_000, "day")),
    "trusted_proxies": ("10.0.0.0/8, ::1,192.0.2.7", ("10.0.0.0/8", "::1", "192.0.2.7")),
    "log_format": ("text", "text"),
}


def test_every_setting_is_tested_here() -> None:
    assert VALUES.keys() | {"api_keys"} == Settings.model_fields.keys()


@pytest.mark.parametrize("field", VALUES)
def test_each_by_the_environment_and_by_option(monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    text, value = VALUES[field]
    by_option, faults = read_settings({field: text})
    assert (getattr(by_option, field), faults) == (value, [])
    monkeypatch.setenv(f"HEADLIGHT_{field.upper()}", text)
    by_environment, faults = read_settings({})
    assert (getattr(by_environment, field), faults) == (value, [])


def test_an_option_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADLIGHT_PORT", "1")
    settings, faults = read_settings({"port": "2"})
    assert (settings.port, faults) == (2, [])


def test_a_wrong_value_is_reported_and_replaced_by_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADLIGHT_PORT", "x")
    monkeypatch.setenv("HEADLIGHT_UNRELATED", "x")
    settings, faults = read_settings({"threads": "-1"})
    assert (settings.port, settings.threads) == (8000, 0)
    assert faults[0].startswith("HEADLIGHT_UNRELATED: unknown setting; ")
    assert sorted(fault.partition(":")[0] for fault in faults) == [
        "--threads",
        "HEADLIGHT_PORT",
        "HEADLIGHT_UNRELATED",
    ]


def test_keys_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADLIGHT_API_KEYS", "secret")
    settings, _ = read_settings({})
    assert "secret" not in repr(settings)
    assert settings.api_keys is not None
    assert settings.api_keys.get_secret_value() == "secret"


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("allowed_hosts", "a.example, b.example:80", "'b.example:80' is not a name without a port"),
        ("allowed_hosts", ",", "',' is not a name without a port"),
        ("allowed_origins", "https://a.example, *", "'*' is not an origin"),
        ("allowed_origins", "https://a.example/", "'https://a.example/' is not an origin"),
        ("trusted_proxies", "10.0.0.1, proxy", "'proxy' is not an address or a network"),
        ("trusted_proxies", "10.0.0.1/8", "'10.0.0.1/8' is not an address or a network"),
        ("trusted_proxies", "10.0.0.1, *", "'*' is not an address or a network"),
        ("trusted_proxies", ",", "',' is not an address or a network"),
    ],
)
def test_a_wrong_part_of_a_list_is_reported(field: str, value: str, wanted: str) -> None:
    settings, (fault,) = read_settings({field: value})

    assert fault.startswith(f"--{field.replace('_', '-')}: {wanted}, such as ")
    assert fault.endswith(f", got {value!r}")
    assert getattr(settings, field) is None


@pytest.mark.parametrize(
    ("value", "names", "shown"),
    [
        ("on", FAMILIES, "on"),
        ("", FAMILIES, "on"),
        ("off", (), "off"),
        ("mlflow,huggingface", ("huggingface", "mlflow"), "huggingface,mlflow"),
        (",".join(FAMILIES), FAMILIES, "on"),
    ],
)
def test_families_are_switched_on_and_off(
    value: str, names: tuple[Family, ...], shown: str
) -> None:
    settings, faults = read_settings({"compat": value})

    assert faults == []
    assert settings.compat == Families(frozenset(names))
    assert str(settings.compat) == shown
    assert [family for family in FAMILIES if family in settings.compat] == list(names)


@pytest.mark.parametrize("value", ["hugginface", "on,off", "mlflow,off", "true"])
def test_a_wrong_family_is_reported(value: str) -> None:
    settings, faults = read_settings({"compat": value})

    assert faults == [
        "--compat: must be on, off, or some of huggingface, openinference, classify, mlflow, with "
        f"commas between, got {value!r}"
    ]
    assert str(settings.compat) == "on"


@pytest.mark.parametrize("value", ["0/minute", "10", "10/week", "1.5/day", "-1/day"])
def test_a_wrong_rate_is_reported(value: str) -> None:
    settings, faults = read_settings({"rate_limit": value})

    assert faults == [
        "--rate-limit: must be a number for each second, minute, hour or day, such as 600/minute, "
        f"got {value!r}"
    ]
    assert settings.rate_limit is None


@pytest.mark.parametrize("field", ["rate_limit", "token_quota"])
@pytest.mark.parametrize("value", ["10", '{"count": 1, "period": "day"}', '"600/minute"', "[]"])
def test_a_wrong_rate_of_the_environment_is_not_read_as_json(
    monkeypatch: pytest.MonkeyPatch, field: str, value: str
) -> None:
    name = f"HEADLIGHT_{field.upper()}"
    monkeypatch.setenv(name, value)
    settings, faults = read_settings({})

    assert faults == [
        f"{name}: must be a number for each second, minute, hour or day, such as 600/minute, "
        f"got {value!r}"
    ]
    assert getattr(settings, field) is None


@pytest.mark.parametrize("field", ["allowed_origins", "trusted_proxies"])
def test_a_star_alone_stands_for_all(field: str) -> None:
    settings, faults = read_settings({field: " * "})

    assert (getattr(settings, field), faults) == (("*",), [])


@pytest.mark.parametrize("field", [name for name in Settings.model_fields if name != "api_keys"])
@given(value=st.text(max_size=12) | st.integers().map(str) | st.floats().map(str))
@example(value="9" * 5000)
@example(value="gpu")
def test_every_fault_is_in_words_of_this_service(field: str, value: str) -> None:
    _, faults = read_settings({field: value})
    for fault in faults:
        name, _, told = fault.partition(": ")
        assert name == f"--{field.replace('_', '-')}"
        assert told.endswith(f", got {value!r}")
        said = told.removesuffix(f", got {value!r}").lower()
        for phrase in ("input should", "value error", "valid integer", "match", "not of the form"):
            assert phrase not in said


@pytest.mark.parametrize("value", ["gpu", "GPU:0"])
def test_the_gpu_has_another_name(value: str) -> None:
    _, faults = read_settings({"device": value})
    assert faults == [
        f"--device: must be auto, cpu, cuda or cuda:N (cuda is the GPU), got {value!r}"
    ]


def test_a_setting_is_named_as_it_was_given() -> None:
    assert name_of("max_sentences") == "HEADLIGHT_MAX_SENTENCES"
    assert name_of("max_sentences", ["port"]) == "HEADLIGHT_MAX_SENTENCES"
    assert name_of("max_sentences", {"max_sentences": "5"}) == "--max-sentences"
