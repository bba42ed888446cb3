"""Suites as they are before a run: reviewed, ready or not, and who is asked for each case."""
