//! Frozen parameters, groups, accumulation, and runs that nothing observes.

use serde_json::{Value, json};

use super::common::{parameters, refusal, run, trace, values};

#[test]
fn observed_and_unobserved_runs_end_in_the_same_bits() {
    for name in pitb_core::optimizers::names() {
        // Muon takes matrices only.
        let (problem, frozen) = match name {
            "Muon" => ("single", json!(["fc.bias"])),
            _ => ("conv", json!([])),
        };
        let more = |observe| json!({"optimizer": name, "frozen": frozen, "observe": observe});
        let observed = trace(problem, more(true));
        let bare = trace(problem, more(false));
        assert_eq!(parameters(&observed, 4), parameters(&bare, 4), "{name}");
    }
}

#[test]
fn an_unobserved_run_holds_its_ends_only() {
    let trace = trace(
        "mlp",
        json!({"observe": false, "clip": {"scope": "global", "max_norm": 1}}),
    );
    let entries = trace.entries().iter();
    let found = entries.map(|entry| (entry.step, entry.quantity.as_str()));
    let found = found.collect::<std::collections::BTreeSet<_>>();
    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        [(0, "param"), (4, "param")]
    );
}

#[test]
fn a_frozen_parameter_stays_and_has_neither_gradient_nor_state() {
    for problem in ["single", "prescribed"] {
        let trace = trace(
            problem,
            json!({"frozen": ["fc.weight"], "options": {"weight_decay": 0.1}}),
        );
        let weight = |step| values(&trace, step, "param", "fc.weight");
        let bias = |step| values(&trace, step, "param", "fc.bias");
        assert_eq!(weight(0), weight(4), "{problem}");
        assert_ne!(bias(0), bias(4), "{problem}");
        for quantity in ["grad", "state.exp_avg"] {
            assert!(trace.find(1, quantity, "fc.weight").is_none());
            assert!(trace.find(1, quantity, "fc.bias").is_some());
        }
    }
}

#[test]
fn a_run_with_nothing_to_train_ends_early_or_stays() {
    let everything = json!({"frozen": ["fc.weight", "fc.bias"]});
    let prescribed = trace("prescribed", everything.clone());
    assert_eq!(parameters(&prescribed, 0), parameters(&prescribed, 4));
    let found = run("single", everything);
    assert!(found.error.is_some());
}

/// L-BFGS flattens all parameters, but only the gradients that exist.
#[test]
fn lbfgs_ends_early_where_a_parameter_has_no_gradient() {
    for (problem, frozen) in [("single", json!(["fc.weight"])), ("mlp", json!([]))] {
        let run = run(problem, json!({"optimizer": "LBFGS", "frozen": frozen}));
        assert!(run.error.unwrap().contains("incompatible shapes"));
    }
}

#[test]
fn the_state_of_lbfgs_is_recorded_under_pytorch_names() {
    let trace = trace(
        "quadratic",
        json!({"optimizer": "LBFGS", "options": {"max_iter": 2, "max_eval": 9}}),
    );
    let grad = values(&trace, 1, "grad", "x");
    for state in ["d", "prev_flat_grad", "old_dirs", "old_stps"] {
        let found = values(&trace, 1, &format!("state.{state}"), "x");
        assert_eq!(found.len(), grad.len(), "{state}");
    }
    assert_eq!(values(&trace, 1, "state.n_iter", ""), [2.0]);
    assert_eq!(values(&trace, 1, "state.t", ""), [0.01]);
    assert_eq!(values(&trace, 1, "state.old_dirs.len", ""), [1.0]);
    // burn also evaluates where its last iteration has led.
    assert_eq!(values(&trace, 1, "state.evaluations", ""), [3.0]);
}

#[test]
fn parts_of_the_batch_add_up_to_the_whole() {
    for problem in ["mlp", "embedding", "conv"] {
        let more = |parts| json!({"accumulate": parts, "dtype": "float64", "steps": 2});
        let [whole, parts] = [1, 2].map(|parts| trace(problem, more(parts)));
        for entry in whole.entries() {
            let (step, quantity) = (entry.step as usize, entry.quantity.as_str());
            let found = values(&parts, step, quantity, &entry.tensor);
            for (found, expected) in found.iter().zip(whole.values(entry)) {
                let close = (found - expected).abs() <= 1e-8;
                assert!(close, "{problem}: {step} {quantity} {}", entry.tensor);
            }
        }
        assert_eq!(whole.entries().len(), parts.entries().len());
    }
    for (optimizer, options) in [("Sgd", json!({})), ("LBFGS", json!({"max_iter": 1}))] {
        let more = |parts| json!({"accumulate": parts, "optimizer": optimizer, "options": options, "steps": 1});
        let [whole, parts] = [1, 4].map(|parts| trace("tied", more(parts)));
        let [a, b] = [&whole, &parts].map(|trace| values(trace, 1, "param", "fc1.bias"));
        for (a, b) in a.iter().zip(&b) {
            assert!((a - b).abs() < 1e-6, "{optimizer}: {a} {b}");
        }
    }
}

fn groups(groups: Value) -> Value {
    json!({"optimizer": "Sgd", "lr": 0.1, "groups": groups})
}

#[test]
fn a_group_has_its_own_optimizer_and_rate() {
    let group = json!({"parameters": ["fc2.weight", "fc2.bias"], "optimizer": "AdamW", "options": {"weight_decay": 0.0}, "lr": 0.25});
    let grouped = trace("mlp", groups(json!([group])));
    let plain = trace("mlp", groups(json!([])));
    let first = |trace, name| values(trace, 1, "param", name);
    assert_eq!(first(&grouped, "fc1.weight"), first(&plain, "fc1.weight"));
    let before = values(&grouped, 0, "param", "fc2.bias");
    let grad = values(&grouped, 1, "grad", "fc2.bias");
    for (i, after) in first(&grouped, "fc2.bias").iter().enumerate() {
        // The first step of Adam is its rate.
        let expected = before[i] - 0.25 * grad[i].signum();
        assert!((after - expected).abs() < 1e-3, "{after} {expected}");
    }
    assert!(grouped.find(1, "state.exp_avg", "fc2.bias").is_some());
    assert!(grouped.find(1, "state.exp_avg", "fc1.bias").is_none());
    let rate = |name| values(&grouped, 2, "lr", name);
    assert_eq!(
        [rate(""), rate("fc1.weight"), rate("fc2.weight")],
        [[0.1], [0.1], [0.25]]
    );
}

#[test]
fn the_last_group_of_a_parameter_has_it() {
    let group = |lr: f64| json!({"parameters": ["fc.bias"], "lr": lr});
    let both = trace("single", groups(json!([group(0.5), group(0.25)])));
    let last = trace("single", groups(json!([group(0.25)])));
    assert_eq!(parameters(&both, 4), parameters(&last, 4));
    assert_eq!(values(&both, 1, "lr", "fc.bias"), [0.25]);
}

#[test]
fn a_group_without_a_rate_follows_the_scheduler() {
    let scheduler = json!({"Step": {"initial_lr": 0.1, "step_size": 1, "gamma": 0.5}});
    let groups = json!([{"parameters": ["fc.weight"], "optimizer": "Sgd"}, {"parameters": ["fc.bias"], "lr": 0.3}]);
    let more = json!({"optimizer": "Sgd", "scheduler": scheduler, "groups": groups});
    let trace = trace("single", more);
    let rate = |step, name| values(&trace, step, "lr", name);
    assert_eq!(
        [rate(1, "fc.weight"), rate(2, "fc.weight")],
        [[0.1], [0.05]]
    );
    assert_eq!([rate(1, "fc.bias"), rate(2, "fc.bias")], [[0.3], [0.3]]);
}

#[test]
fn the_metadata_names_what_was_asked_for() {
    let more = groups(json!([{"parameters": ["fc.bias"], "lr": 0.3}]));
    let configuration = &run("single", more).metadata["configuration"];
    assert_eq!(configuration["problem"], json!("single"));
    let group = &configuration["groups"][0];
    assert_eq!(group["optimizer"], json!("Sgd"));
    assert!(group["options"].get("momentum").is_some());
    assert!(configuration.get("frozen").is_none());
}

#[test]
fn names_that_do_not_exist_are_refused_with_the_nearest() {
    let near = "the nearest is \"fc.weight\"";
    let cases = [
        (json!({"frozen": ["fc.wieght"]}), near),
        (json!({"groups": [{"parameters": ["fc.wight"]}]}), near),
        (
            json!({"groups": [{"parameters": ["fc.bias"], "optimizer": "Adamw"}]}),
            "the nearest is \"AdamW\"",
        ),
        (
            json!({"groups": [{"parameters": ["fc.bias"], "options": {"beta1": 0.5}}]}),
            "the nearest is \"beta_1\"",
        ),
    ];
    for (more, expected) in cases {
        let message = refusal("single", more);
        assert!(message.contains(expected), "{message}");
        assert!(message.contains("run burn/test"), "{message}");
    }
}

#[test]
fn what_contradicts_itself_is_refused_by_its_keys() {
    let constant = json!({"Constant": 0.1});
    let cases = [
        (
            json!({"lr": 0.1, "scheduler": constant}),
            "\"lr\" and \"scheduler\" are both given",
        ),
        (json!({"lr": null}), "neither \"lr\" nor \"scheduler\""),
        (json!({"lr": -0.1}), "lr: -0.1 is not"),
        (json!({"accumulate": 0}), "\"accumulate\" is 0"),
        (json!({"accumulate": 3}), "\"accumulate\" is 3, but 4 rows"),
        (
            json!({"optimizer": "LBFGS", "groups": [{"parameters": ["fc.bias"]}]}),
            "\"groups\"",
        ),
        (
            json!({"optimizer": "LBFGS", "clipping_by": "late"}),
            "\"clipping_by\"",
        ),
        (
            json!({"groups": [{"parameters": ["fc.bias"], "optimizer": "LBFGS"}]}),
            "LBFGS",
        ),
        (
            json!({"groups": [{"parameters": []}]}),
            "groups.0.parameters: there are none",
        ),
        (
            json!({"groups": [{"parameters": ["fc.bias"], "lr": -1}]}),
            "groups.0.lr: -1 is not",
        ),
        (
            json!({"groups": [{"parameters": ["fc.bias"], "rate": 1}]}),
            "unknown field \"rate\"; the nearest is \"parameters\"",
        ),
        (
            json!({"clipping_by": "group"}),
            "\"clipping_by\" is given, but",
        ),
        (
            json!({"clipping_by": "nobody"}),
            "unknown variant \"nobody\"",
        ),
        (
            json!({"dtype": "float16"}),
            "unknown variant \"float16\"; the nearest is \"float",
        ),
        (json!({"resume": "x"}), "\"resume\" and \"resume_step\""),
        (
            json!({"resume": "x", "resume_step": 4}),
            "\"resume_step\" is 4",
        ),
        (
            json!({"freeze": []}),
            "unknown field \"freeze\"; the nearest is \"frozen\"",
        ),
    ];
    for (more, expected) in cases {
        let message = refusal("single", more);
        assert!(message.contains(expected), "{message}");
    }
    for problem in ["quadratic", "rosenbrock", "prescribed"] {
        let message = refusal(problem, json!({"accumulate": 2}));
        assert!(message.contains("no rows to split"), "{message}");
    }
    let message = refusal("prescribed", json!({"optimizer": "LBFGS"}));
    assert!(message.contains("needs a loss"), "{message}");
}

#[test]
fn a_mistake_is_located_in_the_file_it_came_from() {
    let group = json!({"parameters": ["fc.bias"], "options": {"beta1": 0.5}});
    let sources = json!({"groups.0": "more.yaml, line 7", "scheduler.Step": "more.yaml, line 9"});
    let message = refusal("single", json!({"groups": [group], "sources": sources}));
    let expected = "more.yaml, line 7: run burn/test: groups.0.options: ";
    assert!(message.starts_with(expected), "{message}");
    let step = json!({"Step": {"initial_lr": 0.1, "step_size": 2, "gamma": 0.5, "gama": 1}});
    let message = refusal("single", json!({"scheduler": step, "sources": sources}));
    let expected = "more.yaml, line 9: run burn/test: scheduler: ";
    assert!(message.starts_with(expected), "{message}");
}
