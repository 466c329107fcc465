//! Mistakes that users make: each message names the mistake and what to write instead.

use crate::support::*;

fn with_csv(lines: &str) -> Scene {
    let scene = Scene::new(&[]);
    std::fs::write(scene.path("in.csv"), lines).unwrap();
    std::fs::write(scene.path("job.toml"), JOB).unwrap();
    scene
}

/// The message of a command that is refused with this exit code; it has all these parts.
fn refused(scene: &Scene, arguments: &[&str], code: i32, parts: &[&str]) -> String {
    scene.command(arguments).assert().refused(code, parts)
}

fn refused_job(scene: &Scene, text: &str, parts: &[&str]) -> String {
    std::fs::write(scene.path("job.toml"), text).unwrap();
    refused(scene, &["check", "job.toml"], 2, parts)
}

const CSV: &str = "id,text,date\n1,one two three four five,2020\n2,one two three four five,2021\n";
const JOB: &str = "[source]\nurl = \"in.csv\"\nid = \"id\"\ntext = \"text\"\ncolumns = [\"date\"]\n[output]\nurl = \"out\"\n";

#[test]
fn keys_of_other_programs_and_sections_are_known() {
    let scene = with_csv(CSV);
    let options = ["check", "job.toml", "--set", "threshold=0.8"];
    refused(&scene, &options, 2, &["--set `threshold`", "did you mean `score.threshold`?"]);
    for (lines, meant) in [
        ("[shingle]\nk = 5\n", "shingle.size"),
        ("[shingle]\nngram = 5\n", "shingle.size"),
        ("[minhash]\nnum_perm = 64\n", "minhash.permutations"),
        ("[lsh]\nthreshold = 0.8\n", "score.threshold"),
        ("[score]\nmetric = \"jaccard\"\n", "score.measure"),
        ("[cluster]\nmethod = \"components\"\n", "clusters"),
        ("[engine]\nworkers = 4\n", "engine.threads"),
        ("[score]\ntreshold = 0.8\n", "threshold"),
    ] {
        refused_job(&scene, &format!("{JOB}{lines}"), &[&format!("did you mean `{meant}`?")]);
    }
    let said = ["job.toml:1: `threshold`: unknown key", "did you mean `score.threshold`?"];
    refused_job(&scene, &format!("threshold = 0.8\n{JOB}"), &said);
    refused_job(&scene, &JOB.replace("[output]\nurl", "[output]\npath"), &["did you mean `output.url`?"]);
}

#[test]
fn texts_and_lists_without_quotes_are_quoted() {
    let scene = with_csv(CSV);
    let arguments = ["check", "job.toml", "--set", "source.text=[text, date]"];
    refused(&scene, &arguments, 2, &["--set source.text", "put quotes around each item"]);
    let list = JOB.replace("text = \"text\"", "text = [text, date]");
    refused_job(&scene, &list, &["job.toml:4", "text = [\"text\", \"date\"]"]);
    refused_job(&scene, &JOB.replace("id = \"id\"", "id = number"), &["job.toml:3", "id = \"number\""]);
    let changed = format!("{JOB}[score]\nthreshold = \"0.8\"\n");
    refused_job(&scene, &changed, &["expected a number: write 0.8 without quotes"]);
}

#[test]
fn orders_of_other_programs_are_spelled_as_here() {
    let scene = with_csv(CSV);
    for (keep, expected) in [
        ("[\"date descending\"]", "write \"date desc\""),
        ("[\"-date\"]", "write \"date desc\""),
        ("[\"date ASC\"]", "write \"date asc\""),
        ("[\"newest date\"]", "write \"date desc\""),
        ("[\"known\"]", "write `reference`"),
        ("\"date desc\"", "write [\"date desc\"]"),
    ] {
        refused_job(&scene, &format!("{JOB}[clusters]\nkeep = {keep}\n"), &["clusters.keep", expected]);
    }
}

#[test]
fn ids_of_several_json_types_are_an_error_of_the_input() {
    let scene = with_csv("");
    let lines = ["1", "\"a\""].map(|id| format!("{{\"id\":{id},\"text\":\"one two three\"}}\n"));
    std::fs::write(scene.path("in.jsonl"), lines.concat()).unwrap();
    std::fs::write(scene.path("job.toml"), JOB.replace("in.csv", "in.jsonl").replace("columns", "#"))
        .unwrap();
    let parts = ["id column `id` holds strings and integers: ids must be of one type"];
    refused(&scene, &["run", "job.toml"], 3, &parts);
}

#[test]
fn the_longest_condition_is_evaluated() {
    let scene = with_csv(CSV);
    let condition = vec!["id = '7'"; 999].join(" OR ");
    let job = JOB.replace("columns", &format!("where = {condition:?}\ncolumns"));
    std::fs::write(scene.path("job.toml"), job).unwrap();
    ran(&scene, &["run", "job.toml"]);
}

#[test]
fn another_delimiter_is_named() {
    for delimiter in [";", "\t", "|"] {
        let scene = with_csv(&CSV.replace(',', delimiter));
        let named = format!("source.delimiter = {delimiter:?}");
        refused(&scene, &["run", "job.toml"], 2, &["there is no column", &named]);
    }
}

#[test]
fn data_where_a_job_file_is_expected_are_named_with_the_commands_that_take_them() {
    let scene = with_csv(CSV);
    write_parquet(&scene.path("in.parquet"), &corpus(1, 3, 3), 3);
    for (command, path) in [("run", "in.parquet"), ("check", "in.csv"), ("run", ".")] {
        let [find, init] = ["find", "init"].map(|command| format!("resemblance {command} {path}"));
        refused(&scene, &[command, path], 2, &["is not a job file", &find, &init]);
    }
}

#[test]
fn a_text_where_a_file_is_expected_is_piped() {
    let scene = with_csv(CSV);
    ran(&scene, &["run", "job.toml"]);
    let arguments = ["neighbors", "out", "--text", "one two three"];
    refused(&scene, &arguments, 3, &["there is no `one two three`", "--text -"]);
}

#[test]
fn links_to_nothing_and_urls_with_one_slash_are_named() {
    let scene = with_csv(CSV);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("gone.csv", scene.path("link.csv")).unwrap();
        let expected = "`link.csv` is a symbolic link to `gone.csv`, which does not exist";
        refused(&scene, &["find", "link.csv"], 3, &[expected]);
    }
    refused(&scene, &["find", "s3:/bucket/in.csv"], 2, &["has one `/` after its scheme"]);
    refused_job(&scene, &JOB.replace("\"out\"", "\"s3:/out\""), &["`output.url`", "has one `/`"]);
}

#[test]
fn check_says_that_apply_refuses_utf_16() {
    let scene = with_csv(CSV);
    std::fs::write(scene.path("job.toml"), JOB.replace("url = \"in", "encoding = \"utf-16le\"\nurl = \"in"))
        .unwrap();
    let checked = scene.command(&["check", "job.toml", "--no-data"]).assert();
    checked.shown(&["warning: apply cannot write a copy of this source", "convert the files to UTF-8"]);
}

#[test]
fn clean_on_nothing_says_so() {
    let scene = with_csv(CSV);
    for (arguments, expected) in [
        (&["clean", "."][..], "holds no finished output"),
        (&["clean", "nowhere"], "there is no `nowhere`"),
        (&["clean", "nowhere", "--dry-run"], "there is no `nowhere`"),
    ] {
        refused(&scene, arguments, 3, &[expected]);
    }
    assert!(!scene.path("nowhere").exists());
}

/// A disk of 256 KiB, where this machine lets us mount one.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported_with_free_and_needed_bytes_and_the_run_goes_on() {
    use crate::support::needs::{Presence, needs};
    let documents: String =
        corpus(2, 4000, 40).iter().map(|(id, text)| format!("{id},{text},2020\n")).collect();
    let scene = with_csv(&format!("id,text,date\n{documents}"));
    let disk = scene.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = |options: &str| {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&disk).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success())
    };
    let unmount = || Command::new("umount").arg(&disk).status().unwrap();
    if !mount("size=256k") {
        needs::<()>(None, "the permission to mount a tmpfs", Presence::Optional);
        return;
    }
    scene.command(&["run", "job.toml"]).assert().success();
    let apply = scene.command(&["apply", "out", "--to", "disk/clean"]).assert();
    std::fs::remove_dir_all(disk.join("clean")).unwrap();
    let find = scene.command(&["find", "in.csv", "--text", "text"]).env("TMPDIR", &disk).assert();
    let generate = scene.command(&["generate", "disk/generated.parquet", "--documents", "10000"]).assert();
    unmount();
    let is_empty_again = mount("size=256k");
    let to_disk = || scene.command(&["run", "job.toml", "--set", "output.url=disk/out"]).assert();
    let run = to_disk();
    let is_larger = mount("size=64m,remount");
    let after = to_disk();
    unmount();
    assert!(is_empty_again && is_larger);
    after.success();
    let ended = [
        (run, "disk/out (output.url)"),
        (apply, "disk/clean (--to)"),
        (find, "(TMPDIR)"),
        (generate, "disk/generated.parquet (OUT)"),
    ];
    for (ended, setting) in ended {
        let parts = ["a disk is full: ", setting, " free in ", "are needed", "No space left on device"];
        ended.refused(3, &parts);
    }
}

const ROWS: &str = "id,Stars,title,body\n1,5,a tale,one two three four five\n1,4,a tale,one two three four five\n\
                    2,3,a song,six seven eight nine ten\n2,3,a poem,apples and pears and plums\n";

/// A folder with `reviews.csv`, and the finished output `out` and its applied result `clean`.
fn finished() -> Scene {
    let scene = Scene::new(&[]);
    std::fs::write(scene.path("reviews.csv"), ROWS).unwrap();
    ran(&scene, &["dedup", "reviews.csv", "--text", "body", "--output", "out", "--to", "clean"]);
    scene
}

fn ran(scene: &Scene, arguments: &[&str]) -> String {
    scene.command(arguments).assert().shown(&[])
}

#[test]
fn paths_that_do_not_exist_are_named_with_near_ones_by_all_commands() {
    let scene = finished();
    for name in ["known.csv", "labels.csv", "pairs.parquet", "letter.txt", "job.toml"] {
        std::fs::write(scene.path(name), "").unwrap();
    }
    for (command, near) in [
        ("find review.csv", "reviews.csv"),
        ("dedup ./review.csv --to clean2", "./reviews.csv"),
        ("init review.csv", "reviews.csv"),
        ("show ou", "out"),
        ("sql ou SELECT", "out"),
        ("neighbors ou --id 1", "out"),
        ("neighbors out --text leter.txt", "letter.txt"),
        ("apply ou --to clean2", "out"),
        ("apply out --to clean2 --source review.csv", "reviews.csv"),
        ("evaluate ou", "out"),
        ("evaluate out --truth knwn.csv", "known.csv"),
        ("evaluate out --labels label.csv", "labels.csv"),
        ("report ou", "out"),
        ("verify ou", "out"),
        ("clean ou", "out"),
        ("contract ou", "out"),
        ("cluster pair.parquet --to x.parquet", "pairs.parquet"),
        ("run jobs.toml", "job.toml"),
        ("check jobs.toml", "job.toml"),
        ("plan jobs.toml", "job.toml"),
    ] {
        let arguments: Vec<&str> = command.split(' ').collect();
        let code = if near == "job.toml" { 2 } else { 3 };
        refused(&scene, &arguments, code, &[&format!("near it is `{near}`")]);
    }
    refused(&scene, &["find", "no/where/a.csv"], 3, &["there is no folder `no/where`"]);
    refused(&scene, &["find", "*.tsv"], 3, &["no file matches `*.tsv`: correct the pattern\n"]);
}

#[test]
fn files_without_rows_are_named_alone_or_counted() {
    let scene = with_csv(CSV);
    std::fs::create_dir(scene.path("many")).unwrap();
    for name in ["empty.csv", "empty.jsonl", "many/a.csv", "many/b.csv"] {
        std::fs::write(scene.path(name), "").unwrap();
    }
    for (path, expected) in [
        ("empty.csv", "empty.csv is empty\n"),
        ("empty.jsonl", "empty.jsonl is empty\n"),
        ("many", "all 2 files of the input are empty, such as many/a.csv\n"),
    ] {
        for command in ["find", "init"] {
            refused(&scene, &[command, path], 3, &[expected]);
        }
    }
}

#[test]
fn ids_that_occur_twice_are_listed_in_one_sentence() {
    let said =
        ["but each of `1`, `2` is the id of several documents: name", "--id row_number in find and dedup"];
    refused(&finished(), &["find", "reviews.csv", "--text", "body", "--id", "id"], 3, &said);
}

#[test]
fn a_condition_that_is_wrong_is_explained_once() {
    let scene = finished();
    for (condition, why) in
        [("Stars >", "an expression, found: EOF"), ("Stars > 2 3", "found: 3 at Line: 1, Column: 11")]
    {
        let said = refused(&scene, &["find", "reviews.csv", "--text", "body", "--where", condition], 2, &[]);
        assert!(said.matches(why).count() == 1 && !said.contains("ParserError"), "{said}");
    }
}

#[test]
fn keys_without_values_are_named_with_an_example() {
    let scene = with_csv(CSV);
    let options = ["check", "job.toml", "--set", "score.threshold"];
    refused(&scene, &options, 2, &["--set score.threshold: expected KEY=VALUE, as in score.threshold=0.9"]);
    let parts = ["`output.url` is required but missing: add url = \"out/\" under [output]"];
    refused_job(&scene, &JOB.replace("[output]\nurl = \"out\"\n", ""), &parts);
    refused_job(&scene, "[output]\nurl = \"out\"\n", &["`source.url` is required but missing: add url"]);
}

#[test]
fn the_number_of_a_row_is_near_its_id() {
    let scene = finished();
    refused(&scene, &["show", "out", "--id", "3"], 2, &["near it is `reviews.csv:3`"]);
    refused(&scene, &["show", "clean", "--id", "1"], 2, &["none because of it; near it is `reviews.csv:1`"]);
    refused(&scene, &["show", "clean", "--id", "far"], 2, &["SELECT * FROM removed"]);
}

#[test]
fn queries_that_are_wrong_are_explained_in_words_of_the_tables() {
    let scene = finished();
    for (query, expected) in [
        (
            "SELECT avg(\"Stars\") FROM kept",
            "avg() does not take \"Stars\", which is text: convert it, as in avg(CAST(\"Stars\" AS DOUBLE))",
        ),
        ("SELECT 1, max(id), stddev(kept.\"Stars\") FROM kept", "stddev(CAST(kept.\"Stars\" AS DOUBLE))"),
        ("SELECT abs(\"Stars\") FROM kept", "abs(CAST(\"Stars\" AS DOUBLE))"),
        ("SELECT Stars FROM kept", "Did you mean 'kept.\"Stars\"'?"),
        ("SELECT titel FROM kept", "No field named titel. Did you mean 'kept.title'?"),
        ("SELECT author FROM kept", "No field named author. Valid fields are kept.id, kept.\"Stars\""),
        ("SELECT avg(\"Stars\")", "no table after FROM: the tables are kept, "),
        ("SELECT * FORM kept", "Expected: end of statement, found: FORM at Line: 1, Column: 10"),
        ("SELECT \"body FROM kept", "Expected close delimiter"),
        ("SELECT 1 / 0", "a value of the query cannot be computed"),
        ("SELECT CAST(title AS INT) FROM kept", "Cannot cast string 'a tale' to value of Int32 type"),
    ] {
        let said = refused(&scene, &["sql", "clean", query], 2, &[]);
        assert_eq!(said.matches(expected).count(), 1, "{query}: {said}");
        for foreign in
            ["ParserError", "TokenizerError", "bug report", "enable_ident", "Error during planning"]
        {
            assert!(!said.contains(foreign), "{query}: {said}");
        }
    }
    let stars =
        ran(&scene, &["sql", "clean", "SELECT avg(CAST(\"Stars\" AS DOUBLE)) AS a FROM kept", "--csv"]);
    assert_eq!(stars.lines().nth(1), Some("3.6666666666666665"), "{stars}");
}

/// For the superuser, a file system that is mounted without the permission to write.
#[cfg(unix)]
#[test]
fn folders_without_permission_are_named() {
    use std::os::unix::fs::PermissionsExt;

    use crate::support::needs::{Presence, needs};
    let scene = finished();
    let folder = scene.path("ro");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o555)).unwrap();
    let is_written = || std::fs::write(folder.join("probe"), "").is_ok();
    let mounts = is_written();
    if mounts {
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", "ro", "tmpfs"]).arg(&folder).output();
        if !mount.is_ok_and(|output| output.status.success()) {
            needs::<()>(None, "the permission to mount a tmpfs", Presence::Optional);
            return;
        }
        assert!(!is_written());
    }
    let commands = [
        "dedup reviews.csv --text body --to ro/clean",
        "dedup reviews.csv --text body --to clean2 --output ro/out",
        "apply out --to ro/clean",
        "report out --to ro/page.html",
        "generate ro/x.parquet --documents 10",
        "init reviews.csv -o ro/x.toml",
    ];
    let said = commands.map(|command| scene.command(&command.split(' ').collect::<Vec<_>>()).assert());
    if mounts {
        Command::new("umount").arg(&folder).status().unwrap();
    }
    for (command, ended) in commands.into_iter().zip(said) {
        let said = ended.refused(3, &["there is no permission", "ro/"]);
        for foreign in ["Generic LocalFileSystem", "the storage did not answer", "reading or writing failed"]
        {
            assert!(!said.contains(foreign), "{command}: {said}");
        }
    }
}
