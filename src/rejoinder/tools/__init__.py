"""Tools that models call: found, described and called."""

from rejoinder.tools.base import Listing as Listing
from rejoinder.tools.base import OpenTool as OpenTool
from rejoinder.tools.base import ToolFault as ToolFault
from rejoinder.tools.base import Use as Use
from rejoinder.tools.base import listed_of as listed_of
from rejoinder.tools.base import read_answer as read_answer
from rejoinder.tools.base import read_listed as read_listed
from rejoinder.tools.base import too_slow as too_slow
from rejoinder.tools.opened import OpenTools as OpenTools
