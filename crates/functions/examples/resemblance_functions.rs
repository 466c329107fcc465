//! Builds the SQL functions as a shared library for programs that contain another build of DataFusion. `resemblance.functions` loads the
//! library for Python's package `datafusion`.
//!
//! ```sh
//! cargo build --release -p resemblance-functions --features foreign --example resemblance_functions
//! ```
//!
//! The library exports each function as a struct of DataFusion's foreign interface. [`resemblance_functions_version`] returns the version
//! of this interface. The structs live as long as the library is loaded, so callers free nothing.

use std::ffi::c_void;
use std::sync::{Arc, LazyLock};

use arrow::array::new_empty_array;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion_ffi::udf::FFI_ScalarUDF;

static FUNCTIONS: LazyLock<Vec<FFI_ScalarUDF>> = LazyLock::new(|| {
    let foreign = |function| Arc::new(ScalarUDF::from(Foreign { function })).into();
    resemblance_functions::udf::all().into_iter().map(foreign).collect()
});

/// Returns the major version of DataFusion that defines the interface. A program with another version must not read the functions.
// SAFETY: no other library in the process has a symbol with this name.
#[unsafe(no_mangle)]
pub extern "C" fn resemblance_functions_version() -> u64 {
    datafusion_ffi::version()
}

/// Returns the address of the `FFI_ScalarUDF` with this number, counted from 0; null if there is no such function. Callers must clone the
/// struct.
// SAFETY: no other library in the process has a symbol with this name.
#[unsafe(no_mangle)]
pub extern "C" fn resemblance_function(number: usize) -> *const c_void {
    FUNCTIONS.get(number).map_or(std::ptr::null(), |function| std::ptr::from_ref(function).cast())
}

/// A function that accepts literal arguments as arrays, because the foreign interface passes all arguments as arrays.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Foreign {
    function: Arc<ScalarUDF>,
}

impl Foreign {
    fn inner(&self) -> &Arc<dyn ScalarUDFImpl> {
        self.function.inner()
    }
}

impl ScalarUDFImpl for Foreign {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner().return_type(types)
    }

    /// Refuses settings that are columns. Planners distinguish columns from literals, unlike executions through the foreign interface.
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner().return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner().coerce_types(types)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.number_rows == 0 {
            return Ok(ColumnarValue::Array(new_empty_array(args.return_field.data_type())));
        }
        // Except for sets and signatures, all arguments after the first are settings, which have the same value in every row.
        for argument in args.args.iter_mut().skip(1) {
            if let ColumnarValue::Array(array) = argument
                && !matches!(array.data_type(), DataType::List(_) | DataType::Binary)
            {
                *argument = ColumnarValue::Scalar(ScalarValue::try_from_array(array, 0)?);
            }
        }
        self.inner().invoke_with_args(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner().documentation()
    }
}
