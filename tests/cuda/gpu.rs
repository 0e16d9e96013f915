//! Kernels to try a real device with: PTX that its driver compiles, and how they are launched.

use crate::backend::{Backend, Rig};
use cudarc::{
    driver::{CudaContext, CudaFunction, CudaStream, DriverError, LaunchConfig, PushKernelArg},
    nvrtc::Ptx,
};
use std::{sync::Arc, time::Duration};
use tack_residency::{
    Error, Run,
    driver::{DevicePtr, Driver, QueueId, cuda::Cuda},
};

const KERNELS: &str = "
.version 7.0
.target sm_70
.address_size 64

.visible .entry add_one(.param .u64 p_data, .param .u64 p_count)
{
    .reg .pred %done;
    .reg .b32 %block, %width, %thread, %blocks, %value;
    .reg .b64 %data, %count, %index, %stride, %at;
    ld.param.u64 %data, [p_data];
    ld.param.u64 %count, [p_count];
    cvta.to.global.u64 %data, %data;
    mov.u32 %block, %ctaid.x;
    mov.u32 %width, %ntid.x;
    mov.u32 %thread, %tid.x;
    mov.u32 %blocks, %nctaid.x;
    cvt.u64.u32 %index, %thread;
    mad.wide.u32 %index, %block, %width, %index;
    mul.wide.u32 %stride, %blocks, %width;
next:
    setp.ge.u64 %done, %index, %count;
    @%done bra end;
    shl.b64 %at, %index, 2;
    add.s64 %at, %at, %data;
    ld.global.u32 %value, [%at];
    add.s32 %value, %value, 1;
    st.global.u32 [%at], %value;
    add.s64 %index, %index, %stride;
    bra next;
end:
    ret;
}

.visible .entry mix(.param .u64 p_to, .param .u64 p_from, .param .u64 p_count, .param .u32 p_salt)
{
    .reg .pred %done;
    .reg .b32 %block, %width, %thread, %blocks, %value, %input, %salt, %low, %factor;
    .reg .b64 %to, %from, %count, %index, %stride, %at, %offset;
    ld.param.u64 %to, [p_to];
    ld.param.u64 %from, [p_from];
    ld.param.u64 %count, [p_count];
    ld.param.u32 %salt, [p_salt];
    cvta.to.global.u64 %to, %to;
    cvta.to.global.u64 %from, %from;
    mov.u32 %factor, 1664525;
    mov.u32 %block, %ctaid.x;
    mov.u32 %width, %ntid.x;
    mov.u32 %thread, %tid.x;
    mov.u32 %blocks, %nctaid.x;
    cvt.u64.u32 %index, %thread;
    mad.wide.u32 %index, %block, %width, %index;
    mul.wide.u32 %stride, %blocks, %width;
next:
    setp.ge.u64 %done, %index, %count;
    @%done bra end;
    shl.b64 %offset, %index, 2;
    add.s64 %at, %from, %offset;
    ld.global.u32 %input, [%at];
    add.s64 %at, %to, %offset;
    ld.global.u32 %value, [%at];
    mad.lo.u32 %value, %value, %factor, %input;
    cvt.u32.u64 %low, %index;
    add.s32 %value, %value, %low;
    add.s32 %value, %value, %salt;
    st.global.u32 [%at], %value;
    add.s64 %index, %index, %stride;
    bra next;
end:
    ret;
}

.visible .entry spin(.param .u64 p_nanos)
{
    .reg .pred %more;
    .reg .b64 %nanos, %start, %now;
    ld.param.u64 %nanos, [p_nanos];
    mov.u64 %start, %globaltimer;
again:
    mov.u64 %now, %globaltimer;
    sub.s64 %now, %now, %start;
    setp.lt.u64 %more, %now, %nanos;
    @%more bra again;
    ret;
}
";

/// The device as cudarc has it, with the kernels. Clones share them.
#[derive(Clone)]
pub struct Gpu {
    pub context: Arc<CudaContext>,
    pub add_one: CudaFunction,
    pub mix: CudaFunction,
    pub spin: CudaFunction,
}

impl Gpu {
    pub fn open() -> Result<Gpu, DriverError> {
        let context = CudaContext::new(0)?;
        let module = context.load_module(Ptx::from_src(KERNELS))?;
        let [add_one, mix, spin] = ["add_one", "mix", "spin"].map(|name| module.load_function(name));
        let gpu = Gpu { context, add_one: add_one?, mix: mix?, spin: spin? };
        // A kernel is loaded when it is first launched, which may wait for the device.
        let (stream, none) = (gpu.context.default_stream(), DevicePtr::NULL);
        gpu.add_one(&stream, none, 0);
        gpu.mix(&stream, none, none, 0, 0);
        gpu.spin(&stream, Duration::ZERO);
        stream.synchronize()?;
        Ok(gpu)
    }

    pub fn add_one(&self, stream: &CudaStream, data: DevicePtr, bytes: u64) {
        let count = bytes / 4;
        let mut launch = stream.launch_builder(&self.add_one);
        launch.arg(&data).arg(&count);
        // SAFETY: `data` has `count` numbers, ordered on this stream.
        unsafe { launch.launch(grid(count)) }.expect("add_one is launched");
    }

    pub fn mix(&self, stream: &CudaStream, to: DevicePtr, from: DevicePtr, bytes: u64, salt: u32) {
        let count = bytes / 4;
        let mut launch = stream.launch_builder(&self.mix);
        launch.arg(&to).arg(&from).arg(&count).arg(&salt);
        // SAFETY: both have `count` numbers, ordered on this stream.
        unsafe { launch.launch(grid(count)) }.expect("mix is launched");
    }

    /// Keeps a stream busy.
    pub fn spin(&self, stream: &CudaStream, time: Duration) {
        let nanos = time.as_nanos() as u64;
        let mut launch = stream.launch_builder(&self.spin);
        launch.arg(&nanos);
        // SAFETY: it touches no memory.
        unsafe { launch.launch(LaunchConfig::for_num_elems(1)) }.expect("spin is launched");
    }

    /// The same, for the checks that are every device's.
    pub fn rig(&self) -> Rig {
        Arc::new(self.clone())
    }
}

impl Backend for Gpu {
    fn open(&self) -> Arc<dyn Driver> {
        Cuda::open(0).expect("the device opens")
    }

    fn spin(&self, driver: &dyn Driver, queue: QueueId, time: Duration) {
        Gpu::spin(self, &stream(driver, queue), time);
    }

    fn array_bytes(&self) -> u64 {
        8 << 20
    }

    fn add_one(&self, run: &Run<'_>, index: usize) -> Result<(), Error> {
        Gpu::add_one(self, &*run.cuda_stream()?, run.ptr(index), run.bytes(index));
        Ok(())
    }

    fn mix(&self, run: &Run<'_>, salt: u32) -> Result<(), Error> {
        Gpu::mix(self, &*run.cuda_stream()?, run.ptr(0), run.ptr(1), run.bytes(0), salt);
        Ok(())
    }
}

/// A queue's stream.
pub fn stream(driver: &dyn Driver, queue: QueueId) -> Arc<CudaStream> {
    let cuda = driver.as_any().downcast_ref::<Cuda>().expect("it is CUDA's");
    cuda.cuda_stream(queue).expect("a stream")
}

fn grid(count: u64) -> LaunchConfig {
    let blocks = count.div_ceil(256).clamp(1, 1056) as u32;
    LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 }
}
