//! Blocks that the queues of one I/O thread hand round.

use std::sync::{Mutex, PoisonError};

use tautline_session::{BLOCK_BYTES, Block};

/// Idle blocks. Queues allocate only while more is waiting than ever waited before.
#[derive(Debug, Default)]
pub(crate) struct BlockPool(Mutex<Vec<Block>>);

impl BlockPool {
    pub(crate) fn take(&self) -> Block {
        let pooled = self.lock().pop();
        pooled.unwrap_or_else(|| Block::with_room(BLOCK_BYTES))
    }

    pub(crate) fn give_back(&self, mut block: Block) {
        if block.room_bytes() > BLOCK_BYTES {
            // It was made for one large message.
            return;
        }
        block.clear();
        let mut pool = self.lock();
        if pool.len() < IDLE_BLOCKS {
            pool.push(block);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Block>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Just under 16 MiB that an I/O thread keeps: sixteen full queues of the default size.
const IDLE_BLOCKS: usize = 255;
