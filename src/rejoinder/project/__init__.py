"""The project around suites: its folders and files, `.env` files, client certificates and the names of its plugins."""

from rejoinder.project.dotenv import (
    EnvFile,
    Environment,
    env_files,
    environment_of,
    merge_environment,
    read_env_file,
    read_environment,
)
from rejoinder.project.environment import Loan, is_secret, looks_secret, own_environment
from rejoinder.project.files import (
    CERTIFICATE_SETTING,
    CERTIFICATE_SPELLINGS,
    FileFault,
    Finder,
    certificate_files,
    explain_missing_certificate,
    find_certificate,
    in_quotes,
    measure,
    near_name,
    read_text,
    recording_files,
)
from rejoinder.project.folders import display_path, env_folders, find_root, folders_above, user_cache, user_folder
from rejoinder.project.plugins import (
    CHECKS_FILE,
    CHECKS_GROUP,
    PROVIDERS_GROUP,
    find_entry_point,
    known_checks,
    project_checks,
)
from rejoinder.project.user_files import remove_value, save_value, user_folder_held, user_values
