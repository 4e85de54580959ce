"""The words of the reports, in both languages."""

from pitb.explain.divergence import RULES
from pitb.explain.factorial import LOSS, PARAMETERS, RELATIVE
from pitb.explain.items import EQUATION, LOOP, OPTIMIZER, VALUE

Text = dict[str, str]


def _both(en: str, zh: str) -> Text:
    return {"en": en, "zh": zh}


NOT_DETECTABLE = _both("not detectable on this problem", "在这个问题上测不出")
UNDEFINED = _both("undefined (a combination diverges)", "无定义（有组合发散）")
DIVERGES = _both("diverges", "发散")

KINDS = {
    VALUE: _both("value", "取值"),
    EQUATION: _both("equation", "公式"),
    LOOP: _both("training loop", "训练循环"),
    OPTIMIZER: _both("optimizer", "优化器"),
}
MEASURES = {
    PARAMETERS: _both("Parameters: largest absolute difference", "参数：最大绝对差"),
    RELATIVE: _both(
        "Parameters: largest difference over the largest magnitude of its tensor",
        "参数：最大差与所在张量最大绝对值之比",
    ),
    LOSS: _both("Loss: absolute difference", "损失：绝对差"),
}
STAGES = {
    "initial state": _both("initial state", "初始状态"),
    "loss": _both("loss", "损失"),
    "gradient": _both("gradient", "梯度"),
    "clipped gradient": _both("clipped gradient", "裁剪后的梯度"),
    "state": _both("state", "优化器状态"),
    "parameter": _both("parameter", "参数"),
}
RULE = dict(
    zip(
        RULES,
        (
            _both("The parameters never differ beyond roundings.", "参数之差始终不超过舍入误差。"),
            _both(
                "The runs start apart, so no rule says what makes them differ.",
                "两次运行的起点就不同，经验法则用不上。",
            ),
            _both(
                "The pages' rule of thumb: what differs after step 1 is epsilon, weight decay or "
                "clipping (or the rate).",
                "页面的经验法则：第 1 步之后就不同的，是 epsilon、权重衰减或裁剪（或学习率）。",
            ),
            _both(
                "The pages' rule of thumb: what splits at step 2 is momentum, dampening or another "
                "state.",
                "页面的经验法则：第 2 步才分开的，是动量、dampening 或别的状态。",
            ),
            _both(
                "Later than the pages' rule of thumb reaches: look for what begins late, such as a "
                "schedule or a history, or for a small difference that the run magnifies.",
                "晚于页面经验法则的范围：请找较晚才起作用的东西，比如调度或历史，"
                "或者被训练放大的微小差别。",
            ),
        ),
        strict=True,
    )
)

TEXTS: dict[str, Text] = {
    "title": _both("# {a} -- {b}", "# {a} -- {b}"),
    "setting": _both(
        "Problem {problem}, steps: {steps}, {dtype}; combinations trained on the f64 reference: "
        "{runs}.",
        "问题 {problem}，{steps} 步，{dtype}；在 f64 参考实现上训练了 {runs} 种组合。",
    ),
    "replayed": _both(
        "The model is none that pitb can train, so every combination got the gradients that "
        "{run} recorded: what a step changes in later gradients is left out, and there is no loss.",
        "这个模型 pitb 训练不了，所以每种组合都用 {run} 记录的梯度："
        "一步对后面梯度的影响没有算进来，也没有损失。",
    ),
    "most": _both(
        "At step {step}, {item} makes {part} % of the difference in the parameters.",
        "第 {step} 步的参数差里，{item} 占 {part} %。",
    ),
    "one optimizer": _both(
        "{a} and {b} are one optimizer but for what stands below.",
        "{a} 和 {b} 是同一个优化器，只差下面列出的选择。",
    ),
    "two optimizers": _both(
        "{a} and {b} are two optimizers: what only one of them has goes with the item `optimizer`.",
        "{a} 和 {b} 是两个优化器：只有一方才有的东西都算在 `optimizer` 一项里。",
    ),
    "tells": _both("which tells {a} from {b}", "{a} 和 {b} 的区别就在这里"),
    "against each other": _both(
        "At step {step} some items work against others, so no share is a part of the difference in "
        "the parameters.",
        "第 {step} 步有些项彼此抵消，所以份额不是参数差的一部分。",
    ),
    "meaning": _both("`{choice}`: {meaning}", "`{choice}`：{meaning}"),
    "nothing": _both(
        "Nothing that these configurations differ in is detectable on this problem.",
        "这两份配置的任何不同在这个问题上都测不出。",
    ),
    "same": _both("Nothing differs.", "没有不同之处。"),
    "what differs": _both("## What differs", "## 有哪些不同"),
    "item": _both("item", "项"),
    "kind": _both("kind", "种类"),
    "step": _both("step", "步"),
    "unread": _both(
        "Equations that differ and that none of these runs reads: {items}.",
        "公式不同、但这些运行都用不到的：{items}。",
    ),
    "untried": _both("Not tried: {items}.", "没有试的：{items}。"),
    "costs": _both("## What each costs", "## 各项的代价"),
    "method": _both(
        "From A ({a}) to B ({b}). *Aligned alone*: B with the item as A has it, and what then "
        "remains of the difference. *Broken alone*: A with the item as B has it, and what that "
        "costs. *Share*: its Shapley value; the shares add up to the total. {phrase}: within the "
        "floor, which is what roundings alone do to these runs.",
        "从 A（{a}）到 B（{b}）。*单独对齐*：B 里只把这一项改成 A 的，还剩多少差别。"
        "*单独改变*：A 里只把这一项改成 B 的，要付多少代价。"
        "*份额*：沙普利值，各项份额之和等于总差。"
        "{phrase}：不超过下限，即仅由舍入就能造成的差别。",
    ),
    "loss step": _both(
        "The loss of a step is that of the parameters which the update starts from.",
        "一步的损失是更新前参数的损失。",
    ),
    "aligned": _both("aligned alone, remains", "单独对齐，还剩"),
    "broken": _both("broken alone, costs", "单独改变，代价"),
    "share": _both("share", "份额"),
    "error": _both("standard error", "标准误"),
    "total": _both("total", "合计"),
    "floor": _both("floor", "下限"),
    "no loss": _both("The problem has no loss.", "这个问题没有损失。"),
    "sampled": _both(
        "{n} items have too many combinations, so the shares are estimated from {orders} orders, "
        "drawn with seed {seed}; they still add up to the total.",
        "{n} 项的组合太多，份额由 {orders} 个随机次序（种子 {seed}）估计；它们之和仍等于总差。",
    ),
    "interact": _both(
        "The items interact in the {what}: at step {step} the costs alone add up to {alone}, "
        "together they cost {together}{pair}.",
        "就{what}而言各项相互影响：第 {step} 步单独的代价之和是 {alone}，"
        "合在一起是 {together}{pair}。",
    ),
    "pair": _both(
        "; most of all {first} with {second}, by {extra}",
        "；其中 {first} 和 {second} 最甚，相差 {extra}",
    ),
    "diverging": _both(
        "With {items} as B has it, a parameter is not finite at step {step}.",
        "{items} 取 B 的值时，参数在第 {step} 步不是有限数。",
    ),
    "ends": _both(
        "With {items} as B has it, the run ends at step {step}: {reason}.",
        "{items} 取 B 的值时，运行在第 {step} 步中止：{reason}。",
    ),
    "more": _both("{n} more combinations diverge.", "还有 {n} 种组合发散。"),
    "none broken": _both("nothing", "没有任何一项"),
    "first": _both("## Where it begins", "## 从哪里开始不同"),
    "of traces": _both("Of the recorded traces.", "取自记录的轨迹。"),
    "of reference": _both(
        "Of the reference's two runs, since not both sides have a trace.",
        "取自参考实现的两次运行，因为不是两边都有轨迹。",
    ),
    "stage": _both("stage", "阶段"),
    "tensor": _both("tensor", "张量"),
    "index": _both("index", "下标"),
    "a": _both("A", "A"),
    "b": _both("B", "B"),
    "ulp": _both("ulp", "ulp"),
    "first bit": _both(
        "The first bit that differs: {where}, {ulp} ulp apart.",
        "最先不同的一位：{where}，相差 {ulp} ulp。",
    ),
    "no divergence": _both("No number differs beyond roundings.", "没有哪个数的差超过舍入误差。"),
    "begins": _both("First beyond roundings: {where}.", "最先超过舍入误差的：{where}。"),
    "then": _both(
        "Broken alone, {items} {verb} the parameters at that step.",
        "在这一步，单独改变 {items} 就能影响参数{verb}。",
    ),
    "missing": _both("Not compared: {sentence}.", "没有比较：{sentence}。"),
    "against": _both("## Against the traces", "## 与轨迹对照"),
    "explained": _both(
        "At step {step} the configurations explain {part} % of the difference in the {what}: "
        "recorded {recorded}, of the reference {reference}.",
        "第 {step} 步，配置解释了{what}之差的 {part} %："
        "记录的是 {recorded}，参考实现是 {reference}。",
    ),
    "tiny": _both(
        "At step {step} the recorded difference in the {what}, {recorded}, is no more than what "
        "roundings are given: there is nothing to explain.",
        "第 {step} 步记录的{what}之差是 {recorded}，不超过留给舍入的范围，没有什么要解释的。",
    ),
    "equal": _both(
        "At step {step} the traces hold the same {what}.", "第 {step} 步两条轨迹的{what}相同。"
    ),
    "infinite": _both(
        "At step {step} the recorded difference in the {what} is not finite or not complete.",
        "第 {step} 步记录的{what}之差不是有限数，或者不完整。",
    ),
    "parameters": _both("parameters", "参数"),
    "loss": _both("loss", "损失"),
    "follows": _both(
        "The reference so configured follows {run} to the end (law {law}).",
        "按此配置的参考实现始终跟得上 {run}（法则 {law}）。",
    ),
    "strays": _both(
        "{run} is not explained by its configuration: the reference leaves it at step {step}, at "
        "{where}, by {needed} where the law {law} allows {allowed}. `pitb diagnose` looks for what "
        "its code does instead.",
        "{run} 不能由它的配置解释：参考实现在第 {step} 步的 {where} 处偏离，差 {needed}，"
        "法则 {law} 只允许 {allowed}。用 `pitb diagnose` 查找代码实际做了什么。",
    ),
    "unsaid": _both(
        "{run} is not explained by its configuration: {reason}. `pitb diagnose` looks for what its "
        "code does instead.",
        "{run} 不能由它的配置解释：{reason}。用 `pitb diagnose` 查找代码实际做了什么。",
    ),
    "part": _both(
        "The traces are large: {count} of {of} parameters were trained again. Each is updated by "
        "itself, so this is exactly their part of the whole, and what differs most is among them.",
        "轨迹很大：重新训练了 {of} 个参数中的 {count} 个。每个参数都单独更新，"
        "所以这正是整体中它们的那一部分，差得最多的也在其中。",
    ),
    "seen": _both(
        "The traces are large: all {of} parameters were trained again, since an update takes whole "
        "tensors, and {count} of them compared, what differs most in the traces among them.",
        "轨迹很大：更新要用整个张量，所以重新训练了全部 {of} 个参数，对照了其中 {count} 个，"
        "轨迹里差得最多的也在其中。",
    ),
    "override": _both(
        "The trace of {run} is of another {key}, so it is not compared.",
        "{run} 的轨迹用的是另一个 {key}，所以没有对照。",
    ),
    "fan": _both(
        "Which axes Muon's rate adjustment takes is known for linear layers called fc or unused "
        "alone.",
        "只有名为 fc 或 unused 的线性层才知道 Muon 的学习率调整取哪些轴。",
    ),
    "alone changes": _both("changes", ""),
    "alone change": _both("each change", ""),
}


def text(name: str, language: str, **values: object) -> str:
    """A sentence in ``language``, ``en`` or ``zh``."""
    return TEXTS[name][language].format(**values)
