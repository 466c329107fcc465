//! What an executor tells of itself. A registration has no place for its memory, which plans must fit, so the executor's
//! id says it: `executor-<uuid>-<vcores>x<bytes>`.

/// An executor's id, unique for each start of it.
pub fn id(vcores: usize, task_bytes: usize) -> String {
    format!("executor-{}-{vcores}x{task_bytes}", uuid::Uuid::new_v4().simple())
}

/// (vcores, bytes that the operators of a task may reserve) of the executor with this id; none where it is none of ours.
pub fn read(id: &str) -> Option<(usize, usize)> {
    let (vcores, bytes) = id.strip_prefix("executor-")?.rsplit_once('-')?.1.split_once('x')?;
    Some((vcores.parse().ok()?, bytes.parse().ok()?))
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
