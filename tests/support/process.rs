//! Child processes of the tests: started, signalled by their ids, waited for with deadlines, and ended with the tests,
//! however those end.

#![allow(clippy::disallowed_methods, reason = "other processes are waited for by looking again and again")]

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of a log that a failing test shows.
const SHOWN: usize = 60;

/// A child process and its log, which holds both of its outputs unless they are kept apart.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; what it says goes to the end of `folder/name.log`.
    pub fn start(name: &str, command: &mut Command, folder: &Path) -> Self {
        let log = folder.join(format!("{name}.log"));
        let open = || OpenOptions::new().create(true).append(true).open(&log).unwrap();
        Self::spawn(name, command.stdout(open()).stderr(open()), &log)
    }

    /// Starts `command`; what it prints goes to `folder/name.out`, what it says to `folder/name.log`.
    pub fn start_apart(name: &str, command: &mut Command, folder: &Path) -> Self {
        let log = folder.join(format!("{name}.log"));
        let out = File::create(log.with_extension("out")).unwrap();
        let err = File::create(&log).unwrap();
        Self::spawn(name, command.stdout(out).stderr(err), &log)
    }

    fn spawn(name: &str, command: &mut Command, log: &Path) -> Self {
        let child = command.stdin(Stdio::null()).spawn().unwrap_or_else(|e| panic!("{name}: {e}"));
        reap_on_exit('+', child.id());
        Self { name: name.to_owned(), child, log: log.to_owned() }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Its standard output so far, if that is kept apart.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.log.with_extension("out")).unwrap_or_default())
            .into_owned()
    }

    /// Its exit status; none while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let ended = self.child.try_wait().unwrap();
        if ended.is_some() {
            reap_on_exit('-', self.child.id());
        }
        ended
    }

    /// Sends a signal, such as `STOP`, unless the process has ended.
    pub fn signal(&mut self, signal: &str) {
        // The id is not reused before the process was waited for.
        if self.ended().is_none() {
            let sent = Command::new("kill").arg(format!("-{signal}")).arg(self.id().to_string()).status();
            assert!(sent.unwrap().success(), "{} took no {signal}", self.name);
        }
    }

    /// Stops it, and waits until all of its threads stand still.
    pub fn stop(&mut self) {
        self.signal("STOP");
        let threads = format!("/proc/{}/task", self.id());
        wait_for("a process to stand still", Duration::from_secs(10), || {
            let stopped = |thread: std::io::Result<std::fs::DirEntry>| {
                let stat = std::fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
                // The name before the state is in brackets, and may hold anything.
                stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with('T'))
            };
            std::fs::read_dir(&threads).ok()?.all(|thread| stopped(thread) != Some(false)).then_some(())
        });
    }

    pub fn kill(&mut self) {
        if self.ended().is_none() {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
            reap_on_exit('-', self.child.id());
        }
    }

    pub fn wait(&mut self, deadline: Duration) -> ExitStatus {
        let name = self.name.clone();
        wait_for(&format!("the end of {name}"), deadline, || self.ended())
    }

    /// The most memory that it ever held, in bytes; none if the system does not report it, or after its end.
    pub fn peak_memory(&self) -> Option<u64> {
        self.memory_field("VmHWM:")
    }

    /// Waits until it succeeds, and returns the most memory that it held, in bytes.
    #[track_caller]
    pub fn peak_until_success(&mut self) -> u64 {
        let (began, mut peak) = (Instant::now(), 0);
        while self.ended().is_none() {
            peak = peak.max(self.peak_memory().unwrap_or(0));
            assert!(began.elapsed() < Duration::from_secs(600), "{} does not end", self.name);
            let_pass(Duration::from_millis(2));
        }
        assert!(self.ended().unwrap().success(), "{}", self.said());
        peak
    }

    fn memory_field(&self, name: &str) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let said = self.said();
            let lines: Vec<&str> = said.lines().collect();
            let shown = &lines[lines.len().saturating_sub(SHOWN)..];
            eprintln!("---- the last of {} lines of {} ----\n{}", lines.len(), self.name, shown.join("\n"));
        }
    }
}

/// Tells the one process that outlives this one which children it must end then: destructors do not run where a test
/// binary is killed.
fn reap_on_exit(sign: char, id: u32) {
    static REAPER: LazyLock<Mutex<Child>> = LazyLock::new(|| {
        const SCRIPT: &str = "trap '' INT TERM HUP; all=' '
            while read -r sign id; do
                case $sign in
                    +) all=\"$all$id \" ;;
                    *) all=$(printf %s \"$all\" | sed \"s/ $id / /\") ;;
                esac
            done
            for id in $all; do kill -KILL \"$id\"; done";
        let mut reaper = Command::new("sh");
        reaper.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Mutex::new(reaper.spawn().unwrap())
    });
    let mut reaper = REAPER.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(reaper.stdin.as_mut().unwrap(), "{sign} {id}").unwrap();
}

/// Looks every 20 milliseconds until `look` sees something.
pub fn wait_for<T>(what: &str, deadline: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < deadline, "waited {deadline:?} for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Lets time pass, where time itself is the fault that is tested.
pub fn let_pass(time: Duration) {
    std::thread::sleep(time);
}

/// The first of `count` free neighbouring ports of 127.0.0.1, below the range that the system assigns.
pub fn free_ports(count: u16) -> u16 {
    static NEXT: LazyLock<AtomicU16> =
        LazyLock::new(|| AtomicU16::new(20_000 + (std::process::id() % 1_000) as u16 * 10));
    loop {
        let first = NEXT.fetch_add(count, Ordering::Relaxed);
        assert!(first < 32_000, "no free ports are left");
        if (first..first + count).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return first;
        }
    }
}

/// Status and body of a server's answer to a GET; none if no server answers in time.
pub fn get(host: &str, port: u16, path: &str) -> Option<(u16, String)> {
    let patience = Duration::from_secs(2);
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(host.parse().ok()?, port), patience).ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    // HTTP/1.0, in which a body ends with its connection.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// Starts a command that logs as JSON, and kills it as soon as a line of its log is the one that `is_time` knows: whether it was
/// killed, and did not end before.
pub fn killed_at(command: &mut Command, is_time: impl Fn(&serde_json::Value) -> bool) -> bool {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
        if is_time(&serde_json::from_str(&line).unwrap()) {
            child.kill().unwrap();
            break;
        }
    }
    !child.wait().unwrap().success()
}
