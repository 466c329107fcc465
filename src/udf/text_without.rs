//! The function `text_without` for plans.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringBuilder, StructArray};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, internal_datafusion_err};

use super::arguments;
use super::row_function::RowFunction;
use crate::kernel::text::without_spans::without_spans;

/// A text without some of its bytes: `text_without(text, spans)`. A text without a list of spans stays as it is.
#[derive(Debug)]
pub(crate) enum TextWithout {}

/// The columns of a span: the first of its bytes in UTF-8, and the first one behind it.
pub(crate) const CUT_SPAN: [&str; 2] = ["byte_start", "byte_end"];

impl RowFunction<2> for TextWithout {
    const NAME: &'static str = "text_without";

    type Settings = ();

    fn result() -> DataType {
        DataType::Utf8
    }

    fn coerce(given: &[DataType]) -> Result<Vec<DataType>> {
        let [_, spans] = take_function_args(Self::NAME, given)?;
        Ok(vec![DataType::Utf8View, spans.clone()])
    }

    fn settings(_literals: &[Option<&ScalarValue>]) -> Result<()> {
        Ok(())
    }

    fn rows([texts, lists]: [&ArrayRef; 2], (): &()) -> Result<ArrayRef> {
        let lists: &ListArray = arguments::downcast(lists)?;
        let mut rest = StringBuilder::new();
        for (row, text) in arguments::texts(Self::NAME, texts)?.enumerate() {
            match text {
                Some(text) if lists.is_valid(row) => {
                    let spans = spans(lists.value(row).as_struct())?;
                    rest.append_value(without_spans(text, &spans).ok_or_else(|| {
                        exec_datafusion_err!(
                            "{}: the spans are no parts of a text of {} bytes, which is not the one that was cut",
                            Self::NAME,
                            text.len()
                        )
                    })?);
                }
                text => rest.append_option(text),
            }
        }
        Ok(Arc::new(rest.finish()))
    }
}

/// The spans, in ascending order.
fn spans(rows: &StructArray) -> Result<Vec<Range<usize>>> {
    let column = |name: &str| {
        let column = rows.column_by_name(name).and_then(|column| column.as_primitive_opt::<UInt64Type>());
        column.ok_or_else(|| internal_datafusion_err!("a span has no number {name}"))
    };
    let [starts, ends] = CUT_SPAN.map(column);
    let ends = ends?.values().iter().map(|end| *end as usize);
    let mut spans: Vec<Range<usize>> =
        starts?.values().iter().zip(ends).map(|(start, end)| *start as usize..end).collect();
    spans.sort_unstable_by_key(|span| span.start);
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use arrow::array::{StringViewArray, UInt64Array};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Field, Fields};

    use super::*;

    fn without(text: &str, spans: &[[u64; 2]]) -> Result<String> {
        let column = |at: usize| {
            Arc::new(UInt64Array::from_iter_values(spans.iter().map(|span| span[at]))) as ArrayRef
        };
        let fields: Fields = CUT_SPAN.map(|name| Field::new(name, DataType::UInt64, false)).to_vec().into();
        let rows = StructArray::new(fields.clone(), vec![column(0), column(1)], None);
        let item = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
        let lists = ListArray::new(item, OffsetBuffer::from_lengths([spans.len()]), Arc::new(rows), None);
        let (texts, lists): (ArrayRef, ArrayRef) =
            (Arc::new(StringViewArray::from(vec![text])), Arc::new(lists));
        Ok(TextWithout::rows([&texts, &lists], &())?.as_string::<i32>().value(0).to_owned())
    }

    #[test]
    fn spans_are_cut_in_any_order_and_whole_characters_stay() {
        assert_eq!(without("ab日本語xy", &[[8, 11], [0, 1]]).unwrap(), "b日本xy");
        assert_eq!(without("ab", &[]).unwrap(), "ab");
    }

    #[test]
    fn spans_that_a_text_does_not_have_are_errors() {
        for span in [[1, 3], [3, 9]] {
            let error = without("a日", &[span]).unwrap_err().to_string();
            assert!(error.contains("a text of 4 bytes"), "{error}");
        }
    }
}
