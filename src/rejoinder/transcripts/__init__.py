"""Conversations that already happened: read from the files of other programs, graded, and made into cases."""

from rejoinder.transcripts.formats import FORMATS as FORMATS
from rejoinder.transcripts.formats import check_format as check_format
from rejoinder.transcripts.formats import read_bytes as read_bytes
from rejoinder.transcripts.formats import read_transcripts as read_transcripts
from rejoinder.transcripts.values import Said as Said
from rejoinder.transcripts.values import Transcript as Transcript
from rejoinder.transcripts.values import Turn as Turn
from rejoinder.transcripts.values import Unknown as Unknown
from rejoinder.transcripts.values import not_understood as not_understood
