"""Published benchmarks: their files by address and checksum, converters to suites, and their own figures.

No data is part of rejoinder. Files are fetched when a user asks for them.
"""
