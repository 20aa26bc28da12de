//! `--samples`: every answered ping as a line of CSV in nanoseconds, written by a thread of its own.
//!
//! A measuring thread fills a block and hands it over; full and empty blocks go round. Where the file is
//! slower than the pings no ping waits for it: samples are left out, and counted.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use super::record::Answered;

/// One line of the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) ping: Answered,
    pub(crate) rtt_ns: u64,
    pub(crate) response_ns: Option<u64>,
}

/// Samples of one cell on their way to the writer.
#[derive(Debug)]
struct Block {
    cell: u32,
    start_ns: u64,
    samples: Vec<Sample>,
    /// Where it goes back to when it is written.
    home: SyncSender<Self>,
}

/// A measuring thread's end.
#[derive(Debug)]
pub(crate) struct Feed {
    block: Option<Block>,
    full: SyncSender<Block>,
    empty: Receiver<Block>,
    refill: SyncSender<Block>,
    pub(crate) left_out: u64,
}

/// The thread that writes.
#[derive(Debug)]
pub(crate) struct SampleWriter {
    full: Option<SyncSender<Block>>,
    thread: JoinHandle<io::Result<()>>,
}

impl SampleWriter {
    /// Writes the head of the file, and what comes from now on.
    pub(crate) fn start(file: File, cells: Vec<String>) -> io::Result<Self> {
        let (full, blocks) = sync_channel::<Block>(BLOCKS);
        let thread = thread::Builder::new()
            .name("gauge-samples".to_owned())
            .spawn(move || write_all(file, &cells, &blocks))?;
        Ok(Self {
            full: Some(full),
            thread,
        })
    }

    /// An end for one measuring thread of one cell.
    pub(crate) fn feed(&self, cell: usize, start_ns: u64) -> Feed {
        let (refill, empty) = sync_channel(BLOCKS_A_THREAD);
        for _ in 0..BLOCKS_A_THREAD {
            let block = Block {
                cell: cell as u32,
                start_ns,
                samples: Vec::with_capacity(SAMPLES_A_BLOCK),
                home: refill.clone(),
            };
            // There is room for each: the channel is as long as there are blocks.
            let _ = refill.try_send(block);
        }
        Feed {
            block: None,
            full: self.full.clone().expect("the writer is not finished"),
            empty,
            refill,
            left_out: 0,
        }
    }

    /// Waits until everything is written. All feeds have been dropped.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.full = None;
        self.thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the writer panicked")))
    }
}

impl Feed {
    /// From when the times of the file count.
    pub(crate) fn set_start(&mut self, start_ns: u64) {
        let blocks: Vec<Block> = self.empty.try_iter().collect();
        for mut block in blocks {
            block.start_ns = start_ns;
            let _ = self.refill.try_send(block);
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, sample: Sample) {
        if self.block.is_none() {
            self.block = self.empty.try_recv().ok();
        }
        let Some(block) = &mut self.block else {
            self.left_out += 1;
            return;
        };
        block.samples.push(sample);
        if block.samples.len() == SAMPLES_A_BLOCK {
            self.hand_over();
        }
    }

    /// The last samples.
    pub(crate) fn finish(&mut self) -> u64 {
        if let Some(block) = self.block.take() {
            let samples = block.samples.len() as u64;
            // Nothing is measured any more: it may wait. The writer goes on reading after an error.
            if self.full.send(block).is_err() {
                self.left_out += samples;
            }
        }
        self.left_out
    }

    #[cold]
    fn hand_over(&mut self) {
        let Some(block) = self.block.take() else {
            return;
        };
        match self.full.try_send(block) {
            Ok(()) => {}
            Err(TrySendError::Full(mut block) | TrySendError::Disconnected(mut block)) => {
                self.left_out += block.samples.len() as u64;
                block.samples.clear();
                self.block = Some(block);
            }
        }
    }
}

/// After an error it goes on reading, so that nobody waits for it.
fn write_all(file: File, cells: &[String], blocks: &Receiver<Block>) -> io::Result<()> {
    let mut to = BufWriter::with_capacity(1 << 16, file);
    let mut outcome = to.write_all(HEAD.as_bytes());
    for mut block in blocks {
        if outcome.is_ok() {
            outcome = write_block(&mut to, cells, &block);
        }
        block.samples.clear();
        // Its thread may have ended.
        let _ = block.home.clone().try_send(block);
    }
    outcome.and_then(|()| to.flush())
}

fn write_block(to: &mut impl io::Write, cells: &[String], block: &Block) -> io::Result<()> {
    let cell = &cells[block.cell as usize];
    for sample in &block.samples {
        let ping = &sample.ping;
        let since = |ns: u64| ns as i64 - block.start_ns as i64;
        write!(
            to,
            "{cell},{},{},{},{},{},",
            ping.connection,
            ping.sequence,
            since(ping.intended_ns),
            since(ping.sent_ns),
            sample.rtt_ns
        )?;
        match sample.response_ns {
            Some(response_ns) => writeln!(to, "{response_ns}")?,
            None => writeln!(to)?,
        }
    }
    Ok(())
}

const HEAD: &str =
    "address,payload_bytes,connection,sequence,intended_ns,sent_ns,rtt_ns,response_ns\n";
const SAMPLES_A_BLOCK: usize = 2_048;
/// 32,768 samples, 2 MiB: the writer may pause for a third of a second at 100,000 pings a second.
const BLOCKS_A_THREAD: usize = 16;
/// On their way to the file, of all threads.
const BLOCKS: usize = 64;
