//! The bytes of a trace: five flat columns of a Parquet file, no column nullable.
//!
//! All columns but the values are made of runs: the step, quantity and tensor of an entry are the
//! same in all its rows, and its index counts from 0. So their pages are written run by run, in
//! Parquet's own encodings for that (RLE, DELTA_BINARY_PACKED), and cost next to nothing.

use std::io::Write;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::DoubleType;
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{
    SerializedFileWriter, SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite,
};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnDescPtr, ColumnPath};

use crate::trace::Entry;

const SCHEMA: &str = "message trace {
    required int32 step;
    required binary quantity (string);
    required binary tensor (string);
    required int64 index;
    required double value;
}";
/// Rows in a row group; readers hold one group at a time, and so does this.
const ROW_GROUP: usize = 1 << 20;
/// Differences in a block of DELTA_BINARY_PACKED, in four parts.
const BLOCK: usize = 128;

/// Writes a trace to `file`. `fill` gives the values of an entry from one on.
pub fn encode<W: Write + Send>(
    file: W,
    entries: &[Entry],
    metadata: String,
    mut fill: impl FnMut(&Entry, usize, &mut [f64]),
) -> Result<()> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_column_dictionary_enabled(ColumnPath::from("value"), false)
        .set_column_encoding(ColumnPath::from("value"), Encoding::PLAIN)
        .set_data_page_size_limit(8 * ROW_GROUP)
        .set_data_page_row_count_limit(ROW_GROUP)
        .set_write_batch_size(ROW_GROUP)
        .set_key_value_metadata(Some(vec![KeyValue::new("pitb".to_string(), metadata)]))
        .build();
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let columns = writer.schema_descr().columns().to_vec();
    let mut values = Vec::new();
    for runs in groups(entries) {
        values.clear();
        for run in &runs {
            let end = values.len();
            values.resize(end + run.count, 0.0);
            fill(&entries[run.entry], run.start, &mut values[end..]);
        }
        let mut group = writer.next_row_group()?;
        let counts = runs.iter().map(|run| run.count).collect::<Vec<_>>();
        let of = |run: &Run| &entries[run.entry];
        let steps = runs.iter().map(|run| of(run).step).collect::<Vec<_>>();
        let plain = steps.iter().map(|step| step.to_le_bytes().to_vec());
        let statistics = steps.iter().min().zip(steps.iter().max());
        let statistics = statistics
            .map(|(min, max)| Statistics::int32(Some(*min), Some(*max), None, Some(0), false));
        append(
            &mut group,
            dictionary(&columns[0], plain, &counts, statistics)?,
        )?;
        let texts = runs.iter().map(|run| byte_array(&of(run).quantity));
        append(&mut group, dictionary(&columns[1], texts, &counts, None)?)?;
        let texts = runs.iter().map(|run| byte_array(&of(run).tensor));
        append(&mut group, dictionary(&columns[2], texts, &counts, None)?)?;
        append(&mut group, index(&columns[3], &runs)?)?;
        if let Some(mut column) = group.next_column()? {
            column
                .typed::<DoubleType>()
                .write_batch(&values, None, None)?;
            column.close()?;
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

/// Values of one entry that stand together in a row group.
struct Run {
    entry: usize,
    start: usize,
    count: usize,
}

fn groups(entries: &[Entry]) -> Vec<Vec<Run>> {
    let mut groups = Vec::new();
    let mut group = Vec::new();
    let mut room = ROW_GROUP;
    for (entry, listed) in entries.iter().enumerate() {
        let mut start = 0;
        while start < listed.count() {
            let count = (listed.count() - start).min(room);
            group.push(Run {
                entry,
                start,
                count,
            });
            start += count;
            room -= count;
            if room == 0 {
                groups.push(std::mem::take(&mut group));
                room = ROW_GROUP;
            }
        }
    }
    if !group.is_empty() {
        groups.push(group);
    }
    groups
}

fn append<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    (chunk, close): (Bytes, ColumnCloseResult),
) -> Result<()> {
    Ok(group.append_column(&chunk, close)?)
}

/// A column chunk in which `values`, in Parquet's plain encoding, each stand `counts` times.
fn dictionary(
    column: &ColumnDescPtr,
    values: impl Iterator<Item = Vec<u8>>,
    counts: &[usize],
    statistics: Option<Statistics>,
) -> Result<(Bytes, ColumnCloseResult)> {
    let mut distinct: Vec<Vec<u8>> = Vec::new();
    let mut keys = Vec::with_capacity(counts.len());
    for value in values {
        let known = distinct.iter().position(|other| *other == value);
        keys.push(known.unwrap_or_else(|| {
            distinct.push(value);
            distinct.len() - 1
        }));
    }
    let width = usize::BITS - (distinct.len() - 1).max(1).leading_zeros();
    let mut data = vec![u8::try_from(width)?];
    for (key, count) in keys.iter().zip(counts) {
        varint(&mut data, (*count as u64) << 1);
        data.extend_from_slice(&key.to_le_bytes()[..width.div_ceil(8) as usize]);
    }
    let dictionary = Page::DictionaryPage {
        buf: distinct.concat().into(),
        num_values: u32::try_from(distinct.len())?,
        encoding: Encoding::PLAIN,
        is_sorted: false,
    };
    let rows = counts.iter().sum();
    let pages = [dictionary, data_page(data, rows, Encoding::RLE_DICTIONARY)?];
    let encodings = vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY];
    chunk(column, pages, rows, encodings, statistics)
}

/// The column chunk of the index, a page for each run.
fn index(column: &ColumnDescPtr, runs: &[Run]) -> Result<(Bytes, ColumnCloseResult)> {
    let pages = runs.iter().map(|run| {
        let mut data = Vec::new();
        for number in [BLOCK, 4, run.count, 2 * run.start] {
            varint(&mut data, number as u64);
        }
        for _ in 0..(run.count - 1).div_ceil(BLOCK) {
            // The least difference is 1, and none is larger: no bits for any of the four parts.
            data.extend_from_slice(&[2, 0, 0, 0, 0]);
        }
        data_page(data, run.count, Encoding::DELTA_BINARY_PACKED)
    });
    let pages = pages.collect::<Result<Vec<_>>>()?;
    let rows = runs.iter().map(|run| run.count).sum();
    let encodings = vec![Encoding::RLE, Encoding::DELTA_BINARY_PACKED];
    chunk(column, pages, rows, encodings, None)
}

fn data_page(data: Vec<u8>, rows: usize, encoding: Encoding) -> Result<Page> {
    Ok(Page::DataPage {
        buf: data.into(),
        num_values: u32::try_from(rows)?,
        encoding,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    })
}

fn chunk(
    column: &ColumnDescPtr,
    pages: impl IntoIterator<Item = Page>,
    rows: usize,
    encodings: Vec<Encoding>,
    statistics: Option<Statistics>,
) -> Result<(Bytes, ColumnCloseResult)> {
    let mut sink = TrackedWrite::new(Vec::new());
    let mut dictionary_offset = None;
    let mut data_offset = None;
    {
        let mut writer = SerializedPageWriter::new(&mut sink);
        for page in pages {
            let is_data = page.is_data_page();
            let size = page.buffer().len();
            let written = writer.write_page(CompressedPage::new(page, size))?;
            let first = match is_data {
                true => &mut data_offset,
                false => &mut dictionary_offset,
            };
            first.get_or_insert(i64::try_from(written.offset)?);
        }
    }
    let bytes = sink.into_inner()?;
    let size = i64::try_from(bytes.len())?;
    let mut builder = ColumnChunkMetaData::builder(column.clone())
        .set_compression(Compression::UNCOMPRESSED)
        .set_encodings(encodings)
        .set_total_compressed_size(size)
        .set_total_uncompressed_size(size)
        .set_num_values(i64::try_from(rows)?)
        .set_data_page_offset(data_offset.unwrap_or(0))
        .set_dictionary_page_offset(dictionary_offset);
    if let Some(statistics) = statistics {
        builder = builder.set_statistics(statistics);
    }
    let close = ColumnCloseResult {
        bytes_written: u64::try_from(size)?,
        rows_written: rows as u64,
        metadata: builder.build()?,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    Ok((bytes.into(), close))
}

/// A text in Parquet's plain encoding.
fn byte_array(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes();
    [&length, text.as_bytes()].concat()
}

/// An unsigned number in LEB128, seven bits at a time.
fn varint(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push((number as u8) | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}
