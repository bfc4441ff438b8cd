"""Changes texts without changing their sentiment: typos, capitals, links, names, Penn style."""

import random
import re
from collections.abc import Callable, Sequence

GIVEN_NAMES = (
    "Aisha", "Akira", "Alejandra", "Amara", "Amit", "Ana", "Anna", "Antoine", "Ayşe", "Ben",
    "Carlos", "Chidi", "Chloe", "Dariusz", "David", "Dmitri", "Emily", "Emre", "Fatima", "Femi",
    "Giulia", "Grace", "Hana", "Hassan", "Ingrid", "Ivan", "Jack", "Jamal", "Jin", "Joanna",
    "José", "Kaveh", "Keisha", "Kenji", "Lakshmi", "Lars", "Leila", "Liam", "Lucía", "Mahmoud",
    "Malik", "María", "Mei", "Mia", "Mohammed", "Ngozi", "Nia", "Nikos", "Noah", "Olga", "Olumide",
    "Paolo", "Parisa", "Pedro", "Priya", "Rachel", "Rahul", "Ravi", "Rosa", "Ruth", "Sanjay",
    "Sarah", "Siobhan", "Sofia", "Sunita", "Tariq", "Thabo", "Tom", "Wei", "Xiao", "Yasmin",
    "Yuki", "Yusuf", "Zanele", "Zoe",
)  # fmt: skip
PLACES = (
    "Accra", "Austin", "Bangkok", "Berlin", "Bogotá", "Boston", "Cairo", "Cape Town", "Chicago",
    "Dallas", "Delhi", "Denver", "Dubai", "Dublin", "Hanoi", "Houston", "Istanbul", "Jakarta",
    "Karachi", "Kyiv", "Lagos", "Leeds", "Lima", "Lisbon", "London", "Madrid", "Manila", "Miami",
    "Milan", "Mumbai", "Nairobi", "New York", "Osaka", "Oslo", "Paris", "Prague", "Rome", "Seattle",
    "Seoul", "Sydney", "Tehran", "Tokyo", "Toronto", "Vienna", "Warsaw",
)  # fmt: skip
_KNOWN_NAME = re.compile(rf"\b(?:{'|'.join((*GIVEN_NAMES, *PLACES))})\b")
_LONG_WORD = re.compile(r"[A-Za-z]{4,}")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CONTRACTIONS = {
    "do not": "don't", "does not": "doesn't", "did not": "didn't", "is not": "isn't",
    "are not": "aren't", "was not": "wasn't", "were not": "weren't", "have not": "haven't",
    "has not": "hasn't", "had not": "hadn't", "will not": "won't", "would not": "wouldn't",
    "could not": "couldn't", "should not": "shouldn't", "can not": "can't", "cannot": "can't",
    "it is": "it's", "i am": "i'm", "i have": "i've", "that is": "that's", "they are": "they're",
    "we are": "we're", "you are": "you're",
}  # fmt: skip
_LONG_FORMS = {short: long for long, short in _CONTRACTIONS.items() if long != "can not"}
_LONG_FORM = re.compile(rf"\b(?:{'|'.join(_CONTRACTIONS)})\b", re.IGNORECASE)
_SHORT_FORM = re.compile(rf"\b(?:{'|'.join(_LONG_FORMS)})\b", re.IGNORECASE)
_HANDLES = ("@anna_k", "@thebigshow", "@mr_lee", "@stayhungry", "@club27", "@news_desk")
_TAGS = ("#monday", "#review", "#justsaying", "#travel", "#movienight", "#fyi")
_ENDS = ("", ".", "!", "!!", "...", " :", " -", "?!")
_NEUTRAL_EMOJI = "\N{EYES}\N{CLAPPER BOARD}\N{HOT BEVERAGE}\N{MOBILE PHONE}\N{SPEECH BALLOON}"
_VOWEL = re.compile(r"(?<=[a-z])[aeiou](?=[a-z])")
_MARKS = re.compile(r"[,;:.!]+(?=\s|$)")
_FINAL = re.compile(r"[\s.!]+$")
# The Penn Treebank writes contractions and punctuation as separate words.
_CLITIC = re.compile(r"(?<=\w) (?=(?:n't|'s|'re|'ve|'ll|'d|'m)\b)", re.IGNORECASE)
_BEFORE_PUNCTUATION = re.compile(r" (?=[,.;:!?%)\]])")
_AFTER_BRACKET = re.compile(r"(?<=[(\[]) ")
_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "``": '"', "''": '"'}
_BRACKET = re.compile("|".join(map(re.escape, _BRACKETS)), re.IGNORECASE)
_PENN = re.compile(r"\w n't\b|\w '(?:s|re|ve|ll|d|m)\b|-[lr]rb-|``", re.IGNORECASE)


def add_typo(text: str, rng: random.Random) -> str:
    """Makes one typo in a longer word: two letters swapped, or one lost, doubled or wrong."""
    words = list(_LONG_WORD.finditer(text))
    if not words:
        return text
    word = rng.choice(words)
    # The first letter stays, as in most typos.
    at = rng.randrange(word.start() + 1, word.end() - 1)
    kind = rng.randrange(4)
    if kind == 0:
        return text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    if kind == 1:
        return text[:at] + text[at + 1 :]
    if kind == 2:
        return text[:at] + text[at] + text[at:]
    return text[:at] + rng.choice(_LETTERS) + text[at + 1 :]


def change_case(text: str, rng: random.Random) -> str:
    """Writes a text in upper case, lower case or title case."""
    return rng.choice((text.upper(), text.lower(), text.lower(), text.title()))


def drop_apostrophes(text: str, rng: random.Random) -> str:
    """Drops apostrophes (`dont`), or makes them curly as phones do."""
    return text.replace("'", rng.choice(("", "\N{RIGHT SINGLE QUOTATION MARK}")))


def contract(text: str, rng: random.Random) -> str:
    """Writes `isn't` for `is not`, or the other way round."""
    if rng.random() < 0.5 and _SHORT_FORM.search(text):
        return _SHORT_FORM.sub(lambda match: _alike(match[0], _LONG_FORMS), text)
    return _LONG_FORM.sub(lambda match: _alike(match[0], _CONTRACTIONS), text)


def end(text: str, rng: random.Random) -> str:
    """Replaces the full stop at the end. A question stays one."""
    if text.rstrip().endswith("?"):
        return text
    return _FINAL.sub("", text) + rng.choice(_ENDS)


def add_link(text: str, rng: random.Random) -> str:
    """Adds a link, a name or a tag before or after the text."""
    letters = "".join(rng.choices(_LETTERS + "0123456789", k=8))
    extra = rng.choice((f"https://t.co/{letters}", rng.choice(_HANDLES), rng.choice(_TAGS)))
    return f"{extra} {text}" if rng.random() < 0.5 else f"{text} {extra}"


def elongate(text: str, rng: random.Random) -> str:
    """Draws out a vowel of a longer word (`reeeally`)."""
    words = [word for word in _LONG_WORD.finditer(text) if _VOWEL.search(word[0])]
    if not words:
        return text
    word = rng.choice(words)
    vowel = rng.choice(list(_VOWEL.finditer(word[0])))
    at = word.start() + vowel.start()
    return text[:at] + text[at] * rng.randint(3, 5) + text[at + 1 :]


def drop_marks(text: str, rng: random.Random) -> str:
    """Drops commas and full stops, or doubles them. Question marks stay."""
    return _MARKS.sub(rng.choice(("", r"\g<0>\g<0>")), text)


def add_emoji(text: str, rng: random.Random) -> str:
    """Adds an emoji that has no sentiment."""
    return f"{text} {rng.choice(_NEUTRAL_EMOJI)}"


def swap_names(text: str, rng: random.Random) -> str:
    """Puts another given name for each known one, and another place for each known place."""
    name, place = rng.choice(GIVEN_NAMES), rng.choice(PLACES)
    return _KNOWN_NAME.sub(lambda found: name if found[0] in GIVEN_NAMES else place, text)


_PERTURBATIONS: tuple[Callable[[str, random.Random], str], ...] = (
    add_typo, add_typo, add_typo, change_case, drop_apostrophes, contract, end, add_link, elongate,
    drop_marks, add_emoji, swap_names, swap_names,
)  # fmt: skip


def perturb(text: str, rng: random.Random) -> str:
    """Makes one to three changes."""
    for change in rng.sample(_PERTURBATIONS, rng.choice((1, 2, 2, 3))):
        text = change(text, rng)
    return text


def perturb_all(texts: Sequence[str], *, seed: int) -> tuple[str, ...]:
    """Changes every text."""
    rng = random.Random(f"{seed}/disturbed")  # noqa: S311 - not for secrets
    return tuple(perturb(text, rng) for text in texts)


def _alike(found: str, table: dict[str, str]) -> str:
    """Returns the other form, capitalised if the found one is."""
    other = table[found.lower()]
    return other[0].upper() + other[1:] if found[0].isupper() else other


def detokenize_ptb(text: str) -> str:
    """Writes a text of the Penn style (`do n't`, `-lrb-`) as people do (`don't`, `(`)."""
    if not _PENN.search(text):
        return text
    text = _BRACKET.sub(lambda match: _BRACKETS[match[0].lower()], text)
    text = _CLITIC.sub("", text)
    text = _BEFORE_PUNCTUATION.sub("", text)
    return _AFTER_BRACKET.sub("", text)


def detokenize_share(texts: Sequence[str], *, share: float, seed: int) -> tuple[str, ...]:
    """Rewrites a share of the texts that are in the Penn style."""
    rng = random.Random(f"{seed}/penn")  # noqa: S311 - not for secrets
    return tuple(
        detokenize_ptb(text) if _PENN.search(text) and rng.random() < share else text
        for text in texts
    )
