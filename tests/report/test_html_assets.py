"""Scripts and styles of pages: small, joined in order, and made smaller without changing what they do."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.report.html import write
from rejoinder.report.page import assets
from rejoinder.report.page.smaller import AssetError, read, short_names, smaller_script, smaller_style, written
from rejoinder.server.pages import statics
from tests.kit import ROOT, bounded
from tests.report.exports import made_run
from tests.report.html_files import HtmlFile

LARGEST_SCRIPT, LARGEST_STYLE, LARGEST_SHELL = 44_000, 26_000, 75_000
"""Bytes. Pages show what was asked of the model before turn 1, and where a check of the whole failed."""
LARGEST_VIEWER = 54_000
"""The script of the viewer: it watches, forks and labels, beyond what the report does."""
FOLDER = Path(assets.__file__).parent


def test_a_report_stays_small() -> None:
    assert len(assets.script().encode()) <= LARGEST_SCRIPT
    assert len(assets.style().encode()) <= LARGEST_STYLE
    assert len("".join(write(made_run([]))).encode()) <= LARGEST_SHELL


def test_the_viewer_stays_small() -> None:
    assert len(statics.script().content) <= LARGEST_VIEWER
    assert len(statics.style().content) <= LARGEST_STYLE


def test_every_file_of_the_application_is_joined() -> None:
    scripts = {path.name for path in (FOLDER / "script").glob("*.js") if not path.name.startswith("server_")}
    assert scripts == set(assets.APPLICATION)
    assert {path.name for path in (FOLDER / "style").glob("*.css")} >= set(assets.STYLES)


def test_the_policy_allows_the_script_and_the_style_of_the_file_and_nothing_else() -> None:
    page = HtmlFile(write(made_run([])))
    [style], scripts = page.of("style"), page.of("script")
    assert page.policy == (
        f"default-src 'none'; script-src {assets.digest(scripts[-1])}; style-src {assets.digest(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    runs = [tag for tag in page.tags if tag.name == "script" and "type" not in tag.attributes]
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("const a = 1;  // one\n\n  b( c , d );", "const a=1;b(c,d);"),
        ("/* a\n b */\n/** @type {x} */\nlet a;", "let a;"),
        ("const url = 'http://x  y';", "const url='http://x  y';"),
        ("const t = `a  ${ b + c }  // d`;", "const t=`a  ${b+c}  // d`;"),
        ("x = /[ \\t/]  '/g;", "x=/[ \\t/]  '/g;"),
        ('return /"  /.test( a );', 'return/"  /.test(a);'),
        ("a = b / c / d;", "a=b/c/d;"),
        ("a = b + +c - -d;", "a=b+ +c- -d;"),
        ("if (a < !--b) c;", "if(a< !--b)c;"),
        ("const { a } = /** @type {X} */ (b);", "const{a}=(b);"),
        ('a = "it\'s  \\"  ok" ;', 'a="it\'s  \\"  ok";'),
        ("t = `a ${ b ? `, ${ c }` : '' } ; d`;", "t=`a ${b?`, ${c}`:''} ; d`;"),
        ("t = `${ { a: 1 } }  x`;", "t=`${{a:1}}  x`;"),
        ("f(() => {\n  a();\n  b = { c };\n});", "f(()=>{a();b={c}});"),
        ("a = 1 .b + i-- > 0;", "a=1 .b+i-- >0;"),
        ("if (a) {\n  b()\n}\n/c/.test(d)", "if(a){b()}\n/c/.test(d)"),
        ("for (const a of b) c ? d : e;", "for(const a of b)c?d:e;"),
    ],
)
def test_a_script_loses_comments_and_needless_spaces_alone(source: str, expected: str) -> None:
    assert smaller_script(source) == f"{expected}\n"


@pytest.mark.parametrize(
    "source",
    [
        "a = `one\n  two`;",
        "a = 'x \\\n y';",
        "a = 1; /* begins\n ends */",
        "/* a */ b = 1;",
        'a = "open;',
        "a = `b ${\nc}`;",
    ],
)
def test_what_cannot_be_read_line_by_line_is_refused(source: str) -> None:
    with pytest.raises(AssetError):
        smaller_script(source, "x.js")


@bounded(300)
@given(
    st.lists(
        st.sampled_from(["a", " ", "'", '"', "`", "/", "*", "\\", "=", "(", "[", "]", "x y", "//", "\n"]), max_size=20
    )
)
def test_texts_are_kept_letter_by_letter(pieces: list[str]) -> None:
    """What is left has the letters of what was there, in order, but for spaces and comments."""
    source = "".join(pieces)
    try:
        small = smaller_script(source)
    except AssetError:
        return
    if "/" not in source:
        assert small.replace(" ", "").replace("\n", "") == source.replace(" ", "").replace("\n", "")
    assert smaller_script(small) == small


def test_a_style_loses_comments_and_line_breaks() -> None:
    source = '/* tokens */\n:root {\n  --a: 1px;\n}\n\na,\nb { content: "/* x */" }\n'
    assert smaller_style(source) == ':root {--a: 1px;}a,b { content: "/* x */" }'


TYPESCRIPT = ROOT / ".web/node_modules/typescript"
VIEWER = tuple(name for name in assets.APPLICATION if name != "report_source.js") + tuple(
    f"server_{name}.js" for name in statics.OWN_SCRIPTS
)
OPTIONS = {"noEmit": True, "noLib": True, "types": [], "target": "esnext"}


def differences(folder: Path, *pairs: tuple[str, str]) -> list[list[str]]:
    """What TypeScript finds to be another program in each pair; the last line says how many names were changed."""
    names: list[str] = []
    for number, pair in enumerate(pairs):
        for name, program in zip((f"before{number}.ts", f"after{number}.ts"), pair, strict=True):
            (folder / name).write_text(program, encoding="utf-8")
            names.append(name)
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": OPTIONS, "files": names}), encoding="utf-8")
    script = Path(__file__).parent / "data/same_program.mjs"
    command = ["node", str(script), str(TYPESCRIPT.resolve()), str(folder), str(len(pairs))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def in_function(source: str) -> str:
    return f'(()=>{{"use strict";\n{source}\n}})();\n'


needs_typescript = pytest.mark.skipif(not TYPESCRIPT.exists(), reason="`make .web/installed` brings it")


@pytest.mark.slow
@needs_typescript
def test_a_parser_finds_the_same_program_before_and_after(tmp_path: Path) -> None:
    """The same tree, and each name stands for the same thing: those that got shorter, for a declaration of ours."""
    pages = (assets.APPLICATION, VIEWER)
    wholes = ["\n".join((FOLDER / "script" / name).read_text(encoding="utf-8") for name in names) for names in pages]
    shorter = [len(short_names(read(whole))) for whole in wholes]
    pairs = [(in_function(whole), assets.script(names)) for whole, names in zip(wholes, pages, strict=True)]
    assert differences(tmp_path, *pairs) == [[f"{number} changed"] for number in shorter]
    assert min(shorter) > 100


OTHERS = [
    ("const one=1;f(one.two)", "const one=1;f(one.three)", "two: is no name of the outermost function"),
    ("const one=1;f({one})", "const x=1;f({x})", "one: is no name of the outermost function"),
    ("const one=1,f=two=>one+two", "const two=1,f=two=>two+two", "one: stands for something else as two"),
    ("const f=one=>one", "const f=two=>two", "one: is no name of the outermost function"),
    ("f(one)", "f(two)", "one: is no name of the outermost function"),
    ("const a=1,b=2;f(a,b)", "const b=1,a=2;f(a,b)", "a: stands for something else as a"),
    ("f('a, b')", "f('a,b')", "a, b became a,b"),
    ("f(`a ${1} b`)", "f(`a ${1}b`)", " b became b"),
    ("f(1\n+2)", "f(1-2)", "another kind or place"),
    ("f(-2)", "f(+2)", "another operator"),
    ("let a=1", "const a=1", "flags"),
    ("f(a-(b-c))", "f(a-b-c)", "nodes became"),
]


@pytest.mark.slow
@needs_typescript
def test_another_program_is_found(tmp_path: Path) -> None:
    found = differences(tmp_path, *((in_function(before), in_function(after)) for before, after, _ in OTHERS))
    assert [told for (_, _, told), lines in zip(OTHERS, found, strict=True) if told not in "\n".join(lines)] == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("const long = 1;\nf(long, [long], `${long}`, x ? long : 2);", {"long"}),
        ("function long() {\n  long();\n}\nlet other = long;\nif (a) {\n  other = 1;\n}", {"long", "other"}),
        ("async function long(a) {\n  for (const b of long) if (long(a)) {\n    b();\n  }\n}", {"long"}),
        ("const long = 1;\na.long = 2;", set()),
        ("const long = 1;\na?.long();", set()),
        ("const long = 1;\na = { long: 2 };", set()),
        ("const long = 1;\na = { b, long };", set()),
        ("const long = 1;\na = { long() {\n  b();\n} };", set()),
        ("const long = 1;\na = { async long() {\n  b();\n} };", set()),
        ("const long = 1;\na = long => 1;", set()),
        ("const long = 1;\na = (b, [c, long]) => 1;", set()),
        ("const long = 1;\na = (b, { c: long = 2 } = {}) => 1;", set()),
        ("const long = 1;\nfunction f(long) {}", set()),
        ("const long = 1;\nf(() => {\n  const long = 2;\n});", set()),
        ("const long = 1;\nf(() => {\n  let a = 1, long = 2;\n});", set()),
        ("const long = 1;\nf(() => {\n  let a, long;\n});", set()),
        ("const long = 1;\nf(() => {\n  const b = 2, { c, long } = b;\n});", set()),
        ("const long = 1;\nfor (const [long] of a) b();", set()),
        ("const long = 1;\ntry {\n  a();\n} catch (long) {\n  b();\n}", set()),
    ],
)
def test_a_name_gets_shorter_where_it_is_nothing_else(source: str, names: set[str]) -> None:
    assert set(short_names(read(source))) - {"f"} == names


def test_no_short_name_is_one_that_the_script_has() -> None:
    lines = read("const long = 1;\nconst other = 2;\na = b.c + long + long + other;")
    assert short_names(lines) == {"long": "d", "other": "e"}
    assert written(lines, short_names(lines)) == "const d=1;const e=2;a=b.c+d+d+e;\n"
