//! Calls refused on demand, and how often each was made.

use super::code::{Answer, Code};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Which calls are refused from now on, and by what.
#[derive(Debug)]
pub struct Refusals(Mutex<Rules>);

#[derive(Debug, Default)]
struct Rules {
    rules: Vec<Rule>,
    made: BTreeMap<&'static str, u64>,
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
        Refusals(Mutex::new(Rules { rules: rules.collect(), made: BTreeMap::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses the `nth` call of `name` from now on with `code`; every one if `nth` is zero.
    pub fn add(&self, name: String, nth: u64, code: Code) {
        self.lock().rules.push(Rule { name, nth: Some(nth).filter(|&nth| nth > 0), code });
    }

    /// Refuses nothing more.
    pub fn clear(&self) {
        self.lock().rules.clear();
    }

    /// How often `name` was called.
    pub fn made(&self, name: &str) -> u64 {
        self.lock().made.get(name).copied().unwrap_or(0)
    }

    /// Notes a call, and refuses it if a rule says so.
    pub fn admit(&self, name: &'static str) -> Answer {
        let mut rules = self.lock();
        *rules.made.entry(name).or_default() += 1;
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
