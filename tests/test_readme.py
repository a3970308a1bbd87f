"""README's examples: what they print is what README says, and the file that it shows is the fixture."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def presk(*arguments: str, cwd: Path) -> str:
    """What the command prints on stdout."""
    command = [sys.executable, "-m", "presk_db.cli.main", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout


def test_the_demo_prints_what_readme_shows(tmp_path: Path) -> None:
    config = str(ROOT / "fixtures/course_gpt/config.json")
    printed = presk("record", config, "--dim", "B=1", "--dim", "T=256", "--name", "course-gpt", cwd=tmp_path)
    for line in printed.splitlines():
        if not line.startswith("native seconds"):
            assert f"    {line}\n" in README
    emitted = presk("emit", "course-gpt", "-o", "demo/course-gpt", cwd=tmp_path)
    assert f"    {emitted}" in README
    model = (tmp_path / "demo/course-gpt/model.c").read_text()
    (shown,) = re.findall(r"^    static void mlp\(\n.*?^    }\n", README, re.S | re.M)
    assert "\n".join(line.removeprefix("    ") for line in shown.splitlines()) in model


def test_the_users_file_is_the_fixture() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", README, re.S)
    assert shown == (ROOT / "fixtures/user/mlp.py").read_text(encoding="utf-8")
