//! Reads the pairs of a finished output with only Arrow and Parquet. The manifest lists the files.
//!
//! ```sh
//! cargo run --example read_output -- out/quickstart
//! ```

use std::fs::File;
use std::path::PathBuf;

use arrow::util::pretty::print_batches;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let output = PathBuf::from(std::env::args().nth(1).ok_or("expected the folder of a finished output")?);
    let manifest: serde_json::Value = serde_json::from_reader(File::open(output.join("manifest.json"))?)?;
    let files = manifest["tables"]["pairs"]["files"].as_array().ok_or("the manifest names no files")?;
    // Only files in the manifest are read, because the folder can also contain files from an interrupted run.
    for file in files {
        let path = output.join(file["path"].as_str().ok_or("a file has no path")?);
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?.build()?;
        print_batches(&reader.collect::<Result<Vec<_>, _>>()?)?;
    }
    Ok(())
}
