"""Hook of Hatchling that makes the links of the README absolute: they must also work on the page of a package index."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Puts the README with absolute links into the metadata."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata["urls"]["Repository"]
        readme = with_absolute_links(text, repository, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}


def with_absolute_links(text: str, repository: str, tag: str) -> str:
    """Return a Markdown text whose links and pictures lead to a tag of the repository."""

    def adapt(link: re.Match[str]) -> str:
        is_picture, title, path = link.groups()
        return f"{is_picture}[{title}]({repository}/{'raw' if is_picture else 'blob'}/{tag}/{path})"

    return _LINK.sub(adapt, text)
