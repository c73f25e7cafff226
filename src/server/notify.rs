//! 905: tells brokers that the lowest id of their group has changed. Sent over connections of our
//! own to the addresses that the brokers registered, after the publish, by one task that the
//! writer does not wait for. A notice that is lost only delays the brokers, who also poll.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::time::Duration;

use super::mailbox::{Mailbox, MailboxReader};
use super::shared::{SharedRef, count};
use crate::route::command::MinBrokerIdNotice;
use crate::rt;
use crate::session::notice::notice_frame;

/// Notices that may wait; more are dropped and counted.
pub(super) const NOTICE_PLACES: usize = 1024;
/// How long one broker may take, as in Java.
const SEND_LIMIT: Duration = Duration::from_millis(300);

/// The writer's end.
pub(super) struct Notifier {
    pub(super) queue: Mailbox<MinBrokerIdNotice>,
    pub(super) shared: SharedRef,
}

impl Notifier {
    pub(super) fn send(&self, notices: Vec<MinBrokerIdNotice>) {
        for notice in notices {
            if self.queue.try_push(notice).is_err() {
                count(&self.shared.counters.dropped_notices);
            }
        }
    }
}

/// Sends notices for ever, each to its targets one after the other.
pub(super) async fn send_notices(mut queue: MailboxReader<MinBrokerIdNotice>, shared: SharedRef) {
    let mut opaque = 0;
    loop {
        let notice = poll_fn(|cx| queue.poll_pop(cx)).await;
        opaque += 1;
        let serialize = shared.published.load().settings.serialize_type;
        let frame = notice_frame(&notice, serialize, opaque);
        for target in &notice.targets {
            if let Err(error) = send_one(target, &frame).await {
                count(&shared.counters.dropped_notices);
                super::log::notice_failed(target, &error);
            }
        }
    }
}

/// Broker addresses are `ip:port`; a host name would need a look-up that blocks a core.
async fn send_one(target: &str, frame: &[u8]) -> io::Result<()> {
    let addr: SocketAddr = target
        .parse()
        .map_err(|_| io::Error::other("the broker's address is not ip:port"))?;
    let mut stream = rt::connect_within(addr, None, SEND_LIMIT).await?;
    let mut sent = 0;
    while sent < frame.len() {
        sent += poll_fn(|cx| stream.poll_send(cx, &[IoSlice::new(&frame[sent..])])).await?;
    }
    Ok(())
}
