//! Control frames: messages of the driver's own, at a border between messages.

use super::{Outbound, Stage, Surroundings};
use crate::account::Tally;
use crate::block::PeerId;
use crate::control::{CONTROL_BYTES, Control, mark};

impl Outbound {
    /// The driver puts a control frame into the queue and writes it next; only where both ends know
    /// of them and the framing is a length prefix. Whether it is in.
    ///
    /// It counts as a message like any other, and in
    /// [`heartbeats`](crate::SendStatistics::heartbeats) besides. A ping is left out while anything
    /// waits: what is on its way says that we live as well. Either is left out where there is no room.
    pub fn offer_control(&mut self, control: Control, surroundings: &impl Surroundings) -> bool {
        let open = matches!(self.stage, Stage::Open);
        let needless = matches!(control, Control::Ping(_)) && !self.waiting().is_zero();
        let prefix = mark(self.framing.header_bytes());
        if !open || needless || !self.has_room(prefix.len() + CONTROL_BYTES) {
            return false;
        }
        let accepted = Tally::one(prefix.len() + CONTROL_BYTES);
        self.note_accepted(accepted, PeerId::SOLE);
        self.heartbeats += 1;
        self.enqueue(prefix, &control.encode(), surroundings);
        true
    }
}
