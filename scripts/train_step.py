"""One SGD step of A1 in PyTorch, as JSON: logits, loss, grads, params_after, loss_after."""

from pitb import by_hand, page_json
from pitb.errors import run_main

EXAMPLES = """  python scripts/train_step.py --json pytorch.json --trace pytorch.parquet
  target/release/train-step --json burn.json
  python scripts/compare.py pytorch.json burn.json"""


def main() -> None:
    parser = by_hand.parser(__doc__, EXAMPLES)
    parser.add_argument("--lr", type=float, default=0.1, help="learning rate (default: 0.1)")
    arguments = parser.parse_args()

    def spec() -> by_hand.Spec:
        return {"id": "pytorch/sgd", "optimizer": "SGD", "lr": arguments.lr, "steps": 1}

    by_hand.train(arguments, spec, page_json.step_json)


if __name__ == "__main__":
    run_main(main)
