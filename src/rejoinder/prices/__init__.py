"""The price table of genai-prices: which models vendors list, and what they ask for them.

Its modules that hold entries load when a name or a price cannot be understood without them.
"""
