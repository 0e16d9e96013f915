//! How long one small buffer takes to the host and back.

use super::{Bed, Figure, raw::Raw, settle, timed};
use crate::subject::Way;
use std::time::Duration;

pub fn round_trip(bed: &Bed) -> Vec<Figure> {
    [4096, 1 << 20].into_iter().flat_map(|bytes| of(bed, bytes)).collect()
}

fn of(bed: &Bed, bytes: u64) -> [Figure; 3] {
    let raw = Raw::new(bed, bytes, 1);
    let [raw_out, raw_in] = [Way::Out, Way::In].map(|way| (0..12).map(|_| raw.copy(bed, way)).min());
    drop(raw);
    let device = bed.device(1 << 30);
    let buffer = device.alloc(bytes).wait().expect("memory");
    let [mut out, mut into, mut read] = [Duration::MAX; 3];
    for _ in 0..50 {
        drop(buffer.ensure_resident().wait().expect("resident"));
        settle(&device);
        read = read.min(timed(|| _ = buffer.read().wait().expect("it is read")));
        out = out.min(timed(|| _ = buffer.spill().wait().expect("it is spilled")));
        settle(&device);
        into = into.min(timed(|| {
            drop(buffer.ensure_resident().wait().expect("resident"));
            settle(&device);
        }));
    }
    let size = if bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) };
    [
        Figure::time(format!("{size} spilled"), out, raw_out),
        Figure::time(format!("{size} restored"), into, raw_in),
        Figure::time(format!("{size} read by the host"), read, None),
    ]
}
