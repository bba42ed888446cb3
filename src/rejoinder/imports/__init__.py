"""Files of other tools as suites: read with their places and comments, mapped by tables, and written as people would
write them. Nothing of the source is run."""
