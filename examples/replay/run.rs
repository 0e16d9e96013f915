//! One run of a program under one budget, and what is known of it afterwards.

use crate::{
    options::Options,
    player::{Ahead, Facade, Player, Shared},
    program::{Program, Step},
    stalls::{Needs, Piece, Stalls},
    target::Target,
};
use futures::FutureExt;
use std::time::Duration;
use tack_residency::{Device, MemoryInfo, driver::sim::Span};

/// What one run leaves.
#[derive(Clone, Debug)]
pub struct Run {
    /// None without one.
    pub budget: Option<u64>,
    /// It was too small for this, and has been raised.
    pub raised: bool,
    pub start: Duration,
    pub end: Duration,
    pub memory: MemoryInfo,
    /// None on a device that keeps no such record.
    pub record: Option<Record>,
    /// None if no bytes were held.
    pub digest: Option<u64>,
}

/// What a simulated device did, and when.
#[derive(Clone, Debug)]
pub struct Record {
    pub spans: Vec<Span>,
    pub stalls: Stalls,
}

/// Plays a program. `watch` is told of each step that has been asked for.
///
/// # Errors
///
/// What the device says, with the step.
pub fn run(
    options: &Options,
    budget: Option<u64>,
    program: &Program,
    watch: &mut dyn FnMut(&Device, usize),
) -> Result<Run, String> {
    let target = Target::open(options, budget)?;
    let (device, shared, holds) = (target.device().clone(), Shared::default(), options.holds());
    match &target {
        Target::Async(_) => {
            let mut player = Ahead::new(&device, options.look_ahead(), holds, shared.clone());
            // Not on tokio: its tasks yield when they have used up their budget, wherever that happens to be.
            futures::executor::block_on(play(&mut player, &device, program, (&shared, holds), watch))
        }
        Target::Facade(facade) => {
            let mut player = Facade::new(facade, holds, shared.clone());
            let run = play(&mut player, &device, program, (&shared, holds), watch).now_or_never();
            run.ok_or("a call of the facade returned before it had ended")?
        }
    }
    .map(|run| Run { budget, ..run })
}

async fn play(
    player: &mut impl Player,
    device: &Device,
    program: &Program,
    (shared, holds): (&Shared, bool),
    watch: &mut dyn FnMut(&Device, usize),
) -> Result<Run, String> {
    let start = device.driver().now();
    for (place, step) in program.steps[..program.end].iter().enumerate() {
        let done = player.step(place, step).await;
        done.map_err(|error| format!("line {}: {error}", place + 1))?;
        watch(device, place);
    }
    let after = |error: tack_residency::Error| format!("after the last launch: {error}");
    player.settle().await.map_err(after)?;
    let end = device.driver().now();
    let sim = Target::sim(device);
    let record = sim.map(|sim| {
        let spans = sim.spans();
        let stalls = Stalls::find(spans.iter().map(Piece::from), &Needs::all(program), |address| {
            shared.buffer_at(address)
        });
        Record { spans, stalls }
    });
    let memory = device.memory_info();
    let digest = if holds {
        player.read_left(program).await.map_err(after)?;
        Some(shared.digest.value())
    } else {
        None
    };
    for step in &program.steps[program.end..] {
        if let Step::Free(buffer) = step {
            player.free(*buffer).await.map_err(after)?;
        }
    }
    player.settle().await.map_err(after)?;
    device.check().map_err(after)?;
    Ok(Run { budget: None, raised: false, start, end, memory, record, digest })
}
