//! A module's tensors under the names of PyTorch's `state_dict`, in PyTorch's layout: what
//! [`pitb_record::layout`] reads, and what the runs of this crate set.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use pitb_record::keep_path;
pub use pitb_record::layout::{Named, Path, flipped, gradients, parameters, to_pytorch};

use crate::problem::Dtype;

/// The gradients whose flat values, in PyTorch's layout, `gradients` holds by name, as burn takes
/// them. Frozen parameters get none, as `backward` gives them none.
pub fn register<M: Module>(
    module: &M,
    gradients: &BTreeMap<String, Vec<f64>>,
    dtype: Dtype,
) -> GradientsParams {
    let mut register = Register {
        gradients,
        dtype,
        path: Path::default(),
        into: GradientsParams::new(),
    };
    module.visit(&mut register);
    register.into
}

/// `module` with `require_grad` off for the parameters of these names.
pub fn frozen<M: Module>(module: M, names: &[String]) -> M {
    module.map(&mut Freeze {
        names,
        path: Path::default(),
    })
}

struct Register<'a> {
    gradients: &'a BTreeMap<String, Vec<f64>>,
    dtype: Dtype,
    path: Path,
    into: GradientsParams,
}

impl ModuleVisitor for Register<'_> {
    keep_path!();

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(values) = self.gradients.get(&self.path.name()) else {
            return;
        };
        if !param.is_require_grad() {
            return;
        }
        let shape = param.val().shape().to_vec();
        let values = match self.path.transposed() {
            // PyTorch's [out, in] is burn's [in, out].
            true => flipped(&[shape[1], shape[0]], values).1,
            false => values.clone(),
        };
        // Gradients live on the device without autodiff.
        let device = param.val().device().inner();
        let tensor = self.dtype.tensor::<D>(&shape, &values, &device);
        self.into.register(param.id, tensor);
    }
}

struct Freeze<'a> {
    names: &'a [String],
    path: Path,
}

impl ModuleMapper for Freeze<'_> {
    keep_path!();

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match self.names.contains(&self.path.name()) {
            true => param.set_require_grad(false),
            false => param,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a1::{self, Arithmetic};

    #[test]
    fn parameters_stand_in_state_dict_order_and_layout() {
        let found = parameters(&a1::model(&a1::device(), Arithmetic::Float64));
        let names = found.iter().map(|tensor| tensor.name.as_str());
        assert_eq!(
            names.collect::<Vec<_>>(),
            ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
        );
        assert_eq!(found[0].shape, [8, 4]);
        for (k, value) in found[0].values.iter().enumerate() {
            assert_eq!(*value, f64::from((0.5 * (k as f64 + 1.0).sin()) as f32));
        }
    }
}
