"""The pages as a site: what the generator reads, and what it must not have written.

The generator is MkDocs, one build for each language. What it reads is staged, so that pages can be
written for any reader of Markdown: marks are taken out, graphs become pictures, links to a file of
the project lead to a page that shows it. No page needs another host: `check` looks at every one.
"""

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from pitb.docs import document
from pitb.docs.document import Document
from pitb.docs.grammar import without_marks
from pitb.errors import PitbError
from pitb.files import read_text, write_text
from pitb.labels import LANGUAGES

ASSETS = "assets"
SOURCE = "source"
PAGES_OF_FILES = {"README.md": "index.md", "README.zh.md": "index.md",
                  "config/README.md": "configuration.md"}  # fmt: skip
"""Files of the project that are pages of their own."""
HIGHLIGHTED = {".py": "python", ".rs": "rust", ".yaml": "yaml", ".toml": "toml", ".json": "json"}

_FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*?)\n(.*?)^\1\2[ \t]*$\n?", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(`[^`\n]+`)|(?<=\])\(([^()\s]+)\)")
_SWITCH = re.compile(r"^\[(?:中文|English)\]\(([^)]+)\)$\n?", re.MULTILINE)
_PICTURE = re.compile(r'^<!-- picture: (\S+) "([^"]*)" -->$\n?', re.MULTILINE)

Draw = Callable[[str], str]
"""Makes an SVG of a graph in Mermaid's language."""


def stage(root: Path, folder: Path, draw: Draw) -> None:
    """Write what the generator reads, ``<folder>/en`` and ``<folder>/zh``.

    Raises:
        PitbError: A page is not in both languages, or links to what is not there.
    """
    shutil.rmtree(folder, ignore_errors=True)
    names = {path.name for path in (root / "docs").glob("*.md")}
    english = sorted(name for name in names if not name.endswith(".zh.md"))
    for name in english:
        if name.replace(".md", ".zh.md") not in names:
            raise PitbError(f"docs/{name} has no Chinese page {name.replace('.md', '.zh.md')}")
    for language, suffix in LANGUAGES.items():
        builder = _Stage(root, folder / language, language, draw)
        for name in english:
            builder.page(f"docs/{name.removesuffix('.md')}{suffix}.md", name)
        builder.page("config/README.md", PAGES_OF_FILES["config/README.md"])
        builder.finish()


class _Stage:
    """The pages of one language."""

    def __init__(self, root: Path, folder: Path, language: str, draw: Draw) -> None:
        self.root, self.folder, self.language, self.draw = root, folder, language, draw
        self.shown: set[str] = set()

    def page(self, name: str, target: str) -> None:
        """Stage a Markdown file of the project, ``name``, as ``target``."""
        found = document.read(self.root / name)
        text = without_marks(Document(Path(name), found.text.replace("\r\n", "\n")))
        text = _SWITCH.sub(lambda match: self._switch(target), text)
        text = _PICTURE.sub(lambda match: self._picture(match[1], match[2]), text)
        pieces, position = [], 0
        for match in _FENCE.finditer(text):
            pieces.append(self._links(text[position : match.start()], name))
            pieces.append(self._graph(match) if match[3].strip() == "mermaid" else match[0])
            position = match.end()
        pieces.append(self._links(text[position:], name))
        write_text(self.folder / target, "".join(pieces))

    def finish(self) -> None:
        """Stage the files that pages link to, and the assets."""
        for name in sorted(self.shown):
            path = self.root / name
            text = _listed(path) if path.is_dir() else read_text(path)
            fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 3)
            language = HIGHLIGHTED.get(PurePosixPath(name).suffix, "text")
            head = f"---\ntitle: {name}\nsearch:\n  exclude: true\n---\n\n# `{name}`\n\n"
            body = f"{fence}{language}\n{text.rstrip()}\n{fence}\n"
            write_text(self.folder / SOURCE / f"{name}.md", head + body)
        for asset in (self.root / "docs" / ASSETS).iterdir():
            write_text(self.folder / ASSETS / asset.name, read_text(asset))

    def _switch(self, target: str) -> str:
        page = target.replace(".md", ".html")
        other, word = ("zh/", "中文") if self.language == "en" else ("../", "English")
        return f'<a class="pitb-language" href="{other}{page}">{word}</a>\n'

    def _picture(self, name: str, text: str) -> str:
        """A picture of the results, where there is one."""
        path = self.root / "results/plots" / f"{name}.svg"
        if not path.is_file():
            return ""
        write_text(self.folder / ASSETS / path.name, read_text(path))
        return f"![{text}]({ASSETS}/{path.name})\n"

    def _graph(self, match: re.Match[str]) -> str:
        svg = self.draw(match[4])
        name = f"graph-{hashlib.sha256(svg.encode()).hexdigest()[:12]}.svg"
        write_text(self.folder / ASSETS / name, svg)
        picture = f"{ASSETS}/{name}"
        return f"{match[1]}[![]({picture}){{ .pitb-graph }}]({picture})\n"

    def _links(self, text: str, name: str) -> str:
        def link(match: re.Match[str]) -> str:
            return match[1] or f"({self._target(match[2], name)})"

        return _LINK.sub(link, text)

    def _target(self, link: str, name: str) -> str:
        if urlsplit(link).scheme or link.startswith(("#", f"{ASSETS}/")):
            return link
        path, hash_, anchor = link.partition("#")
        parts: list[str] = []
        for part in (*PurePosixPath(name).parent.parts, *PurePosixPath(path).parts):
            parts = parts[:-1] if part == ".." else [*parts, part]
        found = "/".join(parts)
        if not found or not (self.root / found).exists():
            raise PitbError(f"{name} links to {link}, and there is no file {found}")
        if found in PAGES_OF_FILES:
            target = PAGES_OF_FILES[found]
        elif parts[0] == "docs":
            # A page of the other language leads to that of this one.
            target = parts[-1].replace(".zh.md", ".md")
        else:
            self.shown.add(found)
            target = f"{SOURCE}/{found}.md"
        return f"{target}{hash_}{anchor}"


def _listed(folder: Path) -> str:
    """The files of a folder, a line each."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return "\n".join(path.relative_to(folder).as_posix() for path in files)


def inline_search(folder: Path) -> None:
    """Write each search index as a script, too: without it a page that is opened as a file errs."""
    for path in sorted(folder.rglob("search/search_index.json")):
        write_text(path.with_suffix(".js"), f"var __index = {read_text(path)}")


class _Page(HTMLParser):
    """What a page loads, links to, and can be linked to at."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        self.ids |= {found[key] for key in ("id", "name") if found.get(key)}
        for key in ("src", "data", "poster"):
            if key in found and tag != "a":
                self.loads.append(found[key])
        if "srcset" in found:
            self.loads += [part.split()[0] for part in found["srcset"].split(",") if part.strip()]
        if tag in ("link", "use", "image") and "href" in found:
            follows = {"canonical", "next", "prev", "alternate"} & set(found.get("rel", "").split())
            (self.links if follows else self.loads).append(found["href"])
        if tag in ("a", "area") and "href" in found:
            self.links.append(found["href"])
        self.loads += re.findall(r"url\(([^)]+)\)", found.get("style", ""))


def check(folder: Path) -> Iterator[str]:
    """What is wrong with a built site: a sentence for each load from elsewhere or dead link."""
    pages = {path: _parsed(path) for path in sorted(folder.rglob("*.html"))}
    if not pages:
        yield f"{folder} holds no page"
    for path, page in pages.items():
        where = path.relative_to(folder).as_posix()
        for url in page.loads:
            yield from _loaded(folder, path, where, url)
        for url in page.links:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = _file(folder, path, parts.path)
            anchor = unquote(parts.fragment)
            if not target.is_file():
                yield f"{where} links to {url}, which is not there"
            elif anchor and target in pages and anchor not in pages[target].ids:
                yield f"{where} links to {url}, which has no such place"
    for path in sorted(folder.rglob("*.css")):
        where = path.relative_to(folder).as_posix()
        for url in re.findall(r"(?:url\(|@import\s+)[\"']?([^\"')\s;]+)", read_text(path)):
            yield from _loaded(folder, path, where, url)
    for path in sorted(folder.rglob("*.svg")):
        where = path.relative_to(folder).as_posix()
        for url in re.findall(
            r"(?:xlink:href|href|src)=\"([^\"]+)\"|url\(([^)]+)\)", read_text(path)
        ):
            for each in filter(None, url):
                if not each.strip("\"'").startswith(("#", "data:")):
                    yield f"{where} loads {each}"


def _parsed(path: Path) -> _Page:
    page = _Page()
    page.feed(read_text(path))
    return page


def _loaded(folder: Path, path: Path, where: str, url: str) -> Iterator[str]:
    url = url.strip("\"'")
    parts = urlsplit(url)
    if parts.scheme == "data" or url.startswith("#"):
        return
    if parts.scheme or parts.netloc:
        yield f"{where} loads {url} from another host"
    elif not _file(folder, path, parts.path).is_file():
        yield f"{where} loads {url}, which is not there"


def _file(folder: Path, page: Path, path: str) -> Path:
    if not path:
        return page
    start = folder if path.startswith("/") else page.parent
    target = (start / unquote(path).lstrip("/")).resolve()
    return target / "index.html" if target.is_dir() else target
