//! Deadlines of stream clients. Their own threads wait without any, which would cost a timer with
//! every message: one thread looks at all of them once a while and closes who has gone too long.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Limits;
use super::clients::{Client, Clients};
use crate::clock::now_ns;

/// Watches until the responder is stopped.
pub(super) fn watch(clients: &Arc<Clients>) {
    let plan = clients.plan();
    let tick = tick(&plan.limits, plan.once);
    let mut seen = HashMap::new();
    let mut ended = false;
    while let Some(present) = clients.wait_for_look(tick) {
        let now = Instant::now();
        seen = present
            .iter()
            .map(|client| (client.id(), look(client, seen.get(&client.id()), now)))
            .collect();
        for client in &present {
            let seen: Seen = seen[&client.id()];
            if let Some(reason) = overdue(seen, now, &plan.limits) {
                client.close(reason);
            }
        }
        if plan.once && !ended && is_done(clients) {
            ended = true;
            clients.notices().end();
        }
    }
}

/// The last thing a client was seen to do, and when.
#[derive(Debug, Clone, Copy)]
struct Seen {
    beat: u64,
    since: Instant,
}

fn look(client: &Client, before: Option<&Seen>, now: Instant) -> Seen {
    let beat = client.beat();
    match before {
        Some(before) if before.beat == beat => *before,
        Some(_) => Seen { beat, since: now },
        None => Seen {
            beat,
            since: client.came(),
        },
    }
}

/// Why a client has to go, if it has to.
fn overdue(seen: Seen, now: Instant, limits: &Limits) -> Option<String> {
    let silent = now.saturating_duration_since(seen.since);
    let (limit, what) = match seen.beat {
        0 => (limits.hello, "it has not said what it wants within"),
        beat if beat % 2 == 1 => (limits.stalled, "it has not taken its replies for"),
        _ => (limits.idle, "it has sent nothing for"),
    };
    (silent > limit).then(|| format!("{what} {limit:?}"))
}

/// Whether those for whom `once` waits have come and gone.
fn is_done(clients: &Clients) -> bool {
    let last_ns = clients.totals().last_datagram_ns.load(Ordering::Relaxed);
    let datagrams = (last_ns > 0).then(|| Duration::from_nanos(now_ns().saturating_sub(last_ns)));
    let streams = clients.deserted_for();
    let quiet = datagrams.is_none_or(|silent| silent > ONCE_SILENCE);
    let nobody = streams.is_none_or(|gone| gone > ONCE_PAUSE) && !clients.is_occupied();
    (datagrams.is_some() || streams.is_some()) && quiet && nobody
}

/// Often enough that a deadline is kept within a quarter of it.
fn tick(limits: &Limits, once: bool) -> Duration {
    let least = limits.hello.min(limits.stalled).min(limits.idle) / 4;
    let most = if once {
        Duration::from_millis(100)
    } else {
        Duration::from_secs(1)
    };
    least.clamp(Duration::from_millis(1), most)
}

/// With `once`: a client may connect again for its next size within this time.
const ONCE_PAUSE: Duration = Duration::from_secs(1);

/// With `once`: nobody says goodbye over UDP; a client that is silent for so long has left.
const ONCE_SILENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_deadline_is_that_of_what_the_client_is_doing() {
        let limits = Limits {
            hello: Duration::from_secs(1),
            stalled: Duration::from_secs(2),
            idle: Duration::from_secs(3),
            ..Limits::default()
        };
        let since = Instant::now();
        let reason = |beat, seconds: f64| {
            let now = since + Duration::from_secs_f64(seconds);
            overdue(Seen { beat, since }, now, &limits)
        };
        assert_eq!(reason(0, 0.9), None);
        let hello = "it has not said what it wants within 1s";
        assert_eq!(reason(0, 1.1).as_deref(), Some(hello));
        assert_eq!(reason(3, 1.9), None);
        let stalled = "it has not taken its replies for 2s";
        assert_eq!(reason(3, 2.1).as_deref(), Some(stalled));
        assert_eq!(reason(4, 2.9), None);
        assert_eq!(
            reason(4, 3.1).as_deref(),
            Some("it has sent nothing for 3s")
        );
    }
}
