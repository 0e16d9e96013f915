//! One run of the sweep on a device: the mesh's arrays into buffers, each pass of each filter a launch, and the outputs
//! read back.

use crate::{
    api::{Api, Uses},
    corrupt,
    cost::Cost,
    figures::Figures,
    filters::{self, ArrayId, Filter, Made, Pass},
    mesh::Mesh,
    options::SelfTest,
    outcome::{Largest, Output, Run, Step},
    progress::Progress,
};
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use std::{collections::BTreeMap, time::Duration};
use tack_residency::{MemoryInfo, PeakScope, Result, Use, driver::Arg};

/// The step that writes the mesh's own arrays.
const INPUTS: &str = "inputs";

/// How many outputs are read at a time: one comes while another is digested.
const READS: usize = 2;

/// Holders of memory that the report names.
const HOLDERS: usize = 4;

/// Sweeps `mesh` on a device, which holds nothing else.
///
/// # Errors
///
/// The device's.
pub async fn run<A: Api>(
    api: &A,
    mesh: &Mesh,
    self_test: Option<SelfTest>,
    progress: &mut Progress,
) -> Result<Run> {
    let plan = filters::plan(mesh);
    let outputs: Vec<ArrayId> = plan.iter().flat_map(|filter| filter.outputs.iter().cloned()).collect();
    let mut sweep = Sweep {
        api,
        arrays: BTreeMap::new(),
        cost: Cost::on(api.device()),
        largest: Largest::default(),
        steps: Vec::new(),
    };
    let start = api.now();
    let clock = sweep.begin(INPUTS, progress);
    sweep.load(mesh).await?;
    sweep.end(clock).await?;
    for filter in plan {
        let clock = sweep.begin(filter.name, progress);
        sweep.filter(filter).await?;
        sweep.end(clock).await?;
    }
    let seconds = api.now().saturating_sub(start).as_secs_f64();
    let (memory, mut holders) = (api.device().memory_info(), api.device().largest_holders(HOLDERS));
    holders.retain(|holder| holder.bytes > 0);
    if let (Some(SelfTest::Corrupt), Some(output)) = (self_test, outputs.first()) {
        corrupt::spill_corrupted(api, sweep.array(output)).await?;
    }
    progress.show("reading back", memory.in_use);
    let (outputs, figures) = sweep.read_back(&outputs).await?;
    Ok(Run { seconds, memory, holders, outputs, figures, steps: sweep.steps, largest: sweep.largest })
}

/// The arrays there are, and what was found out on the way.
struct Sweep<'a, A: Api> {
    api: &'a A,
    arrays: BTreeMap<ArrayId, A::Buffer>,
    cost: Cost,
    largest: Largest,
    steps: Vec<Step>,
}

/// What a step is measured from.
struct Clock {
    name: &'static str,
    start: Duration,
    before: MemoryInfo,
    peak: PeakScope,
}

impl<A: Api> Sweep<'_, A> {
    fn begin(&self, name: &'static str, progress: &mut Progress) -> Clock {
        let device = self.api.device();
        let before = device.memory_info();
        progress.show(name, before.in_use);
        Clock { name, start: self.api.now(), before, peak: device.peak_scope() }
    }

    /// Ends a step once the device has: its figures are its own then.
    async fn end(&mut self, clock: Clock) -> Result<()> {
        self.api.idle().await?;
        let (before, after) = (clock.before, self.api.device().memory_info());
        self.steps.push(Step {
            name: clock.name,
            seconds: self.api.now().saturating_sub(clock.start).as_secs_f64(),
            peak_bytes: clock.peak.finish(),
            spills: after.spills.saturating_sub(before.spills),
            restores: after.restores.saturating_sub(before.restores),
            spilled_bytes: after.spilled_bytes.saturating_sub(before.spilled_bytes),
            restored_bytes: after.restored_bytes.saturating_sub(before.restored_bytes),
        });
        Ok(())
    }

    /// Puts the mesh's own arrays in buffers, all at a time.
    async fn load(&mut self, mesh: &Mesh) -> Result<()> {
        let inputs = filters::inputs(mesh);
        let loaded = try_join_all(inputs.iter().map(|(_, bytes)| self.load_one(bytes))).await?;
        self.arrays.extend(inputs.into_iter().map(|(id, _)| id).zip(loaded));
        Ok(())
    }

    async fn load_one(&self, bytes: &[u8]) -> Result<A::Buffer> {
        let buffer = self.api.alloc(bytes.len() as u64, "mesh").await?;
        A::write(&buffer, bytes).await?;
        Ok(buffer)
    }

    /// Runs a filter, then drops what it made but does not keep.
    async fn filter(&mut self, filter: Filter) -> Result<()> {
        let mut made = Vec::new();
        for pass in filter.passes {
            made.extend(pass.makes.iter().map(|made| made.id.clone()));
            self.launch(pass, filter.name).await?;
        }
        made.retain(|id| !filter.outputs.contains(id));
        made.iter().for_each(|id| drop(self.arrays.remove(id)));
        Ok(())
    }

    /// Queues one pass. Its kernel touches memory through the launch's pointers alone.
    async fn launch(&mut self, pass: Pass, tag: &'static str) -> Result<()> {
        let made = try_join_all(pass.makes.iter().map(|made| self.make(made, tag))).await?;
        self.arrays.extend(pass.makes.iter().map(|made| made.id.clone()).zip(made));

        let reads = pass.reads.iter().map(|id| Use::read(self.use_of(id)));
        let updates = pass.updates.iter().map(|id| Use::read_write(self.use_of(id)));
        let makes = pass.makes.iter().map(|made| Use::write(self.use_of(&made.id)));
        let uses: Uses<'_> = reads.chain(updates).chain(makes).collect();

        let (name, first_written, cost) = (pass.name, pass.reads.len(), self.cost);
        let granularity = self.api.device().driver().caps().granularity.max(1);
        let launch = self.api.prepare(uses).await?;
        let bytes = launch.submit(|run| {
            let sizes = (0..run.len()).map(|index| run.bytes(index));
            run.host_kernel(cost.of(sizes.clone().sum()), move |args| {
                let (reads, writes) = args.split_at_mut(first_written);
                let reads: Vec<&[u8]> = reads.iter().map(Arg::bytes).collect();
                let mut writes: Vec<&mut [u8]> = writes.iter_mut().map(Arg::bytes_mut).collect();
                pass.run(&reads, &mut writes);
            })?;
            Ok::<u64, tack_residency::Error>(sizes.map(|bytes| bytes.next_multiple_of(granularity)).sum())
        })?;
        self.largest.note(name, bytes);
        Ok(())
    }

    /// Allocates an array, for which the number of its elements may have to be read from the device first.
    async fn make(&self, made: &Made, tag: &'static str) -> Result<A::Buffer> {
        let counted = match made.length.count() {
            Some(count) => A::read(self.array(count)).await?.first_chunk().copied().unwrap_or_default(),
            None => [0; 8],
        };
        let elements = made.length.elements(u64::from_ne_bytes(counted));
        self.api.alloc(elements.saturating_mul(made.element_bytes) as u64, tag).await
    }

    /// Reads the outputs to the host, for their digests and for the figures of the mesh.
    async fn read_back(&self, outputs: &[ArrayId]) -> Result<(Vec<Output>, Figures)> {
        let reads = outputs.iter().map(|id| A::read(self.array(id)));
        let (mut reads, mut ids) = (stream::iter(reads).buffered(READS), outputs.iter());
        let (mut found, mut kept) = (Vec::new(), BTreeMap::new());
        while let (Some(bytes), Some(id)) = (reads.try_next().await?, ids.next()) {
            found.push(Output::new(id, &bytes));
            if Figures::ARRAYS.contains(&id.as_str()) {
                kept.insert(id.as_str(), bytes);
            }
        }
        let kept = Figures::ARRAYS.map(|name| kept.get(name).map_or(&[][..], Vec::as_slice));
        Ok((found, Figures::reduce(kept)))
    }

    /// # Panics
    ///
    /// If no filter before has made the array: the plan is wrong.
    fn array(&self, id: &ArrayId) -> &A::Buffer {
        self.arrays.get(id).unwrap_or_else(|| panic!("there is no array {id}: make it in an earlier pass"))
    }

    fn use_of(&self, id: &ArrayId) -> Use<'_> {
        A::use_of(self.array(id))
    }
}
