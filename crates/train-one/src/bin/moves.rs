//! Where the tensors of one step go on burn's side, and what happens with the wrong model.

use std::path::PathBuf;
use std::process::ExitCode;

use burn::module::ParamId;
use burn::optim::GradientsParams;
use clap::Parser;
use pitb_core::cli;
use pitb_core::trace::write_json;
use serde_json::{Value, json};
use train_one::{LEARNING_RATE, fc2_bias, fresh_model, start, vector};

/// Where the tensors of one step of A1 go: keys of the gradients, identity of the parameters,
/// clones, and a step on the wrong model
#[derive(Parser)]
#[command(after_help = "Examples:
  moves
  moves --json moves.json")]
struct Arguments {
    /// Write everything as JSON here instead of printing it
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    cli::main(|| {
        let moves = json!({"step": step(), "wrong_model": wrong_model()});
        match &Arguments::parse().json {
            Some(path) => write_json(path, &moves),
            None => cli::say(console(&moves)),
        }
    })
}

/// One step, each thing that it moves looked at before and after.
fn step() -> Value {
    let (problem, mut model, mut optimizer) = start();
    let clone = model.clone();
    let before = fc2_bias(&model);
    let id = |model: &train_one::Mlp| model.fc2.bias.as_ref().map(|bias| bias.id);
    let bias_id = id(&model).expect("fc2 has a bias");

    let (_, loss) = problem.forward(&model);
    let grads = GradientsParams::from_grads(loss.backward(), &model);
    let key = |name: &str, id: ParamId, rank: usize, is_some: bool| json!({"name": name, "id": id.to_string(), "rank": rank, "is_some": is_some});
    let matrix = |name, id| key(name, id, 2, grads.get::<2>(id).is_some());
    let bias = |name, id| key(name, id, 1, grads.get::<1>(id).is_some());
    let fc1_bias = model.fc1.bias.as_ref().expect("fc1 has a bias").id;
    let keys = [
        matrix("fc1.weight", model.fc1.weight.id),
        bias("fc1.bias", fc1_bias),
        matrix("fc2.weight", model.fc2.weight.id),
        bias("fc2.bias", bias_id),
    ];
    let gradient = grads.get::<1>(bias_id).map(vector);
    let length = grads.len();

    model = optimizer.step(LEARNING_RATE, model, grads);
    json!({
        "gradients_len": length,
        "keys": keys,
        "fc2.bias.grad": shown(gradient.as_deref()),
        "before": shown(Some(&before)),
        "after": shown(Some(&fc2_bias(&model))),
        "clone_after": shown(Some(&fc2_bias(&clone))),
        "clone_equals_before": bits(&fc2_bias(&clone)) == bits(&before),
        "clone_shares_ids": id(&clone) == Some(bias_id),
        "id_unchanged": id(&model) == Some(bias_id),
        "require_grad": model.fc2.weight.val().is_require_grad(),
    })
}

/// Gradients paired with a model of the same values whose parameters have other ids.
fn wrong_model() -> Value {
    let (problem, model, mut optimizer) = start();
    let other = fresh_model();
    let (_, loss) = problem.forward(&model);
    let grads = GradientsParams::from_grads(loss.backward(), &other);
    let length = grads.len();
    let before = fc2_bias(&other);
    let other = optimizer.step(LEARNING_RATE, other, grads);
    json!({"gradients_len": length, "changed": bits(&fc2_bias(&other)) != bits(&before)})
}

/// As `Debug` prints it: the shortest decimals that name the f32.
fn shown(values: Option<&[f32]>) -> Value {
    values.map_or(Value::Null, |values| json!(format!("{values:?}")))
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The console output of the page, rendered from the data.
fn console(moves: &Value) -> String {
    let mut lines = Vec::new();
    let text = |value: &Value| value.as_str().map_or(value.to_string(), str::to_string);
    let (step, wrong) = (&moves["step"], &moves["wrong_model"]);
    lines.push(format!(
        "GradientsParams.len()    {}",
        step["gradients_len"]
    ));
    for key in step["keys"].as_array().into_iter().flatten() {
        let (name, id) = (text(&key["name"]), text(&key["id"]));
        match name.as_str() {
            "fc2.bias" => {
                let gradient = text(&step["fc2.bias.grad"]);
                lines.push(format!("  {name}   id {id}  get::<1> = Some({gradient})"));
            }
            "fc1.bias" => {}
            _ => lines.push(format!(
                "  {name} id {id}  get::<2> is_some = {}",
                key["is_some"]
            )),
        }
    }
    lines.push(format!(
        "fc2.bias before          {}",
        text(&step["before"])
    ));
    lines.push(format!("fc2.bias after step      {}", text(&step["after"])));
    lines.push(format!(
        "clone taken before step  {}",
        text(&step["clone_after"])
    ));
    lines.push(format!(
        "fc2.bias ParamId unchanged: {}",
        step["id_unchanged"]
    ));
    lines.push(format!(
        "param still require_grad: {}",
        step["require_grad"]
    ));
    lines.push(format!(
        "from_grads(.., &other).len() = {}",
        wrong["gradients_len"]
    ));
    lines.push(format!(
        "other fc2.bias changed by step: {}",
        wrong["changed"]
    ));
    lines.join("\n")
}
