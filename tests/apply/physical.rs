//! Parquet at its own level: every physical and logical type, however deep, keeps its values, levels, schema and metadata.
//! Files are made by the library's writer of columns and read back by its reader of columns, without Arrow.

use std::fs::File;

use arrow::datatypes::TimestampMicrosecondType;
use parquet::basic::{Compression, Encoding, Repetition, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{DataType, *};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, Type, TypePtr};

use super::*;

/// Types of current writers and of earlier writers.
const EVERY_TYPE: &str = "message spark_schema {
    required binary id (STRING);
    optional binary text (UTF8);
    optional boolean flag;
    optional int32 i8 (INTEGER(8,true));
    optional int32 u8 (UINT_8);
    optional int32 u16 (INTEGER(16,false));
    required int32 u32 (INTEGER(32,false));
    optional int64 u64 (INTEGER(64,false));
    optional int32 day (DATE);
    optional int32 clock_ms (TIME(MILLIS,true));
    optional int64 clock_us (TIME(MICROS,false));
    optional int64 clock_ns (TIME(NANOS,true));
    optional int32 old_clock (TIME_MILLIS);
    optional int64 at_ms (TIMESTAMP(MILLIS,true));
    optional int64 at_us (TIMESTAMP(MICROS,false));
    optional int64 at_ns (TIMESTAMP(NANOS,false));
    optional int64 old_at (TIMESTAMP_MICROS);
    optional int96 legacy_at;
    required int96 legacy_day;
    optional int64 date64;
    optional int32 decimal32 (DECIMAL(9,2));
    optional int64 decimal64 (DECIMAL(18,4));
    optional fixed_len_byte_array(5) decimal5 (DECIMAL(11,3));
    optional fixed_len_byte_array(16) decimal16 (DECIMAL(38,10));
    optional fixed_len_byte_array(32) decimal32bytes (DECIMAL(76,0));
    optional binary decimal_bytes (DECIMAL(50,3));
    optional fixed_len_byte_array(12) span (INTERVAL);
    optional fixed_len_byte_array(16) uuid (UUID);
    required fixed_len_byte_array(16) int128;
    optional fixed_len_byte_array(2) half (FLOAT16);
    optional float f;
    optional double d;
    optional binary json (JSON);
    optional binary bson (BSON);
    optional binary kind (ENUM);
    optional binary bytes;
    optional int32 nothing (UNKNOWN);
    optional binary nothing_bytes (UNKNOWN);
    repeated int32 bare;
    optional group two_levels (LIST) { repeated int96 array; }
    optional group two_levels_of_groups (LIST) {
        repeated group array { required binary a (UTF8); optional fixed_len_byte_array(12) b (INTERVAL); }
    }
    optional group bag (LIST) { repeated group bag { optional int64 array_element (DECIMAL(18,2)); } }
    required group list (LIST) { repeated group list { required int96 element; } }
    optional group lists (LIST) {
        repeated group list {
            optional group element (LIST) { repeated group list { optional fixed_len_byte_array(16) element (UUID); } }
        }
    }
    optional group map (MAP) {
        repeated group key_value {
            required binary key (UTF8);
            optional group value { optional int96 at; required fixed_len_byte_array(3) n (DECIMAL(5,1)); }
        }
    }
    optional group old_map (MAP_KEY_VALUE) { repeated group map { required int64 key; optional boolean value; } }
    optional group outer {
        optional group inner { optional int96 at; required int32 n; repeated binary names (UTF8); }
        optional fixed_len_byte_array(16) id (UUID);
    }
}";

/// The values of a leaf: a definition level, a repetition level and, where it is not null, the bytes of each.
type Leaf = Vec<(i16, i16, Option<Vec<u8>>)>;

/// Rows of a file in the order of its leaves, each with what the row has there.
fn rows_of(path: &Path) -> Vec<Vec<Leaf>> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let columns = reader.metadata().file_metadata().schema_descr().num_columns();
    let mut leaves: Vec<Vec<Leaf>> = vec![Vec::new(); columns];
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).unwrap();
        for (leaf, rows) in leaves.iter_mut().enumerate() {
            let descriptor = group.metadata().column(leaf).column_descr_ptr();
            let levels = (descriptor.max_def_level(), descriptor.max_rep_level());
            use ColumnReader as R;
            let values = match group.get_column_reader(leaf).unwrap() {
                R::BoolColumnReader(reader) => all(reader, levels),
                R::Int32ColumnReader(reader) => all(reader, levels),
                R::Int64ColumnReader(reader) => all(reader, levels),
                R::Int96ColumnReader(reader) => all(reader, levels),
                R::FloatColumnReader(reader) => all(reader, levels),
                R::DoubleColumnReader(reader) => all(reader, levels),
                R::ByteArrayColumnReader(reader) => all(reader, levels),
                R::FixedLenByteArrayColumnReader(reader) => all(reader, levels),
            };
            for value in values {
                match value.1 {
                    0 => rows.push(vec![value]),
                    _ => rows.last_mut().unwrap().push(value),
                }
            }
        }
    }
    let count = leaves[0].len();
    assert!(leaves.iter().all(|rows| rows.len() == count), "{path:?} has columns of other lengths");
    (0..count).map(|row| leaves.iter().map(|leaf| leaf[row].clone()).collect()).collect()
}

fn all<T: DataType>(mut reader: ColumnReaderImpl<T>, (definition, repetition): (i16, i16)) -> Leaf {
    let (mut definitions, mut repetitions, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let levels = reader
        .read_records(usize::MAX, Some(&mut definitions), Some(&mut repetitions), &mut values)
        .unwrap()
        .2;
    let mut values = values.iter().map(|value| value.as_bytes().to_vec());
    let level = |levels: &Vec<i16>, at: usize, most: i16| if most == 0 { 0 } else { levels[at] };
    let leaf = (0..levels).map(|at| {
        let is = level(&definitions, at, definition);
        (is, level(&repetitions, at, repetition), (is == definition).then(|| values.next().unwrap()))
    });
    let leaf = leaf.collect();
    assert_eq!(values.next(), None);
    leaf
}

/// Makes rows of a schema: what is optional is null, or a list empty, about as often as not.
struct Shredder<'a> {
    random: Random,
    document: Option<&'a Document>,
    leaves: Vec<Leaf>,
}

impl Shredder<'_> {
    /// Puts a node and what is below it: the number of the next leaf. Null where `there` is false.
    fn put(
        &mut self,
        node: &Type,
        leaf: usize,
        (definition, repetition, depth): (i16, i16, i16),
        there: bool,
    ) -> usize {
        let info = node.get_basic_info();
        match info.has_repetition().then(|| info.repetition()) {
            Some(Repetition::OPTIONAL) => {
                let there = there && (info.name() == "text" || self.random.below(5) > 1);
                self.inside(node, leaf, (definition + i16::from(there), repetition, depth), there)
            }
            Some(Repetition::REPEATED) => {
                let count = if there { self.random.below(4) } else { 0 };
                let inside = definition + i16::from(count > 0);
                let mut next = self.inside(node, leaf, (inside, repetition, depth + 1), count > 0);
                for _ in 1..count {
                    next = self.inside(node, leaf, (definition + 1, depth + 1, depth + 1), true);
                }
                next
            }
            _ => self.inside(node, leaf, (definition, repetition, depth), there),
        }
    }

    fn inside(&mut self, node: &Type, leaf: usize, levels: (i16, i16, i16), there: bool) -> usize {
        if node.is_group() {
            return node.get_fields().iter().fold(leaf, |leaf, field| self.put(field, leaf, levels, there));
        }
        let value = there.then(|| self.value(node));
        self.leaves[leaf].push((levels.0, levels.1, value));
        leaf + 1
    }

    fn value(&mut self, node: &Type) -> Vec<u8> {
        match (node.name(), self.document) {
            ("id", Some((id, _))) => return id.clone().into_bytes(),
            ("text", Some((_, text))) => return text.clone().into_bytes(),
            _ => {}
        }
        use parquet::basic::Type as P;
        let Type::PrimitiveType { physical_type, type_length, .. } = node else { unreachable!() };
        let length = match physical_type {
            P::BOOLEAN => return vec![self.random.below(2) as u8],
            P::INT32 | P::FLOAT => 4,
            P::INT64 | P::DOUBLE => 8,
            P::INT96 => 12,
            P::BYTE_ARRAY => self.random.below(20),
            P::FIXED_LEN_BYTE_ARRAY => *type_length as usize,
        };
        // Some values come often, as dictionaries like them, and some are the largest of their type.
        let of = match self.random.below(4) {
            0 => return vec![self.random.below(3) as u8 * 0x7f; length],
            1 => 256,
            _ => 7,
        };
        (0..length).map(|_| self.random.below(of) as u8).collect()
    }
}

fn shredded(schema: &Type, documents: &[Document], seed: u64) -> Vec<Vec<Leaf>> {
    let columns = parquet::schema::types::SchemaDescriptor::new(Arc::new(schema.clone())).num_columns();
    let mut shredder = Shredder { random: Random(seed), document: None, leaves: Vec::new() };
    let mut rows = Vec::new();
    for document in documents {
        shredder.leaves = vec![Leaf::new(); columns];
        let mut leaf = 0;
        for field in schema.get_fields() {
            let own = matches!(field.name(), "id" | "text") && field.is_primitive();
            shredder.document = own.then_some(document);
            leaf = shredder.put(field, leaf, (0, 0, 0), true);
        }
        rows.push(std::mem::take(&mut shredder.leaves));
    }
    rows
}

/// Writes rows, so many in each group.
fn write(path: &Path, schema: &TypePtr, rows: &[Vec<Leaf>], group: usize, properties: WriterProperties) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer =
        SerializedFileWriter::new(File::create(path).unwrap(), Arc::clone(schema), Arc::new(properties))
            .unwrap();
    for rows in rows.chunks(group) {
        let mut group = writer.next_row_group().unwrap();
        let mut leaf = 0;
        while let Some(mut column) = group.next_column().unwrap() {
            let values: Leaf = rows.iter().flat_map(|row| row[leaf].clone()).collect();
            use ColumnWriter as W;
            match column.untyped() {
                W::BoolColumnWriter(to) => put(to, &values, |bytes| bytes[0] == 1),
                W::Int32ColumnWriter(to) => put(to, &values, |b| i32::from_le_bytes(b.try_into().unwrap())),
                W::Int64ColumnWriter(to) => put(to, &values, |b| i64::from_le_bytes(b.try_into().unwrap())),
                W::Int96ColumnWriter(to) => put(to, &values, |bytes| {
                    let word = |at: usize| u32::from_le_bytes(bytes[4 * at..4 * at + 4].try_into().unwrap());
                    Int96::from(vec![word(0), word(1), word(2)])
                }),
                W::FloatColumnWriter(to) => put(to, &values, |b| f32::from_le_bytes(b.try_into().unwrap())),
                W::DoubleColumnWriter(to) => put(to, &values, |b| f64::from_le_bytes(b.try_into().unwrap())),
                W::ByteArrayColumnWriter(to) => put(to, &values, ByteArray::from),
                W::FixedLenByteArrayColumnWriter(to) => put(to, &values, |b| ByteArray::from(b).into()),
            }
            column.close().unwrap();
            leaf += 1;
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}

fn put<T: DataType>(
    to: &mut parquet::column::writer::ColumnWriterImpl<'_, T>,
    leaf: &Leaf,
    value: impl Fn(Vec<u8>) -> T::T,
) {
    let (definitions, repetitions): (Vec<i16>, Vec<i16>) = leaf.iter().map(|of| (of.0, of.1)).unzip();
    let values: Vec<T::T> = leaf.iter().filter_map(|of| of.2.clone()).map(value).collect();
    let column = to.get_descriptor().clone();
    let definitions = (column.max_def_level() > 0).then_some(definitions.as_slice());
    let repetitions = (column.max_rep_level() > 0).then_some(repetitions.as_slice());
    to.write_batch(&values, definitions, repetitions).unwrap();
}

fn any_schema(random: &mut Random) -> TypePtr {
    let mut columns = String::new();
    for at in 0..1 + random.below(6) {
        columns += &any_field(random, &format!("c{at}"), 3);
    }
    let message =
        format!("message any {{ required binary id (UTF8); {columns} optional binary text (STRING); }}");
    Arc::new(parse_message_type(&message).unwrap())
}

fn any_field(random: &mut Random, name: &str, depth: usize) -> String {
    let repetition = ["required", "optional", "repeated"][random.below(3)];
    if depth > 0 && random.below(3) == 0 {
        let fields: String = (0..1 + random.below(3))
            .map(|at| any_field(random, &format!("{name}_{at}"), depth - 1))
            .collect();
        return format!("{repetition} group {name} {{ {fields} }} ");
    }
    let types =
        "boolean int32 int64 int96 float double binary fixed_len_byte_array(5) fixed_len_byte_array(33)";
    format!("{repetition} {} {name}; ", types.split(' ').nth(random.below(9)).unwrap())
}

fn any_properties(random: &mut Random, pairs: Vec<KeyValue>) -> WriterProperties {
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4_RAW,
    ];
    let version = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0][random.below(2)];
    WriterProperties::builder()
        .set_writer_version(version)
        .set_compression(codecs[random.below(codecs.len())])
        .set_dictionary_enabled(random.below(2) == 0)
        .set_data_page_row_count_limit(1 + random.below(40))
        .set_write_batch_size(1 + random.below(40))
        .set_offset_index_disabled(random.below(2) == 0)
        .set_key_value_metadata(Some(pairs))
        .build()
}

fn pairs() -> Vec<KeyValue> {
    let pair = |key: &str, value: Option<&str>| KeyValue { key: key.into(), value: value.map(str::to_owned) };
    vec![
        pair("geo", Some("{\"version\": \"1.1.0\", \"columns\": {}}")),
        pair("pandas", Some("{\"index_columns\": [], \"columns\": []}")),
        pair("org.apache.spark.version", Some("3.5.1")),
        pair("org.apache.spark.legacyINT96", Some("")),
        pair("without a value", None),
        pair("geo", Some("twice")),
    ]
}

/// Holds a file against the rows of its source that stay. Row groups keep their bounds or become one.
fn assert_copied(kept: &Path, source: &Path, columns: Range<usize>, stays: impl Fn(usize) -> bool) {
    let expected: Vec<Vec<Leaf>> = (rows_of(source).into_iter().enumerate())
        .filter(|(row, _)| stays(*row))
        .map(|(_, leaves)| leaves)
        .collect();
    let found: Vec<Vec<Leaf>> =
        rows_of(kept).into_iter().map(|leaves| leaves[columns.clone()].to_vec()).collect();
    assert_eq!(found.len(), expected.len(), "{kept:?}");
    for (row, (found, expected)) in found.iter().zip(&expected).enumerate() {
        for (leaf, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert_eq!(found, expected, "row {row}, leaf {leaf} of {kept:?}");
        }
    }
    let about = |path: &Path| {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        reader.metadata().file_metadata().clone()
    };
    let (kept, source) = (about(kept), about(source));
    let fields = source.schema().get_fields();
    assert_eq!(kept.schema().get_fields()[..fields.len()], *fields);
    assert_eq!(kept.schema().name(), source.schema().name());
    assert_eq!(kept.key_value_metadata(), source.key_value_metadata());
}

/// A source of every type and of random types: the names of its files.
fn source(applied: &Applied, documents: &[Document]) -> Vec<String> {
    let mut random = Random(77);
    let mut names = Vec::new();
    for (at, documents) in documents.chunks(40).enumerate() {
        let schema = match at {
            0..4 => Arc::new(parse_message_type(EVERY_TYPE).unwrap()),
            _ => any_schema(&mut random),
        };
        let name = format!("{at:02}.parquet");
        let rows = shredded(&schema, documents, at as u64);
        let group = [40, 13, 1, 39][at % 4];
        let properties = any_properties(&mut random, pairs());
        write(&applied.path("in").join(&name), &schema, &rows, group, properties);
        let found = rows_of(&applied.path("in").join(&name));
        assert_eq!(found, rows, "the writer and the reader of the test differ");
        names.push(name);
    }
    applied.run("parquet", COLUMNS);
    names
}

#[test]
fn every_type_keeps_its_values_levels_schema_and_metadata() {
    let applied = Applied::new();
    let names = source(&applied, &corpus(71, 1_000, 12));
    let (gone, clustered) = (applied.gone(), applied.clustered());
    assert!(gone.len() > 100);
    applied.apply("to", &[]);
    applied.apply("marked", &["--annotate"]);
    let mut added = 0;
    for name in names {
        let source = applied.path("in").join(&name);
        let stays = |row| !gone.contains(&applied.place(&name, row));
        let columns = |path: &Path| rows_of(path)[0].len();
        let own = 0..columns(&source);
        assert_copied(&applied.path("to").join(&name), &source, own.clone(), stays);
        let marked = applied.path("marked").join(&name);
        assert_eq!(columns(&marked), own.end + 3);
        assert_copied(&marked, &source, own.clone(), |_| true);
        for (row, leaves) in rows_of(&marked).into_iter().enumerate() {
            let said: Vec<Option<Vec<u8>>> = leaves[own.end..].iter().map(|leaf| leaf[0].2.clone()).collect();
            let expected = clustered.get(&applied.place(&name, row)).map(|(cluster, kept, id)| {
                added += 1;
                [cluster.clone().into_bytes(), vec![u8::from(kept == id)], kept.clone().into_bytes()]
            });
            assert_eq!(said, expected.map_or([const { None }; 3], |said| said.map(Some)), "{name} {row}");
        }
    }
    assert!(added > 300);
}

#[test]
fn encodings_that_were_chosen_are_kept_and_lists_may_be_long() {
    let applied = Applied::new();
    let documents = corpus(72, 60, 20);
    let message = "message m { required binary id (UTF8); required binary text (UTF8); required int64 n; required double d; \
                   repeated int32 many; }";
    let schema = Arc::new(parse_message_type(message).unwrap());
    let mut rows = shredded(&schema, &documents, 5);
    for (at, row) in rows.iter_mut().enumerate().filter(|(at, _)| at % 20 == 7) {
        row[4] = (0..40_000)
            .map(|n: i32| (1, i16::from(n > 0), Some((n ^ at as i32).to_le_bytes().to_vec())))
            .collect();
    }
    let column = |name: &str| ColumnPath::from(name);
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_column_encoding(column("id"), Encoding::DELTA_BYTE_ARRAY)
        .set_column_encoding(column("text"), Encoding::DELTA_LENGTH_BYTE_ARRAY)
        .set_column_encoding(column("n"), Encoding::DELTA_BINARY_PACKED)
        .set_column_encoding(column("d"), Encoding::BYTE_STREAM_SPLIT)
        .build();
    let source = applied.path("in/a.parquet");
    write(&source, &schema, &rows, 25, properties);
    applied.run("parquet", COLUMNS);
    applied.apply("to", &[]);
    let gone = applied.gone();
    let kept = applied.path("to/a.parquet");
    assert_copied(&kept, &source, 0..5, |row| !gone.contains(&applied.place("a.parquet", row)));
    let encodings = |path: &Path| -> Vec<Vec<Encoding>> {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        reader.metadata().row_group(0).columns().iter().map(|column| column.encodings().collect()).collect()
    };
    assert_eq!(encodings(&kept), encodings(&source));
}

/// A time of 96 bits: nanoseconds of a day, and the day by the count that begins in the year 4713 before Christ.
fn int96(days: i64, nanoseconds: u64) -> Vec<u8> {
    let day = u32::try_from(days + 2_440_588).unwrap();
    [nanoseconds.to_le_bytes().as_slice(), &day.to_le_bytes()].concat()
}

#[test]
fn times_of_96_bits_are_carried_as_they_are_meant() {
    let applied = Applied::new();
    let documents = corpus(73, 90, 20);
    let message = "message m { required binary id (UTF8); required binary text (UTF8); required int96 at; \
                   optional group old (LIST) { repeated group list { optional int96 element; } } }";
    let schema = Arc::new(parse_message_type(message).unwrap());
    let mut rows = shredded(&schema, &documents, 6);
    // The first and the last day that Spark has, and the days after which nanoseconds wrap.
    let days = [-719_162, 2_932_896, 106_752, -106_753, 20_000];
    let mut expected = BTreeMap::new();
    for (at, (row, (id, _))) in rows.iter_mut().zip(&documents).enumerate() {
        let (days, micros) = (days[at * 7 % 5], 86_399_999_000 + at as i64);
        row[2] = vec![(0, 0, Some(int96(days, 1_000 * micros as u64)))];
        expected.insert(id.clone(), days * 86_400_000_000 + micros);
    }
    write(&applied.path("in/a.parquet"), &schema, &rows, 25, WriterProperties::new());
    applied.run("parquet", &format!("{COLUMNS}columns = [\"at\"]\n{CONNECTED}keep = [\"at desc\"]"));
    let carried = table(&applied.path("out"), "documents");
    let times = carried["at"].as_primitive::<TimestampMicrosecondType>().values().to_vec();
    assert_eq!(strings(&carried, "id").into_iter().zip(times).collect::<BTreeMap<_, _>>(), expected);
    let mut newest: BTreeMap<String, (i64, String, String)> = BTreeMap::new();
    for (cluster, kept, id) in applied.clustered().into_values() {
        let this = (expected[&id], id, kept);
        newest.entry(cluster).and_modify(|other| *other = other.clone().max(this.clone())).or_insert(this);
    }
    assert!(newest.len() > 10);
    for (_, id, kept) in newest.into_values() {
        assert_eq!(kept, id);
    }

    // For Delta, as for Spark, they are points in time.
    applied.apply("to", &["--tables", "delta"]);
    let table = Table::read(&applied.path("to"));
    let fields = table.fields();
    assert_eq!((&fields[2].0[..], &fields[2].1), ("at", &"timestamp".into()));
    assert_eq!(fields[3].1["elementType"], "timestamp");
    assert!(!format!("{table:?}").contains("timestampNtz"), "{table:?}");
}

#[test]
fn columns_that_cannot_be_carried_whole_are_refused_by_name() {
    let applied = Applied::new();
    let schema = Arc::new(parse_message_type(EVERY_TYPE).unwrap());
    let rows = shredded(&schema, &corpus(74, 20, 12), 7);
    write(&applied.path("in/a.parquet"), &schema, &rows, 20, WriterProperties::new());
    let refused = |keys: &str, name: &str| {
        let text = format!(
            "[source]\nformat = \"parquet\"\nurl = {:?}\ntext = \"text\"\n{keys}\n[output]\nurl = {:?}\n",
            applied.path("in"),
            applied.path("out")
        );
        std::fs::write(applied.path("job.toml"), text).unwrap();
        program!["run", applied.path("job.toml")].assert().refused(2, &[&format!("`{name}`"), "a.parquet"]);
    };
    let names = "span decimal32bytes decimal_bytes uuid int128 clock_ms clock_ns bytes bson kind nothing list map \
         outer";
    for name in names.split(' ') {
        refused(&format!("id = \"id\"\ncolumns = [{name:?}]"), name);
    }
    refused("id = \"span\"", "span");
}
