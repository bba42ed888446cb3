"""Tools that models call: found, described and called."""
