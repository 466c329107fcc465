//! Checks the numbers in Parquet footers, page headers and pages, before the library allocates memory for them.
//!
//! Footers and headers are structs in the Thrift compact protocol (`thrift-compact-protocol.md` of Thrift). The numbers of their fields
//! are in `parquet.thrift` of the Parquet format.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaDataReader};
use parquet::file::serialized_reader::SerializedPageReader;

use crate::error::{Error, Result};

/// The maximum nesting depth of structs, twice as deep as in Parquet.
const DEPTH: usize = 16;
/// The maximum size of a decompressed page in a file in memory, as a multiple of the size of the file.
const MOST_INFLATED: usize = 1000;
/// The path of `PageHeader.dictionary_page_header.num_values`.
const DICTIONARY_VALUES: &[i16] = &[7, 1];
/// The paths of `PageHeader.data_page_header.encoding` and `PageHeader.data_page_header_v2.encoding`.
const ENCODING: &[i16] = &[5, 2];
const ENCODING_V2: &[i16] = &[8, 4];
/// The encodings with lengths: DELTA_LENGTH_BYTE_ARRAY and DELTA_BYTE_ARRAY.
const WITH_LENGTHS: [i64; 2] = [6, 7];

/// Fails with `Kind::Input` if a list or a string in a footer declares a length that exceeds the footer.
pub(crate) fn check_footer(bytes: &[u8]) -> Result<()> {
    let mut reader = ThriftReader { bytes, path: Vec::new() };
    reader
        .skip_struct(&mut |_, _| ())
        .ok_or_else(|| Error::input("it declares more values than it has bytes"))
}

/// Checks the pages of a column chunk, whose end may be missing. A decompressed page may have at most `limit` bytes. A dictionary may
/// declare as many values as its page has bytes, and DELTA encodings may declare as many lengths as their page has values.
pub(crate) fn check_pages(
    chunk: &Bytes,
    limit: usize,
    column: impl FnOnce() -> Option<ColumnChunkMetaData>,
) -> Result<()> {
    if !check_headers(chunk, limit)? {
        return Ok(());
    }
    let column =
        column().ok_or_else(|| Error::input("it is read at a place where the footer names no column"))?;
    let descriptor = column.column_descr_ptr();
    let levels = |most: i16| usize::from(most > 0);
    let levels = levels(descriptor.max_rep_level()) + levels(descriptor.max_def_level());
    // In `chunk`, the column begins at offset 0.
    let column = column.into_builder().set_data_page_offset(0).set_dictionary_page_offset(None).build()?;
    let mut pages = SerializedPageReader::new(Arc::new(chunk.clone()), &column, usize::MAX, None)?;
    // The library itself reports damaged pages.
    while let Ok(Some(page)) = pages.get_next_page() {
        if has_lengths(page.encoding()) && check_lengths(&page, levels, limit).is_some_and(|fits| !fits) {
            return Err(Error::input(format!(
                "a page of {} values declares more lengths, or more than the memory budget can hold: the file is damaged, \
                 restore it",
                page.num_values()
            )));
        }
    }
    Ok(())
}

fn has_lengths(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BYTE_ARRAY)
}

/// Whether a page declares at most as many lengths as values, and at most as many as fit in `limit` bytes. The values follow `levels`
/// sections of levels. Returns `None` for damaged bytes.
fn check_lengths(page: &Page, levels: usize, limit: usize) -> Option<bool> {
    let mut bytes = page.buffer().clone();
    match page {
        Page::DataPageV2 { rep_levels_byte_len, def_levels_byte_len, .. } => {
            let levels = rep_levels_byte_len.checked_add(*def_levels_byte_len)? as usize;
            bytes = (levels <= bytes.len()).then(|| bytes.slice(levels..))?;
        }
        _ => {
            for _ in 0..levels {
                let end = (u32::from_le_bytes(*bytes.first_chunk()?) as usize).checked_add(4)?;
                bytes = (end <= bytes.len()).then(|| bytes.slice(end..))?;
            }
        }
    }
    // The lengths of common prefixes come first.
    let parts = if page.encoding() == Encoding::DELTA_BYTE_ARRAY { 2 } else { 1 };
    let most = u64::from(page.num_values()).min((limit / size_of::<i32>()) as u64);
    let mut reader = ThriftReader { bytes: &bytes, path: Vec::new() };
    for _ in 0..parts {
        if !reader.skip_deltas(most)? {
            return Some(false);
        }
    }
    Some(true)
}

/// Checks the page headers of a column chunk like [`check_pages`]. Returns whether an encoding has lengths.
fn check_headers(mut chunk: &[u8], limit: usize) -> Result<bool> {
    let mut lengths = false;
    while !chunk.is_empty() {
        let (mut uncompressed, mut compressed, mut values) = (0, 0, 0);
        let mut reader = ThriftReader { bytes: chunk, path: Vec::new() };
        let read = reader.skip_struct(&mut |path, number| match path {
            [2] => uncompressed = number,
            [3] => compressed = number,
            DICTIONARY_VALUES => values = number,
            ENCODING | ENCODING_V2 => lengths |= WITH_LENGTHS.contains(&number),
            _ => (),
        });
        // The library itself reports damaged headers, and bytes after the last page.
        if read.is_none() {
            return Ok(lengths);
        }
        if usize::try_from(uncompressed).is_ok_and(|bytes| bytes > limit) {
            return Err(Error::input(format!(
                "a page of {uncompressed} bytes is larger than the memory budget of {limit} bytes: give the run more \
                 (engine.memory), or write the file with smaller pages"
            )));
        }
        // A value takes at least one byte.
        if values > uncompressed {
            return Err(Error::input(format!(
                "a dictionary of {uncompressed} bytes declares {values} values: the file is damaged, restore it"
            )));
        }
        let Some(rest) = usize::try_from(compressed).ok().and_then(|bytes| reader.bytes.get(bytes..)) else {
            return Ok(lengths);
        };
        chunk = rest;
    }
    Ok(lengths)
}

/// Checks the footer and the pages of a Parquet file in memory. Fails with `Kind::Input` if it declares more than it contains, or is not
/// Parquet.
pub(crate) fn check_file(file: &Bytes) -> Result<()> {
    let not_parquet = || Error::input("it has no readable Parquet footer");
    let (rest, tail) = file.split_last_chunk::<8>().ok_or_else(not_parquet)?;
    let [length @ .., _, _, _, _] = *tail;
    let start = rest.len().checked_sub(u32::from_le_bytes(length) as usize).ok_or_else(not_parquet)?;
    let footer = &rest[start..];
    check_footer(footer)?;
    let metadata = ParquetMetaDataReader::decode_metadata(footer).map_err(|e| not_parquet().because(e))?;
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let start = usize::try_from(column.dictionary_page_offset().unwrap_or(column.data_page_offset()));
        let bytes = usize::try_from(column.compressed_size());
        let chunk = start
            .ok()
            .zip(bytes.ok())
            .and_then(|(start, bytes)| file.get(start..)?.get(..bytes).map(|chunk| file.slice_ref(chunk)));
        let chunk = chunk.ok_or_else(not_parquet)?;
        check_pages(&chunk, file.len().saturating_mul(MOST_INFLATED), || Some(column.clone()))?;
    }
    Ok(())
}

/// Reads Thrift structs without storing their values.
struct ThriftReader<'a> {
    bytes: &'a [u8],
    /// The numbers of the fields that are being read, outermost first. Lists add no numbers.
    path: Vec<i16>,
}

impl ThriftReader<'_> {
    /// Skips a struct, and calls `visit` with the path and the value of each integer. Returns `None` for damaged bytes.
    fn skip_struct(&mut self, visit: &mut dyn FnMut(&[i16], i64)) -> Option<()> {
        if self.path.len() == DEPTH {
            return None;
        }
        self.path.push(0);
        loop {
            let header = self.byte()?;
            if header == 0 {
                self.path.pop();
                return Some(());
            }
            let delta = i16::from(header >> 4);
            let field = if delta == 0 {
                i16::try_from(self.signed()?).ok()?
            } else {
                self.path.last()?.checked_add(delta)?
            };
            *self.path.last_mut()? = field;
            // The value of a boolean is part of its type.
            if !matches!(header & 0x0f, 1 | 2) {
                self.skip_value(header & 0x0f, visit)?;
            }
        }
    }

    /// Skips a value of the type with the number `kind`.
    fn skip_value(&mut self, kind: u8, visit: &mut dyn FnMut(&[i16], i64)) -> Option<()> {
        match kind {
            1..=3 => self.skip(1),
            4..=6 => {
                let value = self.signed()?;
                visit(&self.path, value);
                Some(())
            }
            7 => self.skip(8),
            8 => {
                let length = usize::try_from(self.unsigned()?).ok()?;
                self.skip(length)
            }
            9 | 10 => {
                let header = self.byte()?;
                let short = u64::from(header >> 4);
                let count = if short == 15 { self.unsigned()? } else { short };
                // An element takes at least one byte.
                if count > self.bytes.len() as u64 {
                    return None;
                }
                (0..count).try_for_each(|_| self.skip_value(header & 0x0f, visit))
            }
            12 => self.skip_struct(visit),
            // Parquet headers contain no maps or UUIDs.
            _ => None,
        }
    }

    /// Skips integers in the encoding DELTA_BINARY_PACKED. Returns whether there are at most `most` integers, and `None` for damaged
    /// bytes.
    fn skip_deltas(&mut self, most: u64) -> Option<bool> {
        let (block, miniblocks, mut left) = (self.unsigned()?, self.unsigned()?, self.unsigned()?);
        if left > most {
            return Some(false);
        }
        let values = block.checked_div(miniblocks).filter(|values| *values > 0)?;
        // The first value, and at each block the least difference and the widths of its miniblocks in bits.
        self.unsigned()?;
        left = left.saturating_sub(1);
        while left > 0 {
            self.unsigned()?;
            let (widths, rest) = self.bytes.split_at_checked(usize::try_from(miniblocks).ok()?)?;
            self.bytes = rest;
            for width in widths {
                if left > 0 {
                    self.skip(usize::try_from(u64::from(*width).checked_mul(values)? / 8).ok()?)?;
                }
                left = left.saturating_sub(values);
            }
        }
        Some(true)
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.bytes = self.bytes.get(bytes..)?;
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*byte)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, ListBuilder, RecordBatch, StringArray, StringBuilder};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::file::properties::{WriterProperties, WriterVersion};

    use super::*;

    /// A file of 300 rows: a text or null, and a list of texts.
    fn file(encoding: Encoding, version: WriterVersion, compression: Compression) -> Vec<u8> {
        let texts: StringArray = (0..300).map(|i| (i % 3 > 0).then(|| format!("text {}", i * i))).collect();
        let mut lists = ListBuilder::new(StringBuilder::new());
        (0..300).for_each(|i| lists.append_value((0..i % 4).map(|j| Some(format!("{i} {j}")))));
        let columns: [(&str, ArrayRef); 2] = [("text", Arc::new(texts)), ("list", Arc::new(lists.finish()))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let settings = WriterProperties::builder()
            .set_writer_version(version)
            .set_compression(compression)
            .set_dictionary_enabled(false)
            .set_encoding(encoding);
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(settings.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    }

    /// The library allocates memory for as many lengths as a page declares.
    #[test]
    fn a_page_that_declares_more_lengths_than_values_is_refused() {
        let zstd = Compression::ZSTD(ZstdLevel::default());
        for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
            for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
                check_file(&file(encoding, version, zstd).into()).unwrap();
                let good = file(encoding, version, Compression::UNCOMPRESSED);
                check_file(&good.clone().into()).unwrap();
                // Blocks of 128 values in 4 parts, and 200 or 450 values.
                let is_header = |bytes: &[u8]| bytes == [128, 1, 4, 200, 1] || bytes == [128, 1, 4, 194, 3];
                let headers: Vec<_> =
                    good.windows(5).enumerate().filter(|(_, w)| is_header(w)).map(|(at, _)| at).collect();
                let parts = if encoding == Encoding::DELTA_BYTE_ARRAY { 2 } else { 1 };
                assert_eq!(headers.len(), 2 * parts, "{encoding} {version:?}");
                for at in headers {
                    let mut damaged = good.clone();
                    damaged[at + 3..at + 9].copy_from_slice(&[128, 128, 128, 128, 128, 32]);
                    let error = check_file(&damaged.into()).unwrap_err().to_string();
                    assert!(error.contains("declares more lengths"), "{error}");
                }
            }
        }
    }

    /// Returns a page header of the type `kind` with these sizes, and with the number of `values` for a dictionary.
    fn header(kind: u8, uncompressed: u8, compressed: u8, values: &[u8]) -> Vec<u8> {
        let mut header = vec![0x15, kind << 1, 0x15, uncompressed << 1, 0x15, compressed << 1];
        if !values.is_empty() {
            header.extend([0x4c, 0x15]);
            header.extend(values);
            header.push(0);
        }
        header.push(0);
        header
    }

    #[test]
    fn pages_larger_than_their_bytes_or_the_budget_are_refused() {
        let most = [0xfe, 0xff, 0xff, 0xff, 0x0f];
        let page = |values: &[u8]| [header(2, 20, 3, values), vec![1, 2, 3]].concat();
        check_headers(&[page(&[10]), page(&[40])].concat(), 20).unwrap();
        for damaged in [page(&[42]), page(&most), [page(&[10]), page(&most)].concat()] {
            let error = check_headers(&damaged, 20).unwrap_err().to_string();
            assert!(error.contains("declares"), "{error}");
        }
        let pages = [header(0, 20, 1, &[]), vec![7], header(0, 21, 0, &[])].concat();
        check_headers(&pages, 21).unwrap();
        let error = check_headers(&pages, 20).unwrap_err().to_string();
        assert!(error.contains("a page of 21 bytes is larger than the memory budget of 20"), "{error}");
    }

    #[test]
    fn lists_strings_and_depths_are_bounded_by_the_bytes() {
        let long_list = [&[0x19, 0xfc][..], &[0xff, 0xff, 0xff, 0xff, 0x07]].concat();
        let long_string = [&[0x18][..], &[0xff, 0xff, 0xff, 0xff, 0x07]].concat();
        let deep = [0x1c].repeat(100_000);
        for damaged in [long_list, long_string, deep, vec![], vec![0x15, 0xff]] {
            check_footer(&damaged).unwrap_err();
        }
        check_footer(&[0x15, 2, 0x19, 0x2c, 0, 0x15, 4, 0, 0x28, 1, b'a', 0]).unwrap();
    }
}
