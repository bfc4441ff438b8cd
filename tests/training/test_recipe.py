"""Presets and what options make of them."""

from pathlib import Path

import pytest

from tests.matching import exactly
from training.errors import RecipeError
from training.recipe import load_recipe, presets


def test_every_preset_that_comes_with_the_project_is_valid() -> None:
    assert presets() == ("finetune", "small")
    assert load_recipe("finetune", {}).network is None
    assert load_recipe("small", {}).network is not None


def test_options_change_a_preset() -> None:
    changed = load_recipe("small", {"epochs": 7, "seed": 3})
    assert (changed.epochs, changed.seed) == (7, 3)
    assert changed.network == load_recipe("small", {}).network


def test_all_faults_are_told(tmp_path: Path) -> None:
    preset = tmp_path / "mine.toml"
    preset.write_text(
        "epochs = 0\nspeed = 3\n[network]\nvocab_size = 500\nhidden_size = 10\nnum_layers = 1\n"
        "num_heads = 3\nintermediate_size = 8\n",
        encoding="utf-8",
    )
    with pytest.raises(RecipeError) as refused:
        load_recipe(str(preset), {})
    message = str(refused.value)
    assert message.startswith(f"preset {preset}: ")
    assert "hidden_size (10) is not divisible by num_heads (3)" in message
    assert "epochs: Input should be greater than or equal to 1 (got 0)" in message
    assert "speed: Extra inputs are not permitted" in message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "large",
            "there is no preset large: choose one of finetune, small, or give the path of a file "
            "that ends in .toml",
        ),
        ("missing.toml", "preset missing.toml: cannot be read: No such file or directory"),
    ],
)
def test_unknown_presets(name: str, message: str) -> None:
    with pytest.raises(RecipeError, match=exactly(message)):
        load_recipe(name, {})


def test_a_file_that_is_not_toml(tmp_path: Path) -> None:
    preset = tmp_path / "bad.toml"
    preset.write_text("epochs: 3", encoding="utf-8")
    with pytest.raises(RecipeError, match="is not TOML"):
        load_recipe(str(preset), {})
