//! Laws over random headers.

use proptest::prelude::*;

use super::*;

/// Texts around what the scan must tell apart: quotes, escapes, blanks, digits, odd keys.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "'",
        "\\",
        "\\n",
        "\\u0041",
        " ",
        "\n",
        "\0",
        "/*",
        "*/",
        "\"code\"",
        "\"opaque\":",
        "\"flag\"",
        "\"version\":1",
        "\"language\":\"JAVA\"",
        "\"remark\":null",
        "\"extFields\":{",
        "\"extFields\"",
        "\"serializeTypeCurrentRPC\":",
        "\"topic\":\"T\"",
        "@type",
        "code",
        "0",
        "1",
        "-",
        "007",
        "2147483648",
        "1.50",
        "e5",
        "12L",
        "true",
        "false",
        "null",
        "é",
        "\u{feff}",
        "\u{1a}",
        "\"k\":",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// A value of the kind that `name` usually has, and sometimes not.
fn member(name: &'static str) -> BoxedStrategy<String> {
    let odd = prop::sample::select(vec![
        "null",
        "true",
        "-0",
        "00",
        "1.5",
        "1e3",
        "12L",
        "\"7\"",
        "\"a\\tb\"",
        "[]",
        "{}",
        "-",
        "2147483648",
    ])
    .prop_map(str::to_owned);
    let number = any::<i32>().prop_map(|number| number.to_string());
    let text = "\"[a-zA-Z0-9é:. ]{0,12}\"";
    let value = match name {
        "code" | "opaque" | "flag" | "version" => prop_oneof![19 => number, 1 => odd].boxed(),
        "extFields" => {
            let long = any::<i64>().prop_map(|number| number.to_string());
            let word = prop::sample::select(vec!["null", "true", "false"]).prop_map(str::to_owned);
            let value = prop_oneof![20 => text, 9 => number, 9 => long, 9 => word, 1 => odd];
            let entry = ("[a-c$é]{0,3}", value).prop_map(|(key, text)| format!("\"{key}\":{text}"));
            prop::collection::vec(entry, 0..6)
                .prop_map(|entries| format!("{{{}}}", entries.join(",")))
                .boxed()
        }
        _ => prop_oneof![19 => text, 1 => odd].boxed(),
    };
    value
        .prop_map(move |value| format!("\"{name}\":{value}"))
        .boxed()
}

fn header_text() -> impl Strategy<Value = String> {
    let names = vec![
        "code",
        "opaque",
        "flag",
        "version",
        "extFields",
        "language",
        "remark",
        "serializeTypeCurrentRPC",
    ];
    let usual = prop::sample::subsequence(names, 0..=8).prop_shuffle();
    let odd = prop::sample::select(vec!["CODE", "unknown", "code", "extFields"]);
    let odd = prop::option::weighted(0.1, odd);
    let members = (usual, odd)
        .prop_flat_map(|(usual, odd)| usual.into_iter().chain(odd).map(member).collect::<Vec<_>>());
    let blank = prop::sample::select(vec!["", "", "", " ", "\n"]);
    (members, blank.clone(), blank).prop_map(|(members, comma, tail)| {
        format!("{{{}}}{tail}", members.join(&format!(",{comma}")))
    })
}

fn scan(text: &str) -> Option<Header<'_>> {
    let mut header = Header::empty(SerializeType::Json);
    header_json::scan(text, &LIMITS, &mut header).map(|()| header)
}

/// Whether the scan took it; that it takes enough for the law to mean something is the last test.
fn check_scan(text: &str) -> Result<bool, TestCaseError> {
    let Some(scanned) = scan(text) else {
        return Ok(false);
    };
    let lenient = header_json::parse_lenient(text, &LIMITS);
    prop_assert_eq!(Ok(scanned), lenient, "{}", text);
    Ok(true)
}

/// Ext fields as a test writes them.
fn ext_pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec(("[a-zA-Z_]{1,12}", any::<String>()), 0..12)
}

fn borrowed(pairs: &[(String, String)]) -> Vec<(&str, &str)> {
    pairs
        .iter()
        .map(|(key, value)| (&**key, &**value))
        .collect()
}

proptest! {
    #[test]
    fn the_scan_agrees_with_the_lenient_reader(text in header_text()) {
        check_scan(&text)?;
    }

    #[test]
    fn the_scan_agrees_on_rubbish(text in soup()) {
        check_scan(&text)?;
        check_scan(&format!("{{{text}}}"))?;
        let _ = json(text.as_bytes());
    }

    #[test]
    fn the_scan_takes_what_java_writes(
        numbers in any::<[i32; 4]>(),
        remark in prop::option::of("[a-zé /:]{0,20}"),
        ext in prop::option::of(prop::collection::vec(("[a-zA-Z]{1,9}", "[^\"\\\\\\x00-\\x1f\\x7f-\\x9f\u{2028}\u{2029}]{0,9}"), 0..9)),
    ) {
        let [code, version, opaque, flag] = numbers;
        let ext = ext.as_deref().map(borrowed);
        let fields =
            HeaderFields { code, version, opaque, flag, remark: remark.as_deref(), ext: ext.as_deref() };
        let mut out = Vec::new();
        header_json::write(&mut out, &fields);
        prop_assert!(check_scan(str::from_utf8(&out).unwrap())?);
    }

    #[test]
    fn json_headers_read_back(
        numbers in any::<[i32; 4]>(), ext in ext_pairs(), body in any::<Vec<u8>>(),
    ) {
        let [code, version, opaque, flag] = numbers;
        let ext = borrowed(&ext);
        let fields = HeaderFields { code, version, opaque, flag, remark: None, ext: Some(&ext) };
        let mut out = Vec::new();
        encode_request(&mut out, JSON, &fields, &body).unwrap();
        let frame = cut(&out, &LIMITS).unwrap().unwrap();
        prop_assert_eq!(frame.body, &body);
        let read = Header::parse(&frame, &LIMITS).unwrap();
        prop_assert_eq!([read.code, read.version, read.opaque, read.flag], numbers);
        prop_assert_eq!(pairs(&read), ext);
    }

    #[test]
    fn binary_headers_read_back(
        code in any::<i16>(), version in any::<i16>(), opaque in any::<i32>(),
        flag in any::<i32>(), remark in prop::option::of(any::<String>()),
        mut ext in ext_pairs(), body in any::<Vec<u8>>(),
    ) {
        ext.retain(|(_, value)| !value.is_empty());
        let ext = borrowed(&ext);
        let (code, version) = (i32::from(code), i32::from(version));
        let remark = remark.as_deref();
        let fields = HeaderFields { code, version, opaque, flag, remark, ext: Some(&ext) };
        let mut out = Vec::new();
        encode_request(&mut out, BINARY, &fields, &body).unwrap();
        let frame = cut(&out, &LIMITS).unwrap().unwrap();
        prop_assert_eq!(frame.body, &body);
        let read = Header::parse(&frame, &LIMITS).unwrap();
        prop_assert_eq!(
            (read.code, read.version, read.opaque, read.flag),
            (code, version, opaque, flag)
        );
        prop_assert_eq!(pairs(&read), ext);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = json(&bytes);
        let _ = binary(&bytes);
        let _ = binary(&[&[0; 17][..], &bytes].concat());
    }
}

/// The law would be empty if the scan gave up on everything.
#[test]
fn the_generated_headers_reach_the_scan() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let texts = (0..300).map(|_| header_text().new_tree(&mut runner).unwrap().current());
    let taken = texts.filter(|text| scan(text).is_some()).count();
    assert!((150..300).contains(&taken), "{taken} of 300");
}
