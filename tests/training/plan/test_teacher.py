"""What a teacher said, kept on disk."""

from pathlib import Path

import numpy as np
import pytest

from training.plan.teacher import TeacherLabels

TEXTS = ["good \N{PILE OF POO}", "", "bad"]
VALUES = np.array([[0.1, 0.9], [0.5, 0.5], [0.75, 0.25]], np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "labels.safetensors"


def test_what_was_added_is_there_for_the_next_run(path: Path) -> None:
    TeacherLabels(path, "one").add(TEXTS, VALUES)

    labels = TeacherLabels(path, "one")

    assert all(text in labels for text in TEXTS)
    assert "other" not in labels
    np.testing.assert_array_equal(labels.of(["bad", TEXTS[0], "bad"]), VALUES[[2, 0, 2]])
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_another_teacher_is_passed_over(path: Path) -> None:
    TeacherLabels(path, "one").add(TEXTS, VALUES)

    assert "bad" not in TeacherLabels(path, "two")


def test_a_damaged_file_is_passed_over(path: Path) -> None:
    TeacherLabels(path, "one").add(TEXTS, VALUES)
    path.write_bytes(path.read_bytes()[:-5])

    assert "bad" not in TeacherLabels(path, "one")


def test_texts_are_not_written(path: Path) -> None:
    TeacherLabels(path, "one").add(TEXTS, VALUES)

    assert b"good" not in path.read_bytes()
