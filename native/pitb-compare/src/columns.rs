//! Holds the four columns that are made of runs against what the metadata lists.
//!
//! The steps, quantities and tensors of a trace are the same over a tensor, its indices ascend by
//! one. Source of the encodings: Parquet's format, Encodings.md (RLE and bit-packing hybrid,
//! DELTA_BINARY_PACKED).

use crate::Otherwise;
use crate::contents::Entry;
use crate::thrift::Reader;

const OTHER: Otherwise = Otherwise("a column is not what the metadata lists");
const MALFORMED: Otherwise = Otherwise("a page of a column is malformed");
/// Differences in a block; libraries write 128 to 2,048 of them.
const MOST_BLOCK: u64 = 1 << 12;
/// Parts of a block; libraries write 4 to 8.
const MOST_PARTS: u64 = 1 << 5;
/// Differences in a part; libraries write 32 to 256.
const MOST_PART: u64 = 1 << 8;

/// How far a column was held against the entries, row group by row group.
pub struct Progress<'e, 'a> {
    entries: &'e [Entry<'a>],
    entry: usize,
    done: u64,
}

impl<'e, 'a> Progress<'e, 'a> {
    /// Before the first row.
    pub fn new(entries: &'e [Entry<'a>]) -> Self {
        Self {
            entries,
            entry: 0,
            done: 0,
        }
    }

    /// Whether the column has a row for each value.
    pub fn is_complete(&mut self) -> bool {
        self.current().is_none()
    }

    /// The entry that the next row belongs to; those without values have none.
    fn current(&mut self) -> Option<&'e Entry<'a>> {
        while let Some(entry) = self.entries.get(self.entry) {
            if self.done < entry.count {
                return Some(entry);
            }
            self.entry += 1;
            self.done = 0;
        }
        None
    }

    /// Take `count` rows, of each entry as many as it has; `is_right` is told the entry and which
    /// of its values is the first.
    fn take(
        &mut self,
        mut count: u64,
        mut is_right: impl FnMut(&Entry, u64) -> bool,
    ) -> Result<(), Otherwise> {
        while count > 0 {
            let entry = self.current().ok_or(OTHER)?;
            if !is_right(entry, self.done) {
                return Err(OTHER);
            }
            let few = count.min(entry.count - self.done);
            self.done += few;
            count -= few;
        }
        Ok(())
    }
}

/// What a column of a dictionary holds of an entry.
pub type Part = fn(&Entry, &[u8]) -> bool;

/// Whether a step is the entry's, as int32.
pub fn is_step(entry: &Entry, value: &[u8]) -> bool {
    value
        .try_into()
        .is_ok_and(|bytes| u64::from(u32::from_le_bytes(bytes)) == entry.step)
}

/// Whether a text is the entry's quantity.
pub fn is_quantity(entry: &Entry, value: &[u8]) -> bool {
    entry.quantity.as_bytes() == value
}

/// Whether a text is the entry's tensor.
pub fn is_tensor(entry: &Entry, value: &[u8]) -> bool {
    entry.tensor.as_bytes() == value
}

/// The entries of a dictionary page: int32 each, or texts with their lengths.
pub fn dictionary(body: &[u8], count: u64, is_number: bool) -> Result<Vec<&[u8]>, Otherwise> {
    let mut reader = Reader::new(body);
    let mut found = Vec::new();
    for _ in 0..count {
        let size = if is_number { 4 } else { le(reader.take(4)?) };
        found.push(reader.take(usize::try_from(size).map_err(|_| MALFORMED)?)?);
    }
    if reader.is_at_end() {
        Ok(found)
    } else {
        Err(MALFORMED)
    }
}

fn le(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |all, &byte| all << 8 | u64::from(byte))
}

/// Check a page of `count` indices into a dictionary.
pub fn check_indices(
    body: &[u8],
    count: u64,
    entries: &[&[u8]],
    part: Part,
    progress: &mut Progress,
) -> Result<(), Otherwise> {
    let mut reader = Reader::new(body);
    let width = reader.byte()?;
    if width > 32 {
        return Err(MALFORMED);
    }
    let mut left = count;
    let mut take = |index: u64, count: u64| {
        let index = usize::try_from(index).map_err(|_| MALFORMED)?;
        let value = entries.get(index).ok_or(MALFORMED)?;
        progress.take(count, |entry, _| part(entry, value))
    };
    while left > 0 {
        let head = reader.varint()?;
        let group = if head & 1 == 1 { 8 } else { 1 };
        let size = (head >> 1).checked_mul(group).ok_or(MALFORMED)?;
        if size == 0 || size >= left + group {
            return Err(MALFORMED);
        }
        let count = size.min(left);
        if head & 1 == 1 && width > 0 {
            let bytes = size.checked_mul(u64::from(width)).ok_or(MALFORMED)? / 8;
            let packed = reader.take(usize::try_from(bytes).map_err(|_| MALFORMED)?)?;
            let mut numbers = Packed::new(packed, width);
            let (mut index, mut many) = (numbers.next(), 1);
            for _ in 1..count {
                let next = numbers.next();
                if next == index {
                    many += 1;
                } else {
                    take(index, many)?;
                    (index, many) = (next, 1);
                }
            }
            take(index, many)?;
        } else {
            take(le(reader.take(usize::from(width).div_ceil(8))?), count)?;
        }
        left -= count;
    }
    if reader.is_at_end() {
        Ok(())
    } else {
        Err(MALFORMED)
    }
}

/// Numbers of `width` bits each, the lowest bit first; zeros behind the end.
struct Packed<'a> {
    data: &'a [u8],
    width: u8,
    bits: u128,
    held: u8,
}

impl<'a> Packed<'a> {
    fn new(data: &'a [u8], width: u8) -> Self {
        Self {
            data,
            width,
            bits: 0,
            held: 0,
        }
    }

    fn next(&mut self) -> u64 {
        while self.held < self.width {
            // 8 bytes at once where there is room; what is behind the end is 0.
            let (now, later) = self.data.split_at(self.data.len().min(8));
            self.bits |= u128::from(le(now)) << self.held;
            self.held += 64;
            self.data = later;
        }
        let found = self.bits & ((1 << self.width) - 1);
        self.bits >>= self.width;
        self.held -= self.width;
        found as u64
    }
}

/// Check a page of `count` int64 in DELTA_BINARY_PACKED, the indices.
pub fn check_delta(body: &[u8], count: u64, progress: &mut Progress) -> Result<(), Otherwise> {
    let mut reader = Reader::new(body);
    let (block, parts, total) = (reader.varint()?, reader.varint()?, reader.varint()?);
    let mut first = reader.zigzag()?;
    if total != count
        || parts == 0
        || parts > MOST_PARTS
        || block == 0
        || block > MOST_BLOCK.min(MOST_PART * parts)
        || block % (8 * parts) != 0
    {
        return Err(MALFORMED);
    }
    if count == 0 {
        return Ok(());
    }
    let mut take = |first: i64, count: u64| {
        let first = u64::try_from(first).map_err(|_| OTHER)?;
        // A run that ascends beyond its entry is not 0 where the next begins.
        let mut index = first;
        let mut behind = 0;
        progress.take(count, |entry, done| {
            index += behind;
            behind = entry.count - done;
            done == index
        })
    };
    let size = block / parts;
    // A block of differences of 1: the least difference, in zigzag, and no bits for any part.
    let mut run = vec![0; 1 + parts as usize];
    run[0] = 2;
    let (mut left, mut begun) = (count - 1, 1_u64);
    loop {
        // Nearly all blocks are runs, the last one of fewer values.
        let many = left.min(block.saturating_mul(reader.repeats(&run, left.div_ceil(block))));
        begun += many;
        left -= many;
        if left == 0 {
            break;
        }
        let least = reader.zigzag()?;
        let widths = reader.take(parts as usize)?;
        for &width in widths {
            if left == 0 {
                break; // of parts without values only the widths stand there
            }
            if width > 64 {
                return Err(MALFORMED);
            }
            let few = size.min(left);
            left -= few;
            let packed = reader.take((size * u64::from(width) / 8) as usize)?;
            if width == 0 && least == 1 {
                begun += few;
                continue;
            }
            let mut numbers = Packed::new(packed, width);
            for _ in 0..few {
                let packed = i64::try_from(numbers.next()).map_err(|_| MALFORMED)?;
                let difference = least.checked_add(packed).ok_or(MALFORMED)?;
                if difference == 1 {
                    begun += 1;
                    continue;
                }
                take(first, begun)?;
                let last = i64::try_from(begun - 1)
                    .ok()
                    .and_then(|more| first.checked_add(more));
                first = last
                    .and_then(|last| last.checked_add(difference))
                    .ok_or(MALFORMED)?;
                begun = 1;
            }
        }
    }
    take(first, begun)?;
    if reader.is_at_end() {
        Ok(())
    } else {
        Err(MALFORMED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contents::Contents;
    use crate::contents::tests::format;

    /// Entries of so many values each, at steps 0, 1, 2...
    fn with_entries<T>(counts: &[u64], look: impl FnOnce(&mut Progress) -> T) -> T {
        let mut row = 0;
        let mut listed = Vec::new();
        for (step, count) in counts.iter().enumerate() {
            listed.push(format!(
                r#"{{"step": {step}, "quantity": "param", "tensor": "w", "shape": [{count}],
                "dtype": "float32", "first_row": {row}}}"#
            ));
            row += count;
        }
        let listed = listed.join(", ");
        let json = format!(r#"{{"schema": 1, "run": "a", "contents": [{listed}]}}"#);
        let contents = Contents::parse(json.as_bytes(), &format()).unwrap();
        look(&mut Progress::new(&contents.entries))
    }

    /// Whether a page of indices is right and complete.
    fn delta(body: &[u8], rows: u64, counts: &[u64]) -> bool {
        with_entries(counts, |progress| {
            check_delta(body, rows, progress).is_ok() && progress.is_complete()
        })
    }

    fn indices(body: &[u8], rows: u64, counts: &[u64]) -> bool {
        let known: [&[u8]; 3] = [&[0, 0, 0, 0], &[1, 0, 0, 0], &[2, 0, 0, 0]];
        with_entries(counts, |progress| {
            check_indices(body, rows, &known, is_step, progress).is_ok() && progress.is_complete()
        })
    }

    /// Blocks of 8 differences in one part; the first value is 0.
    fn page(rows: u8, blocks: &[u8]) -> Vec<u8> {
        [&[8, 1, rows, 0], blocks].concat()
    }

    #[test]
    fn indices_ascend_within_each_tensor_and_begin_anew() {
        assert!(delta(&page(9, &[2, 0]), 9, &[9])); // eight times 1
        assert!(!delta(&page(9, &[2, 0]), 9, &[5, 4]));
        assert!(!delta(&page(9, &[2, 0]), 9, &[10]));
        assert!(!delta(&page(9, &[4, 0]), 9, &[9])); // eight times 2
        assert!(delta(&page(1, &[]), 1, &[1]));
        // 0 1 2, 0 1 2 3: differences 1 1 -2 1 1 1, as 3 3 0 3 3 3 above -2 in two bits each.
        let more = page(7, &[3, 2, 0b11_00_11_11, 0b11_11_11]);
        assert!(delta(&more, 7, &[3, 4]));
        assert!(delta(&more, 7, &[3, 0, 4, 0])); // tensors without values have no rows
        assert!(!delta(&more, 7, &[4, 3]));
        assert!(!delta(&more, 7, &[7]));
        for end in 0..more.len() {
            assert!(
                !delta(&more[..end], 7, &[3, 4]),
                "cut off after {end} bytes"
            );
        }
        assert!(!delta(&[&more[..], &[0]].concat(), 7, &[3, 4]));
    }

    #[test]
    fn malformed_pages_of_differences_are_refused() {
        for head in [
            [7, 1, 9, 0],
            [8, 0, 9, 0],
            [8, 2, 9, 0],
            [8, 1, 8, 0],
            [0, 1, 9, 0],
        ] {
            assert!(!delta(&[&head[..], &[2, 0]].concat(), 9, &[9]), "{head:?}");
        }
        assert!(!delta(&page(9, &[2, 65]), 9, &[9]));
    }

    #[test]
    fn runs_and_packed_indices_stand_for_the_entries() {
        // 5 times the first, then 0 1 1 2 2 2 0 0 packed in two bits each, of which 6 count.
        let body = [2, 10, 0, 3, 0b10_01_01_00, 0b00_00_10_10];
        assert!(indices(&body, 11, &[6, 2, 3]));
        assert!(!indices(&body, 11, &[5, 3, 3]));
        assert!(!indices(&body, 12, &[6, 2, 4]));
        for end in 0..body.len() {
            assert!(
                !indices(&body[..end], 11, &[6, 2, 3]),
                "cut off after {end} bytes"
            );
        }
        assert!(!indices(&[2, 10, 3], 5, &[5]), "no entry of the dictionary");
        assert!(!indices(&[2, 0, 0], 5, &[5]), "a run of none");
        assert!(!indices(&[33, 10, 0], 5, &[5]), "more than 32 bits");
        assert!(indices(&[0, 10], 5, &[5]), "of no bits at all");
    }

    #[test]
    fn a_dictionary_is_as_long_as_its_page() {
        let texts = [1, 0, 0, 0, b'a', 2, 0, 0, 0, b'b', b'c'];
        assert_eq!(dictionary(&texts, 2, false).unwrap(), [&b"a"[..], b"bc"]);
        assert!(dictionary(&texts, 1, false).is_err());
        assert!(dictionary(&texts, 3, false).is_err());
        assert!(dictionary(&texts[..10], 2, false).is_err());
        assert_eq!(dictionary(&[7, 0, 0, 0], 1, true).unwrap(), [[7, 0, 0, 0]]);
    }

    #[test]
    fn packed_numbers_have_any_width() {
        for width in 1..=64_u8 {
            let all: Vec<u64> = (0..20_u64)
                .map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) & (u64::MAX >> (64 - width)))
                .collect();
            let mut bits = vec![0_u8; (20 * usize::from(width)).div_ceil(8)];
            for (place, number) in all.iter().enumerate() {
                for bit in 0..usize::from(width) {
                    let at = place * usize::from(width) + bit;
                    bits[at / 8] |= ((number >> bit & 1) as u8) << (at % 8);
                }
            }
            let mut packed = Packed::new(&bits, width);
            let found: Vec<u64> = (0..20).map(|_| packed.next()).collect();
            assert_eq!(found, all, "width {width}");
        }
    }
}
