"""Requests with the bytes of their pictures. Everything before a request is sent knows pictures by their digest."""

from __future__ import annotations

from binascii import b2a_base64
from collections import OrderedDict
from collections.abc import Mapping

from msgspec import structs

from rejoinder.model import ChatMessage, Request
from rejoinder.model.pictures import Picture
from rejoinder.providers.base import ProviderError
from rejoinder.runs.pictures import PictureGone, read_picture

MOST_KEPT = 32 << 20
"""Characters of pictures that are kept in memory: trials and turns show the same ones."""


class PictureData:
    """The bytes of pictures, read when a request is sent."""

    def __init__(self) -> None:
        self._data: OrderedDict[str, str] = OrderedDict()
        self._kept = 0

    def filled(self, request: Request, files: Mapping[str, str]) -> Request:
        """The request with the bytes of its pictures. `files`: their files, by digest. Raises ProviderError."""
        if not any(message.pictures for message in request.messages):
            return request
        messages = tuple(self._fill(message, files) for message in request.messages)
        return structs.replace(request, messages=messages)

    def _fill(self, message: ChatMessage, files: Mapping[str, str]) -> ChatMessage:
        if not any(picture.digest for picture in message.pictures):
            return message
        pictures = tuple(structs.replace(one, data=one.data or self._read(one, files)) for one in message.pictures)
        return structs.replace(message, pictures=pictures)

    def _read(self, picture: Picture, files: Mapping[str, str]) -> str:
        data = self._data.pop(picture.digest, None)
        if data is None:
            try:
                data = b2a_base64(read_picture(picture, files), newline=False).decode()
            except PictureGone as error:
                raise ProviderError(str(error), type="picture") from None
            self._kept += len(data)
        self._data[picture.digest] = data
        while self._kept > MOST_KEPT and len(self._data) > 1:
            self._kept -= len(self._data.popitem(last=False)[1])
        return data
