"""From a tokenizer that knows no emoji to one that reads the common ones as words.

Pretrained vocabularies have no place for most of them, and one `[UNK]` is like another. They are
read as a word that the vocabulary has; offsets still point at what was written.
"""

import tokenizers
from tokenizers import Regex, normalizers

from model.tokenizer import Tokenizer

# By what people mean most often.
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
# Variation selector and skin tones, which stand behind an emoji.
_BEHIND = "[\N{VARIATION SELECTOR-16}\U0001f3fb-\U0001f3ff]"


def read_emoji(tokenizer: Tokenizer, *, max_length: int) -> Tokenizer:
    """Gives a tokenizer words for common emoji.

    Args:
        tokenizer: stays as it is.
        max_length: of the new one.
    """
    backend = tokenizers.Tokenizer.from_str(tokenizer.to_json())
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
