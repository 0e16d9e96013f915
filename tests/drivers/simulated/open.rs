//! What is open, and what is said about it at the process's end.

use super::{
    settings::settings,
    state::{Library, State},
};
use std::{ffi::c_int, fmt};

/// How many are open of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Open {
    pub contexts: usize,
    pub streams: usize,
    pub events: usize,
    pub pools: usize,
    pub allocations: usize,
    pub pinned: usize,
    pub modules: usize,
    pub graphs: usize,
}

impl State {
    /// What is open in contexts that `which` chooses.
    pub fn open_in(&self, which: impl Fn(usize) -> bool) -> Open {
        Open {
            contexts: 0,
            streams: self.streams.iter().filter(|(_, stream)| which(stream.context)).count(),
            events: self.events.iter().filter(|(_, event)| which(event.context)).count(),
            pools: 0,
            allocations: self.allocations.values().filter(|held| which(held.context)).count(),
            pinned: self.pinned.values().filter(|block| which(block.context)).count(),
            modules: self.modules.iter().filter(|(_, module)| which(module.context)).count(),
            graphs: 0,
        }
    }

    /// All that is open, and what contexts still had when they were given up.
    pub fn open(&self) -> Open {
        let contexts =
            self.contexts.iter().filter(|(_, context)| context.held > 0 && !crate::VENDOR.implicit);
        let now = self.open_in(|_| true);
        let mut open =
            Open { contexts: contexts.count(), pools: self.pools.len(), graphs: self.graphs.len(), ..now };
        open.add(&self.abandoned);
        open
    }
}

impl Open {
    pub fn add(&mut self, more: &Open) {
        for (count, (_, more)) in self.counts_mut().into_iter().zip(more.counts()) {
            *count += more;
        }
    }

    pub fn total(&self) -> usize {
        self.counts().iter().map(|(_, count)| count).sum()
    }

    fn counts_mut(&mut self) -> [&mut usize; 8] {
        let Open { contexts, streams, events, pools, allocations, pinned, modules, graphs } = self;
        [contexts, streams, events, pools, allocations, pinned, modules, graphs]
    }

    fn counts(&self) -> [(&'static str, usize); 8] {
        let names =
            ["contexts", "streams", "events", "pools", "allocations", "pinned blocks", "modules", "graphs"];
        let mut copy = *self;
        let counts = copy.counts_mut().map(|count| *count);
        std::array::from_fn(|index| (names[index], counts[index]))
    }
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.counts().into_iter().filter(|(_, count)| *count > 0);
        let open: Vec<String> = open.map(|(name, count)| format!("{count} {name}")).collect();
        if open.is_empty() { f.write_str("nothing") } else { f.write_str(&open.join(", ")) }
    }
}

unsafe extern "C" {
    fn atexit(call: extern "C" fn()) -> c_int;
}

extern "C" fn report() {
    let library = Library::get();
    eprintln!("tack_sim: called: {}", library.refusals.called().join(" "));
    eprintln!("tack_sim: open at the end: {}", library.lock().open());
}

/// Has the process say at its end what was called and what is open, if it is to.
pub fn report_at_exit() {
    if settings().report {
        // SAFETY: the library is never unloaded, and what is called there takes no argument.
        let _ = unsafe { atexit(report) };
    }
}
