"""Words of ours that stand as values in the sheets and findings, in both languages."""

import re

from pitb.labels import Text, both

VALUES: dict[str, Text] = {
    text["en"]: text
    for text in (
        # How two sides relate.
        both("same", "相同"),
        both("different by default", "默认值不同"),
        both("different by formula", "公式不同"),
        both("not to be had on the other side", "另一边没有"),
        both("refused by both", "两边都拒绝"),
        both("only at extremes", "仅在极端情形"),
        both("but for what is beside the formula", "除了公式之外的部分"),
        both("as in the paper", "与论文一致"),
        both("different", "不同"),
        both("not in the paper", "论文里没有"),
        # Verdicts, states and kinds.
        both("OK", "OK"),
        both("MISMATCH", "MISMATCH"),
        both("error", "出错"),
        both("impossible", "不可能"),
        both("undecided", "未定"),
        both("covered", "已覆盖"),
        both("no-counterpart", "没有对应"),
        both("missing", "缺失"),
        both("choice", "公式选择"),
        both("precision", "精度"),
        both("option", "选项"),
        both("unset", "未设"),
        both("yes", "有"),
        both("no", "没有"),
        both("no such option", "没有这个选项"),
        # Laws of tolerance.
        both("constant", "不变"),
        both(
            "both sides compute the same formula in float64, rounded differently",
            "两边用 float64 计算同一公式，舍入不同",
        ),
        both(
            "each update rounds parameter, state and gradient to float32 once more",
            "每次更新都把参数、状态和梯度再舍入到 float32 一次",
        ),
        both(
            "the run itself magnifies roundings: where it does, the reference's response to a "
            "nudge of one unit in the last place at each update says by how much",
            "运行本身会放大舍入误差：放大多少，由参考实现对每次更新末位一个单位的扰动的响应给出",
        ),
        both(
            "L-BFGS evaluates and branches many times within an update, on losses and slopes that "
            "it sees rounded: the reference's response to nudges of every evaluation says by how "
            "much",
            "L-BFGS 在一次更新里多次求值并分支，所依据的 loss 和斜率都已舍入："
            "放大多少，由参考实现对每次求值的扰动的响应给出",
        ),
        both(
            "PyTorch iterates Newton-Schulz in bfloat16 whatever the dtype, and so does the "
            "reference; now and then a matrix product that is summed in another order is rounded "
            "to the next bfloat16",
            "无论精度如何，PyTorch 都用 bfloat16 做 Newton-Schulz 迭代，参考实现也一样；"
            "求和次序不同的矩阵乘积偶尔会舍入到相邻的 bfloat16",
        ),
        both(
            "PyTorch iterates Newton-Schulz in bfloat16 whatever the dtype, burn in the dtype",
            "无论精度如何，PyTorch 都用 bfloat16 做 Newton-Schulz 迭代，burn 用参数本身的精度",
        ),
        both(
            "Adan keeps the difference of two gradients: what is alike cancels, and roundings do "
            "not",
            "Adan 保存两个梯度之差：相同的部分抵消，舍入误差不抵消",
        ),
        both(
            "burn computes 1 - beta of a hyper-parameter in float32, which then differs by "
            "thousands of times what the hyper-parameter itself does",
            "burn 用 float32 计算超参数的 1 - beta，其误差是超参数本身误差的数千倍",
        ),
        # Schedules.
        both(
            "the description has the library's own order of operations",
            "描述采用该库自己的运算次序",
        ),
        both("a state that is saved and loaded is all of the state", "存取的状态就是全部状态"),
        both("each operation rounds once on each side", "每次运算两边各舍入一次"),
        both("sums and differences round in ulp of the peak", "加减法以峰值的 ulp 为单位舍入"),
        both("PyTorch's loses n^2 ulp at a minimum", "PyTorch 的在最低点损失 n^2 ulp"),
        both(
            "SequentialLR steps a composite first child once more while it is built",
            "SequentialLR 构造时会让复合的第一个调度器多走一步",
        ),
        both(
            "a SequentialLR starts every scheduler from the one base rate",
            "SequentialLR 让每个调度器都从同一个基础学习率开始",
        ),
        both("a ChainedScheduler multiplies", "ChainedScheduler 做乘法"),
        both("no class adds or averages", "没有做加法或取平均的类"),
        both(
            "burn multiplies linear schedules but takes no root of one",
            "burn 可以把线性调度相乘，但不能开方",
        ),
        both(
            "a configuration of burn's holds no function, and none of its schedules is 1 / t",
            "burn 的配置里不能放函数，它的调度里也没有 1 / t",
        ),
        both("burn's step() is told no metric", "burn 的 step() 不接收指标"),
        both(
            "one scheduler over two parameter groups in PyTorch, a scheduler for each in burn",
            "PyTorch 一个调度器管两个参数组，burn 每组一个调度器",
        ),
        both(
            "after its minimum CosineAnnealingLR adds from its own base, which drops other factors",
            "过了最低点，CosineAnnealingLR 从自己的基数往上加，丢掉其他因子",
        ),
        both(
            "CosineAnnealingLR scales what is above eta_min, not the rate, so it is no factor",
            "CosineAnnealingLR 缩放的是 eta_min 以上的部分而不是学习率，所以不是一个因子",
        ),
        both(
            "at a milestone SequentialLR sets the rate from the base, which drops other factors",
            "到里程碑时 SequentialLR 从基数重设学习率，丢掉其他因子",
        ),
        both(
            "at a milestone MultiplicativeLR goes on from the rate that it finds",
            "到里程碑时 MultiplicativeLR 从当时的学习率继续",
        ),
        both(
            "a scheduler of burn's for each cycle, as many as the run has",
            "每个周期一个 burn 调度器，运行有几个周期就有几个",
        ),
        both(
            "a pair of schedulers of burn's for each cycle, as many as the run has",
            "每个周期一对 burn 调度器，运行有几个周期就有几对",
        ),
        # Findings.
        both("impossible on one side", "一边做不到"),
        both(
            "this project's clip_grad_norm does it on burn's side",
            "burn 侧由本项目的 clip_grad_norm 来做",
        ),
        both("within rounding in this run", "在这次运行里不超出舍入"),
        both("no run shows it beyond rounding", "没有运行显出超过舍入的差别"),
        both("other differences show in this run, too", "这次运行里也显出其他差别"),
        both(
            "both sides are given the number that None stands for in PyTorch, the epsilon of the "
            "dtype",
            "两边都给出 None 在 PyTorch 里所代表的数，即该精度的 epsilon",
        ),
    )
}
"""What columns say in words of ours; what a library says is quoted as it is."""

PATTERNS: dict[re.Pattern[str], Text] = {
    re.compile(text["en"], re.DOTALL): {**text, "en": r"\g<0>"}
    for text in (
        both(r"1 \+ (\S+) step", r"1 + \1 步"),
        both(r"(.*), or (\S+) times the response to a nudge", r"<\1>，或扰动响应的 \2 倍"),
        both(r"(.*) ulp of the (rate)", r"学习率的 \1 ulp"),
        both(r"(.*) ulp of the (peak)", r"峰值的 \1 ulp"),
        both(r"(.*) and (\d+) more", r"\1 等，另有 \2 个"),
        both(r"ends after (\d+) updates: (.*)", r"\1 次更新后终止：\2"),
        both(
            r"update (\d+) has (\S+) in burn, (\S+) in PyTorch",
            r"第 \1 次更新 burn 为 \2，PyTorch 为 \3",
        ),
        both(r"PyTorch has none: (.*)", r"PyTorch 没有：<\1>"),
        both(r"burn has none: (.*)", r"burn 没有：<\1>"),
        both(r"burn has no (\w+), only (.*)", r"burn 没有 \1，只有 \2"),
        both(r"PyTorch refuses it( here)?: (.*)", r"PyTorch 拒绝：\2"),
        both(r"burn refuses it: (.*)", r"burn 拒绝：\1"),
        both(r"burn refuses (\S+=.*?): (.*)", r"burn 拒绝 \1：\2"),
        both(r"burn's (\w+) cannot do (.*)", r"burn 的 \1 做不到 \2"),
        both(r"burn cannot do (.*?) \(burn: (.*)\)", r"burn 做不到 \1（burn：\2）"),
        both(r"burn cannot do (.*)", r"burn 做不到 \1"),
        both(r"PyTorch's (\w+) has no (.*)", r"PyTorch 的 \1 没有 \2"),
        both(r"burn's (\w+) has no (.*)", r"burn 的 \1 没有 \2"),
        both(r"((?:torch|timm)\.optim\.\w+) refuses its options: (.*)", r"\1 拒绝其选项：\2"),
        both(r"(\w+) is given as the number that the tensor holds", r"\1 以张量所含的数给出"),
        both(r"shows in (.*) alone", r"只在 \1 里显出"),
        both(r"no field of (\w+)", r"\1 没有这个字段"),
    )
}
"""Values that hold names and numbers; what stands in ``<>`` is a value itself."""


def worded(value: str, language: str) -> str | None:
    """A value of a column that speaks in words of ours, in ``language``; None where it has none.

    Parts that ``; `` separates are worded each.
    """
    if not value or language == "en":
        return value
    if value in VALUES:
        return VALUES[value][language]
    parts = _PARTS.split(value)
    if len(parts) > 1:
        found = [worded(part, language) for part in parts]
        if None not in found:
            return _SEMICOLONS[language].join(filter(None, found))
    for pattern, text in PATTERNS.items():
        match = pattern.fullmatch(value)
        if match is not None:
            return _inner(match.expand(text[language]), language)
    return None


_PARTS = re.compile(r"; (?!the nearest is)")  # which burn's own sentences end with
_SEMICOLONS = {"en": "; ", "zh": "；"}


def _inner(text: str, language: str) -> str | None:
    """A text whose part in ``<>`` is worded too, where it has one."""
    match = re.fullmatch(r"(.*?)<(.*)>(.*)", text, re.DOTALL)
    if match is None or match[2] == "":
        return text
    inner = worded(match[2], language)
    return None if inner is None else f"{match[1]}{inner}{match[3]}"
