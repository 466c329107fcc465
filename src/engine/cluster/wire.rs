//! Our nodes as bytes, on their way from the driver to the scheduler and from there to the executors.

use std::sync::Arc;

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::common::{Result, exec_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use crate::operator::Operator;
use crate::sink::write::{Rows, Target, WriteExec};
use crate::source::{Chunk, FileToParse, NumberRowsExec, ParseFilesExec, Parser};

/// What a node of ours begins with. Ballista's own nodes are Protocol Buffers messages, which begin otherwise.
const MAGIC: &[u8] = b"resemblance\x01";

/// Writes and reads our nodes; all others are left to Ballista.
#[derive(Debug, Default)]
pub struct Codec {
    ballista: BallistaPhysicalExtensionCodec,
}

/// A node without its inputs. As CBOR, in which floats stay what they are to the last bit.
#[derive(Serialize, Deserialize)]
enum Node {
    Operator(Operator),
    Write { store: String, root: String, targets: Vec<Table> },
    ParseFiles { parser: Parser, files: Vec<FileToParse> },
    NumberRows { chunks: Vec<Chunk>, batch_rows: usize, compression: String },
}

/// A [`Target`]; its schema as an Arrow IPC stream without rows.
#[derive(Serialize, Deserialize)]
struct Table {
    table: String,
    folder: String,
    rows: Rows,
    schema: Vec<u8>,
}

impl PhysicalExtensionCodec for Codec {
    fn try_encode(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        match node(plan.as_ref())? {
            Some(node) => {
                bytes.extend_from_slice(MAGIC);
                ciborium::into_writer(&node, bytes).map_err(|e| DataFusionError::External(Box::new(e)))
            }
            None => self.ballista.try_encode(plan, bytes, converter),
        }
    }

    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match bytes.strip_prefix(MAGIC) {
            Some(bytes) => {
                let node =
                    ciborium::from_reader(bytes).map_err(|e| DataFusionError::External(Box::new(e)))?;
                plan(node, inputs.to_vec())
            }
            None => self.ballista.try_decode(bytes, inputs, context, converter),
        }
    }
}

fn node(plan: &dyn ExecutionPlan) -> Result<Option<Node>> {
    if let Some(operator) = Operator::of(plan) {
        return Ok(Some(Node::Operator(operator)));
    }
    if let Some(write) = plan.downcast_ref::<WriteExec>() {
        let table = |target: &Target| -> Result<Table> {
            Ok(Table {
                table: target.table.clone(),
                folder: target.folder.clone(),
                rows: target.rows.clone(),
                schema: schema_bytes(&target.schema)?,
            })
        };
        return Ok(Some(Node::Write {
            store: write.store_url().as_str().to_owned(),
            root: write.root().to_string(),
            targets: write.targets().iter().map(table).collect::<Result<_>>()?,
        }));
    }
    if let Some(parse) = plan.downcast_ref::<ParseFilesExec>() {
        return Ok(Some(Node::ParseFiles { parser: parse.parser(), files: parse.files().to_vec() }));
    }
    if let Some(number) = plan.downcast_ref::<NumberRowsExec>() {
        // What the engine's own message of a file scan leaves out travels with the node above it.
        let compression = plan.children().first().and_then(|scan| file_scan(scan)).map_or_else(
            || FileCompressionType::UNCOMPRESSED.get_variant().to_string(),
            |scan| scan.file_compression_type.get_variant().to_string(),
        );
        let (chunks, batch_rows) = (number.chunks().to_vec(), number.batch_rows());
        return Ok(Some(Node::NumberRows { chunks, batch_rows, compression }));
    }
    Ok(None)
}

fn plan(node: Node, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Node::Operator(operator) = node {
        return operator.over(inputs);
    }
    let (Some(input), true) = (inputs.pop(), inputs.is_empty()) else {
        return exec_err!("a node that has one input came with {} more or with none", inputs.len());
    };
    Ok(match node {
        Node::Operator(operator) => operator.over(vec![input])?,
        Node::Write { store, root, targets } => {
            let target = |table: Table| -> Result<Target> {
                let Table { table, folder, rows, schema } = table;
                Ok(Target { table, folder, rows, schema: schema_of(&schema)? })
            };
            let targets = targets.into_iter().map(target).collect::<Result<_>>()?;
            let root = Path::parse(root).map_err(object_store::Error::from)?;
            Arc::new(WriteExec::new(input, ObjectStoreUrl::parse(store)?, root, targets))
        }
        Node::ParseFiles { parser, files } => Arc::new(ParseFilesExec::try_new(input, parser, files.into())?),
        Node::NumberRows { chunks, batch_rows, compression } => {
            let input = match file_scan(&input) {
                Some(scan) => {
                    let scan = FileScanConfigBuilder::from(scan.clone())
                        .with_file_compression_type(compression.parse()?)
                        .with_preserve_order(true);
                    DataSourceExec::from_data_source(scan.build())
                }
                None => input,
            };
            Arc::new(NumberRowsExec::try_new(input, chunks.into(), batch_rows)?)
        }
    })
}

/// The scan of files that a node is, if it is one.
pub(super) fn file_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()
}

fn schema_bytes(schema: &Schema) -> Result<Vec<u8>> {
    Ok(StreamWriter::try_new(Vec::new(), schema)?.into_inner()?)
}

fn schema_of(bytes: &[u8]) -> Result<SchemaRef> {
    Ok(StreamReader::try_new(bytes, None)?.schema())
}
