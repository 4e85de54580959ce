"""One plain SGD step of A1 in PyTorch with gradients clipped by clip_grad_norm_."""

from typing import TYPE_CHECKING

from pitb import by_hand, page_json
from pitb.errors import PitbError, run_main

if TYPE_CHECKING:
    from pitb.trace import Trace

EXAMPLES = """  python scripts/clip.py global
  python scripts/clip.py per-parameter --max-norm 0.1 --json clipped.json
  python scripts/clip.py --runs runs.json --traces results/traces"""


def main() -> None:
    parser = by_hand.parser(__doc__, EXAMPLES)
    parser.add_argument(
        "scope",
        nargs="?",
        choices=["global", "per-parameter"],
        help="one norm over all gradients, or one call for each parameter",
    )
    parser.add_argument(
        "--max-norm", type=by_hand.positive, default=0.1, help="the cap (default: 0.1)"
    )
    parser.add_argument("--lr", type=float, default=0.1, help="learning rate (default: 0.1)")
    arguments = parser.parse_args()

    def spec() -> by_hand.Spec:
        if arguments.scope is None:
            raise PitbError("a scope is needed, global or per-parameter, or --runs; see --help")
        return {
            "id": f"pytorch/clip-{arguments.scope}",
            "optimizer": "SGD",
            "lr": arguments.lr,
            "steps": 1,
            "clip": {"scope": arguments.scope, "max_norm": arguments.max_norm},
        }

    def show(recorded: "Trace") -> None:
        for entry in recorded.select(1, "grad_norm"):
            print(f"{entry.tensor or 'total'} norm: {recorded.of(entry)[0]}")

    by_hand.train(arguments, spec, page_json.clip_json, show)


if __name__ == "__main__":
    run_main(main)
