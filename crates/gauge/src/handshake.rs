//! The client's half of the conversation with `serve`: agreeing before the first message, and asking
//! for the counts behind the last, each within a bound.
//!
//! What is said and how it is judged stands here once. What carries it is a [`Line`]: a raw socket
//! ([`socket`]), a link with callbacks ([`link`]), a direct link that frames ([`direct`]) or one that
//! carries bytes as a socket does ([`session`]).

pub(crate) mod direct;
pub(crate) mod link;
pub(crate) mod session;
pub(crate) mod socket;

use std::time::{Duration, Instant};

use crate::clock::now_ns;
use crate::plan::Transport;
use crate::wire::{
    Counts, HEADER_BYTES, HELLO_DATAGRAM_BYTES, Header, Hello, Kind, Mode, PeerRecord, Welcome,
    WireError,
};

/// Carries messages to a server and back: frames on a stream, datagrams over UDP and serial lines.
pub(crate) trait Line {
    /// Sends one message.
    ///
    /// # Errors
    /// [`Fault`], where the line knows at once.
    fn say(&mut self, message: &[u8]) -> Result<(), Fault>;

    /// The next message, if it comes by then.
    ///
    /// # Errors
    /// [`Fault`].
    fn hear(&mut self, until: Instant) -> Result<Vec<u8>, Fault>;

    /// How long an answer is waited for before a datagram is said again.
    fn patience(&self) -> Duration {
        AGAIN
    }
}

/// Why nothing is heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Not in time.
    TimedOut,
    /// The run is to end.
    Stopped,
    /// The other side ended the connection.
    Ended,
    /// What came is no frame of the protocol.
    Foreign,
    /// It is a record of TLS.
    Secured,
    /// The host says that nobody listens there, in these words.
    Unreachable(String),
    /// What the system, or the framing, said.
    Failed(String),
}

/// What was agreed.
#[derive(Debug)]
pub(crate) struct Agreed {
    /// Who the server is.
    pub(crate) peer: PeerRecord,
    /// What every datagram has to carry; 0 on streams.
    pub(crate) cookie: u64,
}

/// Agrees on a mode and a message size, and says who we are.
///
/// # Errors
///
/// Why not, in words that need the address before them.
pub(crate) fn shake_hands(
    line: &mut impl Line,
    transport: Transport,
    hello: &Hello,
    until: Instant,
) -> Result<Agreed, String> {
    let (cookie, body) = match transport {
        Transport::Tcp | Transport::Tls | Transport::Uds => {
            let heard = line
                .say(&hello.encode())
                .and_then(|()| line.hear(until))
                .map_err(no_handshake)?;
            (0, heard)
        }
        Transport::Udp => {
            let question = Question::hello(hello);
            ask(line, &question, until, &mut |_| {}).map_err(no_answer)?
        }
        Transport::Serial => {
            let question = Question::bare(Kind::Hello, 0, &hello.encode(), Kind::Welcome);
            ask(line, &question, until, &mut |_| {}).map_err(no_answer_on_a_line)?
        }
    };
    let welcome = Welcome::decode(&body).map_err(|why| why.to_string())?;
    match welcome.refusal {
        Some(refusal) => Err(format!("it refuses: {}", refusal.reason)),
        None => Ok(Agreed {
            peer: welcome.record,
            cookie,
        }),
    }
}

/// What the server has counted. On a stream our side has to have ended before. Other datagrams that
/// come meanwhile are handed to `stray`.
///
/// # Errors
///
/// Why it cannot be known.
pub(crate) fn ask_counts(
    line: &mut impl Line,
    transport: Transport,
    cookie: u64,
    until: Instant,
    stray: &mut dyn FnMut(&[u8]),
) -> Result<Counts, String> {
    let body = match transport {
        Transport::Tcp | Transport::Tls | Transport::Uds => line.hear(until).map_err(no_counts)?,
        Transport::Udp => {
            let (_, body) =
                ask(line, &Question::counts(cookie), until, stray).map_err(no_counts)?;
            body
        }
        Transport::Serial => {
            let question = Question::bare(Kind::Question, cookie, &[], Kind::Counts);
            let (_, body) = ask(line, &question, until, stray).map_err(no_counts)?;
            body
        }
    };
    Counts::decode(&body).map_err(|why| why.to_string())
}

/// A hello of this mode and size from this machine.
pub(crate) fn hello(mode: Mode, message_bytes: usize, record: &PeerRecord) -> Hello {
    Hello {
        mode,
        message_bytes: message_bytes as u32,
        record: record.clone(),
    }
}

/// A datagram that is sent until its answer comes.
struct Question {
    datagram: Vec<u8>,
    nonce: u64,
    answer: Kind,
}

impl Question {
    fn hello(hello: &Hello) -> Self {
        let mut body = hello.encode();
        if HEADER_BYTES + body.len() > HELLO_DATAGRAM_BYTES {
            // Names of unheard-of length: who we are matters less than that it fits.
            let nameless = Hello {
                record: PeerRecord {
                    version: hello.record.version.clone(),
                    boot_id: hello.record.boot_id.clone(),
                    network_namespace: hello.record.network_namespace,
                    ..PeerRecord::default()
                },
                ..hello.clone()
            };
            body = nameless.encode();
        }
        Self::new(Kind::Hello, 0, &body, Kind::Welcome)
    }

    fn counts(cookie: u64) -> Self {
        Self::new(Kind::Question, cookie, &[], Kind::Counts)
    }

    fn new(kind: Kind, word: u64, body: &[u8], answer: Kind) -> Self {
        Self::of_length(HELLO_DATAGRAM_BYTES, kind, word, body, answer)
    }

    /// Without padding, for a line: nobody can be made to flood others there, and it is slow.
    fn bare(kind: Kind, word: u64, body: &[u8], answer: Kind) -> Self {
        Self::of_length(HEADER_BYTES + body.len(), kind, word, body, answer)
    }

    fn of_length(length: usize, kind: Kind, word: u64, body: &[u8], answer: Kind) -> Self {
        let nonce = now_ns();
        let mut datagram = vec![0; length];
        datagram[HEADER_BYTES..HEADER_BYTES + body.len()].copy_from_slice(body);
        Header {
            kind,
            word,
            sequence: nonce,
        }
        .write(&mut datagram);
        Self {
            datagram,
            nonce,
            answer,
        }
    }

    /// The answer's word and what follows its header, if this is the answer.
    fn answered_by(&self, datagram: &[u8]) -> Option<(u64, Vec<u8>)> {
        let header = Header::read(datagram)?;
        let is_it = header.kind == self.answer && header.sequence == self.nonce;
        is_it.then(|| (header.word, datagram[HEADER_BYTES..].to_vec()))
    }
}

/// Sends until the answer comes.
fn ask(
    line: &mut impl Line,
    question: &Question,
    until: Instant,
    stray: &mut dyn FnMut(&[u8]),
) -> Result<(u64, Vec<u8>), Fault> {
    loop {
        line.say(&question.datagram)?;
        let again = until.min(Instant::now() + line.patience());
        loop {
            match line.hear(again) {
                Ok(datagram) => match question.answered_by(&datagram) {
                    Some(answer) => return Ok(answer),
                    None => stray(&datagram),
                },
                Err(Fault::TimedOut) if Instant::now() < until => break,
                Err(fault) => return Err(fault),
            }
        }
    }
}

fn no_handshake(fault: Fault) -> String {
    match fault {
        Fault::Ended => {
            "it ended the connection instead of a handshake: it is no `tautline serve`, or refuses us"
                .to_owned()
        }
        Fault::TimedOut => {
            "it took the connection and answers nothing: it is no `tautline serve`, or hangs"
                .to_owned()
        }
        Fault::Foreign => WireError::Foreign.to_string(),
        Fault::Secured => SECURED.to_owned(),
        Fault::Stopped => "interrupted".to_owned(),
        Fault::Unreachable(why) | Fault::Failed(why) => format!("handshake: {why}"),
    }
}

fn no_counts(fault: Fault) -> String {
    match fault {
        Fault::Ended => "it ended the connection before it said what it has counted".to_owned(),
        Fault::TimedOut => {
            "it was asked what it has counted and does not answer: it has ended, hangs, or the way \
             there is lost"
                .to_owned()
        }
        Fault::Foreign => WireError::Foreign.to_string(),
        Fault::Secured => SECURED.to_owned(),
        Fault::Stopped => "interrupted".to_owned(),
        Fault::Unreachable(why) => format!("{why}: nobody listens there any more"),
        Fault::Failed(why) => format!("ask for its counts: {why}"),
    }
}

/// What somebody hears who speaks plain text to a server of TLS.
const SECURED: &str = "it speaks TLS: its address begins with tls://";

/// A datagram's answer that does not come.
fn no_answer(fault: Fault) -> String {
    match fault {
        Fault::Unreachable(why) => format!("{why}: nobody listens there"),
        Fault::TimedOut => {
            "no answer: nobody listens there, it is no `tautline serve`, or a firewall is between"
                .to_owned()
        }
        Fault::Stopped => "interrupted".to_owned(),
        Fault::Foreign => WireError::Foreign.to_string(),
        Fault::Secured => SECURED.to_owned(),
        Fault::Ended => "the socket was closed".to_owned(),
        Fault::Failed(why) => format!("handshake: {why}"),
    }
}

/// The same where nothing tells whether somebody is at the other end.
fn no_answer_on_a_line(fault: Fault) -> String {
    match fault {
        Fault::TimedOut => {
            "no answer: no `tautline serve` is at the other end, the two ends are set differently (baud, \
             parity), or the cable is not crossed"
                .to_owned()
        }
        Fault::Ended => "the line was hung up: is it unplugged?".to_owned(),
        Fault::Unreachable(_)
        | Fault::Stopped
        | Fault::Foreign
        | Fault::Secured
        | Fault::Failed(_) => no_answer(fault),
    }
}

/// Connecting and agreeing, each.
pub(crate) const MEETING_LIMIT: Duration = Duration::from_secs(5);

/// What the kernels on the way still hold has to arrive before the counts come.
pub(crate) const COUNTS_LIMIT: Duration = Duration::from_secs(30);

/// How soon a stop is noticed.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// A datagram that has not been answered by then is sent again.
pub(crate) const AGAIN: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::wire::Refusal;

    /// A line on which what is heard is written down beforehand, or made of what was said.
    #[derive(Default)]
    struct Scripted {
        said: Vec<Vec<u8>>,
        heard: VecDeque<Result<Vec<u8>, Fault>>,
        answer: Option<fn(&[u8]) -> Vec<u8>>,
    }

    impl Line for Scripted {
        fn say(&mut self, message: &[u8]) -> Result<(), Fault> {
            self.said.push(message.to_vec());
            Ok(())
        }

        fn hear(&mut self, _until: Instant) -> Result<Vec<u8>, Fault> {
            match (self.heard.pop_front(), self.answer) {
                (Some(heard), _) => heard,
                (None, Some(answer)) => Ok(answer(self.said.last().expect("it was asked"))),
                (None, None) => Err(Fault::TimedOut),
            }
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn long_named() -> Hello {
        let record = PeerRecord {
            version: "1".to_owned(),
            host: Some("h".repeat(2_000)),
            boot_id: Some("b".to_owned()),
            ..PeerRecord::default()
        };
        hello(Mode::Echo, 64, &record)
    }

    /// Welcomes with the cookie 77.
    fn welcomed(question: &[u8]) -> Vec<u8> {
        let asked = Header::read(question).unwrap();
        let body = Welcome {
            refusal: None,
            record: PeerRecord::default(),
        }
        .encode();
        let mut answer = vec![0; HEADER_BYTES];
        answer.extend(body);
        Header {
            kind: Kind::Welcome,
            word: 77,
            sequence: asked.sequence,
        }
        .write(&mut answer);
        answer
    }

    #[test]
    fn a_datagram_is_said_again_until_its_own_answer_comes() {
        let mut line = Scripted {
            heard: [Err(Fault::TimedOut), Ok(vec![1, 2, 3])].into(),
            answer: Some(welcomed),
            ..Scripted::default()
        };
        let agreed = shake_hands(&mut line, Transport::Udp, &long_named(), soon()).unwrap();
        assert_eq!(agreed.cookie, 77);
        assert_eq!(line.said.len(), 2);
        assert_eq!(line.said[0], line.said[1]);
    }

    #[test]
    fn names_that_do_not_fit_a_datagram_are_left_out_and_the_rest_is_said() {
        let question = Question::hello(&long_named());
        assert_eq!(question.datagram.len(), HELLO_DATAGRAM_BYTES);
        let said = Hello::decode(&question.datagram[HEADER_BYTES..]).unwrap();
        assert_eq!((said.mode, said.message_bytes), (Mode::Echo, 64));
        assert_eq!(said.record.boot_id.as_deref(), Some("b"));
        assert_eq!(said.record.host, None);
    }

    #[test]
    fn a_refusal_and_another_protocol_are_told_in_words() {
        let refusal = Some(Refusal {
            reason: "full".to_owned(),
        });
        let record = PeerRecord::default();
        for (heard, expected) in [
            (Ok(Welcome { refusal, record }.encode()), "it refuses: full"),
            (
                Ok(b"220 smtp ready".to_vec()),
                "it does not speak the protocol of `tautline serve`",
            ),
            (
                Err(Fault::Ended),
                "it ended the connection instead of a handshake: it is no `tautline serve`, or \
                 refuses us",
            ),
        ] {
            let mut line = Scripted {
                heard: [heard].into(),
                ..Scripted::default()
            };
            let hello = hello(Mode::Sink, 64, &PeerRecord::default());
            let why = shake_hands(&mut line, Transport::Tcp, &hello, soon()).unwrap_err();
            assert_eq!(why, expected);
        }
    }

    #[test]
    fn what_comes_before_the_counts_is_handed_on() {
        let mut line = Scripted {
            heard: [Ok(vec![9; 40]), Err(Fault::Stopped)].into(),
            ..Scripted::default()
        };
        let mut strays = Vec::new();
        let counts = ask_counts(&mut line, Transport::Udp, 7, soon(), &mut |datagram| {
            strays.push(datagram.to_vec());
        });
        assert_eq!(counts.unwrap_err(), "interrupted");
        assert_eq!(strays, [vec![9; 40]]);
    }
}
