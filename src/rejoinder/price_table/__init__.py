"""The price table of genai-prices: which models vendors list, and what they ask for them.

Its modules that hold entries load when a name or a price cannot be understood without them.
"""

from rejoinder.price_table.lookup import TABLES as TABLES
from rejoinder.price_table.lookup import find_model as find_model
from rejoinder.price_table.lookup import is_openrouter_id as is_openrouter_id
from rejoinder.price_table.lookup import load_table as load_table
from rejoinder.price_table.lookup import table_version as table_version
from rejoinder.price_table.lookup import vendor_of as vendor_of
