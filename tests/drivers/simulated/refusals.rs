//! Calls refused on demand, and which were made.

use super::code::{Answer, Code};
use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Which calls are refused from now on, and by what.
#[derive(Debug)]
pub struct Refusals(Mutex<Rules>);

#[derive(Debug, Default)]
struct Rules {
    rules: Vec<Rule>,
    made: BTreeSet<&'static str>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Rule {
    name: String,
    /// Which of the calls from now on, counted from one; every one if none.
    nth: Option<u64>,
    code: Code,
}

impl Refusals {
    /// `NAME:N:CODE,...`; `*` for `N` means every call.
    ///
    /// # Panics
    ///
    /// If that is not what the text is.
    pub fn parse(text: &str) -> Refusals {
        let rules = text.split(',').filter(|rule| !rule.is_empty()).map(|rule| {
            let parts: Vec<&str> = rule.split(':').collect();
            let [name, nth, code] = parts[..] else { panic!("no refusal is written {rule:?}") };
            let nth = (nth != "*").then(|| nth.parse().expect("a number of calls"));
            Rule { name: name.to_owned(), nth, code: code.parse().expect("a result code") }
        });
        Refusals(Mutex::new(Rules { rules: rules.collect(), made: BTreeSet::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which calls were made.
    pub fn called(&self) -> Vec<&'static str> {
        self.lock().made.iter().copied().collect()
    }

    /// Notes a call, and refuses it if a rule says so.
    pub fn admit(&self, name: &'static str) -> Answer {
        let mut rules = self.lock();
        rules.made.insert(name);
        let mut refused = Ok(());
        for rule in rules.rules.iter_mut().filter(|rule| rule.name == name) {
            match &mut rule.nth {
                None => refused = Err(rule.code),
                Some(0) => {}
                Some(left) => {
                    *left -= 1;
                    if *left == 0 {
                        refused = Err(rule.code);
                    }
                }
            }
        }
        refused
    }
}
