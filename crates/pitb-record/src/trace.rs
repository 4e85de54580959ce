//! The trace of a run: one row for each number, five flat columns, Parquet.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Map, Value};

/// The version of the metadata's structure.
pub const SCHEMA_VERSION: u32 = 1;

/// One tensor or number of a trace, as its metadata lists it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// The update it belongs to; 0 is the state before the first.
    pub step: i32,
    /// `input`, `loss`, `logits`, `grad`, `clipped_grad`, `param`, `lr`, `grad_norm`, `state.<name>`.
    pub quantity: String,
    /// PyTorch's `state_dict` name, `x` or `y`; empty for a number.
    pub tensor: String,
    /// PyTorch's shape; empty for a number.
    pub shape: Vec<usize>,
    /// PyTorch's name of the element type.
    pub dtype: String,
    /// The row at which its values start.
    pub first_row: usize,
}

impl Entry {
    /// Number of its values.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }
}

/// What a run left behind.
#[derive(Debug, Default)]
pub struct Trace {
    entries: Vec<Entry>,
    values: Vec<f64>,
}

impl Trace {
    /// Adds a tensor. Entries are written in the order in which they are added.
    ///
    /// Panics where `values` has not as many elements as `shape` says.
    pub fn push(
        &mut self,
        step: usize,
        quantity: &str,
        tensor: &str,
        shape: &[usize],
        dtype: &str,
        values: &[f64],
    ) {
        assert_eq!(
            values.len(),
            shape.iter().product::<usize>(),
            "{quantity} {tensor}"
        );
        self.entries.push(Entry {
            step: i32::try_from(step).expect("steps fit in int32"),
            quantity: quantity.to_string(),
            tensor: tensor.to_string(),
            shape: shape.to_vec(),
            dtype: dtype.to_string(),
            first_row: self.values.len(),
        });
        self.values.extend_from_slice(values);
    }

    /// Adds a number.
    pub fn push_scalar(&mut self, step: usize, quantity: &str, dtype: &str, value: f64) {
        self.push(step, quantity, "", &[], dtype, &[value]);
    }

    /// Adds all of another trace behind what there is.
    pub fn append(&mut self, other: Self) {
        let rows = self.values.len();
        let moved = other.entries.into_iter().map(|entry| Entry {
            first_row: entry.first_row + rows,
            ..entry
        });
        self.entries.extend(moved);
        self.values.extend(other.values);
    }

    /// What was added, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The values of one entry.
    pub fn values(&self, entry: &Entry) -> &[f64] {
        let count = entry.shape.iter().product::<usize>();
        &self.values[entry.first_row..entry.first_row + count]
    }

    /// The entry of that step, quantity and tensor.
    pub fn find(&self, step: usize, quantity: &str, tensor: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| {
            entry.step as usize == step && entry.quantity == quantity && entry.tensor == tensor
        })
    }

    /// Writes the trace to `path`, by way of a temporary name. `metadata` goes, with the
    /// contents added, under the key `pitb` of the file's metadata.
    pub fn write(&self, path: &Path, mut metadata: Map<String, Value>) -> Result<()> {
        metadata.insert("contents".to_string(), serde_json::to_value(&self.entries)?);
        let metadata = serde_json::to_string(&metadata)?;
        replace(path, |file| self.encode(file, metadata))
    }

    fn encode(&self, file: File, metadata: String) -> Result<()> {
        crate::encode::encode(file, &self.entries, metadata, |entry, start, out| {
            let first = entry.first_row + start;
            out.copy_from_slice(&self.values[first..first + out.len()]);
        })
    }
}

/// Writes a file under a temporary name and gives it its own when it is whole. What a link points
/// to is replaced, not the link; a device or a pipe is written to.
pub fn replace(path: &Path, write: impl FnOnce(File) -> Result<()>) -> Result<()> {
    let shown = path.display();
    if path.is_dir() {
        bail!("cannot write {shown}: it is a folder");
    }
    if path.exists() && !path.is_file() {
        let file = File::create(path).with_context(|| format!("cannot write {shown}"))?;
        return write(file).with_context(|| format!("cannot write {shown}"));
    }
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let temporary = temporary_name(path);
    let written = File::create(&temporary)
        .map_err(Into::into)
        .and_then(write)
        .and_then(|()| Ok(fs::rename(&temporary, path)?));
    if written.is_err() {
        // It may not even be there; the error that counts is the one before.
        let _ = fs::remove_file(&temporary);
    }
    written.with_context(|| format!("cannot write {shown}"))
}

/// Writes `value` as JSON to `path`, by way of a temporary name.
pub fn write_json(path: &Path, value: &Value) -> Result<()> {
    use std::io::Write;
    let text = serde_json::to_string_pretty(value)?;
    replace(path, |mut file| Ok(writeln!(file, "{text}")?))
}

/// The name under which [`replace`] writes `path`.
pub fn temporary_name(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".part");
    path.with_file_name(name)
}
