//! Which of a device's engines a queue is for.

use super::{
    super::QueueRole,
    ffi::{GROUP_COMPUTES, GROUP_COPIES, GroupProperties},
};
use std::sync::atomic::{AtomicUsize, Ordering};

/// An engine: its group's ordinal, and its place in the group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Engine {
    pub(super) group: u32,
    pub(super) index: u32,
}

/// The engines of a device.
#[derive(Debug)]
pub(super) struct Engines {
    compute: Vec<Engine>,
    /// Those that copy and do nothing else.
    copy: Vec<Engine>,
    /// How many compute queues have been made.
    made: AtomicUsize,
}

impl Engines {
    /// Of a device's groups, in the order of their ordinals; none if no group computes.
    pub(super) fn new(groups: &[GroupProperties]) -> Option<Engines> {
        let all =
            |group: usize| (0..groups[group].engines).map(move |index| Engine { group: group as u32, index });
        let computes = |group: usize| groups[group].flags & GROUP_COMPUTES != 0;
        let copies = |group: usize| groups[group].flags & GROUP_COPIES != 0;
        let compute: Vec<Engine> = (0..groups.len()).find(|&group| computes(group)).map(all)?.collect();
        let copy =
            (0..groups.len()).filter(|&group| copies(group) && !computes(group)).flat_map(all).collect();
        (!compute.is_empty()).then_some(Engines { compute, copy, made: AtomicUsize::new(0) })
    }

    /// The engine for a queue: each further compute queue has another engine as long as there are any. Copies each way
    /// have an engine of their own, or share one, or have none but the first that computes.
    pub(super) fn choose(&self, role: QueueRole) -> Engine {
        let (engines, which) = match role {
            QueueRole::Compute => (&self.compute, self.made.fetch_add(1, Ordering::Relaxed)),
            QueueRole::Restore if !self.copy.is_empty() => (&self.copy, 0),
            QueueRole::Spill if !self.copy.is_empty() => (&self.copy, 1),
            _ => (&self.compute, 0),
        };
        engines[which % engines.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(flags: u32, engines: u32) -> GroupProperties {
        GroupProperties { flags, engines, ..GroupProperties::new() }
    }

    fn chosen(groups: &[GroupProperties]) -> Vec<(u32, u32)> {
        let engines = Engines::new(groups).expect("one computes");
        let roles = [QueueRole::Compute, QueueRole::Spill, QueueRole::Restore, QueueRole::Release];
        let further = [QueueRole::Compute; 2];
        let chosen = roles.into_iter().chain(further).map(|role| engines.choose(role));
        chosen.map(|engine| (engine.group, engine.index)).collect()
    }

    #[test]
    fn copies_have_engines_of_their_own_where_there_are_any() {
        let (both, copy) = (GROUP_COMPUTES | GROUP_COPIES, GROUP_COPIES);
        assert_eq!(chosen(&[group(both, 1)]), [(0, 0); 6]);
        assert_eq!(
            chosen(&[group(both, 1), group(copy, 1)]),
            [(0, 0), (1, 0), (1, 0), (0, 0), (0, 0), (0, 0)]
        );
        assert_eq!(
            chosen(&[group(copy, 1), group(both, 2), group(both | 4, 1), group(copy, 7)]),
            [(1, 0), (3, 0), (0, 0), (1, 0), (1, 1), (1, 0)]
        );
        assert!(Engines::new(&[group(copy, 4)]).is_none() && Engines::new(&[]).is_none());
    }
}
