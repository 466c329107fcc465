//! Checks the sizes and counts in Parquet footers and page headers, before the library allocates memory for them.
//!
//! Footers and page headers are structs in the Thrift compact protocol. The encoding is specified in `thrift-compact-protocol.md` of
//! Thrift, and the numbers of the fields are in `parquet.thrift` of the Parquet format.

use parquet::file::metadata::ParquetMetaDataReader;

use crate::error::{Error, Result};

/// The maximum nesting depth of structs. Parquet needs only half of this depth.
const DEPTH: usize = 16;
/// The maximum size of a decompressed page in a file in memory, as a multiple of the size of the file.
const MOST_INFLATED: usize = 1000;
/// The path of `PageHeader.dictionary_page_header.num_values`.
const DICTIONARY_VALUES: &[i16] = &[7, 1];

/// Checks that no list or string in a footer has a declared length that exceeds the footer.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if a declared length exceeds the footer.
pub(crate) fn check_footer(bytes: &[u8]) -> Result<()> {
    let mut reader = ThriftReader { bytes, path: Vec::new() };
    reader
        .skip_struct(&mut |_, _| ())
        .ok_or_else(|| Error::input("it declares more values than it has bytes"))
}

/// Checks the page headers of a column chunk. A decompressed page must not exceed `limit` bytes, and a dictionary must not declare more
/// values than its page has bytes.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if a page or a dictionary declares too much.
pub(crate) fn check_pages(mut chunk: &[u8], limit: usize) -> Result<()> {
    while !chunk.is_empty() {
        let (mut uncompressed, mut compressed, mut values) = (0, 0, 0);
        let mut reader = ThriftReader { bytes: chunk, path: Vec::new() };
        let read = reader.skip_struct(&mut |path, number| match path {
            [2] => uncompressed = number,
            [3] => compressed = number,
            DICTIONARY_VALUES => values = number,
            _ => (),
        });
        // If the header is damaged, or if bytes follow the last page, the library reports this.
        if read.is_none() {
            return Ok(());
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
            return Ok(());
        };
        chunk = rest;
    }
    Ok(())
}

/// Checks the footer and the pages of a whole Parquet file in memory.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if the file is not Parquet, or if it declares more data than it contains.
pub(crate) fn check_file(file: &[u8]) -> Result<()> {
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
        let chunk = start.ok().zip(bytes.ok()).and_then(|(start, bytes)| file.get(start..)?.get(..bytes));
        check_pages(chunk.ok_or_else(not_parquet)?, file.len().saturating_mul(MOST_INFLATED))?;
    }
    Ok(())
}

/// Reads Thrift structs without storing their values.
struct ThriftReader<'a> {
    bytes: &'a [u8],
    /// The numbers of the fields that are being read, from the outermost struct to the innermost struct. Lists add no numbers.
    path: Vec<i16>,
}

impl ThriftReader<'_> {
    /// Skips a struct and calls `visit` with the path and the value of each integer. Returns `None` for damaged bytes.
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

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.bytes = self.bytes.get(bytes..)?;
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*byte)
    }

    /// Reads a ULEB128 integer.
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

    /// Reads a zigzag integer.
    fn signed(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a page header of the type `kind` with these sizes. For a dictionary, `values` is the number of values.
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
    fn a_dictionary_with_more_values_than_bytes_is_refused() {
        let most = [0xfe, 0xff, 0xff, 0xff, 0x0f];
        let page = |values: &[u8]| [header(2, 20, 3, values), vec![1, 2, 3]].concat();
        check_pages(&[page(&[10]), page(&[40])].concat(), 20).unwrap();
        for damaged in [page(&[42]), page(&most), [page(&[10]), page(&most)].concat()] {
            let error = check_pages(&damaged, 20).unwrap_err().to_string();
            assert!(error.contains("declares"), "{error}");
        }
    }

    #[test]
    fn a_page_larger_than_the_budget_is_refused() {
        let pages = [header(0, 20, 1, &[]), vec![7], header(0, 21, 0, &[])].concat();
        check_pages(&pages, 21).unwrap();
        let error = check_pages(&pages, 20).unwrap_err().to_string();
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
