//! The command line, and what keeps a server from starting: statuses and texts that scripts see.

use std::fs;
use std::path::Path;

use crate::harness::{Home, Server};
use crate::requests::{no_route, route};

const USAGE: &str = "\
usage: mqnamesrv [-c <arg>] [-h] [-n <arg>] [-p]
 -c,--configFile <arg>    Name server config properties file
 -h,--help                Print help
 -n,--namesrvAddr <arg>   Name server address list, eg: '192.168.0.1:9876;192.168.0.2:9876'
 -p,--printConfigItem     Print all config items
";

/// Starts a server that must refuse to, behind a line of shell; returns what it says.
fn refusal(home: &Home, shell: &str) -> String {
    let mut command = home.command_in(shell);
    let output = command
        .arg("-c")
        .arg(home.path("namesrv.properties"))
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(255), "{stdout}{stderr}");
    assert!(!stdout.contains("boot success"), "{stdout}");
    stderr
}

const PLAIN: &str = "exec \"$0\" \"$@\"";

#[test]
fn boot_lines_name_the_file_and_the_bound_port() {
    let server = Server::start();
    let expected = format!(
        "load config properties file OK, {}\n\
         The Name Server boot success. serializeType=JSON, address 127.0.0.1:{}\n",
        server.home.path("namesrv.properties").display(),
        server.address.port()
    );
    assert_eq!(server.home.read("stdout"), expected);
    assert_ne!(server.address.port(), 0);
    server.wait_for_log(&["The Name Server boot success.", "address 127.0.0.1:"]);
    assert_eq!(server.connect().ask(&route("t")), no_route("t"));
}

#[test]
fn boot_line_names_the_serialize_type() {
    let server = Server::with(&[("rocketmq.serialize.type", "ROCKETMQ")]);
    let stdout = server.home.read("stdout");
    assert!(
        stdout.contains("boot success. serializeType=ROCKETMQ, address 127.0.0.1:"),
        "{stdout}"
    );
    // Answers have the binary header then, whatever the request has.
    assert_eq!(server.connect().ask(&route("t")), no_route("t"));
}

#[test]
fn help_prints_the_usage_and_ends_with_0() {
    let home = Home::new();
    for option in ["-h", "--help", "-ph"] {
        let ended = home.run(&["-c", "/does/not/exist", option]);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{option}");
        assert!(ended.stdout.starts_with(USAGE), "{}", ended.stdout);
    }
}

#[test]
fn print_shows_the_values_of_the_file_and_ends_with_0() {
    let home = Home::new();
    home.write_settings(&[("serverWorkerThreads", "9")]);
    let ended = home.run(&["-p", "-c", "namesrv.properties"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    let values: Vec<&str> = ended
        .stdout
        .lines()
        .map(|line| line.split_once(" INFO main - ").unwrap().1)
        .collect();
    assert_eq!(values.len(), 22 + 18 + 20);
    for expected in ["listenPort=0", "serverWorkerThreads=9", "clusterTest=false"] {
        assert!(values.contains(&expected), "{expected} in {values:?}");
    }
}

#[test]
fn version_names_the_java_release() {
    let ended = Home::new().run(&["--version"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    assert_eq!(
        ended.stdout,
        format!("namesrv {}, as RocketMQ 5.3.3\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn check_prints_all_values_and_starts_nothing() {
    let home = Home::new();
    home.write_settings(&[("unheardOf", "1")]);
    let ended = home.run(&["--check", "-c", "namesrv.properties"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    assert!(ended.stdout.starts_with("warning: "), "{}", ended.stdout);
    assert!(ended.stdout.contains("unheardOf"), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("orderMessageEnable=false"),
        "{}",
        ended.stdout
    );
    assert!(!home.path("namesrv.log").exists());
}

#[test]
fn check_lists_every_problem_of_the_file() {
    let home = Home::new();
    home.write_settings(&[
        ("serverChannelMaxIdleTimeSeconds", "soon"),
        ("orderMessageEnable", "maybe"),
        ("defaultThreadPoolQueueCapacity", "0"),
    ]);
    for args in [&["--check"][..], &[]] {
        let ended = home.run(&[args, &["-c", "namesrv.properties"]].concat());
        assert_eq!((ended.code, &*ended.stdout), (Some(255), ""));
        assert_eq!(ended.stderr.lines().count(), 3, "{}", ended.stderr);
        for key in [
            "serverChannelMaxIdleTimeSeconds",
            "orderMessageEnable",
            "QueueCapacity",
        ] {
            assert!(ended.stderr.contains(key), "{key} in {}", ended.stderr);
        }
    }
}

#[test]
fn unknown_option_prints_the_usage_and_ends_with_1() {
    let ended = Home::new().run(&["-x"]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.stderr, "Unrecognized option: -x\n");
    assert!(ended.stdout.starts_with(USAGE), "{}", ended.stdout);
}

#[test]
fn option_without_its_argument_ends_with_1() {
    let ended = Home::new().run(&["-c"]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.stderr, "Missing argument for option: c\n");
}

#[test]
fn argument_that_is_not_utf8_ends_with_1() {
    use std::os::unix::ffi::OsStrExt;
    let home = Home::new();
    let mut command = home.command();
    let output = command
        .arg(std::ffi::OsStr::from_bytes(b"\xff"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stderr, b"namesrv: the arguments must be UTF-8\n");
}

#[test]
fn file_that_cannot_be_read_ends_with_255() {
    let home = Home::new();
    fs::create_dir(home.path("directory")).unwrap();
    for path in ["missing", "directory", ""] {
        let ended = home.run(&["-c", path]);
        assert_eq!((ended.code, &*ended.stdout), (Some(255), ""), "{path:?}");
        let expected = format!("namesrv: the configuration {path:?} cannot be read: ");
        assert!(ended.stderr.starts_with(&expected), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn what_is_not_there_yet_ends_with_255() {
    for (key, value, reason) in [
        ("tls.server.mode", "enforcing", "this version has no TLS"),
        (
            "namesrv.adminAddress",
            "127.0.0.1:9886",
            "has no HTTP pages yet",
        ),
        (
            "namesrv.trustedProxies",
            "10.0.0.0/8",
            "does not read PROXY lines yet",
        ),
    ] {
        let home = Home::new();
        let file = home.write_settings(&[(key, value)]);
        let ended = home.run(&["-c", file.to_str().unwrap()]);
        assert_eq!(ended.code, Some(255), "{key}");
        assert!(ended.stderr.contains(key), "{}", ended.stderr);
        assert!(ended.stderr.contains(reason), "{}", ended.stderr);
    }
}

#[test]
fn embedded_controller_ends_with_255() {
    let home = Home::new();
    home.write_settings(&[("enableControllerInNamesrv", "true")]);
    let stderr = refusal(&home, PLAIN);
    assert!(stderr.contains("enableControllerInNamesrv"), "{stderr}");
}

#[test]
fn second_server_on_the_same_port_is_refused() {
    let server = Server::start();
    let home = Home::new();
    let port = server.address.port().to_string();
    home.write_settings(&[("listenPort", &port)]);
    let stderr = refusal(&home, PLAIN);
    let expected = format!("namesrv: cannot listen on 127.0.0.1:{port}: Address already in use");
    assert!(stderr.starts_with(&expected), "{stderr}");
    assert!(
        stderr.ends_with("; stop whoever listens there, or set listenPort\n"),
        "{stderr}"
    );
    // The first one has not lost connections to it.
    for _ in 0..20 {
        assert_eq!(server.connect().ask(&route("t")), no_route("t"));
    }
}

#[test]
fn too_few_descriptors_are_refused() {
    let home = Home::new();
    home.write_settings(&[]);
    let stderr = refusal(&home, "ulimit -n 511; exec \"$0\" \"$@\"");
    assert_eq!(
        stderr,
        "namesrv: only 511 descriptors are allowed (hard limit 511); set ulimit -n or \
         LimitNOFILE to what the cluster has connections, at least 512\n"
    );
}

#[test]
fn soft_descriptor_limit_is_raised_to_the_hard_one() {
    let home = Home::new();
    home.write_settings(&[]);
    let server = Server::in_shell(home, "ulimit -Sn 100; exec \"$0\" \"$@\"");
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    let values: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(values[3], values[4], "{line}");
}

#[test]
fn too_little_locked_memory_is_refused() {
    let home = Home::new();
    home.write_settings(&[]);
    let stderr = refusal(&home, "ulimit -l 64; exec \"$0\" \"$@\"");
    assert!(
        stderr.starts_with("namesrv: locked memory is limited to 65536 bytes"),
        "{stderr}"
    );
    assert!(stderr.contains("set ulimit -l "), "{stderr}");
    assert!(stderr.contains("LimitMEMLOCK="), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn all_problems_of_the_host_are_listed_at_once() {
    let home = Home::new();
    home.write_settings(&[("bindAddress", "203.0.113.1"), ("namesrv.cores", "5000")]);
    let stderr = refusal(&home, "ulimit -l 64; ulimit -n 100; exec \"$0\" \"$@\"");
    for part in [
        "5000 cores",
        "locked memory",
        "100 descriptors",
        "cannot listen on 203.0.113.1",
    ] {
        assert!(stderr.contains(part), "{part} in {stderr}");
    }
}

#[test]
fn broken_kv_file_is_refused_and_left_alone() {
    let home = Home::new();
    home.write_settings(&[]);
    fs::create_dir(home.path("kv")).unwrap();
    let path = home.path("kv/kvConfig.json");
    let broken: [&[u8]; 4] = [
        b"{\"configTable\":{\"a\":{\"b\":",
        b"[1]",
        b"\xff\xfe\x00",
        b"{\"configTable\":7}",
    ];
    for text in broken {
        fs::write(&path, text).unwrap();
        let stderr = refusal(&home, PLAIN);
        let expected = format!(
            "namesrv: kvConfigPath {:?} cannot be used: ",
            path.to_str().unwrap()
        );
        assert!(stderr.starts_with(&expected), "{stderr}");
        assert!(
            stderr.ends_with("; repair it, or take its .bak\n"),
            "{stderr}"
        );
        assert_eq!(fs::read(&path).unwrap(), text);
    }
}

#[test]
fn kv_file_over_the_limit_is_refused() {
    let home = Home::new();
    home.write_settings(&[]);
    fs::create_dir(home.path("kv")).unwrap();
    let value = "v".repeat(512 * 1024);
    let entries: Vec<String> = (0..17).map(|i| format!("\"k{i}\":\"{value}\"")).collect();
    let text = format!("{{\"configTable\":{{\"n\":{{{}}}}}}}", entries.join(","));
    fs::write(home.path("kv/kvConfig.json"), text).unwrap();
    let stderr = refusal(&home, PLAIN);
    assert!(stderr.contains("cannot be used: "), "{stderr}");
}

#[test]
fn empty_kv_file_and_a_directory_in_its_place_are_no_table() {
    let home = Home::new();
    home.write_settings(&[]);
    fs::create_dir(home.path("kv")).unwrap();
    fs::write(home.path("kv/kvConfig.json"), "").unwrap();
    let home = Server::in_home(home).kill();
    fs::remove_file(home.path("kv/kvConfig.json")).unwrap();
    fs::create_dir(home.path("kv/kvConfig.json")).unwrap();
    drop(Server::in_home(home));
}

#[test]
fn without_a_file_everything_is_below_the_home_of_the_user() {
    let home = Home::new();
    let ended = home.run(&["--check"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let at_home = |name: &str| {
        Path::join(home.path("").as_path(), name)
            .display()
            .to_string()
    };
    for (key, file) in [
        ("kvConfigPath", "namesrv/kvConfig.json"),
        ("configStorePath", "namesrv/namesrv.properties"),
        ("namesrv.log", "logs/rocketmqlogs/namesrv.log"),
    ] {
        let line = format!("{key}={}", at_home(file));
        assert!(
            ended.stdout.lines().any(|l| l == line),
            "{line} in {}",
            ended.stdout
        );
    }
}
