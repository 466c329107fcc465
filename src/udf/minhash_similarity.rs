//! The function `minhash_similarity` for SQL and for plans.

use std::sync::LazyLock;

use arrow::datatypes::{DataType, UInt32Type};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments;
use crate::kernel::minhash_similarity::minhash_similarity;

/// The SQL function `minhash_similarity`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct MinhashSimilarity {
    signature: Signature,
}

impl Default for MinhashSimilarity {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for MinhashSimilarity {
    fn name(&self) -> &str {
        "minhash_similarity"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [_, _] = take_function_args(self.name(), types)?;
        types.iter().map(|given| arguments::list_type(self.name(), given, &DataType::UInt32)).collect()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        arguments::map_two::<UInt32Type>(self.name(), &args, |a, b| {
            if a.len() != b.len() {
                return exec_err!(
                    "minhash_similarity takes signatures of equal length, and got {} and {} values",
                    a.len(),
                    b.len()
                );
            }
            Ok(minhash_similarity(a, b))
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
            Documentation::builder(
                super::section::DOC_SECTION,
                "Returns the estimated Jaccard similarity of two sets, from their MinHash signatures: the share of \
                 equal values at equal index. Returns NULL if either signature is NULL or both are empty. Signatures \
                 of different lengths are an error. Signatures made with different seeds are not an error, but their \
                 similarity means nothing.",
                "minhash_similarity(a, b)",
            )
            .with_sql_example(
                "```sql\n\
                 > select minhash_similarity([4, 5, 6, 7], [4, 5, 6, 8]);\n\
                 0.75\n\
                 ```",
            )
            .with_argument("a", "A signature: a list of UInt32, as `minhash` returns it, or of Int32 with the same bits.")
            .with_argument("b", "A signature of the same length and the same seed.")
            .with_related_udf("minhash")
            .with_related_udf("jaccard")
            .build()
        });
        Some(&DOCUMENTATION)
    }
}
