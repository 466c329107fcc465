//! Finds the elements of a JSON array, which may cover several lines.

/// Whether the rows of a file are its lines or the elements of a JSON array.
#[derive(Debug, Default)]
pub(super) enum RowForm {
    #[default]
    Lines,
    /// The first byte that is not blank decides: `[` begins an array.
    Undecided,
    Elements(ArrayScan),
}

impl RowForm {
    /// Returns the index of the first byte in `bytes` that ends a row. `bytes` continue the bytes of the previous call.
    pub(super) fn end_of_row(&mut self, bytes: &[u8]) -> Option<usize> {
        if matches!(self, Self::Undecided)
            && let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace())
        {
            *self = if *first == b'[' { Self::Elements(ArrayScan::default()) } else { Self::Lines };
        }
        match self {
            Self::Elements(scan) => scan.end_of_element(bytes),
            Self::Lines | Self::Undecided => bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Elements(scan) if scan.depth > 0)
    }
}

/// The position in a JSON array.
#[derive(Debug, Default)]
pub(super) struct ArrayScan {
    /// The number of open brackets. The elements of the array have the depth 1.
    depth: u64,
    in_string: bool,
    /// Whether the previous byte is a backslash in a string.
    is_escaped: bool,
}

impl ArrayScan {
    /// Returns the index of the first byte that is a bracket of the array or a comma between its elements.
    fn end_of_element(&mut self, bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|byte| {
            let is_escaped = std::mem::take(&mut self.is_escaped);
            match byte {
                b'\\' => self.is_escaped = self.in_string && !is_escaped,
                b'"' => self.in_string ^= !is_escaped,
                _ if self.in_string => {}
                b'[' | b'{' => {
                    self.depth += 1;
                    return self.depth == 1 && *byte == b'[';
                }
                b']' if self.depth <= 1 => {
                    self.depth = 0;
                    return true;
                }
                b']' | b'}' if self.depth > 1 => self.depth -= 1,
                b',' => return self.depth == 1,
                _ => {}
            }
            false
        })
    }
}
