//! Writes what a training records as parts of a trace, in a thread of its own, in constant memory.
//!
//! At most one block is written while the training fills the next one; where writing is slower than
//! training, training waits. Small blocks are gathered into one part, a large one is a part of its
//! own.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use burn::tensor::{DType, TensorData};
use serde_json::{Map, Value, json};

use crate::encode::encode;
use crate::trace::{Entry, replace};

/// Values from which on a block is a part of its own, or gathered blocks are one.
const LARGE: usize = 1 << 18;
/// Blocks that are gathered into one part at most.
const MOST_BLOCKS: usize = 64;
/// How long a block may wait to be written; a kill loses what waits.
const LONGEST: Duration = Duration::from_secs(10);

/// A tensor or a number to be written.
#[derive(Debug)]
pub struct Item {
    /// The update it belongs to.
    pub step: usize,
    /// As in [`Entry`].
    pub quantity: String,
    /// PyTorch's name, or empty.
    pub tensor: String,
    /// PyTorch's shape.
    pub shape: Vec<usize>,
    /// PyTorch's name of the element type.
    pub dtype: &'static str,
    /// The values as burn lays them out.
    pub data: TensorData,
    /// Whether that is the transpose of PyTorch's layout.
    pub transposed: bool,
}

impl Item {
    /// Values of the flat tensor in PyTorch's layout, from `start` on.
    fn fill(&self, start: usize, out: &mut [f64]) {
        match self.data.dtype() {
            DType::F32 => self.fill_from(start, out, |value: f32| f64::from(value)),
            DType::F64 => self.fill_from(start, out, |value: f64| value),
            // Types that are rare enough to be read one by one.
            _ => {
                let values = self.data.iter::<f64>().collect::<Vec<_>>();
                self.arrange(start, out, &values, |value| value);
            }
        }
    }

    fn fill_from<E: burn::tensor::Element>(
        &self,
        start: usize,
        out: &mut [f64],
        convert: impl Fn(E) -> f64,
    ) {
        let values = self.data.as_slice::<E>().expect("the type was asked for");
        self.arrange(start, out, values, convert);
    }

    fn arrange<E: Copy>(
        &self,
        start: usize,
        out: &mut [f64],
        values: &[E],
        convert: impl Fn(E) -> f64,
    ) {
        if !self.transposed || self.shape.len() != 2 {
            for (place, value) in out.iter_mut().zip(&values[start..]) {
                *place = convert(*value);
            }
            return;
        }
        // burn has [columns, rows]. Blocks of rows use each cache line that is read more than once.
        const TOGETHER: usize = 16;
        let (rows, columns) = (self.shape[0], self.shape[1]);
        let end = start + out.len();
        for first in (start / columns..rows.min(end.div_ceil(columns))).step_by(TOGETHER) {
            let last = (first + TOGETHER).min(rows);
            for column in 0..columns {
                for row in first..last {
                    let at = row * columns + column;
                    if at >= start && at < end {
                        out[at - start] = convert(values[column * rows + row]);
                    }
                }
            }
        }
    }
}

enum Order {
    Block(Vec<Item>, Map<String, Value>),
    End(Vec<Item>, Map<String, Value>, bool),
}

/// The thread that writes.
#[derive(Debug)]
pub struct PartWriter {
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl PartWriter {
    /// Writes into `folder`, which must be there.
    pub fn new(folder: &Path) -> Self {
        // No room in the channel: an order is taken when the one before it is done.
        let (orders, taken) = sync_channel(0);
        let work = Work {
            folder: folder.to_path_buf(),
            recording: token(),
            number: 0,
            gathered: Vec::new(),
            blocks: 0,
            since: Instant::now(),
        };
        Self {
            orders: Some(orders),
            thread: Some(std::thread::spawn(move || work.run(&taken))),
        }
    }

    /// Hands over a block, once the one before it is written. Fails where that failed.
    pub fn put(&mut self, block: Vec<Item>, metadata: Map<String, Value>) -> Result<()> {
        self.send(Order::Block(block, metadata))
    }

    /// Writes what is left and `block` as the last part.
    pub fn end(
        &mut self,
        block: Vec<Item>,
        metadata: Map<String, Value>,
        finished: bool,
    ) -> Result<()> {
        self.send(Order::End(block, metadata, finished))?;
        self.join()
    }

    fn send(&mut self, order: Order) -> Result<()> {
        let orders = self
            .orders
            .as_ref()
            .ok_or_else(|| anyhow!("it has ended"))?;
        match orders.send(order) {
            Ok(()) => Ok(()),
            // The thread ended because of an error.
            Err(_) => self.join(),
        }
    }

    fn join(&mut self) -> Result<()> {
        self.orders = None;
        match self.thread.take() {
            Some(thread) => thread.join().map_err(|_| anyhow!("the writer panicked"))?,
            None => Err(anyhow!("it has ended")),
        }
    }
}

/// Text that no other recording has.
fn token() -> String {
    let random = [RandomState::new(), RandomState::new()];
    let parts = random.map(|state| format!("{:016x}", state.hash_one(std::process::id())));
    parts.concat()
}

struct Work {
    folder: PathBuf,
    recording: String,
    number: usize,
    gathered: Vec<Item>,
    blocks: usize,
    since: Instant,
}

impl Work {
    fn run(mut self, orders: &Receiver<Order>) -> Result<()> {
        for order in orders {
            match order {
                Order::Block(block, metadata) => self.write(block, metadata)?,
                Order::End(block, metadata, finished) => {
                    self.gathered.extend(block);
                    return self.write_gathered(metadata, finished);
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, block: Vec<Item>, metadata: Map<String, Value>) -> Result<()> {
        if rows(&block) >= LARGE {
            if !self.gathered.is_empty() {
                self.write_gathered(metadata.clone(), false)?;
            }
            self.gathered = block;
            return self.write_gathered(metadata, false);
        }
        if self.gathered.is_empty() {
            self.since = Instant::now();
        }
        self.gathered.extend(block);
        self.blocks += 1;
        let full = rows(&self.gathered) >= LARGE || self.blocks >= MOST_BLOCKS;
        // The first block of all is written at once, so that there is a trace from the start on.
        if self.number == 0 || full || self.since.elapsed() > LONGEST {
            self.write_gathered(metadata, false)?;
        }
        Ok(())
    }

    fn write_gathered(&mut self, mut metadata: Map<String, Value>, finished: bool) -> Result<()> {
        let items = std::mem::take(&mut self.gathered);
        self.blocks = 0;
        let mut first_row = 0;
        let mut entries = Vec::with_capacity(items.len());
        for item in &items {
            let entry = Entry {
                step: i32::try_from(item.step)?,
                quantity: item.quantity.clone(),
                tensor: item.tensor.clone(),
                shape: item.shape.clone(),
                dtype: item.dtype.to_string(),
                first_row,
            };
            first_row += entry.count();
            entries.push(entry);
        }
        metadata.insert(
            "part".to_string(),
            json!({"recording": self.recording, "number": self.number, "finished": finished}),
        );
        metadata.insert("contents".to_string(), serde_json::to_value(&entries)?);
        let text = serde_json::to_string(&metadata)?;
        let path = self.folder.join(part_name(self.number));
        replace(&path, |file| {
            // Entries come in order, so the item is the next one or the same again.
            let mut at = 0;
            encode(file, &entries, text, |entry, start, out| {
                while entries[at].first_row != entry.first_row || entries[at].count() == 0 {
                    at += 1;
                }
                items[at].fill(start, out);
            })
        })?;
        self.number += 1;
        Ok(())
    }
}

/// The name of a part.
pub fn part_name(number: usize) -> String {
    format!("part-{number:06}.parquet")
}

fn rows(items: &[Item]) -> usize {
    items.iter().map(|item| item.data.num_elements()).sum()
}
