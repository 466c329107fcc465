//! The cores and the memory of an executor, which plans must fit. Ballista's registration has no fields for them, so they are
//! in the executor's id: `executor-<uuid>-<cores>x<bytes>`.

/// An executor's id, unique for each start of it.
pub(crate) fn id(cores: usize, task_bytes: usize) -> String {
    format!("executor-{}-{cores}x{task_bytes}", uuid::Uuid::new_v4().simple())
}

/// (cores, bytes that the operators of a task may reserve) in an executor's id; `None` if it is not ours.
pub(crate) fn read(id: &str) -> Option<(usize, usize)> {
    let (cores, bytes) = id.strip_prefix("executor-")?.rsplit_once('-')?.1.split_once('x')?;
    Some((cores.parse().ok()?, bytes.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_holds_cores_and_bytes() {
        assert_eq!(read(&id(3, 1 << 30)), Some((3, 1 << 30)));
        assert_ne!(id(1, 1), id(1, 1));
        assert_eq!(read("other"), None);
    }
}
