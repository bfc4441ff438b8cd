"""Makes a tokenizer read common emoji as words.

Pretrained vocabularies lack most emoji, and one `[UNK]` is like another. Here each is read as a
word that the vocabulary has. Offsets still point at the emoji in the text.
"""

import tokenizers
from tokenizers import Regex, normalizers

from model.tokenization.tokenizer import Tokenizer

# By their most frequent meaning.
_MEANINGS = {
    "happy": "😀😃😄😁😊🙂☺😌😇🤗🥳😎🎉🎊😺😸",
    "love": "❤💕💖💗💙💚💛💜🧡🖤🤍💓💞💘😍🥰😘😻",
    "funny": "😂🤣😆😅😹",
    "good": "👍👌👏🙌💯⭐🌟🔥💪✅🤩😋✨🏆",
    "bad": "👎💩🤮🤢❌🗑🚮😖🤦",
    "sad": "😢😭😞😔☹🙁😥😿💔😩😫😟😕",
    "angry": "😠😡🤬😤👿😾🖕",
    "bored": "😒🙄😑😐🥱😴",
}
# The variation selector and skin tones, which follow an emoji.
_BEHIND = "[\N{VARIATION SELECTOR-16}\U0001f3fb-\U0001f3ff]"


def read_emoji(tokenizer: Tokenizer, *, max_length: int) -> Tokenizer:
    """Returns a tokenizer that reads common emoji as words, as the given one may do already."""
    backend = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    if not isinstance(backend.normalizer, normalizers.Sequence):
        backend.normalizer = normalizers.Sequence(
            [
                normalizers.Replace(Regex(_BEHIND), ""),
                *(
                    normalizers.Replace(Regex(f"[{characters}]"), f" {word} ")
                    for word, characters in _MEANINGS.items()
                ),
                backend.normalizer,
            ]
        )
    return Tokenizer(backend, max_length=max_length, pad_token_id=tokenizer.pad_token_id)
