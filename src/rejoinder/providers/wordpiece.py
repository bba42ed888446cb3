"""WordPiece, the tokenizer of BERT: a text as the numbers that the model has learned.

It is written out here because the usual package is a dependency of ten megabytes for a page of rules. Where BERT's
first tokenizer and the one that everybody uses today (`tokenizers`) differ, it follows the latter: the vectors are to
be those that others get.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

T = TypeVar("T")

_JSON_LIMIT = 100_000_000
"""More bytes than any vocabulary has; a file above it is not even read."""
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""What BERT has tokens for that are no words; they are recognised in texts, too."""

# Only these part words: a vertical tab, for one, is a control character, and those are dropped without a trace.
_CHUNK = re.compile("[^\t\n\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
# The hole below U+2B920 is a slip of the tokenizer that we follow.
_CHINESE = re.compile(
    "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df"
    "\U0002a700-\U0002b81f\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f])"
)
_ASCII_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_DROPPED = frozenset({"Cc", "Cf", "Co", "Cs"})
"""Categories of characters that nobody sees. Those that Unicode has not given out yet stay."""


class ModelFault(Exception):
    """A model's folder cannot be used: what is wrong with it, and what would do."""

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.hint = hint


class WordPiece:
    """A vocabulary and the rules to cut texts into its pieces."""

    def __init__(
        self,
        vocabulary: dict[str, int],
        *,
        lowercase: bool = True,
        strip_accents: bool = True,
        space_chinese: bool = True,
        special: dict[str, int] | None = None,
        prefix: str = "##",
        longest_word: int = 100,
    ) -> None:
        self._vocabulary = vocabulary
        self._lowercase = lowercase
        self._strip_accents = strip_accents
        self._space_chinese = space_chinese
        self._prefix = prefix
        self._longest_word = longest_word
        self._longest_piece = max(map(len, vocabulary))
        known = special if special is not None else {one: vocabulary[one] for one in _SPECIAL if one in vocabulary}
        self._special = known
        # The longest first, as `|` takes what comes first. Without any, a pattern that is never found.
        names = sorted(known, key=lambda one: -len(one))
        self._special_pattern = re.compile("|".join(map(re.escape, names)) or r"(?!)")
        self._unknown, self._begin, self._end = (vocabulary[name] for name in ("[UNK]", "[CLS]", "[SEP]"))
        self.highest = max((*vocabulary.values(), *known.values()))
        """The highest number that a text can get."""

    def encode(self, text: str, limit: int) -> list[int]:
        """A text's tokens between [CLS] and [SEP], at most `limit` in all; what is beyond them is not looked at."""
        ids = [self._begin]
        for piece in self._pieces(text):
            if len(ids) >= limit - 1:
                break
            ids.append(piece)
        ids.append(self._end)
        return ids

    def _pieces(self, text: str) -> Iterator[int]:
        at = 0
        for found in self._special_pattern.finditer(text):
            yield from self._plain_pieces(text, at, found.start())
            yield self._special[found.group()]
            at = found.end()
        yield from self._plain_pieces(text, at, len(text))

    def _plain_pieces(self, text: str, start: int, end: int) -> Iterator[int]:
        for chunk in _CHUNK.finditer(text, start, end):
            for word in _split_words(self._normalize(chunk.group())):
                yield from self._word_pieces(word)

    def _normalize(self, chunk: str) -> str:
        if chunk.isascii() and chunk.isprintable():  # most are, and nothing but letters has to be changed
            return chunk.lower() if self._lowercase else chunk
        category = unicodedata.category
        chunk = "".join(c for c in chunk if category(c) not in _DROPPED and c != "\ufffd")
        if self._space_chinese:
            chunk = _CHINESE.sub(r" \1 ", chunk)
        if self._strip_accents:
            chunk = "".join(c for c in unicodedata.normalize("NFD", chunk) if category(c) != "Mn")
        if self._lowercase:
            # One character at a time: `lower` on the whole would write a sigma at the end of a word in another way.
            chunk = "".join(map(str.lower, chunk))
        return chunk

    def _word_pieces(self, word: str) -> list[int]:
        """The longest piece that fits, and so on; a word that cannot be put together from pieces is unknown."""
        if len(word) > self._longest_word:
            return [self._unknown]
        pieces: list[int] = []
        start = 0
        while start < len(word):
            prefix = self._prefix if start else ""
            for end in range(min(len(word), start + self._longest_piece), start, -1):
                number = self._vocabulary.get(prefix + word[start:end])
                if number is not None:
                    pieces.append(number)
                    start = end
                    break
            else:
                return [self._unknown]
        return pieces


def _split_words(text: str) -> Iterator[str]:
    """Words and single punctuation marks."""
    if text.isalnum():
        yield text
        return
    start = 0
    for at, c in enumerate(text):
        if c == " " or _is_punctuation(c):
            if start < at:
                yield text[start:at]
            if c != " ":
                yield c
            start = at + 1
    if start < len(text):
        yield text[start:]


def _is_punctuation(c: str) -> bool:
    return c in _ASCII_PUNCTUATION or unicodedata.category(c)[0] == "P"


class _Model(Struct):
    vocab: dict[str, Annotated[int, Meta(ge=0)]] | list[Any]
    type: str | None = None
    unk_token: str | None = None
    continuing_subword_prefix: str | None = None
    max_input_chars_per_word: Annotated[int, Meta(ge=1)] = 100


class _Step(Struct):
    """How a text is prepared; the fields are those of BertNormalizer."""

    type: str
    clean_text: bool = True
    handle_chinese_chars: bool = True
    strip_accents: bool | None = None
    lowercase: bool = True


class _Added(Struct):
    id: Annotated[int, Meta(ge=0)]
    content: Annotated[str, Meta(min_length=1)]
    single_word: bool = False
    normalized: bool = False


class _TokenizerFile(Struct):
    model: _Model
    normalizer: _Step | None = None
    pre_tokenizer: _Step | None = None
    added_tokens: list[_Added] = []


class TokenizerConfig(Struct):
    """tokenizer_config.json: what it says goes before what tokenizer.json says."""

    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool | None = None
    model_max_length: float | None = None


def read_tokenizer(folder: Path, config: TokenizerConfig, always_lowercase: bool) -> WordPiece:
    """The tokenizer of a model's folder. Raises ModelFault."""
    if (folder / "tokenizer.json").is_file():
        return _from_tokenizer_file(read_json(folder / "tokenizer.json", _TokenizerFile), config, always_lowercase)
    if (folder / "vocab.txt").is_file():
        vocabulary = _read_vocabulary(folder / "vocab.txt")
        return _assemble("vocab.txt", vocabulary, _Step("BertNormalizer"), config, always_lowercase)
    raise ModelFault("it has neither a tokenizer.json nor a vocab.txt", "A model with a WordPiece tokenizer has one.")


def _from_tokenizer_file(file: _TokenizerFile, config: TokenizerConfig, always_lowercase: bool) -> WordPiece:
    model, normalizer = file.model, file.normalizer
    # Files of the first versions do not name the kind, but only WordPiece has the prefix.
    kind = model.type or ("WordPiece" if model.continuing_subword_prefix is not None else "unnamed")
    if kind != "WordPiece" or isinstance(model.vocab, list):
        raise _unsupported(f"a tokenizer of the kind {kind}", "WordPiece")
    if normalizer is None or normalizer.type != "BertNormalizer" or not normalizer.clean_text:
        how = "without cleaning it" if normalizer and not normalizer.clean_text else f"with {_kind_of(normalizer)}"
        raise _unsupported(f"a tokenizer that prepares text {how}", "BertNormalizer")
    if file.pre_tokenizer is None or file.pre_tokenizer.type != "BertPreTokenizer":
        raise _unsupported(f"a tokenizer that splits text with {_kind_of(file.pre_tokenizer)}", "BertPreTokenizer")
    if model.unk_token not in (None, "[UNK]"):
        raise _unsupported(f"`{model.unk_token}` as its token for what is unknown", "[UNK]")
    for added in file.added_tokens:
        if added.single_word or added.normalized:
            raise _unsupported(f"the added token `{added.content}` that is found by rules of its own", "no such token")
    return _assemble(
        "tokenizer.json",
        model.vocab,
        normalizer,
        config,
        always_lowercase,
        special={added.content: added.id for added in file.added_tokens},
        prefix="##" if model.continuing_subword_prefix is None else model.continuing_subword_prefix,
        longest_word=model.max_input_chars_per_word,
    )


def _assemble(
    file: str,
    vocabulary: dict[str, int],
    step: _Step,
    config: TokenizerConfig,
    always_lowercase: bool,
    **more: Any,
) -> WordPiece:
    missing = [name for name in ("[UNK]", "[CLS]", "[SEP]") if name not in vocabulary]
    if missing:
        raise ModelFault(f"its {file} lacks {', '.join(missing)}", "A vocabulary of BERT has these tokens.")
    lowercase = _first(config.do_lower_case, step.lowercase)
    return WordPiece(
        vocabulary,
        lowercase=lowercase or always_lowercase,
        strip_accents=_first(config.strip_accents, _first(step.strip_accents, lowercase)),
        space_chinese=_first(config.tokenize_chinese_chars, step.handle_chinese_chars),
        **more,
    )


def _first(one: bool | None, other: bool) -> bool:
    return other if one is None else one


def _kind_of(step: _Step | None) -> str:
    return "nothing" if step is None else step.type


def _unsupported(what: str, supported: str) -> ModelFault:
    return ModelFault(f"it has {what}, which is not supported", f"What is supported is {supported}, as BERT has it.")


def _read_vocabulary(file: Path) -> dict[str, int]:
    """One token a line. Only line feeds end a line: the other line ends of Unicode are tokens of some models."""
    try:
        text = read_bytes(file).decode()
    except UnicodeDecodeError:
        raise ModelFault(f"its {file.name} is not UTF-8") from None
    lines = text.removesuffix("\n").split("\n")
    return {line.removesuffix("\r"): number for number, line in enumerate(lines)}


def read_json(file: Path, kind: type[T]) -> T:
    """A JSON file of a model. Raises ModelFault."""
    return decode_json(read_bytes(file), kind, file.name)


def decode_json(content: bytes, kind: type[T], name: str) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise ModelFault(f"its {name} is not as it should be: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelFault(f"its {name} is not valid JSON: {error}") from None


def read_bytes(file: Path) -> bytes:
    try:
        if file.stat().st_size > _JSON_LIMIT:
            raise ModelFault(f"its {file.name} is larger than {_JSON_LIMIT // 1_000_000} MB")
        return file.read_bytes()
    except OSError as error:
        raise ModelFault(f"its {file.name} cannot be read: {error.strerror}") from None
