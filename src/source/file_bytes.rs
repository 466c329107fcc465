//! The bytes of a file that were read so far, for progress.

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};

/// The name of the metric of an operator that reads files: the bytes of its files that were read.
pub(crate) const READ_BYTES: &str = "read_bytes";

/// The metric [`READ_BYTES`] of a partition.
pub(crate) fn read_bytes(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Count {
    MetricBuilder::new(metrics).counter(READ_BYTES, partition)
}

/// Counts the bytes of one file, as many as it has. The rest counts when this is dropped: a compressed file has more bytes when
/// it is read, and some bytes are skipped.
#[derive(Debug)]
pub(crate) struct FileBytes {
    count: Count,
    left: u64,
}

impl FileBytes {
    /// Counts the bytes of a file of `size` in `count`.
    pub(crate) fn new(count: &Count, size: u64) -> Self {
        Self { count: count.clone(), left: size }
    }

    /// More bytes were read.
    pub(crate) fn add(&mut self, bytes: u64) {
        let bytes = bytes.min(self.left);
        self.left -= bytes;
        self.count.add(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
}

impl Drop for FileBytes {
    fn drop(&mut self) {
        self.add(self.left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_as_many_bytes_as_it_has() {
        let count = Count::new();
        let mut bytes = FileBytes::new(&count, 100);
        bytes.add(30);
        assert_eq!(count.value(), 30);
        bytes.add(300);
        assert_eq!(count.value(), 100);
        drop(bytes);
        drop(FileBytes::new(&count, 50));
        assert_eq!(count.value(), 150);
    }
}
