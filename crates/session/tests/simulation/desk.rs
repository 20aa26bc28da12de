//! What the simulation's sessions ask of their driver.

use std::cell::{Cell, RefCell};

use tautline_session::{BLOCK_BYTES, Block, Surroundings};

/// A clock set by hand, and a pool of blocks.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    pub(crate) now_ns: Cell<u64>,
    pool: RefCell<Vec<Block>>,
    blocks_out: Cell<i64>,
}

impl Desk {
    /// How many of the pool's blocks are in use.
    pub(crate) const fn blocks_out(&self) -> i64 {
        self.blocks_out.get()
    }
}

impl Surroundings for Desk {
    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn block(&self) -> Block {
        self.blocks_out.set(self.blocks_out.get() + 1);
        let pooled = self.pool.borrow_mut().pop();
        pooled.unwrap_or_else(|| Block::with_room(BLOCK_BYTES))
    }

    fn recycle(&self, mut block: Block) {
        // Larger ones are not the pool's.
        if block.room_bytes() == BLOCK_BYTES {
            self.blocks_out.set(self.blocks_out.get() - 1);
            block.clear();
            self.pool.borrow_mut().push(block);
        }
    }
}
