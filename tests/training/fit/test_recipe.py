"""Presets and what options make of them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matching import exactly
from training.errors import RecipeError
from training.fit.recipe import ConvAttentionSizes, Recipe, load_recipe, presets

NETWORK = """\
[network]
vocab_size = 500
hidden_size = 10
num_layers = 1
num_heads = 2
intermediate_size = 8
"""


def test_the_presets_that_come_with_the_project() -> None:
    recipes = {name: load_recipe(name, {}) for name in presets()}
    from_scratch = {name for name, recipe in recipes.items() if recipe.network}
    assert set(presets()) - from_scratch == {"course", "finetune"}
    assert recipes["course"].conv_attention == ConvAttentionSizes()
    assert recipes["course"].learning_rate == 1e-3
    assert "small" in from_scratch
    assert list(presets()) == sorted(presets())


def test_all_faults_are_told(tmp_path: Path) -> None:
    preset = tmp_path / "mine.toml"
    text = f"epochs = 0\nspeed = 3\n{NETWORK}".replace("num_heads = 2", "num_heads = 3")
    preset.write_text(text, encoding="utf-8-sig", newline="\r\n")  # as on Windows
    message = (
        f"preset {preset} with --dropout, --max-length: "
        "network: hidden_size (10) is not divisible by num_heads (3); "
        "--max-length: must be at least 4 (got 3); "
        "epochs: must be at least 1 (got 0); "
        "--dropout: must be less than 1 (got 1.5); "
        "speed: is not known: leave it out"
    )
    with pytest.raises(RecipeError, match=exactly(message)):
        load_recipe(str(preset), {"dropout": 1.5, "max_length": 3})


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('epochs = "3"', "epochs: must be a whole number (got '3')"),
        ("learning_rate = nan", "learning_rate: must be a finite number (got nan)"),
        ("validation_share = 0.6", "validation_share: must be at most 0.5 (got 0.6)"),
        ("seed = 4294967296", "seed: must be less than 4294967296 (got 4294967296)"),
        ("network.heads = 4", "network.heads: is not known: leave it out"),
    ],
)
def test_a_wrong_value_is_told_with_its_limit(tmp_path: Path, line: str, fault: str) -> None:
    preset = tmp_path / "mine.toml"
    preset.write_text(line, encoding="utf-8")
    with pytest.raises(RecipeError) as refused:
        load_recipe(str(preset), {})
    message = str(refused.value)
    assert message.startswith(f"preset {preset}: ")
    assert fault in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "large",
            f"--preset: there is no preset large: choose one of {', '.join(presets())}, or give "
            "the path of a file that ends in .toml",
        ),
        ("missing.toml", "preset missing.toml: cannot be read: No such file or directory"),
    ],
)
def test_unknown_presets(name: str, message: str) -> None:
    with pytest.raises(RecipeError, match=exactly(message)):
        load_recipe(name, {})


@pytest.mark.parametrize(
    ("content", "fault"),
    [(b"epochs: 3", "is not TOML: Expected '='"), (b"\xff", "cannot be read: is not UTF-8")],
)
def test_a_file_that_is_not_toml(tmp_path: Path, content: bytes, fault: str) -> None:
    preset = tmp_path / "bad.toml"
    preset.write_bytes(content)
    with pytest.raises(RecipeError) as refused:
        load_recipe(str(preset), {})
    assert str(refused.value).startswith(f"preset {preset}: {fault}")


@pytest.mark.parametrize(
    ("rows", "tokens", "kind", "expected"),
    [
        (80, 20, "new", (16, 15, 5e-4, "end", 0.7, None, 0)),
        (151, 20, "new", (16, 8, 5e-4, "end", 0.0, None, 0)),
        (300, 60, "new", (16, 4, 5e-4, "end", 0.7, 2, 0)),
        (300, 20, "served", (32, 3, 5e-5, "start", 0.0, None, 0)),
        (300, 60, "known", (32, 3, 5e-5, "best", 0.0, None, 0)),
        (301, 60, "new", (16, 4, 5e-4, "end", 0.0, None, 0)),
        (1_000, 60, "served", (32, 3, 5e-5, "best", 0.0, None, 0)),
        (1_001, 60, "served", (32, 3, 5e-5, "best", 0.0, None, None)),
    ],
)
def test_the_rows_choose_what_nobody_has_chosen(
    rows: int, tokens: int, kind: str, expected: tuple[object, ...]
) -> None:
    """With the passes of a step, which follow its longest text."""
    names = (
        "batch_size",
        "epochs",
        "learning_rate",
        "keep",
        "teacher_share",
        "layers",
        "held_layers",
    )
    of_rows = {"is_served": kind == "served", "is_known": kind == "known"}
    lengths = [256, *[tokens] * (rows - 1)]
    found = load_recipe("finetune", {}).for_rows(lengths, **of_rows, is_small=True)
    assert tuple(getattr(found, name) for name in names) == expected
    assert found.accumulate == found.batch_size * 256 // 1024
    mine = load_recipe("finetune", {"epochs": 2, "batch_size": 8, "held_layers": 1})
    found = mine.for_rows(lengths, **of_rows, is_small=False)
    assert (found.epochs, found.batch_size, found.held_layers) == (2, 8, 1)
    assert found.accumulate == 1


@given(st.builds(Recipe))
def test_what_a_checkpoint_records_is_the_recipe(recipe: Recipe) -> None:
    assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe


@pytest.mark.parametrize(
    ("given", "keep", "patience"),
    [({}, "end", 12), ({"patience": 2}, "best", 2), ({"patience": 2, "keep": "end"}, "end", 2)],
)
def test_a_run_that_may_stop_early_keeps_its_best_weights(
    given: dict[str, object], keep: str, patience: int
) -> None:
    chosen = load_recipe("finetune", given).for_rows(
        [20] * 100, is_served=False, is_known=False, is_small=True
    )

    assert (chosen.keep, chosen.patience) == (keep, patience)
