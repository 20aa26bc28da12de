//! tokio: a task a connection at each end, on a current-thread runtime each.

use std::sync::Arc;

use ::tokio::runtime::Runtime;
use ::tokio::task::{self, JoinHandle};

use super::super::peers::tokio_end::{FarEnd, Frames, TokioEnd, frame, runtime, serve_echo};
use super::super::rounds::Side;
use super::super::site::{Site, said};
use super::{Client, Crowd, Exchange, Floor, Together, room_for};

pub(crate) fn start(site: &Site, crowd: Crowd) -> Result<Box<dyn Side>, String> {
    room_for(crowd)?;
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for _ in 0..crowd.connections() {
        let (client, server) = site.raw_pair()?;
        near.push(client);
        far.push(server);
    }
    let own = site.clone();
    let server = FarEnd::start_all(site, far, move |end| serve_echo(Frames::new(end, &own)))?;
    let runtime = runtime().map_err(said)?;
    let entered = runtime.enter();
    let mut members = Vec::with_capacity(near.len());
    for end in near {
        members.push(Member {
            frames: Frames::new(TokioEnd::adopt(end).map_err(said)?, site),
            exchange: Exchange::new(site),
            wire: frame(site),
        });
    }
    drop(entered);
    let tasks = Tasks {
        floor: Arc::new(Floor::new()?),
        members,
        runtime,
        server,
    };
    Together::start(tasks, crowd)
}

struct Tasks {
    floor: Arc<Floor>,
    /// Here between blocks.
    members: Vec<Member>,
    runtime: Runtime,
    server: FarEnd,
}

impl Client for Tasks {
    fn floor(&self) -> &Floor {
        &self.floor
    }

    fn exchange(&mut self) -> Result<(), String> {
        let floor = &self.floor;
        let members = self.members.drain(..);
        self.members = self.runtime.block_on(async {
            let tasks: Vec<JoinHandle<Result<Member, String>>> = members
                .map(|member| task::spawn(member.exchange(Arc::clone(floor))))
                .collect();
            let mut back = Vec::with_capacity(tasks.len());
            for task in tasks {
                back.push(task.await.map_err(said)??);
            }
            Ok::<_, String>(back)
        })?;
        Ok(())
    }

    fn finish(self) -> Result<Option<String>, String> {
        self.server.end().map(|()| None)
    }
}

/// One connection.
struct Member {
    frames: Frames,
    exchange: Exchange,
    wire: Vec<u8>,
}

impl Member {
    async fn exchange(mut self, floor: Arc<Floor>) -> Result<Self, String> {
        let prefix_bytes = self.wire.len() - self.exchange.payload.len();
        self.wire[prefix_bytes..].copy_from_slice(self.exchange.first());
        loop {
            self.frames.write_all(&self.wire).await.map_err(said)?;
            let goes_on = loop {
                if let Some(reply) = self.frames.next_payload().map_err(said)? {
                    break self.exchange.settle(&floor, reply);
                }
                if !self.frames.fill().await.map_err(said)? {
                    return Err("the server has gone".to_owned());
                }
            };
            if !goes_on {
                return Ok(self);
            }
            self.wire[prefix_bytes..].copy_from_slice(self.exchange.next());
        }
    }
}
