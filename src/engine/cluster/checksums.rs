//! Checksums of shuffled files, which detect bytes that changed on a disk. A task writes the checksums of its files next to them. An
//! executor checks a file before one of its tasks reads it, and before it serves the file to other processes.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_flight::{Action, Ticket};
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::{BoxError, Router};
use ballista_core::JobId;
use ballista_core::execution_plans::sort_shuffle::{ShuffleIndex, get_index_path, is_sort_shuffle_output};
use ballista_core::execution_plans::{ShuffleReaderExec, create_shuffle_path};
use ballista_core::serde::decode_protobuf;
use ballista_core::serde::protobuf::ShuffleWritePartition;
use ballista_core::serde::scheduler::{Action as Fetch, ShuffleLayout};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use prost::Message;
use tonic::Status;

use super::settings::MESSAGE_BYTES;
use crate::error::Error;

/// The number of bytes of a file that are read at once.
const BLOCK: usize = 1 << 18;

/// The number of bytes before the message in the body of a gRPC request: a flag and a length.
const GRPC_PREFIX: usize = 5;

#[derive(Debug)]
pub(super) struct TaskFiles {
    folder: String,
    job: JobId,
    /// The number of the task's query stage.
    stage: usize,
    /// The input files in the executor's folder, each with the partition that the task reads.
    inputs: Vec<(PathBuf, usize)>,
}

impl TaskFiles {
    pub(super) fn new(folder: &str, job: JobId, stage: usize, plan: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        let mut inputs = Vec::new();
        plan.apply(|node| {
            let reader = node.downcast_ref::<ShuffleReaderExec>();
            for location in reader.iter().flat_map(|reader| reader.partition.iter().flatten()) {
                inputs.push((location.path(folder)?, location.partition_id.partition_id));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Self { folder: folder.to_owned(), job, stage, inputs })
    }

    /// Checks the input files in the executor's folder.
    pub(super) fn check_inputs(&self) -> Result<(), Error> {
        let mut here = self.inputs.iter().filter(|(file, _)| file.exists());
        here.try_for_each(|(file, partition)| check(file, *partition))
    }

    pub(super) fn write_checksums(&self, output: &[ShuffleWritePartition]) -> Result<()> {
        let path = |part: &ShuffleWritePartition| {
            let (partition, sorted) = (part.partition_id as usize, part.is_sort_shuffle);
            create_shuffle_path(&self.folder, &self.job, self.stage, partition, part.file_id, sorted)
        };
        for file in output.iter().map(path).collect::<Result<BTreeSet<_>>>()? {
            let checksums = parts(&file)?.into_iter().map(|part| checksum(&file, part));
            std::fs::write(checksum_path(&file), checksums.collect::<io::Result<Vec<_>>>()?.concat())?;
        }
        Ok(())
    }
}

fn checksum_path(file: &Path) -> PathBuf {
    file.with_extension("arrow.crc32")
}

/// Returns the start and end of each part with a checksum: the header and the partitions of the file, or the whole file.
fn parts(file: &Path) -> io::Result<Vec<(u64, u64)>> {
    if !is_sort_shuffle_output(file) {
        return Ok(vec![(0, std::fs::metadata(file)?.len())]);
    }
    let index = ShuffleIndex::read_from_file(&get_index_path(file)).map_err(io::Error::other)?;
    let partitions = (0..index.partition_count()).map(|partition| index.get_partition_range(partition));
    let all = std::iter::once((0, index.header_end_offset())).chain(partitions);
    Ok(all.map(|(begin, end)| (begin.unsigned_abs(), end.unsigned_abs())).collect())
}

fn checksum(file: &Path, (begin, end): (u64, u64)) -> io::Result<[u8; 4]> {
    let mut file = File::open(file)?;
    file.seek(SeekFrom::Start(begin))?;
    let (mut part, mut block) = (file.take(end.abs_diff(begin)), vec![0; BLOCK]);
    let mut crc = crc32fast::Hasher::new();
    loop {
        match part.read(&mut block)? {
            0 if part.limit() > 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            0 => return Ok(crc.finalize().to_le_bytes()),
            bytes => crc.update(&block[..bytes]),
        }
    }
}

/// Fails with the name of the file if its header or the partition is damaged.
fn check(file: &Path, partition: usize) -> Result<(), Error> {
    let is_whole = || -> io::Result<bool> {
        let (written, parts) = (std::fs::read(checksum_path(file))?, parts(file)?);
        let (written, _) = written.as_chunks::<4>();
        let mut whole = written.len() == parts.len();
        for (at, part) in parts.into_iter().enumerate().filter(|(at, _)| [0, partition + 1].contains(at)) {
            whole = whole && written[at] == checksum(file, part)?;
        }
        Ok(whole)
    };
    let why = match is_whole() {
        Ok(true) => return Ok(()),
        Ok(false) => "it has another checksum than when it was written".to_owned(),
        Err(why) => why.to_string(),
    };
    Err(Error::engine(format!("{}: {why}", file.display())))
}

/// Returns `routes`, which serve the shuffled files in the `folder` of `executor`, with a check that refuses damaged files.
pub(super) fn refuse_damaged(routes: Router, folder: String, executor: String) -> Router {
    routes.layer(from_fn_with_state((folder, executor), serve))
}

async fn serve(State((folder, executor)): State<(String, String)>, request: Request, next: Next) -> Response {
    match checked(request, &folder).await {
        Ok(request) => next.run(request).await,
        Err(why) => {
            let message = format!("a shuffled file on the disk of {executor} is damaged or gone: {why}");
            Status::data_loss(message).into_http()
        }
    }
}

/// Checks the file that `request` asks for, and returns the request.
async fn checked(request: Request, folder: &str) -> Result<Request, BoxError> {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, MESSAGE_BYTES as usize).await?;
    let message = body.get(GRPC_PREFIX..).unwrap_or_default();
    // Drivers request the rows of a stage, and executors the bytes of files.
    let fetch = if head.uri.path().ends_with("/DoGet") {
        Ticket::decode(message)?.ticket
    } else {
        Action::decode(message)?.body
    };
    let Fetch::FetchPartition { job_id, stage_id, partition_id, file_id, layout, .. } =
        decode_protobuf(&fetch)?;
    let sorted = layout == ShuffleLayout::Sort;
    let file = create_shuffle_path(folder, &job_id, stage_id, partition_id, file_id, sorted)?;
    tokio::task::spawn_blocking(move || check(&file, partition_id)).await??;
    Ok(Request::from_parts(head, Body::from(body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_of_a_partition_its_header_or_its_index_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        let written = ShuffleWritePartition { partition_id: 1, file_id: Some(7), ..Default::default() };
        let files = TaskFiles { folder: root.into(), job: "job".into(), stage: 2, inputs: Vec::new() };
        for sorted in [false, true] {
            let file = create_shuffle_path(root, &files.job, 2, 1, Some(7), sorted).unwrap();
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, b"headfirstsecond").unwrap();
            if sorted {
                let mut index = ShuffleIndex::new(2);
                index.set_offset(0, 4);
                index.set_offset(1, 9);
                index.set_total_length(15);
                index.write_to_file(&get_index_path(&file)).unwrap();
            }
            assert!(check(&file, 1).is_err(), "a file without checksums");
            let output = ShuffleWritePartition { is_sort_shuffle: sorted, ..written };
            files.write_checksums(&[output]).unwrap();
            check(&file, 1).unwrap();
            let mut parts = vec![file.clone()];
            parts.extend(sorted.then(|| get_index_path(&file)));
            for path in parts {
                let bytes = std::fs::read(&path).unwrap();
                for at in 0..bytes.len() {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 16;
                    std::fs::write(&path, damaged).unwrap();
                    let other = sorted && path == file && (4..9).contains(&at);
                    assert_eq!(check(&file, 1).is_ok(), other, "{} {at}", path.display());
                }
                std::fs::write(&path, bytes).unwrap();
            }
            check(&file, 1).unwrap();
        }
    }
}
