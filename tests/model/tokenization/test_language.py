"""Texts that are surely not all English are noticed, and English ones are not suspected."""

import csv
import gzip

import pytest

from model.tokenization.language import find_warnings, is_not_english
from tests.shared_data import shared_file

FOREIGN = {
    "German": "Ich habe noch nie so einen langweiligen Film gesehen.",
    "French": "Le service était lent et les plats froids.",
    "Spanish": "Me encanta este producto, lo recomiendo.",
    "Italian": "La spedizione ha impiegato tre settimane e il pacco era aperto.",
    "Portuguese": "A comida estava fria e o garçom foi grosseiro.",
    "Dutch": "Het eten was koud en de ober was onvriendelijk.",
    "Russian": "Официант был грубым.",
    "Chinese": "快递等了三个星期。",
    "Arabic": "كان الطعام باردا والنادل غير مهذب.",
    "half Arabic": "The room was fine, but الخدمة كانت سيئة جدا ولن أعود إلى هنا",
    "half Russian": "Отличный сервис, but the room was small",
    "a third Chinese": "Great phone, 电池很快就没电了",
    "half German": "The staff was kind. Das Essen war kalt und wir haben lange gewartet.",
}


@pytest.mark.parametrize("language", FOREIGN)
def test_other_languages(language: str) -> None:
    assert is_not_english(FOREIGN[language])


@pytest.mark.parametrize(
    "text",
    [
        "Das Auto",  # too few words to be sure
        "No one loves me",
        "C'mon man, let's go!",
        "We ate at La Taqueria de los Muertos, and Le Monde wrote about it.",
        "Caf\u00e9 M\u00fcller was great \U0001f44d\U0001f44d\U0001f44d",
        "Los Angeles is a de facto capital of the movies.",
        "The word «Привет» is Russian.",
        "\U0001d4f6\U0001d4fe\U0001d4fc\U0001d4f2\U0001d4ec \U0001d4f2\U0001d4fc good",
        "\U0001f600\U0001f600\U0001f600\U0001f600",
        "12.5 !!!",
        "",
    ],
)
def test_what_is_no_proof(text: str) -> None:
    assert not is_not_english(text)
    assert find_warnings(text) == ()


def test_only_the_beginning_of_a_text_is_looked_at() -> None:
    german = "Das ist der Film und er war nicht gut. "
    assert find_warnings(german * 100) == ("not-english",)
    assert not is_not_english("It is a film. " * 300 + german * 100)


@pytest.mark.parametrize("name", ["three/tweets_dev", "sst/dev"])
def test_fewer_than_one_english_text_in_a_hundred_is_suspected(name: str) -> None:
    with gzip.open(shared_file(f"{name}.tsv.gz"), "rt", encoding="utf-8") as file:
        texts = [row[0] for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)][1:]
    assert len(texts) > 800
    suspected = sum(map(is_not_english, texts))
    print(f"{name}: {suspected} of {len(texts)}")  # noqa: T201 - the figure is wanted
    assert suspected < 0.01 * len(texts)
