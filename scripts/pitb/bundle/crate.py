"""The RO-Crate of a bundle: a Provenance Run Crate 0.5, written with rocrate.

The workflow is the Snakefile. Each rule that ran is a step (``HowToStep``) that calls a tool, the
script or program of its command; each of its jobs is a ``CreateAction`` with the files it read and
made; Snakemake's run is an ``OrganizeAction`` over a ``ControlAction`` for each step. Times are not
in it, since they vary: they stand in ``measured.json``.
"""

import mimetypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pitb.bundle.contents import MEASURED
from pitb.bundle.packing import Content, digest, json_bytes
from pitb.bundle.provenance import Job, tool

VERSION = "1.1"
"""Of RO-Crate; that of the profiles below."""
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/provenance/0.5": ("Provenance Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
WORKFLOW_PROFILE = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"
TERMS = {
    "environment": "https://w3id.org/ro/terms/workflow-run#environment",
    "sha256": "https://w3id.org/ro/terms/workflow-run#sha256",
    "ComputationalWorkflow": "https://bioschemas.org/ComputationalWorkflow",
}
"""The first two are none of RO-Crate's own context. The last is as RO-Crate 1.1 has it, written out
since later versions of the context, such as the one that rocrate ships, mean another address."""
HOMES = {
    "torch": "https://pytorch.org",
    "burn": "https://burn.dev",
    "rustc": "https://www.rust-lang.org",
    "python": "https://www.python.org",
    "snakemake": "https://snakemake.github.io",
}
WORKFLOW = "Snakefile"
STATUS = "http://schema.org/CompletedActionStatus"
FORMATS = {
    ".parquet": "application/vnd.apache.parquet",
    ".md": "text/markdown",
    ".yaml": "application/yaml",
    ".toml": "application/toml",
    ".lock": "text/plain",
    ".json": "application/json",
    ".csv": "text/csv",
    ".py": "text/x-python",
    ".rs": "text/x-rust",
    ".cff": "application/yaml",
}
OTHER_FORMAT = "text/plain"


@dataclass(frozen=True)
class Facts:
    """What a crate says beside its files and jobs."""

    version: str
    """pitb's."""
    title: str
    abstract: str
    authors: tuple[str, ...]
    license: str
    """SPDX's name of it."""
    url: str | None
    """The project's home, where ``CITATION.cff`` has one."""
    date: str
    """Of the sources' commit, ISO 8601: the day that the crate gives as that of its publication."""
    versions: Mapping[str, str]
    """Of the libraries, compilers and interpreters that the traces name."""
    machine: Sequence[tuple[str, str]]
    """What the traces say of the machine: a name and a value each."""
    result: str
    """The run's outcome in words."""


def encoding(name: str) -> str:
    """The media type of a file."""
    suffix = f".{name.rpartition('.')[2]}" if "." in name.rpartition("/")[2] else ""
    return FORMATS.get(suffix) or mimetypes.types_map.get(suffix) or OTHER_FORMAT


class _Crate:
    """Collects the entities; ``rocrate`` keeps the references between them."""

    def __init__(self, files: Mapping[str, Content], facts: Facts) -> None:
        from rocrate.rocrate import ROCrate

        self.files, self.facts = files, facts
        self.crate: Any = ROCrate(version=VERSION)
        self.entities: dict[str, Any] = {}
        self.crate.metadata.extra_terms.update(TERMS)

    def context(self, identifier: str, kind: str | list[str], /, **properties: Any) -> Any:
        """An entity that is no file; the same identifier gives the same entity."""
        from rocrate.model import ContextEntity

        if identifier not in self.entities:
            given = {"@type": kind, **{k: v for k, v in properties.items() if v is not None}}
            entity = ContextEntity(self.crate, identifier, properties=given)
            self.entities[identifier] = self.crate.add(entity)
        return self.entities[identifier]

    def file(self, path: str, kind: Sequence[str] = (), /, **properties: Any) -> Any:
        """A file of the bundle."""
        from rocrate.model import File

        if path not in self.entities:
            content = self.files.get(path)
            given: dict[str, Any] = {"name": path, "encodingFormat": encoding(path)}
            if kind:
                given["@type"] = ["File", *kind]
            if content is not None and path != MEASURED:
                size = len(content) if isinstance(content, bytes) else content.stat().st_size
                given |= {"contentSize": str(size), "sha256": digest(content)}
            given |= {k: v for k, v in properties.items() if v is not None}
            entity = File(self.crate, dest_path=path, properties=given)
            self.entities[path] = self.crate.add(entity)
        return self.entities[path]

    def software(self, name: str, version: str, url: str | None) -> Any:
        return self.context(
            f"#{name}", "SoftwareApplication", name=name, softwareVersion=version, url=url
        )


def metadata(files: Mapping[str, Content], jobs: Iterable[Job], facts: Facts) -> bytes:
    """``ro-crate-metadata.json``.

    Args:
        files: The files of the bundle by name, but for this one and the manifest.
        jobs: What ran.
        facts: The rest.
    """
    made = _Crate(files, facts)
    authors = [
        made.context(f"#author-{number}", "Organization", name=name, url=facts.url)
        for number, name in enumerate(facts.authors, start=1)
    ]
    workflow = _workflow(made)
    actions = _run(made, workflow, list(jobs), authors[0])
    for name in sorted(files):
        made.file(name)
    _root(made, authors, actions)
    return json_bytes(_plain(made.crate.metadata.generate()))


def _workflow(made: _Crate) -> Any:
    facts = made.facts
    language = made.context(
        "#snakemake-language",
        "ComputerLanguage",
        name="Snakemake",
        url=HOMES["snakemake"],
        version=facts.versions["snakemake"],
    )
    workflow = made.file(
        WORKFLOW,
        ("SoftwareSourceCode", "ComputationalWorkflow", "HowTo"),
        name=facts.title,
        version=facts.version,
        url=facts.url,
        encodingFormat="text/plain",
    )
    workflow["programmingLanguage"] = language
    workflow["conformsTo"] = made.context(
        WORKFLOW_PROFILE, "CreativeWork", name="ComputationalWorkflow", version="1.0"
    )
    workflow["softwareRequirements"] = [
        made.software(name, version, HOMES.get(name)) for name, version in facts.versions.items()
    ]
    made.crate.mainEntity = workflow
    return workflow


def _run(made: _Crate, workflow: Any, jobs: list[Job], agent: Any) -> list[Any]:
    """The actions: one of the workflow, then one of each job; and the steps that they are of."""
    facts = made.facts
    environment = [
        made.context(f"#{name.replace(' ', '-')}", "PropertyValue", name=name, value=value)
        for name, value in facts.machine
    ]
    run = made.context("#run", "CreateAction", name="The run of the workflow", agent=agent)
    run["description"] = facts.result
    run["instrument"] = workflow
    run["actionStatus"] = STATUS
    run["environment"] = environment
    run["subjectOf"] = made.file(MEASURED)
    tools, steps, controls, actions = [], [], [], [run]
    inputs, outputs = set(), set()
    by_rule: dict[str, list[Job]] = {}
    for job in jobs:
        by_rule.setdefault(job.rule, []).append(job)
    called_by = {rule: _tool(made, tool(members[0])) for rule, members in by_rule.items()}
    for position, (rule, members) in enumerate(by_rule.items(), start=1):
        called = called_by[rule]
        step = made.context(f"#step-{rule}", "HowToStep", name=rule, position=str(position))
        step["workExample"] = called
        of_step: list[Any] = []
        for job in members:
            read = [name for name in job.inputs if name in made.files]
            wrote = _made(job, made.files)
            action = made.context(
                f"#job-{rule}-{len(of_step) + 1}",
                "CreateAction",
                name=job.name,
                description=f"Rule {rule}, called as: {job.command}",
                agent=agent,
                actionStatus=STATUS,
            )
            action["instrument"] = called
            action["object"] = [made.file(name) for name in read]
            action["result"] = [made.file(name) for name in wrote]
            inputs |= set(read)
            outputs |= set(wrote)
            of_step.append(action)
        control = made.context(f"#control-{rule}", "ControlAction", name=f"Step {rule}")
        control["instrument"] = step
        control["object"] = of_step
        control["actionStatus"] = STATUS
        tools.append(called)
        steps.append(step)
        controls.append(control)
        actions += of_step
    workflow["hasPart"] = list({each.id: each for each in tools}.values())
    workflow["step"] = steps
    run["object"] = [made.file(name) for name in sorted(inputs - outputs)]
    run["result"] = [made.file(name) for name in sorted(outputs)]
    organize = made.context(
        "#snakemake-run", "OrganizeAction", name="Snakemake's run", agent=agent, actionStatus=STATUS
    )
    organize["instrument"] = made.entities["#snakemake"]
    organize["object"] = controls
    organize["result"] = run
    return actions


def _made(job: Job, files: Mapping[str, Content]) -> list[str]:
    """The files of the bundle that a job made; some of what it made may be a folder."""
    whole = set(job.outputs)
    folders = tuple(f"{output}/" for output in job.outputs)
    return [name for name in sorted(files) if name in whole or name.startswith(folders)]


def _tool(made: _Crate, name: str) -> Any:
    facts = made.facts
    if name in made.files:
        return made.file(name, ("SoftwareSourceCode",), version=facts.version, url=facts.url)
    return made.software(name.rpartition("/")[2], facts.version, facts.url)


def _root(made: _Crate, authors: list[Any], actions: list[Any]) -> None:
    facts, root = made.facts, made.crate.root_dataset
    root["name"] = f"{facts.title} {facts.version}"
    root["description"] = f"{facts.abstract} This run: {facts.result}"
    root["datePublished"] = facts.date
    root["version"] = facts.version
    root["author"] = authors
    root["publisher"] = authors[0]
    root["license"] = made.context(
        f"https://spdx.org/licenses/{facts.license}",
        "CreativeWork",
        name=f"{facts.license} License",
        description=f"The licence of the sources and of what they made: {facts.license}",
    )
    root["conformsTo"] = [
        made.context(identifier, "CreativeWork", name=name, version=version)
        for identifier, (name, version) in PROFILES.items()
    ]
    root["mentions"] = [*actions, made.entities["#snakemake-run"]]
    made.file("README.md")["about"] = root
    made.crate.metadata["conformsTo"] = [
        {"@id": f"https://w3id.org/ro/crate/{VERSION}"},
        {"@id": "https://w3id.org/workflowhub/workflow-ro-crate/1.0"},
    ]


def _plain(value: Any) -> Any:
    """Lists of one item as that item, as RO-Crate recommends, but for the graph and the context."""
    if isinstance(value, dict):
        found = {}
        for key, item in value.items():
            item = _plain(item)
            if isinstance(item, list) and len(item) == 1 and key not in ("@graph", "@context"):
                item = item[0]
            found[key] = item
        return found
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
