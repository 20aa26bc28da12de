//! A chat room on futures: what one says, all others hear. Any executor will do.
//! `cargo run -p tautline --features futures --example async_chat`

use std::time::Duration;

use smol::channel::{Sender, bounded};
use smol::future::or;
use tautline::{
    AcceptOptions, Address, AsyncLink, AsyncServer, Framing, InboxOptions, IoOptions, IoThread,
    Link, LinkOptions, Message, ServerOptions,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What happens in the room.
enum News {
    Came(Option<AsyncLink>),
    Said(Link, Message),
}

fn main() -> Result<(), Failure> {
    let io = IoThread::start(IoOptions::default())?;
    let server = io.listen_async(
        &"tcp://127.0.0.1:0".parse()?,
        ServerOptions {
            link: lines(),
            ..ServerOptions::default()
        },
        AcceptOptions::default(),
    )?;
    let address = server.local_address();
    smol::block_on(async {
        let room = smol::spawn(host(server));
        let mut ann = enter(&io, &address, "ann").await?;
        let mut bob = enter(&io, &address, "bob").await?;
        ann.send(b"hello bob").await?;
        println!("bob hears {:?}", text(&bob.recv().await?));
        bob.send(b"hello ann").await?;
        println!("ann hears {:?}", text(&ann.recv().await?));
        for guest in [ann, bob] {
            guest.close(Duration::from_secs(5)).await;
        }
        room.cancel().await;
        Ok(())
    })
}

/// Lets people in, and passes on what they say.
async fn host(mut server: AsyncServer) {
    let (say, said) = bounded(64);
    loop {
        let came = async { News::Came(server.accept().await) };
        let heard = async {
            let (from, line) = said.recv().await.expect("the room holds a sender");
            News::Said(from, line)
        };
        match or(came, heard).await {
            News::Came(Some(guest)) => smol::spawn(listen(guest, say.clone())).detach(),
            News::Came(None) => return,
            News::Said(from, line) => {
                // Whoever reads too slowly misses lines; nobody waits for them.
                server.server().broadcast_except(&line, &from);
            }
        }
    }
}

async fn listen(mut guest: AsyncLink, say: Sender<(Link, Message)>) {
    // Welcomed, a guest knows that the room hears it.
    let _ = guest.send(b"welcome").await;
    while let Ok(line) = guest.recv().await {
        if say.send((guest.link().clone(), line)).await.is_err() {
            return;
        }
    }
}

async fn enter(io: &IoThread, room: &Address, name: &str) -> Result<AsyncLink, Failure> {
    let mut guest = io.connect_async(room, lines(), InboxOptions::default())?;
    println!("{name} is told {:?}", text(&guest.recv().await?));
    Ok(guest)
}

fn lines() -> LinkOptions {
    LinkOptions {
        framing: Framing::lines(),
        ..LinkOptions::default()
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}
