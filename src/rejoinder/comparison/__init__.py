"""Two runs compared: cases matched and counted one result at a time, figures from `stats`."""
