//! Any of burn's optimizers from its name and any of its configuration's fields.
//!
//! A configuration is made by merging options into the serialised default. burn drops keys that
//! it does not know without a word, so the result is serialised again and compared with what was
//! asked for.

use anyhow::{Context, Result, anyhow};
use burn::config::Config;
use burn::grad_clipping::{GradientClipping, GradientClippingConfig};
use burn::module::ParamGroup;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{
    AdaGradConfig, AdafactorConfig, AdamConfig, AdamWConfig, AdanConfig, LBFGSConfig, LambConfig,
    LionConfig, ModuleOptimizer, MuonConfig, Optimizer, RmsPropConfig, SgdConfig,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::observe::{Observations, Observed};
pub use pitb_record::state_name;

/// Options as burn's configurations serialise them: field names to values, nested where they are.
pub type Options = Map<String, Value>;

/// A configured optimizer.
pub struct Configured {
    /// burn's name of it.
    pub name: &'static str,
    /// Every field, those left at their defaults too.
    pub options: Value,
    /// burn's `Debug` of the configuration.
    pub debug: String,
    /// How burn clips gradients itself, where it does.
    pub clipping: Option<GradientClipping>,
    /// What makes it.
    pub maker: Maker,
}

/// What makes an optimizer without state.
pub enum Maker {
    /// One that works parameter by parameter.
    Module(Box<dyn ModuleMaker>),
    /// L-BFGS, which evaluates the loss itself.
    Lbfgs(LBFGSConfig),
}

/// Makes optimizers that work parameter by parameter. What their steps see goes into
/// `observations`, where given.
pub trait ModuleMaker {
    /// As burn's own `Config::init` does, with the clipping of its options.
    fn init(&self) -> ModuleOptimizer;

    /// Without clipping.
    fn build(&self, observations: Option<&Observations>) -> ModuleOptimizer;

    /// Adds it to `optimizer` for the parameters of `group`.
    fn add(
        &self,
        optimizer: ModuleOptimizer,
        group: ParamGroup,
        clipping: Option<GradientClipping>,
        observations: Option<&Observations>,
    ) -> ModuleOptimizer;
}

struct Made<C, O> {
    config: C,
    init: fn(&C) -> ModuleOptimizer,
    build: fn(&C) -> O,
}

impl<C, O: Optimizer> ModuleMaker for Made<C, O> {
    fn init(&self) -> ModuleOptimizer {
        (self.init)(&self.config)
    }

    fn build(&self, observations: Option<&Observations>) -> ModuleOptimizer {
        let optimizer = (self.build)(&self.config);
        match observations {
            None => ModuleOptimizer::from(optimizer),
            Some(observations) => {
                ModuleOptimizer::from(Observed::new(optimizer, observations.clone()))
            }
        }
    }

    fn add(
        &self,
        optimizer: ModuleOptimizer,
        group: ParamGroup,
        clipping: Option<GradientClipping>,
        observations: Option<&Observations>,
    ) -> ModuleOptimizer {
        let own = (self.build)(&self.config);
        match observations {
            None => optimizer.with_group(group, own, clipping),
            Some(observations) => {
                let own = Observed::new(own, observations.clone());
                optimizer.with_group(group, own, clipping)
            }
        }
    }
}

/// An option that burn does not accept.
#[derive(Debug)]
pub struct OptionError {
    /// Its path in the configuration, with dots.
    pub path: String,
    message: String,
}

impl OptionError {
    fn new(path: &str, message: String) -> Self {
        let path = path.to_string();
        Self { path, message }
    }

    fn unknown(name: &str, near: &str) -> Self {
        Self::new(
            name,
            format!("unknown field {name:?}; the nearest is {near:?}"),
        )
    }
}

impl std::fmt::Display for OptionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for OptionError {}

/// burn's name of an optimizer, the name of its configuration, and how to configure it.
struct Kind {
    name: &'static str,
    config: &'static str,
    configure: fn(&'static str, &Options) -> Result<Configured>,
}

macro_rules! kind {
    ($name:literal, $config:ident) => {
        Kind {
            name: $name,
            config: stringify!($config),
            configure: |name, options| {
                configure(name, $config::new(), options, $config::init, $config::build)
            },
        }
    };
}

/// All optimizers of burn 0.22.
const KINDS: [Kind; 11] = [
    kind!("Sgd", SgdConfig),
    kind!("Adam", AdamConfig),
    kind!("AdamW", AdamWConfig),
    kind!("RmsProp", RmsPropConfig),
    kind!("AdaGrad", AdaGradConfig),
    kind!("Adafactor", AdafactorConfig),
    kind!("Muon", MuonConfig),
    kind!("Lion", LionConfig),
    kind!("Lamb", LambConfig),
    kind!("Adan", AdanConfig),
    Kind {
        name: "LBFGS",
        config: "LBFGSConfig",
        configure: configure_lbfgs,
    },
];

/// The names of all optimizers.
pub fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name)
}

/// Configures the optimizer called `name` (burn's struct name, `RmsProp`) with `options` set and
/// every other field at burn's default.
///
/// Fails with one sentence where the optimizer or a field is unknown, naming the nearest one, or
/// where a value has the wrong type.
pub fn configured(name: &str, options: &Options) -> Result<Configured> {
    let kind = KINDS.iter().find(|kind| kind.name == name);
    let kind = kind.ok_or_else(|| {
        let near = nearest(name, names());
        anyhow!("unknown optimizer {name:?}; the nearest is {near:?}")
    })?;
    (kind.configure)(kind.name, options)
        .with_context(|| format!("{} of optimizer {name}", kind.config))
}

/// burn's defaults: for each configuration, its `Debug` and its fields. Sub-configurations with
/// defaults of their own stand beside the optimizers'.
pub fn defaults() -> Result<Value> {
    let mut found = Map::new();
    for kind in &KINDS {
        let configured = (kind.configure)(kind.name, &Options::new())?;
        found.insert(
            kind.config.to_string(),
            json!({"optimizer": kind.name, "debug": configured.debug, "fields": configured.options}),
        );
    }
    let momentum = MomentumConfig::new();
    found.insert(
        "MomentumConfig".to_string(),
        json!({"debug": format!("{momentum:?}"), "fields": serialised(&momentum)?}),
    );
    Ok(Value::Object(found))
}

fn configure<C, O>(
    name: &'static str,
    default: C,
    options: &Options,
    init: fn(&C) -> ModuleOptimizer,
    build: fn(&C) -> O,
) -> Result<Configured>
where
    C: Config + 'static,
    O: Optimizer,
{
    let config = merged(&default, options)?;
    let options = serialised(&config)?;
    Ok(Configured {
        name,
        debug: format!("{config:?}"),
        clipping: clipping(&options)?,
        options,
        maker: Maker::Module(Box::new(Made {
            config,
            init,
            build,
        })),
    })
}

fn configure_lbfgs(name: &'static str, options: &Options) -> Result<Configured> {
    let config = merged(&LBFGSConfig::new(), options)?;
    Ok(Configured {
        name,
        debug: format!("{config:?}"),
        options: serialised(&config)?,
        clipping: None,
        maker: Maker::Lbfgs(config),
    })
}

fn clipping(options: &Value) -> Result<Option<GradientClipping>> {
    // Sgd calls the field by another name than the others.
    let fields = ["grad_clipping", "gradient_clipping"];
    let field = fields.iter().find_map(|field| options.get(field));
    match field {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let config: GradientClippingConfig = serde_json::from_value(value.clone())?;
            Ok(Some(config.init()))
        }
    }
}

/// The fields of `config`, f32 values as their shortest decimal (0.9, not 0.8999999761581421).
fn serialised<C: Config>(config: &C) -> Result<Value> {
    Ok(serde_json::from_str(&serde_json::to_string(config)?)?)
}

/// `default` with `options` merged in.
fn merged<C: Config + DeserializeOwned>(default: &C, options: &Options) -> Result<C> {
    let mut wanted = serialised(default)?;
    merge(&mut wanted, options, "")?;
    read(&wanted)
}

/// The configuration that `wanted` serialises.
///
/// Fails where it is none, or where burn's reading lost or changed something of it.
pub fn read<C: Config + DeserializeOwned>(wanted: &Value) -> Result<C> {
    let config: C = serde_path_to_error::deserialize(wanted).map_err(|error| {
        let path = error.path().to_string();
        OptionError::new(
            &path,
            format!("{path:?} has the wrong type: {}", error.inner()),
        )
    })?;
    check_kept(wanted, &serialised(&config)?, "")?;
    Ok(config)
}

fn merge(into: &mut Value, options: &Options, path: &str) -> Result<()> {
    let Value::Object(fields) = into else {
        let message = format!("{path:?} has no fields of its own");
        return Err(OptionError::new(path, message).into());
    };
    for (key, value) in options {
        let name = join(path, key);
        let Some(field) = fields.get_mut(key) else {
            let near = nearest(key, fields.keys().map(String::as_str));
            return Err(OptionError::unknown(&name, &join(path, near)).into());
        };
        match (&mut *field, value) {
            (Value::Object(_), Value::Object(inner)) => merge(field, inner, &name)?,
            // An optional sub-configuration defaults to null, which hides its own defaults.
            (Value::Null, Value::Object(inner)) if key == "momentum" => {
                let mut own = serialised(&MomentumConfig::new())?;
                merge(&mut own, inner, &name)?;
                *field = own;
            }
            _ => *field = value.clone(),
        }
    }
    Ok(())
}

/// Fails where burn's reading of the configuration lost or changed something that was asked for.
fn check_kept(wanted: &Value, kept: &Value, path: &str) -> Result<()> {
    match (wanted, kept) {
        (Value::Object(wanted), Value::Object(kept)) => {
            for (key, value) in wanted {
                let name = join(path, key);
                let Some(kept_value) = kept.get(key) else {
                    let near = nearest(key, kept.keys().map(String::as_str));
                    return Err(OptionError::unknown(&name, &join(path, near)).into());
                };
                check_kept(value, kept_value, &name)?;
            }
            Ok(())
        }
        (Value::Array(wanted), Value::Array(kept)) if wanted.len() == kept.len() => {
            let pairs = wanted.iter().zip(kept).enumerate();
            for (index, (wanted, kept)) in pairs {
                check_kept(wanted, kept, &format!("{path}[{index}]"))?;
            }
            Ok(())
        }
        (Value::Number(wanted), Value::Number(kept)) if same_number(wanted, kept) => Ok(()),
        _ if wanted == kept => Ok(()),
        _ => {
            let message = format!("{path:?} was set to {wanted}, but burn reads {kept}");
            Err(OptionError::new(path, message).into())
        }
    }
}

/// Equal, or equal once rounded to f32, as most fields of burn's configurations are.
fn same_number(a: &serde_json::Number, b: &serde_json::Number) -> bool {
    match (a.as_f64(), b.as_f64()) {
        // What f32 cannot tell from 0 was meant to be something else.
        (Some(a), Some(b)) => a == b || (a as f32 == b as f32 && b != 0.0),
        _ => false,
    }
}

fn join(path: &str, key: &str) -> String {
    match path {
        "" => key.to_string(),
        _ => format!("{path}.{key}"),
    }
}

/// The candidate that `name` was most likely meant to be.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> &'a str {
    let likeness =
        |candidate: &str| strsim::jaro_winkler(&name.to_lowercase(), &candidate.to_lowercase());
    candidates
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .unwrap_or("none")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(value: Value) -> Options {
        match value {
            Value::Object(fields) => fields,
            _ => panic!("options are an object"),
        }
    }

    fn message(name: &str, value: Value) -> String {
        let error = configured(name, &options(value)).err().expect("refused");
        format!("{error:#}")
    }

    #[test]
    fn every_optimizer_configures_with_nothing_set() {
        for name in names() {
            configured(name, &Options::new()).expect(name);
        }
    }

    #[test]
    fn an_f32_field_keeps_its_short_decimal() {
        let found = configured("RmsProp", &options(json!({"momentum": 0.9}))).unwrap();
        assert_eq!(found.options["momentum"].to_string(), "0.9");
    }

    #[test]
    fn an_optional_sub_configuration_keeps_its_own_defaults() {
        let found = configured("Sgd", &options(json!({"momentum": {"dampening": 0.0}}))).unwrap();
        let expected = json!({"momentum": 0.9, "dampening": 0.0, "nesterov": false});
        assert_eq!(found.options["momentum"], expected);
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        let cases = [
            ("RmsProp", json!({"eps": 1e-8}), "\"epsilon\""),
            (
                "Sgd",
                json!({"momentum": {"nestrov": true}}),
                "\"momentum.nesterov\"",
            ),
            (
                "Sgd",
                json!({"weight_decay": {"penalty": 0.1, "penalti": 1}}),
                "\"weight_decay.penalty\"",
            ),
            ("Rmsprop", json!({}), "\"RmsProp\""),
        ];
        for (name, value, expected) in cases {
            let message = message(name, value);
            assert!(message.contains("unknown"), "{message}");
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn a_value_of_the_wrong_type_is_refused() {
        let message = message("RmsProp", json!({"centered": "no"}));
        assert!(
            message.contains("\"centered\" has the wrong type"),
            "{message}"
        );
        assert!(message.contains("RmsPropConfig"), "{message}");
    }

    #[test]
    fn a_number_that_burn_cannot_hold_is_refused() {
        let message = message("LBFGS", json!({"max_iter": -1}));
        assert!(message.contains("wrong type"), "{message}");
    }

    #[test]
    fn a_number_that_f32_rounds_to_zero_is_refused() {
        let message = message("RmsProp", json!({"epsilon": 1e-50}));
        assert!(
            message.contains("\"epsilon\" was set to 1e-50"),
            "{message}"
        );
        assert!(configured("RmsProp", &options(json!({"momentum": 0.0}))).is_ok());
    }

    #[test]
    fn the_registry_maps_states_to_pytorch_names() {
        assert_eq!(
            state_name("AdamW", "momentum.moment_1", 1, false),
            "exp_avg"
        );
        assert_eq!(state_name("LBFGS", "history_s", 1, false), "old_stps");
        for (dimensions, transposed, name) in [
            (1, false, "variance"),
            (4, false, "row_var"),
            (2, true, "col_var"),
        ] {
            let found = state_name("Adafactor", "second_moment", dimensions, transposed);
            assert_eq!(found, name);
        }
        assert_eq!(state_name("Adafactor", "new_moment", 2, true), "new_moment");
    }
}
