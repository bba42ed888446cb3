"""Old name, for the engine alone."""

from rejoinder.cassettes import NO_RECORDING as NO_RECORDING
from rejoinder.cassettes import Cassette as Cassette
from rejoinder.cassettes import CassetteError as CassetteError
from rejoinder.cassettes import Change as Change
from rejoinder.cassettes import Kind as Kind
from rejoinder.cassettes import Playback as Playback
from rejoinder.cassettes import Recording as Recording
from rejoinder.cassettes import Shelf as Shelf
from rejoinder.cassettes import cassette_name as cassette_name
from rejoinder.cassettes import check_folder as check_folder
from rejoinder.cassettes import explain_miss as explain_miss
from rejoinder.cassettes import likeness as likeness
from rejoinder.cassettes import read_cassette as read_cassette
from rejoinder.cassettes import write_cassette as write_cassette
