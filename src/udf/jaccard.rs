//! The function `jaccard` for SQL and for plans.

use std::sync::LazyLock;

use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::Result;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments;
use crate::kernel::jaccard::{as_set, jaccard_of, shared};

/// The SQL function `jaccard`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Jaccard {
    signature: Signature,
}

impl Default for Jaccard {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Jaccard {
    fn name(&self) -> &str {
        "jaccard"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [_, _] = take_function_args(self.name(), types)?;
        types.iter().map(|given| arguments::list_type(self.name(), given, &DataType::UInt64)).collect()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        arguments::map_two::<UInt64Type>(self.name(), &args, |a, b| {
            let (a, b) = (as_set(a), as_set(b));
            let jaccard = jaccard_of(shared(&a, &b), a.len() as u64, b.len() as u64);
            Ok(Some(jaccard).filter(|jaccard| !jaccard.is_nan()))
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
            Documentation::builder(
                super::section::DOC_SECTION,
                "Returns the Jaccard similarity of two sets: elements in both, divided by elements in either. Returns NULL \
                 if either list is NULL, and if both are empty, as 0/0 has no value; 0.0 if one is empty. Lists are read \
                 as sets, and fastest when sorted and without repeats, as `shingles` returns them.",
                "jaccard(a, b)",
            )
            .with_sql_example(
                "```sql\n\
                 > select jaccard([1, 2, 3], [2, 3, 4]);\n\
                 0.5\n\
                 ```",
            )
            .with_argument("a", "A set: a list of UInt64, or of Int64 with the same bits, without nulls.")
            .with_argument("b", "A set: a list of UInt64, or of Int64 with the same bits, without nulls.")
            .with_related_udf("containment")
            .with_related_udf("minhash_similarity")
            .build()
        });
        Some(&DOCUMENTATION)
    }
}
