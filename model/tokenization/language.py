"""Notices texts of which a third is surely not English, by its script and most frequent words.

It looks at the beginning of a text. Few words, or a name, are no proof.
"""

import re

ENGLISH, NOT_ENGLISH = "en", "not-english"  # the code of the language, and the warning of any other

_MOST_CHARACTERS = 4000
_FEWEST_LETTERS, _FEWEST_WORDS, _FEWEST_FOUND = 4, 4, 2
# Of the words, the least that are found in another language, and how many times the English ones.
_LEAST_SHARE, _TIMES = 0.2, 3

_CLAUSE = re.compile(r"[.!?;:,()\n\u2013\u2014\u2026]+")
_WORD = re.compile(r"[^\W\d_]+")
# Letters from here on belong to other scripts, except the styled ones of mathematics.
_NOT_LATIN = re.compile(
    r"[^\W\d_\u0000-\u02af\u1d00-\u1eff\u2100-\u214f\uff21-\uff5a\U0001d400-\U0001d7ff]"
)
_LETTER = re.compile(r"[^\W\d_]")

_ENGLISH, _SHARED, *_OTHERS = (
    frozenset(words.split())
    for words in (
        "the an and or but of to for with from by at it its is are be been have has had you your "
        "this that these they he she we my our not very just can will would there what when who "
        "if as all get got out up about more than like how one man re ll ve",
        # Words of English and of others, and ends of such words as `don't`: they prove nothing.
        "a c d do i in m me no on s so t was",
        # German
        "der die das und ist nicht ich ein eine einen einem einer mit auf den dem des sich auch "
        "wir ihr sie es aber sehr war waren wurde haben habe hat im zum zur für von nach bei noch "
        "nur wie mein meine kein keine wenn schon wieder gut alles uns mir mich immer über",
        # French
        "le la les des est et un une je pas que qui dans pour sur avec ce cette mais très nous "
        "vous ils elle du au aux il ne se sont été était mon ma mes plus tout bien j l qu n y "
        "en avons ont cela rien",
        # Spanish
        "el la los las que de y en un una es no por con para se muy pero como más del al lo su "
        "está fue mi me ha son todo nos yo le era estaba sin hay este esta también nunca nada",
        # Italian
        "il lo la gli le di che è un una non per con sono molto ma del della nel alla da si ho ha "
        "era questo questa mi ci come anche più dei delle stato stata e abbiamo tutto al sul mai",
        # Portuguese
        "o os as que de e em um uma não por com para se muito mas como mais do da dos das no na "
        "foi é eu são meu minha está estava nós ele ela isso ao este esta tudo nunca nada",
        # Dutch
        "de het een en is niet ik van dat op met voor te zijn er was maar ook wij we ze je heel "
        "erg aan om bij naar heb heeft hebben mijn geen nog wel deze dit die werd goed alles ons",
        # Swedish, Danish and Norwegian
        "och det är jag att en ett som på inte för med av den var har men vi mycket om så han hon "
        "och og er ikke jeg til et meget på af var vi blev ble veldig som",
        # Polish
        "nie i w na się z do to jest że jak ale po co tak za od był była było bardzo mnie mi przez "
        "tylko już jego",
        # Turkish
        "ve bir bu çok da de için ile ama değil daha gibi ne o ben bana var yok kadar her oldu",
    )
)
_FOREIGN = tuple(words - _ENGLISH - _SHARED for words in _OTHERS)
_ANY_FOREIGN = frozenset().union(*_FOREIGN)


def find_warnings(text: str) -> tuple[str, ...]:
    """Returns what an answer of a model that reads only English warns of."""
    return (NOT_ENGLISH,) if is_not_english(text) else ()


def is_not_english(text: str) -> bool:
    """Whether a third of a text, or more, is surely not English."""
    text = text[:_MOST_CHARACTERS].lower()
    others = 0 if text.isascii() else len(_NOT_LATIN.findall(text))
    if others >= _FEWEST_LETTERS and 3 * others >= len(_LETTER.findall(text)):
        return True
    words = _WORD.findall(text)
    if len(_ANY_FOREIGN.intersection(words)) < _FEWEST_FOUND:
        return False
    clauses = [words, *map(_WORD.findall, _CLAUSE.split(text))]
    return 3 * sum(len(clause) for clause in clauses if _is_foreign(clause)) >= len(words)


def _is_foreign(words: list[str]) -> bool:
    if len(words) < _FEWEST_WORDS:
        return False
    found = max(len([word for word in words if word in language]) for language in _FOREIGN)
    english = sum(word in _ENGLISH for word in words)
    return found >= max(_FEWEST_FOUND, _LEAST_SHARE * len(words), _TIMES * english)
