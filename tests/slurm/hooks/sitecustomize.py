"""Makes one script fail, or hang, the first time it is started: the tests put it on PYTHONPATH.

PITB_FAIL and PITB_HANG name a script; PITB_MARKS is a folder for word of what was done.
"""

import os
import sys
import time
from pathlib import Path

for verb in ("FAIL", "HANG"):
    name = os.environ.get(f"PITB_{verb}")
    if name and any(Path(word).name == name for word in sys.orig_argv[1:2]):
        mark = Path(os.environ["PITB_MARKS"]) / f"{verb}-{name}"
        try:
            mark.touch(exist_ok=False)  # of two that start at once, one
        except FileExistsError:
            continue
        if verb == "FAIL":
            print(f"{name} was made to fail", file=sys.stderr, flush=True)
            os._exit(3)
        time.sleep(300)
