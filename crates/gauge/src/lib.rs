//! The measuring engine of Tautline.

pub mod environment;
pub mod gate;
pub mod plan;
pub mod quantity;
pub mod report;
pub mod run;
