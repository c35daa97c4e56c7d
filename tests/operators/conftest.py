"""Shared by the tests of single operators: models of one node, and random operands."""

from __future__ import annotations

import sys
from pathlib import Path

# The models are made by a module beside the tests; they are not a package.
sys.path.insert(0, str(Path(__file__).parent))
