"""Two runs compared: cases matched and counted one result at a time, figures from `stats`."""

from rejoinder.comparison.compare import compare_pairs as compare_pairs
from rejoinder.comparison.compare import compare_sides as compare_sides
from rejoinder.comparison.sides import Side as Side
