//! The odd requests: what is sent in each case.

use std::io::Write as _;

use crate::dice::Dice;
use crate::excuse::{DIGITS, LENGTHS, NO_ID, NULL_COUNTER, OTHER_MAPPING, UNREAD};
use crate::json::Json;
use crate::support::request::{Body, Request};

const DATA_VERSION: [&str; 3] = ["counter", "stateVersion", "timestamp"];

/// A case: what is sent first, over one connection, and what is looked at afterwards.
pub(crate) struct Case {
    pub(crate) frames: Vec<Vec<u8>>,
    /// The sender has set no opaque that could come back.
    pub(crate) any_opaque: bool,
    /// Code of the request, for the form of the answer's body.
    pub(crate) code: i32,
    pub(crate) version: i32,
    /// A byte of its text was changed.
    pub(crate) damaged: bool,
    /// What may be the reason of a difference.
    pub(crate) notes: Vec<&'static str>,
    /// Bodies that are compressed, for people.
    pub(crate) plain: Vec<u8>,
}

/// A case; `tag` makes its names differ from those of all others.
pub(crate) fn case(dice: &mut Dice, tag: &str) -> Case {
    match dice.below(10) {
        0 | 1 => odd_header(dice, tag),
        2 => odd_binary(dice, tag),
        3 => odd_fields(dice, tag),
        4 => odd_small_body(dice, tag),
        5 => odd_zlib(dice, tag),
        _ => odd_register(dice, tag),
    }
}

/// A request whose header is odd.
fn odd_header(dice: &mut Dice, tag: &str) -> Case {
    let code = [101, 105, 219, 304, 322, 901, 904, 9999][dice.below(8)];
    let mut header = Json::map([
        ("code", Json::number(code)),
        (
            "extFields",
            Json::map([
                ("topic", Json::text("T0")),
                ("namespace", Json::Text(format!("N/é{tag}"))),
                ("key", Json::text("K")),
                ("brokerName", Json::text("o")),
                ("clusterName", Json::text("C")),
                ("brokerAddr", Json::text("a")),
            ]),
        ),
        ("flag", Json::number(0)),
        ("language", Json::text("JAVA")),
        ("opaque", Json::number(77)),
        ("serializeTypeCurrentRPC", Json::text("JSON")),
        ("version", Json::number([0, 317, 479][dice.below(3)])),
    ]);
    let good = header.clone();
    if dice.one_in(2) {
        header.change(dice);
    }
    if !good.agrees(&header, "serializeTypeCurrentRPC") {
        dice.notes.push(UNREAD);
    }
    let spots = dice.below(3);
    let mut text = header.odd(dice, spots);
    let damaged = dice.one_in(10);
    if damaged {
        mutate(&mut text, dice);
    }
    Case {
        any_opaque: !String::from_utf8_lossy(&text).contains("\"opaque\":77"),
        frames: vec![frame(0, &text, b"")],
        code: code as i32,
        version: 479,
        damaged,
        notes: Vec::new(),
        plain: Vec::new(),
    }
}

fn odd_binary(dice: &mut Dice, tag: &str) -> Case {
    let code = [101, 105, 219, 304, 901, 9999][dice.below(6)];
    let req = Request::new(code)
        .with("topic", "T0")
        .with("namespace", &format!("N/é{tag}"))
        .with("key", "K")
        .with("brokerName", "")
        .with("clusterName", "C");
    let mut bytes = req.binary_frame();
    let good = bytes.clone();
    let at = 8 + dice.below(bytes.len() - 8);
    match dice.below(5) {
        0 => bytes[at] ^= 1 << dice.below(8),
        1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][dice.below(5)],
        2 => bytes[10] = dice.below(256) as u8,
        3 => bytes[4] = [1, 2, 0x80, 0xff][dice.below(4)],
        _ => {
            // length words of remark and map
            let word = [21, 25][dice.below(2)];
            bytes[word + 3] = bytes[word + 3].wrapping_add([1, 0xff, 2, 0x80][dice.below(4)]);
        }
    }
    if bytes[21..29] != good[21..29] {
        dice.notes.push(LENGTHS);
    }
    Case {
        frames: vec![bytes],
        any_opaque: true,
        code,
        version: 479,
        damaged: false,
        notes: Vec::new(),
        plain: Vec::new(),
    }
}

/// Good JSON, odd values.
fn odd_fields(dice: &mut Dice, tag: &str) -> Case {
    let values = [
        "",
        " ",
        "0",
        "1",
        "+1",
        "-1",
        "01",
        " 1",
        "1 ",
        "1.0",
        "1e3",
        "0x1",
        "true",
        "TRUE",
        "True ",
        "false",
        "null",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "2147483648",
        "١",
        "a/b\\c\"d",
        "é\u{1F600}",
        "\u{7f}\u{85}\u{2028}\u{1}",
        "%RETRY%x",
    ];
    let code = [
        100, 101, 102, 103, 103, 103, 104, 105, 205, 216, 219, 224, 322, 327, 901, 904,
    ][dice.below(16)];
    let keys = [
        "namespace",
        "key",
        "value",
        "brokerId",
        "brokerName",
        "brokerAddr",
        "clusterName",
        "haServerAddr",
        "compressed",
        "bodyCrc32",
        "heartbeatTimeoutMillis",
        "enableActingMaster",
        "__ZONE_NAME",
        "__ZONE_MODE",
        "topic",
        "cluster",
        "acceptStandardJsonOnly",
    ];
    let mut req = who(code, tag);
    let topic = format!("T0{tag}");
    for (key, value) in [
        ("namespace", "N"),
        ("key", "K"),
        ("value", "V"),
        ("topic", topic.as_str()),
        ("cluster", "C"),
    ] {
        req = req.with(key, value);
    }
    if code == 103 {
        req.body = Body::Raw(register_body(tag).plain().into_bytes());
    }
    for _ in 0..=dice.below(2) {
        let key = dice.pick(&keys);
        if matches!(key, "brokerName" | "brokerAddr" | "clusterName") && matches!(code, 103 | 104) {
            continue; // who is who is what the sequences are about
        }
        req.ext.retain(|(old, _)| old != key);
        if code == 104 && key == "brokerId" {
            dice.notes.push(NO_ID);
        }
        if !dice.one_in(4) {
            let value = dice.pick(&values);
            if value == "١" {
                dice.notes.push(DIGITS);
            }
            if key == "heartbeatTimeoutMillis" && value.parse::<i64>().is_ok() {
                continue; // it would end at once, while the tables are read
            }
            req = req.with(key, value);
        }
    }
    req.version = [479, 317, 0, 36, 37, 412, 413, 513, 612, 613, -1, 2147483647][dice.below(12)];
    let mut frames = Vec::new();
    if code == 103 {
        frames.push(known(tag));
    } else if dice.one_in(2) {
        let mut first = who(103, tag);
        first.body = Body::Raw(register_body(tag).plain().into_bytes());
        frames.push(first.json_frame());
    }
    frames.push(req.json_frame());
    if code == 100 {
        frames.extend([101, 219].map(|code| {
            Request {
                code,
                ..req.clone()
            }
            .json_frame()
        }));
    }
    Case {
        frames,
        any_opaque: false,
        code,
        version: req.version,
        damaged: false,
        notes: Vec::new(),
        plain: Vec::new(),
    }
}

/// Bodies of 322 and 217 at a broker that is known.
fn odd_small_body(dice: &mut Dice, tag: &str) -> Case {
    let mut first = who(103, tag);
    first.body = Body::Raw(register_body(tag).plain().into_bytes());
    let (code, mut body) = if dice.one_in(2) {
        (322, version())
    } else {
        let queue = Json::map([
            ("brokerName", Json::text("o")),
            ("perm", Json::number(6)),
            ("readQueueNums", Json::number(8)),
            ("topicSysFlag", Json::number(1)),
            ("writeQueueNums", Json::number(4)),
        ]);
        let fields = [
            ("brokerDatas", Json::List(Vec::new())),
            ("filterServerTable", Json::map([])),
            ("queueDatas", Json::List(vec![queue])),
        ];
        (217, Json::map(fields))
    };
    let good = body.clone();
    if dice.one_in(2) {
        body.change(dice);
    }
    if ["brokerDatas", "filterServerTable"]
        .iter()
        .any(|key| !good.agrees(&body, key))
    {
        dice.notes.push(UNREAD);
    }
    let spots = dice.below(3);
    let mut bytes = body.odd(dice, spots);
    let damaged = dice.one_in(8);
    if damaged {
        mutate(&mut bytes, dice);
    }
    let mut second = who(code, tag).with("topic", &format!("T9{tag}"));
    second.body = Body::Raw(bytes);
    Case {
        frames: vec![first.json_frame(), second.json_frame()],
        any_opaque: false,
        code,
        version: 479,
        damaged,
        notes: Vec::new(),
        plain: Vec::new(),
    }
}

/// A registration whose JSON is odd, at a broker that is known or not.
fn odd_register(dice: &mut Dice, tag: &str) -> Case {
    let mut body = register_body(tag);
    let good = body.clone();
    for _ in 0..dice.below(3) {
        body.change(dice);
    }
    let unread = [
        "mappingDataVersion",
        "topicQueueMappingDetailMap",
        "attributes",
        "order",
        "topicFilterType",
    ];
    if DATA_VERSION.iter().any(|key| !good.agrees(&body, key)) && body.plain().contains("null") {
        dice.notes.push(NULL_COUNTER);
    }
    if unread.iter().any(|key| !good.agrees(&body, key)) {
        dice.notes.push(UNREAD);
    }
    let spots = dice.below(3);
    let mut req = who(103, tag);
    req.version = [479, 479, 479, 317, 513, 36][dice.below(6)];
    if req.version < 37
        && let Json::Map(fields) = &body
        && let Some((_, wrapper)) = fields
            .iter()
            .find(|(key, _)| key == "topicConfigSerializeWrapper")
    {
        body = wrapper.clone();
    }
    let mut bytes = body.odd(dice, spots);
    let damaged = dice.one_in(10);
    if damaged {
        mutate(&mut bytes, dice);
    }
    req.body = Body::Raw(bytes);
    let mut frames = vec![known(tag), req.json_frame()];
    if dice.one_in(3) {
        if !good.agrees(&body, "topicQueueMappingInfoMap") {
            dice.notes.push(OTHER_MAPPING);
        }
        let mut first = who(103, tag);
        first.body = Body::Raw(register_body(tag).plain().into_bytes());
        frames[0] = first.json_frame();
    }
    Case {
        frames,
        any_opaque: false,
        code: 103,
        version: req.version,
        damaged,
        notes: Vec::new(),
        plain: Vec::new(),
    }
}

/// A compressed registration whose parts are odd.
fn odd_zlib(dice: &mut Dice, tag: &str) -> Case {
    let five = dice.one_in(2);
    let part = |text: &[u8]| [&(text.len() as u32).to_be_bytes()[..], text].concat();
    let mut version_json = version();
    if dice.one_in(4) {
        version_json.change(dice);
        if version_json.plain().contains("null") {
            dice.notes.push(NULL_COUNTER);
        }
    }
    let mut plain = part(version_json.plain().as_bytes());
    let topics = [
        "T0 4 4 6 SINGLE_TAG",
        "T0 4 4 6 SINGLE_TAG {}",
        "T0 4 4 6 MULTI_TAG {\"+message.type\":\"FIFO\"}",
        "T0  4 4 6 SINGLE_TAG",
        "T0 4 4 6",
        "T0 4 4 6 single_tag",
        "T0 x 4 6 SINGLE_TAG",
        "T0 +4 -4 06 SINGLE_TAG",
        "T0 4 4 6 SINGLE_TAG {bad",
        "T0 4 4 6 SINGLE_TAG  ",
        " 4 4 6 SINGLE_TAG",
        "",
        "T0 4 4 2147483648 SINGLE_TAG",
        "T0 4 4 6 SINGLE_TAG {} more",
        "T/é 4 4 6 SINGLE_TAG {\"a\":\"b c\"}",
        "T0\t4 4 6 SINGLE_TAG",
        "T0 4 4 6 0",
        "null 4 4 6 SINGLE_TAG",
    ];
    let count = dice.below(3);
    let said = if dice.one_in(10) {
        [0, 1, 5, u32::MAX][dice.below(4)]
    } else {
        count as u32 + 1
    };
    plain.extend(said.to_be_bytes());
    plain.extend(part(format!("T1{tag} 8 8 6 SINGLE_TAG").as_bytes()));
    for _ in 0..count {
        let text = dice.pick(&topics).replace("T0", &format!("T0{tag}"));
        plain.extend(part(text.as_bytes()));
    }
    let filters = [
        "[]",
        "[\"f:1\"]",
        "[",
        "null",
        "{}",
        "[1,null]",
        "['f']",
        "",
    ];
    plain.extend(part(
        filters[if dice.one_in(2) { 0 } else { dice.below(8) }].as_bytes(),
    ));
    if five || dice.one_in(6) {
        plain.extend(1_u32.to_be_bytes());
        let mut mapping = mapping(tag);
        if dice.one_in(3) {
            mapping.change(dice);
        }
        plain.extend(part(mapping.plain().as_bytes()));
    }
    let damage = dice.below(12);
    match damage {
        0 => plain.truncate(dice.below(plain.len())),
        1 => mutate(&mut plain, dice),
        2 => plain.extend(b"more"),
        _ => {}
    }
    let shown = plain.clone();
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(9));
    zlib.write_all(&plain).unwrap();
    let mut bytes = zlib.finish().unwrap();
    match dice.below(14) {
        0 => bytes.truncate(dice.below(bytes.len())),
        1 => mutate(&mut bytes, dice),
        2 => bytes.extend(b"garbage"),
        3 => bytes.truncate(bytes.len() - 4),
        4 => {
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
        }
        _ => {}
    }
    let mut req = who(103, tag).with("compressed", "true");
    req.version = if five {
        [413, 479, 513][dice.below(3)]
    } else {
        [37, 401, 412][dice.below(3)]
    };
    req.body = Body::Raw(bytes);
    Case {
        frames: vec![known(tag), req.json_frame()],
        any_opaque: false,
        code: 103,
        version: req.version,
        damaged: damage < 2,
        notes: Vec::new(),
        plain: shown,
    }
}

/// The address is the case's own: Java may be late with the end of an earlier connection.
pub(crate) fn who(code: i32, tag: &str) -> Request {
    Request::new(code)
        .with("brokerName", "o")
        .with("brokerAddr", &format!("a{tag}"))
        .with("clusterName", "C")
        .with("brokerId", "0")
}

fn version() -> Json {
    Json::map([
        ("counter", Json::number(1)),
        ("stateVersion", Json::number(2)),
        ("timestamp", Json::number(1000)),
    ])
}

fn topic(name: &str) -> Json {
    Json::map([
        (
            "attributes",
            Json::map([("+message.type", Json::text("FIFO"))]),
        ),
        ("order", Json::Raw("false".to_owned())),
        ("perm", Json::number(6)),
        ("readQueueNums", Json::number(8)),
        ("topicFilterType", Json::text("SINGLE_TAG")),
        ("topicName", Json::text(name)),
        ("topicSysFlag", Json::number(1)),
        ("writeQueueNums", Json::number(4)),
    ])
}

fn mapping(tag: &str) -> Json {
    Json::map([
        ("bname", Json::text("o")),
        (
            "currIdMap",
            Json::map([("0", Json::number(0)), ("1", Json::number(3))]),
        ),
        ("dirty", Json::Raw("false".to_owned())),
        ("epoch", Json::number(7)),
        ("scope", Json::text("__global__")),
        ("topic", Json::Text(format!("T0{tag}"))),
        ("totalQueues", Json::number(8)),
    ])
}

fn register_body(tag: &str) -> Json {
    let names = [format!("T0{tag}"), format!("T1{tag}")];
    let [first, second] = names.each_ref().map(String::as_str);
    let wrapper = Json::map([
        ("dataVersion", version()),
        ("mappingDataVersion", version()),
        (
            "topicConfigTable",
            Json::map([(first, topic(first)), (second, topic(second))]),
        ),
        ("topicQueueMappingDetailMap", Json::map([])),
        (
            "topicQueueMappingInfoMap",
            Json::map([(first, mapping(tag))]),
        ),
    ]);
    Json::map([
        ("filterServerList", Json::List(vec![Json::text("f:1")])),
        ("topicConfigSerializeWrapper", wrapper),
    ])
}

/// Makes the broker known, so that its topics count however few they are.
fn known(tag: &str) -> Vec<u8> {
    who(103, tag).json_frame()
}

fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    if bytes.is_empty() {
        return;
    }
    let at = dice.below(bytes.len());
    match dice.below(5) {
        0 => bytes[at] = dice.below(256) as u8,
        1 => {
            bytes.remove(at);
        }
        2 => bytes.insert(at, [b'"', b'{', b',', 0xff, 0, 0xc3][dice.below(6)]),
        3 => bytes.truncate(at),
        _ => bytes[at] ^= 1 << dice.below(8),
    }
}

fn frame(kind: u8, header: &[u8], body: &[u8]) -> Vec<u8> {
    let mut out = (4 + header.len() as u32 + body.len() as u32)
        .to_be_bytes()
        .to_vec();
    out.extend((u32::from(kind) << 24 | header.len() as u32).to_be_bytes());
    out.extend(header);
    out.extend(body);
    out
}
