"""The version, in a separate file so that `rejoinder --version` imports nothing else."""

__version__ = "0.3.0.dev0"
