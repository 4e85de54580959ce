//! A module's tensors under the names of PyTorch's `state_dict`, in PyTorch's layout.
//!
//! burn stores the weight of a `Linear` as `[in, out]` where PyTorch has `[out, in]`; both visit
//! the parameters of a module in the order in which its fields are declared.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};

use crate::problem::{Dtype, dtype_name};

/// A tensor as PyTorch lays it out.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// PyTorch's name, `fc1.weight`.
    pub name: String,
    /// PyTorch's shape.
    pub shape: Vec<usize>,
    /// PyTorch's name of the element type.
    pub dtype: &'static str,
    /// Row-major values; each f32 is exact in f64.
    pub values: Vec<f64>,
    /// Whether burn stores this tensor transposed.
    pub transposed: bool,
    /// burn's id of the parameter.
    pub id: ParamId,
}

/// The values of all float parameters of `module`, in `state_dict` order. A parameter that stands
/// in two places is there twice, under both names.
pub fn parameters<M: Module>(module: &M) -> Vec<Named> {
    collect(module, None)
}

/// The gradients that `grads` holds for `module`; parameters without one are left out. That of a
/// parameter that stands in two places is there once, under its first name, as `grads` holds it.
pub fn gradients<M: Module>(module: &M, grads: &GradientsParams) -> Vec<Named> {
    collect(module, Some(grads))
}

fn collect<M: Module>(module: &M, grads: Option<&GradientsParams>) -> Vec<Named> {
    let mut collector = Collector {
        grads,
        path: Path::default(),
        found: Vec::new(),
    };
    module.visit(&mut collector);
    collector.found
}

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

/// Shape and values of `data` in PyTorch's layout. Only a matrix can be `transposed`.
pub fn to_pytorch(data: TensorData, transposed: bool) -> (Vec<usize>, Vec<f64>) {
    let values = data.iter::<f64>().collect::<Vec<_>>();
    match transposed && data.shape().len() == 2 {
        true => flipped(data.shape().as_slice(), &values),
        false => (data.shape().to_vec(), values),
    }
}

/// Shape and row-major values of the transpose of a matrix.
pub fn flipped(shape: &[usize], values: &[f64]) -> (Vec<usize>, Vec<f64>) {
    let (rows, columns) = (shape[0], shape[1]);
    let places = (0..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column));
    let values = places.map(|at| values[at]).collect();
    (vec![columns, rows], values)
}

/// Where in a module a visitor stands.
#[derive(Default)]
struct Path(Vec<(String, bool)>);

impl Path {
    fn enter(&mut self, name: &str, container: &str) {
        let transposed = container == "Struct:Linear" && name == "weight";
        self.0.push((name.to_string(), transposed));
    }

    fn exit(&mut self) {
        self.0.pop();
    }

    fn name(&self) -> String {
        let names = self.0.iter().map(|(name, _)| name.as_str());
        names.collect::<Vec<_>>().join(".")
    }

    fn transposed(&self) -> bool {
        self.0.last().is_some_and(|(_, transposed)| *transposed)
    }
}

/// The two methods of a visitor that keep its path.
macro_rules! keep_path {
    () => {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }

        fn exit_module(&mut self, _name: &str, _container: &str) {
            self.path.exit();
        }
    };
}

struct Collector<'a> {
    grads: Option<&'a GradientsParams>,
    path: Path,
    found: Vec<Named>,
}

impl ModuleVisitor for Collector<'_> {
    keep_path!();

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = match self.grads {
            None => Some(param.val()),
            Some(_) if self.found.iter().any(|named| named.id == param.id) => None,
            Some(grads) => grads.get::<D>(param.id),
        };
        let Some(tensor) = tensor else { return };
        let data = tensor.into_data();
        let dtype = dtype_name(data.dtype());
        let transposed = self.path.transposed();
        let (shape, values) = to_pytorch(data, transposed);
        self.found.push(Named {
            name: self.path.name(),
            shape,
            dtype,
            values,
            transposed,
            id: param.id,
        });
    }
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

    #[test]
    fn only_a_matrix_is_transposed() {
        let data = TensorData::new(vec![1f32, 2., 3., 4., 5., 6.], [2, 3]);
        let (shape, values) = to_pytorch(data, true);
        assert_eq!((shape, values), (vec![3, 2], vec![1., 4., 2., 5., 3., 6.]));
        let data = TensorData::new(vec![1f32, 2.], [2]);
        assert_eq!(to_pytorch(data, true), (vec![2], vec![1., 2.]));
    }
}
