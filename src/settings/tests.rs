#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use super::keys::{Effect, Group, JavaType, KEYS, Kind, find};
use super::listing::listing;
use super::load::{Origin, Problem, Sources, Warning, tls_config_file};
use super::*;

fn surroundings() -> Surroundings {
    Surroundings {
        user_home: "/home/mq".to_owned(),
        rocketmq_home: Some("/opt/rocketmq".to_owned()),
        serialize_type: None,
        namesrv_addr: None,
        cpus: 2,
    }
}

fn from_file(text: &str) -> Result<(Settings, Vec<Warning>), Vec<Problem>> {
    let sources = Sources {
        file: Some(("/etc/ns.conf", text.as_bytes())),
        ..Sources::default()
    };
    Settings::from_properties(&sources, &surroundings())
}

pub(super) fn loaded(text: &str) -> Settings {
    from_file(text).unwrap().0
}

pub(super) fn defines(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

fn from_defines(pairs: &[(&str, &str)]) -> Result<(Settings, Vec<Warning>), Vec<Problem>> {
    let defines = defines(pairs);
    let sources = Sources {
        defines: &defines,
        ..Sources::default()
    };
    Settings::from_properties(&sources, &surroundings())
}

/// A value that is not the default, and the form in which it is shown.
pub(super) fn good(key: &keys::Key) -> (String, String) {
    let same = |v: &str| (v.to_owned(), v.to_owned());
    match (&key.kind, key.name) {
        (_, "enableControllerInNamesrv") => ("FALSE".to_owned(), "false".to_owned()),
        (_, "rocketmq.serialize.type") => same("ROCKETMQ"),
        (_, "tls.server.mode") => same("enforcing"),
        (_, "tls.server.need.client.auth") => ("Require".to_owned(), "require".to_owned()),
        (_, "namesrv.cores") => ("3,0-1".to_owned(), "0-1,3-3".to_owned()),
        (_, "namesrv.writerCore") => same("3"),
        (_, "namesrv.log") => same("stderr"),
        (_, "namesrv.adminAddress") => same("[::1]:9000"),
        (_, "namesrv.adminAllow" | "namesrv.trustedProxies") => (
            "::1, 10.0.0.0/8".to_owned(),
            "::1/128,10.0.0.0/8".to_owned(),
        ),
        (Kind::Bool(_) | Kind::Inert(JavaType::Bool, _), _) => {
            let flipped = key.default(&surroundings()).unwrap() == "false";
            (flipped.to_string().to_uppercase(), flipped.to_string())
        }
        (Kind::Number { min, .. }, _) => (format!(" +{} ", min + 1), (min + 1).to_string()),
        (Kind::Inert(JavaType::Int | JavaType::Long, _), _) => ("-7".to_owned(), "-7".to_owned()),
        (Kind::DefaultOf(names), _) => good(find(names[0]).unwrap()),
        _ => (" a b ".to_owned(), "a b".to_owned()),
    }
}

fn bad(key: &keys::Key) -> Vec<String> {
    let owned = |values: &[&str]| values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>();
    match &key.kind {
        Kind::Bool(_) | Kind::Inert(JavaType::Bool, _) => owned(&["", "yes", "tru", "1"]),
        Kind::Number { min, max, .. } => {
            let outside = [min - 1, max + 1].map(|n| n.to_string());
            [
                owned(&["", "0x10", "1 2", "1.0", "99999999999999999999"]),
                outside.to_vec(),
            ]
            .concat()
        }
        Kind::Inert(JavaType::Int, _) => owned(&["", "a", "2147483648", "1L"]),
        Kind::Inert(JavaType::Long, _) => owned(&["", "a", "9223372036854775808"]),
        Kind::Form { .. } if key.name == "namesrv.log" => owned(&["", "a\\nb"]),
        Kind::Form { .. } => owned(&["a\\nb", "%", "-1"]),
        Kind::NonEmpty(_) => owned(&["", "  "]),
        Kind::DefaultOf(names) => bad(find(names[0]).unwrap()),
        _ => vec!["x".repeat(4097)],
    }
}

#[test]
fn the_table_is_sound() {
    let count = |group| KEYS.iter().filter(|key| key.group == group).count();
    let java = [Group::Namesrv, Group::NettyServer, Group::NettyClient].map(count);
    assert_eq!(java, [22, 18, 20], "fields of the Java classes");
    let mut names = BTreeSet::new();
    for key in KEYS {
        let twice = ["writeBufferHighWaterMark", "writeBufferLowWaterMark"].contains(&key.name);
        assert!(names.insert((key.name, key.group as u8)), "{}", key.name);
        assert!(
            twice || KEYS.iter().filter(|k| k.name == key.name).count() == 1,
            "{}",
            key.name
        );
        assert!(!key.note.is_empty() && !key.expected().is_empty());
        let inert = matches!(key.kind, Kind::Inert(..));
        assert!(!inert || key.effect == Effect::Never, "{}", key.name);
        if let Kind::DefaultOf(names) = &key.kind {
            assert!(
                names.iter().all(|name| find(name).is_some()),
                "{}",
                key.name
            );
        }
    }
}

#[test]
fn every_default_is_a_value_that_its_key_takes() {
    for key in KEYS {
        let mut settings = Settings::default_with(&surroundings());
        if let Some(value) = key.default(&surroundings()) {
            let before = settings.clone();
            assert!(
                key.set(&mut settings, &value).is_some(),
                "{}={value}",
                key.name
            );
            settings.inert = before.inert.clone();
            assert_eq!(settings, before, "{}", key.name);
        }
    }
}

#[test]
fn every_key_takes_a_good_value_from_the_file_and_the_command_line() {
    for key in KEYS {
        let (given, shown) = good(key);
        // Not a test certificate asks for files.
        let files = "tls.server.keyPath=k\ntls.server.certPath=c\n";
        let files = if key.name == "tls.test.mode.enable" {
            files
        } else {
            ""
        };
        let (in_file, _) = from_file(&format!("{files}{}={given}", key.name))
            .unwrap_or_else(|problems| panic!("{}: {problems:?}", key.name));
        let others = [("tls.server.keyPath", "k"), ("tls.server.certPath", "c")];
        let (defined, _) =
            from_defines(&[others[0], others[1], (key.name, given.as_str())]).unwrap();
        match key.name {
            "configStorePath" => assert_eq!(in_file.config_store_path, "/etc/ns.conf"),
            "user.home" => assert_eq!(in_file.kv_config_path, "a b/namesrv/kvConfig.json"),
            "rocketmq.home.dir" => assert_eq!(defined.rocketmq_home.as_deref(), Some("a b")),
            name => {
                assert_eq!(
                    key.value(&in_file).as_deref(),
                    Some(shown.as_str()),
                    "{name}"
                );
                assert_ne!(
                    key.value(&in_file) == key.default(&surroundings()),
                    name != "enableControllerInNamesrv",
                    "{name}"
                );
            }
        }
        if !matches!(key.kind, Kind::Surrounding(_)) {
            assert_eq!(key.value(&defined), Some(shown), "{}", key.name);
        }
    }
}

#[test]
fn every_key_refuses_a_bad_value_and_says_what_it_must_be() {
    for key in KEYS
        .iter()
        .filter(|key| !matches!(key.kind, Kind::Surrounding(_)))
    {
        if key.name == "configStorePath" {
            continue;
        }
        for value in bad(key) {
            let problems = from_file(&format!("#\n{}={value}", key.name)).unwrap_err();
            assert_eq!(problems.len(), 1, "{}={value}", key.name);
            assert_eq!(problems[0].origin, Some(Origin::File(2)));
            assert_eq!(problems[0].key, key.name);
            assert_eq!(problems[0].fix, format!("must be {}", key.expected()));
        }
    }
    let long = from_file(&format!("productEnvName={}", "é".repeat(3000))).unwrap_err();
    assert_eq!(long[0].value, format!("{}…", "Ã©".repeat(32)));
}

/// Java writes values without escapes at each 318, and reads them with.
#[test]
fn a_file_that_java_has_spoilt_is_read_as_java_reads_it() {
    let settings = loaded(
        "productEnvName=C:\\new\\table\\run\\data\nother=x\\ny\nkvConfigPath=/a\\n/kv.json\n",
    );
    assert_eq!(settings.product_env_name, "C:\new\table\rundata");
    assert_eq!(settings.kv_config_path, "/a\n/kv.json");
    let listed = listing(&settings);
    for line in ["productEnvName=C:\\new\table\\rundata", "other=x\\ny"] {
        assert!(listed.lines().any(|l| l == line), "{line} in {listed}");
    }
    let checked = print::all(&settings);
    assert!(
        checked.contains("\nkvConfigPath=/a\\n/kv.json\n"),
        "{checked}"
    );
}

#[test]
fn all_problems_of_a_file_come_at_once() {
    let long = "x".repeat(4097);
    let problems = from_file(&format!(
        "listenPort=99999\norderMessageEnable=ja\nenableControllerInNamesrv=true\n\
         tls.server.mode=PERMISSIVE\ntls.test.mode.enable=false\ntls.server.keyPassword={long}",
    ))
    .unwrap_err();
    let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let file = "name a PEM file, or set tls.server.mode=disabled: tls.test.mode.enable=false asks \
                for a certificate";
    assert_eq!(
        shown,
        [
            "line 1: listenPort=99999: must be a whole number from 0 to 65535".to_owned(),
            "line 2: orderMessageEnable=ja: must be true or false".to_owned(),
            "line 3: enableControllerInNamesrv=true: must be false: there is no embedded \
             controller, run the controller as its own process"
                .to_owned(),
            "line 4: tls.server.mode=PERMISSIVE: must be disabled, permissive or enforcing"
                .to_owned(),
            "line 6: tls.server.keyPassword=***: must be a text of at most 4096 bytes without \
             control characters"
                .to_owned(),
            format!("tls.server.keyPath=: {file}"),
            format!("tls.server.certPath=: {file}"),
        ]
    );
    let escapes = from_file("a=\\u1\nb=\\u2").unwrap_err();
    assert_eq!(escapes.len(), 2);
    assert_eq!(escapes[1].origin, Some(Origin::File(2)));
}

#[test]
fn warnings_name_what_has_no_effect() {
    let (_, warnings) = from_file(
        "listenport=1\nserverWorkerThreads=8\nserverWorkerThreads=9\nconfigStorePath=/x\n\
         isScanAvailableNameSrv=true\ntls.enable=true\nrocketmqHome=/y",
    )
    .unwrap();
    let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "line 2: serverWorkerThreads does not count, line 3 does",
            "line 6: tls.enable has no meaning here: notifications to brokers (905) go out \
             without TLS",
            "line 1: unknown key listenport, perhaps listenPort is meant",
            "line 3: serverWorkerThreads has no meaning here: there are no Netty threads: \
             namesrv.cores sets the serving cores",
            "line 4: configStorePath does not count here",
            "line 5: unknown key isScanAvailableNameSrv",
        ]
    );
    // A file that Java rewrote has every key with its default.
    let rewritten = listing(&loaded(""));
    assert_eq!(from_file(&rewritten).unwrap().1, []);
}

#[test]
fn the_last_duplicate_counts_and_the_command_line_wins() {
    assert_eq!(loaded("listenPort=bad\nlistenPort=7").listen_port, 7);
    let defines = defines(&[
        ("listenPort", "8"),
        ("listenPort", "9"),
        ("configStorePath", "/d"),
    ]);
    let sources = Sources {
        file: Some(("f", b"listenPort=7\n")),
        defines: &defines,
        ..Sources::default()
    };
    let (settings, warnings) = Settings::from_properties(&sources, &surroundings()).unwrap();
    assert_eq!(
        (settings.listen_port, settings.config_store_path.as_str()),
        (9, "/d")
    );
    assert_eq!(warnings.len(), 2);
}

#[test]
fn jvm_properties_set_defaults_only() {
    let sndbuf = "com.rocketmq.remoting.socket.sndbuf.size";
    let settings = loaded(&format!("clientSocketSndBufSize=5\n{sndbuf}=11"));
    assert_eq!(settings.server_socket_snd_buf_size, 11);
    let client = find("clientSocketSndBufSize").unwrap();
    assert_eq!(client.value(&settings).as_deref(), Some("5"));

    let use_tls = |text: &str| find("useTLS").unwrap().value(&loaded(text)).unwrap();
    assert_eq!(use_tls(""), "false");
    assert_eq!(use_tls("tls.server.mode=enforcing"), "true");
    assert_eq!(
        use_tls("tls.server.mode=enforcing\ntls.enable=false"),
        "false"
    );
    assert_eq!(use_tls("tls.enable=true\nuseTLS=false"), "false");
}

#[test]
fn surroundings_come_from_the_environment_or_a_property() {
    let (settings, _) = from_defines(&[("user.home", "/h"), ("rocketmq.home.dir", "/r")]).unwrap();
    assert_eq!(settings.kv_config_path, "/h/namesrv/kvConfig.json");
    assert_eq!(settings.config_store_path, "/h/namesrv/namesrv.properties");
    assert_eq!(settings.log.to_string(), "/h/logs/rocketmqlogs/namesrv.log");
    assert_eq!(settings.rocketmq_home.as_deref(), Some("/r"));
    let (settings, _) =
        from_defines(&[("rocketmqHome", "/f"), ("rocketmq.home.dir", "/r")]).unwrap();
    assert_eq!(settings.rocketmq_home.as_deref(), Some("/f"));

    let environment = Surroundings {
        namesrv_addr: Some("1.2.3.4:9876".to_owned()),
        ..surroundings()
    };
    let given = |defines: &[(String, String)]| {
        let sources = Sources {
            defines,
            ..Sources::default()
        };
        let (settings, _) = Settings::from_properties(&sources, &environment).unwrap();
        settings.production.namesrv_addr.unwrap()
    };
    assert_eq!(given(&[]), "1.2.3.4:9876");
    let property = defines(&[("rocketmq.namesrv.addr", "5.6.7.8:1")]);
    assert_eq!(given(&property), "5.6.7.8:1");

    let with = |serialize_type: &str| {
        let serialize_type = Some(serialize_type.to_owned());
        Settings::from_properties(
            &Sources::default(),
            &Surroundings {
                serialize_type,
                ..surroundings()
            },
        )
    };
    assert_eq!(
        with("ROCKETMQ").unwrap().0.serialize_type,
        SerializeType::RocketMq
    );
    assert_eq!(
        with("json").unwrap_err()[0].to_string(),
        "environment: rocketmq.serialize.type=json: must be JSON or ROCKETMQ"
    );
}

#[test]
fn the_tls_file_overrides_its_keys_and_no_others() {
    let given = defines(&[("tls.config.file", "/t"), ("tls.server.keyPath", "/old")]);
    let sources = Sources {
        defines: &given,
        tls_file: Some(
            b"tls.server.keyPath=/k\ntls.server.certPath=/c\ntls.test.mode.enable=false\n\
              tls.server.mode=disabled\ntls.enable=true\nlistenPort=1\nx=y",
        ),
        ..Sources::default()
    };
    assert_eq!(tls_config_file(&sources), "/t");
    assert_eq!(
        tls_config_file(&Sources::default()),
        "/etc/rocketmq/tls.properties"
    );
    let (settings, warnings) = Settings::from_properties(&sources, &surroundings()).unwrap();
    assert_eq!(settings.tls.key_path.as_deref(), Some("/k"));
    assert_eq!(settings.tls.cert_path.as_deref(), Some("/c"));
    assert!(!settings.tls.test_mode);
    assert_eq!(settings.tls.mode, TlsMode::Permissive);
    assert_eq!(settings.listen_port, 9876);
    let misplaced = |line, key| Warning::Misplaced {
        origin: Origin::TlsFile(line),
        key,
    };
    let unknown = Warning::Unknown {
        origin: Origin::TlsFile(7),
        key: "x".to_owned(),
        meant: None,
    };
    assert_eq!(
        warnings,
        [
            misplaced(4, "tls.server.mode"),
            misplaced(5, "tls.enable"),
            misplaced(6, "listenPort"),
            unknown
        ]
    );
}

#[test]
fn p_prints_what_java_prints() {
    let (settings, _) = Settings::from_properties(&Sources::default(), &surroundings()).unwrap();
    let head = "2026-11-30 05:56:04 INFO main - ";
    let expected: String = include_str!("tests/java-5.3.3-p.txt")
        .lines()
        .map(|line| format!("{head}{line}\n"))
        .collect();
    assert_eq!(
        print::java_fields(&settings, "2026-11-30 05:56:04"),
        expected
    );
}

#[test]
fn check_prints_every_value_but_no_password() {
    let settings = loaded("tls.server.keyPassword=secret\ntls.client.keyPassword=secret");
    let text = print::all(&settings);
    assert!(text.contains("tls.server.keyPassword=***\n"));
    assert!(text.contains("tls.client.keyPassword=***\n"));
    assert!(!text.contains("secret"));
    assert!(text.contains("namesrv.cores=all\n") && text.contains("rocketmqHome=/opt/rocketmq\n"));
    let names: Vec<_> = text
        .lines()
        .filter_map(|l| l.split_once('='))
        .map(|l| l.0)
        .collect();
    assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
    assert!(!listing(&settings).contains("secret"));
}

/// The file and the answer are those of a real 5.3.3.
#[test]
fn the_listing_is_that_of_java() {
    let settings = loaded(
        "listenPort=19876\nkvConfigPath=/tmp/kv.json\nconfigStorePath=/elsewhere\n\
         connectTimeoutMillis=5000 \nisScanAvailableNameSrv=false\nmy.key = a b  \n\
         productEnvName=  x y  \norderMessageEnable=TRUE\nwaitSecondsForService=+7\n\
         clientWorkerThreads=9\ntls.server.mode=enforcing\n=emptykey\n",
    );
    assert_eq!(listing(&settings), include_str!("tests/java-5.3.3-319.txt"));
}

#[test]
fn the_listing_omits_null_and_keeps_one_line_per_key() {
    let mut settings = loaded("a\\nb=c\\nkvConfigPath=/x\\r\\u0001\\t\\\\n");
    settings.rocketmq_home = None;
    let text = listing(&settings);
    assert!(text.starts_with("a\\nb=c\\nkvConfigPath=/x\\r\\u0001\t\\n\nbindAddress="));
    assert_eq!(text.matches("\nkvConfigPath=").count(), 1);
    assert!(!text.contains("rocketmqHome"));
    assert_eq!(text.lines().count(), 1 + 22 + 18 - 1);
}

#[test]
fn every_key_has_a_row_in_the_ledger() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/COMPAT.md");
    let Ok(ledger) = std::fs::read_to_string(path) else {
        return;
    };
    for key in KEYS {
        assert!(
            ledger.contains(&format!("| `{}` |", key.name)),
            "no row for {}",
            key.name
        );
    }
}
