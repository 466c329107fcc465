//! The function `containment` for SQL and for plans.

use std::sync::LazyLock;

use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::Result;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments;
use crate::kernel::containment::containment_of;
use crate::kernel::jaccard::{as_set, shared};

/// The SQL function `containment`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Containment {
    signature: Signature,
}

impl Default for Containment {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Containment {
    fn name(&self) -> &str {
        "containment"
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
            let containment = containment_of(shared(&a, &b), a.len() as u64);
            Ok(Some(containment).filter(|containment| !containment.is_nan()))
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
            Documentation::builder(
                super::section::DOC_SECTION,
                "Returns the share of the elements of `a` that are in `b`: 1.0 if `a` is a part of `b`, however large `b` \
                 is. Returns NULL if either list is NULL, and if `a` is empty, as 0/0 has no value. Lists are read as \
                 sets, and fastest when sorted and without repeats, as `shingles` returns them.",
                "containment(a, b)",
            )
            .with_sql_example(
                "```sql\n\
                 > select containment([1, 2, 3, 4], [2, 3, 4, 5, 6, 7]);\n\
                 0.75\n\
                 ```",
            )
            .with_argument("a", "The set that may be a part: a list of UInt64, or of Int64 with the same bits, without nulls.")
            .with_argument("b", "The set that it may be a part of: a list of UInt64, or of Int64 with the same bits, without nulls.")
            .with_related_udf("jaccard")
            .build()
        });
        Some(&DOCUMENTATION)
    }
}
