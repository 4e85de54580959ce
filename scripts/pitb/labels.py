"""Titles, headings and notes of the tables, in both languages."""

import re

LANGUAGES = {"en": "", "zh": ".zh"}
"""Language to what it adds to a file's name."""

Text = dict[str, str]


def both(en: str, zh: str) -> Text:
    """A text in both languages."""
    return {"en": en, "zh": zh}


_both = both


TITLES: dict[str, Text] = {
    "train-step": _both("One SGD step, number by number", "一步 SGD，逐个数对照"),
    "f32-inputs": _both("Inputs computed in f32 on the burn side", "burn 侧的输入在 f32 里计算"),
    "moves": _both("Where the tensors of one step go", "一步之中各个张量的去向"),
    "wrong-model": _both("A step on the wrong model", "拿错模型的一步"),
    "noassign": _both("The result of step is not assigned", "没有接住 step 的返回值"),
    "discard": _both("The result of step is dropped", "丢掉了 step 的返回值"),
    "defaults": _both("Defaults of both sides", "两边的默认值"),
    "default-differences": _both("Where the defaults differ", "默认值不同之处"),
    "mismatch": _both("Only the learning rate given", "只给学习率"),
    "a1": _both("The problem A1", "A1 问题"),
    "rmsprop-steps": _both("RMSprop with each side's defaults", "RMSprop，两边各用默认值"),
    "sgdm-steps": _both("SGD with momentum, each side's defaults", "带动量的 SGD，两边各用默认值"),
    "adagrad-steps": _both("Adagrad with each side's defaults", "Adagrad，两边各用默认值"),
    "ablation": _both("One default aligned at a time", "每次只对齐一项默认值"),
    "explanations": _both("What the differences come from", "差别的来源"),
    "clip-pytorch-global-burn-norm": _both(
        "Clipping: PyTorch's global norm, burn's Norm", "裁剪：PyTorch 全局范数对 burn Norm"
    ),
    "clip-pytorch-per-parameter-burn-norm": _both(
        "Clipping: PyTorch tensor by tensor, burn's Norm", "裁剪：PyTorch 逐个参数对 burn Norm"
    ),
    "clip-pytorch-global-burn-global": _both(
        "Clipping: the global norm on both sides", "裁剪：两边都用全局范数"
    ),
    "aligned": _both(
        "PyTorch's defaults written out on the burn side", "burn 侧写明 PyTorch 的默认值"
    ),
}

NOTES: dict[str, Text] = {
    "train-step": _both(
        "Same model, weights and batch on both sides; largest absolute difference of each tensor.",
        "两边的模型、权重和批次相同；每个张量的最大绝对差。",
    ),
    "f32-inputs": _both(
        "Inputs and biases are computed in f32 throughout instead of in f64 and rounded once.",
        "输入和偏置全程在 f32 里计算，而不是先在 f64 里算再舍入一次。",
    ),
    "noassign": _both(
        "From the compiler's JSON messages; the program must not compile.",
        "取自编译器的 JSON 消息；这个程序必须编译不过。",
    ),
    "discard": _both(
        "The program compiles without a warning, and the updated model is lost. The control is a "
        "method marked `#[must_use]`, dropped in the same way.",
        "程序编译时没有警告，更新后的模型却丢了。"
        "对照是一个标了 `#[must_use]` 的方法，同样不接返回值。",
    ),
    "defaults": _both(
        "PyTorch's from `opt.defaults` of each run, burn's from the `Debug` output of each "
        "configuration.",
        "PyTorch 的取自各次运行的 `opt.defaults`，burn 的取自各配置的 `Debug` 输出。",
    ),
    "default-differences": _both(
        "None and 0 are the same where both mean off; momentum's own options are compared where "
        "momentum is on.",
        "都表示关闭时，None 和 0 算相同；动量自己的选项在动量打开时比较。",
    ),
    "mismatch": _both(
        "Ten steps on the same batch, everything but the learning rate (and SGD's momentum) left "
        "at each library's default.",
        "同一批数据训练十步，除学习率（和 SGD 的动量）外都用各自的默认值。",
    ),
}

COLONS: Text = _both(": ", "：")
"""Between a name and its value."""

COLUMNS: dict[str, Text] = {
    "no table": _both("no table", "没有表"),
    "error": _both("error", "出错"),
    "len": _both("len", "len"),
    "row": _both("item", "项"),
    "column": _both("figure", "数值名"),
    "value": _both("value", "值"),
    "n": _both("n", "个数"),
    "max_abs_diff": _both("max abs diff", "最大绝对差"),
    "worst": _both("worst", "最大差"),
    "tolerance": _both("tolerance", "容差"),
    "verdict": _both("verdict", "结论"),
    "exit_code": _both("exit code", "退出码"),
    "elements_that_differ": _both("elements that differ", "不同的元素数"),
    "elements": _both("elements", "元素数"),
    "min_ulps": _both("fewest ulp", "最少 ulp"),
    "max_ulps": _both("most ulp", "最多 ulp"),
    "ulps": _both("ulp", "ulp"),
    "computed_in_f32": _both("computed in f32", "在 f32 里计算"),
    "computed_in_f64_rounded_once": _both(
        "computed in f64, rounded once", "在 f64 里计算、舍入一次"
    ),
    "grad": _both("gradient", "梯度"),
    "before": _both("before the step", "更新前"),
    "after step": _both("after the step", "更新后"),
    "value after step": _both("value after the step", "更新后的值"),
    "same object": _both("same object", "同一个对象"),
    "same buffer": _both("same buffer", "同一块内存"),
    "value after step equals value before": _both(
        "value after the step equals value before", "更新后的值等于更新前的值"
    ),
    "shares ParamId": _both("shares the ParamId", "共享 ParamId"),
    "ParamId unchanged": _both("ParamId unchanged", "ParamId 不变"),
    "still require_grad": _both("still requires grad", "仍然要梯度"),
    "differs between two runs": _both("differs between two runs", "两次运行不同"),
    "changed by opt.step()": _both("changed by opt.step()", "被 opt.step() 改变"),
    "changed by step": _both("changed by step", "被 step 改变"),
    "have grad": _both("have a gradient", "有梯度"),
    "error code": _both("error code", "错误码"),
    "message": _both("message", "消息"),
    "labels": _both("labels", "标注"),
    "lines": _both("lines", "行"),
    "help": _both("help", "帮助"),
    "suggested insertion": _both("suggested insertion", "建议插入"),
    "warnings": _both("warnings", "警告数"),
    "loss before": _both("loss before", "更新前的 loss"),
    "loss after": _both("loss after", "更新后的 loss"),
    "loss before equals loss after": _both("loss before equals loss after", "前后 loss 相等"),
    "must_use": _both("marked #[must_use]", "标了 #[must_use]"),
    "warns when dropped": _both("warns when dropped", "丢掉时有警告"),
    "pytorch": _both("PyTorch", "PyTorch"),
    "burn": _both("burn", "burn"),
    "source": _both("source", "出处"),
    "differences": _both("differences", "不同的项数"),
    "loss_pt": _both("loss, PyTorch", "PyTorch 的 loss"),
    "loss_burn": _both("loss, burn", "burn 的 loss"),
    "|dloss|": _both("loss difference", "loss 差"),
    "max|dparam|": _both("largest parameter difference", "参数最大差"),
    "steps at which loss_burn rises": _both(
        "steps at which burn's loss rises", "burn 的 loss 回升的步"
    ),
    "range": _both("range", "范围"),
    "step at which the two sides split": _both("step at which the two sides split", "两边分开的步"),
    "parameters": _both("parameters", "参数个数"),
    "total norm": _both("total norm", "总范数"),
}

PATTERNS: dict[re.Pattern[str], Text] = {
    re.compile(pattern): text
    for pattern, text in {
        r"step (\d+) max\|dparam\|": _both(
            r"step \1, largest parameter difference", r"第 \1 步：参数之差的最大值"
        ),
        r"step (\d+) \|dloss\|": _both(r"step \1, loss difference", r"第 \1 步：loss 之差"),
        r"max\|dparam\| at every step (\d+)\.\.(\d+)": _both(
            r"largest parameter difference at every step \1 to \2",
            r"第 \1 到 \2 步每步的参数最大差",
        ),
        r"\|dloss\| range from step (\d+)": _both(
            r"range of the loss difference from step \1", r"第 \1 步起 loss 差的范围"
        ),
        r"decay difference (.*)": _both(r"difference of the decay, \1", r"衰减之差 \1"),
        r"worst over (\d+) steps \(loss or parameter\)": _both(
            r"worst over \1 steps (loss or parameter)", r"\1 步之内 loss 与参数之差的最大值"
        ),
        r"growth per step after step (\d+)": _both(
            r"growth per step after step \1", r"第 \1 步之后每步的增长"
        ),
        r"step (\d+)": _both(r"step \1", r"第 \1 步"),
        r"get::<(\d)>( is_some)?": _both(r"get::<\1>\2", r"get::<\1>\2"),
    }.items()
}
"""Names that hold numbers; the parts in brackets are put into the text."""

SHEETS: dict[str, tuple[Text, Text]] = {
    "options": (
        _both("How every option set relates", "每组选项在两边的关系"),
        _both(
            "Both sides configured alike, on every problem and in both precisions. `because` names "
            "the choices of equation (or the defaults) that make the difference, with the number "
            "of cases; `where` says so if they differ only where gradients are not finite or their "
            "squares leave the range of float32, or only by what is beside the formula (tied "
            "weights, the precision of hyper-parameters, this project's own clip_grad_norm); the "
            "columns behind it count cases by verdict. Undecided is what roundings alone decide.",
            "两边配置相同，在每个问题上、以两种精度各跑一遍。"
            "“原因”列出造成差别的公式选择（或默认值）及用例数；“何处”指出是否只在梯度非有限、"
            "或平方超出 float32 范围时才不同，"
            "或差别只在公式之外（共享权重、超参数的精度、本项目自己的 clip_grad_norm）；"
            "其后各列按结论计数。"
            "“未定”指舍入本身就决定了结果。",
        ),
    ),
    "floor": (
        _both("Rounding floor", "舍入下限"),
        _both(
            "Relative distance of each library's parameters from the reference that describes it, "
            "over all cases that both trained; and in how many of them each is closer.",
            "各库参数与描述它的参考实现之间的相对距离（两边都训练了的用例），以及哪边更近。",
        ),
    ),
    "laws": (
        _both("Laws of tolerance", "容差的规律"),
        _both(
            "Relative to the largest magnitude that a quantity has had in its tensor so far. "
            "`most needed` is the largest share of a tolerance that an OK used up.",
            "相对于该量在其张量中出现过的最大绝对值。“最多用去”是判为 OK 时用掉容差的最大比例。",
        ),
    ),
    "kills": (
        _both("Mutants", "变异体"),
        _both(
            "Mistakes put into the reference: every other value of every choice of equation, every "
            "hyper-parameter in another precision, every option ignored. Each must be noticed.",
            "放进参考实现的错误：每个公式选择的其他取值、每个超参数的另一种精度、每个被忽略的选项。"
            "每一个都必须被发现。",
        ),
    ),
    "papers": (
        _both("Implementations and papers", "实现与论文"),
        _both(
            "Each choice of equation that a paper settles, in the implementations of optimizers "
            "that torch.optim lacks. Where one differs: the cases that show it, and the largest "
            "relative difference of a parameter that the paper's own value makes.",
            "对 torch.optim 没有的优化器：论文定下的每个公式选择在各实现中的取值。"
            "不同之处给出显示它的用例数，以及改用论文取值时参数的最大相对差。",
        ),
    ),
    "coverage": (
        _both("PyTorch's own configurations", "PyTorch 自己的配置清单"),
        _both(
            "Read from torch.testing._internal.common_optimizers when the pipeline runs.",
            "流程运行时读自 torch.testing._internal.common_optimizers。",
        ),
    ),
    "fields": (
        _both("Every field and option", "每个字段和选项"),
        _both(
            "Each field of each burn configuration and each option of each PyTorch constructor, "
            "and the cases that set it to another value than its default.",
            "burn 各配置的每个字段、PyTorch 各构造函数的每个选项，以及把它设成非默认值的用例。",
        ),
    ),
    "schedules": (
        _both("Learning-rate schedules", "学习率调度"),
        _both(
            "Rates of each update; burn and PyTorch against the reference and each other, and "
            "after their state was saved and loaded.",
            "每次更新的学习率：burn 和 PyTorch 与参考实现、彼此之间、以及存取状态之后的对照。",
        ),
    ),
    "schedulers": (
        _both("Schedulers of both sides", "两边的调度器"),
        _both(
            "Every scheduler of either side, and what it is on the other.",
            "两边的每个调度器，以及它在另一边对应什么。",
        ),
    ),
}
"""Titles and notes of the sheets of the breadth."""

COLUMNS |= {
    "optimizer": _both("optimizer", "优化器"),
    "suite": _both("suite", "用例组"),
    "set": _both("options", "选项"),
    "relation": _both("relation", "关系"),
    "because": _both("because", "原因"),
    "where": _both("where", "何处"),
    "OK": _both("OK", "OK"),
    "MISMATCH": _both("MISMATCH", "MISMATCH"),
    "impossible": _both("impossible", "不可能"),
    "undecided": _both("undecided", "未定"),
    "dtype": _both("dtype", "精度"),
    "step": _both("step", "步"),
    "cases": _both("cases", "用例数"),
    "pytorch_median": _both("PyTorch, median", "PyTorch，中位数"),
    "burn_median": _both("burn, median", "burn，中位数"),
    "pytorch_largest": _both("PyTorch, largest", "PyTorch，最大"),
    "burn_largest": _both("burn, largest", "burn，最大"),
    "pytorch_closer": _both("PyTorch closer", "PyTorch 更近"),
    "burn_closer": _both("burn closer", "burn 更近"),
    "equal": _both("equal", "相等"),
    "law": _both("law", "规律"),
    "base": _both("base", "基数"),
    "growth": _both("growth", "增长"),
    "reason": _both("reason", "理由"),
    "applied": _both("applied", "应用次数"),
    "held": _both("held", "成立次数"),
    "most_needed": _both("most needed", "最多用去"),
    "side": _both("side", "侧"),
    "kind": _both("kind", "种类"),
    "mutants": _both("mutants", "变异体"),
    "killed": _both("killed", "发现"),
    "in_float32": _both("in float32", "在 float32 里"),
    "in_float64": _both("in float64", "在 float64 里"),
    "equivalent": _both("equivalent", "等价"),
    "survived": _both("survived", "漏过"),
    "paper": _both("paper", "论文"),
    "implementation": _both("implementation", "实现"),
    "choice": _both("choice", "公式选择"),
    "in_paper": _both("in the paper", "论文里"),
    "in_library": _both("in the implementation", "实现里"),
    "tried": _both("cases tried", "试过的用例"),
    "differ": _both("cases that differ", "不同的用例"),
    "most": _both("largest difference", "最大差"),
    "shown_by": _both("shown by", "由此用例证明"),
    "desc": _both("description", "说明"),
    "kwargs": _both("options", "选项"),
    "status": _both("status", "状态"),
    "owner": _both("of", "属于"),
    "name": _both("name", "名称"),
    "default": _both("default", "默认值"),
    "case": _both("case", "用例"),
    "pair": _both("pair", "对照"),
    "explanation": _both("explanation", "说明"),
    "needed": _both("needed", "所需"),
    "largest": _both("largest", "最大"),
    "scheduler": _both("scheduler", "调度器"),
    "counterparts": _both("counterparts", "对应"),
}
