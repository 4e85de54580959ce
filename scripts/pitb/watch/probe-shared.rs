// What the probes have in common: nothing of it is burn's.

fn is_double(run: &Value) -> bool {
    run["dtype"] == "float64"
}

fn is_true(value: &Value) -> bool {
    value.as_bool().unwrap_or(false)
}

fn size(value: &Value) -> usize {
    value.as_u64().expect("a count") as usize
}

/// Numbers; what JSON has none for is text.
fn numbers(values: &Value) -> Vec<f64> {
    let number = |value: &Value| match value.as_str() {
        Some(text) => text.parse().expect("a number as text"),
        None => value.as_f64().expect("a number"),
    };
    values.as_array().expect("a list").iter().map(number).collect()
}

fn said(values: impl Iterator<Item = f64>) -> Value {
    let each = values.map(|value| match value.is_finite() {
        true => json!(value),
        false => json!(value.to_string()),
    });
    each.collect()
}

fn configuration<C: serde::de::DeserializeOwned>(run: &Value) -> C {
    serde_json::from_value(run["options"].clone()).expect("the options fit the configuration")
}

fn message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "a panic without a message".to_string());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn main() {
    let paths = std::env::args().skip(1).collect::<Vec<_>>();
    let text = std::fs::read_to_string(&paths[0]).expect("the runs can be read");
    let given: Value = serde_json::from_str(&text).expect("the runs are JSON");
    std::panic::set_hook(Box::new(|_| {}));
    let runs = given["runs"].as_array().expect("a list of runs").iter().map(|run| {
        let mut steps = Vec::new();
        let work = std::panic::AssertUnwindSafe(|| train(run, &mut steps));
        let ended = std::panic::catch_unwind(work);
        let (last, error) = match &ended {
            Ok(last) => (last.clone(), Value::Null),
            Err(payload) => (Value::Null, json!(message(payload.as_ref()))),
        };
        json!({"id": run["id"], "error": error, "steps": steps, "last": last})
    });
    let found = json!({"runs": runs.collect::<Vec<_>>()});
    std::fs::write(&paths[1], found.to_string()).expect("the outcome can be written");
}
