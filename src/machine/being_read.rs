//! The files that this process is reading. The process's claim lists them, so that others can report them after a kill.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Receives the names of all files that are being read, after each change.
pub(crate) type OnChange = dyn Fn(&[&str]) + Send + Sync;

static FILES: Mutex<FilesBeingRead> =
    Mutex::new(FilesBeingRead { names: BTreeMap::new(), next: 0, listeners: Vec::new() });

struct FilesBeingRead {
    /// The names of the files, in the order in which reading began.
    names: BTreeMap<u64, Arc<str>>,
    next: u64,
    listeners: Vec<Weak<OnChange>>,
}

impl FilesBeingRead {
    fn tell(&mut self) {
        let names: Vec<&str> = self.names.values().map(|name| &**name).collect();
        self.listeners.retain(|listener| listener.upgrade().map(|tell| tell(&names)).is_some());
    }
}

/// Marks a file as being read until the value is dropped.
pub(crate) struct BeingRead(u64);

impl BeingRead {
    pub(crate) fn begin(name: impl Into<Arc<str>>) -> Self {
        let mut files = FILES.lock();
        let number = files.next;
        files.next += 1;
        files.names.insert(number, name.into());
        files.tell();
        Self(number)
    }
}

impl Drop for BeingRead {
    fn drop(&mut self) {
        let mut files = FILES.lock();
        files.names.remove(&self.0);
        files.tell();
    }
}

/// Calls `listener` after each change, as long as `listener` exists. The listener must not begin or end reading a file.
pub(crate) fn listen(listener: &Arc<OnChange>) {
    FILES.lock().listeners.push(Arc::downgrade(listener));
}
