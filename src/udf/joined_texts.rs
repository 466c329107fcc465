//! The function `joined_texts` for plans.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringViewBuilder};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};

use super::row_function::RowFunction;

/// The texts in a list: `joined_texts(list, field, ..)`, each in a line of its own. In lists of structs, they are in the named
/// field, which may be a field of a struct, and may have lists itself. Null where the list is null.
#[derive(Debug)]
pub(crate) enum JoinedTexts {}

impl RowFunction for JoinedTexts {
    const NAME: &'static str = "joined_texts";

    type Settings = Vec<String>;

    fn result() -> DataType {
        DataType::Utf8View
    }

    fn coerce(given: &[DataType]) -> Result<Vec<DataType>> {
        Ok(given.to_vec())
    }

    fn settings(literals: &[Option<&ScalarValue>]) -> Result<Vec<String>> {
        let name =
            |literal: &Option<&ScalarValue>| match literal.and_then(|value| value.try_as_str().flatten()) {
                Some(name) => Ok(name.to_owned()),
                None => plan_err!("joined_texts expects the names of fields"),
            };
        literals.iter().map(name).collect()
    }

    fn rows([lists]: [&ArrayRef; 1], path: &Vec<String>) -> Result<ArrayRef> {
        let mut texts = StringViewBuilder::with_capacity(lists.len());
        for row in 0..lists.len() {
            if lists.is_null(row) {
                texts.append_null();
                continue;
            }
            let mut found = Vec::new();
            gather(&lists.slice(row, 1), path, &mut found)?;
            texts.append_value(found.join("\n"));
        }
        Ok(Arc::new(texts.finish()))
    }
}

/// Adds the texts at `path` in all rows of `values`.
fn gather(values: &ArrayRef, path: &[String], to: &mut Vec<String>) -> Result<()> {
    match values.data_type() {
        DataType::List(_) => {
            values.as_list::<i32>().iter().flatten().try_for_each(|inner| gather(&inner, path, to))
        }
        DataType::LargeList(_) => {
            values.as_list::<i64>().iter().flatten().try_for_each(|inner| gather(&inner, path, to))
        }
        DataType::FixedSizeList(..) => {
            values.as_fixed_size_list().iter().flatten().try_for_each(|inner| gather(&inner, path, to))
        }
        DataType::Struct(_) => {
            let structs = values.as_struct();
            let Some((field, rest)) =
                path.split_first().and_then(|(name, rest)| Some((structs.column_by_name(name)?, rest)))
            else {
                return exec_err!("joined_texts found no field {path:?}");
            };
            let present = (0..structs.len()).filter(|row| structs.is_valid(*row));
            present.map(|row| field.slice(row, 1)).try_for_each(|value| gather(&value, rest, to))
        }
        _ => {
            let options = CastOptions { safe: false, ..Default::default() };
            let texts = cast_with_options(values, &DataType::Utf8, &options)?;
            let texts: &StringArray = texts.as_string();
            to.extend(texts.iter().flatten().map(str::to_owned));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ListBuilder, StringBuilder, StringViewArray};

    use super::*;

    #[test]
    fn texts_of_a_list_are_lines_and_null_stays() {
        let mut lists = ListBuilder::new(StringBuilder::new());
        lists.append_value([Some("a b"), None, Some("c")]);
        lists.append_null();
        lists.append_value([] as [Option<&str>; 0]);
        let lists: ArrayRef = Arc::new(lists.finish());
        let texts = JoinedTexts::rows([&lists], &Vec::new()).unwrap();
        assert_eq!(texts.as_string_view(), &StringViewArray::from(vec![Some("a b\nc"), None, Some("")]));
    }
}
