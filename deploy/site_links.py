"""Makes pages of docs/ fit for the site: a hook of mkdocs.

Pages may link to any file of the repository, which the site does not have: there the words stay
without the link. In code, a bar of a table needs no backslash there.
"""

import posixpath
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

# A block of code, a span of code, or a link: the first that begins wins.
_PARTS = re.compile(
    r"^```.*?^```$|(?P<span>`[^`\n]+`)|\[(?P<text>[^\[\]]*)\]\((?P<target>[^()\s]+)\)",
    re.MULTILINE | re.DOTALL,
)


def on_page_markdown(
    markdown: str,
    page: Page,
    config: MkDocsConfig,  # noqa: ARG001 -- mkdocs passes it by its name
    files: Files,  # noqa: ARG001 -- mkdocs passes it by its name
) -> str:
    """Removes links that lead out of docs/."""
    folder = posixpath.dirname(page.file.src_uri)

    def replaced(part: re.Match[str]) -> str:
        if part["span"]:
            return part[0].replace("\\|", "|")
        leads_out = part["target"] and posixpath.normpath(
            posixpath.join(folder, part["target"])
        ).startswith("../")
        return part["text"] if leads_out else part[0]

    return _PARTS.sub(replaced, markdown)
