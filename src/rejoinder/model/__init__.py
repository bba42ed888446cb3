"""The domain's values, all frozen. This package does no I/O and knows neither YAML nor any provider.

`gc=False` marks values that a conversation makes in large numbers. They hold plain data and no cycles, so the garbage
collector would search them in vain.
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
