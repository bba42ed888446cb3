"""The values that Python programs work with: suites, reports, and results as rows and words."""
