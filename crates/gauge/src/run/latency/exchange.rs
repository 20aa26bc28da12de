//! The closed loop: stamp, send, wait, record. Every driver that waits on the measuring thread runs
//! through this one loop, the control too, so that they differ in nothing else.

use crate::clock::now_ns;
use crate::recorder::Recorder;
use crate::run::supervise::Pulse;
use crate::stamp::Stamp;

/// One way of sending a message and waiting for its reply.
pub(super) trait Exchange {
    /// How its messages are marked.
    fn stamp(&self) -> Stamp;

    /// The payload of the next message.
    fn payload_mut(&mut self) -> &mut [u8];

    /// Sends the message. `whole` asks for the contents of the reply to be compared too, where the
    /// caller does not do that itself.
    ///
    /// # Errors
    /// Why it could not be sent, in words.
    fn send(&mut self, whole: bool) -> Result<(), String>;

    /// Waits for one reply.
    ///
    /// # Errors
    /// [`Fault`].
    fn recv(&mut self) -> Result<Reply<'_>, Fault>;
}

/// One reply.
#[derive(Debug)]
pub(super) enum Reply<'a> {
    /// As it came; judged after the clock has been read.
    Bytes(&'a [u8]),
    /// Judged where it came: its sequence number, or `None` if it was corrupted.
    Judged(Option<u64>),
}

/// Why there is no reply.
#[derive(Debug)]
pub(super) enum Fault {
    /// It did not come in time; the exchange goes on.
    NoReply,
    /// The exchange is over.
    Broken(String),
}

/// What to do in one block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    /// So many echoes,
    pub(super) echoes: u64,
    /// but none that would begin after this.
    pub(super) until_ns: u64,
    /// Fill and compare whole contents: never in timed blocks.
    pub(super) whole: bool,
}

/// What was done in one block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// Echoes, lost ones among them.
    pub(super) echoes: u64,
    /// From the first send to the last reply.
    pub(super) elapsed_ns: u64,
}

/// Runs one block; `sequence` is the number of the next message, and stays so.
pub(super) fn run_block(
    exchange: &mut impl Exchange,
    order: Order,
    sequence: &mut u64,
    recorder: &mut Recorder,
    pulse: &Pulse,
) -> Result<Done, String> {
    let payload_bytes = exchange.payload_mut().len();
    let stamp = exchange.stamp();
    let start_ns = now_ns();
    pulse.begin_turn(start_ns);
    let mut end_ns = start_ns;
    let mut echoes = 0;
    while echoes < order.echoes && end_ns < order.until_ns && !pulse.is_stopping() {
        stamp.write(exchange.payload_mut(), *sequence, order.whole);
        let sent_ns = now_ns();
        exchange.send(order.whole)?;
        let sent = Sent {
            stamp,
            payload_bytes,
            sequence: *sequence,
            whole: order.whole,
            at_ns: sent_ns,
        };
        end_ns = await_reply(exchange, sent, recorder, pulse)?;
        *sequence += 1;
        echoes += 1;
    }
    Ok(Done {
        echoes,
        elapsed_ns: end_ns - start_ns,
    })
}

/// A message under way, and how its reply is known.
#[derive(Clone, Copy)]
struct Sent {
    stamp: Stamp,
    payload_bytes: usize,
    sequence: u64,
    whole: bool,
    at_ns: u64,
}

/// Waits for the reply to `sent` and returns when it came, or when it was given up.
#[inline]
fn await_reply(
    exchange: &mut impl Exchange,
    sent: Sent,
    recorder: &mut Recorder,
    pulse: &Pulse,
) -> Result<u64, String> {
    loop {
        match exchange.recv() {
            Ok(reply) => {
                let received_ns = now_ns();
                // Only what arrives is a beat: a peer that answers nothing any more ends the run.
                pulse.beat(received_ns);
                let found = match reply {
                    Reply::Bytes(message) => {
                        sent.stamp.judge(message, sent.payload_bytes, sent.whole)
                    }
                    Reply::Judged(found) => found,
                };
                match found {
                    Some(found) if found == sent.sequence => {
                        recorder.record(received_ns - sent.at_ns);
                        return Ok(received_ns);
                    }
                    // The reply to an earlier message, given up as lost or sent twice.
                    Some(_) => recorder.faults_mut().stray += 1,
                    None => {
                        recorder.faults_mut().corrupted += 1;
                        return Ok(received_ns);
                    }
                }
            }
            Err(Fault::NoReply) => {
                recorder.faults_mut().lost += 1;
                return Ok(now_ns());
            }
            Err(Fault::Broken(why)) => return Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::probe;

    /// An exchange whose replies are written down beforehand, one list for each message.
    struct Scripted {
        payload: Vec<u8>,
        script: VecDeque<Vec<Result<Vec<u8>, Fault>>>,
        pending: VecDeque<Result<Vec<u8>, Fault>>,
        reply: Vec<u8>,
    }

    impl Scripted {
        fn new(script: Vec<Vec<Result<Vec<u8>, Fault>>>) -> Self {
            Self {
                payload: vec![0; 32],
                script: script.into(),
                pending: VecDeque::new(),
                reply: Vec::new(),
            }
        }
    }

    impl Exchange for Scripted {
        fn stamp(&self) -> Stamp {
            Stamp::Probe
        }

        fn payload_mut(&mut self) -> &mut [u8] {
            &mut self.payload
        }

        fn send(&mut self, _whole: bool) -> Result<(), String> {
            self.pending = self.script.pop_front().ok_or("the script is over")?.into();
            Ok(())
        }

        fn recv(&mut self) -> Result<Reply<'_>, Fault> {
            self.reply = self
                .pending
                .pop_front()
                .expect("the loop waits once too often")?;
            Ok(Reply::Bytes(&self.reply))
        }
    }

    fn message(sequence: u64) -> Result<Vec<u8>, Fault> {
        let mut message = vec![0; 32];
        probe::fill(&mut message, sequence);
        Ok(message)
    }

    fn block(script: Vec<Vec<Result<Vec<u8>, Fault>>>) -> (Result<Done, String>, Recorder, u64) {
        let mut recorder = Recorder::new();
        let mut sequence = 5;
        let order = Order {
            echoes: script.len() as u64,
            until_ns: u64::MAX,
            whole: false,
        };
        let mut exchange = Scripted::new(script);
        let done = run_block(
            &mut exchange,
            order,
            &mut sequence,
            &mut recorder,
            &Pulse::new(true),
        );
        (done, recorder, sequence)
    }

    #[test]
    fn each_reply_is_recorded_once() {
        let (done, recorder, next) = block(vec![vec![message(5)], vec![message(6)]]);
        assert_eq!(done.unwrap().echoes, 2);
        assert_eq!(recorder.count(), 2);
        assert_eq!(next, 7);
    }

    #[test]
    fn a_lost_reply_that_comes_after_all_is_a_stray() {
        let script = vec![vec![Err(Fault::NoReply)], vec![message(5), message(6)]];
        let (_, recorder, _) = block(script);
        assert_eq!(recorder.count(), 1);
        assert_eq!((recorder.faults().lost, recorder.faults().stray), (1, 1));
    }

    #[test]
    fn a_corrupted_reply_gives_no_round_trip() {
        let (done, recorder, _) = block(vec![vec![Ok(vec![0; 32])], vec![message(6)]]);
        assert_eq!(done.unwrap().echoes, 2);
        assert_eq!((recorder.count(), recorder.faults().corrupted), (1, 1));
    }

    #[test]
    fn what_breaks_ends_the_block_with_its_reason() {
        let script = vec![
            vec![message(5)],
            vec![Err(Fault::Broken("gone".to_owned()))],
        ];
        let (done, recorder, _) = block(script);
        assert_eq!(done, Err("gone".to_owned()));
        assert_eq!(recorder.count(), 1, "what was measured before stands");
    }

    #[test]
    fn a_block_whose_time_is_over_does_nothing() {
        let mut recorder = Recorder::new();
        let order = Order {
            echoes: 5,
            until_ns: 0,
            whole: false,
        };
        let mut exchange = Scripted::new(vec![vec![message(0)]]);
        let done = run_block(
            &mut exchange,
            order,
            &mut 0,
            &mut recorder,
            &Pulse::new(true),
        );
        assert_eq!(done.unwrap().echoes, 0);
    }
}
