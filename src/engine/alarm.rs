//! The end of someone's patience with a wait that is no request: its event is rung then, and it looks again.

use super::{
    Owner,
    sync::{Event, lock},
};
use std::{sync::Arc, time::Duration};

/// Unset, or set to a moment. Dropped, it is as if it had not been set.
#[derive(Debug, Default)]
pub struct Alarm(Option<Set>);

#[derive(Debug)]
struct Set {
    owner: Arc<Owner>,
    key: (Duration, u64),
}

impl Alarm {
    /// Rings `event` in `patience` from now, unless it is set already or there is no end to the patience.
    pub fn set(&mut self, owner: &Arc<Owner>, event: &Arc<Event>, patience: Option<Duration>) {
        let (None, Some(patience)) = (&self.0, patience) else { return };
        let engine = &owner.engine;
        let at = engine.driver.now().saturating_add(patience);
        let key = {
            let mut state = lock(&engine.state);
            let key = (at, state.number());
            state.alarms.insert(key, event.clone());
            key
        };
        self.0 = Some(Set { owner: owner.clone(), key });
        engine.driver.unpark();
    }

    /// Whether the moment has come.
    pub fn is_over(&self) -> bool {
        self.0.as_ref().is_some_and(|set| set.owner.engine.driver.now() >= set.key.0)
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        lock(&self.owner.engine.state).alarms.remove(&self.key);
    }
}
