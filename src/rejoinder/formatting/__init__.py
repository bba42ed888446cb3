"""Formatting: from a case to what is sent and logged. Pure: no files, no network, no clock."""

from rejoinder.formatting.files import *
from rejoinder.formatting.globs import *
from rejoinder.formatting.judge import *
from rejoinder.formatting.prompt import *
from rejoinder.formatting.steps import *
from rejoinder.formatting.users import *
