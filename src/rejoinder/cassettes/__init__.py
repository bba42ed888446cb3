"""Cassettes: recorded conversations in small files, which answer the same requests again without a model."""
