"""docs/reference/settings.md says what `service.settings` does."""

import subprocess
import sys
from pathlib import Path
from typing import Literal, get_args, get_origin

import annotated_types
import pytest
from pydantic.fields import FieldInfo

from service.settings import PREFIX, Settings
from tests.documentation.markdown import REFERENCE, code, examples, rows
from tests.end_to_end.servers import ROOT, environment

PAGE = REFERENCE / "settings.md"
TABLE = {cells[0].strip("`"): cells for cells in rows(PAGE, "variable", "option", "default")}


def test_the_page_has_every_setting_in_order() -> None:
    assert list(TABLE) == [PREFIX + name.upper() for name in Settings.model_fields]


@pytest.mark.parametrize("name", Settings.model_fields)
def test_option_and_default_are_those_of_the_code(name: str) -> None:
    _, option, default, *_ = TABLE[PREFIX + name.upper()]

    assert code(option) == ("none" if name == "api_keys" else f"--{name.replace('_', '-')}")
    assert code(default) == _shown(Settings.model_fields[name].default)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_the_values_are_those_of_the_code(name: str) -> None:
    values = TABLE[PREFIX + name.upper()][3]
    field = Settings.model_fields[name]
    if get_origin(field.annotation) is Literal:
        assert values == ", ".join(f"`{choice}`" for choice in get_args(field.annotation))
    elif field.annotation in (int, float):
        assert values == _limits(field)


def test_the_example_of_faults_is_what_is_printed() -> None:
    (example,) = examples(PAGE)
    programs = str(Path(sys.executable).parent)

    done = subprocess.run(  # noqa: S602 - the page's own command
        example.command,
        shell=True,
        cwd=ROOT,
        env={**environment(), "PATH": f"{programs}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.rstrip("\n") == example.output


def _shown(default: object) -> str:
    if default is None:
        return "none"
    return f"{default:g}" if isinstance(default, float) else str(default)


def _limits(field: FieldInfo) -> str:
    least = [limit.ge for limit in field.metadata if isinstance(limit, annotated_types.Ge)]
    above = [limit.gt for limit in field.metadata if isinstance(limit, annotated_types.Gt)]
    most = [limit.le for limit in field.metadata if isinstance(limit, annotated_types.Le)]
    if least and most:
        return f"{least[0]} to {most[0]}"
    return f"{least[0]} or more" if least else f"above {above[0]}"
