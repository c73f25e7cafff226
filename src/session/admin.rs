//! Requests of administrators: key-value configuration and the settings
//! (`DefaultRequestProcessor.putKVConfig` … `updateConfig`).

use super::dispatch::BODY_TOO_LARGE;
use super::{Body, Env, Next, Reply, Session};
use crate::route::command::{Change, Command, KvChange};
use crate::settings::listing::listing;
use crate::wire::codes::{remark, request, response};
use crate::wire::header::Header;
use crate::wire::reply::{Output, ReplyExt};

/// Remark for a peer outside of the ranges that may administer.
pub(super) const NOT_ALLOWED: &str = "this address may not send administrative requests";

/// What `namesrv.adminAllow` limits.
pub(super) fn is_admin(code: i32) -> bool {
    matches!(
        code,
        request::PUT_KV_CONFIG
            | request::DELETE_KV_CONFIG
            | request::WIPE_WRITE_PERM_OF_BROKER
            | request::ADD_WRITE_PERM_OF_BROKER
            | request::DELETE_TOPIC_IN_NAMESRV
            | request::REGISTER_TOPIC_IN_NAMESRV
            | request::UPDATE_NAMESRV_CONFIG
            | request::GET_NAMESRV_CONFIG
    )
}

impl Session {
    /// 100
    pub(super) fn put_kv(
        &mut self,
        header: &Header<'_>,
        reply: Reply<'_>,
        out: &mut Output,
    ) -> Option<Next> {
        let text = |key| header.ext.get(key).map(str::to_owned);
        let (Some(namespace), Some(key)) = (text("namespace"), text("key")) else {
            reply.error(out, remark::KV_NULL);
            return None;
        };
        let put = Some(text("value"));
        self.persist(
            header,
            Change::Kv(KvChange {
                namespace,
                key,
                put,
            }),
        )
    }

    /// 102: of what does not exist a success.
    pub(super) fn delete_kv(
        &mut self,
        header: &Header<'_>,
        reply: Reply<'_>,
        out: &mut Output,
    ) -> Option<Next> {
        let text = |key| header.ext.get(key).map(str::to_owned);
        let (Some(namespace), Some(key)) = (text("namespace"), text("key")) else {
            reply.success(out);
            return None;
        };
        self.persist(
            header,
            Change::Kv(KvChange {
                namespace,
                key,
                put: None,
            }),
        )
    }

    /// 318
    pub(super) fn update_config(
        &mut self,
        header: &Header<'_>,
        body: Body<'_>,
        env: &Env<'_>,
        reply: Reply<'_>,
        out: &mut Output,
    ) -> Option<Next> {
        if body.bytes.len() > env.limits.small_body_bytes {
            reply.error(out, BODY_TOO_LARGE);
            return None;
        }
        if body.bytes.is_empty() {
            reply.success(out);
            return None;
        }
        self.persist(header, Change::Settings(body.keep()))
    }

    fn persist(&mut self, header: &Header<'_>, change: Change) -> Option<Next> {
        self.persisting = true;
        self.submit(header, Command::Persist(change))
    }
}

/// 101
pub(super) fn get_kv(header: &Header<'_>, env: &Env<'_>, reply: Reply<'_>, out: &mut Output) {
    let (namespace, key) = (header.ext.get("namespace"), header.ext.get("key"));
    let value = namespace
        .zip(key)
        .and_then(|(ns, key)| env.snapshot.kv.get(ns, key));
    match value {
        Some(value) => {
            let ext = [("value", &**value)];
            reply.write(out, response::SUCCESS, None, ReplyExt::Fields(&ext), |_| {});
        }
        None => {
            let miss = [
                remark::KV_MISS_PREFIX,
                namespace.unwrap_or("null"),
                remark::KV_MISS_KEY,
                key.unwrap_or("null"),
            ];
            let (code, miss) = (response::QUERY_NOT_FOUND, miss.concat());
            reply.write(out, code, Some(&miss), ReplyExt::Fields(&[]), |_| {});
        }
    }
}

/// 219
pub(super) fn kv_list(header: &Header<'_>, env: &Env<'_>, reply: Reply<'_>, out: &mut Output) {
    let name = header.ext.get("namespace");
    match name.and_then(|name| env.snapshot.kv.namespace(name)) {
        Some(namespace) => reply.shared(out, ReplyExt::None, namespace.body()),
        None => {
            let miss = [remark::KV_MISS_PREFIX, name.unwrap_or("null")].concat();
            let code = response::QUERY_NOT_FOUND;
            reply.write(out, code, Some(&miss), ReplyExt::None, |_| {});
        }
    }
}

/// 319
pub(super) fn get_config(env: &Env<'_>, reply: Reply<'_>, out: &mut Output) {
    reply.write(out, response::SUCCESS, None, ReplyExt::None, |body| {
        body.extend_from_slice(listing(&env.snapshot.settings).as_bytes());
    });
}
