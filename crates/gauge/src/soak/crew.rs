//! The processes of a run, from its side: started, told, heard, and ended whatever happens.

use std::io::{self, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::Breaker;
use super::protocol::{Job, Order, Ready, Word, hear, say};

/// How a process of the run is started: the program and its arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start<'a> {
    pub(super) program: &'a Path,
    pub(super) arguments: &'a [String],
}

/// Every process of one part of the run. Dropping it ends all of them.
#[derive(Debug)]
pub(super) struct Crew {
    members: Vec<Member>,
    heard: Receiver<Heard>,
    ear: Sender<Heard>,
}

/// What was heard, and from which member.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) member: usize,
    /// `None` when it has ended.
    pub(super) word: Option<Word>,
}

#[derive(Debug)]
struct Member {
    role: String,
    child: Child,
    orders: Option<ChildStdin>,
}

impl Crew {
    pub(super) fn new() -> Self {
        let (ear, heard) = mpsc::channel();
        Self {
            members: Vec::new(),
            heard,
            ear,
        }
    }

    /// Starts a process for a job, and hands back its number.
    ///
    /// To be called on a thread that lives as long as the run: the processes end with it.
    pub(super) fn add(
        &mut self,
        role: String,
        start: Start<'_>,
        job: &Job,
    ) -> Result<usize, String> {
        let mut child = Command::new(start.program)
            .args(start.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|cause| format!("start {}: {cause}", start.program.display()))?;
        let mut orders = child.stdin.take().expect("it was piped");
        let output = child.stdout.take().expect("it was piped");
        let member = self.members.len();
        let ear = self.ear.clone();
        let listening = thread::Builder::new()
            .name(format!("hear-{member}"))
            .spawn(move || {
                let mut output = BufReader::new(output);
                loop {
                    let word = hear::<Word>(&mut output).ok().flatten();
                    let ended = word.is_none();
                    if ear.send(Heard { member, word }).is_err() || ended {
                        return;
                    }
                }
            });
        let told = say(&mut orders, job);
        self.members.push(Member {
            role: role.clone(),
            child,
            orders: Some(orders),
        });
        listening.map_err(|cause| format!("start a thread: {cause}"))?;
        // One that has ended already is heard of.
        told.or_else(gone)
            .map_err(|cause| format!("{role}: {cause}"))?;
        Ok(member)
    }

    /// Waits until a member is ready.
    pub(super) fn ready(
        &mut self,
        member: usize,
        limit: Duration,
        breaker: &Breaker<'_>,
    ) -> Result<Ready, String> {
        let until = Instant::now() + limit;
        let role = self.members[member].role.clone();
        loop {
            if breaker.is_set() {
                return Err("interrupted".to_owned());
            }
            if Instant::now() >= until {
                return Err(format!(
                    "the {role} was not ready within {} s",
                    limit.as_secs()
                ));
            }
            let Some(heard) = self.hear(STEP) else {
                continue;
            };
            match heard.word {
                Some(Word::Ready(ready)) if heard.member == member => return Ok(*ready),
                Some(Word::Failed(why)) => {
                    return Err(format!("the {}: {why}", self.members[heard.member].role));
                }
                None => {
                    return Err(format!(
                        "the {} ended by itself",
                        self.members[heard.member].role
                    ));
                }
                // A load may have counted to its end before anybody asked for more.
                Some(_) => {}
            }
        }
    }

    /// The next thing that is said, within this time.
    pub(super) fn hear(&self, limit: Duration) -> Option<Heard> {
        match self.heard.recv_timeout(limit) {
            Ok(heard) => Some(heard),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("our own end is kept"),
        }
    }

    /// Tells one member. One that has ended is heard of, and needs no telling.
    pub(super) fn tell(&mut self, member: usize, order: Order) {
        if let Some(orders) = &mut self.members[member].orders {
            let _ = say(orders, &order);
        }
    }

    pub(super) fn pid(&self, member: usize) -> u32 {
        self.members[member].child.id()
    }

    pub(super) fn role(&self, member: usize) -> &str {
        &self.members[member].role
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // A closed pipe ends each of them, and what does not end is killed.
        for member in &mut self.members {
            member.orders = None;
        }
        let until = Instant::now() + END_LIMIT;
        for member in &mut self.members {
            while matches!(member.child.try_wait(), Ok(None)) {
                if Instant::now() >= until {
                    let _ = member.child.kill();
                    let _ = member.child.wait();
                    break;
                }
                thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// A closed pipe is no error here.
fn gone(cause: io::Error) -> io::Result<()> {
    match cause.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(cause),
    }
}

const STEP: Duration = Duration::from_millis(100);
/// A starved process needs some time even to end.
const END_LIMIT: Duration = Duration::from_secs(5);
