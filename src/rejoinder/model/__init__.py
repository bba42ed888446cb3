"""The words of the domain as frozen values. Nothing here does I/O or knows YAML or a provider.

`gc=False` stands at values that a conversation makes many of. They hold plain data and never themselves, so the garbage
collector would look through them for nothing.
"""

from rejoinder.model.calls import *
from rejoinder.model.cases import *
from rejoinder.model.checks import *
from rejoinder.model.evidence import *
from rejoinder.model.formats import *
from rejoinder.model.messages import *
from rejoinder.model.plans import *
from rejoinder.model.problems import *
from rejoinder.model.results import *
from rejoinder.model.runs import *
from rejoinder.model.suite import *
from rejoinder.model.tools import *
from rejoinder.model.walks import *
from rejoinder.model.workspaces import *
