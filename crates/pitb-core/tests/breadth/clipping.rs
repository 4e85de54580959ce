//! Clipping by the training loop, and the ways to give burn its own.

use pitb_core::trace::Trace;
use serde_json::{Value, json};

use super::common::{parameters, refusal, run, trace, values};

const NAMES: [&str; 2] = ["fc.weight", "fc.bias"];

fn clipped(clip: Value) -> Trace {
    trace(
        "single",
        json!({"optimizer": "Sgd", "dtype": "float64", "clip": clip}),
    )
}

fn norm(values: &[f64], p: f64) -> f64 {
    let magnitudes = values.iter().map(|value| value.abs());
    match p.is_infinite() {
        true => magnitudes.fold(0.0, f64::max),
        false => magnitudes
            .map(|value| value.powf(p))
            .sum::<f64>()
            .powf(1.0 / p),
    }
}

/// What the norm of all gradients is, from the norms of each.
fn total(trace: &Trace, p: f64) -> f64 {
    let norms = NAMES.map(|name| norm(&values(trace, 1, "grad", name), p));
    norm(&norms, p)
}

#[test]
fn any_norm_clips_all_gradients_by_one_coefficient() {
    for (given, p) in [
        (json!(1), 1.0),
        (json!(2), 2.0),
        (json!(3.5), 3.5),
        (json!("inf"), f64::INFINITY),
    ] {
        let trace = clipped(json!({"scope": "global", "max_norm": 0.01, "norm_type": given}));
        let total = total(&trace, p);
        let found = values(&trace, 1, "grad_norm", "")[0];
        assert!((found - total).abs() < 1e-12, "{p}: {found} {total}");
        for name in NAMES {
            let grad = values(&trace, 1, "grad", name);
            let clipped = values(&trace, 1, "clipped_grad", name);
            for (grad, clipped) in grad.iter().zip(clipped) {
                let expected = grad * 0.01 / (total + 1e-6);
                assert!(
                    (clipped - expected).abs() < 1e-12,
                    "{p}: {clipped} {expected}"
                );
            }
        }
    }
}

#[test]
fn each_parameter_can_be_clipped_by_its_own_norm() {
    let trace = clipped(json!({"scope": "per-parameter", "max_norm": 0.2}));
    assert!(trace.find(1, "grad_norm", "").is_none());
    for name in NAMES {
        let grad = values(&trace, 1, "grad", name);
        let norm = norm(&grad, 2.0);
        assert!((values(&trace, 1, "grad_norm", name)[0] - norm).abs() < 1e-12);
        let coefficient = (0.2 / (norm + 1e-6)).min(1.0);
        let clipped = values(&trace, 1, "clipped_grad", name);
        for (grad, clipped) in grad.iter().zip(clipped) {
            assert!((clipped - grad * coefficient).abs() < 1e-12);
        }
    }
}

#[test]
fn each_element_can_be_clipped_by_its_value() {
    let trace = clipped(json!({"scope": "value", "clip_value": 0.05}));
    assert!(trace.find(1, "grad_norm", "").is_none());
    for name in NAMES {
        let grad = values(&trace, 1, "grad", name);
        let clipped = values(&trace, 1, "clipped_grad", name);
        let expected = grad.iter().map(|grad| grad.clamp(-0.05, 0.05));
        assert_eq!(clipped, expected.collect::<Vec<_>>());
        assert_ne!(clipped, grad);
    }
}

#[test]
fn what_is_no_number_passes_through_as_in_pytorch() {
    let with = |clip: Value| run("nan", json!({"optimizer": "Sgd", "steps": 1, "clip": clip}));
    let by_value = with(json!({"scope": "value", "clip_value": 0.1})).trace;
    let weight = values(&by_value, 1, "clipped_grad", "fc.weight");
    assert!(weight[7].is_nan() && weight[6] == f64::from(0.1f32));
    let bias = values(&by_value, 1, "clipped_grad", "fc.bias");
    assert_eq!(bias, [0.1, 0.1, -0.1].map(|value| f64::from(value as f32)));
    for norm_type in [json!(2), json!("inf")] {
        let clip = json!({"scope": "global", "max_norm": 1, "norm_type": norm_type});
        let global = with(clip).trace;
        assert!(values(&global, 1, "grad_norm", "")[0].is_nan());
        let bias = values(&global, 1, "clipped_grad", "fc.bias");
        assert!(bias.iter().all(|value| value.is_nan()));
    }
    let ended = with(json!({"scope": "global", "max_norm": 1, "error_if_nonfinite": true}));
    assert!(
        ended
            .error
            .unwrap()
            .contains("total norm of the gradients is NaN")
    );
    assert!(ended.trace.find(1, "param", "fc.bias").is_none());
}

#[test]
fn wrong_clipping_is_refused() {
    let cases = [
        (json!({"scope": "global"}), "max_norm"),
        (json!({"scope": "globall", "max_norm": 1}), "globall"),
        (
            json!({"scope": "global", "max_norm": -1}),
            "max_norm of \"clip\" is -1",
        ),
        (
            json!({"scope": "global", "max_norm": 1, "norm_type": 0}),
            "norm_type is 0",
        ),
        (
            json!({"scope": "global", "max_norm": 1, "clip_value": 1}),
            "clip_value",
        ),
        (
            json!({"scope": "value", "clip_value": 1, "norm_type": 2}),
            "norm_type",
        ),
        (
            json!({"scope": "per-parameter", "max_norm": 1, "error_if_nonfinite": true}),
            "error_if_nonfinite",
        ),
    ];
    for (clip, expected) in cases {
        let message = refusal("single", json!({"clip": clip}));
        assert!(message.contains(expected), "{message}");
    }
}

fn by(optimizer: &str, way: &str) -> Trace {
    let field = match optimizer {
        "Sgd" => "gradient_clipping",
        _ => "grad_clipping",
    };
    let options = json!({field: {"Norm": 0.01}});
    let more = json!({"optimizer": optimizer, "options": options, "clipping_by": way});
    trace("single", more)
}

#[test]
fn three_ways_to_give_burn_its_clipping_are_one() {
    for optimizer in ["Sgd", "AdamW"] {
        let builder = by(optimizer, "builder");
        for way in ["config", "group"] {
            let other = by(optimizer, way);
            assert_eq!(
                parameters(&builder, 4),
                parameters(&other, 4),
                "{optimizer} {way}"
            );
        }
    }
}

#[test]
fn nothing_is_observed_around_burns_own_configuration() {
    let trace = by("AdamW", "config");
    let entries = trace.entries().iter();
    let found =
        entries.filter(|e| e.quantity.starts_with("state.") || e.quantity == "clipped_grad");
    assert_eq!(found.count(), 0);
    assert_eq!(values(&trace, 1, "lr", ""), [0.01]);
}

/// burn keeps the clipping of a parameter beside its state, from its first update on, also where
/// the state is empty: clipping that is given later holds for no parameter that was updated.
#[test]
fn clipping_given_late_is_lost() {
    for optimizer in ["Sgd", "AdamW"] {
        let plain = trace("single", json!({"optimizer": optimizer}));
        let late = by(optimizer, "late");
        assert_eq!(parameters(&late, 4), parameters(&plain, 4), "{optimizer}");
        for name in NAMES {
            let [grad, clipped] = ["grad", "clipped_grad"].map(|q| values(&late, 2, q, name));
            assert_eq!(grad, clipped);
        }
    }
}

#[test]
fn a_group_has_its_own_clipping() {
    let group =
        json!({"parameters": ["fc.bias"], "options": {"gradient_clipping": {"Norm": 0.01}}});
    let trace = trace("single", json!({"optimizer": "Sgd", "groups": [group]}));
    let [weight, bias] = NAMES
        .map(|name| values(&trace, 1, "grad", name) == values(&trace, 1, "clipped_grad", name));
    assert!(weight && !bias);
}
