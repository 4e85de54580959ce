//! Learning rates by burn's schedulers.

use serde_json::{Value, json};

use pitb_core::schedule;

use super::common::{file, refusal, trace, values};

#[test]
fn update_k_has_the_rate_of_the_kth_call() {
    let scheduler = json!({"Step": {"initial_lr": 0.1, "step_size": 2, "gamma": 0.5}});
    for optimizer in ["Sgd", "LBFGS"] {
        let more = json!({"optimizer": optimizer, "scheduler": scheduler});
        let trace = trace("single", more);
        let rates = (1..=4).map(|step| values(&trace, step, "lr", "")[0]);
        assert_eq!(
            rates.collect::<Vec<_>>(),
            [0.1, 0.1, 0.05, 0.05],
            "{optimizer}"
        );
    }
}

#[test]
fn wrong_schedulers_are_refused() {
    let cases = [
        (
            json!({"Step": {"initial_lr": 0.1, "step_size": 2, "gamma": 0.5, "gama": 1}}),
            "the nearest is \"Step.gamma\"",
        ),
        (
            json!({"Step": {"initial_lr": 0.1, "step_size": 2}}),
            "missing field `gamma`",
        ),
        (json!({"Stepp": {}}), "Stepp"),
        (
            json!({"Step": {"initial_lr": 0.1, "step_size": 0, "gamma": 0.5}}),
            "Step size must be greater than 0",
        ),
    ];
    for (scheduler, expected) in cases {
        let message = refusal("single", json!({"scheduler": scheduler}));
        assert!(message.contains(expected), "{message}");
    }
}

fn answer(name: &str, schedules: Value) -> anyhow::Result<Value> {
    let path = file(name);
    std::fs::write(&path, json!({"schedules": schedules}).to_string())?;
    Ok(schedule::answer(&path)?["schedules"].take())
}

#[test]
fn schedules_are_answered_by_name() {
    let exponential = json!({"Exponential": {"initial_lr": 0.5, "gamma": 0.5}});
    let found = answer(
        "answered.json",
        json!([
            {"name": "a", "config": exponential, "steps": 3},
            {"name": "b", "config": {"Constant": 0.1}, "steps": 2},
            {"name": "c", "config": {"Cosine": {"initial_lr": 2.0, "min_lr": 0.0, "num_iters": 4}}, "steps": 2},
            {"name": "d", "config": {"Exponential": {"initial_lr": 0.5, "gamma": 0.5, "gamme": 1}}, "steps": 2},
            {"name": "e", "config": exponential, "steps": 2, "resume_at": 3},
        ]),
    );
    let found = found.unwrap();
    assert_eq!(found["a"]["rates"], json!([0.5, 0.25, 0.125]));
    assert_eq!(found["b"]["rates"], json!([0.1, 0.1]));
    let error = |name: &str| found[name]["error"].as_str().unwrap().to_string();
    assert!(error("c").contains("Initial learning rate"), "{found}");
    assert!(
        error("d").contains("the nearest is \"Exponential.gamma\""),
        "{found}"
    );
    assert!(error("e").contains("resume_at is 3"), "{found}");
}

#[test]
fn a_resumed_schedule_goes_on_as_if_it_had_not_stopped() {
    let linear = json!({"Linear": {"initial_lr": 0.1, "final_lr": 0.3, "num_iters": 4}});
    let noam = json!({"Noam": {"factor": 1.0, "warmup_steps": 3, "model_size": 64}});
    let sequential =
        json!({"Sequential": {"schedulers": [linear, {"Constant": 0.2}], "milestones": [3]}});
    let composed = json!({"Composed": {"schedulers": [linear, noam], "reduction": "Prod"}});
    for (index, config) in [linear, noam, sequential, composed].into_iter().enumerate() {
        for resume_at in 0..=6 {
            let name = format!("resumed-{index}-{resume_at}.json");
            let found = answer(
                &name,
                json!([
                    {"name": "whole", "config": config, "steps": 6},
                    {"name": "resumed", "config": config, "steps": 6, "resume_at": resume_at},
                ]),
            );
            let found = found.unwrap();
            assert!(found["whole"].get("rates").is_some(), "{found}");
            assert_eq!(found["whole"], found["resumed"], "{config} {resume_at}");
        }
    }
}

#[test]
fn malformed_lists_of_schedules_are_refused() {
    let twice = json!([
        {"name": "a", "config": {"Constant": 0.1}, "steps": 1},
        {"name": "a", "config": {"Constant": 0.1}, "steps": 1},
    ]);
    let message = format!("{:#}", answer("twice.json", twice).unwrap_err());
    assert!(message.contains("\"a\" is listed twice"), "{message}");
    let unknown = json!([{"name": "a", "config": {"Constant": 0.1}, "steps": 1, "resume": 1}]);
    let message = format!("{:#}", answer("unknown.json", unknown).unwrap_err());
    assert!(
        message.contains("unknown field \"resume\"; the nearest is \"resume_at\""),
        "{message}"
    );
}

#[test]
fn more_rates_than_there_is_memory_for_are_refused_alone() {
    let schedules = json!([
        {"name": "huge", "config": {"Constant": 0.1}, "steps": 1_u64 << 60},
        {"name": "small", "config": {"Constant": 0.1}, "steps": 1},
    ]);
    let found = answer("huge.json", schedules).unwrap();
    let error = found["huge"]["error"].as_str().unwrap();
    assert!(
        error.starts_with("there is no memory for 1152921504606846976 rates"),
        "{error}"
    );
    assert_eq!(found["small"], json!({"rates": [0.1]}));
}
