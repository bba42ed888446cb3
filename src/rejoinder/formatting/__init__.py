"""Formatting: from a case to what is sent and logged. Pure: no files, no network, no clock."""
