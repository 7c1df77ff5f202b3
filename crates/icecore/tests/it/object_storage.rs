//! A repository in a bucket of a real object storage: what a user types, and what comes of it when the
//! process is killed, sleeps, or is refused.

use crate::machine::{Machine, Ran, ended, random};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testkit::s3::Gateway;

/// A machine whose repository is in a bucket of its own.
struct Bucket {
    machine: Machine,
    gateway: &'static Gateway,
    address: String,
    /// So long a writer has to be silent before another one takes its lease; the usual time if `None`.
    quiet_secs: Option<&'static str>,
}

impl Bucket {
    fn bare() -> Self {
        Self::at(Gateway::shared())
    }

    fn at(gateway: &'static Gateway) -> Self {
        let address = format!("s3://{}/some/prefix", gateway.bucket());
        Self { machine: Machine::bare(), gateway, address, quiet_secs: None }
    }

    fn new() -> Self {
        Self::bare().made()
    }

    /// One whose objects are files, and whose requests are logged.
    fn of_files() -> Self {
        Self::at(Gateway::of_files()).made()
    }

    fn made(self) -> Self {
        self.run(&["init"]).ends(0);
        self
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.machine.command(arguments);
        command.env("ICECORE_REPO", &self.address).envs(self.gateway.variables());
        command.envs(self.quiet_secs.map(|secs| ("ICECORE_S3_QUIET_SECS", secs)));
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        ended(&mut self.command(arguments))
    }

    fn backup(&self) -> Ran {
        self.run(&["backup", "--json", self.machine.source().to_str().unwrap()])
    }

    fn snapshots(&self) -> Vec<String> {
        let lines = self.run(&["snapshots", "--json"]).ends(0).lines();
        lines.iter().filter_map(|line| line["snapshot_id"].as_str().map(str::to_owned)).collect()
    }

    /// Restores `snapshot`; whether it is as `source` is now.
    fn restores_as(&self, snapshot: &str, source: &Path) {
        let target = self.machine.path("target");
        let _ = std::fs::remove_dir_all(&target);
        self.run(&["restore", snapshot, "--target", target.to_str().unwrap()]).ends(0);
        let restored = target.join(self.machine.source().strip_prefix("/").unwrap());
        let same = Command::new("diff").arg("-r").arg(source).arg(restored).status().unwrap();
        assert!(same.success(), "{snapshot}");
    }

    /// Where the objects lie as files, of [`Bucket::of_files`].
    fn files(&self) -> PathBuf {
        let (name, prefix) = self.address[5..].split_once('/').unwrap();
        self.gateway.objects(name).join(prefix)
    }

    /// What lies in the bucket, below the prefix.
    fn objects(&self, directory: &str) -> Vec<String> {
        let bucket = self.address.strip_prefix("s3://").unwrap();
        let (name, prefix) = bucket.split_once('/').unwrap();
        self.gateway.keys(name, &format!("{prefix}/{directory}/"))
    }
}

#[test]
fn a_command_of_the_profile_opens_a_bucket() {
    let bucket = Bucket::new();
    let [key, secret] = testkit::s3::KEYS;
    let said =
        format!(r#"{{"Version": 1, "AccessKeyId": "{key}", "SecretAccessKey": "{secret}"}}"#);
    let (folder, config) = (bucket.machine.path(""), bucket.machine.path("config"));
    std::fs::write(bucket.machine.path("said"), said).unwrap();
    let command = format!("cat {}said", folder.display());
    std::fs::write(&config, format!("[default]\ncredential_process = {command}\n")).unwrap();
    let run = |config: &Path| {
        let mut command = bucket.command(&["snapshots"]);
        command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
        ended(command.env("AWS_CONFIG_FILE", config).env("HOME", &folder))
    };
    run(&config).ends(0);
    std::fs::write(bucket.machine.path("said"), "nothing").unwrap();
    let refused = run(&config).ends(13);
    assert!(refused.stderr.contains("credential_process"), "{}", refused.stderr);
}

#[test]
fn a_repository_in_a_bucket_does_what_one_on_a_disk_does() {
    let bucket = Bucket::new();
    bucket.machine.write("large", &random(3 << 20));
    let first = bucket.backup().ends(0).last()["snapshot_id"].as_str().unwrap().to_owned();
    bucket.restores_as(&first, &bucket.machine.source());
    bucket.machine.write("large", &random(1 << 20));
    bucket.machine.write("more", b"more");
    let second = bucket.backup().ends(0).last()["snapshot_id"].as_str().unwrap().to_owned();
    assert_eq!(bucket.snapshots(), [first.clone(), second.clone()]);
    bucket.run(&["check", "--read-data"]).ends(0);
    bucket.run(&["forget", &first]).ends(0);
    bucket.run(&["reclaim", "--max-waste", "0"]).ends(0);
    assert_eq!(bucket.snapshots(), std::slice::from_ref(&second));
    bucket.run(&["check", "--read-data"]).ends(0);
    bucket.run(&["rebuild"]).ends(0);
    bucket.run(&["stats"]).ends(0);
    bucket.restores_as(&second, &bucket.machine.source());
    let again = bucket.run(&["init"]).ends(1);
    assert!(again.stderr.contains("already exists"), "{}", again.stderr);
}

/// Seen: whoever removed the one removed the other with it.
#[test]
fn a_repository_in_a_bucket_is_made_in_no_other() {
    let bucket = Bucket::new();
    let inside = format!("{}/of/another", bucket.address);
    let refused = ended(bucket.command(&["init"]).env("ICECORE_REPO", inside)).ends(2);
    assert!(refused.stderr.contains("is in the repository s3://"), "{}", refused.stderr);
    let (_, hint) = refused.stderr.split_once("outside of it: ").unwrap();
    ended(bucket.command(&["init"]).env("ICECORE_REPO", hint.trim())).ends(0);
}

#[test]
fn what_is_missing_at_an_object_storage_is_said_with_what_to_type() {
    let bucket = Bucket::bare();
    let no_repository = bucket.run(&["snapshots"]).ends(10);
    assert!(no_repository.stderr.contains("icecore init --repo s3://"), "{}", no_repository.stderr);
    let none =
        ended(bucket.command(&["init"]).env("ICECORE_REPO", "s3://no-such-bucket/x")).ends(1);
    assert!(none.stderr.contains("aws s3 mb s3://no-such-bucket"), "{}", none.stderr);
    let wrong = ended(bucket.command(&["init"]).env("AWS_SECRET_ACCESS_KEY", "hush-hush")).ends(13);
    assert!(wrong.stderr.contains("AWS_SECRET_ACCESS_KEY"), "{}", wrong.stderr);
    let all = [&*wrong.stderr, &*wrong.text()].concat();
    assert!(!all.contains("hush-hush") && !all.contains("only-a-test-secret"), "{all}");
    let unset = ended(bucket.command(&["init"]).env_remove("AWS_ACCESS_KEY_ID")).ends(13);
    assert!(unset.stderr.contains("AWS_ACCESS_KEY_ID"), "{}", unset.stderr);
    let away = bucket.command(&["init"]).env("AWS_ENDPOINT_URL", "http://127.0.0.1:1").output();
    let away = away.unwrap();
    assert_eq!(away.status.code(), Some(16), "{}", String::from_utf8_lossy(&away.stderr));
    let broken = bucket.command(&["init"]).env("AWS_ENDPOINT_URL", "127.0.0.1").output().unwrap();
    assert_eq!(broken.status.code(), Some(2), "{}", String::from_utf8_lossy(&broken.stderr));
    let odd =
        ended(bucket.command(&["init"]).env("ICECORE_REPO", "s3://key:secret@bucket")).ends(2);
    assert!(!odd.stderr.contains("secret@"), "{}", odd.stderr);
}

/// Ends a child, however the test ends.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn signal(&self, signal: &str) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    fn ends(mut self) -> (i32, String) {
        let mut text = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (self.0.wait().unwrap().code().unwrap_or(-1), text)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Each round changes the source and kills a command after a while that grows; the next one goes on without a wait.
#[test]
fn a_command_that_is_killed_costs_nothing_that_was_acknowledged() {
    let bucket = Bucket::new();
    let mut acknowledged = Vec::new();
    for round in 0_u64..12 {
        bucket.machine.write("changing", &random(400_000 + 1000 * round as usize));
        bucket.machine.write(&format!("new-{round}"), &random(1000 + round as usize));
        let source = bucket.machine.source();
        let arguments = ["backup", "--json", source.to_str().unwrap()];
        let commands =
            [&arguments[..], &["forget", "--keep-last", "2"], &["reclaim", "--max-waste", "0"]];
        let mut killed = Running::start(&mut bucket.command(commands[round as usize % 3]));
        std::thread::sleep(Duration::from_millis(150 + 120 * round));
        let _ = killed.0.kill();
        killed.0.wait().unwrap();
        let begun = Instant::now();
        let done = bucket.backup().ends(0);
        // At once: who has to be heard of for a minute is waited for elsewhere.
        assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
        let id = done.last()["snapshot_id"].as_str().unwrap().to_owned();
        let copy = bucket.machine.path(&format!("copy-{round}"));
        let copied = Command::new("cp").arg("-a").arg(&source).arg(&copy).status().unwrap();
        assert!(copied.success());
        acknowledged.push((id, copy));
    }
    bucket.run(&["check", "--read-data"]).ends(0);
    let listed = bucket.snapshots();
    for (id, copy) in acknowledged.iter().filter(|(id, _)| listed.contains(id)) {
        bucket.restores_as(id, copy);
    }
    assert!(listed.contains(&acknowledged.last().unwrap().0));
}

#[test]
fn a_second_writer_is_refused_and_told_who_writes_and_one_that_sleeps_too_long_is_overtaken() {
    // A beat that comes so late on a busy machine would make a living writer look dead.
    const QUIET_SECS: &str = "15";
    let bucket = Bucket { quiet_secs: Some(QUIET_SECS), ..Bucket::new() };
    let source = bucket.machine.source();
    let mut sleeper =
        Running::start(bucket.command(&["backup", "--stdin", "slow"]).stdin(Stdio::piped()));
    let feed = sleeper.0.stdin.take().unwrap();
    let leases =
        || bucket.objects("lease").into_iter().filter(|name| name.ends_with(".beat")).count();
    let before = leases();
    while leases() == before {
        assert!(sleeper.0.try_wait().unwrap().is_none(), "it waits for its input");
        std::thread::sleep(Duration::from_millis(50));
    }
    let refused = bucket.backup();
    assert!(refused.code == 11 && refused.text().contains("in use by"), "{}", refused.text());
    sleeper.signal("-STOP");
    let takes = bucket.backup().ends(0);
    let said = format!("Waiting up to {QUIET_SECS} s");
    assert!(takes.text().contains(&said), "{}", takes.text());
    let taken = takes.last()["snapshot_id"].as_str().unwrap().to_owned();
    sleeper.signal("-CONT");
    drop(feed);
    let (code, text) = sleeper.ends();
    assert!(code != 0 && text.contains("took over the lease"), "{code} {text}");
    assert_eq!(bucket.snapshots(), std::slice::from_ref(&taken));
    bucket.run(&["check", "--read-data"]).ends(0);
    bucket.restores_as(&taken, &source);
}

/// What the storage has logged, which it does a little later than it answers.
fn logged(bucket: &Bucket) -> Vec<String> {
    const SETTLED: Duration = Duration::from_millis(200);
    let name = bucket.address[5..].split('/').next().unwrap();
    let mut lines = bucket.gateway.requests(name);
    loop {
        std::thread::sleep(SETTLED);
        let now = bucket.gateway.requests(name);
        if now.len() == lines.len() {
            return now;
        }
        lines = now;
    }
}

/// What the commands `arguments` ask the storage, without the signs of life whose number follows from the time it takes.
fn requests(bucket: &Bucket, arguments: &[&str]) -> Vec<String> {
    let before = logged(bucket).len();
    bucket.run(arguments).ends(0);
    let mut requests = logged(bucket).split_off(before);
    let mut is_first = [true; 2];
    requests.retain(|line| {
        let is_beat = line.contains("PutObject") && line.contains(".beat ");
        let is_look = line.contains("ListObjects") && line.contains("lease");
        let seen = is_beat.then_some(0).or(is_look.then_some(1));
        seen.is_none_or(|kind| std::mem::take(&mut is_first[kind]))
    });
    requests
}

/// Each request costs time and money, and some more of them are sent when a machine is slow: what counts is the best of
/// four backups. The first restore by `latest` reads each snapshot file.
#[test]
fn a_backup_without_changes_and_the_restore_of_one_file_need_few_requests() {
    const BACKUP_MAX: usize = 20;
    /// Every fourth backup merges runs of the index.
    const MERGING_BACKUP_MAX: usize = 27;
    const RESTORE_MAX: usize = 12;
    const NEXT_RESTORE_MAX: usize = 8;
    let bucket = Bucket::of_files();
    for number in 0..3000 {
        bucket
            .machine
            .write(&format!("folder-{}/file-{number}", number % 30), &random(100 + number));
    }
    let source = bucket.machine.source();
    let backup = ["backup", source.to_str().unwrap()];
    bucket.run(&backup).ends(0);
    let mut of_backups: Vec<_> = (0..4).map(|_| requests(&bucket, &backup)).collect();
    of_backups.sort_by_key(Vec::len);
    let (least, most) = (&of_backups[0], &of_backups[3]);
    assert!((1..=BACKUP_MAX).contains(&least.len()), "{least:#?}");
    assert!(most.len() <= MERGING_BACKUP_MAX, "{most:#?}");
    let pages = |requests: &[String]| {
        requests
            .iter()
            .filter(|line| line.contains("GetObject") && line.contains("/containers/"))
            .count()
    };
    assert_eq!(pages(least), 0, "this machine keeps the pages of the snapshot before");
    assert!(pages(&requests(&bucket, &[&backup[..], &["--chunk-cache-size", "0"]].concat())) > 0);
    let target = bucket.machine.path("target");
    let restore = |file: &str| {
        let file = bucket.machine.stored("latest", file);
        requests(&bucket, &["restore", &file, "--target", target.to_str().unwrap()])
    };
    let first = restore("folder-7/file-7");
    assert!((1..=RESTORE_MAX).contains(&first.len()), "{first:#?}");
    let next = restore("folder-8/file-8");
    assert!((1..=NEXT_RESTORE_MAX).contains(&next.len()), "{next:#?}");
    let of_backups: Vec<_> = of_backups.iter().map(Vec::len).collect();
    println!("requests of backups: {of_backups:?}, of restores: {:?}", [first.len(), next.len()]);
}

/// What is told, counted by the storage itself. The end of the lease comes behind the last line.
#[test]
fn a_report_has_the_requests_that_the_storage_saw() {
    const AFTER_THE_REPORT_MAX: u64 = 4;
    let bucket = Bucket::of_files();
    bucket.machine.write("large", &random(5 << 20));
    let before = logged(&bucket).len();
    let report = bucket.backup().ends(0).last()["requests"].clone();
    let seen = (logged(&bucket).len() - before) as u64;
    let kinds = ["writes", "lists", "reads", "deletes"];
    let told: u64 = kinds.iter().map(|kind| report[kind].as_u64().unwrap()).sum();
    assert!(told <= seen && seen <= told + AFTER_THE_REPORT_MAX, "{report} of {seen}");
    assert!(report["sent_bytes"].as_u64().unwrap() > 5 << 20, "{report}");
    let again = bucket.run(&["backup", bucket.machine.source().to_str().unwrap()]).ends(0);
    assert!(again.stderr.contains("storage: "), "{}", again.stderr);
    let quiet = bucket.run(&["backup", "-q", bucket.machine.source().to_str().unwrap()]).ends(0);
    assert_eq!(quiet.stderr, "");
}

/// A copy asks two buckets, and both are told.
#[test]
fn a_copy_tells_the_requests_to_both_buckets() {
    let (bucket, other) = (Bucket::new(), Bucket::bare());
    bucket.machine.write("large", &random(5 << 20));
    bucket.backup().ends(0);
    let copied = bucket.run(&["copy", "--json", "--to", &other.address]).ends(0);
    let report = copied.last()["requests"].clone();
    assert!(report["received_bytes"].as_u64().unwrap() > 5 << 20, "{report}");
    assert!(report["sent_bytes"].as_u64().unwrap() > 5 << 20, "{report}");
}

#[test]
fn a_check_reads_the_bucket_and_not_what_this_machine_keeps() {
    let bucket = Bucket::of_files();
    bucket.backup().ends(0);
    let target = bucket.machine.path("target");
    let restore = ["restore", "latest", "--target", target.to_str().unwrap()];
    bucket.run(&restore).ends(0);
    let (name, prefix) = bucket.address[5..].split_once('/').unwrap();
    let index = bucket.gateway.objects(name).join(prefix).join("index");
    let of_run = |path: &PathBuf| path.to_str().is_some_and(|path| path.contains("/run-"));
    let entries = std::fs::read_dir(index).unwrap().map(|entry| entry.unwrap().path());
    let runs: Vec<_> = entries.filter(of_run).collect();
    assert!(!runs.is_empty());
    for run in runs {
        let mut bytes = std::fs::read(&run).unwrap();
        bytes.reverse();
        std::fs::write(&run, bytes).unwrap();
    }
    std::fs::remove_dir_all(&target).unwrap();
    bucket.run(&restore).ends(0);
    bucket.run(&["check"]).ends(14);
    bucket.run(&["check", "--read-data"]).ends(14);
}

/// An older copy of the bucket takes its place, and numbers are given once more.
#[test]
fn a_bucket_that_was_put_back_is_read_afresh() {
    let bucket = Bucket::of_files();
    let (name, _) = bucket.address[5..].split_once('/').unwrap();
    let objects = bucket.gateway.objects(name);
    let copied = |from: &Path, to: &Path| {
        assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
    };
    bucket.backup().ends(0);
    let copy = bucket.machine.path("copy");
    copied(&objects, &copy);
    bucket.machine.write("lost", &random(5000));
    let lost = bucket.backup().ends(0).last()["snapshot_id"].as_str().unwrap().to_owned();
    bucket.restores_as(&lost, &bucket.machine.source());
    std::fs::remove_dir_all(&objects).unwrap();
    copied(&copy, &objects);
    bucket.machine.write("other", &random(5000));
    let elsewhere = bucket.machine.path("another-home");
    let source = bucket.machine.source();
    let arguments = ["backup", "--json", source.to_str().unwrap()];
    let other = ended(bucket.command(&arguments).env("HOME", elsewhere)).ends(0);
    let other = other.last()["snapshot_id"].as_str().unwrap().to_owned();
    bucket.restores_as(&other, &source);
}

/// Seen: `ls` and `check` said that there is no repository, and to create one, which `init` refuses there.
#[test]
fn a_bucket_that_lost_its_config_is_not_taken_for_one_without_a_repository() {
    let bucket = Bucket::of_files();
    bucket.backup().ends(0);
    for config in ["config", "config.copy"] {
        std::fs::remove_file(bucket.files().join(config)).unwrap();
    }
    for arguments in [&["ls", "latest"][..], &["check"], &["snapshots"], &["init"]] {
        let told = bucket.run(arguments).ends(14).stderr;
        assert!(told.contains("both config and config.copy are missing"), "{arguments:?}: {told}");
        assert!(told.contains("icecore check --repair --copies COPY"), "{arguments:?}: {told}");
    }
}

/// Seen: an index of nothing was "rebuilt", with exit 0, and nothing was restored until another rebuild.
#[test]
fn a_rebuild_that_finds_no_container_for_the_snapshots_is_no_success() {
    let bucket = Bucket::of_files();
    bucket.backup().ends(0);
    let (containers, aside) =
        (bucket.files().join("containers/00000000"), bucket.machine.path("aside"));
    std::fs::rename(&containers, &aside).unwrap();
    let told = bucket.run(&["rebuild"]).ends(14);
    let told = [told.text(), told.stderr].concat();
    assert!(told.contains("the data of all 1 listed snapshots is missing"), "{told}");
    assert!(told.contains("then: icecore rebuild"), "{told}");
    std::fs::rename(&aside, &containers).unwrap();
    bucket.run(&["rebuild"]).ends(0);
    bucket.restores_as("latest", &bucket.machine.source());
}

/// Each request costs a round trip: snapshots are read side by side and removed together.
#[test]
fn to_forget_many_snapshots_takes_few_requests_to_delete() {
    const SNAPSHOTS: usize = 20;
    let bucket = Bucket::of_files();
    for number in 0..SNAPSHOTS {
        bucket.machine.write("changing", format!("{number}").as_bytes());
        bucket.backup().ends(0);
    }
    let asked = requests(&bucket, &["forget", "--keep-last", "1"]);
    let deletes = asked.iter().filter(|line| line.contains("s3_DeleteObject")).count();
    assert!((1..=3).contains(&deletes), "{asked:#?}");
    assert_eq!(bucket.snapshots().len(), 1);
    bucket.run(&["check", "--read-data"]).ends(0);
}

/// A way to the object storage that is cut after so many bytes, for ever or for as long as is said; its address.
fn cut_after(bytes: usize, back_after: Option<Duration>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        pass_all_on(listener, bytes);
        if let Some(away) = back_after {
            std::thread::sleep(away);
            pass_all_on(TcpListener::bind(address).unwrap(), usize::MAX);
        }
    });
    format!("http://{address}")
}

/// Until `most` bytes were sent.
fn pass_all_on(listener: TcpListener, most: usize) {
    listener.set_nonblocking(true).unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    while sent.load(Ordering::SeqCst) < most {
        match listener.accept() {
            Ok((client, _)) => pass_on(client, &sent, most),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn pass_on(client: TcpStream, sent: &Arc<AtomicUsize>, most: usize) {
    client.set_nonblocking(false).unwrap();
    let endpoint = Gateway::shared().endpoint();
    let storage = TcpStream::connect(endpoint.trim_start_matches("http://")).unwrap();
    let (mut answers, mut back) = (storage.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
    let sent = sent.clone();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length) = (&client).read(&mut buffer) {
            let is_cut = sent.fetch_add(length, Ordering::SeqCst) + length >= most;
            if length == 0 || is_cut || (&storage).write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = (client.shutdown(Shutdown::Both), storage.shutdown(Shutdown::Both));
    });
}

#[test]
fn a_storage_that_goes_away_in_the_middle_of_a_backup_is_named_with_what_to_do() {
    let bucket = Bucket::new();
    bucket.machine.write("large", &random(140 << 20));
    let source = bucket.machine.source();
    let mut backup = bucket.command(&["backup", source.to_str().unwrap()]);
    backup.env("ICECORE_S3_AWAY_SECS", "3");
    let begun = Instant::now();
    let ran = ended(backup.env("AWS_ENDPOINT_URL", cut_after(20 << 20, None)));
    assert_eq!(ran.code, 16, "{}", ran.stderr);
    assert!(begun.elapsed() < Duration::from_secs(35), "each request was waited for");
    assert!(
        ran.stderr.contains("containers/") && ran.stderr.contains("Check that"),
        "{}",
        ran.stderr
    );
    bucket.run(&["backup", source.to_str().unwrap()]).ends(0);
    bucket.run(&["check", "--read-data"]).ends(0);
}

/// A gateway that starts anew, or a gap of the network: longer than the tries of one request.
#[test]
fn a_storage_that_is_away_for_a_while_is_waited_for_and_the_backup_is_complete() {
    let bucket = Bucket::new();
    bucket.machine.write("large", &random(140 << 20));
    let source = bucket.machine.source();
    let mut backup = bucket.command(&["backup", source.to_str().unwrap()]);
    let way = cut_after(20 << 20, Some(Duration::from_secs(25)));
    let begun = Instant::now();
    let ran = ended(backup.env("AWS_ENDPOINT_URL", way));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(begun.elapsed() > Duration::from_secs(25));
    assert!(
        ran.stderr.contains("does not answer any more. Trying again for up to 240 s"),
        "{}",
        ran.stderr
    );
    assert_eq!(bucket.snapshots().len(), 1);
    bucket.restores_as("latest", &source);
}
