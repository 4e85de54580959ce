//! Runs that are saved and go on in a new model and a new optimizer, whose ids are others.

use serde_json::{Value, json};

use pitb_core::run::{train, train_all};

use super::common::{file, parameters, run, spec, trace, values};

/// The whole run, and the one that goes on after two updates.
fn halves(name: &str, problem: &str, more: Value) -> [pitb_core::trace::Trace; 2] {
    let path = file(&format!("{name}.json"));
    let with = |extra: Value| {
        let mut all = more.clone();
        let fields = all.as_object_mut().unwrap();
        fields.extend(extra.as_object().unwrap().clone());
        all
    };
    trace(problem, with(json!({"steps": 2, "save": path})));
    let whole = trace(problem, with(json!({"steps": 5})));
    let resumed = trace(
        problem,
        with(json!({"steps": 5, "resume": path, "resume_step": 2})),
    );
    [whole, resumed]
}

#[test]
fn every_optimizer_resumes_to_the_same_bits() {
    for name in pitb_core::optimizers::names() {
        let (problem, frozen) = match name {
            "Muon" => ("single", json!(["fc.bias"])),
            _ => ("conv", json!([])),
        };
        let more = json!({"optimizer": name, "frozen": frozen});
        let [whole, resumed] = halves(&format!("resume-{name}"), problem, more);
        for step in 2..=5 {
            assert_eq!(
                parameters(&whole, step),
                parameters(&resumed, step),
                "{name} {step}"
            );
        }
        for entry in whole.entries().iter().filter(|entry| entry.step > 2) {
            let (step, quantity) = (entry.step as usize, &entry.quantity);
            let found = values(&resumed, step, quantity, &entry.tensor);
            assert_eq!(found, whole.values(entry), "{name} {step} {quantity}");
        }
    }
}

#[test]
fn a_resumed_run_holds_what_it_went_on_from() {
    let [_, resumed] = halves("entries", "single", json!({}));
    let entries = resumed.entries().iter();
    let first = entries.filter(|entry| entry.step <= 2);
    let first = first.map(|entry| (entry.step, entry.quantity.as_str()));
    assert_eq!(first.collect::<Vec<_>>(), [(2, "param"), (2, "param")]);
    assert!(resumed.find(3, "grad", "fc.weight").is_some());
}

#[test]
fn schedulers_groups_and_clipping_resume_too() {
    let scheduler = json!({"Linear": {"initial_lr": 0.1, "final_lr": 0.01, "num_iters": 4}});
    let cases = [
        json!({"scheduler": scheduler}),
        json!({"groups": [{"parameters": ["fc2.weight"], "optimizer": "Adam", "lr": 0.1}]}),
        json!({"options": {"grad_clipping": {"Norm": 0.01}}}),
        json!({"options": {"grad_clipping": {"Norm": 0.01}}, "clipping_by": "config"}),
        json!({"options": {"grad_clipping": {"Norm": 0.01}}, "clipping_by": "late"}),
        json!({"options": {"grad_clipping": {"Norm": 0.01}}, "clipping_by": "group"}),
        json!({"optimizer": "Sgd", "options": {"gradient_clipping": {"Norm": 0.01}}, "clipping_by": "late"}),
        json!({"accumulate": 2, "observe": false}),
    ];
    for (index, more) in cases.into_iter().enumerate() {
        let [whole, resumed] = halves(&format!("more-{index}"), "mlp", more.clone());
        assert_eq!(parameters(&whole, 5), parameters(&resumed, 5), "{more}");
    }
}

#[test]
fn files_that_do_not_fit_are_refused_before_anything_is_trained() {
    let path = file("other.json");
    trace("single", json!({"steps": 2, "save": path}));
    let saved: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let spoilt = |name: &str, key: &str, value: Value| {
        let mut spoilt = saved.clone();
        spoilt[key] = value;
        std::fs::write(file(name), spoilt.to_string()).unwrap();
        file(name)
    };
    let digits = saved["parameters"].as_str().unwrap();
    std::fs::write(file("empty.json"), "{}").unwrap();
    std::fs::write(file("truncated.json"), &saved.to_string()[..100]).unwrap();
    for (file, more, expected) in [
        (file("missing.json"), json!({}), "cannot read"),
        (path.clone(), json!({"resume_step": 3}), "after 2 updates"),
        (
            path.clone(),
            json!({"optimizer": "Sgd"}),
            "optimizer AdamW, not Sgd",
        ),
        (
            path.clone(),
            json!({"problem": "mlp"}),
            "problem single, not mlp",
        ),
        (
            path.clone(),
            json!({"dtype": "float64"}),
            "\"fc.weight\" is float32",
        ),
        (
            file("empty.json"),
            json!({}),
            "does not hold parameters and states",
        ),
        (
            file("truncated.json"),
            json!({}),
            "does not hold parameters and states",
        ),
        (
            spoilt("x.json", "parameters", json!("xx")),
            json!({}),
            "hexadecimal",
        ),
        (
            spoilt("short.json", "parameters", json!(digits[..40])),
            json!({}),
            "resumed from: ",
        ),
        (
            spoilt("state.json", "optimizer_state", json!("00ff")),
            json!({}),
            "resumed from: ",
        ),
        (
            spoilt("rates.json", "scheduler_state", json!("00ff")),
            json!({}),
            "resumed from: ",
        ),
    ] {
        let mut all = json!({"resume": file, "resume_step": 2});
        all.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let problem = all["problem"].as_str().unwrap_or("single").to_string();
        let spec = spec(&problem, all);
        let error = format!("{:#}", train(&spec).err().expect("refused"));
        let start = format!("run burn/test: {} cannot be resumed from: ", file.display());
        assert!(
            error.starts_with(&start) && error.contains(expected),
            "{error}"
        );
        let mut first = spec.clone();
        first.id = "burn/first".to_string();
        (first.resume, first.resume_step) = (None, None);
        let folder = self::file("refused");
        let refused = train_all(&[first, spec], &folder, |_, _| Ok(()));
        assert_eq!(format!("{:#}", refused.unwrap_err()), error);
        assert!(!folder.exists(), "{error}");
    }
}

#[test]
fn a_batch_can_go_on_from_what_it_saves() {
    let path = file("within.json");
    let _ = std::fs::remove_file(&path);
    let mut first = spec("single", json!({"steps": 2, "save": path}));
    first.id = "burn/first".to_string();
    let second = spec("single", json!({"resume": path, "resume_step": 2}));
    let mut errors = Vec::new();
    train_all(&[first, second], &file("within"), |_, run| {
        errors.push(run.error.clone());
        Ok(())
    })
    .unwrap();
    assert_eq!(errors, [None, None]);
}

#[test]
fn what_cannot_be_saved_is_refused() {
    std::fs::write(file("no-folder"), "").unwrap();
    let spec = spec("single", json!({"save": file("no-folder").join("a.json")}));
    let error = format!("{:#}", train(&spec).err().expect("refused"));
    assert!(
        error.starts_with("run burn/test: \"save\": cannot "),
        "{error}"
    );
}

/// burn reads the tensors of a state from its record in the device's default element type, float32,
/// and then refuses to compute with both.
#[test]
fn a_state_of_double_precision_cannot_be_resumed() {
    let path = file("double.json");
    for (optimizer, ends) in [("AdamW", true), ("LBFGS", true), ("Sgd", false)] {
        let more = |extra: Value| {
            let mut more = json!({"dtype": "float64", "optimizer": optimizer});
            more.as_object_mut()
                .unwrap()
                .extend(extra.as_object().unwrap().clone());
            more
        };
        trace("single", more(json!({"steps": 2, "save": path})));
        let resumed = run("single", more(json!({"resume": path, "resume_step": 2})));
        let error = resumed.error.unwrap_or_default();
        assert_eq!(
            error.contains("dtype mismatch"),
            ends,
            "{optimizer}: {error}"
        );
        assert_eq!(error.is_empty(), !ends, "{optimizer}: {error}");
    }
}
