"""Configurations of promptfoo as suites."""
