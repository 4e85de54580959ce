//! The models, made of burn's own modules, and their losses.

use anyhow::{Context, Result, bail};
use burn::module::{Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::{CrossEntropyLoss, CrossEntropyLossConfig};
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor};

use crate::layout;
use crate::problem::{
    Definition, Dtype, Gradients, Input, InputType, Kind, Layout, Parameter, int_tensor,
};

/// `fc1`, ReLU, `fc2`.
#[derive(Module, Debug)]
pub struct Mlp {
    /// The first layer.
    pub fc1: Linear,
    /// The second layer.
    pub fc2: Linear,
    /// A layer that the forward pass never calls.
    pub unused: Option<Linear>,
}

impl Mlp {
    /// Logits, shape `[rows, classes]`, of `x`, shape `[rows, features]`.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.fc2.forward(relu(self.fc1.forward(x)))
    }
}

/// One linear layer.
#[derive(Module, Debug)]
pub struct Single {
    /// The layer.
    pub fc: Linear,
}

/// An embedding, the mean over the tokens, and a linear layer.
#[derive(Module, Debug)]
pub struct Embedded {
    /// The table.
    pub embedding: Embedding,
    /// The layer after the mean.
    pub fc: Linear,
}

/// A convolution with stride 1 and no padding, ReLU, and a linear layer.
#[derive(Module, Debug)]
pub struct Convolved {
    /// The convolution.
    pub conv: Conv2d,
    /// The layer after it.
    pub fc: Linear,
}

/// A vector, which a function is minimised over.
#[derive(Module, Debug)]
pub struct Vector {
    /// Shape `[n]`.
    pub x: Param<Tensor<1>>,
}

/// A model that classifies the rows of a batch.
pub trait Classifier: Module + 'static {
    /// The batch.
    type Batch: Rows;

    /// Logits, shape `[rows, classes]`.
    fn logits(&self, batch: Self::Batch) -> Tensor<2>;
}

impl Classifier for Mlp {
    type Batch = Tensor<2>;

    fn logits(&self, batch: Tensor<2>) -> Tensor<2> {
        self.forward(batch)
    }
}

impl Classifier for Single {
    type Batch = Tensor<2>;

    fn logits(&self, batch: Tensor<2>) -> Tensor<2> {
        self.fc.forward(batch)
    }
}

impl Classifier for Embedded {
    type Batch = Tensor<2, Int>;

    fn logits(&self, batch: Tensor<2, Int>) -> Tensor<2> {
        let tokens = self.embedding.forward(batch);
        self.fc.forward(tokens.mean_dim(1).squeeze_dim::<2>(1))
    }
}

impl Classifier for Convolved {
    type Batch = Tensor<4>;

    fn logits(&self, batch: Tensor<4>) -> Tensor<2> {
        let features = relu(self.conv.forward(batch));
        self.fc.forward(features.flatten::<2>(1, 3))
    }
}

/// A tensor whose first dimension counts rows.
pub trait Rows: Clone + 'static {
    /// `count` rows from `start` on.
    fn rows(&self, start: usize, count: usize) -> Self;
}

impl<const D: usize> Rows for Tensor<D> {
    fn rows(&self, start: usize, count: usize) -> Self {
        self.clone().narrow(0, start, count)
    }
}

impl<const D: usize> Rows for Tensor<D, Int> {
    fn rows(&self, start: usize, count: usize) -> Self {
        self.clone().narrow(0, start, count)
    }
}

/// What a model makes of the inputs.
pub struct Evaluation {
    /// Shape `[rows, classes]`, where the model classifies.
    pub logits: Option<Tensor<2>>,
    /// Shape `[1]`.
    pub loss: Tensor<1>,
}

impl Evaluation {
    /// The losses' sum, the logits one below the other.
    fn joined(parts: Vec<Self>) -> Option<Self> {
        let mut parts = parts.into_iter();
        let first = parts.next()?;
        Some(parts.fold(first, |all, part| Self {
            logits: match (all.logits, part.logits) {
                (Some(above), Some(below)) => Some(Tensor::cat(vec![above, below], 0)),
                _ => None,
            },
            loss: all.loss + part.loss,
        }))
    }
}

type Loss<M> = Box<dyn Fn(&M) -> Evaluation>;

/// Where the gradients of a model come from.
pub enum Objective<M> {
    /// From losses, one for each part of the batch, whose sum is minimised.
    Losses(Vec<Loss<M>>),
    /// From a list, one set for each update, cyclically.
    Prescribed(Vec<Gradients>, Dtype),
}

impl<M: Module> Objective<M> {
    /// The loss without the logits; `None` where the gradients are prescribed.
    pub fn loss(&self, model: &M) -> Option<Evaluation> {
        let Self::Losses(parts) = self else {
            return None;
        };
        let evaluation = Evaluation::joined(parts.iter().map(|part| part(model)).collect())?;
        Some(Evaluation {
            logits: None,
            ..evaluation
        })
    }

    /// Logits, where there are any, and loss, where the gradients are not prescribed, and the
    /// gradients of update `step`, counted from 1. Those of several parts go through burn's
    /// [`GradientsAccumulator`].
    pub fn gradients(&self, model: &M, step: usize) -> (Option<Evaluation>, GradientsParams) {
        match self {
            Self::Losses(parts) => {
                let mut evaluations = Vec::new();
                let mut accumulator = GradientsAccumulator::new();
                for part in parts {
                    let evaluation = part(model);
                    let grads = evaluation.loss.backward();
                    let grads = GradientsParams::from_grads(grads, model);
                    evaluations.push(evaluation);
                    if parts.len() == 1 {
                        return (Evaluation::joined(evaluations), grads);
                    }
                    accumulator.accumulate(model, grads);
                }
                (Evaluation::joined(evaluations), accumulator.grads())
            }
            Self::Prescribed(sets, dtype) => {
                let Gradients(set) = &sets[(step - 1) % sets.len()];
                (None, layout::register(model, set, *dtype))
            }
        }
    }
}

/// An input as it stands in a trace.
pub struct Shown {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// PyTorch's name of its element type.
    pub dtype: &'static str,
    /// Row-major values.
    pub values: Vec<f64>,
}

/// A model with its initial parameters and what it is trained on.
pub struct Problem<M> {
    /// The model.
    pub model: M,
    /// Where its gradients come from.
    pub objective: Objective<M>,
    /// The inputs.
    pub inputs: Vec<Shown>,
}

/// Work on a problem, whichever model it has.
pub trait Work {
    /// What comes of it.
    type Output;

    /// Does it.
    fn on<M: Module>(self, problem: Problem<M>) -> Self::Output;
}

/// Builds the problem of `definition` in `dtype` on `device`, its batch split into `parts`, and
/// does `work` on it.
///
/// Fails with one sentence where the definition does not fit its model.
pub fn with_problem<W: Work>(
    definition: &Definition,
    dtype: Dtype,
    device: &Device,
    parts: usize,
    work: W,
) -> Result<W::Output> {
    let builder = Builder {
        definition,
        dtype,
        device,
        parts,
    };
    Ok(match definition.model {
        Kind::Mlp => work.on(builder.mlp()?),
        Kind::Single => work.on(builder.single()?),
        Kind::Embedding => work.on(builder.embedding()?),
        Kind::Conv => work.on(builder.conv()?),
        Kind::Tied => work.on(builder.tied()?),
        Kind::Quadratic => work.on(builder.quadratic()?),
        Kind::Rosenbrock => work.on(builder.rosenbrock()?),
        Kind::Pieces => work.on(builder.pieces()?),
        Kind::Prescribed => work.on(builder.prescribed()?),
    })
}

struct Builder<'a> {
    definition: &'a Definition,
    dtype: Dtype,
    device: &'a Device,
    parts: usize,
}

const CLASSIFIED: [&str; 2] = ["x", "y"];

impl Builder<'_> {
    fn mlp(&self) -> Result<Problem<Mlp>> {
        let own = ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"];
        let unused = ["unused.weight", "unused.bias"];
        self.definition.check(&own, &unused, &CLASSIFIED)?;
        let given = unused.map(|name| self.definition.parameter(name).is_some());
        let model = Mlp {
            fc1: self.linear("fc1")?,
            fc2: self.linear("fc2")?,
            unused: match given {
                [false, false] => None,
                _ => Some(self.linear("unused")?),
            },
        };
        let hidden = outputs(&model.fc1);
        expect("fc2.weight", inputs(&model.fc2), hidden, "outputs of fc1")?;
        self.classified_by(&model.fc1, outputs(&model.fc2))?;
        self.classification(model, self.float("x")?)
    }

    fn single(&self) -> Result<Problem<Single>> {
        self.definition
            .check(&["fc.weight", "fc.bias"], &[], &CLASSIFIED)?;
        let fc = self.linear("fc")?;
        self.classified_by(&fc, outputs(&fc))?;
        self.classification(Single { fc }, self.float("x")?)
    }

    fn embedding(&self) -> Result<Problem<Embedded>> {
        let names = ["embedding.weight", "fc.weight", "fc.bias"];
        self.definition.check(&names, &[], &CLASSIFIED)?;
        let [vocabulary, width] = self.shape::<2>("embedding.weight")?;
        let mut embedding = EmbeddingConfig::new(vocabulary, width).init(self.device);
        embedding.weight = self.parameter("embedding.weight", Layout::Plain)?;
        let fc = self.linear("fc")?;
        expect("fc.weight", inputs(&fc), width, "columns of the embedding")?;
        let tokens = self.int("x")?;
        self.indices("x", vocabulary)?;
        self.classes(outputs(&fc))?;
        self.classification(Embedded { embedding, fc }, tokens)
    }

    fn conv(&self) -> Result<Problem<Convolved>> {
        let names = ["conv.weight", "conv.bias", "fc.weight", "fc.bias"];
        self.definition.check(&names, &[], &CLASSIFIED)?;
        let [out, channels, height, width] = self.shape::<4>("conv.weight")?;
        let config = Conv2dConfig::new([channels, out], [height, width]);
        let mut conv = config.init(self.device);
        conv.weight = self.parameter("conv.weight", Layout::Plain)?;
        let [biases] = self.shape::<1>("conv.bias")?;
        expect("conv.bias", biases, out, "outputs of the convolution")?;
        conv.bias = Some(self.parameter("conv.bias", Layout::Plain)?);
        let x = self.float::<4>("x")?;
        let [_, found, rows, columns] = x.dims();
        expect("x", found, channels, "channels of the convolution")?;
        if rows < height || columns < width {
            bail!("input \"x\" is smaller than the kernel of the convolution");
        }
        let features = out * (rows - height + 1) * (columns - width + 1);
        let fc = self.linear("fc")?;
        let what = "features of the convolution";
        expect("fc.weight", inputs(&fc), features, what)?;
        self.classes(outputs(&fc))?;
        self.classification(Convolved { conv, fc }, x)
    }

    fn tied(&self) -> Result<Problem<Mlp>> {
        let names = ["fc1.weight", "fc1.bias", "fc2.bias"];
        self.definition.check(&names, &[], &CLASSIFIED)?;
        let fc1 = self.linear("fc1")?;
        expect("fc1.weight", inputs(&fc1), outputs(&fc1), "outputs of fc1")?;
        let fc2 = Linear {
            weight: fc1.weight.clone(),
            bias: Some(self.bias("fc2.bias", outputs(&fc1))?),
        };
        self.classified_by(&fc1, outputs(&fc2))?;
        let unused = None;
        self.classification(Mlp { fc1, fc2, unused }, self.float("x")?)
    }

    fn quadratic(&self) -> Result<Problem<Vector>> {
        self.definition.check(&["x"], &[], &["A", "b"])?;
        let model = self.vector()?;
        let [size] = model.x.val().dims();
        let (a, b) = (self.float::<2>("A")?, self.float::<1>("b")?);
        for found in a.dims() {
            expect("A", found, size, "values of x")?;
        }
        expect("b", b.dims()[0], size, "values of x")?;
        self.function(model, move |model: &Vector| {
            let x = model.x.val();
            let ax = a.clone().matmul(x.clone().unsqueeze_dim(1));
            let ax = ax.squeeze_dim::<1>(1);
            x.clone().dot(ax).mul_scalar(0.5) - b.clone().dot(x)
        })
    }

    fn rosenbrock(&self) -> Result<Problem<Vector>> {
        self.definition.check(&["x"], &[], &[])?;
        let model = self.vector()?;
        let [size] = model.x.val().dims();
        if size < 2 {
            bail!("parameter \"x\" has fewer than 2 values");
        }
        self.function(model, move |model: &Vector| {
            let x = model.x.val();
            let here = x.clone().narrow(0, 0, size - 1);
            let next = x.narrow(0, 1, size - 1);
            let valley = next - here.clone().square();
            let away = here.neg().add_scalar(1.0);
            (valley.square().mul_scalar(100.0) + away.square()).sum()
        })
    }

    fn pieces(&self) -> Result<Problem<Vector>> {
        self.definition.check(&["x"], &[], &["ends", "pieces"])?;
        let model = self.vector()?;
        expect(
            "x",
            model.x.val().dims()[0],
            1,
            "values of a loss in pieces",
        )?;
        let shapes = (
            self.float::<1>("ends")?.dims(),
            self.float::<2>("pieces")?.dims(),
        );
        if shapes != ([2], [3, 3]) {
            bail!("input \"ends\" is of shape [2] and \"pieces\" of shape [3, 3]");
        }
        let [ends, pieces] =
            ["ends", "pieces"].map(|name| self.definition.inputs[name].values.clone());
        self.function(model, move |model: &Vector| {
            let x = model.x.val();
            let at = x.clone().into_scalar::<f64>();
            let piece = ends.iter().filter(|end| **end < at).count();
            let [a, b, c] = [0, 1, 2].map(|i| pieces[3 * piece + i]);
            x.clone().square().mul_scalar(a) + x.mul_scalar(b).add_scalar(c)
        })
    }

    fn prescribed(&self) -> Result<Problem<Single>> {
        self.definition.check(&["fc.weight", "fc.bias"], &[], &[])?;
        self.whole()?;
        Ok(Problem {
            model: Single {
                fc: self.linear("fc")?,
            },
            objective: Objective::Prescribed(self.definition.gradients.clone(), self.dtype),
            inputs: self.shown(),
        })
    }

    fn vector(&self) -> Result<Vector> {
        let x = self.parameter("x", Layout::Plain)?;
        Ok(Vector { x })
    }

    /// A problem without rows, minimising `function`.
    fn function<M: Module>(
        &self,
        model: M,
        function: impl Fn(&M) -> Tensor<1> + 'static,
    ) -> Result<Problem<M>> {
        self.whole()?;
        let loss: Loss<M> = Box::new(move |model| Evaluation {
            logits: None,
            loss: function(model),
        });
        Ok(Problem {
            model,
            objective: Objective::Losses(vec![loss]),
            inputs: self.shown(),
        })
    }

    /// The mean cross entropy over `batch`, in as many parts of equal size as were asked for.
    fn classification<M: Classifier>(&self, model: M, batch: M::Batch) -> Result<Problem<M>> {
        let targets = self.int::<1>("y")?;
        let rows = targets.dims()[0];
        expect("y", rows, self.definition.inputs["x"].shape[0], "rows of x")?;
        if rows == 0 || !rows.is_multiple_of(self.parts) {
            let parts = self.parts;
            bail!("\"accumulate\" is {parts}, but {rows} rows are not {parts} equal parts");
        }
        let count = rows / self.parts;
        let criterion = CrossEntropyLossConfig::new().init(self.device);
        let parts = (0..self.parts).map(|part| {
            let batch = batch.rows(part * count, count);
            let targets = targets.rows(part * count, count);
            part_loss(criterion.clone(), batch, targets, self.parts)
        });
        Ok(Problem {
            model,
            objective: Objective::Losses(parts.collect()),
            inputs: self.shown(),
        })
    }

    fn whole(&self) -> Result<()> {
        match self.parts {
            1 => Ok(()),
            parts => bail!("\"accumulate\" is {parts}, but the model has no rows to split"),
        }
    }

    /// Checks the inputs of a model that begins with `first` and has so many `classes`.
    fn classified_by(&self, first: &Linear, classes: usize) -> Result<()> {
        let [_, features] = self.float::<2>("x")?.dims();
        expect("x", features, inputs(first), "inputs of the first layer")?;
        self.classes(classes)
    }

    fn classes(&self, classes: usize) -> Result<()> {
        self.indices("y", classes)
    }

    fn indices(&self, name: &str, count: usize) -> Result<()> {
        let values = &self.input(name, InputType::Int64)?.values;
        let fits = |value: &f64| value.fract() == 0.0 && (0.0..count as f64).contains(value);
        match values.iter().find(|value| !fits(value)) {
            Some(value) => bail!("input {name:?} holds {value}, not a whole number below {count}"),
            None => Ok(()),
        }
    }

    fn linear(&self, name: &str) -> Result<Linear> {
        let weight = format!("{name}.weight");
        let [out, features] = self.shape(&weight)?;
        let mut layer = LinearConfig::new(features, out).init(self.device);
        layer.weight = self.parameter(&weight, Layout::Linear)?;
        layer.bias = Some(self.bias(&format!("{name}.bias"), out)?);
        Ok(layer)
    }

    fn bias(&self, name: &str, size: usize) -> Result<Param<Tensor<1>>> {
        let [found] = self.shape(name)?;
        expect(name, found, size, "outputs of its layer")?;
        self.parameter(name, Layout::Plain)
    }

    fn parameter<const D: usize>(&self, name: &str, layout: Layout) -> Result<Param<Tensor<D>>> {
        let parameter = self.defined(name)?;
        // A vector is laid out in one way only.
        if D > 1 && parameter.layout.is_some_and(|given| given != layout) {
            bail!("parameter {name:?} has the wrong layout for its model");
        }
        self.shape::<D>(name)?;
        let (shape, values) = match layout {
            Layout::Linear => layout::flipped(&parameter.shape, &parameter.values),
            Layout::Plain => (parameter.shape.clone(), parameter.values.clone()),
        };
        Ok(Param::from_tensor(self.dtype.tensor(
            &shape,
            &values,
            self.device,
        )))
    }

    fn defined(&self, name: &str) -> Result<&Parameter> {
        let found = self.definition.parameter(name);
        found.with_context(|| format!("parameter {name:?} is missing"))
    }

    fn shape<const D: usize>(&self, name: &str) -> Result<[usize; D]> {
        rank(&format!("parameter {name:?}"), &self.defined(name)?.shape)
    }

    fn input(&self, name: &str, dtype: InputType) -> Result<&Input> {
        let input = self.definition.inputs.get(name);
        let input = input.with_context(|| format!("input {name:?} is missing"))?;
        match input.dtype == dtype {
            true => Ok(input),
            false => bail!("input {name:?} is not of the dtype that its model takes"),
        }
    }

    fn float<const D: usize>(&self, name: &str) -> Result<Tensor<D>> {
        let input = self.input(name, InputType::Float32)?;
        rank::<D>(&format!("input {name:?}"), &input.shape)?;
        Ok(self.dtype.tensor(&input.shape, &input.values, self.device))
    }

    fn int<const D: usize>(&self, name: &str) -> Result<Tensor<D, Int>> {
        let input = self.input(name, InputType::Int64)?;
        rank::<D>(&format!("input {name:?}"), &input.shape)?;
        Ok(int_tensor(&input.shape, &input.values, self.device))
    }

    fn shown(&self) -> Vec<Shown> {
        let inputs = self.definition.inputs.iter();
        let inputs = inputs.map(|(name, input)| Shown {
            name: name.clone(),
            shape: input.shape.clone(),
            dtype: match input.dtype {
                InputType::Float32 => self.dtype.name(),
                InputType::Int64 => "int64",
            },
            values: input.values.clone(),
        });
        inputs.collect()
    }
}

fn part_loss<M: Classifier>(
    criterion: CrossEntropyLoss,
    batch: M::Batch,
    targets: Tensor<1, Int>,
    parts: usize,
) -> Loss<M> {
    Box::new(move |model| {
        let logits = model.logits(batch.clone());
        let loss = criterion.forward(logits.clone(), targets.clone());
        Evaluation {
            logits: Some(logits),
            loss: match parts {
                1 => loss,
                _ => loss.div_scalar(parts as f64),
            },
        }
    })
}

fn inputs(layer: &Linear) -> usize {
    layer.weight.val().dims()[0]
}

fn outputs(layer: &Linear) -> usize {
    layer.weight.val().dims()[1]
}

fn expect(name: &str, found: usize, wanted: usize, what: &str) -> Result<()> {
    match found == wanted {
        true => Ok(()),
        false => bail!("{name:?} has {found} where {what} are {wanted}"),
    }
}

fn rank<const D: usize>(what: &str, shape: &[usize]) -> Result<[usize; D]> {
    let found: Result<[usize; D], _> = shape.try_into();
    found.map_err(|_| anyhow::anyhow!("{what} has the shape {shape:?}, not {D} dimensions"))
}
