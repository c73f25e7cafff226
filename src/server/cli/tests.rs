use super::*;

fn parse_line(line: &str) -> Parsed {
    parse(
        &line
            .split(' ')
            .filter(|a| !a.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    )
}

/// The options of a line that must run.
fn run(line: &str) -> Options {
    match parse_line(line) {
        Parsed::Run(options) => options,
        exit => panic!("{line}: {exit:?}"),
    }
}

fn config(line: &str) -> Option<String> {
    run(line).config_file
}

#[test]
fn usage_begins_with_that_of_java() {
    let Parsed::Exit {
        code,
        stdout,
        stderr,
    } = parse_line("-h")
    else {
        panic!()
    };
    assert_eq!((code, stderr.as_str()), (0, ""));
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "usage: mqnamesrv [-c <arg>] [-h] [-n <arg>] [-p]",
            " -c,--configFile <arg>    Name server config properties file",
            " -h,--help                Print help",
            " -n,--namesrvAddr <arg>   Name server address list, eg: \
             '192.168.0.1:9876;192.168.0.2:9876'",
            " -p,--printConfigItem     Print all config items",
        ]
    );
    assert_eq!(lines[5..7], ["", "Besides Java's options:"]);
    for opt in OPTIONS {
        assert!(stdout.contains(&format!("--{}", opt.long)), "{}", opt.long);
    }
}

#[test]
fn help_wins_over_all_that_is_valid() {
    for line in [
        "-h",
        "--help",
        "--h",
        "-help",
        "-hp",
        "-ph",
        "-hh",
        "-c a -h",
        "foo -h",
        "--c x -h",
        "-cX -h",
        "-c=X -h",
        "-pn a -h",
        "-h -- -x",
        "-c a b -h",
        "--configFile a -h",
        "-c -x -h",
        "-c -5 -h",
        "-pcpX -h",
        "-configFilefoo -h",
        "--namesrv a -h",
        "-cores 4 -h",
        "--version --help",
        "--check -h",
        "-Da=b -h",
    ] {
        let outcome = parse_line(line);
        assert!(
            matches!(outcome, Parsed::Exit { code: 0, .. }),
            "{line}: {outcome:?}"
        );
    }
}

#[test]
fn errors_have_the_words_of_java() {
    let missing = "Missing argument for option: ";
    let unknown = "Unrecognized option: ";
    for (line, message) in [
        ("-x", format!("{unknown}-x")),
        ("-p -x", format!("{unknown}-x")),
        ("-h -x", format!("{unknown}-x")),
        ("foo -x", format!("{unknown}-x")),
        ("--foo", format!("{unknown}--foo")),
        ("-p5", format!("{unknown}-p5")),
        ("-hx", format!("{unknown}-hx")),
        ("-hpz", format!("{unknown}-hpz")),
        ("-p=3 -h", format!("{unknown}-p=3")),
        ("--help=3", format!("{unknown}--help=3")),
        ("--print=3", format!("{unknown}--print=3")),
        ("---h", format!("{unknown}---h")),
        ("--configfile=a -h", format!("{unknown}--configfile=a")),
        ("--core 4", format!("{unknown}--core")),
        ("-version", format!("{unknown}-version")),
        ("-c", format!("{missing}c")),
        ("-c -h", format!("{missing}c")),
        ("-c -- -h", format!("{missing}c")),
        ("-p -c", format!("{missing}c")),
        ("--conf", format!("{missing}c")),
        ("-configFile", format!("{missing}c")),
        ("-n", format!("{missing}n")),
        ("-n -h", format!("{missing}n")),
        ("--namesrvAddr", format!("{missing}n")),
        ("--cores", format!("{missing}cores")),
        ("-c --cores 3", format!("{missing}c")),
        ("-c -Da=b", format!("{missing}c")),
        ("-D", format!("{missing}D")),
        ("-Da", format!("{missing}D")),
        ("-D=a", format!("{missing}D")),
        (
            "--=x",
            "Ambiguous option: '--'  (could be: 'help', 'namesrvAddr', 'configFile', \
             'printConfigItem')"
                .to_owned(),
        ),
    ] {
        let expected = exit(1, usage(), format!("{message}\n"));
        assert_eq!(parse_line(line), expected, "{line}");
    }
}

#[test]
fn the_file_can_be_given_in_every_form_of_java() {
    for line in [
        "-c F",
        "-cF",
        "-c=F",
        "-pc F",
        "-pcF",
        "--configFile F",
        "--configFile=F",
        "--config F",
        "--c=F",
        "-configFile F",
        "-conf=F",
        "-c \"F\"",
        "-c F -c G",
        "word -c F word",
        "-c F -- -c G",
    ] {
        assert_eq!(config(line).as_deref(), Some("F"), "{line}");
    }
    assert_eq!(config("--configFile=").as_deref(), Some(""));
    assert_eq!(config("--configFile=a=b").as_deref(), Some("a=b"));
    assert_eq!(config("-cp").as_deref(), Some("p"));
    assert_eq!(config("-cores").as_deref(), Some("ores"));
    assert_eq!(config("-configFilefoo").as_deref(), Some("foo"));
    assert_eq!(config("-c -x").as_deref(), Some("-x"));
    assert_eq!(config("-c -").as_deref(), Some("-"));
}

#[test]
fn what_means_nothing_is_ignored() {
    for line in [
        "",
        "-",
        "word",
        "-n a",
        "-np",
        "--namesrvAddr=a",
        "--",
        "-- -x --check",
    ] {
        assert_eq!(run(line), Options::default(), "{line}");
    }
    assert!(run("-p").print && run("-print").print && run("--printConfigItem").print);
    assert!(!run("-np").print);
}

#[test]
fn own_options_become_keys_in_their_order() {
    let options = run("--cores 0-3,5 -DlistenPort=1 --writer-core=auto --log stderr -Da==b= -Dc=");
    let expected = [
        ("namesrv.cores", "0-3,5"),
        ("listenPort", "1"),
        ("namesrv.writerCore", "auto"),
        ("namesrv.log", "stderr"),
        ("a", "=b="),
        ("c", ""),
    ];
    assert_eq!(
        options.defines,
        expected.map(|(k, v)| (k.to_owned(), v.to_owned()))
    );
    for (key, _) in &expected[..4] {
        assert!(crate::settings::keys::find(key).is_some(), "{key}");
    }
    assert!(run("--check").check);
}

#[test]
fn version_names_both() {
    let Parsed::Exit {
        code: 0,
        stdout,
        stderr,
    } = parse_line("--version -p")
    else {
        panic!()
    };
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(stdout, format!("namesrv {version}, as RocketMQ 5.3.3\n"));
    assert_eq!(stderr, "");
}
