"""Old name, for the engine alone."""

from rejoinder.providers.model_list import is_embedding_model as is_embedding_model
from rejoinder.providers.model_list import nearest_models as nearest_models
from rejoinder.providers.price_list import PriceList as PriceList
from rejoinder.suite.catalog import load_table as load_table
