//! Runs from their specification to their trace.

use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use pitb_core::optimizers;
use pitb_core::run::{Spec, parse_specs, read_specs, train, train_all, train_together};
use serde_json::{Value, json};

fn spec(value: Value) -> Spec {
    serde_json::from_value(value).expect("a valid specification")
}

fn simple(optimizer: &str) -> Spec {
    spec(
        json!({"id": format!("burn/{}", optimizer.to_lowercase()), "optimizer": optimizer, "lr": 0.01, "steps": 3}),
    )
}

/// A folder of this test's own, empty.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn metadata(path: &Path) -> (Value, i64) {
    let file = std::fs::File::open(path).expect("the trace was written");
    let reader = SerializedFileReader::new(file).expect("a Parquet file");
    let metadata = reader.metadata().file_metadata();
    let pairs = metadata.key_value_metadata().expect("key-value metadata");
    let pair = pairs
        .iter()
        .find(|pair| pair.key == "pitb")
        .expect("the key pitb");
    let text = pair.value.as_deref().expect("a value");
    (
        serde_json::from_str(text).expect("JSON"),
        metadata.num_rows(),
    )
}

#[test]
fn every_optimizer_but_muon_trains_a1() {
    for name in optimizers::names() {
        let run = train(&simple(name)).expect(name);
        // Newton-Schulz wants matrices, and A1 has biases.
        assert_eq!(
            run.error.is_some(),
            name == "Muon",
            "{name}: {:?}",
            run.error
        );
    }
}

#[test]
fn a_run_that_panics_leaves_a_trace_and_the_others_go_on() {
    let folder = folder("panics");
    let specs = [simple("Muon"), simple("Sgd")];
    train_all(&specs, &folder, |_, _| Ok(())).unwrap();
    let (muon, rows) = metadata(&folder.join("burn/muon.parquet"));
    assert!(muon["error"].as_str().unwrap().contains("2D"), "{muon}");
    assert!(rows > 0);
    let contents = muon["contents"].as_array().unwrap();
    let has = |step, quantity| {
        contents
            .iter()
            .any(|e| e["step"] == step && e["quantity"] == quantity)
    };
    assert!(has(1, "grad") && !has(1, "param"));
    let (sgd, _) = metadata(&folder.join("burn/sgd.parquet"));
    assert!(sgd.get("error").is_none());
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let [a, b] = ["first", "second"].map(folder);
    for folder in [&a, &b] {
        train_all(&[simple("AdamW")], folder, |_, _| Ok(())).unwrap();
    }
    let read = |folder: &Path| std::fs::read(folder.join("burn/adamw.parquet")).unwrap();
    assert!(read(&a) == read(&b));
}

/// Bits of all values of a file, in order.
fn values(path: &Path) -> Vec<u64> {
    let file = std::fs::File::open(path).expect("the trace was written");
    let reader = SerializedFileReader::new(file).expect("a Parquet file");
    let rows = reader.get_row_iter(None).expect("rows");
    rows.map(|row| row.unwrap().get_double(4).unwrap().to_bits())
        .collect()
}

#[test]
fn runs_trained_together_are_those_trained_one_by_one() {
    let folder = folder("together");
    let path = folder.join("batch.parquet");
    let mut diverging = simple("RmsProp");
    diverging.lr = Some(1e30);
    let refused = spec(
        json!({"id": "burn/adam", "optimizer": "Adam", "lr": 0.1, "steps": 1, "options": {"epsilom": 1e-8}}),
    );
    let specs = [
        simple("AdamW"),
        simple("Muon"),
        refused,
        diverging,
        simple("Sgd"),
    ];
    train_together(&specs, &path).unwrap();
    let (together, rows) = metadata(&path);
    let runs = together["runs"].as_array().unwrap();
    let names = runs.iter().map(|run| run["run"].as_str().unwrap());
    assert!(names.eq(specs.iter().map(|spec| spec.id.as_str())));
    // What is refused or ends early is named, and the others go on.
    let said = runs[2]["refused"].as_str().unwrap();
    assert!(
        said.contains("run burn/adam") && said.contains("epsilom"),
        "{said}"
    );
    assert!(
        runs[1]["error"].as_str().unwrap().contains("2D"),
        "{}",
        runs[1]
    );
    let contents = together["contents"].as_array().unwrap();
    let all = values(&path);
    let (mut entry, mut row) = (0, 0);
    for (spec, run) in specs.iter().zip(runs) {
        if run.get("refused").is_some() {
            assert!(train(spec).is_err() && run.get("entries").is_none());
            continue;
        }
        train_all(std::slice::from_ref(spec), &folder, |_, _| Ok(())).unwrap();
        let alone = spec.trace_path(&folder);
        let (mut own, _) = metadata(&alone);
        let mut own_contents = own["contents"].take();
        for item in own_contents.as_array_mut().unwrap() {
            item["first_row"] = json!(item["first_row"].as_u64().unwrap() + row as u64);
        }
        let count = run["entries"].as_u64().unwrap() as usize;
        let listed = &contents[entry..entry + count];
        assert_eq!(own_contents.as_array().unwrap(), listed, "{}", spec.id);
        let mut run = run.as_object().unwrap().clone();
        run.remove("entries");
        own.as_object_mut().unwrap().remove("contents");
        assert_eq!(own.as_object().unwrap(), &run, "{}", spec.id);
        let mine = values(&alone);
        assert_eq!(mine, all[row..row + mine.len()], "{}", spec.id);
        assert!(mine.iter().all(|bits| f64::from_bits(*bits).is_finite()) == (spec.lr < Some(1.0)));
        entry += count;
        row += mine.len();
    }
    assert_eq!((entry, row), (contents.len(), rows as usize));
    assert_eq!(row, all.len());
    // Another order is another file with the same runs.
    let turned = folder.join("turned.parquet");
    let reversed = specs.iter().rev().cloned().collect::<Vec<_>>();
    train_together(&reversed, &turned).unwrap();
    let (other, _) = metadata(&turned);
    let mut back = other["runs"].as_array().unwrap().clone();
    back.reverse();
    assert_eq!(&back, runs);
    // Of none there is a file, too.
    train_together(&[], &path).unwrap();
    assert_eq!(metadata(&path).0["runs"], json!([]));
}

#[test]
fn nothing_is_trained_where_one_specification_is_wrong() {
    let folder = folder("wrong");
    let wrong = spec(
        json!({"id": "burn/wrong", "optimizer": "Sgd", "lr": 0.1, "steps": 1,
        "options": {"momentun": {}}, "sources": {"options": "config.yaml, line 7", "options.momentun": "config.yaml, line 8"}}),
    );
    let error = train_all(&[simple("Sgd"), wrong], &folder, |_, _| Ok(())).unwrap_err();
    let message = format!("{error:#}");
    assert!(
        message.starts_with("config.yaml, line 8: run burn/wrong"),
        "{message}"
    );
    assert!(message.contains("nearest is \"momentum\""), "{message}");
    assert!(!folder.exists());
}

#[test]
fn the_observed_run_moves_as_the_bare_one() {
    use burn::optim::{AdamWConfig, GradientsParams};
    use pitb_core::a1::{self, Arithmetic, Problem};
    use pitb_core::layout;

    let device = a1::device();
    let problem = Problem::new(&device, Arithmetic::Float64);
    let mut model = a1::model(&device, Arithmetic::Float64);
    let mut optimizer = AdamWConfig::new().init();
    for _ in 0..3 {
        let (_, loss) = problem.forward(&model);
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(0.01, model, grads);
    }
    let run = train(&simple("AdamW")).unwrap();
    for parameter in layout::parameters(&model) {
        let entry = run.trace.find(3, "param", &parameter.name).unwrap();
        assert_eq!(run.trace.values(entry), parameter.values);
    }
}

#[test]
fn states_bear_pytorch_names_and_layout() {
    let run = train(&simple("AdamW")).unwrap();
    let entry = run.trace.find(1, "state.exp_avg", "fc1.weight").unwrap();
    assert_eq!(entry.shape, [8, 4]);
    let moment = run.trace.values(entry);
    let grad = run
        .trace
        .values(run.trace.find(1, "grad", "fc1.weight").unwrap());
    for (moment, grad) in moment.iter().zip(grad) {
        assert!(
            (moment - 0.1 * grad).abs() <= 1e-6 * grad.abs(),
            "{moment} {grad}"
        );
    }
    let step = run.trace.find(3, "state.step", "fc2.bias").unwrap();
    assert_eq!(run.trace.values(step), [3.0]);
}

#[test]
fn clipped_gradients_are_recorded_where_something_clips() {
    let clipping = json!({"gradient_clipping": {"Norm": 0.1}});
    let burn = spec(
        json!({"id": "burn/a", "optimizer": "Sgd", "lr": 0.1, "steps": 1, "options": clipping}),
    );
    let clip = json!({"scope": "global", "max_norm": 0.1});
    let ours =
        spec(json!({"id": "burn/b", "optimizer": "Sgd", "lr": 0.1, "steps": 1, "clip": clip}));
    for (spec, norm) in [(burn, false), (ours, true), (simple("Sgd"), false)] {
        let trace = train(&spec).unwrap().trace;
        let clips = spec.id != "burn/sgd";
        assert_eq!(
            trace.find(1, "clipped_grad", "fc1.weight").is_some(),
            clips,
            "{}",
            spec.id
        );
        assert_eq!(
            trace.find(1, "grad_norm", "").is_some(),
            norm,
            "{}",
            spec.id
        );
    }
}

#[test]
fn lbfgs_is_clipped_too() {
    let with = |clip: Value| {
        spec(
            json!({"id": "burn/a", "optimizer": "LBFGS", "lr": 0.1, "steps": 1, "clip": clip,
            "options": {"max_iter": 1}}),
        )
    };
    let clipped = train(&with(json!({"scope": "global", "max_norm": 1e-3})))
        .unwrap()
        .trace;
    let plain = train(&with(Value::Null)).unwrap().trace;
    let after = |trace: &pitb_core::trace::Trace| {
        trace
            .values(trace.find(1, "param", "fc2.bias").unwrap())
            .to_vec()
    };
    assert_ne!(after(&clipped), after(&plain));
    assert!(clipped.find(1, "clipped_grad", "fc2.bias").is_some());
}

#[test]
fn the_rate_is_the_one_that_was_observed() {
    let trace = train(&simple("AdamW")).unwrap().trace;
    assert_eq!(trace.values(trace.find(3, "lr", "").unwrap()), [0.01]);
}

#[test]
fn malformed_specifications_are_refused() {
    let folder = folder("malformed");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("runs.json");
    for text in [
        "",
        "{",
        "[]",
        r#"{"runs": [{"id": "burn/a"}]}"#,
        r#"{"runs": [{"id": "burn/a", "optimizer": "Sgd", "lr": 0.1, "steps": -1}]}"#,
        r#"{"runs": [{"id": "burn/a", "optimizer": "Sgd", "lr": 0.1, "steps": 1, "epochs": 2}]}"#,
    ] {
        std::fs::write(&path, text).unwrap();
        let message = format!("{:#}", read_specs(&path).unwrap_err());
        assert!(message.contains("does not list runs"), "{message}");
    }
    let run = r#"{"id": "burn/a", "optimizer": "Sgd", "lr": 0.1, "steps": 1}"#;
    let problem = r#""a": {"model": "rosenbrock", "parameters": []}"#;
    for (text, expected) in [
        (
            run.replace("steps", "stpes"),
            "\"stpes\"; the nearest is \"steps\"",
        ),
        (
            run.replace("\"lr\": 0.1", "\"lr\": 0.1, \"lr\": 1"),
            "key \"lr\" is given twice",
        ),
        (format!("{run}, {run}"), "run \"burn/a\" is listed twice"),
    ] {
        let text = format!(r#"{{"runs": [{text}]}}"#);
        let message = format!("{:#}", parse_specs(&text, "runs.json").unwrap_err());
        assert!(
            message.starts_with("runs.json") && message.contains(expected),
            "{message}"
        );
    }
    let twice = format!(r#"{{"problems": {{{problem}, {problem}}}, "runs": [{run}]}}"#);
    let message = format!("{:#}", parse_specs(&twice, "runs.json").unwrap_err());
    assert!(message.contains("key \"a\" is given twice"), "{message}");
    for steps in [0, 1 << 31, 1 << 40, usize::MAX] {
        let mut wrong = simple("Sgd");
        wrong.steps = steps;
        let message = format!("{:#}", train(&wrong).err().expect("refused"));
        let expected = format!("steps of run burn/sgd is {steps}; it must be");
        assert!(message.starts_with(&expected), "{message}");
    }
    for id in ["sgd", "burn/", "pytorch/sgd", "burn/../x", "burn/a/b"] {
        let mut wrong = simple("Sgd");
        wrong.id = id.to_string();
        assert!(train(&wrong).is_err(), "{id}");
    }
}
