//! What a recording holds, and what is left of one that was not ended.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use burn::grad_clipping::GradientClippingConfig;
use burn::module::{Module, ParamGroup};
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::{Device, Tensor};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::Value;

#[derive(Module, Debug)]
struct Net {
    fc1: Linear,
    fc2: Linear,
}

impl Net {
    fn new() -> Self {
        let device = Device::flex().autodiff();
        Self {
            fc1: LinearConfig::new(3, 4).init(&device),
            fc2: LinearConfig::new(4, 2).init(&device),
        }
    }

    fn loss(&self) -> Tensor<1> {
        let x = Tensor::<2>::ones([2, 3], &self.fc1.weight.val().device());
        self.fc2.forward(self.fc1.forward(x)).powi_scalar(2).mean()
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pitb-record-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// A row of a trace.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    step: i32,
    quantity: String,
    tensor: String,
    index: i64,
    value: f64,
}

fn part(path: &Path) -> (Value, Vec<Row>) {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let text = metadata.unwrap()[0].value.clone().unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        Row {
            step: row.get_int(0).unwrap(),
            quantity: row.get_string(1).unwrap().clone(),
            tensor: row.get_string(2).unwrap().clone(),
            index: row.get_long(3).unwrap(),
            value: row.get_double(4).unwrap(),
        }
    });
    (serde_json::from_str(&text).unwrap(), rows.collect())
}

/// All parts, in order: the metadata of the last, and the rows of all.
fn read(folder: &Path) -> (Value, Vec<Row>) {
    let mut paths = fs::read_dir(folder).unwrap();
    let mut found = Vec::new();
    while let Some(Ok(path)) = paths.next() {
        found.push(path.path());
    }
    found.sort();
    let mut rows = Vec::new();
    let mut last = Value::Null;
    for (number, path) in found.iter().enumerate() {
        let name = format!("part-{number:06}.parquet");
        assert_eq!(path.file_name().unwrap().to_str().unwrap(), name);
        let (metadata, own) = part(path);
        assert_eq!(metadata["part"]["number"], number);
        if !last.is_null() {
            assert_eq!(metadata["part"]["recording"], last["part"]["recording"]);
            assert_eq!(last["part"]["finished"], false);
        }
        rows.extend(own);
        last = metadata;
    }
    (last, rows)
}

fn values(rows: &[Row], step: i32, quantity: &str, tensor: &str) -> Vec<f64> {
    let wanted = rows.iter().filter(|row| {
        (row.step, row.quantity.as_str(), row.tensor.as_str()) == (step, quantity, tensor)
    });
    let found = wanted.collect::<Vec<_>>();
    let counted = found.iter().enumerate();
    assert!(counted.clone().all(|(at, row)| row.index == at as i64));
    found.iter().map(|row| row.value).collect()
}

/// A weight as PyTorch lays it out.
fn weight(layer: &Linear) -> Vec<f64> {
    let data = layer.weight.val().transpose().into_data();
    data.iter::<f64>().collect()
}

fn gradients(model: &Net) -> (Tensor<1>, GradientsParams) {
    let loss = model.loss();
    let gradients = GradientsParams::from_grads(loss.backward(), model);
    (loss, gradients)
}

#[test]
fn what_is_recorded_is_what_the_training_had() {
    let folder = folder("whole");
    let mut model = Net::new();
    let mut plain = model.clone();
    let config = AdamWConfig::new();
    let mut plain_optimizer: ModuleOptimizer = config.init();
    let recording = pitb_record::record(&folder).every(3);
    let (mut recorder, mut optimizer) = recording.start(&model, &config).unwrap();
    let mut weights = vec![weight(&plain.fc1)];
    let mut losses = Vec::new();
    for _ in 0..7 {
        let (loss, grads) = gradients(&model);
        recorder.loss(&loss);
        model = recorder.step(&mut optimizer, 0.01, model, grads).unwrap();
        let (loss, grads) = gradients(&plain);
        losses.push(loss.into_scalar::<f64>());
        plain = plain_optimizer.step(0.01, plain, grads);
        weights.push(weight(&plain.fc1));
    }
    recorder.last_loss(&model.loss());
    recorder.finish(&model).unwrap();

    let (metadata, rows) = read(&folder);
    for step in [0, 1, 2, 3, 5, 6, 7] {
        assert_eq!(
            values(&rows, step, "param", "fc1.weight"),
            weights[step as usize]
        );
    }
    for step in [1, 3, 6] {
        assert_eq!(values(&rows, step, "loss", ""), [losses[step as usize - 1]]);
        assert_eq!(values(&rows, step, "lr", ""), [0.01]);
        assert_eq!(values(&rows, step, "grad", "fc2.bias").len(), 2);
        assert_eq!(values(&rows, step, "state.exp_avg", "fc1.weight").len(), 12);
    }
    // With the state before it, a recorded update can be made again.
    let (before, after) = (
        values(&rows, 5, "state.exp_avg", "fc1.weight"),
        values(&rows, 6, "state.exp_avg", "fc1.weight"),
    );
    let grad = values(&rows, 6, "grad", "fc1.weight");
    for ((before, after), grad) in before.iter().zip(&after).zip(&grad) {
        assert!((0.9 * before + 0.1 * grad - after).abs() <= 1e-6 * after.abs().max(1e-3));
    }
    assert!(values(&rows, 4, "param", "fc1.weight").is_empty());
    assert!(values(&rows, 6, "clipped_grad", "fc1.weight").is_empty());
    assert_eq!(values(&rows, 8, "loss", "").len(), 1);
    assert!(rows.is_sorted_by_key(|row| row.step));
    assert_eq!(metadata["part"]["finished"], true);
    assert_eq!(metadata["configuration"]["optimizer"], "AdamW");
    assert_eq!(metadata["configuration"]["options"]["epsilon"], 1e-5);
    assert_eq!(metadata["configuration"]["lr"], 0.01);
    assert_eq!(metadata["configuration"]["steps"], 7);
    assert_eq!(metadata["model"]["name"], "Net");
    assert_eq!(metadata["model"]["parameters"], 26);
    assert_eq!(
        metadata["model"]["tensors"][0]["shape"],
        serde_json::json!([4, 3])
    );
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn clipped_gradients_stand_beside_those_that_backward_gave() {
    let folder = folder("clipped");
    let mut model = Net::new();
    let config = SgdConfig::new().with_gradient_clipping(Some(GradientClippingConfig::Norm(1e-3)));
    let recording = pitb_record::record(&folder);
    let (mut recorder, mut optimizer) = recording.start(&model, &config).unwrap();
    let (_, grads) = gradients(&model);
    model = recorder.step(&mut optimizer, 0.5, model, grads).unwrap();
    recorder.finish(&model).unwrap();
    let (_, rows) = read(&folder);
    let norm = |quantity| {
        let found = values(&rows, 1, quantity, "fc1.weight");
        found.iter().map(|value| value * value).sum::<f64>().sqrt()
    };
    assert!(norm("grad") > 2e-3);
    assert!((norm("clipped_grad") - 1e-3).abs() < 1e-6);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn tensors_are_chosen_and_groups_are_seen() {
    let folder = folder("chosen");
    let mut model = Net::new();
    let recording = pitb_record::record(&folder).tensors(["fc2.*", "fc?.bias"]);
    let (mut recorder, optimizer) = recording.start(&model, &AdamWConfig::new()).unwrap();
    let group = ParamGroup::from_predicate("fc2");
    let sgd = recorder.observe(&SgdConfig::new());
    let mut optimizer = optimizer.with_group(group, sgd, None);
    let (_, grads) = gradients(&model);
    model = recorder.step(&mut optimizer, 0.5, model, grads).unwrap();
    recorder.finish(&model).unwrap();
    let (_, rows) = read(&folder);
    assert!(values(&rows, 1, "param", "fc1.weight").is_empty());
    assert_eq!(values(&rows, 1, "param", "fc1.bias").len(), 4);
    assert_eq!(values(&rows, 1, "state.exp_avg", "fc1.bias").len(), 4);
    assert!(values(&rows, 1, "state.exp_avg", "fc2.weight").is_empty());
    assert_eq!(values(&rows, 1, "grad", "fc2.weight").len(), 8);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_recorder_that_is_dropped_leaves_what_it_has() {
    let folder = folder("dropped");
    let mut model = Net::new();
    let recording = pitb_record::record(&folder);
    let (mut recorder, mut optimizer) = recording.start(&model, &AdamWConfig::new()).unwrap();
    for _ in 0..3 {
        let (_, grads) = gradients(&model);
        model = recorder.step(&mut optimizer, 0.5, model, grads).unwrap();
    }
    drop(recorder);
    let (metadata, rows) = read(&folder);
    assert_eq!(rows.last().unwrap().step, 3);
    assert_eq!(metadata["part"]["finished"], false);
    assert_eq!(metadata["error"], "the training returned before finish()");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn large_tensors_are_laid_out_as_pytorch_does() {
    let folder = folder("large");
    let device = Device::flex().autodiff();
    // More values than a row group has, so that one is cut within a row.
    let model: Linear = LinearConfig::new(1031, 1033).init(&device);
    let recording = pitb_record::record(&folder);
    let (recorder, _) = recording.start(&model, &SgdConfig::new()).unwrap();
    recorder.finish(&model).unwrap();
    let (_, rows) = read(&folder);
    assert_eq!(values(&rows, 0, "param", "weight"), weight(&model));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let folder = folder("refused");
    let model = Net::new();
    let config = SgdConfig::new();
    let refused = |recording: pitb_record::Recording| {
        let error = recording.start(&model, &config).err();
        format!("{:#}", error.expect("it is refused"))
    };
    let record = || pitb_record::record(&folder);
    assert_eq!(
        refused(record().every(0)),
        "every is 0, not a number of 1 or more"
    );
    assert!(refused(record().tensors(["fc3.*"])).contains("no parameter is like \"fc3.*\""));
    let (recorder, _) = record().start(&model, &config).unwrap();
    recorder.finish(&model).unwrap();
    assert!(refused(record()).contains("holds a trace already (part-000000.parquet)"));
    let (recorder, _) = record().overwrite().start(&model, &config).unwrap();
    recorder.finish(&model).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "in the way").unwrap();
    assert!(refused(record()).starts_with("cannot make"));
    fs::remove_file(folder).unwrap();
}

#[test]
fn an_optimizer_that_is_not_observed_is_noticed() {
    let folder = folder("foreign");
    let model = Net::new();
    let recording = pitb_record::record(&folder);
    let (mut recorder, _) = recording.start(&model, &SgdConfig::new()).unwrap();
    let mut foreign = SgdConfig::new().init();
    let (_, grads) = gradients(&model);
    let error = recorder.step(&mut foreign, 0.5, model, grads).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("0 of 4 gradients were seen at update 1")
    );
    drop(recorder);
    fs::remove_dir_all(folder).unwrap();
}
