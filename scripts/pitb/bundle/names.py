"""Names of files in a bundle: what is one on every system, and stays below the folder."""

import re
import unicodedata
from collections.abc import Iterable

from pitb.errors import PitbError

MOST_CHARACTERS = 200
MOST_BYTES = 255
"""Of each part, in UTF-8; most systems allow as many."""
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
_FORBIDDEN = frozenset('<>:"|?*\\')


def fault(name: str) -> str | None:
    """Why a name is none that a bundle may have; None for one that is fine."""
    if not name or len(name) > MOST_CHARACTERS:
        return f"is not of 1 to {MOST_CHARACTERS} characters"
    # Bytes that are no UTF-8 come as surrogates, invisible ones as other control characters.
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in name):
        return "holds a control character"
    if name.startswith("/") or name[1:2] == ":":
        return "is absolute"
    if any(letter in _FORBIDDEN for letter in name):
        return "holds a character that not every system allows in names"
    for part in name.split("/"):
        if part in ("", ".", ".."):
            return f"has {part!r} as one of its folders"
        if len(part.encode()) > MOST_BYTES:
            return f"has a part of more than {MOST_BYTES} bytes"
        if part[-1] in ". ":
            return "has a part that ends with a point or a space"
        if _RESERVED.fullmatch(part):
            return f"has the part {part!r}, which Windows reserves"
    return None


def folded(name: str) -> str:
    """What two names have in common that some system takes for one: case, and accents' encoding."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def check(names: Iterable[str], where: str) -> None:
    """Refuse names that are not fine, or not different on every system.

    Raises:
        PitbError: Names the first.
    """
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for name in names:
        wrong = fault(name)
        if wrong is not None:
            raise PitbError(f"{where}: the name {name[:80]!r} {wrong}")
        parts = name.split("/")
        for end in range(1, len(parts)):
            folder = "/".join(parts[:end])
            earlier = folders.setdefault(folded(folder), folder)
            if earlier != folder:
                raise PitbError(
                    f"{where}: {earlier!r} and {folder!r} are one folder to some systems"
                )
        key = folded(name)
        if key in files:
            other = files[key]
            same = "twice" if other == name else f"beside {other!r}, one name to some systems"
            raise PitbError(f"{where}: the name {name!r} is there {same}")
        files[key] = name
    for key, name in files.items():
        if key in folders:
            raise PitbError(f"{where}: {name!r} is both a file and a folder")
