//! Trains @CONFIG@ on linear layers, for versions of burn whose types name a backend.
//! Made by `pitb watch`.

use burn::backend::{Autodiff, @BACKEND@};
use burn::module::{Module, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{@CONFIG@, GradientsParams};
#[allow(unused_imports)]
use burn::optim::Optimizer as _;
use burn::tensor::activation::relu;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{DType, Int, Tensor, TensorData};
use serde_json::{Value, json};

include!("../shared.rs");

type Own = Autodiff<@BACKEND@>;
type Plain = <Own as AutodiffBackend>::InnerBackend;

#[derive(Module, Debug)]
struct Model<B: Backend> {
    layers: Vec<Linear<B>>,
}

fn tensor<B: Backend, const D: usize>(values: &Value, shape: [usize; D], run: &Value) -> Tensor<B, D> {
    let values = numbers(values);
    let device = B::Device::default();
    match is_double(run) {
        true => Tensor::from_data(TensorData::new(values, shape), (&device, DType::F64)),
        false => {
            let values = values.into_iter().map(|value| value as f32).collect::<Vec<_>>();
            Tensor::from_data(TensorData::new(values, shape), (&device, DType::F32))
        }
    }
}

fn flat<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Value {
    said(tensor.to_data().iter::<f64>())
}

fn model(run: &Value) -> Model<Own> {
    let device = Default::default();
    let layers = run["layers"].as_array().expect("a list").iter().map(|given| {
        let shape = [size(&given["inputs"]), size(&given["outputs"])];
        let mut layer = LinearConfig::new(shape[0], shape[1]).init(&device);
        layer.weight = Param::from_tensor(tensor(&given["weight"], shape, run));
        layer.bias = Some(Param::from_tensor(tensor(&given["bias"], [shape[1]], run)));
        layer
    });
    Model { layers: layers.collect() }
}

fn parameters(model: &Model<Own>) -> Value {
    let each = model.layers.iter();
    let each = each.map(|it| json!([flat(it.weight.val()), it.bias.as_ref().map(|b| flat(b.val()))]));
    each.collect()
}

fn forward(run: &Value, model: &Model<Own>) -> (Tensor<Own, 2>, Tensor<Own, 1>) {
    let device = Default::default();
    let rows = size(&run["rows"]);
    let x = tensor(&run["x"], [rows, size(&run["layers"][0]["inputs"])], run);
    let y = numbers(&run["y"]).into_iter().map(|class| class as i64).collect::<Vec<_>>();
    let y = Tensor::<Own, 1, Int>::from_data(TensorData::new(y, [rows]), (&device, DType::I64));
    let logits = model.layers[1].forward(relu(model.layers[0].forward(x)));
    let loss = CrossEntropyLossConfig::new().init(&device).forward(logits.clone(), y);
    (logits, loss)
}

/// The gradients of an update, and what is to be told of it.
fn gradients(run: &Value, step: usize, model: &Model<Own>) -> (GradientsParams, Value) {
    let mut seen = json!({});
    let mut grads = GradientsParams::new();
    if let Some(sets) = run["gradients"].as_array() {
        let set = &sets[step % sets.len()];
        for (place, layer) in model.layers.iter().enumerate() {
            let [weight, bias] = [&set[place][0], &set[place][1]];
            if !weight.is_null() {
                let shape = layer.weight.val().dims();
                grads.register(layer.weight.id, tensor::<Plain, 2>(weight, shape, run));
            }
            if let (false, Some(own)) = (bias.is_null(), &layer.bias) {
                grads.register(own.id, tensor::<Plain, 1>(bias, own.val().dims(), run));
            }
        }
    } else {
        let (logits, loss) = forward(run, model);
        seen["logits"] = flat(logits);
        seen["loss"] = flat(loss.clone());
        grads = GradientsParams::from_grads(loss.backward(), model);
    }
    let mut told = Vec::new();
    for (place, layer) in model.layers.iter().enumerate() {
        let frozen = &run["frozen"][place];
        let own = layer.bias.as_ref().expect("every layer has one");
        if is_true(&frozen[0]) {
            grads.remove::<Plain, 2>(layer.weight.id);
        }
        if is_true(&frozen[1]) {
            grads.remove::<Plain, 1>(own.id);
        }
        let weight = grads.get::<Plain, 2>(layer.weight.id).map(flat);
        told.push(json!([weight, grads.get::<Plain, 1>(own.id).map(flat)]));
    }
    seen["grads"] = json!(told);
    (grads, seen)
}

fn train(run: &Value, steps: &mut Vec<Value>) -> Value {
    let config: @CONFIG@ = configuration(run);
    let kept = serde_json::to_value(&config).expect("a configuration is JSON");
    steps.push(kept);
    let mut optimizer = config.init@TYPES@();
    let lr = run["lr"].as_f64().expect("a rate");
    let mut model = model(run);
    for step in 0..size(&run["steps"]) {
        let mut seen = Value::Null;
        @STEP@
        seen["params"] = parameters(&model);
        steps.push(seen);
    }
    match run["gradients"].is_null() {
        true => flat(forward(run, &model).1),
        false => Value::Null,
    }
}
