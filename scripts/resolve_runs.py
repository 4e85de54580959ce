"""Resolve the configuration into batches of runs and comparisons, one JSON file each."""

import argparse
import json
from pathlib import Path

from pitb import batches, config
from pitb.errors import run_main
from pitb.files import write_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, nargs="+", required=True, help="YAML files")
    parser.add_argument("--schema", type=Path, required=True)
    parser.add_argument("--overrides", type=json.loads, default={}, help="keys as a JSON object")
    parser.add_argument("--out", type=Path, required=True, help="folder for the batches")
    arguments = parser.parse_args()
    resolved = config.load(arguments.config, arguments.schema, arguments.overrides)
    for name, content in batches.all_batches(resolved).items():
        write_json(arguments.out / f"{name}.json", content)


if __name__ == "__main__":
    run_main(main)
