#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

fn ok(text: &str) -> Value<'_> {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn string(text: &str) -> Value<'_> {
    Value::String(Cow::Borrowed(text))
}

/// `{"a":<value>}` must be `expected`.
fn assert_value(json: &str, expected: &Value<'_>) {
    assert_eq!(
        ok(&format!("{{\"a\":{json}}}")).field("a"),
        Some(expected),
        "{json}"
    );
}

#[test]
fn takes_everything_that_fastjson_takes_between_tokens() {
    let plain = ok(r#"{"a":1,"b":[true,null]}"#);
    for text in [
        "\u{feff}{\"a\":1,\"b\":[true,null]}",
        " \t\r\n\u{c}\u{8}{ \"a\" : 1 , \"b\" : [ true , null ] } \n",
        "{\"a\":1,\"b\":[true,null]}\0\0\0",
        "/* x */{\"a\"/**/:/***/1,//y\n\"b\":[true,null]}// z",
        "{,,\"a\":1,,,\"b\":[,true,,null,],}",
        "{'a':1,'b':[true,undefined]}",
        "{\"a\":+1,\"b\":[true,NaN]}",
    ] {
        assert_eq!(ok(text), plain, "{text}");
    }
}

#[test]
fn tells_bare_keys_from_quoted_ones() {
    let value = ok(r#"{a:1,0:2,-7:3,"0":4,_b$9:5,名:6}"#);
    let Value::Object(members) = value else {
        panic!("no object")
    };
    let keys: Vec<_> = members.iter().map(|m| (&*m.key, m.form)).collect();
    assert_eq!(
        keys,
        [
            ("a", KeyForm::Name),
            ("0", KeyForm::Number),
            ("-7", KeyForm::Number),
            ("0", KeyForm::Quoted),
            ("_b$9", KeyForm::Name),
            ("名", KeyForm::Name),
        ]
    );
}

#[test]
fn decodes_every_escape() {
    for (json, text) in [
        (r#""\b\t\n\f\r\"\\\/""#, "\u{8}\t\n\u{c}\r\"\\/"),
        (r#""\0\7\v\F\'\x41\xe9""#, "\0\u{7}\u{b}\u{c}'A\u{e9}"),
        (r#""\u0041\u00e9\u4E2D""#, "Aé中"),
        (r#""\uD83D\uDE00!""#, "😀!"),
        (r#""\uD83D!""#, "?!"),
        (r#""\uDE00\uD83D""#, "??"),
        (r#""\uD83D\uD83D\uDE00""#, "?😀"),
        ("\"a\nb\u{1}\"", "a\nb\u{1}"),
        (r#"'say "hi"'"#, "say \"hi\""),
        (r#""it's""#, "it's"),
    ] {
        assert_value(json, &string(text));
    }
}

#[test]
fn borrows_what_has_no_escape() {
    let Value::String(Cow::Borrowed("plain text that is longer")) =
        ok("\"plain text that is longer\"")
    else {
        panic!("not borrowed");
    };
}

#[test]
fn keeps_numbers_as_written() {
    for number in [
        "0", "-0", "007", "12L", "1.50", "1e5", "1E-7", "-1.5e+3", "1.", "1.5F", "2D",
    ] {
        assert_value(number, &Value::Number(number));
    }
    assert_value("+5", &Value::Number("5"));
}

#[test]
fn refuses_what_fastjson_refuses() {
    use JsonError::*;
    let name = "x".repeat(1025);
    for (text, error) in [
        ("", Early),
        ("   ", Early),
        ("\u{feff}", Early),
        ("{", Early),
        ("[1", Early),
        ("{\"a\":", Early),
        ("{\"a", Early),
        ("{\"a\"", Early),
        ("{} /* open", Early),
        ("{}{}", Trailing(2)),
        ("{},", Trailing(2)),
        ("null x", Trailing(5)),
        ("{\"a\" 1}", Unexpected(5)),
        ("{\"a\":1 \"b\":2}", Unexpected(7)),
        ("{\"a\":}", Unexpected(5)),
        ("{\"a\":,}", Unexpected(5)),
        ("[1}", Unexpected(2)),
        ("{]", Unexpected(1)),
        ("]", Unexpected(0)),
        ("{[1]:2}", Unexpected(1)),
        ("{/ }", Unexpected(1)),
        ("tru", Unexpected(0)),
        ("[0x10]", Unexpected(2)),
        ("\"a\\q\"", Escape(2)),
        ("\"\\u12G4\"", Escape(1)),
        ("\"\\u12", Escape(1)),
        ("\"\\x4\"", Escape(1)),
        ("\"\\", Escape(1)),
        ("-", Word(0)),
        ("1e", Word(0)),
        (&name, Word(0)),
        ("{\"@type\":\"x\"}", TypeKey(2)),
        ("[{@type:1}]", Unexpected(2)),
        ("{\"a\":{'\\u0040type':1}}", TypeKey(7)),
    ] {
        assert_eq!(parse(text), Err(error), "{text}");
    }
}

#[test]
fn nesting_ends_between_513_and_1000_levels() {
    let nested = |levels: usize| {
        let half = levels / 2;
        let open = "[{a:".repeat(half) + &"[".repeat(levels % 2);
        let close = "]".repeat(levels % 2) + &"}]".repeat(half);
        // the innermost object needs a value when no array is in it
        let middle = if levels.is_multiple_of(2) { "1" } else { "" };
        open + middle + &close
    };
    for levels in [1, 512, 513, MAX_DEPTH] {
        assert!(parse(&nested(levels)).is_ok(), "{levels}");
    }
    for levels in [MAX_DEPTH + 1, 1000, 100_000] {
        assert!(
            matches!(parse(&nested(levels)), Err(JsonError::Depth(_))),
            "{levels}"
        );
    }
}

#[test]
fn coerces_integers_as_java() {
    let int = |json: &str| int32(&ok(json));
    for (json, expected) in [
        ("105", Some(105)),
        ("-1", Some(-1)),
        ("1.9", Some(1)),
        ("-1.9", Some(-1)),
        ("1e2", Some(100)),
        ("15e-1", Some(1)),
        ("0.00000000001", Some(0)),
        ("3000000000.5", Some(-1_294_967_296)),
        ("-3000000000.5", Some(1_294_967_296)),
        ("1e100", Some(0)),
        ("12L", Some(12)),
        ("007", Some(7)),
        ("\"12\"", Some(12)),
        ("\"+5\"", Some(5)),
        ("\"-5\"", Some(-5)),
        ("\"1,2\"", Some(12)),
        ("true", Some(1)),
        ("false", Some(0)),
        ("null", None),
        ("\"\"", None),
        ("\"null\"", None),
        ("2147483647", Some(i32::MAX)),
        ("-2147483648", Some(i32::MIN)),
    ] {
        assert_eq!(int(json), Ok(expected), "{json}");
        assert_eq!(
            int64(&ok(json)).unwrap().is_some(),
            expected.is_some(),
            "{json}"
        );
    }
    for json in [
        "3000000000",
        "2147483648",
        "\"3000000000\"",
        "\" 1\"",
        "\"1 \"",
        "\" \"",
        "\"1.5\"",
        "\"0x10\"",
        "\",\"",
        "\"a\"",
        "{}",
        "[]",
        "[1]",
        "1e101",
        "1e99999999999",
    ] {
        assert_eq!(int(json), Err(JsonError::Value("int32")), "{json}");
    }
    assert_eq!(int("\"5.00\""), Ok(Some(5)));
    assert_eq!(int("\"100\""), Ok(Some(100)));
    assert_eq!(int("\".0\""), Err(JsonError::Value("int32")));
    assert_eq!(int64(&ok("\"5.00\"")), Err(JsonError::Value("int64")));
    assert_eq!(int64(&ok("1700000000000")), Ok(Some(1_700_000_000_000)));
    assert_eq!(int64(&ok("\"1,700\"")), Ok(Some(1700)));
    assert_eq!(int64(&ok("9.3e18")), Ok(Some(-9_146_744_073_709_551_616)));
    assert_eq!(
        int64(&ok("9223372036854775808")),
        Err(JsonError::Value("int64"))
    );
}

#[test]
fn coerces_booleans_as_java() {
    for (json, expected) in [
        ("true", Some(true)),
        ("1", Some(true)),
        ("2", Some(false)),
        ("0", Some(false)),
        ("\"TRUE\"", Some(true)),
        ("\"1\"", Some(true)),
        ("\"false\"", Some(false)),
        ("\"N\"", Some(false)),
        ("null", None),
        ("\"\"", None),
    ] {
        assert_eq!(boolean(&ok(json)), Ok(expected), "{json}");
    }
    for json in ["\"yes\"", "{}", "[]", "3000000000"] {
        assert_eq!(
            boolean(&ok(json)),
            Err(JsonError::Value("boolean")),
            "{json}"
        );
    }
}

#[test]
fn coerces_text_as_java() {
    for (json, expected) in [
        ("\"x\"", "x"),
        ("true", "true"),
        ("0", "0"),
        ("007", "007"),
        ("12L", "12"),
        ("-3", "-3"),
        ("1.50", "1.50"),
        ("-0.5", "-0.5"),
        ("0.0", "0.0"),
        ("1e5", "1E+5"),
        ("1.25e1", "12.5"),
        ("1.25e2", "125"),
        ("1.25e4", "1.25E+4"),
        ("0.000001", "0.000001"),
        ("0.0000001", "1E-7"),
        ("123e-2", "1.23"),
        ("12e-9", "1.2E-8"),
        ("00.10", "0.10"),
        ("{}", "{}"),
        ("[ ]", "[]"),
        (
            "{ 'b' : [1, 1e5, null], a : null, \"a/\":\"x\\u0007\\u2028\\n\", b2:true }",
            "{\"a/\":\"x\\u0007\\u2028\\n\",\"b\":[1,1E+5,null],\"b2\":true}",
        ),
        ("{1:2,\"1\":3}", "{\"1\":3}"),
    ] {
        assert_eq!(text(ok(json)).unwrap().as_deref(), Some(expected), "{json}");
    }
    assert_eq!(text(Value::Null), Ok(None));
    assert_eq!(text(ok("1e3000000000")), Err(JsonError::Value("decimal")));
}

#[test]
fn matches_names_as_java() {
    for key in ["extFields", "EXTFIELDS", "ext_fields", "_ext-Fields_"] {
        assert!(same_name(key, "extFields"), "{key}");
    }
    for key in ["extField", "ext fields", "", "extFieldss"] {
        assert!(!same_name(key, "extFields"), "{key}");
    }
    let value = ok("{\"Code\":1,\"code\":2,\"CODE\":3}");
    assert_eq!(value.field("code"), Some(&Value::Number("3")));
    assert_eq!(value.entry("Code"), Some(&Value::Number("1")));
    assert_eq!(value.entry("cODE"), None);
}

#[test]
fn long_strings_blanks_and_comments_are_read_in_pieces() {
    for text in [
        format!("\"{}\"", "a".repeat(1_000_000)),
        format!("\"{}\"", "\\u0041".repeat(170_000)),
        format!("{}1", " ".repeat(1_000_000)),
        format!("/*{}*/1", "*".repeat(1_000_000)),
        format!("[{}]", ",".repeat(1_000_000)),
        format!("1//{}", "x".repeat(1_000_000)),
    ] {
        let mut lexer = Lexer::new(text.as_bytes());
        let (mut pauses, mut last) = (0, 0);
        loop {
            match lexer.token().unwrap() {
                Token::End => break,
                Token::Pause => pauses += 1,
                _ => {}
            }
            assert!(lexer.position() - last <= 20_000);
            last = lexer.position();
        }
        assert!(pauses >= 50, "{pauses}");
    }
}

/// Reads tokens up to the end or the first error.
fn drain(bytes: &[u8]) -> Result<usize, JsonError> {
    let mut lexer = Lexer::new(bytes);
    let mut tokens = 0;
    while lexer.token()? != Token::End {
        tokens += 1;
    }
    Ok(tokens)
}

#[test]
fn utf8_is_checked_wherever_it_stands() {
    for (before, after) in [
        ("\"", "\""),
        ("/*", "*/1"),
        ("1//", "\n"),
        ("1//", ""),
        ("{", ":1}"),
    ] {
        let wrap = |middle: &[u8]| [before.as_bytes(), middle, after.as_bytes()].concat();
        // 16,384 is where a pause falls, at each place inside of a character
        for length in [0, 1, 16_380, 16_381, 16_382, 16_383, 16_384] {
            if before == "{" && length > 1 {
                continue;
            }
            let filler = "a".repeat(length);
            let good = wrap(format!("{filler}é中😀").as_bytes());
            assert!(drain(&good).is_ok(), "{before}{length}");
            for bad in [&b"\xFF"[..], b"\xC0\x80", b"\xE4\xB8", b"\xED\xA0\x80"] {
                let at = JsonError::Utf8(before.len() + length);
                assert_eq!(drain(&wrap(&[filler.as_bytes(), bad].concat())), Err(at));
            }
        }
    }
}

/// Any JSON without repeated keys, as serde_json holds it.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>()
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(6, 60, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            proptest::collection::btree_map("[^@]{0,20}", inner, 0..8)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

fn assert_same(ours: &Value<'_>, theirs: &serde_json::Value) {
    match (ours, theirs) {
        (Value::Null, serde_json::Value::Null) => {}
        (Value::Bool(a), serde_json::Value::Bool(b)) => assert_eq!(a, b),
        (Value::Number(a), serde_json::Value::Number(b)) => assert_eq!(*a, b.to_string()),
        (Value::String(a), serde_json::Value::String(b)) => assert_eq!(a, b),
        (Value::Array(a), serde_json::Value::Array(b)) => {
            assert_eq!(a.len(), b.len());
            a.iter().zip(b).for_each(|(a, b)| assert_same(a, b));
        }
        (Value::Object(a), serde_json::Value::Object(b)) => {
            assert_eq!(a.len(), b.len());
            a.iter()
                .for_each(|member| assert_same(&member.value, &b[&*member.key]));
        }
        _ => panic!("{ours:?} is not {theirs}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn agrees_with_serde_json(json in any_json(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&json) } else { serde_json::to_string(&json) };
        assert_same(&ok(&text.unwrap()), &json);
    }

    /// Near-JSON: whatever serde_json takes (of what has no `@type`), this takes as well.
    #[test]
    fn takes_what_serde_json_takes(text in r#"[\[\]{}:,"a1.eE+\- \\u/tn]{0,12}"#) {
        if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
            prop_assert!(parse(&text).is_ok());
        }
    }

    #[test]
    fn never_panics(text in r#"([\[\]{}:,'"a1.eEL+\- \\u/*é]|true|null|"a":|\\u[dD][89cC]){0,40}"#) {
        if let Ok(value) = parse(&text) {
            let _ = (int32(&value), int64(&value), boolean(&value), super::text(value));
        }
    }

    #[test]
    fn never_panics_on_any_bytes(bytes in any::<Vec<u8>>(), quoted: bool) {
        let _ = drain(&bytes);
        if quoted {
            let _ = drain(&[b"[\"", &*bytes, b"\"]"].concat());
        }
    }

    #[test]
    fn never_panics_on_any_text(text in any::<String>()) {
        let _ = parse(&text);
    }
}
