//! Routes that this server does not know, in a test environment (`clusterTest`): what is asked of
//! the production environment's NameServer and what its answer becomes
//! (`ClusterTestRequestProcessor` of 4.9; 5.x breaks the mode).
//!
//! Java decodes the other server's answer and writes it anew in the legacy form. Here the question
//! carries a version that gets the legacy form, and the bytes are passed on as they came, so that
//! nothing a newer server says is lost. A question also says that it comes from a test environment:
//! such a one is answered from the tables alone, so that servers that name themselves or each other
//! as production (`NAMESRV_ADDR` is set on many hosts) do not ask in circles, as Java's do.
//!
//! Deliberately absent: finding that server, reaching it, and waiting for it.

use bytes::Bytes;

use super::{Env, Next, Reply, Session};
use crate::route::command::Origin;
use crate::wire::codes::{remark, request, response, version};
use crate::wire::frame::{Frame, FrameLimits, SerializeType};
use crate::wire::header::{Header, HeaderError, HeaderFields, encode_request};
use crate::wire::reply::{Output, ReplyExt};

/// Ext field of a question; unknown fields are ignored by every NameServer.
const FROM_CLUSTER_TEST: &str = "namesrvClusterTest";

/// A 105 that the production environment has to answer.
#[derive(Debug)]
pub struct Ask {
    /// Who waits for the answer.
    pub origin: Origin,
    /// The topic, which is not known here.
    pub topic: String,
}

/// What came of an [`Ask`].
#[derive(Debug)]
pub struct Asked {
    /// The request.
    pub ask: Ask,
    /// The route as the other server wrote it; `None` when it knows none or did not answer.
    pub body: Option<Bytes>,
}

/// An answer of the other server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The number of the question.
    pub opaque: i32,
    /// The route, if it knows one.
    pub route: Option<&'a [u8]>,
}

impl Session {
    /// Makes a question of a 105 whose topic is not known here. `None` when nobody would hear the
    /// answer or it is known beforehand.
    pub(super) fn ask(&mut self, header: &Header<'_>, env: &Env<'_>) -> Option<Next> {
        let topic = header.ext.get("topic")?;
        let in_circles = header.ext.get(FROM_CLUSTER_TEST).is_some();
        if header.is_oneway() || in_circles || topic.len() > env.limits.name_bytes {
            return None;
        }
        self.asking += 1;
        let origin = Origin {
            core: self.core,
            conn: self.conn,
            opaque: header.opaque,
            oneway: false,
        };
        let topic = topic.to_owned();
        Some(Next::Ask(Ask { origin, topic }))
    }

    /// Answers a request that [`Next::Ask`] brought.
    pub fn asked(&mut self, asked: Asked, env: &Env<'_>, out: &mut Output) {
        self.asking -= 1;
        let reply = Reply {
            opaque: asked.ask.origin.opaque,
            oneway: asked.ask.origin.oneway,
            env,
        };
        match asked.body {
            Some(body) => reply.shared(out, ReplyExt::None, body),
            None => no_route(reply, Some(&asked.ask.topic), out),
        }
    }
}

/// 17, whose remark names the topic.
pub(super) fn no_route(reply: Reply<'_>, topic: Option<&str>, out: &mut Output) {
    let topic = topic.unwrap_or("null");
    let remark = [remark::ROUTE_MISS_PREFIX, topic, remark::ROUTE_MISS_SUFFIX].concat();
    let code = response::TOPIC_NOT_EXIST;
    reply.write(out, code, Some(&remark), ReplyExt::None, |_| {});
}

/// Appends the request for a topic's route, as the last version that gets the legacy form.
pub fn write_question(out: &mut Vec<u8>, topic: &str, opaque: i32) {
    let fields = HeaderFields {
        code: request::GET_ROUTEINFO_BY_TOPIC,
        version: version::V4_9_4 - 1,
        opaque,
        flag: 0,
        remark: None,
        ext: Some(&[("topic", topic), (FROM_CLUSTER_TEST, "true")]),
    };
    // A name of at most 1 KiB always fits into a frame.
    let _ = encode_request(out, SerializeType::Json, &fields, &[]);
}

/// Reads a frame of the other server; `None` when it is no answer.
pub fn read_answer<'a>(
    frame: &Frame<'a>,
    limits: &FrameLimits,
) -> Result<Option<Answer<'a>>, HeaderError> {
    let header = Header::parse(frame, limits)?;
    let has_route = header.code == response::SUCCESS && !frame.body.is_empty();
    Ok(header.is_response().then_some(Answer {
        opaque: header.opaque,
        route: has_route.then_some(frame.body),
    }))
}
