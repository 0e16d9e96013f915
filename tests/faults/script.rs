//! The run in which each call to the driver fails once: it uses the whole of the API under a tight budget, knows
//! what every buffer must hold, and tries again what failed.

use std::{collections::BTreeMap, future::Future};
use tack_residency::{Buffer, Device, Error, ErrorKind, Result, Use};

/// The bytes of a buffer of the script.
pub const UNIT: u64 = 4096;
/// Room for four of them.
pub const BUDGET: u64 = 4 * UNIT;

/// What the script holds and knows.
#[derive(Debug)]
pub struct Script {
    pub device: Device,
    pub buffers: BTreeMap<&'static str, Buffer>,
    pub expected: BTreeMap<&'static str, Vec<u8>>,
    /// What failed, in order.
    pub errors: Vec<Error>,
}

fn pattern(seed: u8) -> Vec<u8> {
    (0..UNIT).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

impl Script {
    pub fn new(device: Device) -> Script {
        Script { device, buffers: BTreeMap::new(), expected: BTreeMap::new(), errors: Vec::new() }
    }

    /// Does it, and once more if that fails, unless the device is lost.
    async fn again<T, F: Future<Output = Result<T>>>(
        errors: &mut Vec<Error>,
        mut call: impl FnMut() -> F,
    ) -> Result<T> {
        let first = match call().await {
            Err(error) => error,
            done => return done,
        };
        errors.push(first.clone());
        if first.kind() == ErrorKind::DeviceLost {
            return Err(first);
        }
        let second = call().await;
        if let Err(error) = &second {
            errors.push(error.clone());
        }
        second
    }

    async fn alloc(&mut self, name: &'static str) -> Result<()> {
        let device = &self.device;
        let buffer = Script::again(&mut self.errors, || device.alloc(UNIT).tag(name)).await?;
        self.buffers.insert(name, buffer);
        self.expected.insert(name, vec![0; UNIT as usize]);
        Ok(())
    }

    async fn write(&mut self, name: &'static str, seed: u8) -> Result<()> {
        let (buffer, bytes) = (&self.buffers[name], pattern(seed));
        Script::again(&mut self.errors, || buffer.write(bytes.clone())).await?;
        self.expected.insert(name, bytes);
        Ok(())
    }

    async fn fill(&mut self, name: &'static str, offset: usize, bytes: usize, value: u8) -> Result<()> {
        let view = self.buffers[name].view(offset as u64, bytes as u64)?;
        Script::again(&mut self.errors, || view.fill(value)).await?;
        self.expected.get_mut(name).expect("a buffer")[offset..offset + bytes].fill(value);
        Ok(())
    }

    pub async fn read(&mut self, name: &'static str) -> Result<()> {
        let buffer = &self.buffers[name];
        let bytes = Script::again(&mut self.errors, || buffer.read()).await?;
        assert!(bytes == self.expected[name], "{name} lost its bytes, after {:?}", self.errors);
        Ok(())
    }

    /// `to` becomes `from` plus `more`; or plus itself, where it is not overwritten.
    async fn launch(
        &mut self,
        queue: Option<&tack_residency::Queue>,
        from: &'static str,
        to: &'static str,
        overwritten: bool,
    ) -> Result<()> {
        let (device, source, target) = (&self.device, &self.buffers[from], &self.buffers[to]);
        let target = || if overwritten { Use::write(target) } else { Use::read_write(target) };
        Script::again(&mut self.errors, || async {
            let launch = device.prepare([Use::read(source), target()]).await?;
            let launch = if let Some(queue) = queue { launch.on(queue)? } else { launch };
            launch.submit(|run| {
                run.host_kernel(std::time::Duration::from_micros(30), move |args| {
                    let [from, to] = args else { unreachable!() };
                    for (to, from) in to.bytes_mut().iter_mut().zip(from.bytes()) {
                        *to = if overwritten { from.wrapping_add(1) } else { to.wrapping_add(*from) };
                    }
                })
            })
        })
        .await?;
        let source = self.expected[from].clone();
        for (to, from) in self.expected.get_mut(to).expect("a buffer").iter_mut().zip(source) {
            *to = if overwritten { from.wrapping_add(1) } else { to.wrapping_add(from) };
        }
        Ok(())
    }

    async fn copy(&mut self, from: &'static str, to: &'static str) -> Result<()> {
        let (source, target) = (&self.buffers[from], &self.buffers[to]);
        Script::again(&mut self.errors, || source.copy_to(target)).await?;
        let bytes = self.expected[from].clone();
        self.expected.insert(to, bytes);
        Ok(())
    }

    fn forget(&mut self, name: &'static str) {
        self.buffers.remove(name);
        self.expected.remove(name);
    }

    /// The whole run. Buffers are left for whoever wants to look at them.
    pub async fn run(&mut self) -> Result<()> {
        for (name, seed) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
            self.alloc(name).await?;
            self.write(name, seed).await?;
        }
        self.launch(None, "a", "c", true).await?;
        self.alloc("e").await?; // one must go
        self.write("e", 5).await?;
        self.launch(None, "b", "e", false).await?;
        let device = self.device.clone();
        let second = Script::again(&mut self.errors, || async { device.add_queue() }).await?;
        self.launch(Some(&second), "e", "d", true).await?; // comes back without a copy
        self.launch(None, "d", "a", false).await?;
        self.copy("c", "b").await?;
        let spilled = self.buffers["a"].clone();
        Script::again(&mut self.errors, || spilled.spill()).await?;
        self.fill("a", 100, 50, 9).await?; // where it is
        self.read("a").await?;
        let exported = self.buffers["c"].clone();
        let export = Script::again(&mut self.errors, || exported.export()).await?;
        self.launch(Some(&second), "a", "b", false).await?;
        drop(export);
        Script::again(&mut self.errors, || device.make_room(2 * UNIT)).await?;
        let coming = ["b", "e"].map(|name| self.buffers[name].clone());
        Script::again(&mut self.errors, || device.prefetch(coming.each_ref().map(Use::read))).await?;
        drop(coming);
        self.alloc("f").await?;
        self.launch(None, "c", "f", true).await?;
        self.fill("f", 0, 10, 7).await?;
        let fixed = Script::again(&mut self.errors, || device.alloc(UNIT).fixed().tag("fixed")).await?;
        self.forget("d");
        self.launch(None, "f", "e", false).await?;
        drop(fixed);
        let held = self.buffers["b"].clone();
        drop(Script::again(&mut self.errors, || held.ensure_resident()).await?);
        Script::again(&mut self.errors, || device.spill_all()).await?;
        self.launch(None, "a", "b", false).await?;
        for name in ["a", "b", "c", "e", "f"] {
            self.read(name).await?;
        }
        Script::again(&mut self.errors, || device.idle()).await
    }
}
