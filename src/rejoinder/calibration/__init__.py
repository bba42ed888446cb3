"""Judge tests: labelled replies, tests of judges against them, and changes by a re-grade."""
