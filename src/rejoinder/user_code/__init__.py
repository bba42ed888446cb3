"""Users' own code: found as files, loaded, called; what it prints is kept out of the results."""
