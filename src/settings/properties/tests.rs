#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn pairs(text: &[u8]) -> Vec<(String, String)> {
    read(text)
        .unwrap()
        .into_iter()
        .map(|e| (e.key, e.value))
        .collect()
}

fn map(text: &[u8]) -> BTreeMap<String, String> {
    pairs(text).into_iter().collect()
}

fn set(text: &str, key: &str, value: &str) -> String {
    String::from_utf8(update(text.as_bytes(), &[(key.into(), value.into())]).unwrap()).unwrap()
}

#[test]
fn every_separator_and_blank_reads_as_in_java() {
    let cases: &[(&[u8], &str, &str)] = &[
        (b"a=b", "a", "b"),
        (b"a:b", "a", "b"),
        (b"a b", "a", "b"),
        (b"  a \t = \x0c b c ", "a", "b c "),
        (b"a==b", "a", "=b"),
        (b"a = : b", "a", ": b"),
        (b"a", "a", ""),
        (b"=b", "", "b"),
        (b"a\\=b=c", "a=b", "c"),
        (b"a\\ b c", "a b", "c"),
        (b"a=\\ b", "a", " b"),
        (b"a=b\\\r\n   c", "a", "bc"),
        (b"a=b\\\n\nc=d", "a", "b"),
        (b"a=b\\\n#c", "a", "b#c"),
        (b"\\\n#c\na=b", "a", "b"),
        (b"a=b\\\\\nc=d", "a", "b\\"),
        (b"a=\\t\\n\\r\\f\\q\\\"", "a", "\t\n\r\x0cq\""),
        (b"a=\\u4e2D\\ud83d\\ude00\\ud83d", "a", "中\u{1f600}?"),
        (b"a=\xe9", "a", "é"),
        (b"a=b\\", "a", "b"),
        (b"# a\\\na=b", "a", "b"),
        (b"!x\r\r\na=b", "a", "b"),
    ];
    for (text, key, value) in cases {
        let first = pairs(text).into_iter().next().unwrap();
        assert_eq!(
            first,
            (key.to_string(), value.to_string()),
            "{}",
            text.escape_ascii()
        );
    }
}

#[test]
fn blank_text_has_no_entry() {
    for text in [
        "", "\n\r\n", "  ", "# a=b", "!a=b\n", "\\\n\n", "\\\n  ", "\\", "\\\n",
    ] {
        assert_eq!(pairs(text.as_bytes()), [], "{text:?}");
    }
}

#[test]
fn lines_are_counted_with_every_terminator() {
    let entries = read(b"a=1\r\nb=2\r\r\n#\nc=3\\\n4\nd=5").unwrap();
    let lines: Vec<_> = entries.iter().map(|e| (e.key.as_str(), e.line)).collect();
    assert_eq!(lines, [("a", 1), ("b", 2), ("c", 5), ("d", 7)]);
}

#[test]
fn every_bad_escape_is_reported() {
    for text in ["a=\\u12", "a=\\u12g4", "a\\u=1", "a=\\u+123", "a=\\uuuuu"] {
        assert_eq!(
            read(text.as_bytes()),
            Err(vec![BadEscape { line: 1 }]),
            "{text}"
        );
        assert!(update(text.as_bytes(), &[]).is_err());
    }
    let bad = read(b"a=\\u\nb=1\n\nc\\u=2").unwrap_err();
    assert_eq!(bad, [BadEscape { line: 1 }, BadEscape { line: 4 }]);
}

#[test]
fn update_keeps_comments_order_and_spelling() {
    let text = "# top\r\n  listenPort : 9876\r\n\r\n! x\r\nb=\\\r\n  1,\\\r\n  2\r\nc\r\nb2 v\r\n";
    assert_eq!(set(text, "listenPort", "1"), text.replace("9876", "1"));
    assert_eq!(
        set(text, "b", "3"),
        text.replace("\\\r\n  1,\\\r\n  2", "3")
    );
    assert_eq!(set(text, "c", "x"), text.replace("c\r\n", "c=x\r\n"));
    assert_eq!(set(text, "b2", "=w"), text.replace("b2 v", "b2 \\=w"));
    assert_eq!(
        set(text, "new key", " v"),
        format!("{text}new\\ key=\\ v\n")
    );
}

#[test]
fn update_changes_the_duplicate_that_counts() {
    assert_eq!(set("a=1\na=2\nb=3", "a", "4"), "a=1\na=4\nb=3");
    let twice = [
        ("a".to_owned(), "5".to_owned()),
        ("a".to_owned(), "6".to_owned()),
    ];
    assert_eq!(update(b"a=1", &twice).unwrap(), b"a=6");
}

#[test]
fn appending_never_joins_an_open_line() {
    for text in [
        "a=b\\",
        "a=b\\\n",
        "a=b\\\r",
        "a=b\\\r\n",
        "a=b\\\n   ",
        "a=b",
        "#c\\",
        "\\",
    ] {
        let updated = set(text, "k", "v");
        let mut expected = map(text.as_bytes());
        expected.insert("k".to_owned(), "v".to_owned());
        assert_eq!(map(updated.as_bytes()), expected, "{text:?} -> {updated:?}");
    }
}

#[test]
fn a_value_cannot_smuggle_a_key() {
    let updated = set(
        "x=1\n",
        "productEnvName",
        "a\nkvConfigPath=/x\r\nlistenPort=1",
    );
    assert_eq!(
        updated,
        "x=1\nproductEnvName=a\\nkvConfigPath=/x\\r\\nlistenPort=1\n"
    );
    assert_eq!(pairs(updated.as_bytes()).len(), 2);
}

#[test]
fn non_ascii_is_written_as_escapes() {
    assert_eq!(
        set("", "é", "中\u{1f600}\u{7f}~"),
        "\\u00E9=\\u4E2D\\uD83D\\uDE00\\u007F~\n"
    );
}

/// Texts made of the bytes that mean something, so that odd corners are common.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => prop::sample::select(vec![
            &b"\\"[..], b"\n", b"\r", b"\r\n", b"=", b":", b" ", b"\t", b"#", b"!", b"\\u0041",
            b"\\\n", b"\\\r\n", b"key", b"key=", b"k2", b"\n# c\n", b"\\u", b"\xe9",
        ]).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..3),
    ];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("key".to_owned()),
        Just("k2".to_owned()),
        "[ -~]{0,4}",
        "[\\\\ =:#!\t\r\n\u{c}a]{0,5}",
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn read_after_update_is_the_change_and_nothing_else(
        text in text(), changes in prop::collection::vec((name(), name()), 0..4),
    ) {
        let Ok(before) = read(&text) else {
            prop_assert!(update(&text, &changes).is_err());
            return Ok(());
        };
        let updated = update(&text, &changes).unwrap();
        let mut expected: BTreeMap<_, _> = before.into_iter().map(|e| (e.key, e.value)).collect();
        expected.extend(changes.iter().cloned());
        let found = map(&updated);
        prop_assert_eq!(found, expected);
        if changes.is_empty() {
            prop_assert_eq!(updated, text);
        }
    }
}
