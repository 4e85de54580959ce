//! Compares two traces as `pitb.compare` does, where both are of the common kind: files of pitb's
//! own writers, whose runs were ended, that list the same tensors, start from the same values, and
//! hold finite ones alone.
//!
//! All else is [`Otherwise`], and left to Python, which also has every sentence about it. What is
//! answered is the same to the bit. Nothing in a file is believed: what one lists is held against
//! all of its columns.

mod columns;
mod contents;
pub mod ffi;
mod layout;
mod statistics;
mod thrift;
mod work;

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use contents::{Contents, Entry, Format};
use work::Both;

/// That, and why, a comparison is left to Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Otherwise(&'static str);

impl fmt::Display for Otherwise {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// What is asked.
#[derive(Deserialize)]
pub struct Request {
    a: PathBuf,
    b: PathBuf,
    /// What is compared, where somebody said so.
    quantities: Option<Vec<String>>,
    /// Otherwise, of traces of one step.
    one_step: Vec<String>,
    /// And of longer ones.
    long: Vec<String>,
    /// What a run starts from.
    initial: Vec<String>,
    format: Format,
}

/// All of an answer but the rows' numbers.
#[derive(Serialize)]
struct Said {
    runs: [String; 2],
    quantities: Vec<String>,
    /// Quantities and tensors by the numbers that the rows have for them.
    names: Vec<String>,
    /// What both start from: name and hash.
    hashes: Vec<(String, String)>,
    /// Tensors that are not compared: those that a run starts from, and others.
    initial: usize,
    rest: usize,
}

/// Columns of 8 bytes a number, then JSON; see `pitb.stream.compiled`, which reads it.
pub type Answer = Vec<u8>;

/// Compare two files.
pub fn compare(request: &Request) -> Result<Answer, Otherwise> {
    if cfg!(target_endian = "big") {
        return Err(Otherwise(
            "numbers stand in memory in another way than in a file",
        ));
    }
    let (footer_a, metadata_a) = layout::footer(&request.a)?;
    let (footer_b, metadata_b) = layout::footer(&request.b)?;
    let (a, b) = (
        Contents::parse(&metadata_a, &request.format)?,
        Contents::parse(&metadata_b, &request.format)?,
    );
    if a.entries != b.entries {
        return Err(Otherwise("they list other tensors"));
    }
    let both = Both {
        a: &footer_a.values(&a.entries)?,
        b: &footer_b.values(&a.entries)?,
    };

    let updates = a.entries.iter().filter(|entry| entry.quantity == "param");
    let steps = updates.map(|entry| entry.step).max().unwrap_or(0);
    let default = if steps > 1 {
        &request.long
    } else {
        &request.one_step
    };
    let quantities = request.quantities.as_ref().unwrap_or(default);
    let asked = |entry: &Entry, among: &[String]| among.iter().any(|one| *one == entry.quantity);
    let compared: Vec<&Entry> = a
        .entries
        .iter()
        .filter(|entry| entry.step > 0 && asked(entry, quantities))
        .collect();
    let is_there = |name: &String| compared.iter().any(|entry| entry.quantity == *name);
    if !quantities.iter().all(is_there) {
        return Err(Otherwise("what is asked for is not there"));
    }

    let starts = |name: &String| -> Vec<&Entry> {
        a.entries
            .iter()
            .filter(|entry| entry.step == 0 && entry.quantity == *name)
            .collect()
    };
    let initial: Vec<&Entry> = request.initial.iter().flat_map(starts).collect();
    if initial.is_empty() {
        return Err(Otherwise("what they start from is not recorded"));
    }
    let named = initial
        .iter()
        .map(|entry| format!("{} {}", entry.quantity, entry.tensor));
    let (hashes, found) = both.look(&initial, &compared)?;
    let hashes = named.zip(hashes).collect();

    let mut names = Names::default();
    let mut answer = (compared.len() as u64).to_le_bytes().to_vec();
    answer.reserve(8 * 11 * compared.len());
    let mut column = |number: &dyn Fn(usize) -> [u8; 8]| {
        (0..compared.len()).for_each(|row| answer.extend(number(row)));
    };
    let quantity: Vec<u64> = compared
        .iter()
        .map(|entry| names.number(&entry.quantity))
        .collect();
    let tensor: Vec<u64> = compared
        .iter()
        .map(|entry| names.number(&entry.tensor))
        .collect();
    column(&|row| compared[row].step.to_le_bytes());
    column(&|row| quantity[row].to_le_bytes());
    column(&|row| tensor[row].to_le_bytes());
    column(&|row| compared[row].count.to_le_bytes());
    column(&|row| found[row].index.to_le_bytes());
    column(&|row| found[row].a.to_le_bytes());
    column(&|row| found[row].b.to_le_bytes());
    column(&|row| found[row].max_abs.to_le_bytes());
    column(&|row| (found[row].max_ulp as f64).to_le_bytes());
    column(&|row| found[row].relative.to_le_bytes());
    column(&|row| {
        let count = compared[row].count;
        let mean = if count == 0 {
            0.0
        } else {
            found[row].squares / count as f64
        };
        mean.sqrt().to_le_bytes()
    });
    let said = Said {
        runs: [a.run.into_owned(), b.run.into_owned()],
        quantities: quantities.clone(),
        names: names.known.iter().map(|name| (*name).to_owned()).collect(),
        hashes,
        initial: initial.len(),
        rest: a.entries.len() - initial.len() - compared.len(),
    };
    let text = serde_json::to_vec(&said).map_err(|_| Otherwise("a name is no text"))?;
    answer.extend(text);
    Ok(answer)
}

/// Texts, each once.
#[derive(Default)]
struct Names<'a> {
    known: Vec<&'a str>,
    numbers: std::collections::HashMap<&'a str, u64>,
}

impl<'a> Names<'a> {
    fn number(&mut self, name: &'a str) -> u64 {
        *self.numbers.entry(name).or_insert_with(|| {
            self.known.push(name);
            self.known.len() as u64 - 1
        })
    }
}
