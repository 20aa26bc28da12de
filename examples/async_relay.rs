//! A relay between two TCP connections, driven by futures: a slow downstream holds up the upstream, and
//! nothing is lost. Any executor will do.
//! `cargo run -p tautline --features futures --example async_relay`

use std::time::Duration;

use tautline::{
    AcceptOptions, Address, AsyncLink, AsyncServer, InboxOptions, IoOptions, IoThread, LinkOptions,
    ServerOptions,
};

const COUNT: u32 = 200_000;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let io = IoThread::start(IoOptions::default())?;
    let listen = || {
        io.listen_async(
            &free_port(),
            ServerOptions::default(),
            AcceptOptions::default(),
        )
    };
    let (relay, mut sink) = (listen()?, listen()?);
    let connect = |to: &AsyncServer| {
        io.connect_async(
            &to.local_address(),
            LinkOptions::default(),
            InboxOptions::default(),
        )
    };
    let (source, down) = (connect(&relay)?, connect(&sink)?);

    smol::block_on(async {
        let relaying = smol::spawn(carry(relay, down));
        let sending = smol::spawn(async move {
            source.opened().await?;
            for number in 0..COUNT {
                source.send(&number.to_be_bytes()).await?;
            }
            source.close(Duration::from_secs(30)).await;
            Ok::<(), Failure>(())
        });
        let mut taken = sink.accept().await.ok_or("the sink was closed")?;
        let mut received_bytes = 0;
        // Bytes have no borders here: a message is what one read brought.
        while let Ok(bytes) = taken.recv().await {
            received_bytes += bytes.len();
        }
        sending.await?;
        println!(
            "{} bytes relayed, {received_bytes} received",
            relaying.await?
        );
        Ok(())
    })
}

/// Everything that comes from the first peer goes down, at the pace of the slower of the two.
async fn carry(mut server: AsyncServer, down: AsyncLink) -> Result<u64, tautline::SendError> {
    let Some(mut up) = server.accept().await else {
        return Ok(0);
    };
    while let Ok(bytes) = up.recv().await {
        down.send(&bytes).await?;
    }
    let link = down.link().clone();
    down.close(Duration::from_secs(30)).await;
    Ok(link.statistics().sending.written.bytes)
}

fn free_port() -> Address {
    Address::tcp(([127, 0, 0, 1], 0).into())
}
