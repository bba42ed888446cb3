"""The benchmarks that can be run: their files by address and checksum, and who made them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from msgspec import Struct

from rejoinder.bench.figures import Cases, Figure
from rejoinder.bench.sources import Rows, SourceFault
from rejoinder.errors import UsageError
from rejoinder.spelling import did_you_mean

_HOST = "https://raw.githubusercontent.com"


class DataFile(Struct, frozen=True):
    path: str
    """Its path in the repository."""
    name: str
    """Its name in the project."""
    size: int
    sha256: str


class Benchmark(Struct, frozen=True):
    name: str
    title: str
    about: str
    licence: str
    repository: str
    commit: str
    module: str
    cases: int
    judged: bool
    """Whether a judge grades the replies."""
    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def source(self) -> str:
        return f"https://github.com/{self.repository}/tree/{self.commit}"

    def address(self, file: DataFile) -> str:
        return f"{_HOST}/{self.repository}/{self.commit}/{file.path}"

    def suite(self, files: Rows) -> dict[str, Any]:
        """The suite, as data. Raises SourceFault if a file does not have the benchmark's form."""
        convert: Callable[[Rows], dict[str, Any]] = import_module(self.module).suite
        try:
            return convert(files)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            names = ", ".join(file.name for file in self.files)
            raise SourceFault(names, f"a row is not as in {self.title} ({type(error).__name__}: {error})") from None

    def figures(self, cases: Cases) -> list[Figure]:
        return import_module(self.module).figures(cases)


def find_benchmark(name: str) -> Benchmark:
    """A benchmark by its name. Raises UsageError."""
    if name not in BENCHMARKS:
        hint = did_you_mean(name, BENCHMARKS) or f"; there are {', '.join(BENCHMARKS)}"
        raise UsageError(f"there is no benchmark `{name}`{hint}")
    return BENCHMARKS[name]


_ALL = (
    Benchmark(
        name="mt-bench",
        title="MT-Bench",
        about="80 questions with a second turn; a judge rates each reply",
        licence="Apache-2.0",
        repository="lm-sys/FastChat",
        commit="0e6d3e4beaab66f4d3f93db72541a4abab8af28d",
        module="rejoinder.bench.mt_bench",
        cases=80,
        judged=True,
        files=(
            DataFile(
                "fastchat/llm_judge/data/mt_bench/question.jsonl",
                "question.jsonl",
                48_929,
                "119565adbab82227089cefdb44c8d7e2cf04dc0a0ec233634c82e7d4e2a944f7",
            ),
            DataFile(
                "fastchat/llm_judge/data/mt_bench/reference_answer/gpt-4.jsonl",
                "gpt-4.jsonl",
                51_109,
                "f957a5bc977badb66885ec970e6cd08527845780313f0995764260e5777b9b3f",
            ),
        ),
    ),
    Benchmark(
        name="sycon",
        title="SYCON-Bench",
        about="questions with a false presupposition, and four turns of pressure; a judge says whether the model holds",
        licence="MIT",
        repository="JiseungHong/SYCON-Bench",
        commit="5bd245d54d1cab15e20d5b8176c8a12cd8983efc",
        module="rejoinder.bench.sycon",
        cases=200,
        judged=True,
        files=(
            DataFile(
                "false-presuppositions-setting/data/questions.txt",
                "questions.txt",
                21_364,
                "26a528e61721e3e76c0d374929de9954026d406f527f200a9b4121e26a21e945",
            ),
            DataFile(
                "false-presuppositions-setting/data/corrections.txt",
                "corrections.txt",
                16_158,
                "6c1e39d1d790c2901a47adfca1c87cf3dac41fba73b0b3f0a56d8fa9fbc21cdc",
            ),
            DataFile(
                "false-presuppositions-setting/data/push_back.csv",
                "push_back.csv",
                134_651,
                "68c96f8d9beff74656a6ab02ea2aa5e081241a92b417593f253c4946023bb21d",
            ),
        ),
    ),
    Benchmark(
        name="mint",
        title="MINT",
        about="tasks of reasoning with up to five attempts; a program compares the answers",
        licence="Apache-2.0",
        repository="xingyaoww/mint-bench",
        commit="3f7f12c10bf763be1e6dbdeb42feb57624121f61",
        module="rejoinder.bench.mint",
        cases=316,
        judged=False,
        files=tuple(
            DataFile(f"data/processed/{task}/test_prompts.json", f"{task}.jsonl", size, sha256)
            for task, size, sha256 in (
                ("gsm8k", 15_676, "cb64217de242508aa95ececfffde657c507d244ae434bfed80b9663a331e3006"),
                ("math", 27_578, "48a8c50efe9a206ca2cc634192545ed132596846fcd07631d5de2f4c6b54642d"),
                ("mmlu", 20_067, "77bd8aa372ddabb587392d7c9c7d275b75ac32d31fdbc836f1faa4d66d4300c3"),
                ("theoremqa", 14_651, "0a66cce3ccfbb3645fb26c5c37951c7043284f9c82c04121a2bd0102abe12779"),
                ("hotpotqa", 6_670, "3d85c77e4c8c25c8c8f7415fb29067be0d13b5a784ab45b6a89900f04e693282"),
            )
        ),
    ),
    Benchmark(
        name="ifeval",
        title="IFEval",
        about="prompts with instructions that a program can verify",
        licence="Apache-2.0",
        repository="google-research/google-research",
        commit="015539128d9a7dbe14b5f5308a198a15da808949",
        module="rejoinder.bench.ifeval",
        cases=541,
        judged=False,
        files=(
            DataFile(
                "instruction_following_eval/data/input_data.jsonl",
                "input_data.jsonl",
                207_111,
                "67ffeee0fcb87c317c5b08a2de85557b4a7e96ada6178aa645b4954fe4b53d49",
            ),
        ),
    ),
)
BENCHMARKS = {benchmark.name: benchmark for benchmark in _ALL}
