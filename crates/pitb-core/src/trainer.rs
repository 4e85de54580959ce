//! The optimizer of a run with its rates, as the specification wants them put together.

use anyhow::Result;
use burn::grad_clipping::GradientClipping;
use burn::lr_scheduler::module_lr_scheduler::{ModuleLearningRate, ModuleLrScheduler};
use burn::module::{Module, ParamGroup};
use burn::optim::{GradientsParams, LBFGS, ModuleOptimizer};

use crate::observe::Observations;
use crate::optimizers::{Maker, ModuleMaker};
use crate::schedule;
use crate::spec::{ClippingBy, Plan};

/// An optimizer with its state.
pub enum Optimizer {
    /// One that works parameter by parameter.
    Module(Updater),
    /// L-BFGS, which evaluates the loss itself.
    Lbfgs(Box<LBFGS>),
}

/// An optimizer that works parameter by parameter.
pub struct Updater {
    /// burn's optimizer.
    pub inner: ModuleOptimizer,
    /// The clipping that it is given after its first update.
    late: Option<GradientClipping>,
}

/// The optimizer of a run with its rates.
pub struct Trainer {
    /// The optimizer.
    pub optimizer: Optimizer,
    /// The rates of the updates to come.
    pub rates: ModuleLrScheduler,
}

impl Trainer {
    /// A trainer without state. What its steps see goes into `observations`, where given.
    pub fn new(
        plan: &Plan,
        clipping_by: ClippingBy,
        observations: Option<&Observations>,
    ) -> Result<Self> {
        let optimizer = match &plan.optimizer.maker {
            Maker::Lbfgs(config) => Optimizer::Lbfgs(Box::new(config.init())),
            Maker::Module(maker) => Optimizer::Module(Updater::new(
                plan,
                maker.as_ref(),
                clipping_by,
                observations,
            )),
        };
        Ok(Self {
            optimizer,
            rates: schedule::build(&plan.rates)?,
        })
    }
}

impl Updater {
    fn new(
        plan: &Plan,
        maker: &dyn ModuleMaker,
        clipping_by: ClippingBy,
        observations: Option<&Observations>,
    ) -> Self {
        let clipping = plan.optimizer.clipping.clone();
        let build = || maker.build(observations);
        let mut late = None;
        let mut inner = match clipping_by {
            ClippingBy::Config => maker.init(),
            ClippingBy::Builder => match clipping {
                Some(clipping) => build().with_grad_clipping(clipping),
                None => build(),
            },
            ClippingBy::Group => maker.add(build(), ParamGroup::all(), clipping, observations),
            ClippingBy::Late => {
                late = clipping;
                build()
            }
        };
        for (group, configured) in &plan.groups {
            if let Maker::Module(maker) = &configured.maker {
                let clipping = configured.clipping.clone();
                inner = maker.add(inner, group.clone(), clipping, observations);
            }
        }
        Self { inner, late }
    }

    /// One update.
    pub fn step<M: Module>(
        &mut self,
        rates: ModuleLearningRate,
        model: M,
        grads: GradientsParams,
    ) -> M {
        let model = self.inner.step(rates, model, grads);
        self.updated();
        model
    }

    /// Gives it the clipping that was to come after the first update.
    pub fn updated(&mut self) {
        if let Some(clipping) = self.late.take() {
            self.inner = self.inner.clone().with_grad_clipping(clipping);
        }
    }
}
