"""The source tree → an importable package in the running environment, and its command.

An editable install does the same, but it downloads a build backend first.
"""

import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The first line of a script cannot name a path with spaces or a very long one, so the shell starts
# Python. In Python, the second and the third line are a string.
SCRIPT = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import sys
from tokenmill.cli import main

sys.exit(main())
"""


def main() -> None:
    site, scripts = (Path(sysconfig.get_path(name)) for name in ("purelib", "scripts"))
    (site / "tokenmill-source.pth").write_text(f"{ROOT / 'src'}\n")
    command = scripts / "tokenmill"
    command.write_text(SCRIPT.format(python=sys.executable))
    command.chmod(0o755)


if __name__ == "__main__":
    main()
