//! The handshake: what is wanted, by whom, and the answer.

use serde::{Deserialize, Serialize};

use super::{HELLO_LIMIT_BYTES, MAGIC, VERSION};
use crate::environment::Environment;

/// What a client wants of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// What the connection is for.
    pub mode: Mode,
    /// Bytes of each message: on a stream in [`Mode::Echo`] with whatever framing it has, else of the
    /// payload; a datagram's whole payload.
    pub message_bytes: u32,
    /// Who asks.
    pub record: PeerRecord,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Every message comes back.
    Echo,
    /// Messages are counted.
    Sink,
}

/// A server's answer to a [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// Why it will not, if it will not.
    pub refusal: Option<Refusal>,
    /// Who answers.
    pub record: PeerRecord,
}

/// Why a server will not, in words for both sides' users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The sentence.
    pub reason: String,
}

/// Who a side is: enough to tell whether both are one host, and what the other one is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerRecord {
    /// Version of the program.
    pub version: String,
    /// Host name.
    pub host: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Preemption model.
    pub preemption: Option<String>,
    /// CPU model.
    pub cpu: Option<String>,
    /// Logical CPUs.
    pub logical_cpus: Option<usize>,
    /// The hypervisor below, if any.
    pub hypervisor: Option<String>,
    /// Changes with every boot.
    pub boot_id: Option<String>,
    /// Inode of the network namespace.
    pub network_namespace: Option<u64>,
}

/// What a server counted of one client's one-way messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Intact messages, duplicates not counted again.
    pub received_messages: u64,
    /// Payload bytes of those.
    pub received_bytes: u64,
    /// Messages that came twice.
    pub duplicates: u64,
    /// Messages that came after a later one.
    pub reordered: u64,
    /// Messages that were not intact.
    pub corrupted: u64,
    /// From the first receipt to the last, by the server's clock.
    pub elapsed_ns: u64,
}

/// Why bytes are no hello, no answer, or none of this version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Another protocol, or garbage.
    #[error("it does not speak the protocol of `tautline serve`")]
    Foreign,
    /// The same protocol in another version.
    #[error("it speaks version {theirs} of the protocol, this program version {VERSION}")]
    Version {
        /// Theirs.
        theirs: u16,
    },
    /// Our own hello, come back.
    #[error("it sends back what it is sent: an echo server, and no `tautline serve`")]
    Echo,
    /// The right beginning, and then something else.
    #[error("its handshake makes no sense: {0}")]
    Malformed(&'static str),
}

impl PeerRecord {
    /// This side, in the network namespace of the calling thread.
    pub fn of(environment: &Environment) -> Self {
        let kernel = &environment.kernel;
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: read_trimmed("/proc/sys/kernel/hostname"),
            kernel: kernel.release.clone(),
            preemption: kernel.preemption.clone(),
            cpu: environment.cpu.model.clone(),
            logical_cpus: environment.cpu.logical,
            hypervisor: environment.hypervisor.clone(),
            boot_id: kernel.boot_id.clone(),
            network_namespace: network_namespace(),
        }
    }

    /// Whether both sides run on one host: the same boot and the same network namespace. `None` where
    /// one of them could not find out.
    pub fn same_host(&self, other: &Self) -> Option<bool> {
        let boot = self.boot_id.as_ref()? == other.boot_id.as_ref()?;
        Some(boot && self.network_namespace? == other.network_namespace?)
    }
}

impl Hello {
    /// The body of the frame, or of the datagram behind its header.
    pub fn encode(&self) -> Vec<u8> {
        let mode = match self.mode {
            Mode::Echo => 1,
            Mode::Sink => 2,
        };
        body(mode, self.message_bytes, &self.record)
    }

    /// Reads what [`encode`](Self::encode) wrote; bytes after it are padding.
    ///
    /// # Errors
    /// [`WireError`]; a body of another version is known as such whatever follows.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let (code, message_bytes, json) = parts(bytes)?;
        let mode = match code {
            1 => Mode::Echo,
            2 => Mode::Sink,
            _ => return Err(WireError::Malformed("an unknown mode")),
        };
        Ok(Self {
            mode,
            message_bytes,
            record: from_json(json)?,
        })
    }
}

/// What the record of an answer carries beside who answers.
#[derive(Serialize, Deserialize)]
struct WelcomeBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusal: Option<Refusal>,
    #[serde(flatten)]
    record: PeerRecord,
}

impl Welcome {
    /// The body of the frame, or of the datagram behind its header.
    pub fn encode(&self) -> Vec<u8> {
        let body_of = WelcomeBody {
            refusal: self.refusal.clone(),
            record: self.record.clone(),
        };
        body(u8::from(self.refusal.is_some()), 0, &body_of)
    }

    /// Reads what [`encode`](Self::encode) wrote; bytes after it are padding.
    ///
    /// # Errors
    /// [`WireError`]; a body of another version is known as such whatever follows.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let json = answer(bytes)?;
        let WelcomeBody { refusal, record } = from_json(json)?;
        Ok(Self { refusal, record })
    }
}

impl Counts {
    /// The body of the frame, or of the datagram behind its header.
    pub fn encode(&self) -> Vec<u8> {
        body(0, 0, self)
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        from_json(answer(bytes)?)
    }
}

/// Magic, version, a code, a number, the length of the JSON text and the text.
fn body(code: u8, number: u32, record: &impl Serialize) -> Vec<u8> {
    let json = serde_json::to_vec(record).expect("plain structs");
    let mut bytes = Vec::with_capacity(FIXED_BYTES + json.len());
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend([code, 0]);
    bytes.extend(number.to_le_bytes());
    bytes.extend((json.len() as u32).to_le_bytes());
    bytes.extend(json);
    bytes
}

fn parts(bytes: &[u8]) -> Result<(u8, u32, &[u8]), WireError> {
    let Some((magic, rest)) = bytes.split_first_chunk::<4>() else {
        return Err(WireError::Foreign);
    };
    let Some((version, rest)) = rest.split_first_chunk::<2>() else {
        return Err(WireError::Foreign);
    };
    if *magic != MAGIC {
        return Err(WireError::Foreign);
    }
    let theirs = u16::from_le_bytes(*version);
    if theirs != VERSION {
        return Err(WireError::Version { theirs });
    }
    let cut = WireError::Malformed("it is cut short");
    let Some(([code, _, number @ ..], rest)) = rest.split_first_chunk::<6>() else {
        return Err(cut);
    };
    let Some((length, rest)) = rest.split_first_chunk::<4>() else {
        return Err(cut);
    };
    let json = rest
        .get(..u32::from_le_bytes(*length) as usize)
        .ok_or(cut)?;
    Ok((*code, u32::from_le_bytes(*number), json))
}

/// The record of an answer. Only questions have a number, which is never 0: a plain echo server's answer
/// would otherwise be our own record, and make this very process its peer.
fn answer(bytes: &[u8]) -> Result<&[u8], WireError> {
    match parts(bytes)? {
        (_, 0, json) => Ok(json),
        _ => Err(WireError::Echo),
    }
}

fn from_json<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, WireError> {
    if json.len() > HELLO_LIMIT_BYTES {
        return Err(WireError::Malformed("its record is too long"));
    }
    serde_json::from_slice(json).map_err(|_| WireError::Malformed("its record is no JSON of ours"))
}

/// Before the JSON text.
const FIXED_BYTES: usize = 16;

fn read_trimmed(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn network_namespace() -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    Some(std::fs::metadata("/proc/thread-self/ns/net").ok()?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> PeerRecord {
        PeerRecord {
            version: "0.1.0".to_owned(),
            host: Some("bench".to_owned()),
            boot_id: Some("b".to_owned()),
            network_namespace: Some(7),
            ..PeerRecord::default()
        }
    }

    #[test]
    fn a_hello_is_read_back_with_and_without_padding() {
        let hello = Hello {
            mode: Mode::Sink,
            message_bytes: 1_024,
            record: record(),
        };
        let mut bytes = hello.encode();
        assert_eq!(Hello::decode(&bytes), Ok(hello.clone()));
        bytes.resize(bytes.len() + 100, 0);
        assert_eq!(Hello::decode(&bytes), Ok(hello));
    }

    #[test]
    fn an_answer_is_read_back_with_its_refusal() {
        for refusal in [
            None,
            Some(Refusal {
                reason: "no more than 4 clients".to_owned(),
            }),
        ] {
            let welcome = Welcome {
                refusal,
                record: record(),
            };
            assert_eq!(Welcome::decode(&welcome.encode()), Ok(welcome));
        }
        let counts = Counts {
            received_messages: 5,
            elapsed_ns: 9,
            ..Counts::default()
        };
        assert_eq!(Counts::decode(&counts.encode()), Ok(counts));
    }

    #[test]
    fn a_hello_that_comes_back_is_no_answer() {
        let hello = Hello {
            mode: Mode::Echo,
            message_bytes: 64,
            record: record(),
        };
        assert_eq!(Welcome::decode(&hello.encode()), Err(WireError::Echo));
        assert_eq!(Counts::decode(&hello.encode()), Err(WireError::Echo));
    }

    #[test]
    fn every_cut_of_a_hello_is_an_error_and_no_panic() {
        let bytes = Hello {
            mode: Mode::Echo,
            message_bytes: 64,
            record: record(),
        }
        .encode();
        for length in 0..bytes.len() {
            assert!(Hello::decode(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn what_is_foreign_and_what_is_another_version_are_told_apart() {
        assert_eq!(
            Hello::decode(b"GET / HTTP/1.1\r\n"),
            Err(WireError::Foreign)
        );
        let mut bytes = record_hello();
        bytes[4] = 9;
        assert_eq!(Hello::decode(&bytes), Err(WireError::Version { theirs: 9 }));
        // Whatever a later version puts behind its number.
        assert_eq!(
            Hello::decode(&bytes[..6]),
            Err(WireError::Version { theirs: 9 })
        );
        let mut bytes = record_hello();
        bytes[6] = 77;
        assert!(matches!(
            Hello::decode(&bytes),
            Err(WireError::Malformed(_))
        ));
    }

    fn record_hello() -> Vec<u8> {
        Hello {
            mode: Mode::Echo,
            message_bytes: 64,
            record: record(),
        }
        .encode()
    }

    #[test]
    fn one_host_is_one_boot_and_one_network_namespace() {
        let here = record();
        assert_eq!(here.same_host(&record()), Some(true));
        let elsewhere = PeerRecord {
            network_namespace: Some(8),
            ..record()
        };
        assert_eq!(here.same_host(&elsewhere), Some(false));
        assert_eq!(here.same_host(&PeerRecord::default()), None);
    }
}
