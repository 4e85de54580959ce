"""Rust that generated code holds where burn has no counterpart: clipping by the training loop."""

from string import Template

_EDIT = """
struct $editor<'a> {
    grads: &'a mut GradientsParams,
    $field: f64,
    done: Vec<ParamId>,
}

impl ModuleVisitor for $editor<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.done.contains(&param.id) {
            return;
        }
        self.done.push(param.id);
        if let Some(grad) = self.grads.remove::<D>(param.id) {
            $edit
            self.grads.register(param.id, edited);
        }
    }
}
"""
_NORM = """\
/// Scales all gradients of `model` alike so that their $what is at most `max_norm`, as
/// `torch.nn.utils.clip_grad_norm_` does. Returns the norm that they had.
///
/// burn 's own clipping would clip each tensor by itself.
pub fn clip_grad_norm<M: Module>(model: &M, grads: &mut GradientsParams, max_norm: f64) -> f64 {
    let mut norms = Norms {
        grads,
        joined: 0.0,
        seen: Vec::new(),
    };
    model.visit(&mut norms);
    let total = $root;
$check    let coefficient = max_norm / (total + 1e-6);
    // Not `coefficient < 1.0`, which would leave the gradients alone where it is NaN.
    let keep = coefficient >= 1.0;
    if !keep {
        model.visit(&mut Scale {
            grads,
            coefficient,
            done: Vec::new(),
        });
    }
    total
}

struct Norms<'a> {
    grads: &'a GradientsParams,
    joined: f64,
    seen: Vec<ParamId>,
}

impl ModuleVisitor for Norms<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        // A parameter that stands in two places counts once.
        if self.seen.contains(&param.id) {
            return;
        }
        self.seen.push(param.id);
        if let Some(grad) = self.grads.get::<D>(param.id) {
            $join
        }
    }
}
"""
_VALUE = """\
/// Keeps each element of the gradients of `model` within `clip_value`, as
/// `torch.nn.utils.clip_grad_value_` does.
pub fn clip_grad_value<M: Module>(model: &M, grads: &mut GradientsParams, clip_value: f64) {
    model.visit(&mut Bound {
        grads,
        bound: clip_value,
        done: Vec::new(),
    });
}
"""
_BOUND = """\
// By masks, which leave a NaN what it is.
            let above = grad.clone().greater_scalar(self.bound);
            let below = grad.clone().lower_scalar(-self.bound);
            let edited = grad
                .mask_fill(above, self.bound)
                .mask_fill(below, -self.bound);"""


def clip_norm(norm_type: float, error_if_nonfinite: bool) -> str:
    """The function ``clip_grad_norm``.

    Args:
        norm_type: The p of the p-norm, greater than 0; infinity for the largest magnitude.
        error_if_nonfinite: Whether it panics at a norm that is NaN or infinite.
    """
    if norm_type == 2:
        root, what = "norms.joined.sqrt()", "norm"
        join = "self.joined += grad.square().sum().into_scalar::<f64>();"
    elif norm_type == float("inf"):
        root, what = "norms.joined", "largest magnitude"
        join = """\
for value in grad.into_data().iter::<f64>() {
                // `f64::max` would lose a NaN.
                if value.is_nan() || value.abs() > self.joined {
                    self.joined = value.abs();
                }
            }"""
    else:
        root, what = f"norms.joined.powf(1.0 / {norm_type!r})", f"{norm_type:g}-norm"
        join = f"""\
for value in grad.into_data().iter::<f64>() {{
                self.joined += value.abs().powf({norm_type!r});
            }}"""
    check = ""
    if error_if_nonfinite:
        check = """\
    assert!(
        total.is_finite(),
        "the total norm of the gradients is {total}, which cannot be clipped"
    );
"""
    text = Template(_NORM).substitute(what=what, root=root, check=check, join=join)
    edit = "let edited = grad.mul_scalar(self.coefficient);"
    return text.replace("burn 's", "burn's") + Template(_EDIT).substitute(
        editor="Scale", field="coefficient", edit=edit
    )


def clip_value() -> str:
    """The function ``clip_grad_value``."""
    return _VALUE + Template(_EDIT).substitute(editor="Bound", field="bound", edit=_BOUND)
