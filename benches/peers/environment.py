"""Creates the Python environment of the peers from requirements.txt, and again when this file changes."""

import hashlib
import pathlib
import shutil
import subprocess
import sys

REQUIREMENTS = pathlib.Path(__file__).parent / "requirements.txt"
STAMP = "made-from"


def python(folder: pathlib.Path) -> pathlib.Path:
    """Returns the interpreter of the environment in `folder`. Creates the environment if it is missing or outdated.

    If the requirements cannot be installed together, each is installed separately. So only failing ones are missing.
    """
    interpreter = folder / "bin" / "python"
    stamp = hashlib.sha256(sys.version.encode() + REQUIREMENTS.read_bytes()).hexdigest()
    if interpreter.exists() and (folder / STAMP).exists() and (folder / STAMP).read_text() == stamp:
        return interpreter
    if folder.exists() and any(folder.iterdir()) and not (folder / "pyvenv.cfg").exists():
        sys.exit(f"error: --environment {folder} is neither empty nor a Python environment")
    print(f"making a Python environment in {folder}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*install, "--requirement", REQUIREMENTS]).returncode != 0:
        for line in REQUIREMENTS.read_text().splitlines():
            if line and not line.startswith("#"):
                if subprocess.run([*install, "--no-deps", line]).returncode != 0:
                    print(f"warning: {line} cannot be installed", file=sys.stderr)
    (folder / STAMP).write_text(stamp)
    return interpreter
