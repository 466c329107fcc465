//! Makes the system's allocator return freed memory to the system.
//!
//! By default, glibc keeps up to 64 MiB of freed memory in each arena, and uses up to eight arenas per core. It also raises
//! M_MMAP_THRESHOLD and M_TRIM_THRESHOLD when large blocks are freed (`mallopt(3)`). As a result, a run with a budget of 512 MiB used up to
//! 840 MB, while its operators reserved at most 360 MB. glibc does not change thresholds that a program sets.
//!
//! Freed memory is kept for two more reasons. Threads share arenas in turn, so every arena grows to the maximum need of any thread.
//! Therefore the number of arenas is limited to the number of computing threads. glibc does not return free memory in the middle of an
//! arena by itself. Therefore [`give_back_in_intervals`] returns it.

use std::time::Duration;

/// Blocks larger than the memory budget divided by this number are mapped individually, and returned when they are freed.
const MAPPED_PART: u64 = 128;

/// Free memory at the end of an arena is returned if it exceeds the memory budget divided by this number.
const FREE_PART: u64 = 32;

/// The maximum of both thresholds in bytes, which is the largest value that M_MMAP_THRESHOLD accepts. Large thresholds save time, because
/// mapping and clearing memory is slow.
const MAX_BYTES: u64 = 32 << 20;

/// The interval of [`give_back_in_intervals`].
const RETURNED_EVERY: Duration = Duration::from_secs(2);

/// Configures glibc to return freed memory. `memory` is the memory budget in bytes, and `threads` is the number of computing threads. Does
/// nothing with other allocators.
pub(crate) fn give_back(memory: u64, threads: usize) {
    let (mapped, free) = thresholds(memory);
    set(mapped, free, i32::try_from(threads.max(1)).unwrap_or(i32::MAX));
}

/// Returns free memory inside arenas to the system at intervals, until the runtime shuts down.
pub(crate) async fn give_back_in_intervals() {
    loop {
        tokio::time::sleep(RETURNED_EVERY).await;
        // The call takes some milliseconds, so it must not block a thread of the runtime.
        if tokio::task::spawn_blocking(trim).await.is_err() {
            return;
        }
    }
}

/// Returns two thresholds in bytes. The first is the size from which a block is mapped individually. The second is the limit on free memory
/// at the end of an arena.
fn thresholds(memory: u64) -> (i32, i32) {
    let part = |of: u64| i32::try_from((memory / of).min(MAX_BYTES)).unwrap_or(i32::MAX);
    (part(MAPPED_PART), part(FREE_PART))
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn set(mapped: i32, free: i32, arenas: i32) {
    let options =
        [(libc::M_MMAP_THRESHOLD, mapped), (libc::M_TRIM_THRESHOLD, free), (libc::M_ARENA_MAX, arenas)];
    for (option, value) in options {
        // SAFETY: `mallopt` takes two numbers and may be called at any time from any thread.
        let taken = unsafe { libc::mallopt(option, value) };
        if taken == 0 {
            tracing::debug!(option, value, "the allocator does not take this setting");
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    // SAFETY: `malloc_trim` takes the number of bytes to keep and may be called at any time from any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn set(_mapped: i32, _free: i32, _arenas: i32) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_follow_the_budget() {
        assert_eq!(thresholds(512 << 20), (4 << 20, 16 << 20));
        assert_eq!(thresholds(4 << 30), (32 << 20, 32 << 20));
        assert_eq!(thresholds(u64::MAX), (32 << 20, 32 << 20));
        assert_eq!(thresholds(0), (0, 0));
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    mod glibc {
        use std::process::Command;

        use super::super::*;

        /// The variable is set in the process that measures itself. Its value says whether this process returns memory.
        const INSIDE: &str = "RESEMBLANCE_TEST_ALLOCATOR";

        #[test]
        fn freed_memory_goes_back() {
            let (kept, given) = (held_by_a_process("no"), held_by_a_process("yes"));
            assert!(kept > 160, "nothing is kept without it, so this shows nothing: {kept} MiB");
            assert!(given < 80, "{given} MiB, and {kept} MiB without it");
        }

        fn held_by_a_process(gives_back: &str) -> u64 {
            let test = "cli::process::allocator::tests::glibc::in_a_process_of_its_own";
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", test, "--ignored", "--nocapture"]);
            let output = command.env(INSIDE, gives_back).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let number = text.split("holds ").nth(1).and_then(|rest| rest.split(' ').next());
            number.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
        }

        #[test]
        #[ignore = "is started in a process of its own by freed_memory_goes_back"]
        fn in_a_process_of_its_own() {
            let Ok(gives_back) = std::env::var(INSIDE) else { return };
            if gives_back == "yes" {
                give_back(256 << 20, 2);
            }
            // Freeing a large block raises glibc's thresholds, like a large buffer in a run does.
            drop(vec![1_u8; 31 << 20]);
            // Each thread allocates its blocks in a different arena.
            let all_there = std::sync::Barrier::new(8);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        let blocks: Vec<_> = (0..40).map(|_| vec![1_u8; 1 << 20]).collect();
                        all_there.wait();
                        drop(blocks);
                    });
                }
            });
            println!("holds {} MiB", resident_bytes() >> 20);
        }

        fn resident_bytes() -> u64 {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
            let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
            kilobytes * 1024
        }
    }
}
