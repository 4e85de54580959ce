//! Configurations whose optimizers can be recorded.

use burn::config::Config;
use burn::grad_clipping::GradientClippingConfig;
use burn::optim::{
    AdaGradConfig, AdafactorConfig, AdamConfig, AdamWConfig, AdanConfig, LambConfig, LionConfig,
    ModuleOptimizer, MuonConfig, Optimizer, RmsPropConfig, SgdConfig,
};
use serde_json::Value;

use crate::observe::{Observations, Observed};

/// A configuration of one of burn's optimizers that work parameter by parameter.
pub trait Recordable: Config {
    /// burn's name of the optimizer, `AdamW`.
    const NAME: &'static str;
    /// What [`Recordable::bare`] makes.
    type Optimizer: Optimizer;

    /// burn's own `build`: the optimizer without the clipping of its configuration.
    fn bare(&self) -> Self::Optimizer;
}

macro_rules! recordable {
    ($($config:ident $optimizer:ident $name:literal,)*) => {$(
        impl Recordable for $config {
            const NAME: &'static str = $name;
            type Optimizer = burn::optim::$optimizer;

            fn bare(&self) -> Self::Optimizer {
                self.build()
            }
        }
    )*};
}

recordable! {
    SgdConfig Sgd "Sgd",
    AdamConfig Adam "Adam",
    AdamWConfig AdamW "AdamW",
    RmsPropConfig RmsProp "RmsProp",
    AdaGradConfig AdaGrad "AdaGrad",
    AdafactorConfig Adafactor "Adafactor",
    MuonConfig Muon "Muon",
    LionConfig Lion "Lion",
    LambConfig Lamb "Lamb",
    AdanConfig Adan "Adan",
}

/// Every field of a configuration, f32 values as their shortest decimal.
pub(crate) fn fields(config: &impl Config) -> Value {
    let text = serde_json::to_string(config).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// burn's own clipping in the fields of a configuration. Sgd calls it by another name than others.
pub(crate) fn clipping(fields: &Value) -> Option<GradientClippingConfig> {
    let names = ["grad_clipping", "gradient_clipping"];
    let field = names.iter().find_map(|name| fields.get(name))?;
    serde_json::from_value(field.clone()).ok().flatten()
}

/// As the configuration's own `init`, observed.
pub(crate) fn observed<C: Recordable>(config: &C, observations: &Observations) -> ModuleOptimizer {
    let bare = Observed::new(config.bare(), observations.clone()).named(C::NAME);
    let optimizer = ModuleOptimizer::from(bare);
    match clipping(&fields(config)) {
        Some(clipping) => optimizer.with_grad_clipping(clipping.init()),
        None => optimizer,
    }
}
