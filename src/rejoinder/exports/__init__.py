"""Runs as documents for other programs: one module for each format."""
