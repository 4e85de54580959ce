//! Trains @CONFIG@ on linear layers, for versions of burn whose tensors know their device.
//! Made by `pitb watch`.

use burn::module::{Module, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{@CONFIG@, GradientsParams};
use burn::tensor::activation::relu;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use serde_json::{Value, json};

include!("../shared.rs");

#[derive(Module, Debug)]
struct Model {
    layers: Vec<Linear>,
}

fn tensor<const D: usize>(values: &Value, shape: [usize; D], run: &Value, device: &Device) -> Tensor<D> {
    let values = numbers(values);
    match is_double(run) {
        true => Tensor::from_data(TensorData::new(values, shape), (device, DType::F64)),
        false => {
            let values = values.into_iter().map(|value| value as f32).collect::<Vec<_>>();
            Tensor::from_data(TensorData::new(values, shape), (device, DType::F32))
        }
    }
}

fn flat<const D: usize>(tensor: Tensor<D>) -> Value {
    said(tensor.to_data().iter::<f64>())
}

fn model(run: &Value, device: &Device) -> Model {
    let layers = run["layers"].as_array().expect("a list").iter().map(|given| {
        let shape = [size(&given["inputs"]), size(&given["outputs"])];
        let mut layer = LinearConfig::new(shape[0], shape[1]).init(device);
        layer.weight = Param::from_tensor(tensor(&given["weight"], shape, run, device));
        layer.bias = Some(Param::from_tensor(tensor(&given["bias"], [shape[1]], run, device)));
        layer
    });
    Model { layers: layers.collect() }
}

fn parameters(model: &Model) -> Value {
    let each = model.layers.iter();
    let each = each.map(|it| json!([flat(it.weight.val()), it.bias.as_ref().map(|b| flat(b.val()))]));
    each.collect()
}

fn forward(run: &Value, model: &Model, device: &Device) -> (Tensor<2>, Tensor<1>) {
    let rows = size(&run["rows"]);
    let x = tensor(&run["x"], [rows, size(&run["layers"][0]["inputs"])], run, device);
    let y = numbers(&run["y"]).into_iter().map(|class| class as i64).collect::<Vec<_>>();
    let y = Tensor::<1, Int>::from_data(TensorData::new(y, [rows]), (device, DType::I64));
    let logits = model.layers[1].forward(relu(model.layers[0].forward(x)));
    let loss = CrossEntropyLossConfig::new().init(device).forward(logits.clone(), y);
    (logits, loss)
}

/// The gradients of an update, and what is to be told of it.
fn gradients(run: &Value, step: usize, model: &Model, device: &Device) -> (GradientsParams, Value) {
    let mut seen = json!({});
    let mut grads = GradientsParams::new();
    if let Some(sets) = run["gradients"].as_array() {
        let set = &sets[step % sets.len()];
        let plain = device.clone().inner();
        for (place, layer) in model.layers.iter().enumerate() {
            let [weight, bias] = [&set[place][0], &set[place][1]];
            if !weight.is_null() {
                let shape = layer.weight.val().dims();
                grads.register(layer.weight.id, tensor(weight, shape, run, &plain));
            }
            if let (false, Some(own)) = (bias.is_null(), &layer.bias) {
                grads.register(own.id, tensor(bias, own.val().dims(), run, &plain));
            }
        }
    } else {
        let (logits, loss) = forward(run, model, device);
        seen["logits"] = flat(logits);
        seen["loss"] = flat(loss.clone());
        grads = GradientsParams::from_grads(loss.backward(), model);
    }
    let mut told = Vec::new();
    for (place, layer) in model.layers.iter().enumerate() {
        let frozen = &run["frozen"][place];
        let own = layer.bias.as_ref().expect("every layer has one");
        if is_true(&frozen[0]) {
            grads.remove::<2>(layer.weight.id);
        }
        if is_true(&frozen[1]) {
            grads.remove::<1>(own.id);
        }
        told.push(json!([grads.get::<2>(layer.weight.id).map(flat), grads.get::<1>(own.id).map(flat)]));
    }
    seen["grads"] = json!(told);
    (grads, seen)
}

fn train(run: &Value, steps: &mut Vec<Value>) -> Value {
    let device = Device::flex().autodiff();
    let config: @CONFIG@ = configuration(run);
    let kept = serde_json::to_value(&config).expect("a configuration is JSON");
    steps.push(kept);
    let mut optimizer = config.init();
    let lr = run["lr"].as_f64().expect("a rate");
    let mut model = model(run, &device);
    for step in 0..size(&run["steps"]) {
        let mut seen = Value::Null;
        @STEP@
        seen["params"] = parameters(&model);
        steps.push(seen);
    }
    match run["gradients"].is_null() {
        true => flat(forward(run, &model, &device).1),
        false => Value::Null,
    }
}
