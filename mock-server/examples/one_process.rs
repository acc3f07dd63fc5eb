//! The smallest target: one process on a free port of the loopback interface, until SIGTERM or
//! SIGINT. Its one optional argument is a latency, as in `lognormal:20ms,0.4`.
#![expect(
    clippy::print_stdout,
    reason = "the address is what an example has to say"
)]

use crawlmark_mock_server::{Config, Ledger, Shared, listeners, run_process};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;

fn main() -> Result<(), Box<dyn Error>> {
    let latency = std::env::args()
        .nth(1)
        .map(|text| text.parse())
        .transpose()?
        .unwrap_or_default();
    let config = Config {
        seed: 1,
        latency,
        ..Config::default()
    };
    let shared = Shared::new()?;
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    for listener in listeners(addr, NonZeroUsize::MIN)? {
        println!("http://{}/items/1", listener.local_addr()?);
        run_process(listener, &config, &shared)?;
    }
    println!("{:#?}", Ledger::read(&shared));
    Ok(())
}
