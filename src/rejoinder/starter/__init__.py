"""The files that `rejoinder init` writes."""
