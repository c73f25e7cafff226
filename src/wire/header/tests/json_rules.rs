//! What a JSON header may be, row by row.

use super::*;

#[test]
fn missing_fields_are_zero_and_unknown_ones_are_ignored() {
    assert_eq!(numbers("{}"), (0, 0, 0, 0));
    assert_eq!(numbers(r#"{"extFields":null,"remark":null}"#), (0, 0, 0, 0));
    let unknown = r#"{"body":"AAA","suspended":true,"x":{"y":[{},1,null]},"code":7}"#;
    assert_eq!(numbers(unknown), (7, 0, 0, 0));
    assert!(json(b"{}").unwrap().ext.raw.is_empty());
    let empty = json(br#"{"extFields":{}}"#).unwrap();
    assert_eq!((empty.ext.fields.len(), empty.ext.raw), (0, &b"{}"[..]));
}

#[test]
fn what_is_no_object_is_refused() {
    for text in [
        "",
        " ",
        "\n",
        "null",
        "true",
        "1",
        r#""x""#,
        "[]",
        "[{}]",
        "{",
        r#"{"code""#,
        r#"{"code":"#,
        r#"{"code":1"#,
        r#"{"code":1,"#,
        r#"{"extFields":{"a":"b""#,
        "x",
    ] {
        refuse(text.as_bytes(), HeaderError::Json);
    }
}

#[test]
fn only_blanks_nuls_and_comments_may_follow() {
    for tail in ["", "\n", " \t\r\n", "\0\0", "/* c */", "\n/* c */\0"] {
        assert_eq!(numbers(&format!(r#"{{"code":105}}{tail}"#)), (105, 0, 0, 0));
    }
    for tail in ["x", "}", "{}", ",", "1", "\"\"", "/* c"] {
        refuse(
            format!(r#"{{"code":105}}{tail}"#).as_bytes(),
            HeaderError::Json,
        );
    }
}

#[test]
fn type_keys_are_refused_everywhere() {
    refuse(br#"{"@type":"a.B","code":1}"#, HeaderError::Json);
    refuse(
        br#"{"code":1,"extFields":{"@type":"a.B"}}"#,
        HeaderError::Json,
    );
    refuse(br#"{"x":{"y":[{"@type":"a.B"}]}}"#, HeaderError::Json);
    assert_eq!(ext(r#""@type""#).as_deref(), Some("@type"));
}

#[test]
fn nesting_of_513_levels_is_fine_and_of_1000_is_not() {
    let nested = |levels: usize| {
        format!(
            r#"{{"x":{}{}}}"#,
            "[".repeat(levels - 1),
            "]".repeat(levels - 1)
        )
    };
    assert_eq!(numbers(&nested(513)), (0, 0, 0, 0));
    refuse(nested(1_000).as_bytes(), HeaderError::Depth);
}

#[test]
fn integers_take_all_forms_that_fastjson_takes() {
    for (value, expected) in [
        ("5", 5),
        ("-1", -1),
        ("0", 0),
        ("-0", 0),
        ("2147483647", i32::MAX),
        ("-2147483648", i32::MIN),
        ("1.9", 1),
        ("1e2", 100),
        ("12L", 12),
        ("007", 7),
        (r#""5""#, 5),
        (r#""+5""#, 5),
        (r#""1,2""#, 12),
        ("true", 1),
        ("false", 0),
        ("null", 0),
        (r#""""#, 0),
        (r#""null""#, 0),
        ("3000000000.5", (3_000_000_000u32).cast_signed()),
    ] {
        assert_eq!(opaque(value), Ok(expected), "{value}");
    }
}

#[test]
fn integers_out_of_range_or_of_other_kinds_are_refused() {
    let values = [
        "3000000000",
        "2147483648",
        "-2147483649",
        r#""1.5""#,
        r#"" ""#,
        "{}",
        "[]",
    ];
    for name in ["code", "flag", "opaque", "version"] {
        for value in values {
            let header = format!(r#"{{"{name}":{value}}}"#);
            refuse(header.as_bytes(), HeaderError::Field(name));
        }
        assert!(json(format!(r#"{{"{name}":0x10}}"#).as_bytes()).is_err());
    }
}

#[test]
fn any_text_and_known_ordinals_are_languages() {
    for value in [
        "\"JAVA\"",
        "\"java\"",
        "\"\"",
        "\"99\"",
        "\"KLINGON\"",
        "null",
        "0",
        "12",
        "13",
    ] {
        assert_eq!(
            numbers(&format!(r#"{{"language":{value},"code":1}}"#)),
            (1, 0, 0, 0)
        );
    }
    for value in ["14", "-1", "1.0", "true", "false", "{}", "[]"] {
        let header = format!(r#"{{"language":{value}}}"#);
        refuse(header.as_bytes(), HeaderError::Field("language"));
    }
}

#[test]
fn the_name_of_the_serialize_type_is_overruled_by_the_frame() {
    for value in ["\"JSON\"", "\"ROCKETMQ\"", "\"x\"", "null", "0", "1"] {
        let header = format!(r#"{{"serializeTypeCurrentRPC":{value}}}"#);
        assert_eq!(json(header.as_bytes()).unwrap().serialize, JSON);
    }
    for value in ["2", "-1", "{}"] {
        let header = format!(r#"{{"serializeTypeCurrentRPC":{value}}}"#);
        refuse(
            header.as_bytes(),
            HeaderError::Field("serializeTypeCurrentRPC"),
        );
    }
}

#[test]
fn a_remark_may_be_anything() {
    for value in ["null", "\"\"", "\"x\\n\"", "1", "true", "{}", "[1,{}]"] {
        assert_eq!(
            numbers(&format!(r#"{{"remark":{value},"code":1}}"#)),
            (1, 0, 0, 0)
        );
    }
}

#[test]
fn ext_fields_are_an_object_or_nothing() {
    for value in ["null", r#""""#, "{}"] {
        let header = format!(r#"{{"extFields":{value}}}"#);
        assert!(
            json(header.as_bytes()).unwrap().ext.fields.is_empty(),
            "{value}"
        );
    }
    for value in ["[]", r#""x""#, "1", "true", "false"] {
        let header = format!(r#"{{"extFields":{value}}}"#);
        refuse(header.as_bytes(), HeaderError::Field("extFields"));
    }
}

#[test]
fn ext_values_become_text() {
    for (value, text) in [
        (r#""v""#, "v"),
        (r#""""#, ""),
        ("0", "0"),
        ("-12", "-12"),
        (
            "123456789012345678901234567890",
            "123456789012345678901234567890",
        ),
        ("1.50", "1.50"),
        ("1e5", "1E+5"),
        ("true", "true"),
        ("false", "false"),
        (r#"{"a": 1}"#, r#"{"a":1}"#),
        (r#"[1, "x"]"#, r#"[1,"x"]"#),
        (r#""a\n\u00e9\"""#, "a\né\""),
        (r#""主题""#, "主题"),
    ] {
        assert_eq!(ext(value).as_deref(), Some(text), "{value}");
    }
    assert_eq!(ext("null"), None);
}

#[test]
fn ext_keys_have_a_case_and_no_bare_numbers() {
    let header = json(br#"{"extFields":{"topic":"a","TOPIC":"b","to_pic":"c"}}"#).unwrap();
    assert_eq!(header.ext.get("topic"), Some("a"));
    assert_eq!(header.ext.get("Topic"), None);
    refuse(br#"{"extFields":{1:"a"}}"#, HeaderError::Json);
    let bare = json(br#"{"extFields":{topic:'a'}}"#).unwrap();
    assert_eq!(bare.ext.get("topic"), Some("a"));
}

#[test]
fn the_last_of_equal_keys_counts() {
    let twice = r#"{"code":1,"code":2,"opaque":3,"OPAQUE":4,"extFields":{"a":"1"},
        "extFields":{"b":"1","b":"2","c":"3","c":null,"d":null,"d":"4"}}"#;
    assert_eq!(numbers(twice), (2, 0, 4, 0));
    let header = json(twice.as_bytes()).unwrap();
    assert_eq!(header.ext.get("a"), None);
    assert_eq!(header.ext.get("b"), Some("2"));
    assert_eq!(header.ext.get("c"), None);
    assert_eq!(header.ext.get("d"), Some("4"));
    assert_eq!(
        header.ext.raw,
        br#"{"b":"1","b":"2","c":"3","c":null,"d":null,"d":"4"}"#
    );
}

#[test]
fn fastjsons_habits_are_granted() {
    for text in [
        "\u{feff}{\"code\":105,\"opaque\":7}",
        "{'code':105,'opaque':7}",
        "{code:105,opaque:7}",
        "{,\"code\":105,,\"opaque\":7,}",
        "/* a */{\"code\"/* b */:/* c */105,/* d */\"opaque\":7}",
        " { \"code\" : 105 ,\r\n\t\"opaque\" : 7 } ",
        "{\"CODE\":105,\"Opaque\":7}",
        "{\"c_o-de\":105,\"_opaque\":7}",
        "{\"c\\u006fde\":105,\"opaque\":7}",
    ] {
        assert_eq!(numbers(text), (105, 0, 7, 0), "{text}");
    }
    let header = json(br#"{"ext_fields":{"topic":"T"}}"#).unwrap();
    assert_eq!(header.ext.get("topic"), Some("T"));
}

#[test]
fn bytes_that_are_not_utf8_are_refused_compressed_or_not() {
    refuse(b"{\"remark\":\"\xff\"}", HeaderError::Utf8);
    refuse(b"{\"extFields\":{\"topic\":\"\xc3\"}}", HeaderError::Utf8);
    refuse(b"\x1f\x8b\x08\0\0\0\0\0\0\x03", HeaderError::Utf8);
}

#[test]
fn ext_fields_are_counted_with_their_repetitions_and_nulls() {
    let limits = FrameLimits {
        ext_fields: 3,
        ..LIMITS
    };
    let parse = |header: &'static [u8]| header_json::parse(header, &limits);
    assert!(parse(br#"{"extFields":{"a":"1","b":null,"c":3}}"#).is_ok());
    for header in [
        &br#"{"extFields":{"a":"1","b":"2","c":"3","d":"4"}}"#[..],
        br#"{"extFields":{"a":"1","a":"2","a":"3","a":null}}"#,
        br#"{"extFields":{'a':"1",'b':"2",'c':"3",'d':"4"}}"#,
    ] {
        assert_eq!(parse(header), Err(HeaderError::ExtFields));
    }
}
