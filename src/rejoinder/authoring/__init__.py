"""Suites written in Python: their parts, named and spelled as in YAML."""
