"""Judges put to the test: labelled replies, judge tests, and what new grades change."""
