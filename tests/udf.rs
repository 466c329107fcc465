//! The SQL functions as a session sees them: `tests/udf/*.slt`, one file a function.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::DataFusionError;
use datafusion::prelude::{SessionContext, col};
use resemblance::job::{BucketHash, Normalize, Shingle, ShingleHash, Short, Unit, Words};
use resemblance::udf::{all, expr_fn, register_all};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};

#[test]
fn every_function_has_a_file_and_every_file_holds() {
    let functions: BTreeSet<_> = all().iter().map(|udf| udf.name().to_owned()).collect();
    let files: BTreeSet<_> =
        slt_files().map(|path| path.file_stem().unwrap().display().to_string()).collect();
    assert_eq!(functions, files);
    for file in slt_files() {
        let mut runner = Runner::new(|| async { Ok::<_, DataFusionError>(Session { ctx: session() }) });
        runtime()
            .block_on(runner.run_file_async(&file))
            .unwrap_or_else(|error| panic!("{}", error.display(false)));
    }
}

/// The example in each function's documentation is a call of it, and gives what it says.
#[test]
fn documented_examples_hold() {
    let ctx = session();
    for udf in all() {
        let documentation = udf.documentation().unwrap_or_else(|| panic!("{} is documented", udf.name()));
        assert!(documentation.syntax_example.starts_with(udf.name()));
        for other in documentation.related_udfs.iter().flatten() {
            assert!(all().iter().any(|known| known.name() == other), "{other} is registered");
        }
        let example = documentation.sql_example.as_deref().unwrap();
        let lines: Vec<_> = example.lines().collect();
        let ["```sql", sql, answer, "```"] = lines[..] else { panic!("{example}") };
        let sql = sql.strip_prefix("> ").unwrap();
        assert!(sql.contains(&format!("{}(", udf.name())), "{sql}");
        let rows = runtime().block_on(rows_of(&ctx, sql)).unwrap();
        assert_eq!(rows, [[answer]], "{sql}");
    }
}

#[test]
fn expressions_are_the_functions() {
    let ctx = session();
    let by = Shingle {
        normalize: vec![Normalize::Lowercase, Normalize::StopWords("en".into())],
        unit: Unit::Word,
        words: Words::Unicode,
        size: 1,
        separator: " ".into(),
        hash: ShingleHash::Crc32,
        min_words: 2,
        short: Short::Whole,
    };
    let rows = runtime().block_on(async {
        let texts = ctx.sql("select 'The Quick fox' as a, 'quick dog' as b").await.unwrap();
        let sets = ["a", "b"].map(|text| expr_fn::shingles(col(text), &by).alias(text));
        let mut signed = texts.select(sets).unwrap();
        for (name, signature) in [
            ("sa", expr_fn::minhash(col("a"), 6, u64::MAX, None)),
            ("sb", expr_fn::minhash(col("b"), 6, u64::MAX, Some((101, 50)))),
            ("oa", expr_fn::one_permutation(col("a"), 6, u64::MAX)),
        ] {
            signed = signed.with_column(name, signature).unwrap();
        }
        let bands = expr_fn::lsh_bands(col("sb"), 3, 2, BucketHash::Crc32, Some(7));
        let scored = signed.select([
            expr_fn::jaccard(col("a"), col("b")),
            expr_fn::containment(col("a"), col("b")),
            expr_fn::minhash_similarity(col("sa"), col("sa")),
            expr_fn::minhash_similarity(col("oa"), col("oa")),
            datafusion::functions_nested::expr_fn::array_length(bands),
        ]);
        cells(scored.unwrap()).await.unwrap()
    });
    // "the" leaves; "quick" and "fox" meet "quick" and "dog".
    assert_eq!(rows, [["0.3333333333333333", "0.5", "1.0", "1.0", "3"]]);
}

struct Session {
    ctx: SessionContext,
}

#[async_trait::async_trait]
impl AsyncDB for Session {
    type Error = DataFusionError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, DataFusionError> {
        let mut rows = rows_of(&self.ctx, sql).await?;
        // White space between columns does not count in these files, so an empty text needs a sign.
        rows.iter_mut().flatten().filter(|cell| cell.is_empty()).for_each(|cell| *cell = "(empty)".into());
        let columns = rows.first().map_or(0, Vec::len);
        Ok(DBOutput::Rows { types: vec![DefaultColumnType::Any; columns], rows })
    }

    async fn shutdown(&mut self) {}
}

fn session() -> SessionContext {
    let ctx = SessionContext::new();
    register_all(&ctx).unwrap();
    ctx
}

async fn rows_of(ctx: &SessionContext, sql: &str) -> Result<Vec<Vec<String>>, DataFusionError> {
    cells(ctx.sql(sql).await?).await
}

async fn cells(frame: datafusion::prelude::DataFrame) -> Result<Vec<Vec<String>>, DataFusionError> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in frame.collect().await? {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        rows.extend(
            (0..batch.num_rows()).map(|row| columns.iter().map(|c| c.value(row).to_string()).collect()),
        );
    }
    Ok(rows)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn slt_files() -> impl Iterator<Item = PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/udf");
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "slt"))
}
