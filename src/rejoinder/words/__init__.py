"""Numbers and figures put into words, once for every screen, file, message and page."""
