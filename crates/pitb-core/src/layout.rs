//! A module's tensors under the names of PyTorch's `state_dict`, in PyTorch's layout.
//!
//! burn stores the weight of a `Linear` as `[in, out]` where PyTorch has `[out, in]`; both visit
//! the parameters of a module in the order in which its fields are declared.

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};

/// A tensor as PyTorch lays it out.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// PyTorch's name, `fc1.weight`.
    pub name: String,
    /// PyTorch's shape.
    pub shape: Vec<usize>,
    /// Row-major values; each f32 is exact in f64.
    pub values: Vec<f64>,
    /// Whether burn stores this tensor transposed.
    pub transposed: bool,
    /// burn's id of the parameter.
    pub id: ParamId,
}

/// The values of all float parameters of `module`, in `state_dict` order.
pub fn parameters<M: Module>(module: &M) -> Vec<Named> {
    collect(module, None)
}

/// The gradients that `grads` holds for `module`; parameters without one are left out.
pub fn gradients<M: Module>(module: &M, grads: &GradientsParams) -> Vec<Named> {
    collect(module, Some(grads))
}

fn collect<M: Module>(module: &M, grads: Option<&GradientsParams>) -> Vec<Named> {
    let mut collector = Collector {
        grads,
        path: Vec::new(),
        found: Vec::new(),
    };
    module.visit(&mut collector);
    collector.found
}

/// Shape and values of `data` in PyTorch's layout. Only a matrix can be `transposed`.
pub fn to_pytorch(data: TensorData, transposed: bool) -> (Vec<usize>, Vec<f64>) {
    let values = data.iter::<f64>().collect::<Vec<_>>();
    let mut shape = data.shape().to_vec();
    if !transposed || shape.len() != 2 {
        return (shape, values);
    }
    let (rows, columns) = (shape[0], shape[1]);
    let flipped = (0..columns)
        .flat_map(|column| (0..rows).map(move |row| row * columns + column))
        .map(|at| values[at])
        .collect();
    shape.reverse();
    (shape, flipped)
}

struct Collector<'a> {
    grads: Option<&'a GradientsParams>,
    path: Vec<(String, bool)>,
    found: Vec<Named>,
}

impl ModuleVisitor for Collector<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        let transposed = container == "Struct:Linear" && name == "weight";
        self.path.push((name.to_string(), transposed));
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = match self.grads {
            None => Some(param.val()),
            Some(grads) => grads.get::<D>(param.id),
        };
        let Some(tensor) = tensor else { return };
        let transposed = self.path.last().is_some_and(|(_, transposed)| *transposed);
        let names = self.path.iter().map(|(name, _)| name.as_str());
        let (shape, values) = to_pytorch(tensor.into_data(), transposed);
        self.found.push(Named {
            name: names.collect::<Vec<_>>().join("."),
            shape,
            values,
            transposed,
            id: param.id,
        });
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

    #[test]
    fn only_a_matrix_is_transposed() {
        let data = TensorData::new(vec![1f32, 2., 3., 4., 5., 6.], [2, 3]);
        let (shape, values) = to_pytorch(data, true);
        assert_eq!((shape, values), (vec![3, 2], vec![1., 4., 2., 5., 3., 6.]));
        let data = TensorData::new(vec![1f32, 2.], [2]);
        assert_eq!(to_pytorch(data, true), (vec![2], vec![1., 2.]));
    }
}
