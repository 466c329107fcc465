//! Reads the clock and the limits of the machine. The limits are its memory or the memory limit of the container (cgroup v1 or v2), free
//! space on disks, and open files.

pub(crate) mod being_read;

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The memory that is assumed if the system does not report it, in bytes.
pub(crate) const UNKNOWN: u64 = 8 << 30;

/// Returns the seconds since 1970 for the manifest, the record, the metrics and the events of a run. No row of a table depends on the time.
#[allow(clippy::disallowed_methods, reason = "the one place that asks the clock")]
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Returns the number of bytes of memory that this process may use, or `None` if the system does not report it.
pub(crate) fn memory() -> Option<u64> {
    memory_below(Path::new("/"))
}

/// Returns the number of free bytes on the disk of an existing folder, or `None` if the system does not report it.
#[cfg(unix)]
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

/// Returns `None`, because this program cannot query this system.
#[cfg(not(unix))]
pub(crate) fn free_bytes(_folder: &Path) -> Option<u64> {
    None
}

/// Returns the maximum number of bytes of memory that this process used since its start or since [`forget_peak_memory`]. Returns `None` if
/// the system does not report it.
pub(crate) fn peak_memory() -> Option<u64> {
    kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// Resets [`peak_memory`] if the system allows it.
pub(crate) fn forget_peak_memory() {
    // The value 5 resets only the peak: see proc(5), /proc/PID/clear_refs.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Returns the number of files that this process may have open at the same time, or `None` if the system does not report it.
pub(crate) fn open_files() -> Option<u64> {
    soft_limit_of_files(&fs::read_to_string("/proc/self/limits").ok()?)
}

/// Returns the soft limit on open files from the text of `/proc/PID/limits`.
fn soft_limit_of_files(limits: &str) -> Option<u64> {
    let of_files = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    of_files.split_whitespace().next()?.parse().ok()
}

/// Implements [`memory`], and reads the system files below `root`.
fn memory_below(root: &Path) -> Option<u64> {
    let total = kilobytes(&fs::read_to_string(root.join("proc/meminfo")).ok()?, "MemTotal:")?;
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    groups.lines().filter_map(|line| limit(root, line)).chain([total]).min()
}

/// Returns the value of the line `name` in a file in `/proc`, converted from kB to bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

/// Returns the smallest memory limit of a cgroup and the groups above it. `line` is a line of `/proc/self/cgroup` (`ID:CONTROLLERS:PATH`)
/// and names the cgroup. The root of the mount is always included, because `PATH` can be a path of the host that does not exist in a
/// container.
fn limit(root: &Path, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, group) = (parts.next()?, parts.next()?);
    let (mount, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        controllers if controllers.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let group = Path::new(group.trim_start_matches('/'));
    // "max" is not a number and sets no limit.
    let read = |group: &Path| {
        fs::read_to_string(root.join(mount).join(group).join(file)).ok()?.trim().parse::<u64>().ok()
    };
    group.ancestors().filter_map(read).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:       16000 kB\nMemFree:        1 kB\n");

    #[test]
    fn the_least_limit_counts() {
        let of = |files: &[(&str, &str)]| memory_below(root(&[&[MEMINFO], files].concat()).path());
        assert_eq!(of(&[]), Some(16_384_000));
        // Version 2: the limit of the group itself, a limit of a group above it, or no limit.
        let group = ("proc/self/cgroup", "0::/pod/container\n");
        assert_eq!(of(&[group, ("sys/fs/cgroup/pod/container/memory.max", "5000\n")]), Some(5_000));
        let above =
            [("sys/fs/cgroup/pod/container/memory.max", "max\n"), ("sys/fs/cgroup/pod/memory.max", "7000\n")];
        assert_eq!(of(&[&[group], above.as_slice()].concat()), Some(7_000));
        assert_eq!(of(&[group, ("sys/fs/cgroup/memory.max", "max\n")]), Some(16_384_000));
        // Version 1: in a container, where the mount is the group of the container, and without a limit.
        let group = ("proc/self/cgroup", "5:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n0::/\n");
        let file = "sys/fs/cgroup/memory/memory.limit_in_bytes";
        assert_eq!(of(&[group, (file, "9000\n")]), Some(9_000));
        assert_eq!(of(&[group, (file, "9223372036854771712\n")]), Some(16_384_000));
        assert_eq!(memory_below(root(&[]).path()), None);
        assert_eq!(memory_below(root(&[("proc/meminfo", "MemTotal: many\n")]).path()), None);
    }

    #[test]
    fn the_soft_limit_of_open_files_is_read() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max processes             95961                95961                processes\n\
                      Max open files            1024                 524288               files\n";
        assert_eq!(soft_limit_of_files(limits), Some(1_024));
        for unknown in ["Max open files            unlimited            unlimited            files", ""] {
            assert_eq!(soft_limit_of_files(unknown), None);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_has_some() {
        assert!(memory().unwrap() > 64 << 20);
    }
}
