"""Checks text and encodes it as token ids, with offsets into the text as the user wrote it.

Text is only text: a `[SEP]` typed by a user is five characters, never the separator.
"""

import re
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, groupby

import tokenizers
from tokenizers import normalizers

from model.errors import BlankTextError, InputError, TextTooLongError, TokenizerError, is_fault
from model.tokenization.wordpiece import SPECIAL_TOKENS
from model.types import Encoding, Token, Truncation
from model.validation import checked_text, one_text

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_PIECE = 128  # nearly every text has a visible character in its first piece
_NON_SPACE = re.compile(r"\S+")

# A tokenizer cannot stop early and takes some 500 bytes per token, so very long text is cut first.
# A cut changes at most the tokens of a word of 100 characters; a longer word is one unknown token.
MARGIN = 128
# What a cut makes of an added token's characters, and of as much white space that it takes in.
_TOKENS_A_CHARACTER = 4
_MOST_SPACE = 64
_MUCH_SPACE = re.compile(rf"\s{{{_MOST_SPACE}}}")
_CHARACTERS_A_TOKEN = 16
_GROWTH = 4
# A part of so many characters is encoded at once, whatever it becomes: `reader` bounds that too.
_FREE = 16_384
_MOST_TIMES, MOST_GROWN = 4, 1_000_000
# Texts that are never cut first are encoded together, in some milliseconds: 64 at most, and about
# `_FREE` characters.
_SHORT, _MORE = _CHARACTERS_A_TOKEN * MARGIN, _FREE // 64
MAX_WINDOWS = 64  # the most windows of a text unless a setting says another number
_OVERLAP = 4  # the part of a window that the next one reads again: a quarter


def check_text(text: str) -> str:
    """Returns a text, unless it is blank or not valid Unicode.

    Raises:
        BlankTextError: the string has only white space (`str.isspace`), control (Cc) and format
            (Cf) characters.
        InputError: the string contains a lone surrogate (U+D800 to U+DFFF).
        TypeError: it is no string.
    """
    if not isinstance(text, str):
        one_text(text, by="encode")
    if not text.isascii():
        surrogate = _LONE_SURROGATE.search(text)
        if surrogate is not None:
            raise InputError(
                f"the text is not valid Unicode: lone surrogate at position {surrogate.start()}; "
                "write a whole surrogate pair or leave it out"
            )
    if is_blank(text):
        raise BlankTextError
    return text


def is_blank(text: str) -> bool:
    """Whether a text has only white space, control and format characters."""
    if (first := text[:1]) > " " and first.isprintable():
        return False
    # In each piece every character is checked once; between pieces, other threads run.
    pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
    return not any(any(map(_is_visible, set(piece))) for piece in pieces)


def _is_visible(character: str) -> bool:
    return not character.isspace() and unicodedata.category(character) not in {"Cc", "Cf"}


def count_unknown(encodings: Iterable[Encoding], unknown_id: int | None) -> int:
    """Counts the tokens that stand for what the vocabulary lacks; none if `unknown_id` is None."""
    if unknown_id is None:
        return 0
    return sum([encoding.input_ids.count(unknown_id) for encoding in encodings])


class Tokenizer:
    """The tokenizer of one model.

    `unknown_id` is the id of the token for what the vocabulary lacks, or None if there is none.

    Args:
        backend: its own truncation and padding are turned off.
        max_length: the most tokens that the model reads, special tokens included.
        padded_length: length to which every text is padded, for a model that reads padding.
        special_tokens: the tokens of the vocabulary by the roles that transformers knows.

    Raises:
        ValueError: `max_length` leaves no room for a token of the text.
        TokenizerError: the tokenizer breaks on every text.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        max_length: int,
        pad_token_id: int = 0,
        padded_length: int | None = None,
        special_tokens: Mapping[str, str] = SPECIAL_TOKENS,
    ) -> None:
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True
        self._backend = backend
        added = [
            token for token in backend.get_added_tokens_decoder().values() if not token.special
        ]
        self._longest_added = max((len(token.content) for token in added), default=0)
        self._takes_space = any(token.lstrip or token.rstrip for token in added)
        reach = self._longest_added + (_MOST_SPACE if self._takes_space else 0)
        self._margin = MARGIN + _TOKENS_A_CHARACTER * reach
        # BERT's own makes at most three characters of one.
        is_bounded = isinstance(backend.normalizer, normalizers.BertNormalizer | None)
        self._normalize = None if is_bounded else backend.normalizer.normalize_str
        with no_panic():
            template = backend.encode("a", add_special_tokens=True)
        mask = template.special_tokens_mask
        first = [*mask, 0].index(0)
        end = len(mask) - [*reversed(mask[first:]), 0].index(0)
        self._leading, self._trailing = template.ids[:first], template.ids[end:]
        self._leading_tokens, self._trailing_tokens = (
            tuple(Token(text, 0, 0, True, None) for text in part)
            for part in (template.tokens[:first], template.tokens[end:])
        )
        # A network must read at least one token: this one replaces a text that gives none.
        unknown_id = backend.token_to_id(special_tokens["unk_token"])
        self._nothing_id = pad_token_id if unknown_id is None else unknown_id
        self._nothing = Token(str(backend.id_to_token(self._nothing_id)), 0, 0, True, None)
        self._padding = Token(str(backend.id_to_token(pad_token_id)), 0, 0, True, None)
        own = getattr(backend.model, "unk_token", None)
        own_id = None if own is None else backend.token_to_id(own)
        self.unknown_id: int | None = unknown_id if own_id is None else own_id
        self._special_tokens = special_tokens
        self._padded_length = padded_length or 0
        self.max_length = max_length
        self.pad_token_id = pad_token_id
        count = len(self._leading) + len(self._trailing)
        self._room = max_length - count
        if self._room < 1:
            raise ValueError(
                f"max_length is {max_length}, but {count} special tokens leave no room for text: "
                f"it must be at least {count + 1}"
            )

    @property
    def vocab_size(self) -> int:
        """One more than the largest id in an encoding, special and added tokens included."""
        known = self._backend.get_vocab(with_added_tokens=True).values()
        return max([*known, *self._leading, *self._trailing], default=-1) + 1

    def encode(
        self,
        text: str,
        *,
        truncation: Truncation = "right",
        with_tokens: bool = False,
        max_length: int | None = None,
        whole: tokenizers.Encoding | None = None,
    ) -> Encoding:
        """Encodes one text of valid Unicode; see `Predictor.encode`.

        `whole` is what the library made of the text, if it has read it.

        Raises:
            InputError: as `Predictor.encode`, or the normalizer makes the text far longer.
            TokenizerError: the tokenizer breaks on this text.
        """
        from_end = truncation == "left"
        length = min(self.max_length, max_length or self.max_length)
        room = self._room - (self.max_length - length)
        if room < 1:
            raise InputError(
                f"max_length is {length} and leaves no room for text beside the special tokens: "
                f"set it to {length + 1 - room} or more"
            )
        excerpt, encoded = range(len(text)), whole
        if encoded is None:
            excerpt, encoded = self._split(text, room, from_end=from_end, with_tokens=with_tokens)
        surplus = len(encoded) - room
        kept = slice(None)
        if surplus > 0:
            if truncation == "error":
                raise TextTooLongError(
                    f"the text has {_at_least(length + surplus, text, excerpt)} tokens and the "
                    f"model reads at most {length}: shorten it, or set truncation to right or left"
                )
            kept = slice(surplus, None) if from_end else slice(room)
        own = self._own_tokens(text, excerpt, encoded, kept) if with_tokens else ()
        return Encoding(
            self._input_ids(encoded, kept),
            truncated=surplus > 0,
            tokens=self._surround(own) if with_tokens else None,
            text=text if with_tokens else None,
        )

    def encode_many(
        self,
        texts: Sequence[object],
        *,
        truncation: Truncation = "right",
        max_length: int | None = None,
    ) -> Iterator[Encoding | Exception]:
        """Encodes texts, short ones together; in place of a missing or refused one is its error."""
        sizes = accumulate(_MORE + len(text) if isinstance(text, str) else _MORE for text in texts)
        pairs = zip(sizes, texts, strict=True)
        for _, part in groupby(pairs, key=lambda pair: pair[0] // _FREE):
            near = [text for _, text in part]
            short = [text for text in near if isinstance(text, str) and len(text) <= _SHORT]
            whole: dict[str, tokenizers.Encoding] = {}
            # If it breaks on a text, each is encoded by itself.
            with suppress(TokenizerError), no_panic():
                encoded = self._backend.encode_batch_fast(short, add_special_tokens=False)
                whole = dict(zip(short, encoded, strict=True))
            for text in near:
                try:
                    sound = check_text(text if isinstance(text, str) else checked_text(text))
                    yield self.encode(
                        sound, truncation=truncation, max_length=max_length, whole=whole.get(sound)
                    )
                except (InputError, TokenizerError, TypeError) as error:
                    yield error.with_traceback(None)  # its frames hold texts

    def encode_windows(
        self, text: str, *, max_windows: int, with_tokens: bool = False
    ) -> list[Encoding]:
        """Encodes a whole text in overlapping windows; TextTooLongError if it takes more."""
        most = most_tokens(self._room, max_windows)
        excerpt, encoded = self._split(text, most, from_end=False, with_tokens=with_tokens)
        windows = divide(len(encoded.ids), self._room)
        if len(windows) > max_windows:
            count = _at_least(len(windows), text, excerpt)
            raise TextTooLongError(
                f"the text takes {count} windows of {self.max_length} tokens and may have at most "
                f"{max_windows}: divide it, or set truncation to right or left"
            )
        own = self._own_tokens(text, excerpt, encoded, slice(None)) if with_tokens else ()
        return [
            Encoding(
                self._input_ids(encoded, kept),
                truncated=False,
                tokens=self._surround(own[kept]) if with_tokens else None,
                text=text if with_tokens else None,
                window=number,
                windows=len(windows),
            )
            for number, kept in enumerate(windows)
        ]

    def _split(
        self, text: str, room: int, *, from_end: bool, with_tokens: bool
    ) -> tuple[range, tokenizers.Encoding]:
        """Encodes only as much of a text as decides which `room` tokens are kept."""
        # Batch calls let other threads run meanwhile; the fast one computes no offsets.
        encode = self._backend.encode_batch if with_tokens else self._backend.encode_batch_fast
        enough = room + self._margin
        for excerpt in excerpts(len(text), enough=enough, from_end=from_end):
            part = text[excerpt.start : excerpt.stop]
            with no_panic():
                if self._normalize is not None:
                    check_growth(part, self._normalize)
                (encoded,) = encode([part], add_special_tokens=False)
            if len(encoded.ids) >= enough and not self._cuts_space(text, excerpt, from_end):
                break
        return excerpt, encoded

    def _cuts_space(self, text: str, excerpt: range, from_end: bool) -> bool:
        """Whether an added token behind the cut could take in much white space before it."""
        if not self._takes_space:
            return False
        reach = self._longest_added + _MOST_SPACE
        start = excerpt.start if from_end else excerpt.stop - reach
        return _MUCH_SPACE.search(text, start, start + reach) is not None

    def _input_ids(self, encoded: tokenizers.Encoding, kept: slice) -> list[int]:
        """The ids of the kept tokens, with special tokens and padding."""
        ids = [*self._leading, *encoded.ids[kept], *self._trailing] or [self._nothing_id]
        return ids + [self.pad_token_id] * (self._padded_length - len(ids))

    def _own_tokens(
        self, text: str, excerpt: range, encoded: tokenizers.Encoding, kept: slice
    ) -> tuple[Token, ...]:
        words = _NON_SPACE.finditer(text, 0, excerpt.stop)
        word_ends = array("q", (word.end() for word in words))
        last = len(word_ends) - 1
        # A token of another tokenizer may begin with the space before its word. The count of
        # words that end before the token still gives the right word.
        return tuple(
            Token(
                token,
                excerpt.start + start,
                excerpt.start + end,
                False,
                min(bisect_right(word_ends, excerpt.start + start), last),
            )
            for token, (start, end) in zip(encoded.tokens[kept], encoded.offsets[kept], strict=True)
        )

    def _surround(self, own: tuple[Token, ...]) -> tuple[Token, ...]:
        """The kept tokens, with special tokens and padding."""
        tokens = (*self._leading_tokens, *own, *self._trailing_tokens) or (self._nothing,)
        return tokens + (self._padding,) * (self._padded_length - len(tokens))

    def token_id(self, token: str) -> int | None:
        """Returns the id of a token, or None if the vocabulary lacks it."""
        token_id: int | None = self._backend.token_to_id(token)
        return token_id

    def special_tokens(self) -> dict[str, str]:
        """Returns the special tokens of this vocabulary by the roles that transformers knows."""
        return {
            role: token
            for role, token in self._special_tokens.items()
            if self.token_id(token) is not None
        }

    def to_json(self) -> str:
        """Returns the content of `tokenizer.json`."""
        content: str = self._backend.to_str(pretty=False)
        return content


@contextmanager
def no_panic() -> Iterator[None]:
    """Turns whatever the tokenizer raises into a TokenizerError; a panic is no `Exception`."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, InputError) or not is_fault(error):
            raise
        # Not from it: the message of a panic may hold a part of the text, and logs show causes.
        raise TokenizerError(type(error).__name__) from None


def excerpts(length: int, *, enough: int, from_end: bool) -> Iterator[range]:
    """Yields growing parts of a text: one of `enough` tokens has those of the text but a margin."""
    size = _CHARACTERS_A_TOKEN * enough
    while size < length:
        start = length - size if from_end else 0
        yield range(start, start + size)
        size *= _GROWTH
    yield range(length)


def _at_least(count: int, text: str, excerpt: range) -> str:
    """A count of a text, of which maybe only a part was read."""
    return f"{count}" if len(excerpt) == len(text) else f"more than {count}"


def check_growth(text: str, normalize: Callable[[str], str]) -> None:
    """Raises TextTooLongError for a part that becomes several times as long when normalised."""
    if len(text) <= _FREE:
        return
    limit = max(MOST_GROWN, _MOST_TIMES * len(text))
    grown = 0
    for start in range(0, len(text), _FREE):
        grown += len(normalize(text[start : start + _FREE]))
        if grown > limit:
            raise TextTooLongError(
                f"{len(text)} characters of the text become more than {limit} when they are "
                "normalised: shorten it"
            )


def window_step(room: int) -> int:
    """Returns the tokens from one window to the next: few, so that in one each has neighbours."""
    return room - room // _OVERLAP


def most_tokens(room: int, max_windows: int) -> int:
    """Returns how many tokens of a text fit into so many windows."""
    return room + (max_windows - 1) * window_step(room)


def divide(count: int, room: int) -> list[slice]:
    """Divides tokens into one window or more; all but the last have `room` tokens."""
    step = window_step(room)
    windows = 1 + max(0, -(-(count - room) // step))
    return [slice(start, min(start + room, count)) for start in range(0, windows * step, step)]
