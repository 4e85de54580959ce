//! `clip_grad_norm` against what PyTorch's `torch.nn.utils.clip_grad_norm_` does.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::optim::GradientsParams;
use pitb_core::a1::{self, Arithmetic, Mlp, Problem};
use pitb_core::clip::clip_grad_norm;
use pitb_core::layout::{self, Named};
use pitb_core::problem::Dtype;
use serde::Deserialize;

/// Half a dozen ulp of f32: PyTorch computes norm and coefficient in f32, we in f64.
const RELATIVE: f64 = 6e-7;

/// A number, or the text of one that JSON lacks.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Number {
    Finite(f64),
    Text(String),
}

impl Number {
    fn value(&self) -> f64 {
        match self {
            Number::Finite(value) => *value,
            Number::Text(text) => text.parse().expect("nan, inf or -inf"),
        }
    }
}

#[derive(Deserialize)]
struct Case {
    name: String,
    max_norm: f64,
    gradients: BTreeMap<String, Vec<Number>>,
    total_norm: Number,
    clipped: BTreeMap<String, Vec<Number>>,
}

/// The gradients of a case, given in PyTorch's layout, for the parameters they name.
fn register(model: &Mlp, gradients: &BTreeMap<String, Vec<Number>>) -> GradientsParams {
    let gradients = gradients.iter().map(|(name, numbers)| {
        let values = numbers.iter().map(Number::value);
        (name.clone(), values.collect())
    });
    layout::register(model, &gradients.collect(), Dtype::Float32)
}

fn close(found: f64, expected: f64) -> bool {
    if expected.is_nan() {
        return found.is_nan();
    }
    found == expected || (found - expected).abs() <= RELATIVE * expected.abs()
}

fn check(name: &str, found: &[Named], expected: &BTreeMap<String, Vec<Number>>) {
    assert_eq!(found.len(), expected.len(), "{name}: number of gradients");
    for tensor in found {
        let expected = expected[&tensor.name].iter().map(Number::value);
        for (i, (found, expected)) in tensor.values.iter().zip(expected).enumerate() {
            let place = format!("{name}: {}[{i}]", tensor.name);
            assert!(
                close(*found, expected),
                "{place}: {found} is not {expected}"
            );
        }
    }
}

#[test]
fn does_what_pytorch_does() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("clip_cases.json")).unwrap();
    assert!(cases.len() >= 9);
    for case in cases {
        let model = a1::model(&a1::device(), Arithmetic::Float64);
        let mut grads = register(&model, &case.gradients);
        let total = clip_grad_norm(&model, &mut grads, case.max_norm);
        let expected = case.total_norm.value();
        assert!(
            close(total, expected),
            "{}: total {total} is not {expected}",
            case.name
        );
        check(
            &case.name,
            &layout::gradients(&model, &grads),
            &case.clipped,
        );
    }
}

fn backward(model: &Mlp) -> GradientsParams {
    let problem = Problem::new(&a1::device(), Arithmetic::Float64);
    let (_, loss) = problem.forward(model);
    GradientsParams::from_grads(loss.backward(), model)
}

fn norm(tensors: &[Named]) -> f64 {
    let squares = tensors.iter().flat_map(|tensor| &tensor.values);
    squares.map(|value| value * value).sum::<f64>().sqrt()
}

#[test]
fn frozen_parameters_do_not_count_and_stay() {
    let mut model = a1::model(&a1::device(), Arithmetic::Float64);
    model.fc1 = model.fc1.no_grad();
    let mut grads = backward(&model);
    let before = layout::gradients(&model, &grads);
    let names = before.iter().map(|tensor| tensor.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["fc2.weight", "fc2.bias"]);
    let total = clip_grad_norm(&model, &mut grads, 0.1);
    assert!(close(total, norm(&before)));
    let after = norm(&layout::gradients(&model, &grads));
    assert!((after - 0.1).abs() < 1e-6, "{after}");
}

#[test]
fn a_cap_above_the_norm_changes_no_bit() {
    let model = a1::model(&a1::device(), Arithmetic::Float64);
    let mut grads = backward(&model);
    let before = layout::gradients(&model, &grads);
    clip_grad_norm(&model, &mut grads, 1e3);
    assert_eq!(layout::gradients(&model, &grads), before);
}

#[test]
fn squares_do_not_overflow() {
    let model = a1::model(&a1::device(), Arithmetic::Float64);
    let values = vec![Number::Finite(1e30); 3];
    let gradients = BTreeMap::from([("fc2.bias".to_string(), values)]);
    let mut grads = register(&model, &gradients);
    let total = clip_grad_norm(&model, &mut grads, 1.0);
    assert!(close(total, f64::from(1e30f32) * 3f64.sqrt()), "{total}");
    let after = norm(&layout::gradients(&model, &grads));
    assert!((after - 1.0).abs() < 1e-6, "{after}");
}
