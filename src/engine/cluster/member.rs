//! What an executor tells of itself. A registration has no place for its memory and its machine's cores, which plans must
//! fit, so the executor's id says them: `executor-<uuid>-<cores>x<bytes>`.

/// An executor's id, unique for each start of it.
pub(crate) fn id(cores: usize, task_bytes: usize) -> String {
    format!("executor-{}-{cores}x{task_bytes}", uuid::Uuid::new_v4().simple())
}

/// (cores, bytes that the operators of a task may reserve) of the executor with this id; `None` if it is not one of ours.
pub(crate) fn read(id: &str) -> Option<(usize, usize)> {
    let (cores, bytes) = id.strip_prefix("executor-")?.rsplit_once('-')?.1.split_once('x')?;
    Some((cores.parse().ok()?, bytes.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_what_it_was_made_of() {
        assert_eq!(read(&id(3, 1 << 30)), Some((3, 1 << 30)));
        assert_ne!(id(1, 1), id(1, 1));
        assert_eq!(read("somebody-else"), None);
    }
}
