//! Problems from a file, in both element types.

use super::common::{EXAMPLES, refusal, run, trace, values};
use pitb_core::run::{parse_specs, train};
use pitb_core::trace::Trace;
use serde_json::{Value, json};

/// The largest difference of the parameters after the last step.
fn difference(a: &Trace, b: &Trace) -> f64 {
    let entries = a.entries().iter();
    let entries = entries.filter(|e| e.step == 4 && e.quantity == "param");
    let differences = entries.flat_map(|entry| {
        let other = b.find(4, "param", &entry.tensor).expect("the same tensors");
        let pairs = a.values(entry).iter().zip(b.values(other));
        pairs.map(|(a, b)| (a - b).abs()).collect::<Vec<_>>()
    });
    differences.fold(0.0, f64::max)
}

#[test]
fn every_example_trains() {
    let specs = parse_specs(EXAMPLES, "the examples").unwrap();
    assert_eq!(specs.len(), 9);
    for spec in specs {
        let run = train(&spec).unwrap();
        let name = spec.problem.unwrap();
        assert_eq!(run.error, None, "{name}");
        let given = ["prescribed", "nan"].contains(&name.as_str());
        let plain = given || ["quadratic", "rosenbrock"].contains(&name.as_str());
        let has = |step, quantity| run.trace.find(step, quantity, "").is_some();
        assert_eq!(has(1, "logits"), !plain, "{name}");
        for step in 1..=5 {
            assert_eq!(has(step, "loss"), !given, "{name}");
        }
        if !given {
            let loss = |step| values(&run.trace, step, "loss", "")[0];
            assert!(loss(5) < loss(1), "{name}");
        }
        assert_eq!(run.metadata["model"]["name"], json!(name));
    }
}

#[test]
fn double_precision_is_close_to_single_but_not_the_same() {
    for problem in ["mlp", "embedding", "conv", "quadratic", "rosenbrock"] {
        let [single, double] =
            ["float32", "float64"].map(|dtype| trace(problem, json!({"dtype": dtype})));
        let difference = difference(&single, &double);
        assert!(difference > 1e-9, "{problem}: {difference}");
        assert!(difference < 1e-4, "{problem}: {difference}");
    }
}

#[test]
fn a_double_precision_run_is_double_throughout() {
    let run = run(
        "conv",
        json!({"dtype": "float64", "clip": {"scope": "global", "max_norm": 0.1}}),
    );
    assert_eq!(run.error, None);
    assert_eq!(run.metadata["dtype"], json!("float64"));
    for entry in run.trace.entries() {
        let expected = match entry.quantity.as_str() {
            "input" if entry.tensor == "y" => "int64",
            "state.step" => "int64",
            _ => "float64",
        };
        assert_eq!(entry.dtype, expected, "{} {}", entry.quantity, entry.tensor);
    }
    // 1/3 in double precision is not a float32.
    let grad = values(&run.trace, 1, "grad", "fc.weight");
    assert!(grad.iter().any(|value| f64::from(*value as f32) != *value));
}

#[test]
fn every_optimizer_trains_in_double_precision() {
    for name in pitb_core::optimizers::names() {
        let more = json!({"dtype": "float64", "optimizer": name, "frozen": ["fc.bias"]});
        let run = run("single", more);
        // L-BFGS takes every parameter for one with a gradient.
        assert_eq!(
            run.error.is_some(),
            name == "LBFGS",
            "{name}: {:?}",
            run.error
        );
    }
}

#[test]
fn a_layer_that_is_never_called_stays_and_has_no_gradient() {
    let trace = trace("mlp", json!({}));
    for name in ["unused.weight", "unused.bias"] {
        assert!(trace.find(1, "grad", name).is_none());
        let [before, after] = [0, 4].map(|step| values(&trace, step, "param", name));
        assert_eq!(before, after);
    }
}

#[test]
fn gradients_of_a_linear_layer_are_those_of_the_formula() {
    // The gradient of mean cross entropy by the bias is the mean of softmax less one-hot.
    let trace = trace("single", json!({"dtype": "float64"}));
    let logits = values(&trace, 1, "logits", "");
    let targets = values(&trace, 0, "input", "y");
    let mut expected = [0.0; 3];
    for (row, target) in logits.chunks(3).zip(&targets) {
        let sum: f64 = row.iter().map(|logit| logit.exp()).sum();
        for (class, logit) in row.iter().enumerate() {
            let hot = f64::from(u8::from(class == *target as usize));
            expected[class] += (logit.exp() / sum - hot) / targets.len() as f64;
        }
    }
    for (found, expected) in values(&trace, 1, "grad", "fc.bias").iter().zip(expected) {
        assert!((found - expected).abs() < 1e-14, "{found} {expected}");
    }
}

#[test]
fn functions_have_their_gradients() {
    let double = json!({"dtype": "float64"});
    let quadratic = trace("quadratic", double.clone());
    let [x, grad] = [(0, "param"), (1, "grad")].map(|(step, q)| values(&quadratic, step, q, "x"));
    let [a, b] = ["A", "b"].map(|name| values(&quadratic, 0, "input", name));
    for (i, found) in grad.iter().enumerate() {
        let row = a[i * x.len()..].iter().zip(&x);
        let expected = row.map(|(a, x)| a * x).sum::<f64>() - b[i];
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }
    let rosenbrock = trace("rosenbrock", double);
    let [x, grad] = [(0, "param"), (1, "grad")].map(|(step, q)| values(&rosenbrock, step, q, "x"));
    let last = x.len() - 1;
    let expected = 200.0 * (x[last] - x[last - 1] * x[last - 1]);
    assert!((grad[last] - expected).abs() < 1e-12);
}

#[test]
fn a_tensor_without_a_prescribed_gradient_does_not_move() {
    let batch: Value = serde_json::from_str(EXAMPLES).unwrap();
    let sets = batch["problems"]["prescribed"]["gradients"]
        .as_array()
        .unwrap();
    let trace = trace("prescribed", json!({"optimizer": "Adam"}));
    for (index, set) in sets.iter().enumerate() {
        let step = index + 1;
        let [before, after] = [step - 1, step].map(|step| values(&trace, step, "param", "fc.bias"));
        let given = set.get("fc.bias").is_some();
        assert_eq!(before == after, !given, "step {step}");
        assert_eq!(trace.find(step, "grad", "fc.bias").is_some(), given);
        assert_eq!(
            trace.find(step, "state.exp_avg", "fc.bias").is_some(),
            given
        );
    }
    assert!(sets.iter().any(|set| set.get("fc.bias").is_none()));
}

#[test]
fn prescribed_gradients_begin_again_after_the_last() {
    let trace = trace("prescribed", json!({"steps": 6}));
    let [first, again] = [1, 5].map(|step| values(&trace, step, "grad", "fc.weight"));
    assert_eq!(first, again);
}

#[test]
fn prescribed_gradients_are_laid_out_as_in_pytorch() {
    let batch: Value = serde_json::from_str(EXAMPLES).unwrap();
    let given = &batch["problems"]["prescribed"]["gradients"][0]["fc.weight"];
    let trace = trace(
        "prescribed",
        json!({"optimizer": "Sgd", "lr": 1.0, "dtype": "float64"}),
    );
    let grad = values(&trace, 1, "grad", "fc.weight");
    let [before, after] = [0, 1].map(|step| values(&trace, step, "param", "fc.weight"));
    for (i, grad) in grad.iter().enumerate() {
        assert_eq!(Some(*grad), given[i].as_f64());
        assert_eq!(after[i], before[i] - grad);
    }
}

#[test]
fn numbers_that_are_none_are_traced() {
    let trace = trace("nan", json!({"optimizer": "Sgd"}));
    let weight = values(&trace, 1, "grad", "fc.weight");
    assert!(weight[7].is_nan() && weight.iter().filter(|x| x.is_nan()).count() == 1);
    let bias = values(&trace, 1, "grad", "fc.bias");
    assert_eq!(bias, [0.25, f64::INFINITY, f64::NEG_INFINITY]);
    let after = values(&trace, 1, "param", "fc.weight");
    assert!(after[7].is_nan() && after.iter().filter(|x| x.is_nan()).count() == 1);
}

/// burn has no tied weights: the parameter is one until the first update, which moves it in the
/// first place only. From then on both places train apart, and since they still share their id,
/// the gradient of the second one replaces that of the first.
#[test]
fn a_tied_weight_comes_apart_at_the_first_update() {
    let trace = trace("tied", json!({"optimizer": "Sgd", "lr": 0.1}));
    let weight = |step, name: &str| values(&trace, step, "param", name);
    assert_eq!(weight(0, "fc1.weight"), weight(0, "fc2.weight"));
    for step in 1..=4 {
        assert_ne!(weight(step, "fc1.weight"), weight(step - 1, "fc1.weight"));
        assert_eq!(weight(step, "fc2.weight"), weight(0, "fc2.weight"));
        assert!(trace.find(step, "grad", "fc2.weight").is_none());
    }
    // What the gradient by the second place alone is, at the parameters of step 2: that of its
    // bias, times the hidden units. A unit of the hidden layer that is 0 makes a column of zeros.
    let grad = values(&trace, 2, "grad", "fc1.weight");
    let bias = values(&trace, 2, "grad", "fc2.bias");
    let columns = bias.len();
    let hidden = hidden(&trace, 1);
    for column in 0..columns {
        if hidden.iter().all(|row| row[column] == 0.0) {
            assert!((0..columns).all(|row| grad[row * columns + column] == 0.0));
        }
    }
    let logits = values(&trace, 2, "logits", "");
    let targets = values(&trace, 0, "input", "y");
    for out in 0..columns {
        for unit in 0..columns {
            let rows = logits.chunks(columns).zip(&targets).zip(&hidden);
            let expected = rows.map(|((row, target), hidden)| {
                let sum: f64 = row.iter().map(|logit| logit.exp()).sum();
                let hot = f64::from(u8::from(out == *target as usize));
                (row[out].exp() / sum - hot) / targets.len() as f64 * hidden[unit]
            });
            let (found, expected) = (grad[out * columns + unit], expected.sum::<f64>());
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }
}

/// The hidden units of the tied model with the parameters after `step`, a row for each input row.
fn hidden(trace: &Trace, step: usize) -> Vec<Vec<f64>> {
    let x = values(trace, 0, "input", "x");
    let weight = values(trace, step, "param", "fc1.weight");
    let bias = values(trace, step, "param", "fc1.bias");
    let size = bias.len();
    let unit = |row: &[f64], unit: usize| {
        let weights = weight[unit * size..].iter().zip(row);
        (weights.map(|(w, x)| w * x).sum::<f64>() + bias[unit]).max(0.0)
    };
    let rows = x.chunks(size);
    rows.map(|row| (0..size).map(|u| unit(row, u)).collect())
        .collect()
}

/// The optimizer asks for a gradient by the id, which both places share, not whether the place is
/// frozen.
#[test]
fn a_frozen_place_of_a_tied_weight_moves_by_the_gradient_of_the_other() {
    for (frozen, moves) in [("fc1.weight", "fc1.weight"), ("fc2.weight", "fc1.weight")] {
        let trace = trace("tied", json!({"optimizer": "Sgd", "frozen": [frozen]}));
        for name in ["fc1.weight", "fc2.weight"] {
            let [before, after] = [0, 4].map(|step| values(&trace, step, "param", name));
            assert_eq!(
                before != after,
                name == moves,
                "{name} with {frozen} frozen"
            );
        }
    }
}

#[test]
fn the_norm_of_a_tied_weight_counts_once() {
    let clip = json!({"scope": "global", "max_norm": 0.01});
    let trace = trace("tied", json!({"clip": clip, "dtype": "float64"}));
    let entries = trace.entries().iter();
    let grads = entries.filter(|e| e.step == 1 && e.quantity == "clipped_grad");
    let squares = grads.flat_map(|entry| trace.values(entry)).map(|x| x * x);
    assert!((squares.sum::<f64>().sqrt() - 0.01).abs() < 1e-6);
}

#[test]
fn wrong_problems_are_refused_by_name() {
    let batch: Value = serde_json::from_str(EXAMPLES).unwrap();
    let refused = |edit: &dyn Fn(&mut Value)| {
        let mut batch = batch.clone();
        batch["runs"] = json!([{"id": "burn/a", "problem": "single", "optimizer": "Sgd", "lr": 0.1, "steps": 1}]);
        edit(&mut batch);
        let specs = parse_specs(&batch.to_string(), "the examples");
        let refused = specs.and_then(|specs| train(&specs[0]).map(|_| ()));
        format!("{:#}", refused.expect_err("refused"))
    };
    type Case<'a> = (&'a dyn Fn(&mut Value), &'a str);
    let cases: [Case; 18] = [
        (
            &|b| b["runs"][0]["problem"] = json!("singel"),
            "unknown problem \"singel\"; the nearest is \"single\"",
        ),
        (
            &|b| b["problems"]["single"]["model"] = json!("singel"),
            "unknown variant \"singel\"; the nearest is \"single\"",
        ),
        (
            &|b| b["problems"]["single"]["inputz"] = json!({}),
            "unknown field \"inputz\"; the nearest is \"inputs\"",
        ),
        (
            &|b| b["problem"] = json!({}),
            "unknown field \"problem\"; the nearest is \"problems\"",
        ),
        (
            &|b| b["problems"]["single"]["parameters"][0]["name"] = json!("fc.wieght"),
            "problem single: unknown parameter \"fc.wieght\"; the nearest is \"fc.weight\"",
        ),
        (
            &|b| b["problems"]["single"]["parameters"][1]["name"] = json!("fc.weight"),
            "parameter \"fc.weight\" is given twice",
        ),
        (
            &|b| {
                b["problems"]["single"]["parameters"]
                    .as_array_mut()
                    .unwrap()
                    .pop();
            },
            "parameter \"fc.bias\" is missing",
        ),
        (
            &|b| b["problems"]["single"]["parameters"][0]["shape"] = json!([2, 5]),
            "of shape [2, 5] needs 10 values, not 15",
        ),
        (
            // The product of both is 0 where it is cut off at 64 bits.
            &|b| {
                let parameter = &mut b["problems"]["single"]["parameters"][0];
                parameter["shape"] = json!([1_u64 << 32, 1_u64 << 32]);
                parameter["values"] = json!([]);
            },
            "of shape [4294967296, 4294967296] has more values than a computer can count",
        ),
        (
            &|b| b["problems"]["single"]["parameters"][0]["shape"] = json!([1_u64 << 40, 3]),
            "of shape [1099511627776, 3] needs 3298534883328 values, not 15",
        ),
        (
            &|b| {
                let parameter = &mut b["problems"]["single"]["parameters"][0];
                parameter["shape"] = json!([1_u64 << 40, 0]);
                parameter["values"] = json!([]);
            },
            "of shape [1099511627776, 0] has no values",
        ),
        (
            &|b| b["runs"][0]["accumulate"] = json!(1_u64 << 40),
            "\"accumulate\" is 1099511627776, but ",
        ),
        (
            &|b| b["problems"]["single"]["parameters"][0]["shape"] = json!([5, 3]),
            "\"fc.bias\" has 3 where outputs of its layer are 5",
        ),
        (
            &|b| b["problems"]["single"]["parameters"][0]["layout"] = json!("plain"),
            "wrong layout",
        ),
        (
            &|b| b["problems"]["single"]["parameters"][1]["values"][0] = json!(0.1),
            "0.1 is not a float32 number",
        ),
        (
            &|b| b["problems"]["single"]["inputs"]["y"]["values"][0] = json!(3),
            "input \"y\" holds 3, not a whole number below 3",
        ),
        (
            &|b| b["problems"]["single"]["gradients"] = json!([{}]),
            "only a prescribed model takes them",
        ),
        (
            &|b| b["problems"]["single"]["inputs"]["x"]["dtype"] = json!("int64"),
            "input \"x\" is not of the dtype",
        ),
    ];
    for (edit, expected) in cases {
        let message = refused(edit);
        assert!(message.contains(expected), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
    let message = refusal("quadratic", json!({"initial_state": "float32"}));
    assert!(message.contains("\"initial_state\""), "{message}");
}
