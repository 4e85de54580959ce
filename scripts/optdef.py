"""Train A1 with any PyTorch optimizer; what is not set stays at PyTorch's default."""

from typing import TYPE_CHECKING

from pitb import by_hand, page_json
from pitb.errors import PitbError, run_main

if TYPE_CHECKING:
    from pitb.trace import Trace

EXAMPLES = """  python scripts/optdef.py RMSprop --lr 0.01
  python scripts/optdef.py SGD --lr 0.1 --set momentum=0.9 --trace sgdm.parquet
  python scripts/optdef.py --runs runs.json --traces results/traces"""


def main() -> None:
    parser = by_hand.parser(__doc__, EXAMPLES)
    parser.add_argument("optimizer", nargs="?", help="name in torch.optim, such as AdamW")
    parser.add_argument("--lr", type=float, help="learning rate")
    parser.add_argument("--steps", type=int, default=10, help="updates (default: 10)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", help="an option, as JSON"
    )
    arguments = parser.parse_args()

    def spec() -> by_hand.Spec:
        if arguments.optimizer is None or arguments.lr is None:
            raise PitbError("an optimizer and --lr are needed, or --runs; see --help")
        return {
            "id": f"pytorch/{arguments.optimizer.lower()}",
            "optimizer": arguments.optimizer,
            "options": by_hand.options(arguments.set),
            "lr": arguments.lr,
            "steps": arguments.steps,
        }

    def show(recorded: "Trace") -> None:
        configuration = recorded.configuration
        print(f"{configuration['optimizer']} {configuration['options']}")
        print("step  loss")
        for entry in recorded.entries:
            if entry.quantity == "loss":
                print(f"{entry.step:>4}  {recorded.of(entry)[0]:.8f}")

    by_hand.train(arguments, spec, page_json.steps_json, show)


if __name__ == "__main__":
    run_main(main)
