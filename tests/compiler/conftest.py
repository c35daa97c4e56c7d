"""Shared by the compiler's tests: compiling a graph with either intrinsics, comparing with ORT."""

from __future__ import annotations

import sys
from pathlib import Path

# The oracle is a module beside the tests; they are not a package.
sys.path.insert(0, str(Path(__file__).parent))
