//! Where in a trace's file the values stand, where they stand there as they are in memory.
//!
//! That is so in the files of pitb's own writers: uncompressed, plainly encoded, no column nullable.

use std::fs::File;
use std::path::Path;

use crate::Otherwise;
use crate::columns::{self, Part, Progress};
use crate::contents::Entry;
use crate::thrift::Reader;

const MAGIC: &[u8] = b"PAR1";
/// Bytes of metadata; a row group takes some 500, an entry of a trace some 100.
const MOST_FOOTER: u64 = 1 << 28;
/// Bytes of a column chunk other than the values', which are held at once.
const MOST_ENCODED: u64 = 1 << 24;
/// Bytes at the end that are read at once, since most footers are shorter.
const TAIL: u64 = 1 << 14;
/// Bytes that are read for the header of a page of values; one has 20 to 60.
const HEADER: u64 = 256;
const KEY: &[u8] = b"pitb";
const NAMES: [&[u8]; 5] = [b"step", b"quantity", b"tensor", b"index", b"value"];
const INT32: i64 = 1;
const INT64: i64 = 2;
const DOUBLE: i64 = 5;
const BYTE_ARRAY: i64 = 6;
const KINDS: [i64; 5] = [INT32, BYTE_ARRAY, BYTE_ARRAY, INT64, DOUBLE];
const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
const DELTA: i64 = 5;
const RLE_DICTIONARY: i64 = 8;
const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const OTHERWISE: Otherwise = Otherwise("it is laid out in another way");
const SHORT: Otherwise = Otherwise("the file is too short");

/// A file that is read by several threads.
pub struct Source {
    file: File,
    size: u64,
}

impl Source {
    /// Open a file.
    pub fn open(path: &Path) -> Result<Self, Otherwise> {
        let unread = |_| Otherwise("the file cannot be read");
        let file = File::open(path).map_err(unread)?;
        let about = file.metadata().map_err(unread)?;
        if !about.is_file() {
            return Err(Otherwise("it is no file"));
        }
        Ok(Self {
            file,
            size: about.len(),
        })
    }

    /// Fill `room` with what stands at `offset`.
    pub fn fill(&self, mut offset: u64, mut room: &mut [u8]) -> Result<(), Otherwise> {
        while !room.is_empty() {
            match read_at(&self.file, room, offset) {
                Ok(0) => return Err(SHORT),
                Ok(count) => {
                    room = &mut room[count..];
                    offset += count as u64;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Otherwise("the file cannot be read")),
            }
        }
        Ok(())
    }

    fn read(&self, offset: u64, count: u64) -> Result<Vec<u8>, Otherwise> {
        let end = offset.checked_add(count).ok_or(SHORT)?;
        if end > self.size {
            return Err(SHORT);
        }
        let mut found = vec![0; usize::try_from(count).map_err(|_| SHORT)?];
        self.fill(offset, &mut found)?;
        Ok(found)
    }
}

#[cfg(unix)]
fn read_at(file: &File, room: &mut [u8], offset: u64) -> std::io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, room, offset)
}

#[cfg(windows)]
fn read_at(file: &File, room: &mut [u8], offset: u64) -> std::io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, room, offset)
}

/// Values that stand together, little-endian float64.
struct Segment {
    first_row: u64,
    count: u64,
    offset: u64,
}

/// The values of a trace, in its file.
pub struct Values {
    source: Source,
    segments: Vec<Segment>,
}

impl Values {
    /// Fill `room` with the values from `first` on, 8 bytes each.
    pub fn fill(&self, mut first: u64, mut room: &mut [u8]) -> Result<(), Otherwise> {
        let behind = self
            .segments
            .partition_point(|segment| segment.first_row <= first);
        let mut segments = self.segments[behind.saturating_sub(1)..].iter();
        while !room.is_empty() {
            let segment = segments.next().ok_or(SHORT)?;
            let skipped = first - segment.first_row;
            let count = (segment.count - skipped).min(room.len() as u64 / 8);
            let (now, later) = room.split_at_mut(8 * count as usize);
            self.source.fill(segment.offset + 8 * skipped, now)?;
            first += count;
            room = later;
        }
        Ok(())
    }
}

/// What the footer of a file says of its columns.
pub struct Footer {
    source: Source,
    end: u64,
    groups: Vec<Group>,
}

struct Group {
    rows: u64,
    chunks: Vec<Chunk>,
}

#[derive(Default)]
struct Chunk {
    stands_elsewhere: bool,
    kind: Option<i64>,
    codec: Option<i64>,
    rows: Option<i64>,
    size: Option<u64>,
    data: Option<u64>,
    dictionary: Option<u64>,
}

impl Chunk {
    /// Where it begins, and how long it is; `rows` is how many it has to have.
    fn place(&self, kind: i64, rows: u64, end: u64) -> Result<(u64, u64), Otherwise> {
        let is_right = self.kind == Some(kind)
            && self.codec == Some(0)
            && self.rows.and_then(|count| u64::try_from(count).ok()) == Some(rows)
            && !self.stands_elsewhere;
        let (Some(size), Some(data), true) = (self.size, self.data, is_right) else {
            return Err(OTHERWISE);
        };
        let offset = match self.dictionary {
            Some(before) if 0 < before && before < data => before,
            _ => data,
        };
        if offset < 4 || size > end || offset > end - size {
            return Err(SHORT);
        }
        Ok((offset, size))
    }
}

/// Read the footer of a file; beside it, what the metadata says under our key.
pub fn footer(path: &Path) -> Result<(Footer, Vec<u8>), Otherwise> {
    let source = Source::open(path)?;
    let size = source.size;
    if size < 12 {
        return Err(SHORT);
    }
    let tail = source.read(size - size.min(TAIL), size.min(TAIL))?;
    let (before, last) = tail.split_at(tail.len() - 8);
    let length = u64::from(u32::from_le_bytes([last[0], last[1], last[2], last[3]]));
    let begins = source.read(0, 4)?;
    if &last[4..] != MAGIC || begins != MAGIC || length > MOST_FOOTER.min(size - 12) {
        return Err(OTHERWISE);
    }
    let end = size - 8 - length;
    let all;
    let data = if length <= before.len() as u64 {
        &before[before.len() - length as usize..]
    } else {
        all = source.read(end, length)?;
        &all
    };
    let (mut rows, mut schema) = (None, false);
    let (mut metadata, mut groups) = (Vec::new(), Vec::new());
    Reader::new(data).structure(|number, kind, reader| {
        match number {
            2 => {
                check_schema(kind, reader)?;
                schema = true;
            }
            3 => rows = Some(reader.size(kind)?),
            4 => reader.list(kind, |reader| {
                groups.push(group(reader)?);
                Ok(())
            })?,
            5 => reader.list(kind, |reader| {
                metadata.extend(said(reader)?);
                Ok(())
            })?,
            8 => return Err(Otherwise("it is encrypted")),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let sum = groups
        .iter()
        .try_fold(0_u64, |all, group| all.checked_add(group.rows));
    if !schema || rows.is_none() || sum != rows || metadata.len() != 1 {
        return Err(OTHERWISE);
    }
    Ok((
        Footer {
            source,
            end,
            groups,
        },
        metadata.remove(0),
    ))
}

/// The five columns, none nullable, each of its own type.
fn check_schema(kind: crate::thrift::Kind, reader: &mut Reader) -> Result<(), Otherwise> {
    let mut number = 0;
    reader.list(kind, |reader| {
        let (mut of, mut repetition, mut name) = (None, None, None);
        let (mut children, mut converted, mut logical) = (0, None, None);
        reader.structure(|field, kind, reader| {
            match field {
                1 => of = Some(reader.number(kind)?),
                3 => repetition = Some(reader.number(kind)?),
                4 => name = Some(reader.binary(kind)?),
                5 => children = reader.number(kind)?,
                6 => converted = Some(reader.number(kind)?),
                10 => {
                    let mut is_text = false;
                    reader.inner(kind, |field, kind, reader| {
                        if field == 1 {
                            // A text has no further fields.
                            reader.inner(kind, |_, _, _| Err(OTHERWISE))?;
                            is_text = true;
                        }
                        Ok(field == 1)
                    })?;
                    logical = Some(is_text);
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let is_right = match number {
            0 => children == NAMES.len() as i64,
            column @ 1..=5 => {
                let kind = KINDS[column - 1];
                let is_text = converted == Some(0) && logical.unwrap_or(true);
                let has_none = converted.is_none() && logical.is_none();
                name == Some(NAMES[column - 1])
                    && of == Some(kind)
                    && repetition == Some(0)
                    && children == 0
                    && if kind == BYTE_ARRAY {
                        is_text
                    } else {
                        has_none
                    }
            }
            _ => false,
        };
        number += 1;
        if is_right { Ok(()) } else { Err(OTHERWISE) }
    })?;
    if number == 1 + NAMES.len() {
        Ok(())
    } else {
        Err(OTHERWISE)
    }
}

fn group(reader: &mut Reader) -> Result<Group, Otherwise> {
    let (mut rows, mut chunks) = (None, Vec::new());
    reader.structure(|number, kind, reader| {
        match number {
            1 => reader.list(kind, |reader| {
                chunks.push(chunk(reader)?);
                Ok(())
            })?,
            3 => rows = Some(reader.size(kind)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    match rows {
        Some(rows) if rows > 0 && chunks.len() == NAMES.len() => Ok(Group { rows, chunks }),
        _ => Err(OTHERWISE),
    }
}

fn chunk(reader: &mut Reader) -> Result<Chunk, Otherwise> {
    let mut found = Chunk::default();
    reader.structure(|number, kind, reader| {
        match number {
            1 => found.stands_elsewhere = true,
            3 => {
                reader.inner(kind, |number, kind, reader| {
                    match number {
                        1 => found.kind = Some(reader.number(kind)?),
                        4 => found.codec = Some(reader.number(kind)?),
                        5 => found.rows = Some(reader.number(kind)?),
                        7 => found.size = Some(reader.size(kind)?),
                        9 => found.data = Some(reader.size(kind)?),
                        11 => found.dictionary = Some(reader.size(kind)?),
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?;
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    })?;
    Ok(found)
}

/// The value under our key of a pair of metadata.
fn said(reader: &mut Reader) -> Result<Option<Vec<u8>>, Otherwise> {
    let (mut key, mut value) = (None, None);
    reader.structure(|number, kind, reader| {
        match number {
            1 => key = Some(reader.binary(kind)?),
            2 => value = Some(reader.binary(kind)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    match (key, value) {
        (Some(key), value) if key == KEY => Ok(Some(value.ok_or(OTHERWISE)?.to_vec())),
        _ => Ok(None),
    }
}

impl Footer {
    /// Check every column but the values', which are found; they are read from the same open file.
    pub fn values(self, entries: &[Entry]) -> Result<Values, Otherwise> {
        let parts: [Option<Part>; 4] = [
            Some(columns::is_step),
            Some(columns::is_quantity),
            Some(columns::is_tensor),
            None,
        ];
        let mut progress = [(); 4].map(|()| Progress::new(entries));
        let mut segments = Vec::new();
        let mut rows = 0;
        for group in &self.groups {
            for (number, (part, progress)) in parts.iter().zip(&mut progress).enumerate() {
                let place = group.chunks[number].place(KINDS[number], group.rows, self.end)?;
                if place.1 > MOST_ENCODED {
                    return Err(OTHERWISE);
                }
                let data = self.source.read(place.0, place.1)?;
                check_column(&data, KINDS[number], group.rows, *part, progress)?;
            }
            let place = group.chunks[4].place(DOUBLE, group.rows, self.end)?;
            self.find_values(place, group.rows, rows, &mut segments)?;
            rows += group.rows;
        }
        if progress.iter_mut().all(Progress::is_complete) {
            Ok(Values {
                source: self.source,
                segments,
            })
        } else {
            Err(OTHERWISE)
        }
    }

    fn find_values(
        &self,
        (offset, size): (u64, u64),
        rows: u64,
        first_row: u64,
        found: &mut Vec<Segment>,
    ) -> Result<(), Otherwise> {
        let (mut position, stop, mut left) = (offset, offset + size, rows);
        while position < stop {
            let data = self.source.read(position, HEADER.min(stop - position))?;
            let mut reader = Reader::new(&data);
            let page = page(&mut reader)?;
            let start = position + reader.position as u64;
            if page.kind != DATA_PAGE
                || page.encoding != PLAIN
                || page.count == 0
                || page.count > left
                || page.count.checked_mul(8) != Some(page.size)
            {
                return Err(OTHERWISE);
            }
            position = start + page.size;
            if position > stop {
                return Err(SHORT);
            }
            let first_row = first_row + rows - left;
            found.push(Segment {
                first_row,
                count: page.count,
                offset: start,
            });
            left -= page.count;
        }
        if left == 0 { Ok(()) } else { Err(SHORT) }
    }
}

struct Page {
    kind: i64,
    size: u64,
    count: u64,
    encoding: i64,
}

/// What the header of a page says; the reader stands behind it.
fn page(reader: &mut Reader) -> Result<Page, Otherwise> {
    let (mut of, mut plain, mut size) = (None, None, None);
    let (mut data, mut dictionary) = (None, None);
    reader.structure(|number, kind, reader| {
        match number {
            1 => of = Some(reader.number(kind)?),
            2 => plain = Some(reader.size(kind)?),
            3 => size = Some(reader.size(kind)?),
            5 | 7 => {
                let (mut count, mut encoding) = (None, None);
                reader.inner(kind, |number, kind, reader| {
                    match number {
                        1 => count = Some(reader.size(kind)?),
                        2 => encoding = Some(reader.number(kind)?),
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?;
                let found = count.zip(encoding);
                *(if number == 5 {
                    &mut data
                } else {
                    &mut dictionary
                }) = found;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let (Some(kind), Some(size)) = (of, size) else {
        return Err(OTHERWISE);
    };
    let about = match kind {
        DATA_PAGE => data,
        DICTIONARY_PAGE => dictionary,
        _ => None,
    };
    match about {
        Some((count, encoding)) if plain == Some(size) => Ok(Page {
            kind,
            size,
            count,
            encoding,
        }),
        _ => Err(OTHERWISE),
    }
}

fn check_column(
    data: &[u8],
    kind: i64,
    rows: u64,
    part: Option<Part>,
    progress: &mut Progress,
) -> Result<(), Otherwise> {
    let mut reader = Reader::new(data);
    let mut dictionary: Option<Vec<&[u8]>> = None;
    let mut left = rows;
    while !reader.is_at_end() {
        let page = page(&mut reader)?;
        let body = reader.take(usize::try_from(page.size).map_err(|_| SHORT)?)?;
        if page.kind == DICTIONARY_PAGE {
            let is_first = dictionary.is_none() && left == rows;
            if !is_first || ![PLAIN, PLAIN_DICTIONARY].contains(&page.encoding) {
                return Err(OTHERWISE);
            }
            dictionary = Some(columns::dictionary(body, page.count, kind == INT32)?);
            continue;
        }
        if page.count > left {
            return Err(OTHERWISE);
        }
        match (part, page.encoding, &dictionary) {
            (None, DELTA, _) => columns::check_delta(body, page.count, progress)?,
            (Some(part), RLE_DICTIONARY | PLAIN_DICTIONARY, Some(known)) => {
                columns::check_indices(body, page.count, known, part, progress)?;
            }
            _ => return Err(OTHERWISE),
        }
        left -= page.count;
    }
    if left == 0 { Ok(()) } else { Err(SHORT) }
}
