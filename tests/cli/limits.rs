//! Numbers that cannot be meant are refused at once, with the allowed range.

use crate::support::*;

const HUGE: &str = "18446744073709551615";

fn scene() -> Scene {
    Scene::new(&[]).with_job("in.parquet", &corpus(1, 20, 30))
}

#[test]
fn absurd_numbers_are_refused_before_anything_is_done() {
    let scene = scene();
    let (job, place, new) = ("job.toml", ".", "new");
    let stalled = "engine={mode=\"cluster\", scheduler=\"df://h:1\", stall_seconds=9223372036854775807}";
    let cases: [(&[&str], &str); 20] = [
        (&["run", job, "--top", HUGE], "from 0 to 1000000"),
        (&["run", job, "--top", "1000001"], "from 0 to 1000000"),
        (&["run", job, "--set", "engine.threads=9223372036854775807"], "at most 1024"),
        (&["run", job, "--set", "engine.threads=1025"], "at most 1024"),
        (&["run", job, "--set", "shingle.size=9223372036854775807"], "at most 1000000"),
        (&["run", job, "--set", stalled], "a year"),
        (&["neighbors", new, "--id", "x", "--top", HUGE], "to 1000000"),
        (&["find", place, "--show", HUGE], "to 1000000"),
        (&["find", place, "-k", HUGE], "to 1000000"),
        (&["generate", new, "--documents", HUGE], "to 10000000000"),
        (&["generate", new, "--documents", "9", "--words", HUGE], "to 10000000"),
        (&["generate", new, "--documents", "9", "--shingle", HUGE], "to 1000"),
        (&["generate", new, "--documents", "9", "--vocabulary", HUGE], "to 1000000"),
        (&["generate", new, "--documents", "9", "--boilerplate-words", HUGE], "from 0 to 10000000"),
        (&["generate", new, "--documents", "9", "--files", HUGE], "from 1 to 100000"),
        (&["generate", new, "--documents", "9", "--identical", HUGE], "lower one of them"),
        (&["compare", job, "--documents", HUGE], "to 1000000000"),
        (&["compare", job, "--repeat", HUGE], "to 1000000"),
        (&["sweep", job, "--sizes", HUGE], "to 1000000"),
        (&["sweep", job, "--documents", HUGE], "to 1000000000"),
    ];
    for (arguments, allowed) in cases {
        scene.command(arguments).assert().stdout("").refused(2, &[allowed]);
    }
    assert!(!scene.path("out").exists() && !scene.path(new).exists());
    for top in ["0", "1000000"] {
        scene.command(&["run", job, "--top", top]).assert().success();
    }
}

/// Simulates a limit of processes, which does not bind root, by too little memory for the stacks of so many threads.
#[cfg(target_os = "linux")]
#[test]
fn threads_that_the_system_does_not_give_are_an_error_and_no_hang() {
    let scene = scene();
    let limited = |threads: &str| {
        let set = format!("engine.threads={threads}");
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -v 2000000; exec \"$0\" \"$@\""]);
        shell.arg(assert_cmd::cargo::cargo_bin("resemblance")).arg("run").arg(scene.path("job.toml"));
        shell.args(["--set", &set, "--set", "engine.memory=\"256MiB\""]).stdin(Stdio::null());
        shell.output().unwrap()
    };
    // The standard library aborts where memory ends between the stack of a new thread and the one for its signals, which
    // no limit of processes does.
    let attempts = std::iter::repeat_with(|| limited("1024")).take(20);
    let is_of_memory = |ended: &Output| stderr(ended).contains("alternative stack");
    let ended = attempts.into_iter().find(|ended| !is_of_memory(ended)).unwrap();
    ended.refused(4, &["engine.threads = 1024", "ulimit"]);
    limited("2").shown(&[]);
}

/// A manifest may hold anything, since others can write it.
#[test]
fn a_manifest_with_an_absurd_job_is_refused() {
    let scene = scene();
    scene.run("in.parquet", "out", &[]);
    let path = scene.path("out/manifest.json");
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(scene.path("text.txt"), "one two three four five").unwrap();
    let ask = |of: [&str; 2]| {
        scene.command(&["neighbors", "out"]).args(of).timeout(Duration::from_secs(60)).assert()
    };
    ask(["--id", "d00001"]).success();
    for (section, key, value, said) in [
        ("minhash", "permutations", 1_000_000_000_000_000_u64, "minhash.permutations"),
        ("lsh", "bands", 1_000_000_000_000_000, "lsh.bands"),
        ("lsh", "bands", 0, "lsh.bands"),
        ("lsh", "rows", 1_000_000_000_000_000, "lsh.bands"),
        ("lsh", "rows", 0, "lsh.rows"),
        ("lsh", "table_size", 0, "lsh.table_size"),
        ("shingle", "size", 0, "shingle.size"),
        ("shingle", "size", u64::MAX, "shingle.size"),
    ] {
        let mut manifest: Value = serde_json::from_str(&whole).unwrap();
        manifest["job"][section][key] = value.into();
        std::fs::write(&path, manifest.to_string()).unwrap();
        for of in [["--id", "d00001"], ["--text", "text.txt"]] {
            ask(of).refused(3, &[said]);
        }
    }
    let mut manifest: Value = serde_json::from_str(&whole).unwrap();
    manifest["job"]["minhash"]["family"] = "linear".into();
    manifest["job"]["minhash"]["modulus"] = 1.into();
    manifest["job"]["minhash"]["bits"] = 32.into();
    std::fs::write(&path, manifest.to_string()).unwrap();
    ask(["--text", "text.txt"]).refused(3, &["minhash.modulus"]);
}
