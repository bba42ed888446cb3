"""Suites: from files to the model, with every mistake explained."""
