"""The process that reads what strangers have sent; `pitb.bundle.limits` starts it.

Called with a task, its options as JSON, megabytes, seconds, the file for its answer, a folder for
its own use, and the bundles.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pitb.bundle import limits
from pitb.errors import PitbError


def main() -> int:
    """Do the task; its answer is JSON, the value or ``{"error": sentence}``."""
    task, options, megabytes, seconds, answer, work, *paths = sys.argv[1:]
    limits.limit_memory(int(megabytes))
    limits.limit_time(float(seconds))
    _note_reading(Path(work))
    code = 0
    found: Any
    try:
        found = _do(task, json.loads(options), [Path(path) for path in paths], Path(work))
    except PitbError as error:
        found, code = {"error": str(error)}, limits.REFUSED
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed here; pip install path/to/pitb brings it"
        found, code = {"error": message}, limits.REFUSED
    except MemoryError:
        message = f"{' and '.join(paths)} takes more memory than is allowed (--memory)"
        found, code = {"error": message}, limits.REFUSED
    except OSError as error:
        message = f"{' and '.join(paths)} cannot be unpacked: {error.strerror or error}"
        found, code = {"error": message}, limits.REFUSED
    except RecursionError:
        message = f"{' and '.join(paths)} holds something that is nested too deeply to be read"
        found, code = {"error": message}, limits.REFUSED
    text = json.dumps(found, ensure_ascii=True, allow_nan=False)
    Path(answer).write_text(text, encoding="utf-8")
    return code


def _note_reading(work: Path) -> None:
    """Leave word of the Parquet file that is being read, should reading it end this process."""
    from pitb import parquet

    def tell(path: Path) -> None:
        limits.reading(work).write_text(str(path), encoding="utf-8")

    parquet.opening.append(tell)


def _do(task: str, options: dict[str, bool], paths: list[Path], work: Path) -> Any:
    if task == "verify":
        from pitb.bundle import verify

        return verify.verify(paths[0], work, **options)
    if task == "figures":
        from pitb.bundle import figures

        return [figures.of(path, work / str(number)) for number, path in enumerate(paths)]
    raise PitbError(f"there is no task {task!r}")


if __name__ == "__main__":
    sys.exit(main())
