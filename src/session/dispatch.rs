//! The switch: request code to answer now, command for the writer, or refusal
//! (`DefaultRequestProcessor`, `ClientRequestProcessor`).

use super::admin::{NOT_ALLOWED, get_config, get_kv, is_admin, kv_list};
use super::elsewhere::no_route;
use super::jobs::{BodyJob, BodyKind, Job};
use super::{Body, Env, Next, Reply, Session};
use crate::route::Form;
use crate::route::command::{Command, Unregistration};
use crate::route::join::{RouteQuery, write_route};
use crate::route::query;
use crate::route::snapshot::Snapshot;
use crate::wire::codes::{remark, request, response, version};
use crate::wire::header::{ExtFields, Header};
use crate::wire::json::{self, JsonError};
use crate::wire::model::{DataVersion, QueueShape};
use crate::wire::reply::{Output, ReplyExt};

const NAME_TOO_LONG: &str = "a name in the request is too long";
pub(super) const BODY_TOO_LARGE: &str = "the body is larger than this request needs";

impl Session {
    pub(super) fn dispatch(
        &mut self,
        header: &Header<'_>,
        body: Body<'_>,
        env: &Env<'_>,
        out: &mut Output,
    ) -> Option<Next> {
        let reply = Reply::to(header, env);
        // Compared as a signed number, so that a negative version counts as old
        // (`NettyRemotingAbstract.processRequestCommand`).
        if env.leaving && header.version > version::V5_3_1 {
            let (code, remark) = (response::GO_AWAY, Some(remark::GO_AWAY));
            reply.write(out, code, remark, ReplyExt::None, |_| {});
            return None;
        }
        if !self.admin && is_admin(header.code) {
            let remark = Some(NOT_ALLOWED);
            reply.write(out, response::NO_PERMISSION, remark, ReplyExt::None, |_| {});
            return None;
        }
        match header.code {
            request::GET_ROUTEINFO_BY_TOPIC => return self.route(header, env, reply, out),
            request::QUERY_DATA_VERSION => query_data_version(header, body, env, reply, out),
            request::BROKER_HEARTBEAT => heartbeat(header, env, reply, out),
            request::REGISTER_BROKER => return self.register(header, body, env, out),
            request::UNREGISTER_BROKER => {
                return self.submit(header, Command::Unregister(unregistration(&header.ext)));
            }
            request::GET_BROKER_CLUSTER_INFO => {
                return big_answer(
                    header,
                    BodyKind::ClusterInfo(asked_form(header)),
                    env,
                    reply,
                    out,
                );
            }
            request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER => {
                if !env.snapshot.settings.enable_all_topic_list {
                    reply.error(out, remark::DISABLED);
                    return None;
                }
                return big_answer(header, BodyKind::TopicList, env, reply, out);
            }
            request::GET_SYSTEM_TOPIC_LIST_FROM_NS => {
                return big_answer(header, BodyKind::SystemTopicList, env, reply, out);
            }
            request::GET_TOPICS_BY_CLUSTER
            | request::GET_UNIT_TOPIC_LIST
            | request::GET_HAS_UNIT_SUB_TOPIC_LIST
            | request::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST => {
                return chosen_topics(header, env, reply, out);
            }
            request::GET_BROKER_MEMBER_GROUP => member_group(header, env, reply, out),
            request::WIPE_WRITE_PERM_OF_BROKER | request::ADD_WRITE_PERM_OF_BROKER => {
                let broker_name = header.ext.get("brokerName").unwrap_or_default().to_owned();
                let add = header.code == request::ADD_WRITE_PERM_OF_BROKER;
                return self.submit(header, Command::SetWritePerm { broker_name, add });
            }
            request::PUT_KV_CONFIG => return self.put_kv(header, reply, out),
            request::GET_KV_CONFIG => get_kv(header, env, reply, out),
            request::DELETE_KV_CONFIG => return self.delete_kv(header, reply, out),
            request::GET_KVLIST_BY_NAMESPACE => kv_list(header, env, reply, out),
            request::UPDATE_NAMESRV_CONFIG => {
                return self.update_config(header, body, env, reply, out);
            }
            request::GET_NAMESRV_CONFIG => get_config(env, reply, out),
            request::DELETE_TOPIC_IN_NAMESRV => return self.delete_topic(header, reply, out),
            request::REGISTER_TOPIC_IN_NAMESRV => {
                return self.register_topic(header, body, env, reply, out);
            }
            code => {
                let code = code.to_string();
                let remark = [
                    remark::UNSUPPORTED_PREFIX,
                    &code,
                    remark::UNSUPPORTED_SUFFIX,
                ]
                .concat();
                let code = response::REQUEST_CODE_NOT_SUPPORTED;
                reply.write(out, code, Some(&remark), ReplyExt::None, |_| {});
            }
        }
        None
    }

    /// 105
    fn route(
        &mut self,
        header: &Header<'_>,
        env: &Env<'_>,
        reply: Reply<'_>,
        out: &mut Output,
    ) -> Option<Next> {
        let settings = &env.snapshot.settings;
        let waits = i64::from(settings.wait_seconds_for_service) * 1000;
        if settings.need_wait_for_service && i128::from(env.now.mono_ms) < i128::from(waits) {
            reply.error(out, remark::NOT_READY);
            return None;
        }
        let name = header.ext.get("topic");
        let Some(topic) = name.and_then(|name| env.snapshot.topic(name)) else {
            if env.cluster_test
                && let Some(next) = self.ask(header, env)
            {
                return Some(next);
            }
            no_route(reply, name, out);
            return None;
        };
        let query = RouteQuery {
            form: if env.cluster_test {
                Form::Legacy
            } else {
                form(header)
            },
            zone: zone(&header.ext),
            order_conf: env.cluster_test || settings.order_message_enable,
        };
        reply.write(out, response::SUCCESS, None, ReplyExt::None, |body| {
            write_route(env.snapshot, topic, query, body);
        });
        None
    }

    /// 216: an unknown or missing topic is a success that changes nothing.
    fn delete_topic(
        &mut self,
        header: &Header<'_>,
        reply: Reply<'_>,
        out: &mut Output,
    ) -> Option<Next> {
        let Some(topic) = header.ext.get("topic").map(str::to_owned) else {
            reply.success(out);
            return None;
        };
        let cluster = header
            .ext
            .get("clusterName")
            .filter(|c| !c.is_empty())
            .map(str::to_owned);
        self.submit(header, Command::DeleteTopic { topic, cluster })
    }

    /// 217: without queues a success that changes nothing; old clients mean another request by
    /// this code, which ends here too.
    fn register_topic(
        &mut self,
        header: &Header<'_>,
        body: Body<'_>,
        env: &Env<'_>,
        reply: Reply<'_>,
        out: &mut Output,
    ) -> Option<Next> {
        let queues = match small_body(body, env) {
            Ok(text) => queue_datas(text, env.limits.name_bytes),
            Err(remark) => Err(remark),
        };
        match (header.ext.get("topic"), queues) {
            (_, Err(remark)) => reply.error(out, remark),
            (None, Ok(_)) => reply.success(out),
            (Some(_), Ok(queues)) if queues.is_empty() => reply.success(out),
            (Some(topic), Ok(_)) if topic.len() > env.limits.name_bytes => {
                reply.error(out, NAME_TOO_LONG);
            }
            (Some(topic), Ok(queues)) => {
                let topic = topic.to_owned();
                return self.submit(header, Command::RegisterTopic { topic, queues });
            }
        }
        None
    }
}

/// Clients from 4.9.4 on, and whoever says so, get strict JSON.
fn form(header: &Header<'_>) -> Form {
    if header.version >= version::V4_9_4 {
        Form::Standard
    } else {
        asked_form(header)
    }
}

/// Strict JSON only for whoever says that it takes nothing else.
fn asked_form(header: &Header<'_>) -> Form {
    match header.ext.boolean("acceptStandardJsonOnly") {
        Some(true) => Form::Standard,
        _ => Form::Legacy,
    }
}

/// The zone of a request in zone mode (`ZoneRouteRPCHook`).
fn zone<'a>(ext: &'a ExtFields<'_>) -> Option<&'a str> {
    let on = ext.boolean("__ZONE_MODE") == Some(true);
    ext.get("__ZONE_NAME")
        .filter(|zone| on && !zone.trim().is_empty())
}

/// 322: compares versions and counts as a heartbeat either way.
fn query_data_version(
    header: &Header<'_>,
    body: Body<'_>,
    env: &Env<'_>,
    reply: Reply<'_>,
    out: &mut Output,
) {
    let (Some(cluster), Some(addr)) = (header.ext.get("clusterName"), header.ext.get("brokerAddr"))
    else {
        return reply.error(out, "clusterName or brokerAddr is missing");
    };
    let asked = match small_body(body, env).map(|text| parse_version(text, env.now.wall_ms)) {
        Ok(Ok(asked)) => asked,
        Ok(Err(_)) => return reply.error(out, "the body is not a DataVersion"),
        Err(remark) => return reply.error(out, remark),
    };
    let known = env.snapshot.live(cluster, addr);
    let stored = known.and_then(|entry| entry.data_version);
    if let Some(entry) = known {
        // A clock that is dead in this snapshot belongs to a broker whose removal is about to be
        // published; this request is ordered before that and refreshes nothing.
        entry.live.touch(env.now.mono_ms);
    }
    let changed = if stored.is_some() && stored == asked {
        "false"
    } else {
        "true"
    };
    let ext = [("changed", changed)];
    reply.write(
        out,
        response::SUCCESS,
        None,
        ReplyExt::Fields(&ext),
        |body| {
            if let Some(stored) = stored {
                query::write_data_version(body, &stored);
            }
        },
    );
}

/// 904: a heartbeat of a broker that is not known is no error.
fn heartbeat(header: &Header<'_>, env: &Env<'_>, reply: Reply<'_>, out: &mut Output) {
    let (Some(cluster), Some(addr)) = (header.ext.get("clusterName"), header.ext.get("brokerAddr"))
    else {
        return reply.error(out, "clusterName or brokerAddr is missing");
    };
    if let Some(entry) = env.snapshot.live(cluster, addr) {
        entry.live.touch(env.now.mono_ms);
    }
    reply.success(out);
}

/// 901: keeps the remark that Java forgets to clear.
fn member_group(header: &Header<'_>, env: &Env<'_>, reply: Reply<'_>, out: &mut Output) {
    let (cluster, broker) = (header.ext.get("clusterName"), header.ext.get("brokerName"));
    let remark = Some(remark::STALE_DEFAULT);
    reply.write(out, response::SUCCESS, remark, ReplyExt::None, |body| {
        body.extend_from_slice(&query::member_group(
            env.snapshot,
            cluster,
            broker,
            asked_form(header),
        ));
    });
}

/// 106, 206, 304: at once when the body stands ready.
fn big_answer(
    header: &Header<'_>,
    kind: BodyKind,
    env: &Env<'_>,
    reply: Reply<'_>,
    out: &mut Output,
) -> Option<Next> {
    if header.is_oneway() {
        return None;
    }
    let shared = kind
        .shared(env.snapshot)
        .and_then(|shared| shared.get().cloned());
    let Some(body) = shared else {
        return Some(run(header, kind, env.snapshot));
    };
    reply.shared(out, ReplyExt::None, body);
    None
}

/// 224, 311, 312, 313: a choice of all topics.
fn chosen_topics(
    header: &Header<'_>,
    env: &Env<'_>,
    reply: Reply<'_>,
    out: &mut Output,
) -> Option<Next> {
    if !env.snapshot.settings.enable_topic_list {
        reply.error(out, remark::DISABLED);
        return None;
    }
    if header.is_oneway() {
        return None;
    }
    let kind = match header.code {
        request::GET_UNIT_TOPIC_LIST => BodyKind::Units {
            unit: Some(true),
            sub: None,
        },
        request::GET_HAS_UNIT_SUB_TOPIC_LIST => BodyKind::Units {
            unit: None,
            sub: Some(true),
        },
        request::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST => BodyKind::Units {
            unit: Some(false),
            sub: Some(true),
        },
        _ => BodyKind::Cluster(header.ext.get("cluster").map(str::to_owned)),
    };
    Some(run(header, kind, env.snapshot))
}

fn run(header: &Header<'_>, kind: BodyKind, snapshot: &std::sync::Arc<Snapshot>) -> Next {
    Next::Run(Job::Body(BodyJob::new(
        header.opaque,
        kind,
        snapshot.clone(),
    )))
}

fn unregistration(ext: &ExtFields<'_>) -> Unregistration {
    let text = |key| ext.get(key).map(str::to_owned);
    Unregistration {
        cluster: text("clusterName"),
        broker_name: text("brokerName"),
        broker_addr: text("brokerAddr"),
    }
}

/// The body of a request that needs only a few bytes. Java takes a body that is not UTF-8 for
/// none at all.
fn small_body<'a>(body: Body<'a>, env: &Env<'_>) -> Result<&'a str, &'static str> {
    if body.bytes.len() > env.limits.small_body_bytes {
        return Err(BODY_TOO_LARGE);
    }
    Ok(std::str::from_utf8(body.bytes).unwrap_or_default())
}

/// What a body says, if it is more than nothing. fastjson takes blanks, `null`, `""` and `[]` for
/// null where an object belongs.
fn object(text: &str) -> Result<Option<json::Value<'_>>, JsonError> {
    if text.bytes().all(|byte| b" \t\n\r\x0c\x08".contains(&byte)) {
        return Ok(None);
    }
    match json::parse(text)? {
        json::Value::Null => Ok(None),
        json::Value::String(text) if text.is_empty() => Ok(None),
        json::Value::Array(items) if items.is_empty() => Ok(None),
        object @ json::Value::Object(_) => Ok(Some(object)),
        _ => Err(JsonError::Value("object")),
    }
}

/// The `DataVersion` of a 322.
fn parse_version(text: &str, now_ms: i64) -> Result<Option<DataVersion>, JsonError> {
    let Some(value) = object(text)? else {
        return Ok(None);
    };
    let number = |key: &str| value.field(key).map_or(Ok(None), json::int64);
    Ok(Some(DataVersion {
        state_version: number("stateVersion")?.unwrap_or(0),
        timestamp: number("timestamp")?.unwrap_or(now_ms),
        counter: number("counter")?.unwrap_or(0),
    }))
}

/// `queueDatas` of a `TopicRouteData`.
fn queue_datas(text: &str, name_bytes: usize) -> Result<Vec<(String, QueueShape)>, &'static str> {
    const BAD: &str = "the body is not a TopicRouteData";
    let value = object(text).map_err(|_| BAD)?;
    let items = match value.as_ref().and_then(|value| value.field("queueDatas")) {
        None | Some(json::Value::Null) => return Ok(Vec::new()),
        Some(json::Value::Array(items)) => items,
        Some(_) => return Err(BAD),
    };
    let mut queues = Vec::with_capacity(items.len());
    for item in items {
        let (name, shape) = queue_data(item).map_err(|_| BAD)?;
        if name.len() > name_bytes {
            return Err(NAME_TOO_LONG);
        }
        queues.push((name, shape));
    }
    Ok(queues)
}

/// `QueueData`. `topicSynFlag`, the spelling of answers up to 4.8, is not read: this request is
/// younger, so nobody who sends it writes the old name.
fn queue_data(item: &json::Value<'_>) -> Result<(String, QueueShape), JsonError> {
    let name = item
        .field("brokerName")
        .ok_or(JsonError::Value("brokerName"))?;
    let name = json::text(name.clone())?
        .ok_or(JsonError::Value("brokerName"))?
        .into_owned();
    let number = |key: &str| match item.field(key) {
        Some(value) => Ok(json::int32(value)?.unwrap_or(0)),
        None => Ok(0),
    };
    let shape = QueueShape {
        read_queues: number("readQueueNums")?,
        write_queues: number("writeQueueNums")?,
        perm: number("perm")?,
        topic_sys_flag: number("topicSysFlag")?,
    };
    Ok((name, shape))
}
