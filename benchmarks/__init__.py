"""Commands that measure MoonPoly against its peers, one process per contender."""
