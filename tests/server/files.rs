//! Key-value tables: what was acknowledged survives, what cannot be written is refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::harness::{Home, Server, skipped};
use crate::peer::Peer;
use crate::requests::{delete_kv, get_kv, put_kv, value};
use crate::support::answer::Answer;
use crate::support::request::Request;

const KV: &str = "kv/kvConfig.json";

fn is_missing(peer: &mut Peer, key: &str) {
    let expected = format!("No config item, Namespace: n Key: {key}");
    assert_eq!(
        peer.ask(&get_kv("n", key)),
        Answer::failure(22, &expected).ext(&[])
    );
}

/// Refused with a reason that has `part`.
fn is_refused(answer: &Answer, part: &str) {
    assert!(Answer::refused().admits(answer), "{answer}");
    assert!(answer.to_string().contains(part), "{part} in {answer}");
}

#[test]
fn file_has_the_form_that_java_reads() {
    let server = Server::start();
    let mut peer = server.connect();
    assert!(!server.home.path(KV).exists());
    for (namespace, key, text) in [("n", "k", "v"), ("ä\"", "/", "\n"), ("n", "", "")] {
        assert_eq!(peer.ask(&put_kv(namespace, key, text)), Answer::success());
    }
    let file: serde_json::Value = serde_json::from_str(&server.home.read(KV)).unwrap();
    let expected =
        serde_json::json!({"configTable": {"n": {"k": "v", "": ""}, "ä\"": {"/": "\n"}}});
    assert_eq!(file, expected);
    let list = Request::new(219).with("namespace", "n");
    let expected = Answer::success().body("{\"table\":{\"\":\"\",\"k\":\"v\"}}");
    assert_eq!(peer.ask(&list), expected);
}

#[test]
fn puts_and_deletes_survive_a_kill() {
    let server = Server::start();
    let mut peer = server.connect();
    for (key, text) in [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")] {
        assert_eq!(peer.ask(&put_kv("n", key, text)), Answer::success());
    }
    assert_eq!(peer.ask(&delete_kv("n", "b")), Answer::success());
    let server = server.kill_and_restart();
    let mut peer = server.connect();
    assert_eq!(peer.ask(&get_kv("n", "a")), value("3"));
    assert_eq!(peer.ask(&get_kv("n", "c")), value("4"));
    is_missing(&mut peer, "b");
    // An emptied namespace stays, as in Java.
    for key in ["a", "c"] {
        assert_eq!(peer.ask(&delete_kv("n", key)), Answer::success());
    }
    let server = server.kill_and_restart();
    let list = Request::new(219).with("namespace", "n");
    assert_eq!(
        server.connect().ask(&list),
        Answer::success().body("{\"table\":{}}")
    );
}

/// What became of one key: the values that were acknowledged, and one that may have been taken.
#[derive(Clone, Copy, Default)]
struct Written {
    acknowledged: u32,
    maybe: u32,
}

/// Puts numbers under `key` until the server is gone.
fn put_until_killed(mut peer: Peer, key: String, mut written: Written) -> (String, Written) {
    loop {
        written.maybe = written.maybe.max(written.acknowledged) + 1;
        let mut request = put_kv("n", &key, &written.maybe.to_string());
        request.opaque = i32::try_from(written.maybe).unwrap();
        if std::io::Write::write_all(&mut peer.stream, &request.json_frame()).is_err() {
            return (key, written);
        }
        match peer.answer_or_end() {
            Some(answer) => {
                assert_eq!(answer, (request.opaque, Answer::success()));
                written.acknowledged = written.maybe;
            }
            None => return (key, written),
        }
    }
}

#[test]
fn acknowledged_puts_survive_kills_at_any_moment() {
    const ROUNDS: u64 = 20;
    let mut server = Server::start();
    let mut known: BTreeMap<String, Written> = (0..3)
        .map(|i| (format!("k{i}"), Written::default()))
        .collect();
    for round in 0..ROUNDS {
        let clients: Vec<_> = known
            .iter()
            .map(|(key, written)| {
                let (peer, key, written) = (server.connect(), key.clone(), *written);
                thread::spawn(move || put_until_killed(peer, key, written))
            })
            .collect();
        // A different moment of the write each time.
        thread::sleep(Duration::from_micros(20_000 + 1_730 * round));
        let home = server.kill();
        known = clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect();
        server = Server::in_home(home);
        let mut peer = server.connect();
        for (key, written) in &mut known {
            let answer = peer.ask(&get_kv("n", key));
            let kept = match &answer.ext.as_deref() {
                Some([(_, text)]) => text.parse().unwrap(),
                _ => 0,
            };
            assert!(
                kept == written.acknowledged || kept == written.maybe,
                "round {round}: {key} is {kept}, acknowledged {}",
                written.acknowledged
            );
            written.acknowledged = kept;
        }
    }
    let most = known.values().map(|written| written.acknowledged).max();
    assert!(most > Some(20), "hardly anything was written: {most:?}");
}

#[test]
fn leftovers_of_a_killed_write_do_not_matter() {
    let server = Server::start();
    assert_eq!(
        server.connect().ask(&put_kv("n", "k", "v")),
        Answer::success()
    );
    let home = server.kill();
    fs::write(
        home.path("kv/kvConfig.json.tmp"),
        "{\"configTable\":{\"n\":{\"k",
    )
    .unwrap();
    let server = Server::in_home(home);
    let mut peer = server.connect();
    assert_eq!(peer.ask(&get_kv("n", "k")), value("v"));
    assert_eq!(peer.ask(&put_kv("n", "l", "w")), Answer::success());
    assert!(!server.home.path("kv/kvConfig.json.tmp").exists());
}

#[test]
fn previous_content_is_kept_beside_the_file() {
    let server = Server::start();
    let mut peer = server.connect();
    assert_eq!(peer.ask(&put_kv("n", "k", "1")), Answer::success());
    let first = server.home.read(KV);
    assert_eq!(peer.ask(&put_kv("n", "k", "2")), Answer::success());
    assert_eq!(server.home.read("kv/kvConfig.json.bak"), first);
}

#[test]
fn file_in_the_place_of_the_directory_refuses_puts() {
    let server = Server::start();
    let mut peer = server.connect();
    fs::write(server.home.path("kv"), "in the way").unwrap();
    is_refused(
        &peer.ask(&put_kv("n", "k", "v")),
        "kvConfig.json cannot be written: ",
    );
    is_missing(&mut peer, "k");
    server.wait_for_log(&["WARN", "a change was not made", "cannot be written"]);
    // Nothing has to be restarted once the way is free.
    fs::remove_file(server.home.path("kv")).unwrap();
    assert_eq!(peer.ask(&put_kv("n", "k", "v")), Answer::success());
    assert_eq!(peer.ask(&get_kv("n", "k")), value("v"));
}

#[test]
fn directory_in_the_place_of_the_file_refuses_puts() {
    let server = Server::start();
    let mut peer = server.connect();
    fs::create_dir_all(server.home.path(KV)).unwrap();
    is_refused(
        &peer.ask(&put_kv("n", "k", "v")),
        "kvConfig.json cannot be written: ",
    );
    is_missing(&mut peer, "k");
}

#[test]
fn read_only_directory_refuses_changes_and_memory_is_as_before() {
    if !Command::new("setpriv")
        .arg("--version")
        .output()
        .is_ok_and(|o| o.status.success())
    {
        return skipped("there is no setpriv, without which root may write anywhere");
    }
    let home = Home::new();
    home.write_settings(&[]);
    fs::create_dir(home.path("kv")).unwrap();
    let server = Server::in_shell(
        home,
        "test $(id -u) != 0 && exec \"$0\" \"$@\"; \
         exec setpriv --bounding-set=-dac_override --inh-caps=-dac_override \"$0\" \"$@\"",
    );
    let mut peer = server.connect();
    assert_eq!(peer.ask(&put_kv("n", "k", "1")), Answer::success());
    let directory = server.home.path("kv");
    set_mode(&directory, 0o555);
    is_refused(&peer.ask(&put_kv("n", "k", "2")), "Permission denied");
    is_refused(&peer.ask(&put_kv("n", "l", "2")), "Permission denied");
    is_refused(&peer.ask(&delete_kv("n", "k")), "Permission denied");
    assert_eq!(peer.ask(&get_kv("n", "k")), value("1"));
    is_missing(&mut peer, "l");
    set_mode(&directory, 0o755);
    assert_eq!(peer.ask(&put_kv("n", "k", "3")), Answer::success());
    let server = server.kill_and_restart();
    assert_eq!(server.connect().ask(&get_kv("n", "k")), value("3"));
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A line of shell that gives the server a disk of 64 KiB at `directory`: one of its own, which
/// ends with it, where it may be mounted, else a limit to the size of its files.
fn small_disk(directory: &Path) -> String {
    let may_mount = Command::new("unshare").args(["-m", "true"]).output();
    if may_mount.is_ok_and(|output| output.status.success()) {
        let mount = format!("mount -t tmpfs -o size=64k disk '{}'", directory.display());
        return format!(
            "exec unshare -m sh -c \"{mount}; exec \\\"\\$0\\\" \\\"\\$@\\\"\" \"$0\" \"$@\""
        );
    }
    // In blocks of 512 bytes; the signal would end the server, as it ends any program.
    "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"".to_owned()
}

#[test]
fn full_disk_refuses_puts_and_keeps_what_was_there() {
    let home = Home::new();
    home.write_settings(&[]);
    fs::create_dir(home.path("kv")).unwrap();
    let shell = small_disk(&home.path("kv"));
    let server = Server::in_shell(home, &shell);
    let mut peer = server.connect();
    assert_eq!(peer.ask(&put_kv("n", "small", "1")), Answer::success());
    let large = "v".repeat(100 * 1024);
    let answer = peer.ask(&put_kv("n", "large", &large));
    is_refused(&answer, "kvConfig.json cannot be written: ");
    is_missing(&mut peer, "large");
    // What failed takes no room.
    assert_eq!(peer.ask(&put_kv("n", "small", "2")), Answer::success());
    assert_eq!(peer.ask(&get_kv("n", "small")), value("2"));
    let files = files_of(&server, &server.home.path("kv"));
    assert_eq!(files, ["kvConfig.json", "kvConfig.json.bak"]);
}

/// The names in a directory as the server sees it.
fn files_of(server: &Server, directory: &Path) -> Vec<String> {
    let root = PathBuf::from(format!("/proc/{}/root", server.pid()));
    let seen = root.join(directory.strip_prefix("/").unwrap());
    let mut names: Vec<String> = fs::read_dir(seen)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
