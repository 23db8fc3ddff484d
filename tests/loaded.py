"""The tests again and again on a machine that has other things to do: `make test-loaded`.

Called as `python -m tests.loaded TIMES LOAD [arguments of pytest]`.
"""

from __future__ import annotations

import subprocess
import sys
import time

# Until whoever started it is gone, however that ended.
_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"


def main(times: int, load: int, arguments: list[str]) -> int:
    """Run pytest so often beside so many busy processes; how many runs failed."""
    busy = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(load)]
    failed = 0
    try:
        for number in range(1, times + 1):
            begun = time.monotonic()
            ran = subprocess.run([sys.executable, "-m", "pytest", "-q", *arguments], check=False)
            failed += ran.returncode != 0
            how = "green" if ran.returncode == 0 else "RED"
            print(f"run {number} of {times}: {how} after {time.monotonic() - begun:.0f} s", flush=True)
    finally:
        for process in busy:
            process.kill()
    print(f"{times - failed} of {times} runs green beside {load} busy processes")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]), 1))
