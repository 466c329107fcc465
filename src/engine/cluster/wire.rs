//! Serialization of our plan nodes for schedulers and executors, and a guard against query stages that run again.
//!
//! When an executor is lost, the scheduler reruns query stages that had read its output. Other executors may already have finished tasks
//! of such a stage. The next stages would then read the old and the new output of these tasks, so that rows would be repeated. A new task
//! also has the number and the files of an old task, which may still run. Therefore the tasks of such a stage fail here, and the job with
//! them. The driver then submits the stage again as a job with new files.

use std::sync::Arc;

use ballista_core::execution_plans::ShuffleReaderExec;
use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::common::{Result, exec_err};
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use serde::{Deserialize, Serialize};

use crate::error::library_errors::is_rerun_stage;
use crate::operator::Operator;
use crate::output::write::Write;
use crate::plan::{Batches, Description, OperatorExec, Shape, Task, file_scan, only_input};
use crate::rewrite::Rewrite;
use crate::source::{NumberRows, ParseFiles, pinned_scan};

/// The prefix of our nodes. Ballista's own nodes are Protocol Buffers messages, whose first bytes differ.
const MAGIC: &[u8] = b"resemblance\x02";

/// Encodes and decodes our nodes. Ballista's codec handles all other nodes.
#[derive(Debug, Default)]
pub(crate) struct Codec {
    ballista: BallistaPhysicalExtensionCodec,
}

/// A node without its inputs, in CBOR, which keeps every bit of a float.
#[derive(Serialize, Deserialize)]
enum WireNode {
    Operator(Operator),
    Write(Write),
    ParseFiles(Box<ParseFiles>),
    NumberRows(NumberRows),
    Rewrite(Box<Rewrite>),
}

impl PhysicalExtensionCodec for Codec {
    fn try_encode(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        match node(plan.as_ref()) {
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
                plan(node, inputs.to_vec(), context)
            }
            None => {
                let node = self.ballista.try_decode(bytes, inputs, context, converter)?;
                fail_reruns(node, context)
            }
        }
    }
}

fn node(plan: &dyn ExecutionPlan) -> Option<WireNode> {
    if let Some(operator) = Operator::described(plan) {
        return Some(WireNode::Operator(operator));
    }
    if let Some(write) = OperatorExec::<Write>::described(plan) {
        return Some(WireNode::Write(write.clone()));
    }
    if let Some(parse) = OperatorExec::<ParseFiles>::described(plan) {
        return Some(WireNode::ParseFiles(Box::new(parse.clone())));
    }
    if let Some(rewrite) = OperatorExec::<Rewrite>::described(plan) {
        return Some(WireNode::Rewrite(Box::new(rewrite.clone())));
    }
    OperatorExec::<NumberRows>::described(plan).cloned().map(WireNode::NumberRows)
}

fn plan(
    node: WireNode,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    context: &TaskContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    match node {
        WireNode::Operator(operator) => operator.over(inputs),
        WireNode::Write(write) => OperatorExec::plan(write, inputs),
        WireNode::ParseFiles(parse) => OperatorExec::plan(*parse, inputs),
        WireNode::Rewrite(rewrite) => OperatorExec::plan(*rewrite, inputs),
        WireNode::NumberRows(number) => {
            let input = only_input(NumberRows::NAME, &inputs)?;
            let input = match file_scan(input) {
                Some(scan) => {
                    let scan = FileScanConfigBuilder::from(scan.clone()).with_preserve_order(true);
                    DataSourceExec::from_data_source(scan.build())
                }
                None => Arc::clone(input),
            };
            // DataFusion serializes a scan without its order and without its reader of Parquet files, so both are set again.
            let input = pinned_scan(input, &context.runtime_env(), &number.splits, None)?;
            OperatorExec::plan(number, vec![input])
        }
    }
}

/// The message of a task in a rerun query stage, and of the driver when a stage fails because of it.
pub(super) const SHUFFLE_LOST: &str = "what a lost executor had written is gone";

/// Returns `node`, or a node that fails in its place if it reads the input of a rerun query stage.
fn fail_reruns(node: Arc<dyn ExecutionPlan>, context: &TaskContext) -> Result<Arc<dyn ExecutionPlan>> {
    match node.downcast_ref::<ShuffleReaderExec>() {
        Some(reader) if context.task_id().is_some_and(|task| is_rerun_stage(&task)) => {
            OperatorExec::plan(RerunGuard(Arc::clone(reader.properties())), Vec::new())
        }
        _ => Ok(node),
    }
}

/// Stands in for a reader, and fails when it is executed. If decoding failed instead, the error would be reported for the first attempt,
/// for which the scheduler no longer waits.
#[derive(Debug, Clone)]
struct RerunGuard(Arc<PlanProperties>);

impl Description for RerunGuard {
    const NAME: &'static str = "RerunGuard";

    type Shared = ();

    fn shape(&self, _: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        Ok(Shape::new(Arc::clone(&self.0), Vec::new()))
    }

    fn start(self: Arc<Self>, _: Task<'_, ()>) -> Result<Batches> {
        exec_err!("{SHUFFLE_LOST}")
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::catalog::memory::MemorySourceConfig;
    use datafusion::datasource::physical_plan::JsonSource;
    use datafusion::datasource::table_schema::TableSchema;
    use datafusion::execution::object_store::ObjectStoreUrl;
    use datafusion::physical_plan::{Partitioning, displayable};
    use datafusion::prelude::SessionConfig;
    use datafusion_proto::physical_plan::DefaultPhysicalProtoConverter;
    use proptest::prelude::*;

    use super::*;
    use crate::clusters::Division;
    use crate::job::{ClusterMethod, Score, ScoreBy};
    use crate::operator::bucket_pairs::PairRule;
    use crate::operator::clusters::Represent;
    use crate::operator::dense_pairs::{DensePairs, DensePass};
    use crate::operator::filters::{MatchRule, MayMatch, MayRepeat};
    use crate::operator::keyed_rows::{ColumnOrder, FirstOfEach, Lists};
    use crate::operator::prefixes::{Prefixes, TokenCounts, Tokens};
    use crate::operator::score::{Probe, Scoring};
    use crate::output::attempt::Attempt;
    use crate::output::write::{TableRows, TableTarget};
    use crate::source::SPLIT_COLUMN;

    type Plan = Arc<dyn ExecutionPlan>;

    fn rows(types: &[DataType]) -> Plan {
        let fields: Vec<_> =
            (0..).zip(types).map(|(i, t)| Field::new(format!("c{i}"), t.clone(), true)).collect();
        MemorySourceConfig::try_new_exec(&[vec![]], Arc::new(Schema::new(fields)), None).unwrap()
    }

    fn there_and_back(plan: &Plan, inputs: &[Plan]) -> Plan {
        let (codec, converter, mut bytes) = (Codec::default(), DefaultPhysicalProtoConverter {}, Vec::new());
        codec.try_encode(Arc::clone(plan), &mut bytes, &converter).unwrap();
        codec.try_decode(&bytes, inputs, &TaskContext::default(), &converter).unwrap()
    }

    proptest! {
        /// Numbers keep every bit when they are encoded and decoded.
        #[test]
        fn operators_arrive_as_they_were(
            threshold in prop_oneof![Just(0.8), Just(0.1 + 0.2), 0.0..1.0f64],
            (hot, left, segments) in (any::<u64>(), any::<u64>(), any::<u64>()),
            bits in 10..24u32,
        ) {
            use DataType::{Boolean, Float64, UInt32, UInt64};
            let score = Score { threshold, by: ScoreBy::Signature, prefilter: true, min_shared: 3, ..Score::default() };
            let probe = Probe::All { left, right: left, segments };
            let first = FirstOfEach { key: 2, order: vec![ColumnOrder { descending: true, nulls_first: false }], of_first: 1 };
            let one = |types: &[DataType]| vec![rows(types)];
            let two = || vec![rows(&[UInt64]), rows(&[UInt64])];
            let reaching = |dense| Operator::BucketPairs(PairRule::MinJaccard { threshold, dense });
            let prefixes = |tokens| Operator::Prefixes(Prefixes { bits, threshold, tokens, least: 2 });
            let dense = |pairs| Operator::Dense(DensePass { threshold, dense: hot, pairs });
            for (operator, inputs) in [
                (Operator::BucketPairs(PairRule::All { hot }), one(&[UInt64, UInt64])),
                (Operator::BucketPairs(PairRule::All { hot }), one(&[UInt64, UInt64, Boolean])),
                (Operator::MayMatch(MayMatch { bits, probes: 3, rules: vec![MatchRule::Share(threshold)] }), two()),
                (reaching(None), one(&[UInt64, UInt64, UInt32, UInt32])),
                (reaching(Some(hot)), one(&[UInt64, UInt64, UInt32, UInt32])),
                (dense(DensePairs::OfLeaders { round: bits }), one(&[UInt64, UInt64, UInt32, UInt32, UInt32, Boolean])),
                (dense(DensePairs::OfTheRest), one(&[UInt64, UInt64, UInt32, UInt32, UInt32, Boolean])),
                (Operator::TokenCounts(TokenCounts { bits, probes: 3 }), one(&[UInt64])),
                (prefixes(Tokens::OfPrefix), two()),
                (prefixes(Tokens::OfPrefixes), [two(), one(&[UInt64])].concat()),
                (Operator::BucketPairs(PairRule::MinContainment { threshold }), one(&[UInt64, UInt64, UInt32, UInt32])),
                (Operator::Represent(Represent(Division::Whole(ClusterMethod::Representative))), one(&[UInt64, UInt64, UInt64, Float64])),
                (Operator::Represent(Represent(Division::Part(ClusterMethod::Components))), one(&[UInt64, UInt64, UInt64, Float64])),
                (Operator::FirstOfEach(first), one(&[UInt64, UInt64, Float64, Boolean])),
                (Operator::Lists(Lists), one(&[UInt64, Float64])),
                (Operator::MayRepeat(MayRepeat), one(&[UInt64, Float64])),
                (Operator::Score(Scoring { score, bands: 32, rows: 4, probe }), two()),
            ] {
                let plan = operator.over(inputs.clone()).unwrap();
                prop_assert_eq!(Operator::described(there_and_back(&plan, &inputs).as_ref()), Some(operator));
            }
        }
    }

    #[test]
    fn a_writer_arrives_with_its_tables() {
        let schema = Arc::new(Schema::new(vec![
            Field::new_list("shingles", Field::new_list_field(DataType::UInt64, true), false),
            Field::new("id", DataType::Utf8, true),
        ]));
        let target = TableTarget {
            table: "documents".into(),
            folder: "documents".into(),
            rows: TableRows::Null("reason".into()),
            schema: Arc::clone(&schema),
            carried: 1,
        };
        let write = Write {
            store_url: "s3://bucket/".into(),
            root: "a b/\u{e9}%".into(),
            attempt: Attempt::random(),
            targets: vec![target.clone()],
            parts: None,
        };
        let inputs = [rows(&[DataType::Utf8])];
        let plan = OperatorExec::plan(write.clone(), inputs.to_vec()).unwrap();
        let back = there_and_back(&plan, &inputs);
        let back = OperatorExec::<Write>::described(back.as_ref()).unwrap();
        assert_eq!((&back.store_url, &back.root), (&write.store_url, &write.root));
        assert_eq!(back.attempt, write.attempt);
        let [table] = &back.targets[..] else { panic!("one table was sent") };
        assert_eq!((&table.table, &table.folder, &table.rows), (&target.table, &target.folder, &target.rows));
        assert_eq!((&table.schema, table.carried), (&schema, 1));
    }

    #[test]
    fn a_scan_arrives_with_its_order() {
        let schema = Arc::new(Schema::new(vec![Field::new("text", DataType::Utf8, true)]));
        let split = Arc::new(Field::new(SPLIT_COLUMN, DataType::UInt32, false));
        let table = TableSchema::builder(schema).with_table_partition_cols(vec![split]).build();
        let scan = || {
            let source = Arc::new(JsonSource::new(table.clone()));
            let scan = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), source);
            DataSourceExec::from_data_source(scan.build()) as Plan
        };
        let number = NumberRows { splits: [].into(), batch_rows: 77, partition_columns: Vec::new() };
        let plan = OperatorExec::plan(number, vec![scan()]).unwrap();
        let back = there_and_back(&plan, &[scan()]);
        assert_eq!(OperatorExec::<NumberRows>::described(back.as_ref()).unwrap().batch_rows, 77);
        let found = file_scan(back.children()[0]).unwrap();
        assert!(found.preserve_order, "{}", displayable(back.as_ref()).indent(true));
    }

    #[test]
    fn readers_of_query_stages_that_run_again_fail_and_all_others_stay() {
        let context = |id: Option<&str>| {
            let (scalar, higher, aggregate, window) = Default::default();
            let (id, config) = (id.map(str::to_owned), SessionConfig::new());
            TaskContext::new(id, "s".into(), config, scalar, higher, aggregate, window, Default::default())
        };
        let schema = Arc::new(Schema::empty());
        let reader =
            ShuffleReaderExec::try_new(3, vec![vec![]], schema, Partitioning::UnknownPartitioning(1));
        let reader: Plan = Arc::new(reader.unwrap());
        for (id, stays) in [
            (None, true),
            (Some("TID 038FZPRKC2000/11.0/2.1"), true),
            (Some("TID 038FZPRKC2000/11.1/2.0"), false),
            (Some("TID 038FZPRKC2000/0.12/2.0"), false),
        ] {
            let context = context(id);
            let node = fail_reruns(Arc::clone(&reader), &context).unwrap();
            assert_eq!(node.downcast_ref::<ShuffleReaderExec>().is_some(), stays, "{id:?}");
            assert!(stays || node.execute(0, Arc::new(context)).is_err(), "{id:?}");
        }
    }
}
