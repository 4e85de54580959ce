//! A module's tensors under the names of PyTorch's `state_dict`, in PyTorch's layout.
//!
//! burn stores the weight of a `Linear` as `[in, out]` where PyTorch has `[out, in]`; both visit
//! the parameters of a module in the order in which its fields are declared.

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Tensor, TensorData};

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

/// PyTorch's name of one of burn's element types, `float32`.
pub fn dtype_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "float64",
        DType::F32 => "float32",
        DType::Flex32 => "flex32",
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        DType::I64 => "int64",
        DType::I32 => "int32",
        _ => "other",
    }
}

/// Where in a module a visitor stands.
#[derive(Default)]
pub struct Path(Vec<(String, bool)>);

impl Path {
    /// Goes into a module, or to a parameter of the module it is in.
    pub fn enter(&mut self, name: &str, container: &str) {
        let transposed = container == "Struct:Linear" && name == "weight";
        self.0.push((name.to_string(), transposed));
    }

    /// Leaves it.
    pub fn exit(&mut self) {
        self.0.pop();
    }

    /// The name of what it stands at, `fc1.weight`.
    pub fn name(&self) -> String {
        let names = self.0.iter().map(|(name, _)| name.as_str());
        names.collect::<Vec<_>>().join(".")
    }

    /// Whether burn stores what it stands at transposed.
    pub fn transposed(&self) -> bool {
        self.0.last().is_some_and(|(_, transposed)| *transposed)
    }
}

/// The two methods of a visitor that keep its path.
#[macro_export]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_matrix_is_transposed() {
        let data = TensorData::new(vec![1f32, 2., 3., 4., 5., 6.], [2, 3]);
        let (shape, values) = to_pytorch(data, true);
        assert_eq!((shape, values), (vec![3, 2], vec![1., 4., 2., 5., 3., 6.]));
        let data = TensorData::new(vec![1f32, 2.], [2]);
        assert_eq!(to_pytorch(data, true), (vec![2], vec![1., 2.]));
    }
}
