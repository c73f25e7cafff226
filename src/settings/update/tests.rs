#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;

use super::*;
use crate::settings::keys::KEYS;
use crate::settings::listing::listing;
use crate::settings::tests::{defines, good, loaded};

fn updated(settings: &Settings, body: &str) -> Update {
    update(settings, body.as_bytes()).unwrap()
}

#[test]
fn an_update_without_content_changes_nothing() {
    let settings = loaded("");
    for body in [
        "",
        "  \n",
        "# c\n! d",
        "nope=1",
        "connectTimeoutMillis=abc",
        "=x",
    ] {
        let expected = Update {
            settings: settings.clone(),
            persist: vec![],
        };
        assert_eq!(update(&settings, body.as_bytes()), Ok(expected), "{body}");
    }
}

#[test]
fn an_update_persists_the_form_that_is_shown() {
    let next = updated(
        &loaded(""),
        "listenPort= +5 \norderMessageEnable=TRUE\nlistenPort=6\n",
    );
    assert_eq!(
        (
            next.settings.listen_port,
            next.settings.order_message_enable
        ),
        (6, true)
    );
    assert_eq!(
        next.persist,
        defines(&[("listenPort", "6"), ("orderMessageEnable", "true")])
    );
    // As Java: UTF-8 is taken for ISO-8859-1, a broken byte for U+FFFD before that.
    let next = update(&loaded(""), b"productEnvName=\xc3\xa9\xff\\u4e2d\\ud800").unwrap();
    assert_eq!(next.settings.product_env_name, "Ã©ï¿½中?");
}

#[test]
fn an_update_takes_keys_that_the_file_has() {
    let settings = loaded("my.key=a\nconnectTimeoutMillis=7\n=e\n");
    let next = updated(
        &settings,
        "my.key= q \n=zz\nconnectTimeoutMillis= 8 \nother=1",
    );
    let expected = defines(&[("", "zz"), ("connectTimeoutMillis", "8"), ("my.key", "q ")]);
    assert_eq!(next.persist, expected);
    let text = listing(&next.settings);
    for line in ["=zz\n", "\nmy.key=q \n", "\nconnectTimeoutMillis=8\n"] {
        assert!(text.contains(line), "{line}");
    }
    let refused = update(&settings, b"connectTimeoutMillis=abc").unwrap_err();
    assert_eq!(refused.code(), 1);
}

#[test]
fn bad_text_is_code_1_and_the_black_list_code_16() {
    let settings =
        loaded("configBlackList=my.key; other ;listenPort\nmy.key=1\nnamesrv.log=stderr");
    for body in ["a=\\u12", "listenPort=5\nb\\u00zz=1"] {
        let error = update(&settings, body.as_bytes()).unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            (1, "string2Properties error")
        );
    }
    let fixed = [
        "configBlackList",
        "configStorePath",
        "kvConfigPath",
        "rocketmqHome",
    ];
    let configured = ["my.key", "\\ other\\ ", "listenPort"];
    let own = [
        "namesrv.log",
        "namesrv.adminAllow",
        "tls.server.keyPath",
        "user.home",
    ];
    for key in fixed.iter().chain(&configured).chain(&own) {
        let body = format!("orderMessageEnable=true\nwaitSecondsForService=x\n{key}=1");
        let error = update(&settings, body.as_bytes()).unwrap_err();
        let remark = "Can not update config in black list.";
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            (16, remark),
            "{key}"
        );
    }
    // Compared exactly: these are merely unknown.
    for key in ["RocketmqHome", "kvConfigPath\\ ", "other", ""] {
        assert_eq!(updated(&settings, &format!("{key}=1")).persist, []);
    }
}

#[test]
fn one_bad_value_refuses_the_whole_update() {
    let body =
        "orderMessageEnable=true\nlistenPort=x\nwaitSecondsForService=\nproductEnvName=a\\nb";
    let error = update(&loaded("k=v"), body.as_bytes()).unwrap_err();
    assert!(matches!(&error, UpdateError::BadValue(problems) if problems.len() == 3));
    assert_eq!(error.code(), 1);
    assert_eq!(
        error.to_string(),
        "listenPort=x: must be a whole number from 0 to 65535; \
         productEnvName=a\\nb: must be a text of at most 4096 bytes without control characters; \
         waitSecondsForService=: must be a whole number from 0 to 2147483647"
    );
    let extra = update(&loaded("k=v"), b"k=a\\nlistenPort=1").unwrap_err();
    assert_eq!(extra.code(), 1);
    let controller = update(&loaded(""), b"enableControllerInNamesrv=true").unwrap_err();
    assert_eq!(controller.code(), 1);
}

/// A key that a 318 may name, and mostly a value that it takes.
fn wish() -> impl Strategy<Value = (String, String)> {
    let allowed = KEYS.iter().filter(|key| !key.refused_by_update());
    let known: Vec<_> = allowed
        .map(|key| (key.name.to_owned(), good(key).0))
        .collect();
    prop_oneof![
        8 => prop::sample::select(known),
        1 => (prop::sample::select(vec!["my.key", "nope", ""]), "[ -~é中]{0,6}")
            .prop_map(|(key, value)| (key.to_owned(), value)),
        1 => (Just("productEnvName".to_owned()), "[a\n\r\t=\\\\:#é中]{0,4}"),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// What a 318 answers for is what the next start reads from the file.
    #[test]
    fn a_restart_after_an_update_gives_the_same_settings(
        wishes in prop::collection::vec(wish(), 1..6),
    ) {
        let file = "# mine\nmy.key=v\nlistenPort : 1\nconnectTimeoutMillis=3\n";
        let settings = loaded(file);
        let body = properties::update(b"", &wishes).unwrap();
        let Ok(next) = update(&settings, &body) else { return Ok(()) };
        let text = properties::update(file.as_bytes(), &next.persist).unwrap();
        prop_assert!(text.starts_with(b"# mine\nmy.key="));
        let reread = loaded(std::str::from_utf8(&text).unwrap());
        prop_assert_eq!(listing(&reread), listing(&next.settings));
        prop_assert_eq!(reread, next.settings);
    }

    /// Whatever a stranger sends, 319 has the lines it had, and what is written is readable.
    #[test]
    fn no_body_adds_a_line_to_the_listing(
        name in prop::sample::select(vec!["productEnvName", "my.key", "bindAddress", "nope"]),
        value in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let settings = loaded("my.key=v\n");
        let body = [name.as_bytes(), b"=", &value].concat();
        let Ok(next) = update(&settings, &body) else { return Ok(()) };
        let keys = |settings: &Settings| -> Vec<String> {
            let text = listing(settings);
            text.lines().map(|line| line.split('=').next().unwrap().to_owned()).collect()
        };
        prop_assert_eq!(keys(&next.settings), keys(&settings));
        let file = properties::update(b"my.key=v\n", &next.persist).unwrap();
        prop_assert_eq!(loaded(std::str::from_utf8(&file).unwrap()), next.settings);
    }
}
