"""Pictures for targets that are no vendors' APIs: services, functions, commands and agents."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tests.kit import Project, run
from tests.labs.picture_lab import data_url, digest, image, png, shows


def test_functions_get_pictures_in_messages(project: Project, module: Callable[[str], str]) -> None:
    project.write("red.png", png())
    name = module(
        "import base64\n"
        "def reply(request):\n"
        "    [picture] = request.messages[-1].pictures\n"
        "    content = request.messages[-1].content\n"
        "    return f'{content[slice(*picture.at)]} {len(base64.b64decode(picture.data))} {picture.mime_type}'\n"
    )
    targets = [{"name": "it", "provider": "python", "call": f"{name}:reply"}]
    document = run(project, {"targets": targets, "target": "it", "evals": [shows("What?", image("red.png"))]})
    [result] = document["results"]
    assert result["turns"][0]["response"] == f"<image: red.png> {len(png())} image/png"


def test_commands_get_paths(project: Project) -> None:
    project.write("red.png", png())
    script = (
        "import sys; red = open('red.png', 'rb').read();"
        " print(sys.stdin.read(), [open(one, 'rb').read() == red for one in sys.argv[1:]])"
    )
    targets = [{"name": "it", "provider": "cli", "command": [sys.executable, "-c", script, "{FILES}"]}]
    one = shows("What?", image("red.png"), image(data_url(png())))
    document = run(project, {"targets": targets, "target": "it", "evals": [one]})
    [result] = document["results"]
    named = f"image-{digest(png())[:8]}.png"
    said = result["turns"][0]["response"]
    assert said == f'What?\n\n<image: path="red.png">\n\n<image: path="{named}"> [True, True]', said
