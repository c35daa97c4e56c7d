"""What an artifact's digest covers."""

import ast
from pathlib import Path

from moonpoly.autotune import sources

_FOLDER = Path(sources.__file__).parent
# Modules that code generators import and that don't decide what a record becomes: storage,
# progress, and choices that are made before there is a record.
_WITHOUT_SAY = {
    "artifact.py", "candidates.py", "costs.py", "progress.py", "records.py", "sources.py",
    "gpu/search.py",
}  # fmt: skip


def test_modules_that_generate_code_are_all_in_the_digest():
    reached = {name for code in sources._CODE for name in _imported(_FOLDER / code)}
    assert reached <= set(sources._CODE) | _WITHOUT_SAY
    assert reached & set(sources._CODE)


def _imported(path: Path) -> set[str]:
    """Return the modules of the offline stage that a file imports."""
    prefix = "moonpoly.autotune."
    return {
        node.module.removeprefix(prefix).replace(".", "/") + ".py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(prefix)
    }
