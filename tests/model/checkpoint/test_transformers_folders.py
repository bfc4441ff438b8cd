"""The folder goes both ways between this project and transformers."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertTokenizer,
    PreTrainedTokenizerFast,
)

from model.checkpoint.opening import open_checkpoint
from model.files import MANIFEST
from model.loading import load_predictor
from model.network.batch import collate
from model.tokenization.tokenizer import Tokenizer
from tests.builders import (
    MAX_LENGTH,
    PUNCTUATION,
    SPECIALS,
    VOCABULARY,
    WORDS,
    tiny_checkpoint,
    tiny_config,
    tiny_tokenizer,
)
from tests.model.parity import ask

CPU = torch.device("cpu")
TEXTS = [
    "The plot drags, but the cast is superb.",
    "Café 中文 🎬 İstanbul\u200b\x00\u3000x",
    "don't " * 40,
    "a",
]
LABELS = ("awful", "fair", "great")


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    return path


def save_by_transformers(folder: Path, *, labels: tuple[str, ...] = LABELS) -> None:
    """A BERT with weights wide enough to tell texts apart."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=MAX_LENGTH,
        initializer_range=0.5,
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
    )
    BertForSequenceClassification(config).save_pretrained(folder)


def save_tokenizer(folder: Path, kind: str, vocab_file: Path) -> None:
    """In one of the forms that transformers or its users leave behind."""
    if kind == "BertTokenizer":
        vocabulary = {token: index for index, token in enumerate(VOCABULARY)}
        BertTokenizer(vocab=vocabulary, model_max_length=20).save_pretrained(folder)
    elif kind == "PreTrainedTokenizerFast":
        (folder / "backend.json").write_text(tiny_tokenizer().to_json(), encoding="utf-8")
        PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
            tokenizer_file=str(folder / "backend.json"),
            pad_token="[PAD]",
            unk_token="[UNK]",
            cls_token="[CLS]",
            sep_token="[SEP]",
            mask_token="[MASK]",
            model_max_length=20,
        ).save_pretrained(folder)
    else:
        (folder / "vocab.txt").write_bytes(vocab_file.read_bytes())
        options = {"do_lower_case": True, "model_max_length": 20}
        (folder / "tokenizer_config.json").write_text(json.dumps(options), encoding="utf-8")


@pytest.mark.parametrize("kind", ["BertTokenizer", "PreTrainedTokenizerFast", "vocab.txt"])
def test_a_folder_of_transformers_is_served_unchanged(
    kind: str, vocab_file: Path, tmp_path: Path
) -> None:
    save_by_transformers(tmp_path)
    save_tokenizer(tmp_path, kind, vocab_file)
    theirs = AutoModelForSequenceClassification.from_pretrained(
        tmp_path, attn_implementation="eager"
    ).eval()
    their_tokenizer = AutoTokenizer.from_pretrained(tmp_path)

    predictor = load_predictor(open_checkpoint(tmp_path), device=CPU, dtype=torch.float32)

    assert predictor.info.labels == LABELS
    assert (predictor.info.max_length, predictor.info.temperature) == (20, 1.0)
    encodings = [predictor.encode(text, with_tokens=True) for text in TEXTS]
    assert [encoding.input_ids for encoding in encodings] == their_tokenizer(
        TEXTS, truncation=True
    )["input_ids"]
    assert [encoding.truncated for encoding in encodings] == [False, False, True, False]
    logits, attentions = ask(theirs, collate(encodings, pad_token_id=0))
    predictions = predictor.predict(encodings)
    for row, encoding in enumerate(encodings):
        expected = dict(zip(LABELS, logits[row].softmax(dim=-1).tolist(), strict=True))
        explanation = predictor.explain(encoding)
        assert predictions[row].probabilities == pytest.approx(expected, abs=1e-4)
        assert explanation.prediction.probabilities == pytest.approx(expected, abs=1e-4)
        length = len(encoding.input_ids)
        maps = torch.stack(attentions)[:, row, :, :length, :length].numpy()
        np.testing.assert_allclose(explanation.attention, maps, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_our_folder_loads_in_transformers(dtype: torch.dtype, tmp_path: Path) -> None:
    config = tiny_config(labels=LABELS)
    folder = tiny_checkpoint(tmp_path / "tiny", config=config, dtype=dtype)
    theirs = AutoModelForSequenceClassification.from_pretrained(
        folder, attn_implementation="eager"
    ).eval()
    their_tokenizer = AutoTokenizer.from_pretrained(folder)
    checkpoint = open_checkpoint(folder)
    encodings = [checkpoint.tokenizer.encode(text) for text in TEXTS]

    assert isinstance(theirs, BertForSequenceClassification)
    assert theirs.dtype == torch.float32
    assert theirs.config.id2label == dict(enumerate(LABELS))
    assert their_tokenizer.model_max_length == MAX_LENGTH
    assert their_tokenizer(TEXTS, truncation=True)["input_ids"] == [
        encoding.input_ids for encoding in encodings
    ]
    assert their_tokenizer.decode(encodings[0].input_ids, skip_special_tokens=True) == (
        "the plot drags, but the cast is superb."
    )
    batch = collate(encodings, pad_token_id=0)
    logits, attentions = ask(theirs, batch)
    with torch.inference_mode():
        ours = checkpoint.load_network()(batch, need_weights=True)
    torch.testing.assert_close(ours.logits, logits, rtol=0, atol=1e-4)
    for our_weights, their_weights in zip(ours.attention_weights, attentions, strict=True):
        torch.testing.assert_close(our_weights, their_weights, rtol=0, atol=1e-4)


def test_our_folder_saved_again_by_transformers_is_served(tmp_path: Path) -> None:
    """As after fine-tuning there: without our manifest, which would be out of date."""
    folder = tiny_checkpoint(tmp_path / "tiny")
    again = tmp_path / "again"
    AutoModelForSequenceClassification.from_pretrained(folder).save_pretrained(again)
    AutoTokenizer.from_pretrained(folder).save_pretrained(again)
    assert not (again / MANIFEST).exists()

    checkpoint = open_checkpoint(again)

    assert checkpoint.manifest.temperature == 1.0
    assert checkpoint.manifest.max_length == MAX_LENGTH
    expected = open_checkpoint(folder).load_network().state_dict()
    weights = checkpoint.load_network().state_dict()
    assert all(weights[name].equal(expected[name]) for name in expected)
    for text in TEXTS:
        assert checkpoint.tokenizer.encode(text, with_tokens=True) == open_checkpoint(
            folder
        ).tokenizer.encode(text, with_tokens=True)


ordinary = st.lists(
    st.sampled_from([*WORDS, *PUNCTUATION, "café", "Über", "中文", "x" * 101, "\t", "films"])
).map(" ".join)


@pytest.fixture(scope="module")
def bert_tokenizer() -> BertTokenizer:
    return BertTokenizer(vocab={token: index for index, token in enumerate(VOCABULARY)})


LONG = tiny_tokenizer(max_length=100_000)


def names_no_special_token(text: str) -> bool:
    """There they become the special token itself, here they are text."""
    return not any(token in text for token in SPECIALS)


@given(ordinary | st.text().filter(names_no_special_token))
def test_ids_and_offsets_are_those_of_transformers(
    bert_tokenizer: BertTokenizer, text: str
) -> None:
    theirs = bert_tokenizer(text, return_offsets_mapping=True)
    ours = LONG.encode(text, with_tokens=True)

    assert ours.input_ids == theirs["input_ids"]
    assert ours.tokens is not None
    assert [(token.start, token.end) for token in ours.tokens] == theirs["offset_mapping"]


@pytest.mark.parametrize("truncation", ["right", "left"])
@given(ordinary)
def test_truncation_is_that_of_transformers(
    bert_tokenizer: BertTokenizer, truncation: str, text: str
) -> None:
    bert_tokenizer.truncation_side = truncation
    theirs = bert_tokenizer(text, truncation=True, max_length=8)
    short: Tokenizer = tiny_tokenizer(max_length=8)
    ours = short.encode(text, truncation="left" if truncation == "left" else "right")

    assert ours.input_ids == theirs["input_ids"]
