//! Where measuring threads run, and how the machine is held while they do.
//!
//! [`Seats::choose`] turns the plan's shape into two CPUs, [`Seat::take`] puts the calling thread there
//! and reads back what it got, and a [`Hold`] keeps memory locked and CPUs awake until it is dropped.
//! What cannot be had is said in a note, never left silent.

mod hold;
mod topology;

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

pub use self::hold::Hold;
pub(crate) use self::hold::{Awake, Busy};
pub use self::topology::{Cpu, Topology};
use crate::plan::{Placement, PlacementPlan, Sched};
use crate::report::ThreadRecord;
use crate::sys;

/// The two ends of a measurement: where their threads sit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seats {
    /// The CPU of the client's threads; `None` leaves it to the scheduler.
    pub client: Option<usize>,
    /// The CPU of the server's threads.
    pub server: Option<usize>,
    /// The shape that came of it.
    pub effective: Placement,
    /// Why it is not quite what was asked for.
    pub note: Option<String>,
    sched: Sched,
    /// The CPUs that the process may use.
    allowed: Vec<usize>,
}

impl Seats {
    /// Chooses CPUs among those that the calling thread may use.
    ///
    /// # Errors
    ///
    /// When there are no CPUs of that shape, or `--cpu` names one that may not be used.
    pub fn choose(plan: &PlacementPlan) -> Result<Self, PlacementError> {
        let allowed = sys::sched::affinity().map_err(PlacementError::Affinity)?;
        Self::choose_among(plan, &Topology::read(&allowed))
    }

    fn choose_among(plan: &PlacementPlan, topology: &Topology) -> Result<Self, PlacementError> {
        let seats = |client, server, effective, note| Self {
            client,
            server,
            effective,
            note,
            sched: plan.sched,
            allowed: topology.cpus().iter().map(|cpu| cpu.id).collect(),
        };
        if !plan.cpus.is_empty() {
            let (client, server) = listed(&plan.cpus, topology)?;
            let effective = topology.shape(client, server);
            let note = (effective != plan.placement)
                .then(|| format!("--cpu decides: {client} and {server} are {effective}"));
            return Ok(seats(Some(client), Some(server), effective, note));
        }
        match plan.placement {
            Placement::Free => Ok(seats(None, None, Placement::Free, None)),
            Placement::Same => {
                let (cpu, note) = topology.one();
                Ok(seats(Some(cpu), Some(cpu), Placement::Same, note))
            }
            Placement::Split if topology.cpus().len() == 1 => {
                let note = "only one CPU may be used, so nothing is pinned".to_owned();
                Ok(seats(None, None, Placement::Free, Some(note)))
            }
            Placement::Split => {
                let (client, server, note) = topology.split();
                Ok(seats(Some(client), Some(server), Placement::Split, note))
            }
            Placement::Cross => {
                let (client, server, note) = topology.cross().ok_or(PlacementError::NoCross)?;
                Ok(seats(Some(client), Some(server), Placement::Cross, note))
            }
        }
    }

    /// The place of a client's thread.
    pub fn client(&self, role: &'static str) -> Seat {
        Seat {
            role,
            cpu: self.client,
            sched: self.sched,
        }
    }

    /// The place of a server's thread.
    pub fn server(&self, role: &'static str) -> Seat {
        Seat {
            role,
            cpu: self.server,
            sched: self.sched,
        }
    }

    /// The place of a thread that stands between the ends and is none of them: on the CPUs that the
    /// process may use and no end has, or on all of them where none is left.
    pub fn between(&self, role: &'static str) -> Between {
        let allowed = &self.allowed;
        let free: Vec<usize> = allowed
            .iter()
            .copied()
            .filter(|cpu| ![self.client, self.server].contains(&Some(*cpu)))
            .collect();
        Between {
            role,
            cpus: if free.is_empty() {
                allowed.to_vec()
            } else {
                free
            },
            sched: self.sched,
        }
    }

    /// The CPUs in use, each once; none when nothing is pinned.
    pub fn cpus(&self) -> Vec<usize> {
        let mut cpus: Vec<_> = self.client.into_iter().chain(self.server).collect();
        cpus.dedup();
        cpus
    }
}

/// The place of one thread, and the scheduler it runs under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// What the thread does.
    pub role: &'static str,
    cpu: Option<usize>,
    sched: Sched,
}

impl Seat {
    /// A place of its own: on this CPU, or wherever the scheduler likes.
    pub(crate) fn on(role: &'static str, cpu: Option<usize>, sched: Sched) -> Self {
        Self { role, cpu, sched }
    }

    /// Puts the calling thread onto its CPU and under its scheduler, with a timer slack of 1 ns, and
    /// notes in `register` what the kernel says it got. Threads it starts from here on inherit all of
    /// it.
    ///
    /// # Errors
    ///
    /// When the thread cannot be pinned. A refused scheduler is no error here: it shows in the
    /// register.
    pub fn take(self, register: &Register) -> Result<(), PlacementError> {
        if let Some(cpu) = self.cpu {
            sys::sched::set_affinity(&[cpu]).map_err(|cause| PlacementError::Pin {
                role: self.role,
                cpu,
                cause,
            })?;
        }
        // No privilege is needed for a smaller slack; were it refused, only timers would be later.
        let _ = sys::sched::set_timer_slack(1);
        // Last, because a real-time thread that is not yet pinned disturbs others.
        take_asked_sched(self.sched, register);
        register.enter(self);
        Ok(())
    }

    fn record(self) -> ThreadRecord {
        record(self.role, self.cpu.into_iter().collect(), self.sched)
    }
}

/// The place of a thread between the ends: see [`Seats::between`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Between {
    role: &'static str,
    cpus: Vec<usize>,
    sched: Sched,
}

impl Between {
    /// Puts the calling thread there, as [`Seat::take`] does.
    ///
    /// # Errors
    ///
    /// When the thread cannot be moved. A refused scheduler shows in the register.
    pub fn take(self, register: &Register) -> Result<(), PlacementError> {
        sys::sched::set_affinity(&self.cpus).map_err(|cause| PlacementError::Pin {
            role: self.role,
            cpu: self.cpus.first().copied().unwrap_or_default(),
            cause,
        })?;
        // As for the ends: refused, only timers would be later.
        let _ = sys::sched::set_timer_slack(1);
        take_asked_sched(self.sched, register);
        register.note(record(self.role, self.cpus, self.sched));
        Ok(())
    }
}

/// What the kernel says of the calling thread, beside what was asked for.
fn record(role: &str, cpus_requested: Vec<usize>, sched: Sched) -> ThreadRecord {
    ThreadRecord {
        role: role.to_owned(),
        cpus_requested,
        cpus_effective: sys::sched::affinity().unwrap_or_default(),
        sched_requested: sched.to_string(),
        sched_effective: sys::sched::scheduler().unwrap_or_else(|_| "unknown".to_owned()),
    }
}

/// A refusal shows in the register.
fn take_asked_sched(sched: Sched, register: &Register) {
    let refused = match sched {
        Sched::Other => None,
        Sched::Fifo(_) | Sched::RoundRobin(_) | Sched::Idle => {
            sys::sched::set_scheduler(sched).err()
        }
    };
    if let Some(cause) = refused {
        register.refused(format!("--sched {sched}: {cause}"));
    }
}

/// The CPUs that this process may use, ascending.
///
/// # Errors
///
/// When the kernel does not say.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    sys::sched::affinity()
}

/// Why a thread of this process is not given that scheduler; `None` if it is. Tried on a thread that
/// does nothing else.
#[must_use]
pub fn refusal(sched: Sched) -> Option<String> {
    let tried = thread::spawn(move || take_sched(sched)).join();
    tried.expect("a system call does not panic")
}

/// Puts the calling thread under a scheduler, and the threads that it starts from then on. Why not, if
/// that is refused.
pub(crate) fn take_sched(sched: Sched) -> Option<String> {
    let cause = sys::sched::set_scheduler(sched).err()?;
    let missing = match (sched, cause.raw_os_error()) {
        (Sched::Fifo(_) | Sched::RoundRobin(_), Some(libc::EPERM)) => {
            ": it takes CAP_SYS_NICE, or ulimit -r"
        }
        _ => "",
    };
    Some(format!("{sched} is refused: {cause}{missing}"))
}

/// What threads found out about themselves; each role is entered once per distinct answer, however
/// many runs there are.
#[derive(Debug, Default)]
pub struct Register {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    threads: Vec<ThreadRecord>,
    refused: Option<String>,
}

impl Register {
    /// Reads back where and how the calling thread runs.
    pub fn enter(&self, seat: Seat) {
        self.note(seat.record());
    }

    fn note(&self, record: ThreadRecord) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if !entries.threads.contains(&record) {
            entries.threads.push(record);
        }
    }

    /// Every thread so far, by role.
    pub fn threads(&self) -> Vec<ThreadRecord> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut threads = entries.threads.clone();
        threads.sort_by(|left, right| left.role.cmp(&right.role));
        threads
    }

    /// Why the scheduler asked for was refused, if it was.
    pub fn refusal(&self) -> Option<String> {
        self.entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .refused
            .clone()
    }

    fn refused(&self, why: String) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.refused.get_or_insert(why);
    }
}

/// Why threads cannot sit where the plan wants them.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// The process cannot find out which CPUs it may use.
    #[error("read the CPUs this process may use: {0}")]
    Affinity(io::Error),
    /// `--cpu` names a CPU outside the process's mask.
    #[error("--cpu {cpu}: this process may use {} only", listing(allowed))]
    NotAllowed {
        /// The CPU asked for.
        cpu: usize,
        /// Those that would be possible.
        allowed: Vec<usize>,
    },
    /// `--placement cross` on a machine whose cores all share a cache.
    #[error("--placement cross: all CPUs this process may use share a cache, as far as /sys says")]
    NoCross,
    /// The kernel refused to pin a thread.
    #[error("pin the {role} to CPU {cpu}: {cause}")]
    Pin {
        /// What the thread does.
        role: &'static str,
        /// Where it should have gone.
        cpu: usize,
        /// What the kernel said.
        cause: io::Error,
    },
}

/// `0, 1, 5`
fn listing(cpus: &[usize]) -> String {
    let words: Vec<String> = cpus.iter().map(usize::to_string).collect();
    words.join(", ")
}

/// The first CPU of a list is the client's, the second the server's; one alone is both.
fn listed(cpus: &[usize], topology: &Topology) -> Result<(usize, usize), PlacementError> {
    let client = cpus[0];
    let server = cpus.get(1).copied().unwrap_or(client);
    for cpu in [client, server] {
        if topology.find(cpu).is_none() {
            let allowed = topology.cpus().iter().map(|cpu| cpu.id).collect();
            return Err(PlacementError::NotAllowed { cpu, allowed });
        }
    }
    Ok((client, server))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(placement: Placement) -> PlacementPlan {
        PlacementPlan {
            placement,
            ..PlacementPlan::default()
        }
    }

    /// `cores` of one hardware thread each; `cache_of` says which last-level cache a core is on.
    fn machine(cores: usize, cache_of: impl Fn(usize) -> usize) -> Topology {
        let shared = |id| {
            (0..cores)
                .filter(|&other| cache_of(other) == cache_of(id))
                .collect()
        };
        Topology::of((0..cores).map(|id| Cpu {
            id,
            core: vec![id],
            shares: shared(id),
            capacity: None,
        }))
    }

    fn chosen(placement: Placement, topology: &Topology) -> (Option<usize>, Option<usize>) {
        let seats = Seats::choose_among(&plan(placement), topology).unwrap();
        (seats.client, seats.server)
    }

    #[test]
    fn split_takes_two_cores_of_one_cache_and_leaves_cpu_0_alone() {
        assert_eq!(
            chosen(Placement::Split, &machine(8, |id| id / 4)),
            (Some(1), Some(2))
        );
    }

    #[test]
    fn split_on_two_cpus_uses_cpu_0_and_says_so() {
        let seats = Seats::choose_among(&plan(Placement::Split), &machine(2, |_| 0)).unwrap();
        assert_eq!((seats.client, seats.server), (Some(0), Some(1)));
        assert_eq!(
            seats.note.as_deref(),
            Some("CPU 0 is in use: no other two cores share a cache")
        );
    }

    #[test]
    fn one_cpu_turns_split_into_free() {
        let seats = Seats::choose_among(&plan(Placement::Split), &machine(1, |_| 0)).unwrap();
        assert_eq!(
            (seats.client, seats.server, seats.effective),
            (None, None, Placement::Free)
        );
        assert!(seats.note.is_some());
    }

    #[test]
    fn split_never_takes_two_threads_of_one_core_where_there_are_two_cores() {
        // CPUs 0 and 4 are one core, 1 and 5 the next, and so on.
        let topology = Topology::of((0..8).map(|id| Cpu {
            id,
            core: vec![id % 4, id % 4 + 4],
            shares: (0..8).collect(),
            capacity: None,
        }));
        assert_eq!(chosen(Placement::Split, &topology), (Some(1), Some(2)));
    }

    #[test]
    fn two_threads_of_the_only_core_are_taken_with_a_note() {
        let topology = Topology::of((0..2).map(|id| Cpu {
            id,
            core: vec![0, 1],
            shares: vec![0, 1],
            capacity: None,
        }));
        let seats = Seats::choose_among(&plan(Placement::Split), &topology).unwrap();
        assert_eq!((seats.client, seats.server), (Some(0), Some(1)));
        assert_eq!(
            seats.note.as_deref(),
            Some("CPUs 0 and 1 are two threads of one core")
        );
    }

    #[test]
    fn split_without_a_shared_cache_takes_two_cores_and_says_so() {
        let seats = Seats::choose_among(&plan(Placement::Split), &machine(4, |id| id)).unwrap();
        assert_eq!((seats.client, seats.server), (Some(1), Some(2)));
        assert_eq!(seats.note.as_deref(), Some("no two cores share a cache"));
    }

    #[test]
    fn split_prefers_two_cores_of_one_kind_and_the_faster() {
        let topology = Topology::of((0..6).map(|id| Cpu {
            id,
            core: vec![id],
            shares: (0..6).collect(),
            capacity: Some(if id < 4 { 446 } else { 1024 }),
        }));
        assert_eq!(chosen(Placement::Split, &topology), (Some(4), Some(5)));
    }

    #[test]
    fn cross_takes_cores_of_two_caches_or_is_refused() {
        assert_eq!(
            chosen(Placement::Cross, &machine(8, |id| id / 4)),
            (Some(1), Some(4))
        );
        let error = Seats::choose_among(&plan(Placement::Cross), &machine(4, |_| 0)).unwrap_err();
        assert!(matches!(error, PlacementError::NoCross));
    }

    #[test]
    fn same_is_one_cpu_and_not_cpu_0_where_there_are_others() {
        assert_eq!(
            chosen(Placement::Same, &machine(4, |_| 0)),
            (Some(1), Some(1))
        );
        assert_eq!(
            chosen(Placement::Same, &machine(1, |_| 0)),
            (Some(0), Some(0))
        );
    }

    #[test]
    fn a_cpu_list_decides_and_its_shape_is_named() {
        let mut plan = plan(Placement::Split);
        plan.cpus = vec![3];
        let seats = Seats::choose_among(&plan, &machine(4, |_| 0)).unwrap();
        assert_eq!(
            (seats.client, seats.server, seats.effective),
            (Some(3), Some(3), Placement::Same)
        );
        assert_eq!(
            seats.note.as_deref(),
            Some("--cpu decides: 3 and 3 are same")
        );
    }

    #[test]
    fn a_cpu_outside_the_mask_is_refused_with_those_inside() {
        let mut plan = plan(Placement::Split);
        plan.cpus = vec![0, 9];
        let error = Seats::choose_among(&plan, &machine(2, |_| 0)).unwrap_err();
        assert_eq!(error.to_string(), "--cpu 9: this process may use 0, 1 only");
    }

    #[test]
    fn a_pinned_thread_reads_back_its_cpu_and_its_slack() {
        let cpu = sys::sched::affinity().unwrap()[0];
        let seat = Seat {
            role: "client",
            cpu: Some(cpu),
            sched: Sched::Other,
        };
        let register = Register::default();
        thread::scope(|scope| {
            scope.spawn(|| {
                seat.take(&register).unwrap();
                seat.take(&register).unwrap();
                assert_eq!(sys::sched::timer_slack_ns(), 1);
            });
        });
        let threads = register.threads();
        assert_eq!(threads.len(), 1, "the same answer is entered once");
        assert_eq!(threads[0].cpus_requested, [cpu]);
        assert_eq!(threads[0].cpus_effective, [cpu]);
        assert_eq!(threads[0].sched_effective, "other");
        assert_eq!(register.refusal(), None);
    }

    #[test]
    fn sched_idle_is_had_without_privilege_and_read_back() {
        let seat = Seat {
            role: "client",
            cpu: None,
            sched: Sched::Idle,
        };
        let register = Register::default();
        thread::scope(|scope| {
            scope.spawn(|| seat.take(&register).unwrap());
        });
        assert_eq!(register.threads()[0].sched_effective, "idle");
    }

    #[test]
    fn what_a_real_time_thread_got_agrees_with_what_was_refused() {
        // With the privilege it is granted, without it the refusal is noted: never neither.
        let seat = Seat {
            role: "server",
            cpu: None,
            sched: Sched::Fifo(3),
        };
        let register = Register::default();
        thread::scope(|scope| {
            scope.spawn(|| seat.take(&register).unwrap());
        });
        match register.refusal() {
            None => assert_eq!(register.threads()[0].sched_effective, "fifo:3"),
            Some(why) => {
                assert_eq!(register.threads()[0].sched_effective, "other");
                assert!(why.starts_with("--sched fifo:3: "), "{why}");
            }
        }
    }
}
