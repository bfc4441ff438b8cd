"""Folders go both ways between this project and transformers, for every family of networks."""

from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from model.backends.base import collate
from model.checkpoint.opening import open_checkpoint
from model.explain.attribution import attribute
from model.files import CONFIG, MANIFEST
from model.loading import load_predictor
from model.predictor import Predictor
from model.tokenization.reader import load_tokenizer
from model.types import AttentionOptions
from tests.builders import MAX_LENGTH as TINY_LENGTH
from tests.builders import PUNCTUATION, WORDS, tiny_checkpoint, tiny_config
from tests.families import FAMILIES, LABELS, MAX_LENGTH, TEXTS, save_family, tokenizer_of
from tests.model.folders import edit
from tests.model.parity import ask

CPU = torch.device("cpu")
DEFAULT = Path(__file__).parents[3] / "checkpoints" / "default"
# Ours are plain text there, and special in transformers.
PLAIN = [text for text in TEXTS if "<s>" not in text]
ARCHITECTURES = {
    "distilbert": "DistilBertForSequenceClassification",
    "roberta": "RobertaForSequenceClassification",
    "xlm-roberta": "XLMRobertaForSequenceClassification",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    return {kind: save_family(root / kind, kind) for kind in FAMILIES}


@pytest.fixture(scope="module")
def predictors(folders: dict[str, Path]) -> dict[str, Predictor]:
    return {
        kind: load_predictor(open_checkpoint(folder, trial=True), device=CPU, dtype=torch.float32)
        for kind, folder in folders.items()
    }


def transformers_of(folder: Path) -> tuple[Any, Any]:
    theirs = AutoModelForSequenceClassification.from_pretrained(
        folder, attn_implementation="eager"
    ).eval()
    return theirs, AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_folder_of_transformers_is_described(
    kind: str, folders: dict[str, Path], predictors: dict[str, Predictor]
) -> None:
    info = predictors[kind].info

    assert info.architecture == ARCHITECTURES[kind]
    assert info.labels == LABELS
    assert (info.num_layers, info.num_heads, info.hidden_size) == (2, 2, 16)
    assert info.max_length == MAX_LENGTH
    assert info.parameters == transformers_of(folders[kind])[0].num_parameters()


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


@pytest.mark.parametrize("kind", FAMILIES)
def test_attributions_are_the_gradients_of_transformers(
    kind: str, folders: dict[str, Path], predictors: dict[str, Predictor]
) -> None:
    theirs, _ = transformers_of(folders[kind])
    predictor = predictors[kind]
    encoding = predictor.encode(TEXTS[0], with_tokens=True)
    ids = torch.tensor([encoding.input_ids])
    table = theirs.get_input_embeddings().weight.detach()
    embeddings = table[ids].requires_grad_()
    logits = theirs(inputs_embeds=embeddings).logits[0].double()
    index = int(logits.argmax())
    others = [other for other in range(len(LABELS)) if other != index]
    log_odds = logits[index] - logits[others].logsumexp(dim=0)
    (gradient,) = torch.autograd.grad(log_odds, embeddings)
    difference = table[ids] - table[theirs.config.pad_token_id]
    expected = (gradient * difference).sum(dim=-1)[0].numpy()
    expected[[0, -1]] = 0.0  # special tokens do not change

    found = attribute(predictor.gradients, encoding, method="gradient_x_input")

    assert (found.label, found.method, found.steps) == (LABELS[index], "gradient_x_input", None)
    assert found.value == pytest.approx(float(log_odds.detach()), abs=1e-4)
    np.testing.assert_allclose(found.attributions, expected, rtol=1e-3, atol=1e-4)
    integrated = attribute(predictor.gradients, encoding, steps=256)
    assert abs(integrated.gap) < 0.05 * abs(integrated.attributions).sum()


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_special_token_that_is_typed_is_text(
    kind: str, predictors: dict[str, Predictor], folders: dict[str, Path]
) -> None:
    predictor = predictors[kind]
    _, theirs = transformers_of(folders[kind])

    for text in ["<s>", "x<s>y </s> <pad><mask><unk>", "\uff1cs\uff1e", "[SEP] [CLS][PAD]"]:
        encoding = predictor.encode(text, with_tokens=True)
        special = {*theirs.all_special_ids} - {theirs.unk_token_id}
        assert special.isdisjoint(encoding.input_ids[1:-1]), text
        assert encoding.tokens is not None
        assert [token.special for token in encoding.tokens[1:-1]] == [False] * (
            len(encoding.tokens) - 2
        )


TAGS = ("<s>", "</s>", "<pad>", "<unk>", "<mask>", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


ordinary = st.lists(
    st.sampled_from([*WORDS, *PUNCTUATION, "café", "Über", "中文", "x" * 101, "\t", "films"])
).map(" ".join)


def names_no_special_token(text: str) -> bool:
    """There they become the special token itself, here they are text."""
    return not any(tag in normalize("NFKC", text) for tag in TAGS)


@pytest.mark.parametrize("kind", FAMILIES)
def test_any_text_has_the_ids_and_offsets_of_transformers(
    kind: str, folders: dict[str, Path]
) -> None:
    theirs = tokenizer_of(kind, max_length=100_000)
    ours = load_tokenizer(folders[kind], max_length=100_000)

    @given(ordinary | st.text().filter(names_no_special_token))
    def check(text: str) -> None:
        expected = theirs(text, return_offsets_mapping=True)
        encoding = ours.encode(text, with_tokens=True)
        assert encoding.input_ids == expected["input_ids"]
        assert encoding.tokens is not None
        assert [(token.start, token.end) for token in encoding.tokens] == expected["offset_mapping"]

    check()


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
        {"hidden_act": "swish"},
        {"hidden_act": "gelu_python"},
        {"hidden_act": "gelu_python_tanh"},
        {"hidden_act": "gelu_fast"},
        {"hidden_act": "gelu_accurate"},
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
    predictor = load_predictor(checkpoint, device=CPU, dtype=torch.float32)
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
