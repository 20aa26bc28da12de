//! The library's stream: an application thread sends on a link, a server's callback receives.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tautline::{
    Closed, FlushError, Handler, IoThread, Link, LinkOptions, Opened, Received, Refusal, SendError,
    Strategy,
};

use super::post::{Judge, Judged, Post, Progress};
use super::row::{Arrived, LibraryRun};
use super::{Produced, Sent, produce};
use crate::clock::now_ns;
use crate::placement::{Register, Seat};
use crate::plan::{OnRefused, Transport};
use crate::run::Broken;
use crate::run::far_end::FarEnd;
use crate::run::site::{SETUP_LIMIT, Site};
use crate::stamp::Stamp;

/// Compares contents on one link, then measures on a fresh one of the same server.
pub(super) fn measure(
    site: &Site,
    strategy: Strategy,
    duration: Duration,
    on_refused: OnRefused,
) -> Result<LibraryRun, Broken> {
    let explain = |why| site.explain(why);
    let ends = Ends::start(site, strategy)?;

    let (pass, post) = ends.connect(site, true)?;
    let mut message = vec![0; site.payload_bytes];
    post.lockstep(&mut message, &site.pulse, |message| {
        send_mark(&pass, message)
    })
    .map_err(explain)?;
    pass.abort();

    let (link, post) = ends.connect(site, false)?;
    let before = link.statistics().sending;
    let produced = stream(
        site,
        &link,
        Stamp::Probe,
        &mut message,
        duration,
        on_refused,
    )
    .map_err(explain)?;
    let flushed = flush(site, &link).map_err(explain)?;
    // The account is taken before the mark, which is no part of the stream.
    let sending = link.statistics().sending;
    let repeat = site.transport == Transport::Udp;
    let marked = flushed
        && post
            .drain(&mut message, &site.pulse, repeat, |message| {
                send_mark(&link, message)
            })
            .map_err(explain)?;
    link.abort();
    let pass_corrupted = ends.finish();
    let receipt = post.take_receipt();
    let arrived = receipt
        .as_ref()
        .map(|receipt| Arrived::by_receipt(site.payload_bytes, &produced, receipt));
    Ok(LibraryRun::new(
        produced,
        &before,
        &sending,
        arrived.unwrap_or_default(),
        marked,
        pass_corrupted,
    ))
}

/// Sends on `link` for `duration`.
pub(super) fn stream(
    site: &Site,
    link: &Link,
    stamp: Stamp,
    message: &mut [u8],
    duration: Duration,
    on_refused: OnRefused,
) -> Result<Produced, String> {
    produce(site, duration, on_refused, |sequence| {
        stamp.write(message, sequence, false);
        match link.send(message) {
            Ok(()) => Ok(Sent::Accepted),
            Err(SendError::Full) => Ok(Sent::Refused),
            Err(error) => Err(format!("send: {error}")),
        }
    })
}

/// Waits until everything accepted is written; false when that made no progress for too long.
pub(super) fn flush(site: &Site, link: &Link) -> Result<bool, String> {
    let mut progress = Progress::new();
    loop {
        match link.flush(FLUSH_STEP) {
            Ok(()) => return Ok(true),
            Err(FlushError::TimedOut) => {
                let written = link.statistics().sending.written.messages;
                if site.pulse.is_closed() || progress.has_stopped(written, &site.pulse) {
                    return Ok(false);
                }
            }
            Err(error) => return Err(format!("flush: {error}")),
        }
    }
}

fn send_mark(link: &Link, message: &[u8]) -> Result<(), String> {
    match link.send(message) {
        // Full only where an earlier mark still waits.
        Ok(()) | Err(SendError::Full) => Ok(()),
        Err(error) => Err(format!("send: {error}")),
    }
}

/// The receiving end and an I/O thread for its clients.
struct Ends {
    client_io: IoThread,
    far_end: FarEnd,
    options: LinkOptions,
    posts: Arc<Mutex<Vec<Arc<Post>>>>,
}

impl Ends {
    fn start(site: &Site, strategy: Strategy) -> Result<Self, Broken> {
        let seat = site.seats.server("server-io");
        let posts: Arc<Mutex<Vec<Arc<Post>>>> = Arc::default();
        let (current, register) = (Arc::clone(&posts), Arc::clone(&site.register));
        let payload_bytes = site.payload_bytes;
        let address = site.addresses.asked(site.transport);
        let far_end = FarEnd::start(site, address.as_ref(), strategy, move || {
            let posts = current.lock().unwrap_or_else(PoisonError::into_inner);
            let post = posts
                .last()
                .ok_or_else(|| Refusal::from("nobody is expected"))?;
            Ok(Inspector {
                judge: Judge::new(payload_bytes, post.whole),
                post: Arc::clone(post),
                base: (Instant::now(), now_ns()),
                seat,
                register: Arc::clone(&register),
            })
        })?;
        let client_io = site.io_thread(site.seats.client("client-io"))?;
        Ok(Self {
            client_io,
            far_end,
            options: site.link_options(strategy)?,
            posts,
        })
    }

    /// A fresh link, and what its receiver will say. The calling thread is its sender.
    fn connect(&self, site: &Site, whole: bool) -> Result<(Link, Arc<Post>), Broken> {
        let post = Arc::new(Post::new(whole));
        self.posts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::clone(&post));
        let sender = Sender {
            seat: site.seats.client("client-io"),
            register: Arc::clone(&site.register),
        };
        let address = self.far_end.meet(site)?;
        let link = self
            .client_io
            .connect(&address, self.options.clone(), sender)
            .map_err(Broken::setup)?;
        link.wait_open(SETUP_LIMIT).map_err(Broken::setup)?;
        site.secured(link.secured())?;
        let closing = link.clone();
        site.pulse.on_close(move || closing.abort());
        Ok((link, post))
    }

    /// Ends the server; how many messages of the pass were corrupted.
    fn finish(self) -> u64 {
        self.far_end.abort();
        let posts = self.posts.lock().unwrap_or_else(PoisonError::into_inner);
        let pass = posts.first().and_then(|post| post.take_receipt());
        pass.map_or(0, |receipt| receipt.arrivals.integrity(0).corrupted)
    }
}

/// The receiving end.
struct Inspector {
    judge: Judge<Instant>,
    post: Arc<Post>,
    /// The same moment by both clocks.
    base: (Instant, u64),
    seat: Seat,
    register: Arc<Register>,
}

impl Handler for Inspector {
    fn opened(&mut self, _link: &Link, _opened: &Opened) {
        self.register.enter(self.seat);
    }

    fn message(&mut self, _link: &Link, message: &[u8], received: Received) {
        match self.judge.judge(message, received.at) {
            Judged::Message => self.post.received_so_far(self.judge.received()),
            Judged::Mark => self.post.marked(),
        }
    }

    fn closed(&mut self, link: &Link, _closed: &Closed) {
        let (instant, ns) = self.base;
        let to_ns = |at: Instant| {
            ns + u64::try_from(at.saturating_duration_since(instant).as_nanos()).unwrap_or(0)
        };
        // Here and not at the mark: the link counts a read when all its messages are delivered.
        let receiving = link.statistics().receiving;
        self.post.ended(self.judge.receipt(to_ns, Some(receiving)));
    }
}

/// The sending end hears nothing.
struct Sender {
    seat: Seat,
    register: Arc<Register>,
}

impl Handler for Sender {
    fn opened(&mut self, _link: &Link, _opened: &Opened) {
        self.register.enter(self.seat);
    }

    fn message(&mut self, _link: &Link, _message: &[u8], _received: Received) {}
}

const FLUSH_STEP: Duration = Duration::from_millis(100);
