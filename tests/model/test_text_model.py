"""One line loads a checkpoint and predicts texts as they are; wrong kinds end in one line."""

import io
import math
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
import torch

import model
from model import Choice, Predictions, TextModel, attribute, load, load_predictor, open_checkpoint
from model.backends.device import choose_device, choose_dtype
from model.backends.eager import collate
from model.errors import BlankTextError, NotFiniteError, TextTooLongError
from model.reading import ReadingOptions, predict_each, read_each
from model.types import AttentionOptions, Downsampling, TextResult
from tests.builders import tiny_checkpoint, tiny_config, tiny_conv_checkpoint, tiny_manifest
from tests.families import FAMILIES, save_family
from tests.hub_stand_in import Hub, files_of
from tests.matching import exactly

TEXTS = ["a warm film", "dull", "not a good film, and far too long", "good"]


@pytest.fixture(scope="module")
def loaded(checkpoint_folder: Path) -> TextModel:
    return load(str(checkpoint_folder), device="cpu", dtype="float32")


def test_texts_are_answered_in_their_order_as_the_predictor_does(loaded: TextModel) -> None:
    found = loaded.predict(TEXTS)
    predictor = loaded.predictor
    assert isinstance(found, Predictions)
    for text, one in zip(TEXTS, found, strict=True):
        (other,) = predictor.predict([predictor.encode(text)])
        assert (one.label, one.token_count) == (other.label, other.token_count)
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6)
        assert repr(one) == f"Prediction({one.label!r}, {one.score:.4f}, {one.token_count} tokens)"
    assert all(list(loaded.predict(kind)) == list(found) for kind in (tuple(TEXTS), iter(TEXTS)))
    assert list(loaded.predict(np.array(TEXTS))) == list(found)
    assert loaded.labels == loaded.info.labels == tuple(found[0].probabilities)


def test_a_table_keeps_the_index_of_the_series(loaded: TextModel) -> None:
    texts = pd.Series(TEXTS, index=[7, 3, 5, 1])
    found = loaded.predict(texts)
    frame = found.to_dataframe()

    first, second = loaded.labels
    assert list(frame.columns) == [
        *("label", "score", f"probability_{first}", f"probability_{second}"),
        *("token_count", "truncated", "model_version", "error"),
    ]
    assert list(frame.index) == [7, 3, 5, 1]
    assert list(frame["label"]) == [each.label for each in found]
    joined = texts.to_frame("text").join(frame).sort_index()
    assert joined.loc[5, "score"] == loaded.predict(TEXTS[2:3])[0].score
    assert list(loaded.predict(TEXTS).to_dataframe().index) == [0, 1, 2, 3]
    assert len(loaded.predict(pd.Series([], dtype="str")).to_dataframe()) == 0
    assert repr(loaded.predict([])) == "Predictions(0)"


def test_a_table_is_of_the_kind_of_the_series(loaded: TextModel) -> None:
    texts = ["good", None, "dull"]
    found = loaded.predict(polars.Series(texts), on_error="item").to_dataframe()
    other = loaded.predict(pd.Series(texts), on_error="item").to_dataframe()
    assert isinstance(found, polars.DataFrame)
    assert isinstance(other, pd.DataFrame)
    assert found.rows() == [
        tuple(None if pd.isna(cell) else cell for cell in row)
        for row in other.itertuples(index=False)
    ]
    empty = loaded.predict(polars.Series([], dtype=polars.String)).to_dataframe()
    assert empty.schema == found.schema
    assert [str(kind) for kind in found.dtypes[-5:]] == [
        *("Float64", "Int64", "Boolean", "String", "String")
    ]


def uneven(folder: Path) -> Path:
    return tiny_checkpoint(folder, config=tiny_config(intermediate_size=18))


@pytest.mark.parametrize(
    ("save", "dtype", "engine", "bound"),
    [
        (tiny_checkpoint, "float32", "kernels", 1e-5),
        (tiny_checkpoint, "bfloat16", "kernels", 0.1),
        (tiny_checkpoint, "int8", "kernels", 0.2),
        *((partial(save_family, kind=kind), "float32", "kernels", 1e-5) for kind in FAMILIES),
        (uneven, "float32", "eager", 1e-5),
        (tiny_conv_checkpoint, "float32", "eager", 1e-5),
    ],
)
def test_features_are_what_the_classifier_reads(
    save: Callable[[Path], Path], dtype: str, engine: str, bound: float, tmp_path: Path
) -> None:
    save(tmp_path / "saved")
    loaded = load(tmp_path / "saved", "cpu", dtype)
    checkpoint = open_checkpoint(tmp_path / "saved")
    network, read = checkpoint.load_network(), []
    network.classifier.register_forward_hook(lambda _, inputs, __: read.append(inputs[0].numpy()))
    for text in TEXTS:
        encoding = loaded.predictor.encode(text)
        network(collate([encoding], pad_token_id=checkpoint.tokenizer.pad_token_id))

    found = loaded.embed(pd.Series(TEXTS, index=[3, 1, 2, 9]))

    assert loaded.info.engine.startswith(engine)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.concatenate(read), rtol=0, atol=bound)
    logits = network.classifier(torch.from_numpy(found))[:, -1].detach().numpy()
    own = [each.logits[-1] for each in loaded.predict(TEXTS)]
    np.testing.assert_allclose(logits, own, rtol=0, atol=1e-5)
    alone = np.concatenate([loaded.embed([text]) for text in TEXTS])
    np.testing.assert_allclose(found, alone, rtol=0, atol=1e-6)
    assert loaded.embed([]).shape == (0, found.shape[1])
    if engine == "kernels":
        assert found.shape == (4, loaded.info.hidden_size)
        np.testing.assert_array_equal(found, alone)


def test_what_cannot_be_embedded(loaded: TextModel, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BlankTextError, match=r"^texts\[1\]: the text is blank"):
        loaded.embed(["good", " "])
    with pytest.raises(TextTooLongError, match=r"^texts\[0\]: "):
        loaded.embed(["good film " * 20], truncation="error")
    monkeypatch.setattr(
        loaded.predictor._runner, "embed", lambda texts: np.full((len(texts), 8), np.nan, "f4")
    )
    with pytest.raises(NotFiniteError, match=r"^features of 2 of 2 texts are not finite"):
        loaded.embed(["good", "dull"])


@pytest.mark.parametrize("method", ["gradient_x_input", "leave_out"])
def test_attributions_are_drawn(loaded: TextModel, method: Any) -> None:  # noqa: ANN401
    found = loaded.attributions("a warm <film> & more", method=method, level="word")
    picture = ET.fromstring(found.to_svg())  # noqa: S314 - made here
    bars = [each for each in picture.iter() if "data-attribution" in each.attrib]
    assert [each.get("data-attribution") for each in bars] == [
        f"{number:.8f}" for number in found.attributions
    ]
    signs = np.sign(found.attributions).tolist()
    fills = {(sign, bar.get("fill")) for sign, bar in zip(signs, bars, strict=True) if sign}
    assert len({fill for _, fill in fills}) == len(fills) == len(set(signs) - {0})
    titles = [bar[0].text for bar in bars]
    assert [(title or "").partition(": ")[0] for title in titles] == [x.text for x in found.tokens]
    assert found._repr_svg_() == found.to_svg()


def test_attention_is_drawn_as_the_service_draws_it(loaded: TextModel) -> None:
    text = "a warm <film> & more"
    found = loaded.attention(text, layers=[1])
    picture = ET.fromstring(found.to_svg())  # noqa: S314
    weights = [each.get("data-weight") for each in picture.iter() if "data-weight" in each.attrib]
    assert weights == [f"{number:.8f}" for number in found.attention.ravel()]
    assert found._repr_svg_() == found.to_svg()
    words = ET.fromstring(found.to_svg(reduce="mean", level="word"))  # noqa: S314
    count = len(text.split()) + 2
    assert sum("data-weight" in each.attrib for each in words.iter()) == count**2


def test_what_is_too_large_or_has_no_tokens_is_not_drawn(loaded: TextModel) -> None:
    found = loaded.attention("good")
    many = replace(found, attention=np.zeros((2, 2, 71, 71), np.float32))
    message = "the picture has 20,164 cells, of at most 20,000: choose layers and heads, or give "
    with pytest.raises(ValueError, match=message):
        many.to_svg()
    bare = loaded.predictor.explain(loaded.predictor.encode("good"))
    with pytest.raises(ValueError, match="the encoding has no tokens: encode the text with"):
        bare.to_svg()
    assert bare._repr_svg_() is None
    small = AttentionOptions(found.encoding, downsampling=Downsampling(2))
    (thumbnail,) = loaded.predictor.explain_batch([small])
    with pytest.raises(ValueError, match="thumbnails have no picture: explain the text without"):
        thumbnail.to_svg()


def test_results_print_shortly_and_show_no_text(loaded: TextModel) -> None:
    info = loaded.info
    assert repr(loaded) == (
        f"TextModel({info.name!r}, version {info.version}, labels {list(info.labels)}, cpu float32)"
    )
    found = loaded.predict(["good"] * 3)
    assert repr(found) == f"Predictions(3: 3 {found[0].label})"
    explanation = loaded.attention("good film", layers=[0])
    assert repr(explanation) == (
        f"Explanation({explanation.prediction.label!r}, attention 1 x 2 x 4 x 4)"
    )
    for method, shown in {
        "gradient_x_input": "Attribution('gradient_x_input', of {!r}, 4 tokens)",
        "leave_out": "LeaveOutAttribution(of {!r}, 2 units)",
    }.items():
        result = loaded.attributions("good film", method=method)  # type: ignore[arg-type]
        assert repr(result) == shown.format(result.label)


def test_a_long_text_is_cut_or_read_in_windows(loaded: TextModel) -> None:
    long = " ".join(["good film"] * 40)
    most = loaded.info.max_length
    (cut,) = loaded.predict([long])
    assert repr(cut) == f"Prediction({cut.label!r}, {cut.score:.4f}, {most} tokens, truncated)"
    (whole,) = loaded.predict([long], truncation="window")
    assert (whole.truncated, whole.windows > 1) == (False, True)
    with pytest.raises(TextTooLongError, match=r"texts\[1\]: the text has .* tokens"):
        loaded.predict(["good", long], truncation="error")


def test_progress_shows_when_it_is_asked_for(
    loaded: TextModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    loaded.predict(TEXTS)
    assert shown.getvalue() == ""
    loaded.predict(TEXTS, progress=True)
    assert shown.getvalue().startswith("predict: 4/4, ")


def test_passes_hold_texts_of_similar_length(
    loaded: TextModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.reading._PASS_TOKENS", 0)
    monkeypatch.setattr(loaded.predictor, "batch_tokens", 16)
    encodings = [loaded.predictor.encode(text) for text in TEXTS]
    lengths = sorted(len(each.input_ids) for each in encodings)
    counts: list[int] = []
    read = read_each(loaded.predictor, TEXTS, ReadingOptions())
    found = predict_each(loaded.predictor, read, advance=counts.append)
    assert sum(counts) == 4 > len(counts) > 1
    assert all(lengths[sum(counts[: at + 1]) - 1] * count <= 16 for at, count in enumerate(counts))
    for encoding, one in zip(encodings, found, strict=True):
        assert isinstance(one, TextResult)
        assert one.prediction.token_count == len(encoding.input_ids)


def test_a_text_that_overflows_raises_its_error(
    loaded: TextModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = NotFiniteError(1, 1)
    monkeypatch.setattr(loaded.predictor, "predict_each", lambda texts: [error] * len(texts))
    assert loaded.predict(["good"], on_error="item")[0].error is error
    with pytest.raises(NotFiniteError, match=r"^texts\[0\]: logits of 1 of 1 texts are not finite"):
        loaded.predict(["good"])


GOOD = {0: "a warm film", 4: "dull"}
CELLS = ["a warm film", None, " \u200b", "\ud800", "dull"]
BAD = {
    1: "the text is missing: leave it out",
    2: "the text is blank: send at least one character that is not white space, a control or a "
    "format character",
    3: "the text is not valid Unicode: lone surrogate at position 0; write a whole surrogate pair "
    "or leave it out",
}


def test_one_bad_cell_leaves_the_rest_of_a_column(loaded: TextModel) -> None:
    found = loaded.predict(CELLS, on_error="item")

    alone = loaded.predict(list(GOOD.values()))
    assert [found[at] for at in GOOD] == list(alone)
    for at, message in BAD.items():
        bad = found[at]
        assert (bad.label, bad.token_count, bad.truncated) == (None, 0, False)
        assert repr(bad) == f"Prediction({bad.error!r})"
        assert str(bad.error) == message
        assert list(bad.probabilities) == list(loaded.labels)
        assert all(map(math.isnan, [bad.score, *bad.probabilities.values()]))
    assert "3 error" in repr(found)
    frame = found.to_dataframe()
    assert frame["error"].dropna().to_dict() == BAD
    others = frame.columns.drop("error")
    assert frame.loc[list(BAD), others].isna().all(axis=None)
    assert not frame.loc[list(GOOD), others].isna().any(axis=None)
    assert frame.dtypes.to_dict() == alone.to_dataframe().dtypes.to_dict()


@pytest.mark.parametrize(
    "column",
    [
        *(missing for missing in (None, float("nan"), np.nan, pd.NA, pd.NaT)),
        *(pd.Series(["good", None], dtype=kind) for kind in ("object", "string", "category")),
        pd.Series(["good", None], dtype=pd.ArrowDtype(pyarrow.string())),
        np.array(["good", None], dtype=object),
        pyarrow.array(["good", None]),
        pyarrow.chunked_array([["good"], [None]]),
        polars.Series(["good", None]),
    ],
    ids=lambda column: type(column).__name__,
)
def test_what_is_missing_is_missing_in_every_kind_of_column(
    loaded: TextModel,
    column: Any,  # noqa: ANN401
) -> None:
    column = ["good", column] if pd.api.types.is_scalar(column) else column
    good, missing = loaded.predict(column, on_error="item")
    assert (good.label, good.error) == (loaded.predict(["good"])[0].label, None)
    assert (missing.label, str(missing.error)) == (None, BAD[1])
    with pytest.raises(TypeError, match=r"^texts\[1\]: the text is missing"):
        loaded.predict(column)


def test_an_error_names_the_places_of_all(loaded: TextModel) -> None:
    cells = ["good", " ", None, *["good"] * 9, *[""] * 9]
    message = (
        f"texts[1]: {BAD[2]} (11 of 21 texts have no answer, at 1, 2, 12, 13, 14, 15, 16, 17, 18, "
        "19, …: TextModel.predict with on_error='item' answers the others)"
    )
    with pytest.raises(BlankTextError, match=exactly(message)):
        loaded.predict(cells)


def test_labels_and_thresholds_are_those_of_the_service(tmp_path: Path) -> None:
    names = ("negative", "neutral", "positive")
    manifest = tiny_manifest(labels=names, pair_temperature=3.0)
    config = tiny_config(labels=names)
    folder = tiny_checkpoint(tmp_path / "three", config=config, manifest=manifest)
    three = load(folder, device="cpu", dtype="float32")
    whole = three.predict(TEXTS)
    pair = three.predict([*TEXTS, None], labels=["positive", "negative"], on_error="item")
    for text, one in zip(whole, pair, strict=False):
        expected = Choice(("negative", "positive"), 3.0).narrow(text)
        assert one.probabilities == pytest.approx(expected.probabilities, abs=1e-12)
    assert [name for name in pair.to_dataframe() if name.startswith("probability_")] == [
        *("probability_negative", "probability_positive")
    ]
    assert list(three.predict([], labels=["positive", "negative"]).to_dataframe()) == list(
        pair.to_dataframe()
    )
    middle = sorted(each.score for each in whole)[2]
    unsure = three.predict(TEXTS, abstain_below=middle)
    for before, after in zip(whole, unsure, strict=True):
        assert after.label == (before.label if before.score >= middle else None)
        assert (after.score, after.probabilities) == (before.score, before.probabilities)
    assert "2 without label" in repr(unsure)


def test_words_and_sentences_are_attributed(loaded: TextModel) -> None:
    text = "A warm film. Too long."
    words = loaded.attributions(text, level="word")
    assert [token.text for token in words.tokens][1:3] == ["A", "warm"]
    encoding = loaded.predictor.encode(text, with_tokens=True)
    np.testing.assert_allclose(
        loaded.attributions(text).attributions,
        attribute(loaded.predictor.gradients, encoding).attributions,
    )
    left_out = loaded.attributions(text, method="leave_out", level="sentence", label=words.label)
    assert isinstance(left_out, model.LeaveOutAttribution)
    assert [unit.text for unit in left_out.units] == ["A warm film.", "Too long."]


def test_device_and_type_are_chosen_as_the_service_does(checkpoint_folder: Path) -> None:
    opened = open_checkpoint(checkpoint_folder)
    device = choose_device("auto")
    wanted = choose_dtype("auto", device, opened.manifest.precision)
    for info in (load(checkpoint_folder).info, load_predictor(opened).info):
        assert info.dtype == str(wanted.dtype).removeprefix("torch.")
        assert info.dtype_reason == wanted.reason
        assert info.device == str(device)
    own = load(checkpoint_folder, torch.device("cpu"), torch.bfloat16).info
    assert (own.device, own.dtype) == ("cpu", "bfloat16")


def test_a_name_of_the_hub_is_fetched(hub: Hub, tmp_path: Path) -> None:
    folder = save_family(tmp_path / "film", "xlm-roberta")
    hub.add("people/film", files_of(folder))
    found = load("hf:people/film@main", device="cpu", dtype="float32")
    assert found.info.name == "film"
    assert found.predict(["good"])[0].label in found.info.labels


LISTED = "predict takes a list of texts, got {}"
TEXT_ERRORS: list[tuple[Callable[[Any], object], str]] = [
    (lambda it: it.predict("a warm film"), LISTED.format("one string: write predict([text])")),
    (
        lambda it: it.predict(pd.DataFrame({"text": ["a"]})),
        LISTED.format("a DataFrame: give a list, or one column of a table"),
    ),
    (
        lambda it: it.predict([3]),
        "texts[0]: the text is an int: convert it to a string (1 of 1 texts have no answer, at 0: "
        "TextModel.predict with on_error='item' answers the others)",
    ),
    (
        lambda it: it.predictor.encode(["a"]),
        "encode takes one text, got a list: call it once for each string",
    ),
    (
        lambda it: it.predictor.predict(["a"]),
        "predict takes encodings, got a str: encode each text with predictor.encode, or give "
        "texts to model.load(folder)",
    ),
    (lambda _: load(3), "load takes the path of a folder, got an int"),  # type: ignore[arg-type]
    (
        lambda _: load_predictor("checkpoints/default"),  # type: ignore[arg-type]
        "load_predictor takes a Checkpoint, got a str: write load_predictor(open_checkpoint(path))",
    ),
]


@pytest.mark.parametrize(("call", "message"), TEXT_ERRORS)
def test_a_wrong_kind_is_one_line(
    loaded: TextModel, call: Callable[[TextModel], object], message: str
) -> None:
    with pytest.raises(TypeError, match=exactly(message)):
        call(loaded)


CHOICE = "give two or more different ones of the model's labels: bad, good"
WRONG_OPTIONS: list[tuple[str, dict[str, Any], str]] = [
    (
        "attributions",
        {"method": "gradients"},
        "method must be integrated_gradients, gradient_x_input or leave_out, got 'gradients'",
    ),
    *(
        ("attributions", {name: value}, f"{of} must be {known}, got {value!r}")
        for name, value, of, known in (
            ("level", "sentence", "level of gradients", "token or word"),
            ("truncation", "window", "truncation", "right, left or error"),
        )
    ),
    ("embed", {"truncation": "window"}, "truncation must be right, left or error, got 'window'"),
    ("predict", {"on_error": "request"}, "on_error must be raise or item, got 'request'"),
    *(
        ("predict", {"abstain_below": value}, f"abstain_below must be from 0 to 1, got {value}")
        for value in (1.5, -0.1, math.nan)
    ),
    *(
        ("predict", {"labels": each}, CHOICE)
        for each in ([], ["bad"], ["no", "such"], ["negative"] * 2, "good")
    ),
]


@pytest.mark.parametrize(("call", "options", "message"), WRONG_OPTIONS)
def test_an_option_that_is_not_known(
    loaded: TextModel, call: str, options: dict[str, Any], message: str
) -> None:
    message = message.replace("bad, good", ", ".join(loaded.labels))
    with pytest.raises(ValueError, match=exactly(message)):
        getattr(loaded, call)("good" if call == "attributions" else ["good"], **options)


def test_a_table_needs_pandas(loaded: TextModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=exactly("to_dataframe needs pandas: pip install pandas")):
        loaded.predict(["good"]).to_dataframe()
