"""Embeddings that are computed here: the same tokens and vectors as the usual libraries give, and no folder, however
broken, ends in anything but words."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import weakref
from array import array
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from rejoinder.providers.local_embeddings import LocalEmbeddings, erfc
from rejoinder.providers.wordpiece import TokenizerConfig, WordPiece, read_tokenizer

from rejoinder.errors import UsageError
from rejoinder.model import Reply, Request, Target
from rejoinder.providers.base import ProviderError
from tests.kit import Raw, spec

Tensors = dict[str, tuple[tuple[int, ...], list[float]]]

# --- A small model ---------------------------------------------------------------------------------------------------

WIDTH, LAYERS, HEADS, INNER, POSITIONS = 16, 2, 4, 32, 24
_WORDS = """\
[PAD] [UNK] [CLS] [SEP] [MASK] the cat dog sat sits on mat un ##aff ##able ##s ##ing walk is not a b c ##a ##b ##c
Cat \u00dcber \u00fcber uber caf\u00e9 cafe ##\u00e9 ##e x ##x 中 文 ##文 ασ ας οδυσσευσ i ##i ı \u0130 \ud55c
\u1112 ##\u1161 ##\u11ab . , ! ? - _ ' $ € … ( ) [ ]
paris ##is capital of france was
"""
VOCABULARY = _WORDS.split()
"""Words, endings, signs; other scripts and capitals for the rules about them. Accents and syllables are one character
here, and the parts of a syllable are three."""

CONFIG: Raw = {
    "model_type": "bert",
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": POSITIONS,
    "type_vocab_size": 2,
    "vocab_size": len(VOCABULARY),
    "pad_token_id": 0,
}
TOKENIZER: Raw = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [
        {
            "id": number,
            "content": VOCABULARY[number],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number in range(5)
    ],
    "normalizer": {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {word: number for number, word in enumerate(VOCABULARY)},
    },
}
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]


def shapes() -> dict[str, tuple[int, ...]]:
    """BERT's tensors, as its makers name them."""
    all_shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(VOCABULARY), WIDTH),
        "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.LayerNorm.weight": (WIDTH,),
        "embeddings.LayerNorm.bias": (WIDTH,),
    }
    sizes = {
        "attention.self.query": (WIDTH, WIDTH),
        "attention.self.key": (WIDTH, WIDTH),
        "attention.self.value": (WIDTH, WIDTH),
        "attention.output.dense": (WIDTH, WIDTH),
        "attention.output.LayerNorm": (WIDTH,),
        "intermediate.dense": (INNER, WIDTH),
        "output.dense": (WIDTH, INNER),
        "output.LayerNorm": (WIDTH,),
    }
    for layer in range(LAYERS):
        for name, shape in sizes.items():
            all_shapes[f"encoder.layer.{layer}.{name}.weight"] = shape
            all_shapes[f"encoder.layer.{layer}.{name}.bias"] = shape[:1]
    return all_shapes


def tensors() -> Tensors:
    """Weights without any pattern to speak of, from whole numbers, so that every machine has the same."""
    made: Tensors = {}
    for seed, (name, shape) in enumerate(shapes().items(), 1):
        scale, middle = (0.4, 1.0) if "LayerNorm.weight" in name else (1.6, 0.0)
        state, values = seed * 7919, []
        for _ in range(math.prod(shape)):
            state = (state * 48271 + seed) % 2147483647
            values.append(middle + scale * (state / 2147483647 - 0.5))
        made[name] = (shape, values)
    return made


def packed(values: Iterable[float], dtype: str) -> bytes:
    if dtype == "BF16":
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    return b"".join(struct.pack("<f" if dtype == "F32" else "<e", value) for value in values)


def safetensors(parts: Tensors, dtype: str = "F32", change: Callable[[Raw], object] | None = None) -> bytes:
    """A safetensors file; `change` is done to its header."""
    header: Raw = {"__metadata__": {"format": "pt"}}
    body = bytearray()
    for name, (shape, values) in parts.items():
        content = packed(values, dtype)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(content)]}
        body += content
    if change is not None:
        change(header)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(body)


def put(file: Path, value: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value), encoding="utf-8")


def write_model(folder: Path, parts: Tensors | None = None, dtype: str = "F32") -> Path:
    put(folder / "config.json", CONFIG)
    put(folder / "tokenizer.json", TOKENIZER)
    put(folder / "modules.json", MODULES)
    put(folder / "sentence_bert_config.json", {"max_seq_length": 12, "do_lower_case": False})
    put(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": WIDTH, "pooling_mode_mean_tokens": True})
    (folder / "model.safetensors").write_bytes(safetensors(parts or tensors(), dtype))
    return folder


def write_vocabulary(folder: Path, words: Iterable[str] = VOCABULARY, **config: Any) -> None:
    """vocab.txt in the place of tokenizer.json."""
    (folder / "tokenizer.json").unlink(missing_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    put(folder / "tokenizer_config.json", config)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny")


def opened(folder: Path | str, *folders: Path) -> LocalEmbeddings:
    target = Target(name="local", provider="local_embeddings", settings={"folder": str(folder)})
    return LocalEmbeddings(target, tuple(map(str, folders)))


def request(text: str | None) -> Request:
    return Request(target="local", case_id="one", trial=1, turn=1, call=0, messages=(), question="", embed=text)


def replies(folder: Path | str, *texts: str | None) -> list[Reply]:
    async def ask() -> list[Reply]:
        provider = opened(folder)
        try:
            return [await provider.reply(request(text)) for text in texts]
        finally:
            await provider.close()

    return asyncio.run(ask())


def numbers(reply: Reply) -> list[float]:
    values = array("f", reply.vector)
    if sys.byteorder == "big":
        values.byteswap()
    return list(values)


def vectors(folder: Path | str, *texts: str) -> list[list[float]]:
    return [numbers(reply) for reply in replies(folder, *texts)]


def distance(one: Iterable[float], other: Iterable[float]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def refusal(folder: Path | str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        opened(folder)
    return caught.value


# --- Vectors ---------------------------------------------------------------------------------------------------------

TEXTS = ("the cat sat on the mat", "The CAT sits... un-affable!", "", "mat the on sat cat the", "a " * 40)

# Made with sentence-transformers 6.2, transformers 5.22 and torch 2.15 (CPU): each folder written as below, loaded with
# SentenceTransformer(folder), and each text given alone to encode(..., normalize_embeddings=True).
GOLDEN = {
    "mean": """
    -0.4814290 -0.3551530 0.0653690 -0.2246399 -0.0455106 0.4839644 0.2099836 -0.0622274
    0.2783228 -0.0647778 -0.2715214 0.1872726 0.1740885 -0.2155000 0.1876871 -0.0258864
    -0.5323520 -0.3203188 0.1465487 -0.2350479 -0.0600880 0.5009357 0.0386393 -0.0452151
    0.3046915 -0.1951073 -0.1088920 0.1566169 0.0855900 -0.1979833 0.2552433 0.0150449
    -0.5183747 -0.3049944 -0.0275181 -0.3485149 -0.0988331 0.4745590 0.1294172 0.0346515
    0.2383114 -0.1557025 -0.0146060 0.1507918 0.1145296 -0.1593502 0.3469907 -0.0149438
    -0.4735233 -0.3852585 0.1489144 -0.2536197 0.0347205 0.4809632 0.0825207 -0.1117725
    0.2998241 -0.1991099 -0.1180574 0.2046307 0.0908294 -0.2469074 0.1763012 0.0580818
    -0.3781034 -0.4797867 -0.0048906 -0.2786624 -0.0399039 0.4017077 0.1680174 -0.0042228
    0.1743594 -0.2562825 -0.0288096 0.2463994 0.2435833 -0.2283315 0.2980737 -0.0040255
    """,
    "cls": """
    -0.4371019 -0.3169113 0.1178504 -0.0134574 -0.0793518 0.4879969 0.1900226 -0.1528994
    0.2765242 0.0010305 -0.4352585 0.1762186 0.2008174 -0.2271962 0.0141277 0.0374149
    -0.5407053 -0.3146339 0.1670642 -0.1119908 -0.0681280 0.5328429 0.0130598 -0.1284689
    0.3077735 -0.1865412 -0.1655893 0.1663865 0.1110604 -0.1939668 0.1628186 0.0431197
    -0.5200315 -0.3033847 0.0316904 -0.3375533 -0.0862901 0.4862147 0.0694723 0.0160676
    0.2697561 -0.1778955 -0.0116783 0.1464303 0.0978873 -0.1715833 0.3294040 -0.0109545
    -0.4284242 -0.3816099 0.2491396 -0.1191474 0.0284707 0.4746586 0.0042593 -0.1851975
    0.3111818 -0.2275431 -0.1609289 0.2141150 0.0903443 -0.2936315 0.0569117 0.1271162
    -0.3367309 -0.5087031 0.0250956 -0.2404982 -0.0389498 0.3980592 0.1529293 0.0003144
    0.1584206 -0.3050421 -0.0136336 0.2546312 0.2454823 -0.2456115 0.2866731 -0.0083654
    """,
    "F16": """
    -0.4810687 -0.3552333 0.0657951 -0.2240583 -0.0455671 0.4838583 0.2101163 -0.0626312
    0.2786087 -0.0645874 -0.2722291 0.1872720 0.1742315 -0.2158639 0.1870535 -0.0258414
    -0.5322931 -0.3203099 0.1466185 -0.2347175 -0.0602599 0.5009856 0.0386354 -0.0454964
    0.3048953 -0.1952592 -0.1089155 0.1566663 0.0856276 -0.1980719 0.2549669 0.0151336
    -0.5183294 -0.3050678 -0.0275735 -0.3482839 -0.0989523 0.4746386 0.1294935 0.0344550
    0.2383978 -0.1559374 -0.0143882 0.1508574 0.1145717 -0.1594334 0.3468365 -0.0148702
    -0.4733314 -0.3852548 0.1491656 -0.2532125 0.0346620 0.4809526 0.0824597 -0.1122055
    0.3000478 -0.1992825 -0.1181354 0.2046723 0.0907680 -0.2471737 0.1759075 0.0582809
    -0.3780597 -0.4798222 -0.0048398 -0.2783691 -0.0399286 0.4017312 0.1681567 -0.0044463
    0.1744530 -0.2564251 -0.0288488 0.2463944 0.2435159 -0.2284523 0.2980167 -0.0039639
    """,
    "BF16": """
    -0.4835125 -0.3542278 0.0675359 -0.2260537 -0.0439392 0.4833742 0.2049402 -0.0603779
    0.2782546 -0.0651398 -0.2717046 0.1882746 0.1748427 -0.2149067 0.1883042 -0.0264000
    -0.5339578 -0.3188541 0.1478744 -0.2362347 -0.0582680 0.4992190 0.0357271 -0.0424691
    0.3035342 -0.1950875 -0.1102760 0.1570808 0.0868240 -0.1976949 0.2569240 0.0139235
    -0.5201278 -0.3043863 -0.0257976 -0.3488629 -0.0972972 0.4742333 0.1257312 0.0356952
    0.2374304 -0.1560543 -0.0148413 0.1515185 0.1147224 -0.1582075 0.3473934 -0.0148868
    -0.4748378 -0.3829528 0.1521912 -0.2553277 0.0368652 0.4797381 0.0761398 -0.1099369
    0.3002253 -0.1994320 -0.1182930 0.2052263 0.0914587 -0.2473413 0.1769938 0.0569394
    -0.3804962 -0.4781009 -0.0004781 -0.2812226 -0.0369337 0.4006741 0.1592263 -0.0024995
    0.1762485 -0.2579605 -0.0260528 0.2464148 0.2446697 -0.2293427 0.2980092 -0.0039644
    """,
}
"""For each text two lines of eight."""


def golden_vectors(kind: str) -> list[list[float]]:
    numbers = list(map(float, GOLDEN[kind].split()))
    return [numbers[at : at + WIDTH] for at in range(0, len(numbers), WIDTH)]


@spec("R54")
def test_vectors_are_those_of_the_reference(model: Path) -> None:
    answers = replies(model, *TEXTS)
    for reply, golden in zip(answers, golden_vectors("mean"), strict=True):
        assert distance(numbers(reply), golden) < 1e-5
        assert math.isclose(math.hypot(*numbers(reply)), 1, abs_tol=1e-6)
        assert (reply.text, reply.model, reply.usage.output_tokens) == ("", "tiny", 0)
    assert [reply.usage.input_tokens for reply in answers] == [8, 12, 2, 8, 12]
    assert not any(reply.usage.approximate for reply in answers)
    # The texts are apart by much more than the tolerance: another order of words, or a word more, would be seen.
    assert distance(golden_vectors("mean")[0], golden_vectors("mean")[3]) > 1e-2


@pytest.mark.parametrize(
    "pooling", [{"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, {"pooling_mode": "cls"}]
)
def test_the_state_of_the_first_token_is_the_vector_where_the_model_says_so(model: Path, pooling: Raw) -> None:
    put(model / "1_Pooling" / "config.json", pooling)
    for vector, golden in zip(vectors(model, *TEXTS), golden_vectors("cls"), strict=True):
        assert distance(vector, golden) < 1e-5
    assert distance(golden_vectors("cls")[0], golden_vectors("mean")[0]) > 1e-2


def rounded(parts: Tensors, dtype: str) -> Tensors:
    """Weights as they are after they have been stored in 16 bits."""

    def narrow(value: float) -> float:
        if dtype == "BF16":
            return struct.unpack("<f", b"\0\0" + struct.pack("<f", value)[2:])[0]
        return struct.unpack("<e", struct.pack("<e", value))[0]

    return {name: (shape, [narrow(value) for value in values]) for name, (shape, values) in parts.items()}


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_weights_of_16_bits(tmp_path: Path, dtype: str) -> None:
    """The reference had the rounded weights as 32-bit floats: it would compute in 16 bits otherwise."""
    narrow = vectors(write_model(tmp_path / "narrow", dtype=dtype), *TEXTS)
    same = vectors(write_model(tmp_path / "same", rounded(tensors(), dtype)), *TEXTS)
    assert narrow == same
    for vector, golden, full in zip(narrow, golden_vectors(dtype), golden_vectors("mean"), strict=True):
        assert distance(vector, golden) < 1e-5
        assert distance(golden, full) > 1e-5, "the rounding would not be seen"


def test_names_of_tensors_as_other_programs_write_them(model: Path) -> None:
    before = vectors(model, *TEXTS)
    whole = {f"bert.{name}": tensor for name, tensor in tensors().items()} | {"cls.predictions.bias": ((1,), [0.5])}
    (model / "model.safetensors").write_bytes(safetensors(whole))
    assert vectors(model, *TEXTS) == before
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors().items()
    }
    (model / "model.safetensors").write_bytes(safetensors(old))
    assert vectors(model, *TEXTS) == before


def test_folders_as_versions_of_the_library_lay_them_out(model: Path, tmp_path: Path) -> None:
    before = vectors(model, *TEXTS)
    newer = shutil.copytree(model, tmp_path / "newer")
    put(newer / "sentence_bert_config.json", {"transformer_task": "feature-extraction"})
    put(newer / "tokenizer_config.json", {"model_max_length": 12, "do_lower_case": True})
    put(newer / "1_Pooling" / "config.json", {"embedding_dimension": WIDTH, "pooling_mode": "mean"})
    kinds = ("base.modules.transformer.Transformer", "sentence_transformer.modules.pooling.Pooling")
    modules = zip(kinds, ("", "1_Pooling"), strict=True)
    put(newer / "modules.json", [{"type": f"sentence_transformers.{kind}", "path": path} for kind, path in modules])
    assert vectors(newer, *TEXTS) == before
    older = tmp_path / "older"
    shutil.copytree(model, older / "0_Transformer", ignore=shutil.ignore_patterns("modules.json", "1_Pooling"))
    put(older / "1_Pooling" / "config.json", {"pooling_mode_mean_tokens": True})
    put(older / "modules.json", [{**MODULES[0], "path": "0_Transformer"}, *MODULES[1:]])
    assert vectors(older, *TEXTS) == before
    plain = shutil.copytree(model, tmp_path / "plain", ignore=shutil.ignore_patterns("modules.json", "1_Pooling"))
    write_vocabulary(plain)
    assert vectors(plain, *TEXTS) == before


def test_long_texts_are_cut(model: Path) -> None:
    [at_limit, beyond] = replies(model, "a " * 10, "a " * 10 + "cat sat")
    assert at_limit == beyond
    assert at_limit.usage.input_tokens == 12
    put(model / "sentence_bert_config.json", {"max_seq_length": 512})  # more than there are positions
    [longer] = replies(model, "a " * 1000)
    assert longer.usage.input_tokens == POSITIONS
    (model / "sentence_bert_config.json").unlink()
    put(model / "tokenizer_config.json", {"model_max_length": 1000000000000000019884624838656})
    assert replies(model, "a " * 1000) == [longer]
    put(model / "tokenizer_config.json", {"model_max_length": 5})
    assert replies(model, "a " * 1000)[0].usage.input_tokens == 5


def test_a_text_of_megabytes_is_not_read_to_its_end(model: Path) -> None:
    start = "the cat sat on the mat and "
    [short, long] = vectors(model, start + "un " * 20, start + "un " * 2_000_000)
    assert short == long


def test_many_at_once_are_the_same_as_one_after_the_other(model: Path) -> None:
    texts = [f"the cat sat {'on ' * (number % 5)}{VOCABULARY[5 + number]}" for number in range(20)]

    async def at_once() -> list[Reply]:
        provider = opened(model)
        try:
            return await asyncio.gather(*(provider.reply(request(text)) for text in texts))
        finally:
            await provider.close()

    together = asyncio.run(at_once())
    assert together == replies(model, *texts)
    assert len({reply.vector for reply in together}) == len(texts)


def test_the_event_loop_goes_on_meanwhile(model: Path) -> None:
    async def ask() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        provider = opened(model)
        await provider.reply(request("the cat"))
        counting.cancel()
        await provider.close()
        return turns

    assert asyncio.run(ask()) > 0


@pytest.mark.slow
def test_one_folder_is_held_once(model: Path) -> None:
    one, other = opened(model), opened(model)
    assert one._model is other._model
    put(model / "1_Pooling" / "config.json", {"pooling_mode": "cls"})
    assert opened(model)._model is not one._model
    held = weakref.ref(one._model)
    del one, other
    gc.collect()
    assert held() is None


def test_erfc_against_the_standard_library() -> None:
    np = pytest.importorskip("numpy")
    places = [number / 500 for number in range(20_000)]
    mine = erfc(np.array(places))
    assert max(abs(a - math.erfc(z)) for a, z in zip(mine.tolist(), places, strict=True)) < 4e-11


def test_gelu_against_the_standard_library() -> None:
    np = pytest.importorskip("numpy")
    from rejoinder.providers.local_embeddings import _gelu

    places = np.linspace(-40, 40, 40_000, dtype=np.float32).reshape(40, 1000)
    exact = [x * 0.5 * math.erfc(-x / math.sqrt(2)) for x in places.ravel().tolist()]
    errors = (abs(a - b) / max(1, abs(b)) for a, b in zip(_gelu(places).ravel().tolist(), exact, strict=True))
    assert max(errors) < 1e-7


# --- Tokens ----------------------------------------------------------------------------------------------------------

# Made with tokenizers 0.23 from the same tokenizer.json; the cased lists with its `lowercase` switched off.
TOKENS: list[tuple[str, str, str, str]] = [
    ("nothing", "", "2 3", ""),
    ("spaces", " \t\n ", "2 3", ""),
    ("words", "the cat sat on the mat", "2 5 6 8 10 5 11 3", ""),
    ("pieces", "unaffable cats walking", "2 12 13 14 6 15 17 16 3", ""),
    ("no pieces", "unaffablez dogx", "2 1 7 35 3", ""),
    ("capitals", "The CAT Cat", "2 5 6 6 3", "2 1 1 26 3"),
    ("accents in one", "\xdcber Caf\xe9 caf\xe9", "2 29 31 31 3", "2 27 1 30 3"),
    ("accents apart", "U\u0308ber cafe\u0301 \u0301", "2 29 31 3", "2 1 1 1 3"),
    ("sigma", "ΑΣ ΟΔΥΣΣΕΥΣ ας ασ", "2 39 41 40 39 3", "2 1 1 40 39 3"),
    ("dotted i", "\u0130i Iı", "2 42 43 1 3", "2 45 43 1 3"),
    ("chinese", "中文 cat中文x", "2 36 37 6 36 37 34 3", ""),
    ("rare chinese", "\U00020000中\U0002b820x\U0002b920x\uf900", "2 1 36 1 1 34 1 3", ""),
    ("hangul", "\ud55c", "2 47 48 49 3", "2 46 3"),
    ("kana", "は x", "2 1 34 3", ""),
    (
        "signs",
        "cat,dog.the-cat!? 'x' (a) [b] _c_ $a €x … a…b",
        "2 6 51 7 50 5 54 6 52 53 56 34 56 60 20 61 62 21 63 55 22 55 57 20 58 35 59 20 59 21 3",
        "",
    ),
    ("emoji", "cat 👍🏽 dog👍", "2 6 1 1 3", ""),
    ("control", "c\x00a\x01t\x7f\ufffd d\u200bo\xadg\ue000 the\x0bcat", "2 6 7 1 3", ""),
    ("white", "the\xa0cat\u2003sat\u3000on\u2028mat\rthe\x85cat\x1fdog", "2 5 6 8 10 11 1 3", ""),
    ("not given out", "a\u0378b", "2 1 3", ""),
    ("special", "[CLS] cat[SEP]dog [MASK][UNK]a[PAD] [cls] [ MASK ]", "2 2 6 3 7 4 1 20 0 62 1 63 62 1 63 3", ""),
    ("a hundred", "x" * 100, "2 34" + " 35" * 99 + " 3", ""),
    ("a hundred and one", "x" * 101 + " cat", "2 1 6 3", ""),
    ("a hundred after accents", "xe\u0301" * 50, "2 34 33" + " 35 33" * 49 + " 3", "2 1 3"),
]
"""A name, the text, its tokens without regard to case, and with it where they differ."""


@pytest.mark.parametrize(("text", "uncased", "cased"), [one[1:] for one in TOKENS], ids=[one[0] for one in TOKENS])
def test_tokens_are_those_of_the_reference(model: Path, text: str, uncased: str, cased: str) -> None:
    def tokens(lowercase: bool) -> str:
        tokenizer = read_tokenizer(model, TokenizerConfig(do_lower_case=lowercase), False)
        return " ".join(map(str, tokenizer.encode(text, 1000)))

    assert (tokens(True), tokens(False)) == (uncased, cased or uncased)
    write_vocabulary(model)
    assert (tokens(True), tokens(False)) == (uncased, cased or uncased)


def test_what_is_no_text_at_all_has_tokens(model: Path) -> None:
    """A reply can hold half a surrogate pair, which other libraries cannot even be given."""
    tokenizer = read_tokenizer(model, TokenizerConfig(), False)
    assert tokenizer.encode("the \ud83d cat\udc4d", 10) == tokenizer.encode("the cat", 10)


def encoded(folder: Path, text: str, always_lowercase: bool = False, **config: Any) -> list[str]:
    ids = read_tokenizer(folder, TokenizerConfig(**config), always_lowercase).encode(text, 100)
    return [VOCABULARY[number] for number in ids[1:-1]]


def test_case_and_accents_are_as_the_folder_says(model: Path) -> None:
    assert encoded(model, "Über Café") == ["uber", "cafe"]
    assert encoded(model, "Über Café", do_lower_case=False) == ["Über", "[UNK]"]
    assert encoded(model, "Über café", strip_accents=False) == ["über", "café"]
    assert encoded(model, "Über Café", always_lowercase=True, do_lower_case=False) == ["über", "café"]
    put(model / "tokenizer.json", TOKENIZER | {"normalizer": TOKENIZER["normalizer"] | {"lowercase": False}})
    assert encoded(model, "Cat Über") == ["Cat", "Über"]
    assert encoded(model, "Cat Über", do_lower_case=True) == ["cat", "uber"]
    assert encoded(model, "中文x", tokenize_chinese_chars=False) == ["中", "##文", "##x"]
    assert encoded(model, "中文x") == ["中", "文", "x"]


def test_a_vocabulary_with_odd_line_ends(model: Path) -> None:
    words = [*VOCABULARY, "\u2028", "end"]
    write_vocabulary(model, words)
    (model / "vocab.txt").write_bytes("\r\n".join(words).encode())
    ids = read_tokenizer(model, TokenizerConfig(), False).encode("the end", 10)
    assert ids == [2, words.index("the"), words.index("end"), 3]


@pytest.mark.slow
def test_a_long_word_takes_no_longer_for_what_a_file_says() -> None:
    """Without a bound, a word of 200,000 letters would take 20,000,000,000 looks into the vocabulary."""
    tokenizer = WordPiece({word: number for number, word in enumerate(VOCABULARY)}, longest_word=1_000_000)
    assert len(tokenizer.encode("x" * 200_000, 300_000)) == 200_002


def test_the_first_tokenizer_files_do_not_name_their_kind(model: Path) -> None:
    unnamed = {key: value for key, value in TOKENIZER["model"].items() if key != "type"}
    put(model / "tokenizer.json", TOKENIZER | {"model": unnamed})
    assert encoded(model, "unaffable cats") == ["un", "##aff", "##able", "cat", "##s"]


# --- Where the folder is ---------------------------------------------------------------------------------------------


def test_the_folder_is_looked_for_beside_the_suite_then_in_the_project_then_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite, root, here = (tmp_path / name for name in ("suite", "root", "here"))
    for place in (suite, root, here):
        place.mkdir()
    monkeypatch.chdir(here)

    def limit() -> int:
        async def ask() -> Reply:
            provider = opened("models/tiny", suite, root)
            try:
                return await provider.reply(request("a " * 50))
            finally:
                await provider.close()

        return asyncio.run(ask()).usage.input_tokens

    for number, place in enumerate((here, root, suite), 5):
        folder = write_model(place / "models" / "tiny")
        put(folder / "sentence_bert_config.json", {"max_seq_length": number})
        assert limit() == number


def test_a_folder_is_called_by_the_name_that_it_is_reached_by(model: Path, tmp_path: Path) -> None:
    (tmp_path / "by-link").symlink_to(model, target_is_directory=True)
    assert replies(tmp_path / "by-link", "a")[0].model == "by-link"
    assert replies(model / "1_Pooling" / "..", "a")[0].model == "tiny"


def test_there_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        opened("models/x", tmp_path / "suite", tmp_path)
    assert caught.value.message == "there is no folder `models/x`, which target `local` takes its embeddings from"
    assert caught.value.hint == (
        f"It was looked for in {tmp_path / 'suite'}, {tmp_path}. Download a model into it. A BERT model of"
        " sentence-transformers does, such as all-MiniLM-L6-v2 or bge-small-en-v1.5."
    )
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert refusal("file").message == "the `folder` of target `local` is a file: file"
    for impossible in ("x" * 5000, "a\0b"):  # what is said of them is up to the system
        assert impossible in refusal(impossible).message


@pytest.mark.parametrize("settings", [{}, {"folder": None}, {"folder": " "}, {"folder": 3}])
def test_the_folder_is_not_named(settings: Raw) -> None:
    with pytest.raises(UsageError) as caught:
        LocalEmbeddings(Target(name="local", provider="local_embeddings", settings=settings), ())
    assert caught.value.message == "target `local` needs `folder`, the folder of an embedding model"


# --- What cannot be used ---------------------------------------------------------------------------------------------


def change(name: str, **values: Any) -> Callable[[Path], None]:
    """Fields of a JSON file, changed; None takes one out."""

    def do(folder: Path) -> None:
        content = json.loads((folder / name).read_text(encoding="utf-8")) if (folder / name).exists() else {}
        content |= values
        put(folder / name, {key: value for key, value in content.items() if value is not None})

    return do


def write(name: str, content: bytes | Any) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            put(folder / name, content)

    return do


def remove(*names: str, then: Iterable[str] = ()) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()
        for name in then:
            (folder / name).write_bytes(b"{}")

    return do


def steps(*functions: Callable[[Path], None]) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        for function in functions:
            function(folder)

    return do


def resize(name: str, size: int) -> Callable[[Path], None]:
    """A file as long as is wished, which takes no room on the disk."""
    return lambda folder: os.truncate(folder / name, size)


def in_tokenizer(part: str, **values: Any) -> Callable[[Path], None]:
    return write("tokenizer.json", TOKENIZER | {part: TOKENIZER[part] | values})


def with_header(changed: Callable[[Raw], object]) -> Callable[[Path], None]:
    return write("model.safetensors", safetensors(tensors(), change=changed))


def in_header(name: str, **values: Any) -> Callable[[Path], None]:
    """One tensor of the safetensors file, described otherwise."""
    return with_header(lambda header: header[name].update(values))


def with_vocabulary(words: Iterable[str]) -> Callable[[Path], None]:
    return lambda folder: write_vocabulary(folder, words)


NORM = "embeddings.LayerNorm.bias"
WORDS = "embeddings.word_embeddings.weight"
DOES = "A BERT model of sentence-transformers does, such as all-MiniLM-L6-v2 or bge-small-en-v1.5."
AGAIN = "Download the model again."
CONVERT = "Save it again as one file: `SentenceTransformer(...).save(folder, safe_serialization=True)`."
BROKEN = "its model.safetensors is broken: "
ADDED = [{"id": 5, "content": "the", "normalized": True}]

REFUSED: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "no config": (remove("config.json"), "it has no config.json", DOES),
    "config is not JSON": (
        write("config.json", b"{oops"),
        "its config.json is not valid JSON: ",
        DOES,
    ),
    "config is no object": (
        write("config.json", b"[]"),
        "its config.json is not as it should be: ",
        DOES,
    ),
    "config is deep": (
        write("config.json", b'{"model_type": "bert", "x": ' + b"[" * 100_000),
        "its config.json is not valid JSON: ",
        DOES,
    ),
    "config is a folder": (
        steps(remove("config.json"), lambda folder: (folder / "config.json").mkdir()),
        "it has no config.json",
        DOES,
    ),
    "another model": (
        change("config.json", model_type="mpnet"),
        "it is a model of the type `mpnet`, and only `bert` is supported",
        DOES,
    ),
    "no model type": (
        change("config.json", model_type=None),
        "it is a model of the type `unnamed`, and only `bert` is supported",
        DOES,
    ),
    "another activation": (
        change("config.json", hidden_act="gelu_new"),
        "it has the activation `gelu_new`, and only `gelu` is supported",
        DOES,
    ),
    "relative positions": (
        change("config.json", position_embedding_type="relative_key"),
        "it has `relative_key` positions, and only `absolute` is supported",
        DOES,
    ),
    "a decoder": (change("config.json", is_decoder=True), "it is a decoder, and only encoders are supported", DOES),
    "heads do not fit": (
        change("config.json", num_attention_heads=5),
        "its config.json contradicts itself: a hidden_size of 16 is no multiple of 5 attention heads",
        DOES,
    ),
    "no heads": (
        change("config.json", num_attention_heads=0),
        "its config.json is not as it should be: ",
        DOES,
    ),
    "a size in words": (
        change("config.json", hidden_size="sixteen"),
        "its config.json is not as it should be: ",
        DOES,
    ),
    "a thousand million layers": (
        change("config.json", num_hidden_layers=1_000_000_000),
        BROKEN + "there is no tensor `encoder.layer.2.attention.self.query.weight`",
        AGAIN,
    ),
    "a huge width": (
        change("config.json", hidden_size=2**62, num_attention_heads=1),
        BROKEN + f"the tensor `{WORDS}` is {len(VOCABULARY)} x 16, and by config.json it is n x {2**62}",
        AGAIN,
    ),
    "another module": (
        write("modules.json", [*MODULES, {"path": "3_Dense", "type": "sentence_transformers.models.Dense"}]),
        "it has the module Dense, which is not supported",
        "Supported: Transformer, Pooling, Normalize.",
    ),
    "a module elsewhere": (
        write("modules.json", [{**MODULES[0], "path": "../other"}]),
        "its modules.json names '../other', which is outside the folder",
        DOES,
    ),
    "a module at the root": (
        write("modules.json", [{**MODULES[0], "path": "/etc"}]),
        "its modules.json names '/etc', which is outside the folder",
        DOES,
    ),
    "modules are no list": (
        write("modules.json", {}),
        "its modules.json is not as it should be: ",
        DOES,
    ),
    "another pooling": (
        write("1_Pooling/config.json", {"pooling_mode_max_tokens": True}),
        "it pools by max, which is not supported",
        "Supported: mean, or cls alone.",
    ),
    "two poolings": (
        write("1_Pooling/config.json", {"pooling_mode": ["cls", "mean"]}),
        "it pools by cls and mean, which is not supported",
        "Supported: mean, or cls alone.",
    ),
    "pooling by a number": (
        write("1_Pooling/config.json", {"pooling_mode": 3}),
        "it pools by 3, which is not supported",
        "Supported: mean, or cls alone.",
    ),
    "a prompt": (
        write("config_sentence_transformers.json", {"default_prompt_name": "q", "prompts": {"q": "query: "}}),
        "it puts the prompt `q` before texts, which is not supported",
        DOES,
    ),
    "too short": (
        change("sentence_bert_config.json", max_seq_length=2),
        "its sentence_bert_config.json is not as it should be: ",
        DOES,
    ),
    "below zero": (
        steps(remove("sentence_bert_config.json"), change("tokenizer_config.json", model_max_length=-7)),
        "it leaves no room for a text: its greatest length is below 3 tokens",
        DOES,
    ),
    "no tokenizer": (
        remove("tokenizer.json"),
        "it has neither a tokenizer.json nor a vocab.txt",
        "A model with a WordPiece tokenizer has one.",
    ),
    "BPE": (
        in_tokenizer("model", type="BPE"),
        "it has a tokenizer of the kind BPE, which is not supported",
        "What is supported is WordPiece, as BERT has it.",
    ),
    "Unigram": (
        in_tokenizer("model", type="Unigram", vocab=[["<s>", 0.0]]),
        "it has a tokenizer of the kind Unigram, which is not supported",
        "What is supported is WordPiece, as BERT has it.",
    ),
    "a kind without name": (
        in_tokenizer("model", type=None, continuing_subword_prefix=None),
        "it has a tokenizer of the kind unnamed, which is not supported",
        "What is supported is WordPiece, as BERT has it.",
    ),
    "another normalizer": (
        in_tokenizer("normalizer", type="NFKC"),
        "it has a tokenizer that prepares text with NFKC, which is not supported",
        "What is supported is BertNormalizer, as BERT has it.",
    ),
    "no normalizer": (
        write("tokenizer.json", TOKENIZER | {"normalizer": None}),
        "it has a tokenizer that prepares text with nothing, which is not supported",
        "What is supported is BertNormalizer, as BERT has it.",
    ),
    "a normalizer that does not clean": (
        in_tokenizer("normalizer", clean_text=False),
        "it has a tokenizer that prepares text without cleaning it, which is not supported",
        "What is supported is BertNormalizer, as BERT has it.",
    ),
    "another splitter": (
        in_tokenizer("pre_tokenizer", type="Whitespace"),
        "it has a tokenizer that splits text with Whitespace, which is not supported",
        "What is supported is BertPreTokenizer, as BERT has it.",
    ),
    "another unknown token": (
        in_tokenizer("model", unk_token="<unk>"),
        "it has `<unk>` as its token for what is unknown, which is not supported",
        "What is supported is [UNK], as BERT has it.",
    ),
    "tokens with rules": (
        write("tokenizer.json", TOKENIZER | {"added_tokens": ADDED}),
        "it has the added token `the` that is found by rules of its own, which is not supported",
        "What is supported is no such token, as BERT has it.",
    ),
    "tokens beyond the weights": (
        in_tokenizer("model", vocab=TOKENIZER["model"]["vocab"] | {"far": 5000}),
        f"its tokenizer has the token 5000, and its weights know {len(VOCABULARY)}",
        DOES,
    ),
    "added tokens beyond the weights": (
        write("tokenizer.json", TOKENIZER | {"added_tokens": [{"id": 5000, "content": "far"}]}),
        f"its tokenizer has the token 5000, and its weights know {len(VOCABULARY)}",
        DOES,
    ),
    "tokens below zero": (
        in_tokenizer("model", vocab={"[UNK]": -1}),
        "its tokenizer.json is not as it should be: ",
        DOES,
    ),
    "a vocabulary without special tokens": (
        with_vocabulary(["the", "cat", "[UNK]"]),
        "its vocab.txt lacks [CLS], [SEP]",
        "A vocabulary of BERT has these tokens.",
    ),
    "an empty vocabulary": (
        with_vocabulary([]),
        "its vocab.txt lacks [UNK], [CLS], [SEP]",
        "A vocabulary of BERT has these tokens.",
    ),
    "a vocabulary that is no text": (
        steps(with_vocabulary([]), write("vocab.txt", b"[UNK]\n\xff\xfe")),
        "its vocab.txt is not UTF-8",
        DOES,
    ),
    "a vocabulary of a terabyte": (
        steps(with_vocabulary([]), resize("vocab.txt", 2**40)),
        "its vocab.txt is larger than 100 MB",
        DOES,
    ),
    "no weights": (remove("model.safetensors"), "it has no model.safetensors", DOES),
    "pickled weights": (
        remove("model.safetensors", then=["pytorch_model.bin"]),
        "it has a pytorch_model.bin only, and model.safetensors is wanted",
        CONVERT,
    ),
    "weights in several files": (
        remove("model.safetensors", then=["model.safetensors.index.json", "pytorch_model.bin"]),
        "its weights are spread over several files, which is not supported",
        CONVERT,
    ),
    "empty weights": (
        write("model.safetensors", b""),
        BROKEN + "its header is said to have 0 bytes, and the file has 0",
        AGAIN,
    ),
    "a header beyond the file": (
        write("model.safetensors", struct.pack("<Q", 2**63) + b"{}"),
        BROKEN + f"its header is said to have {2**63} bytes, and the file has 10",
        AGAIN,
    ),
    "a header of a terabyte": (
        steps(write("model.safetensors", struct.pack("<Q", 2**40)), resize("model.safetensors", 2**41)),
        BROKEN + f"its header is said to have {2**40} bytes, and the file has {2**41}",
        AGAIN,
    ),
    "a header that is not JSON": (
        write("model.safetensors", struct.pack("<Q", 5) + b"\xff\xfe{} and so on"),
        "its model.safetensors (header) is not valid JSON: ",
        DOES,
    ),
    "a header that is deep": (
        write("model.safetensors", struct.pack("<Q", 100_005) + b'{"a":' + b"[" * 100_000),
        "its model.safetensors (header) is not valid JSON: ",
        DOES,
    ),
    "a tensor is missing": (
        with_header(lambda header: header.pop(NORM)),
        BROKEN + f"there is no tensor `{NORM}`",
        AGAIN,
    ),
    "a tensor is a number": (
        with_header(lambda header: header.update({NORM: 7})),
        f"its model.safetensors (tensor `{NORM}`) is not as it should be: ",
        DOES,
    ),
    "a tensor of whole numbers": (
        in_header(NORM, dtype="I8"),
        f"its tensor `{NORM}` is stored as I8, which is not supported",
        "Supported: F32, F16, BF16.",
    ),
    "a tensor of another shape": (
        in_header(NORM, shape=[4, 4]),
        BROKEN + f"the tensor `{NORM}` is 4 x 4, and by config.json it is 16",
        AGAIN,
    ),
    "a tensor without shape": (
        in_header(NORM, shape=[]),
        BROKEN + f"the tensor `{NORM}` is one number, and by config.json it is 16",
        AGAIN,
    ),
    "a shape below zero": (
        in_header(WORDS, shape=[-1, 16]),
        f"its model.safetensors (tensor `{WORDS}`) is not as it should be: ",
        DOES,
    ),
    "a shape that overflows": (
        in_header(WORDS, shape=[2**61, 16]),
        BROKEN + f"the tensor `{WORDS}` is said to lie from byte 0 to {len(VOCABULARY) * 64}, which cannot be",
        AGAIN,
    ),
    "offsets beyond the file": (
        in_header(NORM, data_offsets=[2**40, 2**40 + 64]),
        BROKEN + f"the tensor `{NORM}` is said to lie from byte {2**40} to {2**40 + 64}, which cannot be",
        AGAIN,
    ),
    "offsets the wrong way round": (
        in_header(NORM, data_offsets=[64, 0]),
        BROKEN + f"the tensor `{NORM}` is said to lie from byte 64 to 0, which cannot be",
        AGAIN,
    ),
    "offsets below zero": (
        in_header(NORM, data_offsets=[-64, 0]),
        f"its model.safetensors (tensor `{NORM}`) is not as it should be: ",
        DOES,
    ),
    "offsets that do not fit": (
        in_header(NORM, data_offsets=[0, 60]),
        BROKEN + f"the tensor `{NORM}` is said to lie from byte 0 to 60, which cannot be",
        AGAIN,
    ),
}
"""What is done to the folder, what is said of it, and what would do."""


@pytest.mark.parametrize("kind", list(REFUSED))
def test_a_folder_that_cannot_be_used_is_refused_in_words(model: Path, kind: str) -> None:
    spoil, message, hint = REFUSED[kind]
    spoil(model)
    error = refusal(model)
    whole = f"target `local` cannot use the model in `{model}`: {message}"
    # What follows a colon is in the words of the parser.
    assert error.message.startswith(whole) if message.endswith(": ") else error.message == whole
    assert error.hint == hint
    assert error.__cause__ is None


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 9, 300, -1])
def test_weights_that_were_not_downloaded_to_the_end(model: Path, cut: int) -> None:
    file = model / "model.safetensors"
    file.write_bytes(file.read_bytes()[:cut])
    assert "its model.safetensors" in refusal(model).message


def test_weights_that_are_gone_when_they_are_needed(model: Path) -> None:
    file = model / "model.safetensors"
    whole = file.read_bytes()

    def spoilt(how: Callable[[], object]) -> ProviderError:
        async def ask() -> None:
            provider = opened(model)
            how()
            try:
                await provider.reply(request("the cat"))
            finally:
                await provider.close()

        with pytest.raises(ProviderError) as caught:
            asyncio.run(ask())
        file.write_bytes(whole)
        return caught.value

    error = spoilt(lambda: os.truncate(file, len(whole) - 1))
    last = list(tensors())[-1]
    assert error.message == (
        "the model of target `local` cannot be used: its model.safetensors is broken: it ends within the tensor"
        f" `{last}`; has it been changed?"
    )
    assert error.ends_target and not error.retryable
    error = spoilt(file.unlink)
    assert error.message == (
        "the model of target `local` cannot be used: its model.safetensors cannot be read: No such file or directory"
    )


@pytest.mark.parametrize(
    "values",
    [
        {"encoder.layer.1.output.LayerNorm.weight": math.nan},
        {"encoder.layer.0.attention.self.query.bias": math.inf},
        {"embeddings.position_embeddings.weight": math.inf, "embeddings.token_type_embeddings.weight": -math.inf},
    ],
    ids=["nan", "infinite", "both infinities"],
)
def test_weights_that_are_no_use(tmp_path: Path, values: dict[str, float]) -> None:
    """Refused in words, and without a warning of the library's."""
    parts = tensors()
    for name, value in values.items():
        parts[name] = (parts[name][0], [value] * len(parts[name][1]))
    with pytest.raises(ProviderError) as caught:
        replies(write_model(tmp_path / "tiny", parts), "the cat")
    what = "its weights give vectors that are not numbers"
    assert caught.value.message == f"the model of target `local` cannot be used: {what}"
    assert caught.value.ends_target


def test_weights_that_are_all_zero(tmp_path: Path) -> None:
    parts: Tensors = {name: (shape, [0.0] * math.prod(shape)) for name, shape in shapes().items()}
    assert vectors(write_model(tmp_path / "tiny", parts), "the cat") == [[0.0] * WIDTH]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory that is kept")
def test_weights_that_do_not_fit_into_memory(model: Path) -> None:
    """A file of four gigabytes that takes no room on the disk, in a process that may have two."""
    rows = 2**32 // (WIDTH * 4)
    parts = tensors()
    first = len(VOCABULARY) * WIDTH * 4

    def grow(header: Raw) -> None:
        end = max(tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__")
        header[WORDS].update(shape=[rows, WIDTH], data_offsets=[end, end + 2**32])

    content = safetensors(parts, change=grow)
    assert first < len(content)
    (model / "model.safetensors").write_bytes(content)
    os.truncate(model / "model.safetensors", len(content) + 2**32)
    script = f"""
import asyncio, resource
from tests.providers.test_local_embeddings import opened, request
resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
async def ask():
    await opened({str(model)!r}).reply(request("the cat"))
asyncio.run(ask())
"""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    last_line = done.stderr.strip().splitlines()[-1]
    expected = "ProviderError: there is not enough memory for the model of target `local`"
    assert last_line == f"rejoinder.providers.base.{expected}", done.stderr


# --- What is asked of it, and what it needs --------------------------------------------------------------------------


def test_it_gives_no_answers(model: Path) -> None:
    with pytest.raises(ProviderError) as caught:
        replies(model, None)
    assert str(caught.value) == (
        "target `local` gives embeddings and no answers; use it as `embedding_target` or as the `target` of a"
        " `semantic` check"
    )
    assert (caught.value.type, caught.value.ends_target, caught.value.retryable) == ("request", True, False)


def test_numpy_is_missing(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = opened(model)
    monkeypatch.setitem(sys.modules, "numpy", None)
    error = refusal(model)
    assert error.message == "target `local` computes embeddings itself, which needs numpy"
    assert error.hint == "pip install 'rejoinder[semantic]'"
    with pytest.raises(ProviderError, match="numpy cannot be imported") as caught:
        asyncio.run(provider.reply(request("the cat")))
    assert caught.value.ends_target


def test_numpy_is_not_loaded_before_the_first_text(model: Path) -> None:
    script = f"""
import asyncio, sys
from rejoinder.model import Request, Target
from rejoinder.providers.local_embeddings import LocalEmbeddings
provider = LocalEmbeddings(Target(name="x", provider="local_embeddings", settings={{"folder": {str(model)!r}}}), ())
assert "numpy" not in sys.modules
ask = Request(target="x", case_id="", trial=1, turn=1, call=0, messages=(), question="", embed="the cat")
assert asyncio.run(provider.reply(ask)).vector
assert "numpy" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_what_waits_is_dropped_when_it_is_closed(model: Path) -> None:
    async def leave() -> list[Any]:
        provider = opened(model)
        waiting = [asyncio.ensure_future(provider.reply(request(f"the cat {n}"))) for n in range(50)]
        await asyncio.sleep(0)
        await provider.close()
        return await asyncio.gather(*waiting, return_exceptions=True)

    ends = asyncio.run(leave())
    assert all(isinstance(end, Reply | asyncio.CancelledError) for end in ends)
    assert any(isinstance(end, asyncio.CancelledError) for end in ends)
