"""Hooks of MkDocs: the address of the repository, the version of the site, and the list of all its versions.

Each build goes to a folder of its version, such as build/site/1.0. A folder with the builds of several releases offers
all of them.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_NO_DEFAULT = re.compile(
    r',\s*<span class="doc-default">default:\s*<code>(?:<[^>]*>)?\.\.\.(?:</[^>]*>)?</code></span>|'
    r",\s*default:\s*<code>(?:<[^>]*>)?\.\.\.(?:</[^>]*>)?</code>"
)
REDIRECT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Memoranda</title>
<meta http-equiv="refresh" content="0; url={newest}/index.html">
<p><a href="{newest}/index.html">Memoranda {newest}</a></p>
</html>
"""


def on_config(config: Any) -> Any:
    """Set the values that the program already has: repository and version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    config.repo_url = project["urls"]["Repository"]
    config.repo_name = "Source"
    config.extra["series"] = current_series()
    config.site_dir = str(Path(config.site_dir) / current_series())
    return config


def on_page_content(html: str, **_: Any) -> str:
    """Leave out the defaults of keywords that may be omitted: their descriptions name them."""
    return _NO_DEFAULT.sub("", html)


def on_post_build(config: Any) -> None:
    """List the versions beside this one, and send visitors of the site to the newest."""
    folder = Path(config.site_dir).parent
    versions = list_versions(folder)
    (folder / "versions.js").write_text(f"window.siteVersions = {json.dumps(versions)};\n", "utf-8")
    (folder / "index.html").write_text(REDIRECT.format(newest=versions[0]), "utf-8")


def current_series() -> str:
    """Return the first two numbers of the version, such as 1.0."""
    text = (ROOT / "src" / "memoranda" / "__init__.py").read_text("utf-8")
    match = re.search(r'^__version__ = "(\d+\.\d+)', text, re.MULTILINE)
    if match is None:
        raise ValueError("src/memoranda/__init__.py has no __version__")
    return match[1]


def list_versions(folder: Path) -> list[str]:
    """Return the versions that a folder has a site of, the newest first."""
    names = [path.parent.name for path in folder.glob("*/index.html") if re.fullmatch(r"\d+\.\d+", path.parent.name)]
    return sorted(names, key=lambda name: [int(part) for part in name.split(".")], reverse=True)
