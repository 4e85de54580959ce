//! Learning rates over the updates of a run, by any of burn's schedulers.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use burn::lr_scheduler::module_lr_scheduler::{ModuleLrScheduler, ModuleLrSchedulerConfig};
use burn::lr_scheduler::{LrSchedulerConfig, LrSchedulerRecord};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::json;
use crate::optimizers;
use crate::run::quietly;

/// A schedule whose rates are asked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Its name in the answer.
    pub name: String,
    /// burn's `LrSchedulerConfig` as it serialises.
    pub config: Value,
    /// How many rates.
    pub steps: usize,
    /// After how many of them the scheduler's state is saved, and loaded into a new one that goes
    /// on.
    #[serde(default)]
    pub resume_at: Option<usize>,
}

/// burn's scheduler configuration that `value` serialises.
///
/// Fails with one sentence where it is none, or where burn doesn't know a field of it.
pub fn read(value: &Value) -> Result<LrSchedulerConfig> {
    optimizers::read(value)
}

/// Fails where burn refuses to build a scheduler from `config`.
pub fn build(config: &ModuleLrSchedulerConfig) -> Result<ModuleLrScheduler> {
    let built = config.init();
    built.map_err(|message| anyhow!("burn refuses the scheduler: {message}"))
}

impl Schedule {
    /// The rates that successive calls of burn's `step` give.
    ///
    /// Fails with one sentence where the configuration is wrong or burn panics.
    pub fn rates(&self) -> Result<Vec<f64>> {
        let config = ModuleLrSchedulerConfig::new(read(&self.config)?);
        let resume_at = self.resume_at.unwrap_or(self.steps);
        if resume_at > self.steps {
            bail!("resume_at is {resume_at}, more than {} steps", self.steps);
        }
        let mut rates = Vec::new();
        let reserved = rates.try_reserve_exact(self.steps);
        reserved.with_context(|| format!("there is no memory for {} rates", self.steps))?;
        quietly(|| {
            let mut scheduler = build(&config)?;
            for step in 0..self.steps {
                if self.resume_at == Some(step) {
                    let bytes = scheduler.to_record().into_bytes()?;
                    let record = LrSchedulerRecord::from_bytes(bytes)?;
                    scheduler = build(&config)?.load_record(record);
                }
                rates.push(scheduler.step().base());
            }
            Ok(rates)
        })
    }
}

/// The rates of all schedules of the JSON file at `path`, `{"schedules": [...]}`, by name. What is
/// wrong with one of them stands in its place and leaves the others alone.
pub fn answer(path: &Path) -> Result<Value> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Schedules {
        schedules: Vec<Schedule>,
    }
    let Schedules { schedules } = json::read(path, "list schedules")?;
    let mut found = Map::new();
    for schedule in schedules {
        let rates = match schedule.rates() {
            Ok(rates) => json!({"rates": rates}),
            Err(error) => json!({"error": format!("{error:#}")}),
        };
        if found.insert(schedule.name.clone(), rates).is_some() {
            bail!("schedule {:?} is listed twice", schedule.name);
        }
    }
    Ok(json!({"schedules": found}))
}
