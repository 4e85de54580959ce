//! Looks at all tensors of two traces, in threads where they are large.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sha2::{Digest, Sha256};

use crate::Otherwise;
use crate::contents::Entry;
use crate::layout::Values;
use crate::statistics::{self, CHUNK, READ, Statistics};

/// Values that a thread takes at a time, at least; it takes no part of a chunk.
const TASK: u64 = 1 << 14;
/// Values from which on starting a thread is worth it.
const LARGE: u64 = 1 << 18;
const MOST_THREADS: usize = 2;

/// Two traces that list the same.
pub struct Both<'v> {
    /// The values of the one.
    pub a: &'v Values,
    /// And of the other.
    pub b: &'v Values,
}

/// Values of both sides, 8 bytes each.
type Room = (Vec<u8>, Vec<u8>);

/// Some values of a tensor.
struct Span {
    entry: usize,
    start: u64,
    count: u64,
}

enum Task<'e> {
    Hash(&'e Entry<'e>),
    Compare(Vec<Span>),
}

enum Done {
    Hash(String),
    Compare(Vec<Statistics>),
}

impl Both<'_> {
    /// SHA-256 of what both sides start from, which is the same, and what differs of the compared.
    pub fn look(
        &self,
        initial: &[&Entry],
        compared: &[&Entry],
    ) -> Result<(Vec<String>, Vec<Statistics>), Otherwise> {
        // Hashes first: the largest takes longest, and no two threads share one.
        let mut tasks: Vec<Task> = initial.iter().map(|entry| Task::Hash(entry)).collect();
        tasks.extend(spans(compared).into_iter().map(Task::Compare));
        let values = initial
            .iter()
            .chain(compared)
            .map(|entry| entry.count)
            .sum();
        let done = each(&tasks, values, |task, room| match task {
            Task::Hash(entry) => self.hash(entry, room).map(Done::Hash),
            Task::Compare(spans) => {
                let of = |span: &Span| self.statistics(compared[span.entry], span, room);
                spans
                    .iter()
                    .map(of)
                    .collect::<Result<_, _>>()
                    .map(Done::Compare)
            }
        })?;
        let mut hashes = Vec::new();
        let mut found: Vec<Option<Statistics>> = vec![None; compared.len()];
        for (task, done) in tasks.iter().zip(done) {
            match (task, done) {
                (Task::Compare(spans), Done::Compare(parts)) => {
                    for (span, new) in spans.iter().zip(parts) {
                        let old = &mut found[span.entry];
                        *old = Some(old.map_or(new, |old| old.and(new)));
                    }
                }
                (_, Done::Hash(hash)) => hashes.push(hash),
                _ => {}
            }
        }
        let found = found
            .into_iter()
            .map(|found| found.unwrap_or(Statistics::NONE))
            .collect();
        Ok((hashes, found))
    }

    fn fill(&self, first: u64, a: &mut [u8], b: &mut [u8]) -> Result<(), Otherwise> {
        self.a.fill(first, a)?;
        self.b.fill(first, b)
    }

    fn statistics(
        &self,
        entry: &Entry,
        span: &Span,
        room: &mut Room,
    ) -> Result<Statistics, Otherwise> {
        let mut read = |start, a: &mut [u8], b: &mut [u8]| self.fill(entry.first_row + start, a, b);
        statistics::compare(span.start, span.count, entry.is_f32(), room, &mut read)
    }

    /// The hash of a tensor's shape, dtype and bits, which are the same on both sides.
    fn hash(&self, entry: &Entry, room: &mut Room) -> Result<String, Otherwise> {
        let mut digest = Sha256::new();
        digest.update(entry.described());
        let mut done = 0;
        while done < entry.count {
            let size = 8 * (entry.count - done).min(READ as u64) as usize;
            let (a, b) = (&mut room.0[..size], &mut room.1[..size]);
            self.fill(entry.first_row + done, a, b)?;
            if a != b {
                return Err(Otherwise("they start from other values"));
            }
            digest.update(a);
            done += size as u64 / 8;
        }
        Ok(digest
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect())
    }
}

/// All values of the tensors, cut into what a thread takes at a time.
fn spans(entries: &[&Entry]) -> Vec<Vec<Span>> {
    let mut tasks = Vec::new();
    let (mut task, mut size) = (Vec::new(), 0);
    for (number, entry) in entries.iter().enumerate() {
        for start in (0..entry.count).step_by(CHUNK as usize) {
            let count = CHUNK.min(entry.count - start);
            task.push(Span {
                entry: number,
                start,
                count,
            });
            size += count;
            if size >= TASK {
                tasks.push(std::mem::take(&mut task));
                size = 0;
            }
        }
    }
    tasks.push(task);
    tasks
}

/// What `work` gives for each item, in their order; each is given out once, to whichever thread
/// asks.
fn each<I: Sync, T: Send>(
    items: &[I],
    values: u64,
    work: impl Fn(&I, &mut Room) -> Result<T, Otherwise> + Sync,
) -> Result<Vec<T>, Otherwise> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut room = (vec![0; 8 * READ], vec![0; 8 * READ]);
        let mut found = Vec::new();
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(number)
        {
            let result = work(item, &mut room);
            if result.is_err() {
                next.store(items.len(), Ordering::Relaxed); // nothing else is worth it
            }
            found.push((number, result?));
        }
        Ok(found)
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = if values < LARGE {
        1
    } else {
        cores.min(MOST_THREADS)
    };
    let mut all = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mut all = run()?;
        for other in others {
            all.extend(other.join().map_err(|_| Otherwise("a thread broke"))??);
        }
        Ok(all)
    })?;
    all.sort_unstable_by_key(|&(number, _)| number);
    Ok(all.into_iter().map(|(_, found)| found).collect())
}
