"""Suites: from files to the model, with every mistake explained."""

from rejoinder.suite.load import Loaded, LoadOptions, load, read_suite

__all__ = ["LoadOptions", "Loaded", "load", "read_suite"]
