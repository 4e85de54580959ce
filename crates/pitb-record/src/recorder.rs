//! The recorder of a training.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Tensor, TensorData};
use serde_json::{Map, Value, json};

use crate::config::{Recordable, clipping, fields, observed};
use crate::keep_path;
use crate::layout::{self, dtype_name};
use crate::names::state_name;
use crate::observe::{Observation, Observations, Observed};
use crate::trace::SCHEMA_VERSION;
use crate::writer::{Item, PartWriter, part_name};

/// What is to be recorded, and where.
#[derive(Clone, Debug)]
pub struct Recording {
    folder: PathBuf,
    every: usize,
    tensors: Option<Vec<String>>,
    start: usize,
    overwrite: bool,
}

/// Records into `folder`, which is made and must hold no trace yet.
pub fn record(folder: impl AsRef<Path>) -> Recording {
    Recording {
        folder: folder.as_ref().to_path_buf(),
        every: 1,
        tensors: None,
        start: 0,
        overwrite: false,
    }
}

impl Recording {
    /// Records the first update and those whose number `every` divides.
    pub fn every(mut self, every: usize) -> Self {
        self.every = every;
        self
    }

    /// Records the tensors of these names alone, PyTorch's; `*` stands for any text, `?` for a
    /// letter.
    pub fn tensors<T: Into<String>>(mut self, patterns: impl IntoIterator<Item = T>) -> Self {
        self.tensors = Some(patterns.into_iter().map(Into::into).collect());
        self
    }

    /// The updates made before, of a training that is taken up again.
    pub fn start_at(mut self, updates: usize) -> Self {
        self.start = updates;
        self
    }

    /// Deletes a trace that the folder holds.
    pub fn overwrite(mut self) -> Self {
        self.overwrite = true;
        self
    }

    /// Starts: writes what the training of `model` starts from, and makes its optimizer, as
    /// `config.init()` does.
    ///
    /// Fails where the folder holds a trace or cannot be made, `every` is 0, or a pattern fits no
    /// tensor.
    pub fn start<M: Module, C: Recordable>(
        self,
        model: &M,
        config: &C,
    ) -> Result<(Recorder, ModuleOptimizer)> {
        if self.every == 0 {
            bail!("every is 0, not a number of 1 or more");
        }
        let all = snapshots(model, None, &None);
        if all.is_empty() {
            bail!("the model has no float parameters");
        }
        for pattern in self.tensors.iter().flatten() {
            if !all.iter().any(|tensor| matches(&tensor.name, pattern)) {
                let names = all.iter().map(|tensor| tensor.name.as_str());
                let names = names.collect::<Vec<_>>().join(", ");
                bail!("tensors: no parameter is like {pattern:?}; there are {names}");
            }
        }
        prepare(&self.folder, self.overwrite)?;
        let options = fields(config);
        let metadata = metadata::<M, C>(&self, &options, &all);
        let observations = Observations::default();
        let optimizer = observed(config, &observations);
        let mut recorder = Recorder {
            writer: PartWriter::new(&self.folder),
            clips: clipping(&options).is_some(),
            metadata,
            step: self.start,
            recorded: None,
            observations,
            recording: self,
            noted: Vec::new(),
            given: None,
            failed: false,
            ended: false,
        };
        recorder.observations.watch(recorder.due(), true);
        let mut block = Vec::new();
        recorder.parameters(recorder.step, model, &mut block);
        recorder.put(block)?;
        Ok((recorder, optimizer))
    }
}

/// Records the updates of a training.
///
/// What it is told by its methods belongs to the next update, so tell it before
/// [`step`](Recorder::step); what is told after the last update belongs to the trained model.
#[derive(Debug)]
pub struct Recorder {
    recording: Recording,
    writer: PartWriter,
    metadata: Map<String, Value>,
    /// Whether the configuration clips.
    clips: bool,
    /// Updates made.
    step: usize,
    /// The last update after which parameters were recorded.
    recorded: Option<usize>,
    observations: Observations,
    /// What was noted of the next update.
    noted: Vec<Item>,
    /// The gradients before clipping, where they were told.
    given: Option<Vec<Snapshot>>,
    failed: bool,
    ended: bool,
}

impl Recorder {
    /// Whether the next update is recorded. What is only made to be recorded need not be made
    /// where it is not.
    pub fn due(&self) -> bool {
        let next = self.step + 1;
        next.is_multiple_of(self.recording.every) || next == self.recording.start + 1
    }

    /// Notes the loss of the next update, a tensor of one element.
    pub fn loss<const D: usize>(&mut self, loss: &Tensor<D>) {
        if self.due() {
            self.keep_loss(loss);
        }
    }

    /// Notes the logits of the next update.
    pub fn logits<const D: usize>(&mut self, logits: &Tensor<D>) {
        if self.due() {
            let data = logits.to_data();
            let shape = data.shape().to_vec();
            self.note("logits", "", shape, data);
        }
    }

    /// Notes a tensor that the next update is computed from.
    pub fn input<const D: usize>(&mut self, name: &str, input: &Tensor<D>) {
        if self.due() {
            let data = input.to_data();
            let shape = data.shape().to_vec();
            self.note("input", name, shape, data);
        }
    }

    /// Takes these gradients for those before clipping. Needed where the training itself clips
    /// them; then what [`step`](Recorder::step) is given is recorded beside them.
    pub fn gradients<M: Module>(&mut self, model: &M, gradients: &GradientsParams) {
        if self.due() {
            self.given = Some(snapshots(model, Some(gradients), &self.recording.tensors));
        }
    }

    /// `optimizer`, to be given to [`ModuleOptimizer::with_group`], observed. As with burn's own
    /// `build`, its configuration's clipping is the third argument of that.
    pub fn observe<C: Recordable>(&self, config: &C) -> Observed<C::Optimizer> {
        Observed::new(config.bare(), self.observations.clone()).named(C::NAME)
    }

    /// One update, `optimizer.step(rates, model, gradients)`, recorded where it is due.
    ///
    /// Fails where a part cannot be written.
    pub fn step<M: Module>(
        &mut self,
        optimizer: &mut ModuleOptimizer,
        rates: impl Into<ModuleLearningRate>,
        model: M,
        gradients: GradientsParams,
    ) -> Result<M> {
        let rates = rates.into();
        let base = rates.base();
        if self.step == self.recording.start {
            self.metadata["configuration"]["lr"] = json!(base);
        }
        if !self.due() {
            let model = optimizer.step(rates, model, gradients);
            self.after();
            return Ok(model);
        }
        let before = self.step;
        let step = before + 1;
        let mut block = Vec::new();
        let earlier = self.recorded != Some(before);
        if earlier {
            self.parameters(before, &model, &mut block);
        }
        let all = snapshots(&model, Some(&gradients), &None);
        let order = all
            .iter()
            .map(|tensor| (tensor.id, tensor.name.clone(), tensor.transposed));
        let order = order.collect::<Vec<_>>();
        let clips = self.clips || self.given.is_some();
        let first = self.given.take().unwrap_or(all);
        let model = optimizer.step(rates, model, gradients);
        let seen = self.observations.take();
        if seen.len() != order.len() {
            bail!(
                "{} of {} gradients were seen at update {step}; give step() the optimizer that \
                 start() made, and add groups to it by observe()",
                seen.len(),
                order.len()
            );
        }
        let wanted = |name: &str| wanted(&self.recording.tensors, name);
        let seen = order
            .into_iter()
            .zip(seen)
            .map(|((_, name, transposed), seen)| Seen {
                name,
                transposed,
                seen,
            });
        let seen = seen.filter(|it| wanted(&it.name)).collect::<Vec<_>>();
        if earlier {
            states(before, &seen, true, &mut block);
        }
        block.append(&mut self.noted);
        for tensor in first.into_iter().filter(|it| wanted(&it.name)) {
            block.push(tensor.item(step, "grad"));
        }
        if clips {
            for it in &seen {
                block.push(it.item(step, "clipped_grad", it.seen.gradient.clone()));
            }
        }
        block.push(number(step, "lr", "", base));
        if seen.iter().any(|it| it.seen.lr != base) {
            for it in &seen {
                block.push(number(step, "lr", &it.name, it.seen.lr));
            }
        }
        self.parameters(step, &model, &mut block);
        states(step, &seen, false, &mut block);
        drop(seen);
        self.after();
        self.put(block)?;
        Ok(model)
    }

    /// Ends the trace; `model` is the trained one.
    ///
    /// Fails where a part cannot be written.
    pub fn finish<M: Module>(mut self, model: &M) -> Result<()> {
        let mut block = Vec::new();
        if self.recorded != Some(self.step) {
            self.parameters(self.step, model, &mut block);
        }
        block.append(&mut self.noted);
        self.metadata["configuration"]["steps"] = json!(self.step);
        self.ended = true;
        let metadata = self.metadata.clone();
        self.writer
            .end(block, metadata, true)
            .with_context(|| self.where_to())
    }

    /// Notes the loss of the trained model, whether or not another update would be recorded.
    pub fn last_loss<const D: usize>(&mut self, loss: &Tensor<D>) {
        self.noted.clear();
        self.keep_loss(loss);
    }

    fn keep_loss<const D: usize>(&mut self, loss: &Tensor<D>) {
        let data = loss.to_data();
        assert_eq!(data.num_elements(), 1, "the loss is one number");
        self.note("loss", "", Vec::new(), data);
    }

    fn note(&mut self, quantity: &str, tensor: &str, shape: Vec<usize>, data: TensorData) {
        let order = ["input", "logits", "loss"];
        let place = |quantity: &str| order.iter().position(|known| *known == quantity);
        let item = Item {
            step: self.step + 1,
            quantity: quantity.to_string(),
            tensor: tensor.to_string(),
            shape,
            dtype: dtype_name(data.dtype()),
            data,
            transposed: false,
        };
        self.noted
            .retain(|old| (old.quantity.as_str(), old.tensor.as_str()) != (quantity, tensor));
        self.noted.push(item);
        self.noted.sort_by_key(|item| place(&item.quantity));
    }

    fn after(&mut self) {
        self.step += 1;
        self.noted.clear();
        self.given = None;
        let due = self.due();
        self.observations
            .watch(due, self.recorded != Some(self.step));
    }

    fn parameters<M: Module>(&mut self, step: usize, model: &M, block: &mut Vec<Item>) {
        let found = snapshots(model, None, &self.recording.tensors);
        block.extend(found.into_iter().map(|tensor| tensor.item(step, "param")));
        self.recorded = Some(step);
    }

    fn put(&mut self, block: Vec<Item>) -> Result<()> {
        let put = self.writer.put(block, self.metadata.clone());
        self.failed = put.is_err();
        put.with_context(|| self.where_to())
    }

    fn where_to(&self) -> String {
        format!("cannot record into {}", self.recording.folder.display())
    }
}

impl Drop for Recorder {
    /// A recorder that was not finished leaves a trace that says so.
    fn drop(&mut self) {
        if self.ended || self.failed {
            return;
        }
        let why = match std::thread::panicking() {
            true => "the training panicked",
            false => "the training returned before finish()",
        };
        self.metadata.insert("error".to_string(), json!(why));
        let metadata = std::mem::take(&mut self.metadata);
        if let Err(error) = self.writer.end(Vec::new(), metadata, false) {
            // There is nobody to return it to.
            eprintln!("error: {}: {error:#}", self.where_to());
        }
    }
}

/// One parameter in one step.
struct Seen {
    name: String,
    transposed: bool,
    seen: Observation,
}

impl Seen {
    fn item(&self, step: usize, quantity: &str, data: TensorData) -> Item {
        // A state is laid out as the parameter is, also one that has a row or a column alone.
        item(step, quantity, &self.name, data, self.transposed)
    }
}

/// States under PyTorch's names, sorted by name so that both sides write them in one order.
fn states(step: usize, seen: &[Seen], earlier: bool, block: &mut Vec<Item>) {
    let mut found: BTreeMap<String, Vec<Item>> = BTreeMap::new();
    for it in seen {
        let dimensions = it.seen.gradient.shape().len();
        let quantity = |name: &String| {
            let pytorch = state_name(it.seen.optimizer, name, dimensions, it.transposed);
            format!("state.{pytorch}")
        };
        let (tensors, scalars) = match (earlier, &it.seen.earlier) {
            (false, _) => (&it.seen.tensors, &it.seen.scalars),
            (true, Some(state)) => (&state.tensors, &state.scalars),
            (true, None) => continue,
        };
        for (name, value, dtype) in scalars {
            let quantity = quantity(name);
            let mut item = number(step, &quantity, &it.name, *value);
            item.dtype = dtype;
            found.entry(quantity).or_default().push(item);
        }
        for (name, data) in tensors {
            let quantity = quantity(name);
            let item = it.item(step, &quantity, data.clone());
            found.entry(quantity).or_default().push(item);
        }
    }
    block.extend(found.into_values().flatten());
}

/// A tensor as burn has it, under PyTorch's name.
#[derive(Debug)]
struct Snapshot {
    name: String,
    id: ParamId,
    transposed: bool,
    data: TensorData,
}

impl Snapshot {
    fn item(self, step: usize, quantity: &str) -> Item {
        item(step, quantity, &self.name, self.data, self.transposed)
    }
}

fn item(step: usize, quantity: &str, tensor: &str, data: TensorData, transposed: bool) -> Item {
    let mut shape = data.shape().to_vec();
    let transposed = transposed && shape.len() == 2;
    if transposed {
        shape.reverse();
    }
    Item {
        step,
        quantity: quantity.to_string(),
        tensor: tensor.to_string(),
        shape,
        dtype: dtype_name(data.dtype()),
        data,
        transposed,
    }
}

fn number(step: usize, quantity: &str, tensor: &str, value: f64) -> Item {
    let data = TensorData::new(vec![value], [1]);
    let mut item = item(step, quantity, tensor, data, false);
    item.shape.clear();
    item
}

/// The parameters of `module`, or the gradients that `gradients` holds for them, as
/// [`layout::parameters`] and [`layout::gradients`] have them, but not yet in PyTorch's layout:
/// that is the writer's work.
fn snapshots<M: Module>(
    module: &M,
    gradients: Option<&GradientsParams>,
    patterns: &Option<Vec<String>>,
) -> Vec<Snapshot> {
    let mut visitor = Visitor {
        gradients,
        patterns,
        path: layout::Path::default(),
        found: Vec::new(),
    };
    module.visit(&mut visitor);
    visitor.found
}

struct Visitor<'a> {
    gradients: Option<&'a GradientsParams>,
    patterns: &'a Option<Vec<String>>,
    path: layout::Path,
    found: Vec<Snapshot>,
}

impl ModuleVisitor for Visitor<'_> {
    keep_path!();

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let name = self.path.name();
        if !wanted(self.patterns, &name) {
            return;
        }
        let data = match self.gradients {
            None => Some(param.val().into_data()),
            Some(_) if self.found.iter().any(|found| found.id == param.id) => None,
            Some(gradients) => gradients.get::<D>(param.id).map(Tensor::into_data),
        };
        let Some(data) = data else { return };
        self.found.push(Snapshot {
            name,
            id: param.id,
            transposed: self.path.transposed(),
            data,
        });
    }
}

fn wanted(patterns: &Option<Vec<String>>, name: &str) -> bool {
    let patterns = patterns.as_ref();
    patterns.is_none_or(|patterns| patterns.iter().any(|pattern| matches(name, pattern)))
}

/// Whether a name is like a pattern with `*` and `?`.
fn matches(name: &str, pattern: &str) -> bool {
    let mut pattern_chars = pattern.chars();
    match pattern_chars.next() {
        None => name.is_empty(),
        Some('*') => {
            let rest = pattern_chars.as_str();
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.into_iter().any(|at| matches(&name[at..], rest))
        }
        Some(wanted) => {
            let mut name_chars = name.chars();
            let first = name_chars.next();
            first.is_some_and(|first| wanted == '?' || wanted == first)
                && matches(name_chars.as_str(), pattern_chars.as_str())
        }
    }
}

/// Makes the folder; deletes a trace in it where that is wanted.
fn prepare(folder: &Path, overwrite: bool) -> Result<()> {
    let shown = folder.display();
    fs::create_dir_all(folder).with_context(|| format!("cannot make {shown}"))?;
    let is_part = |name: &str| {
        let name = name.strip_prefix('.').unwrap_or(name);
        let name = name.strip_suffix(".part").unwrap_or(name);
        name.starts_with("part-") && name.ends_with(".parquet")
    };
    let mut found = Vec::new();
    for file in fs::read_dir(folder).with_context(|| format!("cannot read {shown}"))? {
        let path = file?.path();
        if path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(is_part)
        {
            found.push(path);
        }
    }
    if !found.is_empty() && !overwrite {
        bail!(
            "{shown} holds a trace already ({}); record into another folder, or with overwrite()",
            part_name(0)
        );
    }
    // From the last to the first, so that what a kill leaves is a trace without its end.
    found.sort();
    for path in found.iter().rev() {
        fs::remove_file(path).with_context(|| format!("cannot delete {}", path.display()))?;
    }
    Ok(())
}

/// The name of a model's type, without its path and its generics.
fn model_name<M>() -> &'static str {
    let full = std::any::type_name::<M>();
    let path = full.split('<').next().unwrap_or(full);
    path.rsplit("::").next().unwrap_or(path)
}

fn metadata<M, C: Recordable>(
    recording: &Recording,
    options: &Value,
    all: &[Snapshot],
) -> Map<String, Value> {
    let folder = fs::canonicalize(&recording.folder).unwrap_or_else(|_| recording.folder.clone());
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let mut ids = std::collections::HashSet::new();
    let unique = all.iter().filter(|tensor| ids.insert(tensor.id));
    let count = unique
        .map(|tensor| tensor.data.num_elements())
        .sum::<usize>();
    let tensors = all.iter().map(|tensor| {
        let mut shape = tensor.data.shape().to_vec();
        if tensor.transposed {
            shape.reverse();
        }
        json!({"name": tensor.name, "shape": shape})
    });
    let mut found = Map::new();
    found.insert("schema".to_string(), json!(SCHEMA_VERSION));
    found.insert("run".to_string(), json!(format!("burn/{name}")));
    found.insert("side".to_string(), json!("burn"));
    found.insert(
        "configuration".to_string(),
        json!({"optimizer": C::NAME, "options": options, "lr": null, "every": recording.every}),
    );
    if recording.start > 0 {
        found["configuration"]["resume_step"] = json!(recording.start);
    }
    found.insert(
        "model".to_string(),
        json!({"name": model_name::<M>(), "parameters": count, "tensors": tensors.collect::<Vec<_>>()}),
    );
    let dtype = all
        .first()
        .map_or("float32", |tensor| dtype_name(tensor.data.dtype()));
    found.insert("dtype".to_string(), json!(dtype));
    found.insert("versions".to_string(), crate::versions());
    found
}
