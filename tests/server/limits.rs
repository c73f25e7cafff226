//! Limits whose defaults are too large to be reached through a socket in a test: the same server
//! without sockets, with lower ones. Each refusal changes nothing and names its reason.

use std::io::Write as _;

use namesrv::settings::Settings;
use namesrv::settings::limits::Limits;

use crate::requests::{Broker, CLUSTER_INFO, accepted, get_kv, put_kv, route, value};
use crate::support::answer::{Answer, read_answers};
use crate::support::node::Node;
use crate::support::request::{Body, FilterSpec, MappingSpec, Request};

const BROKER: Broker<'_> = Broker {
    name: "ba",
    addr: "10.0.0.1:10911",
};
const OTHER: Broker<'_> = Broker {
    name: "bb",
    addr: "10.0.0.2:10911",
};
const NOW_MS: u64 = 10_000;

/// A node, one connection to it.
struct Setup {
    node: Node,
    conn: u64,
}

impl Setup {
    fn new(limits: Limits) -> Self {
        let mut node = Node::with_limits(&[], true, limits);
        let conn = node.connect();
        Self { node, conn }
    }

    fn ask(&mut self, request: &Request) -> Answer {
        let bytes = self.node.send(self.conn, &request.json_frame(), NOW_MS);
        let mut answers = read_answers(&bytes).unwrap();
        assert_eq!(answers.len(), 1);
        answers.remove(0).1
    }

    /// All that a refusal must leave as it was.
    fn state(&mut self) -> Vec<Answer> {
        [
            Request::new(CLUSTER_INFO),
            Request::new(206),
            route("t"),
            route("u"),
            route("v"),
        ]
        .iter()
        .map(|request| self.ask(request))
        .collect()
    }

    /// Refused by the table, with this reason, and nothing has changed.
    fn is_refused(&mut self, request: &Request, reason: &str) {
        let before = self.state();
        let answer = self.ask(request);
        assert_eq!((answer.code, answer.body), (1, None));
        assert_eq!(format!("{:?}", answer.remark), format!("Text({reason:?})"));
        assert_eq!(self.state(), before);
    }
}

#[test]
fn topics_of_one_registration() {
    let mut setup = Setup::new(Limits {
        topics_in_registration: 2,
        ..Limits::default()
    });
    assert_eq!(setup.ask(&BROKER.register(1, &["t", "u"])), accepted());
    let reason = "registration refused: more than 2 entries in one table";
    setup.is_refused(&BROKER.register(2, &["t", "u", "v"]), reason);
}

#[test]
fn topics_of_all() {
    let mut setup = Setup::new(Limits {
        topics: 2,
        ..Limits::default()
    });
    assert_eq!(setup.ask(&BROKER.register(1, &["t", "u"])), accepted());
    setup.is_refused(&BROKER.register(2, &["t", "u", "v"]), "too many topics");
    // Topics that are there already count once.
    assert_eq!(setup.ask(&OTHER.register(1, &["t", "u"])), accepted());
}

#[test]
fn queue_entries_of_all() {
    let mut setup = Setup::new(Limits {
        pairs: 3,
        ..Limits::default()
    });
    assert_eq!(setup.ask(&BROKER.register(1, &["t", "u"])), accepted());
    setup.is_refused(&OTHER.register(1, &["t", "u"]), "too many queue entries");
    assert_eq!(setup.ask(&BROKER.unregister()), Answer::success());
    assert_eq!(setup.ask(&OTHER.register(1, &["t", "u", "v"])), accepted());
}

#[test]
fn brokers_of_all() {
    let mut setup = Setup::new(Limits {
        brokers: 1,
        ..Limits::default()
    });
    assert_eq!(setup.ask(&BROKER.register(1, &["t", "u"])), accepted());
    setup.is_refused(&OTHER.register(1, &["t", "u"]), "too many brokers");
    assert_eq!(setup.ask(&BROKER.register(2, &["t", "v"])), accepted());
    assert_eq!(setup.ask(&BROKER.unregister()), Answer::success());
    assert_eq!(setup.ask(&OTHER.register(1, &["t", "u"])), accepted());
}

#[test]
fn filter_servers_of_all_brokers() {
    let mut setup = Setup::new(Limits {
        filter_servers_bytes: 100,
        ..Limits::default()
    });
    let with = |broker: &Broker<'_>, names: &[&str]| {
        let list = names.iter().map(|name| (*name).to_owned()).collect();
        let mut request = broker.register(1, &["t", "u"]);
        if let Body::Register(spec) = &mut request.body {
            spec.filters = FilterSpec::List(list);
        }
        request
    };
    assert_eq!(setup.ask(&with(&BROKER, &["f1:1", "f2:2"])), accepted());
    setup.is_refused(&with(&OTHER, &["f3:3"]), "too many filter servers");
    assert_eq!(setup.ask(&BROKER.unregister()), Answer::success());
    assert_eq!(setup.ask(&with(&OTHER, &["f3:3"])), accepted());
}

#[test]
fn queues_of_static_topics_count_as_queue_entries() {
    let mut setup = Setup::new(Limits {
        pairs: 5,
        ..Limits::default()
    });
    let with = |queues: i32| {
        let mut request = BROKER.register(i64::from(queues), &["t", "u"]);
        if let Body::Register(spec) = &mut request.body {
            let mapping = MappingSpec {
                topic: "t".to_owned(),
                bname: BROKER.name.to_owned(),
                total_queues: 8,
                epoch: 1,
                ids: (0..queues).map(|id| (id, id)).collect(),
            };
            spec.mappings = vec![("t".to_owned(), mapping)];
        }
        request
    };
    setup.is_refused(&with(3), "too many queue entries");
    assert_eq!(setup.ask(&with(2)), accepted());
    assert_eq!(setup.ask(&BROKER.unregister()), Answer::success());
    assert_eq!(setup.ask(&with(2)), accepted());
}

#[test]
fn bytes_of_an_inflated_body() {
    let plain = [
        &[0, 0, 0, 2][..],
        b"{}",
        &[0; 4],
        &[0, 0, 0, 2],
        b"[]",
        &[0; 4],
    ]
    .concat();
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(9));
    zlib.write_all(&plain).unwrap();
    let body = Body::Raw(zlib.finish().unwrap());
    let request = BROKER.register_body(body).with("compressed", "true");
    for (inflated_bytes, fits) in [(plain.len(), true), (plain.len() - 1, false)] {
        let mut setup = Setup::new(Limits {
            inflated_bytes,
            ..Limits::default()
        });
        if fits {
            assert_eq!(setup.ask(&request), accepted());
        } else {
            let reason = format!("registration refused: more than {inflated_bytes} bytes inflated");
            setup.is_refused(&request, &reason);
        }
    }
}

#[test]
fn bytes_of_the_key_value_tables() {
    let value_limit = Limits {
        kv_value_bytes: 10,
        ..Limits::default()
    };
    let namespace_limit = Limits {
        kv_namespace_bytes: 40,
        ..Limits::default()
    };
    let total_limit = Limits {
        kv_total_bytes: 60,
        ..Limits::default()
    };
    let too_long = "v".repeat(50);
    for (limits, reason) in [
        (value_limit, "the value is too long"),
        (namespace_limit, "the namespace would be too large"),
        (total_limit, "the key-value tables would be too large"),
    ] {
        let mut setup = Setup::new(limits);
        assert_eq!(setup.ask(&put_kv("n", "k", "short")), Answer::success());
        setup.is_refused(&put_kv("n", "k", &too_long), reason);
        setup.is_refused(&put_kv("m", "k", &too_long), reason);
        assert_eq!(setup.ask(&get_kv("n", "k")), value("short"));
        assert_eq!(setup.ask(&get_kv("m", "k")).code, 22);
    }
}

#[test]
fn bytes_of_a_body_that_should_be_small() {
    let mut setup = Setup::new(Limits {
        small_body_bytes: 100,
        ..Limits::default()
    });
    for code in [217, 318, 322] {
        let mut request = Request::new(code)
            .with("topic", "t")
            .with("clusterName", "c")
            .with("brokerAddr", "a");
        request.body = Body::Raw(format!("{:100}", "{}").into_bytes());
        assert_eq!(setup.ask(&request).code, 0, "{code}");
        request.body = Body::Raw(format!("{:101}", "{}").into_bytes());
        setup.is_refused(&request, "the body is larger than this request needs");
    }
}

#[test]
fn registrations_that_a_connection_is_remembered_for() {
    let mut setup = Setup::new(Limits {
        accepted_per_connection: 1,
        ..Limits::default()
    });
    for _ in 0..2 {
        for broker in [BROKER, OTHER] {
            assert_eq!(setup.ask(&broker.register(1, &["t", "u"])), accepted());
        }
    }
    // Forgotten ones take the long way each time, with the same result.
    assert_eq!(setup.node.commands, 4);
    assert_eq!(setup.ask(&OTHER.register(1, &["t", "u"])), accepted());
    assert_eq!(setup.node.commands, 4);
}

#[test]
fn answers_of_one_turn_and_commands_outstanding_lose_nothing() {
    let mut setup = Setup::new(Limits {
        turn_bytes: 1,
        outstanding_commands: 1,
        ..Limits::default()
    });
    let requests = [
        BROKER.register(1, &["t", "u"]),
        route("t"),
        BROKER.unregister(),
        route("t"),
        put_kv("n", "k", "v"),
        get_kv("n", "k"),
    ];
    let frames: Vec<u8> = (0..)
        .zip(requests)
        .flat_map(|(opaque, mut request)| {
            request.opaque = opaque;
            request.json_frame()
        })
        .collect();
    let answers = read_answers(&setup.node.send(setup.conn, &frames, NOW_MS)).unwrap();
    let got: Vec<_> = answers
        .iter()
        .map(|(opaque, answer)| (*opaque, answer.code))
        .collect();
    assert_eq!(got, [(0, 0), (1, 0), (2, 0), (3, 17), (4, 0), (5, 0)]);
}

#[test]
fn defaults_are_those_of_the_design() {
    const MIB: usize = 1 << 20;
    let limits = Limits::with_settings(&Settings::default());
    assert_eq!(limits.frame.frame_bytes, 16 * MIB);
    assert_eq!(limits.frame.header_bytes, MIB);
    assert_eq!(limits.frame.ext_fields, 1024);
    assert_eq!(limits.inflated_bytes, 64 * MIB);
    assert_eq!(limits.name_bytes, 1024);
    assert_eq!(limits.topics_in_registration, 200_000);
    assert_eq!(
        (limits.topics, limits.pairs, limits.brokers),
        (2_000_000, 20_000_000, 50_000)
    );
    let kv = (
        limits.kv_value_bytes,
        limits.kv_namespace_bytes,
        limits.kv_total_bytes,
    );
    assert_eq!(kv, (MIB / 2, 8 * MIB, 64 * MIB));
    assert_eq!(
        (limits.large_frames_total_bytes, limits.parsed_total_bytes),
        (256 * MIB, 256 * MIB)
    );
    assert_eq!(limits.kept_total_bytes, 512 * MIB);
    assert_eq!((limits.unsent_bytes, limits.turn_bytes), (MIB / 4, MIB / 4));
}
