//! The command `resemblance`. All other code is in the library; see `resemblance::cli`.

use std::process::ExitCode;

/// glibc keeps freed memory inside its arenas, so a run would use far more memory than its operators reserve. jemalloc returns it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The settings of jemalloc (jemalloc(3), "TUNING"). Freed memory goes back to the system after a second, because the memory budget does
/// not count it. Large buffers are an exception by default: they go back at once, and the next batch has to clear new pages. Huge pages
/// stay off: with them, a run with a memory budget of 512 MiB used 531 MiB. There is one arena per processor instead of four, because freed
/// memory of one arena is not used by another.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
// SAFETY: jemalloc declares this symbol as a pointer to a string that ends with a zero byte, and only reads it.
#[unsafe(export_name = "malloc_conf")]
static MALLOC_CONF: &[u8; 97] =
    b"narenas_ratio:1,oversize_threshold:0,dirty_decay_ms:1000,muzzy_decay_ms:0,background_thread:true\0";

fn main() -> ExitCode {
    resemblance::cli::main()
}
