//! The measuring engine of Tautline.

pub mod clock;
pub mod environment;
pub mod gate;
pub mod placement;
pub mod plan;
pub mod probe;
pub mod quantity;
pub mod recorder;
pub mod report;
pub mod run;
pub mod statistics;
mod sys;
