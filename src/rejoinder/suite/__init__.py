"""Suites: from files to the model, with every mistake explained."""

from rejoinder.suite.agentv_files import as_warnings, is_of_agentv
from rejoinder.suite.case_collector import CaseStore
from rejoinder.suite.configuration import open_project, read_configuration, read_prices
from rejoinder.suite.context import LoadOptions
from rejoinder.suite.datasets import Row, read_rows
from rejoinder.suite.discover import FileKind, find_files, kind_of
from rejoinder.suite.document_paths import read_path, write_path
from rejoinder.suite.load import Loaded, read_suite
from rejoinder.suite.pruning import ANYTHING
from rejoinder.suite.schema import schema_for
from rejoinder.suite.services import loses_conversation
from rejoinder.suite.source import CasePlace, Place, Source
from rejoinder.suite.target_names import check_target, route_to_openrouter
from rejoinder.suite.targets import (
    TargetEntry,
    Targets,
    is_known_provider,
    lacks_settings,
    left_out_settings,
    read_targets,
    read_targets_file,
    resolve,
    settings_with_environment,
)
from rejoinder.suite.templates import environment_names, expand_environment, find_secret_by_expression, write_value
from rejoinder.suite.walk import SAYING, Built
from rejoinder.suite.yaml import paused_collector
