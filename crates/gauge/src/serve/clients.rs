//! Who is being served, and what was done in all.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tautline::Closer;

use super::notice::Notices;
use super::{ServePlan, ServeSummary};
use crate::placement::{Register, Seat};
use crate::wire::PeerRecord;

/// What all threads of one responder share.
#[derive(Debug)]
pub(super) struct Clients {
    plan: ServePlan,
    record: PeerRecord,
    notices: Notices,
    seats: Vec<Seat>,
    next_seat: AtomicUsize,
    register: Register,
    roster: Mutex<Roster>,
    changed: Condvar,
    stopping: AtomicBool,
    /// Newcomers in the handshake of TLS.
    shaking_hands: AtomicUsize,
    totals: Totals,
}

/// Who is there.
#[derive(Debug, Default)]
struct Roster {
    present: HashMap<u64, Arc<Client>>,
    admitted: usize,
    came: u64,
    threads: usize,
    /// When the last admitted client left.
    left: Option<Instant>,
}

/// Counts of what is over, and of datagrams.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) clients: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) messages: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) dropped_datagrams: AtomicU64,
    /// By our clock, for whoever asks whether UDP clients are still there; 0 before the first.
    pub(super) last_datagram_ns: AtomicU64,
}

/// One stream client.
#[derive(Debug)]
pub(super) struct Client {
    id: u64,
    /// Who it is, for notices.
    pub(super) peer: String,
    /// Whether it is within the limit.
    pub(super) admitted: bool,
    came: Instant,
    closer: Closer,
    beat: AtomicU64,
    messages: AtomicU64,
    bytes: AtomicU64,
    /// Why we closed it, if we did.
    closed_for: OnceLock<String>,
}

impl Clients {
    pub(super) fn new(
        plan: ServePlan,
        record: PeerRecord,
        notices: Notices,
        seats: Vec<Seat>,
        register: Register,
    ) -> Self {
        Self {
            plan,
            record,
            notices,
            seats,
            next_seat: AtomicUsize::new(0),
            register,
            roster: Mutex::default(),
            changed: Condvar::new(),
            stopping: AtomicBool::new(false),
            shaking_hands: AtomicUsize::new(0),
            totals: Totals::default(),
        }
    }

    pub(super) fn plan(&self) -> &ServePlan {
        &self.plan
    }

    /// Who we are.
    pub(super) fn record(&self) -> &PeerRecord {
        &self.record
    }

    pub(super) fn notices(&self) -> &Notices {
        &self.notices
    }

    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(super) fn register(&self) -> &Register {
        &self.register
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Whether whoever comes from there may be served.
    pub(super) fn allows(&self, ip: IpAddr) -> bool {
        let allow = &self.plan.allow;
        allow.is_empty() || allow.iter().any(|network| network.contains(ip))
    }

    /// Puts the calling thread where clients' threads belong.
    pub(super) fn sit_down(&self) {
        let turn = self.next_seat.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = self.seats[turn % self.seats.len()].take(&self.register) {
            // It was possible when we started: the CPU has been taken away since. Serving goes on.
            self.notices.say(|| error.to_string());
        }
    }

    /// Starts a thread that counts as ours until it ends.
    pub(super) fn spawn(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> io::Result<()> {
        self.roster().threads += 1;
        let present = Present(Arc::clone(self));
        // When it cannot be started, `present` is dropped with the closure.
        thread::Builder::new()
            .name(name.to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || work(&present.0))
            .map(drop)
    }

    /// Leave for one more handshake, until it is dropped; `None` when as many are under way as there may
    /// be clients.
    pub(super) fn shake_hands(self: &Arc<Self>) -> Option<ShakingHands> {
        let limit = self.plan.limits.clients;
        let before = self.shaking_hands.fetch_add(1, Ordering::Relaxed);
        let shaking = ShakingHands(Arc::clone(self));
        (before < limit).then_some(shaking)
    }

    /// Enters a client; `None` if not even a refusal can be spent on it.
    pub(super) fn enter(&self, closer: Closer, peer: String, may: bool) -> Option<Arc<Client>> {
        let limit = self.plan.limits.clients;
        let mut roster = self.roster();
        if self.is_stopping() || roster.present.len() >= limit + TURNED_AWAY {
            return None;
        }
        roster.came += 1;
        let client = Arc::new(Client {
            id: roster.came,
            peer,
            admitted: may && roster.admitted < limit,
            came: Instant::now(),
            closer,
            beat: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            closed_for: OnceLock::new(),
        });
        roster.admitted += usize::from(client.admitted);
        roster.present.insert(client.id, Arc::clone(&client));
        drop(roster);
        self.changed.notify_all();
        Some(client)
    }

    /// Strikes a client out, and keeps its counts.
    pub(super) fn leave(&self, client: &Client) {
        let mut roster = self.roster();
        if roster.present.remove(&client.id).is_some() && client.admitted {
            roster.admitted -= 1;
            if client.was_served() {
                roster.left = Some(Instant::now());
            }
            let (messages, bytes) = client.counted();
            self.totals.messages.fetch_add(messages, Ordering::Relaxed);
            self.totals.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        drop(roster);
        self.changed.notify_all();
        if let Some(reason) = client.closed_for.get() {
            self.notices
                .say(|| format!("closed {}: {reason}", client.peer));
        }
    }

    /// Waits for one look at everybody: at once at the beginning, then after `tick`. While nobody is
    /// there it waits for the first; `None` when it is over.
    pub(super) fn wait_for_look(&self, tick: Duration) -> Option<Vec<Arc<Client>>> {
        let idle = |roster: &mut Roster| {
            roster.present.is_empty() && !self.plan.once && !self.is_stopping()
        };
        let roster = self.roster();
        let roster = self.changed.wait_while(roster, idle);
        let roster = roster.unwrap_or_else(PoisonError::into_inner);
        let (roster, _) = self
            .changed
            .wait_timeout_while(roster, tick, |_| !self.is_stopping())
            .unwrap_or_else(PoisonError::into_inner);
        (!self.is_stopping()).then(|| roster.present.values().cloned().collect())
    }

    /// How long ago the last client left that was served, whoever is there now.
    pub(super) fn deserted_for(&self) -> Option<Duration> {
        self.roster().left.map(|left| left.elapsed())
    }

    /// Whether a stream client is there.
    pub(super) fn is_occupied(&self) -> bool {
        self.roster().admitted > 0
    }

    /// Closes everybody, and lets nobody in any more.
    pub(super) fn close_all(&self) {
        let roster = self.roster();
        self.stopping.store(true, Ordering::Release);
        roster
            .present
            .values()
            .for_each(|client| client.closer.close());
        drop(roster);
        self.changed.notify_all();
    }

    /// Waits until every thread has ended, at most so long; how many have not.
    pub(super) fn wait_until_gone(&self, limit: Duration) -> usize {
        let (roster, _) = self
            .changed
            .wait_timeout_while(self.roster(), limit, |roster| roster.threads > 0)
            .unwrap_or_else(PoisonError::into_inner);
        roster.threads
    }

    pub(super) fn summary(&self) -> ServeSummary {
        let roster = self.roster();
        let of = |total: &AtomicU64| total.load(Ordering::Relaxed);
        let mut summary = ServeSummary {
            clients: of(&self.totals.clients),
            refused: of(&self.totals.refused),
            messages: of(&self.totals.messages),
            bytes: of(&self.totals.bytes),
            dropped_datagrams: of(&self.totals.dropped_datagrams),
            ..ServeSummary::default()
        };
        for client in roster.present.values() {
            let (messages, bytes) = client.counted();
            summary.messages += messages;
            summary.bytes += bytes;
        }
        summary
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        // Every change of it is whole before anything could panic.
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A newcomer in its handshake.
#[derive(Debug)]
pub(super) struct ShakingHands(Arc<Clients>);

impl Drop for ShakingHands {
    fn drop(&mut self) {
        self.0.shaking_hands.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A thread of ours, while it runs.
struct Present(Arc<Clients>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.roster().threads -= 1;
        self.0.changed.notify_all();
    }
}

impl Client {
    /// What it has done so far, for whoever watches: 0 until it has said what it wants, then odd while
    /// we send to it and even while we wait for it.
    pub(super) fn beat(&self) -> u64 {
        self.beat.load(Ordering::Relaxed)
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn came(&self) -> Instant {
        self.came
    }

    /// It has said what it wants, and gets it.
    pub(super) fn served(&self, totals: &Totals) {
        self.beat.store(2, Ordering::Relaxed);
        totals.clients.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes came and are being sent back. Only its own thread calls this, so there is nothing to lose
    /// between load and store.
    #[inline]
    pub(super) fn sending(&self) {
        self.beat.store(self.beat() + 1, Ordering::Relaxed);
    }

    /// What was being sent is sent.
    #[inline]
    pub(super) fn sent(&self) {
        self.beat.store(self.beat() + 1, Ordering::Relaxed);
    }

    /// Something came that is not sent back.
    #[inline]
    pub(super) fn came_in(&self) {
        self.beat.store(self.beat() + 2, Ordering::Relaxed);
    }

    /// What it has sent so far, in all.
    #[inline]
    pub(super) fn count(&self, messages: u64, bytes: u64) {
        self.messages.store(messages, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Closes it, for a reason that its leaving tells.
    pub(super) fn close(&self, reason: String) {
        let _ = self.closed_for.set(reason);
        self.closer.close();
    }

    fn was_served(&self) -> bool {
        self.beat() > 0
    }

    fn counted(&self) -> (u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.messages), of(&self.bytes))
    }
}

/// Clients beyond the limit that are told so; more are closed without a word.
const TURNED_AWAY: usize = 64;

/// Nothing of ours goes deep; a thousand clients cost address space only.
const STACK_BYTES: usize = 256 * 1024;
