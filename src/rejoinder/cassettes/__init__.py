"""Cassettes: recorded conversations in small files, which answer the same requests again without a model."""

from rejoinder.cassettes.file import Cassette as Cassette
from rejoinder.cassettes.file import Change as Change
from rejoinder.cassettes.file import Kind as Kind
from rejoinder.cassettes.file import Recording as Recording
from rejoinder.cassettes.file import Shelf as Shelf
from rejoinder.cassettes.file import cassette_name as cassette_name
from rejoinder.cassettes.file import check_folder as check_folder
from rejoinder.cassettes.file import read_cassette as read_cassette
from rejoinder.cassettes.file import write_cassette as write_cassette
from rejoinder.cassettes.match import Playback as Playback
from rejoinder.cassettes.match import explain_miss as explain_miss
from rejoinder.cassettes.match import likeness as likeness
