"""Folders go both ways between this project and transformers, for every family of networks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from model.backends.eager import collate
from model.checkpoint.opening import open_checkpoint
from model.files import CONFIG, MANIFEST
from model.loading import load_predictor
from model.predictor import Predictor
from model.types import AttentionOptions, Batch
from tests.builders import MAX_LENGTH as TINY_LENGTH
from tests.builders import tiny_checkpoint, tiny_config
from tests.families import FAMILIES, LABELS, MAX_LENGTH, TEXTS, save_family
from tests.model.folders import edit

DEFAULT = Path(__file__).parents[3] / "checkpoints" / "default"
# Ours are plain text there, and special in transformers.
PLAIN = [text for text in TEXTS if "<s>" not in text]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    return {kind: save_family(root / kind, kind) for kind in FAMILIES}


@pytest.fixture(scope="module")
def predictors(folders: dict[str, Path]) -> dict[str, Predictor]:
    return {
        kind: load_predictor(open_checkpoint(folder, trial=True), device="cpu", dtype="float32")
        for kind, folder in folders.items()
    }


def transformers_of(folder: Path) -> tuple[Any, Any]:
    theirs = AutoModelForSequenceClassification.from_pretrained(
        folder, attn_implementation="eager"
    ).eval()
    return theirs, AutoTokenizer.from_pretrained(folder)


def ask(theirs: Any, batch: Batch) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:  # noqa: ANN401
    """Logits [B, C] and the weights of each layer [B, H, T, T]."""
    mask = batch.key_padding_mask
    attention_mask = torch.ones_like(batch.input_ids) if mask is None else (~mask).long()
    with torch.no_grad():
        output = theirs(
            input_ids=batch.input_ids, attention_mask=attention_mask, output_attentions=True
        )
    return output.logits, output.attentions


@pytest.mark.parametrize("kind", FAMILIES)
def test_ids_offsets_logits_and_maps_are_those_of_transformers(
    kind: str, folders: dict[str, Path], predictors: dict[str, Predictor]
) -> None:
    theirs, their_tokenizer = transformers_of(folders[kind])
    predictor = predictors[kind]
    encodings = [predictor.encode(text, with_tokens=True) for text in PLAIN]
    expected = their_tokenizer(PLAIN, truncation=True, return_offsets_mapping=True)

    assert [encoding.input_ids for encoding in encodings] == expected["input_ids"]
    for encoding, offsets in zip(encodings, expected["offset_mapping"], strict=True):
        assert encoding.tokens is not None
        assert [(token.start, token.end) for token in encoding.tokens] == offsets
    assert max(len(encoding.input_ids) for encoding in encodings) == MAX_LENGTH
    padded = collate(encodings, pad_token_id=theirs.config.pad_token_id)
    assert padded.key_padding_mask is not None
    logits, attentions = ask(theirs, padded)
    predictions = predictor.predict(encodings)
    explanations = predictor.explain_batch([AttentionOptions(encoding) for encoding in encodings])
    alone = [predictor.predict([encoding])[0] for encoding in encodings]
    for row, encoding in enumerate(encodings):
        probabilities = dict(zip(LABELS, logits[row].softmax(dim=-1).tolist(), strict=True))
        assert predictions[row].probabilities == pytest.approx(probabilities, abs=1e-4)
        assert alone[row].probabilities == pytest.approx(probabilities, abs=1e-4)
        explanation = explanations[row]
        assert explanation.prediction.probabilities == pytest.approx(probabilities, abs=1e-4)
        length = len(encoding.input_ids)
        maps = torch.stack(attentions)[:, row, :, :length, :length].numpy()
        np.testing.assert_allclose(explanation.attention, maps, rtol=0, atol=1e-4)
    # The weights are wide enough that this could fail.
    assert np.ptp([prediction.probabilities["negative"] for prediction in predictions]) > 0.05


OUR_TEXTS = [
    "The plot drags, but the cast is superb.",
    "I don't think, given the price, that it was bad \N{FACE WITH TEARS OF JOY} \N{PILE OF POO}!",
    "Café 中文 İstanbul\u200b\x00\u3000x",
    "It isn't good. " * 200,
    "a",
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, None])
def test_our_folder_loads_in_transformers(dtype: torch.dtype | None, tmp_path: Path) -> None:
    """As it is saved now in each type, and as the default model ships."""
    folder = DEFAULT
    if dtype is not None:
        folder = tiny_checkpoint(tmp_path / "tiny", config=tiny_config(labels=LABELS), dtype=dtype)
    theirs, their_tokenizer = transformers_of(folder)
    checkpoint = open_checkpoint(folder)
    encodings = [checkpoint.tokenizer.encode(text) for text in OUR_TEXTS]

    labels = checkpoint.config.labels
    assert theirs.dtype == torch.float32
    assert theirs.config.id2label == dict(enumerate(labels))
    assert theirs.config.label2id == {label: index for index, label in enumerate(labels)}
    assert their_tokenizer.model_max_length == checkpoint.tokenizer.max_length
    ids = their_tokenizer(OUR_TEXTS, truncation=True)["input_ids"]
    assert ids == [encoding.input_ids for encoding in encodings]
    assert their_tokenizer.decode(ids[0], skip_special_tokens=True) == OUR_TEXTS[0].lower()
    short = [encoding for encoding in encodings if len(encoding.input_ids) <= 32]
    batch = collate(short, pad_token_id=checkpoint.tokenizer.pad_token_id)
    logits, attentions = ask(theirs, batch)
    with torch.inference_mode():
        ours = checkpoint.load_network()(batch, need_weights=True)
    torch.testing.assert_close(ours.logits, logits, rtol=0, atol=1e-4)
    for our_weights, their_weights in zip(ours.attention_weights, attentions, strict=True):
        torch.testing.assert_close(our_weights, their_weights, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        *({"hidden_act": name} for name in ("swish", "relu", "gelu_pytorch_tanh", "gelu_python")),
        *({"hidden_act": name} for name in ("gelu_python_tanh", "gelu_fast", "gelu_accurate")),
        {"pad_token_id": None},
        {"position_embedding_type": None},
        {"id2label": {"0": 0, "1": 1.5, "2": "c"}, "label2id": {"0": 0}},
    ],
)
def test_what_transformers_opens_is_served(changes: dict[str, Any], tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny", config=tiny_config(labels=LABELS))
    (folder / MANIFEST).unlink()
    edit(folder / CONFIG, transformers_version="5", **changes)
    # As editors on Windows write it; transformers does not read that.
    (folder / CONFIG).write_text((folder / CONFIG).read_text(), encoding="utf-8-sig")
    checkpoint = open_checkpoint(folder)
    (folder / CONFIG).write_text((folder / CONFIG).read_text(encoding="utf-8-sig"))
    theirs, tokenizer = transformers_of(folder)
    with torch.no_grad():
        expected = theirs(**tokenizer(OUR_TEXTS[0], return_tensors="pt")).logits.softmax(dim=-1)[0]
    predictor = load_predictor(checkpoint, device="cpu", dtype="float32")
    (found,) = predictor.predict([predictor.encode(OUR_TEXTS[0])])
    assert list(found.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)
    assert tuple(found.probabilities) == (("0", "1.5", "c") if "id2label" in changes else LABELS)


def test_the_default_folder_is_at_most_50_megabytes() -> None:
    assert sum(path.stat().st_size for path in DEFAULT.iterdir()) <= 50_000_000


def test_our_folder_saved_again_by_transformers_is_served(tmp_path: Path) -> None:
    """As after fine-tuning there: without our manifest, which would be out of date."""
    folder = tiny_checkpoint(tmp_path / "tiny")
    again = tmp_path / "again"
    AutoModelForSequenceClassification.from_pretrained(folder).save_pretrained(again)
    AutoTokenizer.from_pretrained(folder).save_pretrained(again)
    assert not (again / MANIFEST).exists()

    checkpoint = open_checkpoint(again)

    assert checkpoint.manifest.temperature == 1.0
    assert checkpoint.manifest.max_length == TINY_LENGTH
    expected = open_checkpoint(folder).load_network().state_dict()
    weights = checkpoint.load_network().state_dict()
    assert all(weights[name].equal(expected[name]) for name in expected)
    for text in OUR_TEXTS:
        assert checkpoint.tokenizer.encode(text, with_tokens=True) == open_checkpoint(
            folder
        ).tokenizer.encode(text, with_tokens=True)
