//! Two devices of a kind, for checks of copies between them.

use crate::backend::{BUSY, Rig};
use std::{sync::Arc, time::Duration};
use tack_residency::{
    Buffer, Device, Error, Run, Use,
    driver::{
        Result,
        fault::{Call, Fault, Step},
    },
};
use tokio::runtime::Runtime;

/// Two devices, their drivers' calls counted.
pub struct Pair {
    rigs: [Rig; 2],
    pub devices: [Device; 2],
    pub calls: [Arc<Fault>; 2],
    pub bytes: u64,
}

impl Pair {
    /// With room for so many arrays on each, and calls of the first that fail.
    pub fn open(rig: &Rig, arrays: u64, script: &[Step]) -> Pair {
        let rigs = [rig.clone(), rig.other().expect("there is another device")];
        let bytes = rig.array_bytes();
        let calls = [(&rigs[0], script), (&rigs[1], &[])];
        let calls = calls.map(|(rig, script)| Fault::new(rig.open(), script.to_vec()));
        let options = || Device::options().budget(arrays * bytes).stall_after(Duration::from_secs(60));
        let open = |driver: &Arc<Fault>| options().open_driver("checked", driver.clone());
        let devices = [open(&calls[0]), open(&calls[1])].map(|device| device.expect("the device opens"));
        Pair { rigs, devices, calls, bytes }
    }

    /// Whether copies go from one's memory to the other's.
    pub fn is_direct(&self) -> bool {
        let [first, second] = self.devices.each_ref().map(Device::driver);
        assert_eq!(first.is_peer(&**second), second.is_peer(&**first));
        first.is_peer(&**second)
    }

    /// A buffer of one of the devices, filled.
    pub fn filled(&self, of: usize, value: u8) -> Buffer {
        let buffer = self.devices[of].alloc(self.bytes).wait().expect("room is made");
        buffer.fill(value).wait().expect("it is filled");
        buffer
    }

    /// Keeps a device's compute queue busy, before what else a launch queues.
    pub fn launch<'u, U: AsRef<[Use<'u>]> + Unpin>(
        &'u self,
        of: usize,
        uses: U,
        queue: impl FnOnce(&Run<'_>) -> Result<()>,
    ) {
        let launch = self.devices[of].prepare(uses).wait().expect("room is made");
        let queued = launch.submit(|run| {
            self.rigs[of].spin(&**self.devices[of].driver(), run.queue(), BUSY / 4);
            queue(run).map_err(Error::from)
        });
        queued.expect("it is queued");
    }

    pub fn across(&self) -> u64 {
        self.calls.iter().map(|calls| calls.calls(Call::CopyToPeer)).sum()
    }

    /// Nothing is held or under way on either.
    pub fn check(&self) {
        for device in &self.devices {
            device.idle().wait().expect("not lost");
            device.check().expect("the books balance");
            let info = device.memory_info();
            assert_eq!((info.pinned, info.reserved, info.leaving), (0, 0, 0), "{info}");
        }
    }
}

pub fn holds(buffer: &Buffer, value: u8) {
    let found = buffer.read().wait().expect("it is read");
    assert!(found.iter().all(|&byte| byte == value), "{} and not {value}", found[0]);
}

pub fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(4).enable_time().build().expect("a runtime")
}

/// How a copy went, for the line of a check.
pub fn way(pair: &Pair) -> String {
    if pair.is_direct() { "from one to the other".to_owned() } else { "through the host".to_owned() }
}
