//! The latency table: closed-loop echoes, the control and every driver once per round, in random
//! order.
//!
//! A run has fresh endpoints for all of them at once; those that are not in turn sleep. Within a round
//! they meet the same machine, so ratios are taken there and nowhere else. Against a `serve` elsewhere
//! each of them is a client of that.

mod callback;
mod control;
mod direct;
mod exchange;
mod handoff;
mod library;
mod pace;
mod row;

use std::iter;
use std::time::Duration;

use tautline::Address;

use self::callback::CallbackEcho;
use self::control::ControlEcho;
use self::direct::DirectEcho;
use self::exchange::{Done, Order, run_block};
use self::handoff::HandoffEcho;
use self::library::Library;
use self::pace::Pace;
pub(super) use self::row::Cell;
use self::row::SideRun;
use super::Broken;
use super::site::Site;
use crate::clock::now_ns;
use crate::plan::{Driver, LatencyPlan};
use crate::recorder::Recorder;
use crate::statistics::Random;

/// What one run of one cell came to; what was measured before it broke stands.
#[derive(Debug)]
pub(super) struct LatencyOutcome {
    /// The control, then the drivers in the order of the plan; empty if the run never began.
    sides: Vec<SideRun>,
    /// Why it ended early, unless it was the stop flag.
    pub(super) broken: Option<Broken>,
}

impl LatencyOutcome {
    pub(super) fn add_to(&self, cell: &mut Cell) {
        cell.add(&self.sides);
    }
}

/// Measures one run on the calling thread, within `slice` if there is one.
pub(super) fn measure(
    site: &Site,
    plan: &LatencyPlan,
    slice: Option<Duration>,
    random: &mut Random,
) -> LatencyOutcome {
    let pace = Pace::new(plan, slice, now_ns());
    let mut run = match Run::start(site, plan, pace) {
        Ok(run) => run,
        Err(broken) => {
            return LatencyOutcome {
                sides: Vec::new(),
                broken: Some(broken),
            };
        }
    };
    let broken = run.measure(plan, random).err().map(|why| site.explain(why));
    LatencyOutcome {
        sides: run.sides.into_iter().map(|side| side.run).collect(),
        broken,
    }
}

/// All endpoints of one run.
struct Run<'a> {
    site: &'a Site,
    pace: Pace,
    sides: Vec<Side>,
    /// The figures of the block in turn.
    block: Box<Recorder>,
    /// Held until the sides are gone.
    ends: Ends<'a>,
}

/// One side: a way of making echoes, and what it has measured.
struct Side {
    /// `None` is the control.
    driver: Option<Driver>,
    /// Open from the start of the run to its end; on a port that is for one at a time it is opened for
    /// each block.
    echo: Option<Echo>,
    sequence: u64,
    run: SideRun,
}

enum Echo {
    Control(ControlEcho),
    Direct(Box<DirectEcho>),
    Callback(CallbackEcho),
    Handoff(HandoffEcho),
}

/// What the sides are opened with.
struct Ends<'a> {
    site: &'a Site,
    spin: Duration,
    library: Option<Library>,
    /// The address asked for goes to the library's server, else to the first direct one.
    asked: Option<Address>,
}

impl<'a> Ends<'a> {
    fn new(site: &'a Site, plan: &LatencyPlan) -> Result<Self, Broken> {
        let mut ends = Self {
            site,
            spin: plan.spin,
            library: None,
            asked: site.addresses.asked(site.transport),
        };
        let on_io_thread = |driver: &Driver| matches!(driver, Driver::Callback | Driver::Handoff);
        if plan.drivers.iter().any(on_io_thread) {
            ends.library = Some(match (site.remote(), site.plug()) {
                (Some(remote), _) => Library::reach(site, remote)?,
                (None, Some(plug)) => Library::alone(site, plug)?,
                (None, None) => Library::start(site, ends.address().as_ref())?,
            });
        }
        Ok(ends)
    }

    /// Where the next of our servers listens, where one does.
    fn address(&mut self) -> Option<Address> {
        self.asked
            .take()
            .or_else(|| self.site.addresses.other(self.site.transport))
    }

    /// A side by this driver; `None` is the control.
    fn open(&mut self, driver: Option<Driver>) -> Result<Echo, Broken> {
        let site = self.site;
        let Some(driver) = driver else {
            return Ok(Echo::Control(ControlEcho::start(site)?));
        };
        Ok(match driver {
            Driver::Direct | Driver::Spin => {
                let spin = if driver == Driver::Spin {
                    self.spin
                } else {
                    Duration::ZERO
                };
                Echo::Direct(Box::new(match (site.remote(), site.plug()) {
                    (Some(remote), _) => DirectEcho::reach(site, driver, remote, spin)?,
                    (None, Some(plug)) => DirectEcho::alone(site, driver, plug, spin)?,
                    (None, None) => DirectEcho::start(site, driver, self.address(), spin)?,
                }))
            }
            Driver::Callback => Echo::Callback(CallbackEcho::start(site, self.library())?),
            Driver::Handoff => Echo::Handoff(HandoffEcho::start(site, self.library())?),
        })
    }

    fn library(&self) -> &Library {
        let library = self.library.as_ref();
        library.expect("started for these drivers")
    }
}

impl<'a> Run<'a> {
    fn start(site: &'a Site, plan: &LatencyPlan, pace: Pace) -> Result<Self, Broken> {
        site.pulse.unpark_me_on_stall();
        site.seats
            .client("client")
            .take(&site.register)
            .map_err(Broken::setup)?;
        let mut ends = Ends::new(site, plan)?;
        let mut sides = Vec::new();
        for driver in iter::once(None).chain(plan.drivers.iter().copied().map(Some)) {
            sides.push(Side {
                driver,
                echo: match site.plug() {
                    Some(_) => None,
                    None => Some(ends.open(driver)?),
                },
                sequence: 0,
                run: SideRun::new(),
            });
        }
        // Connecting was bounded by itself; from here on silence counts.
        site.pulse.beat(now_ns());
        Ok(Self {
            site,
            pace,
            sides,
            block: Box::new(Recorder::new()),
            ends,
        })
    }

    fn measure(&mut self, plan: &LatencyPlan, random: &mut Random) -> Result<(), String> {
        let mut order: Vec<usize> = (0..self.sides.len()).collect();
        self.compare_contents(plan, &order)?;
        self.warm_up(&order)?;
        for round in 0..plan.rounds as u64 {
            random.shuffle(&mut order);
            let mut medians_ns = vec![None; self.sides.len()];
            for &side in &order {
                medians_ns[side] = self.timed_block(side, round)?;
                self.site.pulse.block_done();
            }
            if self.site.pulse.is_stopping() {
                // What was recorded stands, but a round that was cut short compares nothing.
                return Ok(());
            }
            // A round in which one side lost every echo has nothing to compare either.
            if let Some(medians_ns) = medians_ns.into_iter().collect::<Option<Vec<u64>>>() {
                for (side, median_ns) in self.sides.iter_mut().zip(medians_ns) {
                    side.run.medians_ns.push(median_ns);
                }
            }
        }
        Ok(())
    }

    /// The untimed pass in which every byte is compared.
    fn compare_contents(&mut self, plan: &LatencyPlan, order: &[usize]) -> Result<(), String> {
        let echoes = plan.content_messages(self.site.transport, self.site.payload_bytes);
        for &side in order {
            let whole = Order {
                echoes,
                until_ns: u64::MAX,
                whole: true,
            };
            self.untimed_block(side, whole)?;
        }
        Ok(())
    }

    fn warm_up(&mut self, order: &[usize]) -> Result<(), String> {
        for &side in order {
            let done = self.untimed_block(side, self.pace.first_warmup(now_ns()))?;
            self.pace.warmed_up(side, done);
        }
        Ok(())
    }

    /// The median of the block, if anything came back in it.
    fn timed_block(&mut self, side: usize, round: u64) -> Result<Option<u64>, String> {
        if round > 0 {
            let warmup = self
                .pace
                .later_warmup(self.pace.block(side, round, now_ns()));
            self.untimed_block(side, warmup)?;
        }
        let order = self.pace.block(side, round, now_ns());
        let outcome = self.block(side, order);
        let run = &mut self.sides[side].run;
        run.recorder.merge(&self.block);
        let done = outcome?;
        run.elapsed_ns += done.elapsed_ns;
        self.pace.timed(side, done);
        Ok(self.block.round_median_ns())
    }

    /// Of echoes that are not timed only the corrupted ones count.
    fn untimed_block(&mut self, side: usize, order: Order) -> Result<Done, String> {
        let outcome = self.block(side, order);
        self.sides[side].run.recorder.faults_mut().corrupted += self.block.faults().corrupted;
        outcome
    }

    /// Runs one block of one side; its figures are in `self.block` afterwards.
    fn block(&mut self, side: usize, order: Order) -> Result<Done, String> {
        self.block.clear();
        let side = &mut self.sides[side];
        match &mut side.echo {
            Some(echo) => block_of(echo, order, &mut side.sequence, &mut self.block, self.site),
            None => {
                let opened = self.ends.open(side.driver).map_err(Broken::into_message);
                let outcome = opened.and_then(|mut echo| {
                    block_of(
                        &mut echo,
                        order,
                        &mut side.sequence,
                        &mut self.block,
                        self.site,
                    )
                });
                self.site.pulse.forget_closers();
                outcome
            }
        }
    }
}

fn block_of(
    echo: &mut Echo,
    order: Order,
    sequence: &mut u64,
    block: &mut Box<Recorder>,
    site: &Site,
) -> Result<Done, String> {
    let pulse = &site.pulse;
    match echo {
        Echo::Control(echo) => run_block(echo, order, sequence, block, pulse),
        Echo::Direct(echo) => run_block(&mut **echo, order, sequence, block, pulse),
        Echo::Handoff(echo) => run_block(echo, order, sequence, block, pulse),
        Echo::Callback(echo) => echo.run_block(order, sequence, block),
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;
    use crate::plan::Transport;
    use crate::recorder::Faults;
    use crate::run::site::for_tests;
    use crate::run::supervise::supervise;

    /// Answers all datagrams but the third of every five, until an empty one comes.
    fn lossy_server() -> (Address, thread::JoinHandle<()>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = Address::udp(socket.local_addr().unwrap());
        let serving = thread::spawn(move || {
            let mut buffer = [0; 128];
            for number in 1_u64.. {
                let (bytes, peer) = socket.recv_from(&mut buffer).unwrap();
                if bytes == 0 {
                    return;
                }
                if number % 5 != 3 {
                    socket.send_to(&buffer[..bytes], peer).unwrap();
                }
            }
        });
        (address, serving)
    }

    /// Ten echoes through the lossy server, watched over as in a run.
    fn ten_echoes(
        driver: impl FnOnce(&Site, &Library) -> Echo + Send + 'static,
    ) -> (Done, u64, Faults) {
        let (address, serving) = lossy_server();
        let to = address.to_string().replace("udp://", "");
        let site = for_tests(64);
        let pulse = Arc::clone(&site.pulse);
        let outcome = supervise(&pulse, &AtomicBool::new(false), &mut |_| {}, move || {
            site.pulse.unpark_me_on_stall();
            let mut library =
                Library::start(&site, site.addresses.other(Transport::Udp).as_ref()).unwrap();
            library.redirect(address);
            let echo = driver(&site, &library);
            let mut run = Run {
                site: &site,
                pace: Pace::new(&LatencyPlan::default(), None, 0),
                sides: vec![Side {
                    driver: None,
                    echo: Some(echo),
                    sequence: 0,
                    run: SideRun::new(),
                }],
                block: Box::new(Recorder::new()),
                ends: Ends {
                    site: &site,
                    spin: Duration::ZERO,
                    library: Some(library),
                    asked: None,
                },
            };
            let order = Order {
                echoes: 10,
                until_ns: u64::MAX,
                whole: true,
            };
            let done = run.block(0, order).unwrap();
            (done, run.block.count(), run.block.faults())
        });
        UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .send_to(&[], to)
            .unwrap();
        serving.join().unwrap();
        outcome.unwrap()
    }

    #[test]
    fn handoff_goes_on_after_lost_replies() {
        let (done, recorded, faults) =
            ten_echoes(|site, library| Echo::Handoff(HandoffEcho::start(site, library).unwrap()));
        assert_eq!(done.echoes, 10);
        assert_eq!((recorded, faults.lost, faults.corrupted), (8, 2, 0));
    }

    #[test]
    fn callback_is_kicked_after_lost_replies() {
        let (done, recorded, faults) =
            ten_echoes(|site, library| Echo::Callback(CallbackEcho::start(site, library).unwrap()));
        assert_eq!(done.echoes, 10);
        assert_eq!((recorded + faults.lost, faults.corrupted), (10, 0));
        assert!(faults.lost >= 2, "{faults:?}");
    }
}
