"""The files of the console: templates, styles, scripts, icons and texts.

In a clone they are folders beside this module. A wheel has them in one archive, which takes a quarter of their size
(`tools/build_hook.py`). Both are read in the same way.
"""

from __future__ import annotations

import zipfile
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

PACKAGE: Final = "memoranda.bindings.console"
# The file in a wheel; the build hook has the same name.
_ARCHIVE: Final = "resources.zip"


@cache
def resource_folder() -> Traversable:
    """Return the folder that contains `templates`, `static` and `texts`."""
    folder = files(PACKAGE)
    archive = folder / _ARCHIVE
    return zipfile.Path(str(archive)) if archive.is_file() else folder
