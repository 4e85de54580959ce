//! What to train: the specification of a run, and the batch file that lists many.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use burn::lr_scheduler::LrSchedulerConfig;
use burn::lr_scheduler::module_lr_scheduler::ModuleLrSchedulerConfig;
use burn::module::{Module, ParamGroup, ParamId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::a1::{self, Arithmetic};
use crate::clip::Clip;
use crate::json;
use crate::layout;
use crate::models::{Problem, Work, with_problem};
use crate::optimizers::{self, Configured, Maker, OptionError, Options};
use crate::problem::{Definition, Dtype, Kind, unknown};
use crate::run::quietly;
use crate::schedule;

/// A trace counts steps in int32, and has one more for the loss of the trained model.
const MAX_STEPS: usize = i32::MAX as usize - 1;

/// By what way the clipping among an optimizer's options is given to burn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClippingBy {
    /// `with_grad_clipping` on the optimizer, before the first update.
    #[default]
    Builder,
    /// burn's own `Config::init`, around which nothing can be observed.
    Config,
    /// The third argument of `with_group`, over all parameters.
    Group,
    /// `with_grad_clipping`, after the first update.
    Late,
}

/// Parameters with an optimizer and a rate of their own. Of two groups that list a parameter the
/// last one has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The parameters' names.
    pub parameters: Vec<String>,
    /// burn's name of the optimizer; left out, that of the run.
    #[serde(default)]
    pub optimizer: Option<String>,
    /// Fields of its configuration; the others are left at burn's defaults.
    #[serde(default)]
    pub options: Options,
    /// The learning rate; left out, that of the run.
    #[serde(default)]
    pub lr: Option<f64>,
}

/// What to train.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// `burn/<name>`.
    pub id: String,
    /// burn's name of the optimizer.
    pub optimizer: String,
    /// Fields of its configuration; the others are left at burn's defaults.
    #[serde(default)]
    pub options: Options,
    /// The learning rate. Either this or `scheduler` is given.
    #[serde(default)]
    pub lr: Option<f64>,
    /// The number of updates, all on the same batch.
    pub steps: usize,
    /// Clipping by the training loop.
    #[serde(default)]
    pub clip: Option<Clip>,
    /// The precision in which the inputs and biases of A1 are computed.
    #[serde(default)]
    pub initial_state: Arithmetic,
    /// Files and lines where it was asked for, by `options` and paths below it, for messages.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
    /// The name of the problem; left out, A1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The element type of parameters, inputs, gradients and states.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dtype: Dtype,
    /// burn's `LrSchedulerConfig` as it serialises: update k has the rate that the k-th call of
    /// `step` gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Value>,
    /// The names of the parameters whose `require_grad` is off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frozen: Vec<String>,
    /// Parameters with an optimizer and a rate of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// Into how many equal parts the batch is split, whose gradients are accumulated.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub accumulate: usize,
    /// By what way the clipping among the options is given to burn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clipping_by: ClippingBy,
    /// Whether each step is recorded, or only the parameters before the first and after the last.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub observe: bool,
    /// Where to write parameters and states after the last update.
    #[serde(default, skip_serializing)]
    pub save: Option<PathBuf>,
    /// A file written by `save`, from which to go on.
    #[serde(default, skip_serializing)]
    pub resume: Option<PathBuf>,
    /// How many updates were made when that file was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_step: Option<usize>,
    /// The problem that `problem` names.
    #[serde(skip)]
    pub definition: Option<Arc<Definition>>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn one() -> usize {
    1
}

fn is_one(value: &usize) -> bool {
    *value == 1
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

/// A run that can be trained: its specification, checked, with all that it names.
pub struct Plan {
    /// What is trained.
    pub definition: Arc<Definition>,
    /// The optimizer.
    pub optimizer: Configured,
    /// The optimizers of the groups.
    pub groups: Vec<(ParamGroup, Configured)>,
    /// The rates of all parameters.
    pub rates: ModuleLrSchedulerConfig,
}

impl Plan {
    /// The name of the optimizer of the parameter called `name`.
    pub fn optimizer_of(&self, name: &str) -> &'static str {
        let own = |(group, _): &&(ParamGroup, Configured)| {
            // The id counts for groups of ids only.
            group.matches(&ParamId::from(0), Some(name))
        };
        let group = self.groups.iter().rev().find(own);
        group.map_or(self.optimizer.name, |(_, configured)| configured.name)
    }
}

impl Spec {
    /// A run of A1 with burn's defaults in everything that is not given here.
    pub fn new(id: &str, optimizer: &str, options: Options, lr: f64, steps: usize) -> Self {
        Self {
            id: id.to_string(),
            optimizer: optimizer.to_string(),
            options,
            lr: Some(lr),
            steps,
            clip: None,
            initial_state: Arithmetic::default(),
            sources: BTreeMap::new(),
            problem: None,
            dtype: Dtype::default(),
            scheduler: None,
            frozen: Vec::new(),
            groups: Vec::new(),
            accumulate: 1,
            clipping_by: ClippingBy::default(),
            observe: true,
            save: None,
            resume: None,
            resume_step: None,
            definition: None,
        }
    }

    /// Where its trace stands below `folder`.
    pub fn trace_path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.parquet", self.id))
    }

    /// Checks everything that can be checked before training.
    ///
    /// Fails with one sentence, naming the nearest name where one is unknown.
    pub fn plan(&self) -> Result<Plan> {
        // The name becomes that of a file.
        let name = self.id.strip_prefix("burn/").unwrap_or_default();
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.is_empty() || !name.chars().all(fits) {
            bail!(
                "run id {:?} is not of the form burn/<name>, of letters, digits, - and _",
                self.id
            );
        }
        if !(1..=MAX_STEPS).contains(&self.steps) {
            let (id, steps) = (&self.id, self.steps);
            bail!("steps of run {id} is {steps}; it must be 1 or more and {MAX_STEPS} or less");
        }
        let optimizer = optimizers::configured(&self.optimizer, &self.options);
        let optimizer = optimizer.map_err(|error| self.located(error, "options"))?;
        self.planned(optimizer)
            .map_err(|error| self.located(error, ""))
    }

    fn planned(&self, optimizer: Configured) -> Result<Plan> {
        self.check_conflicts(&optimizer)?;
        if let Some(clip) = &self.clip {
            clip.check()?;
        }
        let definition = self.defined()?;
        // What the checks let through may still be too much for burn.
        let parameters = quietly(|| {
            let device = a1::device();
            with_problem(&definition, self.dtype, &device, self.accumulate, Names)
        });
        let parameters = parameters.with_context(|| match &self.problem {
            Some(problem) => format!("problem {problem}"),
            None => "problem A1".to_string(),
        })?;
        check_parameters(&self.frozen, &parameters).context(Place("frozen".to_string()))?;
        let mut rates = ModuleLrSchedulerConfig::new(self.rate()?);
        let mut groups = Vec::new();
        for (index, group) in self.groups.iter().enumerate() {
            let place = |key: &str| Place(format!("groups.{index}.{key}"));
            if group.parameters.is_empty() {
                return Err(anyhow!("there are none").context(place("parameters")));
            }
            check_parameters(&group.parameters, &parameters).context(place("parameters"))?;
            let name = group.optimizer.as_ref().unwrap_or(&self.optimizer);
            let configured =
                optimizers::configured(name, &group.options).context(place("options"))?;
            if matches!(configured.maker, Maker::Lbfgs(_)) {
                let message = anyhow!("LBFGS has one state for the whole model");
                return Err(message.context(place("optimizer")));
            }
            let paths = ParamGroup::from_paths(group.parameters.clone());
            if let Some(lr) = group.lr {
                check_rate(lr).context(place("lr"))?;
                rates = rates.with_group(paths.clone(), lr);
            }
            groups.push((paths, configured));
        }
        schedule::build(&rates)?;
        Ok(Plan {
            definition,
            optimizer,
            groups,
            rates,
        })
    }

    fn check_conflicts(&self, optimizer: &Configured) -> Result<()> {
        let lbfgs = matches!(optimizer.maker, Maker::Lbfgs(_));
        let by = self.clipping_by;
        if lbfgs && !self.groups.is_empty() {
            bail!("\"groups\" are given, but LBFGS has one state for the whole model");
        }
        if lbfgs && by != ClippingBy::Builder {
            bail!("\"clipping_by\" is given, but LBFGS has no clipping of its own");
        }
        if matches!(by, ClippingBy::Group | ClippingBy::Late) && optimizer.clipping.is_none() {
            bail!("\"clipping_by\" is given, but the \"options\" set no clipping");
        }
        if self.accumulate == 0 {
            bail!("\"accumulate\" is 0; it must be 1 or more");
        }
        match (&self.resume, self.resume_step) {
            (None, None) => {}
            (Some(_), Some(step)) if (1..self.steps).contains(&step) => {}
            (Some(_), Some(step)) => bail!(
                "\"resume_step\" is {step}, not 1 or more and less than {} steps",
                self.steps
            ),
            _ => bail!("\"resume\" and \"resume_step\" are given together or not at all"),
        }
        if self.problem.is_some() && self.initial_state != Arithmetic::Float64 {
            bail!("\"initial_state\" is that of A1, but \"problem\" is given");
        }
        Ok(())
    }

    fn defined(&self) -> Result<Arc<Definition>> {
        let definition = match (&self.problem, &self.definition) {
            (None, _) => return Ok(Arc::new(a1::definition(self.initial_state))),
            (Some(_), Some(definition)) => definition.clone(),
            (Some(name), None) => bail!("unknown problem {name:?}; no problems are given"),
        };
        if definition.model == Kind::Prescribed && self.optimizer == "LBFGS" {
            bail!("LBFGS needs a loss, and a prescribed model has none");
        }
        Ok(definition)
    }

    fn rate(&self) -> Result<LrSchedulerConfig> {
        match (self.lr, &self.scheduler) {
            (Some(lr), None) => {
                check_rate(lr).context(Place("lr".to_string()))?;
                Ok(LrSchedulerConfig::Constant(lr))
            }
            (None, Some(scheduler)) => {
                schedule::read(scheduler).context(Place("scheduler".to_string()))
            }
            (Some(_), Some(_)) => bail!("\"lr\" and \"scheduler\" are both given; give one"),
            (None, None) => bail!("neither \"lr\" nor \"scheduler\" is given; give one"),
        }
    }

    /// `error` with the run, and with the file and line of what it is about: the option that it
    /// names below the [`Place`] that it stands in, or below `place` where it stands in none.
    fn located(&self, error: anyhow::Error, place: &str) -> anyhow::Error {
        let place = error.downcast_ref().map_or(place, |Place(place)| place);
        let option = error.downcast_ref::<OptionError>();
        let path = option.map_or("", |option| option.path.as_str());
        let run = format!("run {}", self.id);
        let context = match self.source(&format!("{place}.{path}")) {
            Some(source) => format!("{source}: {run}"),
            None => run,
        };
        error.context(context)
    }

    /// File and line of the thing at `path`, or of the nearest one around it.
    fn source(&self, path: &str) -> Option<&str> {
        let mut key = path.to_string();
        loop {
            if let Some(source) = self.sources.get(&key) {
                return Some(source);
            }
            key.truncate(key.rfind('.')?);
        }
    }
}

/// Where in a specification something is wrong.
#[derive(Debug)]
struct Place(String);

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The names of a model's parameters.
struct Names;

impl Work for Names {
    type Output = Vec<String>;

    fn on<M: Module>(self, problem: Problem<M>) -> Vec<String> {
        let parameters = layout::parameters(&problem.model).into_iter();
        parameters.map(|parameter| parameter.name).collect()
    }
}

fn check_parameters(names: &[String], known: &[String]) -> Result<()> {
    match names.iter().find(|name| !known.contains(name)) {
        Some(name) => Err(unknown("parameter", name, known.iter().map(String::as_str))),
        None => Ok(()),
    }
}

fn check_rate(lr: f64) -> Result<()> {
    match lr.is_finite() && lr >= 0.0 {
        true => Ok(()),
        false => bail!("{lr} is not a finite number of 0 or more"),
    }
}

/// Reads the specifications of many runs from a JSON file; see [`parse_specs`].
pub fn read_specs(path: &Path) -> Result<Vec<Spec>> {
    let batch = json::read(path, "list runs")?;
    specs(batch, &path.display().to_string())
}

/// The specifications in a JSON text `{"problems": {NAME: {...}}, "runs": [...]}`, of which
/// `problems` may be left out. Messages call it `name`.
///
/// Fails where a key of it or the id of a run is there twice, naming it, or is unknown.
pub fn parse_specs(text: &str, name: &str) -> Result<Vec<Spec>> {
    specs(json::parse(text, name, "list runs")?, name)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch {
    #[serde(default)]
    problems: BTreeMap<String, Definition>,
    runs: Vec<Spec>,
}

fn specs(Batch { problems, mut runs }: Batch, name: &str) -> Result<Vec<Spec>> {
    let mut ids = HashSet::new();
    if let Some(twice) = runs.iter().find(|spec| !ids.insert(spec.id.as_str())) {
        bail!("{name}: run {:?} is listed twice", twice.id);
    }
    let problems = problems.into_iter();
    let problems = problems.map(|(name, definition)| (name, Arc::new(definition)));
    let problems = problems.collect::<BTreeMap<_, _>>();
    for spec in &mut runs {
        let Some(wanted) = &spec.problem else {
            continue;
        };
        let definition = problems.get(wanted).with_context(|| {
            let names = problems.keys().map(String::as_str);
            format!("run {}: {}", spec.id, unknown("problem", wanted, names))
        })?;
        spec.definition = Some(definition.clone());
    }
    Ok(runs)
}
