//! A launch of a recorded program by the device's own kernels: what it reads, mixed into what it writes.

use crate::{
    backend::Mix,
    content::{Digest, How},
    player::{Kernel, Work},
    program::Launch,
    subject::Subject,
};
use std::{sync::Arc, time::Duration};

/// What all launches of a run share.
#[derive(Clone)]
pub struct MixingWork {
    pub subject: Arc<dyn Subject>,
    /// Of what the host reads.
    pub digest: Arc<Digest>,
    /// How long a kernel runs, against its recorded time, before it mixes.
    pub pace: f64,
}

impl Work for MixingWork {
    fn kernel(&self, place: usize, launch: &Launch) -> Kernel {
        let hows: Vec<How> = launch.uses.iter().map(|&(_, how)| how).collect();
        let (subject, time) = (self.subject.clone(), launch.cost.mul_f64(self.pace));
        Box::new(move |run| {
            if time > Duration::ZERO {
                subject.spin(run.driver(), run.queue(), time);
            }
            for mix in mixes(&hows, place as u32) {
                subject.mix_uses(run, mix)?;
            }
            Ok(())
        })
    }

    fn digest(&self) -> &Digest {
        &self.digest
    }
}

/// Each use that is written takes in each that is read.
fn mixes(hows: &[How], place: u32) -> Vec<Mix> {
    let mut mixes = Vec::new();
    let salt = place.wrapping_mul(0x9e37_79b9);
    for (to, how) in hows.iter().enumerate().filter(|(_, how)| **how != How::Read) {
        let mut keeps = *how == How::ReadWrite;
        let inputs = (0..hows.len()).filter(|&from| from != to && hows[from] != How::Write);
        for from in inputs {
            mixes.push(Mix { to, from: Some(from), keeps, salt });
            keeps = true;
        }
        if mixes.last().is_none_or(|last| last.to != to) {
            mixes.push(Mix { to, from: None, keeps, salt });
        }
    }
    mixes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_takes_in_all_that_is_read_and_nothing_that_is_overwritten() {
        let seen = |hows: &[How]| -> Vec<(usize, Option<usize>, bool)> {
            mixes(hows, 1).iter().map(|mix| (mix.to, mix.from, mix.keeps)).collect()
        };
        use How::{Read, ReadWrite, Write};
        assert_eq!(seen(&[Read, Read, Write]), [(2, Some(0), false), (2, Some(1), true)]);
        assert_eq!(
            seen(&[Read, ReadWrite, Write]),
            [(1, Some(0), true), (2, Some(0), false), (2, Some(1), true)]
        );
        assert_eq!(seen(&[Write, ReadWrite]), [(0, Some(1), false), (1, None, true)]);
        assert_eq!(seen(&[Read]), []);
    }
}
