//! Kernels that the host runs in a list's order: the list signals when it has come so far, and waits until it is told to
//! go on.

use super::{
    super::{
        DriverError, DriverErrorKind, HostKernel, HostRange, QueueId, Result, pace::Pace, sim::bell::Bell,
        staged::Staged, symbols::Handle, watch::Watch,
    },
    LevelZero,
    context::Context,
};
use std::sync::{
    Arc, Mutex, OnceLock, PoisonError, Weak,
    atomic::{AtomicBool, Ordering},
};

const NAME: &str = "launch_host";

/// Queues a kernel.
pub(super) fn launch(device: &LevelZero, queue: QueueId, kernel: HostKernel) -> Result<()> {
    let (place, runner) = (device.queue(queue, NAME)?, device.runner()?);
    let take_back = |from: &HostRange, to| device.bring_in(place, from, to);
    let lost = |error| device.context.lose(error);
    // Dropped last: what its body has captured may call this device.
    let staged = Staged::new(device, &device.stages, kernel)?;
    let _turn = place.turn();
    let call = |staged: &Arc<Staged>| {
        let context = device.context.clone();
        let gate = Arc::new(Gate::new(device)?);
        place.stream.signal(&context, gate.reached)?;
        // Kept behind each of the two, whatever becomes of the other.
        place.copying().push(gate.clone());
        place.stream.wait(&context, gate.opened)?;
        place.copying().push(gate.clone());
        runner.push(Job { gate, staged: staged.clone(), context });
        Ok(())
    };
    staged.queue(device, queue, call, take_back, lost)
}

/// Where a list stops. Its events go back once the list has passed, and the host is done with them.
#[derive(Debug)]
struct Gate {
    /// Signalled by the list.
    reached: Handle,
    /// Waited for by the list.
    opened: Handle,
    watch: Weak<Watch>,
}

impl Gate {
    fn new(device: &LevelZero) -> Result<Gate> {
        let (reached, opened) = (device.event()?, device.event()?);
        Ok(Gate { reached, opened, watch: Arc::downgrade(&device.watch) })
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let Some(watch) = self.watch.upgrade() else { return };
        watch.fences.keep(self.reached);
        watch.fences.keep(self.opened);
    }
}

#[derive(Debug)]
struct Job {
    gate: Arc<Gate>,
    staged: Arc<Staged>,
    context: Arc<Context>,
}

/// Who runs the kernels of one device, on a thread of its own.
#[derive(Debug, Default)]
pub(super) struct Runner {
    jobs: Mutex<Vec<Job>>,
    pace: Pace,
    bell: Bell,
    closing: AtomicBool,
}

impl LevelZero {
    fn runner(&self) -> Result<&Arc<Runner>> {
        if let Some(runner) = self.runner.get() {
            return Ok(runner);
        }
        let runner = Arc::new(Runner::default());
        let own = runner.clone();
        let thread = std::thread::Builder::new().name("tack host kernels".to_owned());
        thread.spawn(move || own.tend()).map_err(|error| {
            DriverError::new(DriverErrorKind::Refused, NAME, 0, format!("no thread to run it: {error}"))
        })?;
        // Another thread's came first: this one has nothing to do.
        if let Err(runner) = self.runner.set(runner) {
            runner.close();
        }
        self.runner()
    }
}

impl Runner {
    fn push(&self, job: Job) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).push(job);
        self.pace.note();
        self.bell.ring();
    }

    /// Its thread ends once it has run what it was given.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.bell.ring();
    }

    /// The first kernel whose list has come to it, and how many there are.
    fn next(&self) -> (Option<Job>, usize) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        // One whose event cannot be asked is let go of: its device is lost.
        let ready = jobs.iter().position(|job| job.context.query(job.gate.reached).unwrap_or(true));
        (ready.map(|ready| jobs.remove(ready)), jobs.len())
    }

    fn tend(&self) {
        loop {
            match self.next() {
                (Some(job), _) => {
                    job.run();
                    self.pace.note();
                }
                (None, 0) if self.closing.load(Ordering::SeqCst) => return,
                (None, 0) => _ = self.bell.rest(std::time::Duration::MAX),
                (None, _) => _ = self.bell.rest(self.pace.pause()),
            }
        }
    }
}

impl Job {
    fn run(self) {
        if self.context.alive().is_ok()
            && let Err(panic) = self.staged.run()
        {
            let message = format!("the work panicked: {panic}");
            self.context.lose(DriverError::new(DriverErrorKind::Lost, NAME, 0, message));
        }
        // Of a lost device too, so that the list ends.
        if let Err(error) = self.context.signal(self.gate.opened) {
            self.context.lose(error);
        }
    }
}

/// Where a device keeps who runs its kernels, once there are any.
pub(super) type RunnerPlace = OnceLock<Arc<Runner>>;
