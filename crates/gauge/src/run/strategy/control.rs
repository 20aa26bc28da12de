//! The control's stream: raw blocking sockets, one write a message.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::post::{Judge, Judged, Post, Receipt};
use super::row::{Arrived, ControlRun};
use super::{Produced, Sent, produce};
use crate::control::{Closer, End, StreamWriter, receive_stream};
use crate::plan::{OnRefused, Transport};
use crate::probe;
use crate::run::Broken;
use crate::run::site::Site;

/// Compares contents on one pair of sockets, then measures on a fresh one.
pub(super) fn measure(site: &Site, duration: Duration) -> Result<ControlRun, Broken> {
    let explain = |why| site.explain(why);
    let mut pass = Stream::start(site, true)?;
    pass.lockstep(site).map_err(explain)?;
    let corrupted = pass
        .finish()
        .map_or(0, |receipt| receipt.arrivals.integrity(0).corrupted);
    if corrupted > 0 {
        // Nothing beside a control that changes bytes could be believed.
        return Err(explain(format!(
            "control: {corrupted} messages arrived changed"
        )));
    }

    let mut stream = Stream::start(site, false)?;
    let produced = stream.produce(site, duration).map_err(explain)?;
    // Whether it gave up shows as fewer messages received.
    let _ = stream.drain(site).map_err(explain)?;
    let arrived = stream
        .finish()
        .map(|receipt| Arrived::by_receipt(site.payload_bytes, &produced, &receipt));
    let arrived = arrived.unwrap_or_default();
    Ok(ControlRun::new(site.payload_bytes, &arrived))
}

/// A raw writer and its receiver, which ends when this is dropped.
struct Stream {
    writer: StreamWriter,
    closer: Closer,
    receiver: Option<JoinHandle<()>>,
    post: Arc<Post>,
}

impl Stream {
    fn start(site: &Site, whole: bool) -> Result<Self, Broken> {
        let (client, server) = site.control_pair()?;
        let closer = server.closer().map_err(Broken::setup)?;
        for end in [&client, &server] {
            let end = end.closer().map_err(Broken::setup)?;
            site.pulse.on_close(move || end.shutdown());
        }
        let post = Arc::new(Post::new(whole));
        let (own, payload_bytes) = (Arc::clone(&post), site.payload_bytes);
        let receiver = site.spawn(site.seats.server("control-receiver"), move || {
            receive(&server, payload_bytes, &own);
        })?;
        let writer = StreamWriter::new(client, site.transport, site.payload_bytes);
        Ok(Self {
            writer,
            closer,
            receiver: Some(receiver),
            post,
        })
    }

    fn lockstep(&mut self, site: &Site) -> Result<(), String> {
        let Self { writer, post, .. } = self;
        let mut message = vec![0; site.payload_bytes];
        post.lockstep(&mut message, &site.pulse, |message| send(writer, message))
    }

    fn produce(&mut self, site: &Site, duration: Duration) -> Result<Produced, String> {
        let writer = &mut self.writer;
        // A raw writer is never refused: it waits in the system call.
        produce(site, duration, OnRefused::Yield, |sequence| {
            probe::stamp(writer.payload_mut(), sequence);
            writer
                .send()
                .map(|()| Sent::Accepted)
                .map_err(|cause| said("send", &cause))
        })
    }

    fn drain(&mut self, site: &Site) -> Result<bool, String> {
        let Self { writer, post, .. } = self;
        let mut message = vec![0; site.payload_bytes];
        let repeat = site.transport == Transport::Udp;
        post.drain(&mut message, &site.pulse, repeat, |message| {
            send(writer, message)
        })
    }

    /// Ends the receiver and hands over what it found.
    fn finish(mut self) -> Option<Receipt> {
        self.end();
        self.post.take_receipt()
    }

    fn end(&mut self) {
        self.closer.shutdown();
        if let Some(receiver) = self.receiver.take() {
            // A receiver that panicked has left no receipt, which says enough.
            let _ = receiver.join();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.end();
    }
}

fn send(writer: &mut StreamWriter, message: &[u8]) -> Result<(), String> {
    writer.payload_mut().copy_from_slice(message);
    writer.send().map_err(|cause| said("send", &cause))
}

fn receive(end: &End, payload_bytes: usize, post: &Post) {
    let mut judge = Judge::new(payload_bytes, post.whole);
    // However it ends: what is missing is the stream's loss.
    let _ = receive_stream(end, payload_bytes, |message, at_ns: u64| {
        match judge.judge(message, at_ns) {
            Judged::Message => post.received_so_far(judge.received()),
            Judged::Mark => post.marked(),
        }
    });
    post.ended(judge.receipt(|at_ns| at_ns, None));
}

fn said(step: &str, cause: &io::Error) -> String {
    format!("control: {step}: {cause}")
}
