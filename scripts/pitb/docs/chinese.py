"""What Chinese pages say of problems and of choices of equation, whose own texts are English."""

from pitb.errors import PitbError

PROBLEMS = {
    "a1": "页面用的小问题",
    "square": "两个方阵层",
    "wide": "第一层输入多于输出",
    "tall": "第一层输出多于输入",
    "unused": "有一层在前向计算里从不调用",
    "single": "一个线性层",
    "embedding": "一个嵌入，其中两行的梯度恰好全是零",
    "conv": "核为 2 x 3 的卷积",
    "tied": "一个权重用在两层里",
    "quadratic": "二次函数",
    "rosenbrock": "四维的 Rosenbrock 山谷",
    "gap": "两端之间为 NaN 的 loss",
    "plateau": "一段陡坡和一个更高的平台",
    "gradients": "给定的梯度，大小约为 1",
    "constant": "每一步都给定同样的梯度",
    "sparse": "给定的梯度，三分之二恰好是零",
    "absent": "有一个张量三步里有两步没有梯度",
    "zero": "给定的梯度恰好全是零",
    "scale-1e-30": "梯度的平方下溢",
    "scale-1e-8": "给定的梯度约为 1e-8",
    "scale-1e-4": "给定的梯度约为 1e-4",
    "scale-1e4": "给定的梯度约为 1e4",
    "scale-1e30": "梯度的平方上溢",
    "nan": "第 4 步的每个梯度里有一个 NaN",
    "inf": "第 4 步的每个梯度里有一个无穷",
}

CHOICES = {
    "interpolation": "平均值怎样移动：用 PyTorch 的 `lerp`，或用加权和。除舍入和无穷之外相同；"
    "遇到无穷，`lerp` 得出 NaN。",
    "amsgrad_nan": "取最大值时怎样对待 NaN。",
    "nan_in_bound": "Adafactor 的更新和学习率的界里出现 NaN 时怎样："
    "Python 的 `max(1.0, nan)` 是 1.0。",
    "own_clip_denominator": "优化器自带的裁剪在分母上加什么：burn 加最小的正规数。",
    "own_clip_limit": "优化器自带的裁剪以什么精度保存上限。",
    "norm_precision": "训练循环里的裁剪是否以梯度本身的精度累加范数，那样平方可能上溢。"
    "burn 侧指本项目的 `clip_grad_norm`，因为 burn 没有全局范数。",
    "late_clipping": "第一次更新之后才设的裁剪算不算数："
    "burn 把每个参数的裁剪和状态存在一起，不再看第二次。",
    "tied": "有两个名字的同一个张量仍是一个，还是只更新第一个名字的（burn）。",
    "resumed_dtype": "载入的状态是什么精度：参数的，还是设备默认的 float32；"
    "若是后者，float64 的运行接不下去（burn）。",
    "flat_gradient": "没有梯度的参数给 L-BFGS 的展平梯度添什么：零，还是什么也不添，"
    "于是和参数对不上（burn）。",
    "float32": "超参数，以及由它算出的幂和 1 减去它的差，都以 float32 保存和计算。",
    "folded": "两个偏差修正折成一个因子，也折进 ε（burn 的 Adam）；除这些因子的舍入之外相同。",
    "decay_where": "谨慎衰减略过一阶矩符号相反的元素（burn 的 AdamW）。",
    "center_product": "均值的平方在减去之前是否先舍入：PyTorch 的 `addcmul` 在处理器的内核支持时"
    "（AVX2 及更宽的，后备内核不支持）把两步合成一步，于是超出 float32 范围的平方不会变成无穷。",
    "factored_epsilon": "Adafactor 的 ε1 是下界（PyTorch），还是加在平方上（论文）。",
    "relative_step": "Adafactor 的学习率是否以 1 / sqrt(t) 为界。",
    "parameter_scale": "Adafactor 的学习率是否按参数的均方根缩放。",
    "momentum": "缓冲把梯度相加，还是以 1 - momentum 的权重取平均（PyTorch 的 Muon）。",
    "newton_schulz": "Muon 迭代的精度；PyTorch 无论精度如何都用 bfloat16。",
    "fan": "Muon 调整学习率时取哪两个轴：按 PyTorch 的布局，还是按 burn 存放矩阵的样子"
    "（线性层的是转置的）。",
    "lbfgs.line_search_tolerance": "区间的宽度乘以最大的 |d| 小于多少时，线搜索放弃这个区间："
    "总是 1e-9，还是由选项决定。",
    "lbfgs.last_evaluation": "没有线搜索时，最后一次迭代到达的点是否求值。只有求值次数显得出来。",
    "lbfgs.prev_loss": "保存最后一次迭代的哪个 loss。两边都不读它。",
    "lbfgs.nan_in_min_max": "线搜索里 NaN 和一个数谁算小、谁算大："
    "Python 的 min 和 max 先遇到哪个就是哪个，"
    "还是那个数。loss 为无穷之后、插值步长成为 inf/inf 时才要紧。",
    "lbfgs.nan_loss": "缩放阶段问 loss 太高还是够低时，NaN 算什么。",
    "lbfgs.negative_max_ls": "`max_eval=0` 在第一次求值之后给线搜索留下多少：-1（PyTorch 因此抛出 "
    "UnboundLocalError），还是无符号运算得出的 2^64 - 1。",
    "trust_ratio": "LAMB 的信任比在开关打开时用，或（timm）有权重衰减时也用，或如论文那样总是用。",
    "step_counter": "偏差修正的步数由什么计：参数没有梯度的步也计入，"
    "因为计数器属于参数组（timm）。",
}


def problem(name: str) -> str:
    """What a problem is.

    Raises:
        PitbError: There is no Chinese text for it.
    """
    return _of(PROBLEMS, name)


def choice(name: str) -> str:
    """What a choice of equation is about.

    Raises:
        PitbError: There is no Chinese text for it.
    """
    return _of(CHOICES, name)


def _of(texts: dict[str, str], name: str) -> str:
    if name not in texts:
        raise PitbError(f"{name!r} has no Chinese text; add one to pitb/docs/chinese.py")
    return texts[name]
