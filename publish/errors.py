"""Names what keeps a release from being made.

ReleaseError
"""


class ReleaseError(Exception):
    """A release cannot be made; the message says why and what to do."""
