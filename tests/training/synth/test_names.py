"""Given names in the place of masks."""

from training.synth.names import GIVEN_NAMES, fill_masked_names


def test_each_mask_becomes_a_name_and_the_rest_stays() -> None:
    texts = ["[NAME] and [NAME] won!", "Nobody won.", "[RELIGION] is old."]

    filled = fill_masked_names(texts, share=1.0, seed=0)

    first, second = filled[0].removesuffix(" won!").split(" and ")
    assert {first, second} <= set(GIVEN_NAMES)
    assert filled[1:] == ("Nobody won.", "[RELIGION] is old.")
    assert filled == fill_masked_names(texts, share=1.0, seed=0)
    assert filled != fill_masked_names(texts, share=1.0, seed=1)


def test_a_share_is_filled() -> None:
    filled = fill_masked_names(["[NAME] won."] * 400, share=0.5, seed=0)

    assert 150 < sum("[NAME]" not in text for text in filled) < 250
