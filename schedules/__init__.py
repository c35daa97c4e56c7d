"""Search spaces and facts of each target."""
