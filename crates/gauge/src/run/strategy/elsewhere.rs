//! Both streams to a `serve` elsewhere: what it counted is the receiver's view.

use std::net::Shutdown;
use std::time::{Duration, Instant};

use tautline::{IoThread, Strategy, Tls};

use super::library::{flush, stream};
use super::row::{Arrived, ControlRun, LibraryRun};
use super::{Sent, produce};
use crate::clock::now_ns;
use crate::control::{End, StreamWriter};
use crate::handshake::socket::SocketLine;
use crate::handshake::{COUNTS_LIMIT, Fault, Line, MEETING_LIMIT, ask_counts};
use crate::ping::Stop;
use crate::plan::{CONTENT_PASS_MESSAGES, OnRefused, Transport};
use crate::run::remote::{Raw, Remote};
use crate::run::site::Site;
use crate::run::{BenchErrorKind, Broken};
use crate::stamp::Stamp;
use crate::stream::peer::{Beginning, Peer};
use crate::wire::{Counts, Mode};

/// The library's stream: an application thread sends on a link.
pub(super) fn library(
    site: &Site,
    remote: &Remote,
    strategy: Strategy,
    duration: Duration,
    on_refused: OnRefused,
) -> Result<LibraryRun, Broken> {
    let explain = |why| site.explain(why);
    let io = site.io_thread(site.seats.client("client-io"))?;
    let mut pass = meet(site, &io, remote, strategy, Mode::Echo)?;
    let stamp = pass.stamp;
    let pass_corrupted = compare_contents(site, &mut pass.line, stamp).map_err(explain)?;
    pass.link.abort();

    let mut peer = meet(site, &io, remote, strategy, Mode::Sink)?;
    let before = peer.link.statistics().sending;
    let mut message = vec![0; site.payload_bytes];
    let produced = stream(
        site,
        &peer.link,
        peer.stamp,
        &mut message,
        duration,
        on_refused,
    )
    .map_err(|why| explain(format!("{why}: {}", peer.why_lost())))?;
    let flushed = flush(site, &peer.link).map_err(explain)?;
    // The account is taken before the question, which is no part of the stream.
    let sending = peer.link.statistics().sending;
    if !flushed {
        return Err(explain("the server takes nothing any more".to_owned()));
    }
    site.pulse.allow(COUNTS_LIMIT);
    let counts = peer.counts().map_err(explain)?;
    peer.link.abort();
    Ok(LibraryRun::new(
        produced,
        &before,
        &sending,
        Arrived::by_counts(&counts),
        flushed,
        pass_corrupted,
    ))
}

/// The control's stream: a raw blocking socket, one write a message.
pub(super) fn control(
    site: &Site,
    remote: &Remote,
    duration: Duration,
) -> Result<ControlRun, Broken> {
    let explain = |why| site.explain(why);
    let pass = remote.raw(site, Mode::Echo).map_err(Broken::setup)?;
    let mut line = line(site, &pass);
    let corrupted = compare_contents(site, &mut line, pass.stamp).map_err(explain)?;
    if corrupted > 0 {
        // Nothing beside a control that changes bytes could be believed.
        return Err(explain(format!(
            "control: {corrupted} messages came back changed"
        )));
    }

    let raw = remote.raw(site, Mode::Sink).map_err(Broken::setup)?;
    write(site, &raw, duration).map_err(explain)?;
    let counts = counts(site, &raw).map_err(explain)?;
    Ok(ControlRun::new(
        site.payload_bytes,
        &Arrived::by_counts(&counts),
    ))
}

/// A link that has agreed, and that the watching thread can close.
fn meet<'a>(
    site: &'a Site,
    io: &IoThread,
    remote: &Remote,
    strategy: Strategy,
    mode: Mode,
) -> Result<Peer<'a>, Broken> {
    let hello = remote.hello(site, mode);
    let peer = Peer::meet(
        io,
        &Beginning {
            address: &remote.reached,
            strategy,
            max_queue_delay: None,
            // bench has no server of TLS elsewhere: its addresses are refused.
            tls: &Tls::default(),
            hello: &hello,
            seat: site.seats.client("client-io"),
            register: &site.register,
        },
        site.pulse.stop_flag(),
    )
    .map_err(|error| match error.kind {
        BenchErrorKind::Setup => Broken::Setup(error.message),
        BenchErrorKind::Partial => Broken::Partial(error.message),
    })?;
    let closing = peer.link.clone();
    site.pulse.on_close(move || closing.abort());
    Ok(peer)
}

fn line<'a>(site: &'a Site, raw: &'a Raw) -> SocketLine<'a> {
    let stop = Stop::new(site.pulse.stop_flag());
    SocketLine::new(&raw.socket, site.transport, stop).with_frames_of(site.payload_bytes)
}

/// Sends a few messages one at a time, and compares every byte of what comes back; how many came back
/// changed.
///
/// A message that does not come back in time ends the pass: what is lost is the stream's to count, and
/// where everything is lost there is nothing to compare.
fn compare_contents(site: &Site, line: &mut impl Line, stamp: Stamp) -> Result<u64, String> {
    let mut message = vec![0; site.payload_bytes];
    let mut corrupted = 0;
    for sequence in 0..CONTENT_PASS_MESSAGES {
        stamp.write(&mut message, sequence, true);
        match line
            .say(&message)
            .and_then(|()| hear(site, line, stamp, sequence))
        {
            Ok(true) => {}
            Ok(false) | Err(Fault::Foreign | Fault::Secured) => corrupted += 1,
            Err(Fault::TimedOut | Fault::Stopped) => break,
            Err(Fault::Ended) => return Err("the server ended the connection".to_owned()),
            Err(Fault::Unreachable(why) | Fault::Failed(why)) => return Err(why),
        }
        site.pulse.beat(now_ns());
    }
    site.pulse.beat(now_ns());
    Ok(corrupted)
}

/// Whether this message came back as it was. What belongs to earlier ones is passed over.
fn hear(site: &Site, line: &mut impl Line, stamp: Stamp, sequence: u64) -> Result<bool, Fault> {
    let until = Instant::now() + REPLY_LIMIT;
    loop {
        let reply = line.hear(until)?;
        match stamp.judge(&reply, site.payload_bytes, true) {
            Some(found) if found != sequence => {}
            found => return Ok(found.is_some()),
        }
    }
}

fn write(site: &Site, raw: &Raw, duration: Duration) -> Result<(), String> {
    let socket = raw.socket.try_clone().map_err(|cause| cause.to_string())?;
    let end = End::of(socket, site.transport);
    let mut writer = StreamWriter::new(end, site.transport, site.payload_bytes);
    // A raw writer is never refused: it waits in the system call.
    produce(site, duration, OnRefused::Yield, |sequence| {
        raw.stamp.write(writer.payload_mut(), sequence, false);
        writer
            .send()
            .map(|()| Sent::Accepted)
            .map_err(|cause| format!("control: send: {cause}"))
    })
    .map(|_| ())
}

/// What the server has counted of the control, once all of it has reached the server.
fn counts(site: &Site, raw: &Raw) -> Result<Counts, String> {
    site.pulse.allow(COUNTS_LIMIT);
    let limit = match site.transport {
        Transport::Udp => MEETING_LIMIT,
        Transport::Tcp | Transport::Tls | Transport::Uds | Transport::Serial => {
            raw.socket
                .shutdown(Shutdown::Write)
                .map_err(|cause| format!("control: end the stream: {cause}"))?;
            COUNTS_LIMIT
        }
    };
    let until = Instant::now() + limit;
    let mut line = line(site, raw);
    ask_counts(&mut line, site.transport, raw.cookie, until, &mut |_| {})
        .map_err(|why| format!("control: {why}"))
}

/// Less than the silence that ends a run.
const REPLY_LIMIT: Duration = Duration::from_secs(4);
