"""Users' own code: found as files, loaded, called; what it prints is kept out of the results."""

from rejoinder.user_code.functions import FunctionFault as FunctionFault
from rejoinder.user_code.functions import call_function as call_function
from rejoinder.user_code.functions import in_words as in_words
from rejoinder.user_code.functions import load_file as load_file
from rejoinder.user_code.functions import load_function as load_function
from rejoinder.user_code.functions import raised_at as raised_at
from rejoinder.user_code.functions import recordable as recordable
from rejoinder.user_code.functions import source_of as source_of
from rejoinder.user_code.imports import forget_modules as forget_modules
from rejoinder.user_code.lookup import find_function as find_function
from rejoinder.user_code.lookup import find_module as find_module
from rejoinder.user_code.lookup import find_script as find_script
from rejoinder.user_code.lookup import folder_for as folder_for
from rejoinder.user_code.lookup import is_source as is_source
from rejoinder.user_code.lookup import script_words as script_words
from rejoinder.user_code.output import redirect_user_output as redirect_user_output
