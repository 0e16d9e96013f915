//! Where the calls run: the facade panics on a runtime's thread and nowhere else, and futures run on any executor.

use std::{future::Future, panic::AssertUnwindSafe, sync::Arc};
use tack_residency::{Buffer, Device, Error, Launch, Operation, Residency, Use, blocking};

fn work() -> Result<(), Error> {
    let device = blocking::Device::options().budget(8192).open("sim")?;
    let (a, b, c) = (device.alloc(4096)?, device.alloc(4096)?, device.alloc(4096)?);
    for (buffer, value) in [(&a, 1), (&b, 2), (&c, 3)] {
        buffer.fill(value)?;
    }
    device.prepare([Use::read(&a), Use::read_write(&b)])?.submit(|run| {
        run.host_kernel(Default::default(), |args| {
            let [a, b] = args else { unreachable!() };
            b.bytes_mut().iter_mut().zip(a.bytes()).for_each(|(b, a)| *b += a);
        })
    })?;
    assert_eq!(b.read()?, vec![3; 4096]);
    assert_eq!(c.read()?, vec![3; 4096]);
    Ok(())
}

/// The message of the panic that the facade must answer with.
fn refusal() -> String {
    let panic =
        std::panic::catch_unwind(AssertUnwindSafe(work)).expect_err("a blocking call on a runtime's thread");
    panic.downcast_ref::<String>().expect("a message").clone()
}

fn assert_refusal(message: &str) {
    assert!(message.contains("await") && message.contains("spawn_blocking"), "{message}");
}

fn multi_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime")
}

#[test]
fn the_facade_panics_on_a_worker() {
    let message =
        multi_thread().block_on(async { tokio::spawn(async { refusal() }).await.expect("the task") });
    assert_refusal(&message);
}

#[test]
fn the_facade_panics_in_block_on() {
    assert_refusal(&multi_thread().block_on(async { refusal() }));
    let current = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    assert_refusal(&current.block_on(async { refusal() }));
}

#[test]
fn the_facade_panics_in_a_task_without_budget() {
    let message = multi_thread().block_on(tokio::task::unconstrained(async { refusal() }));
    assert_refusal(&message);
}

#[test]
fn the_facade_works_in_spawn_blocking() {
    multi_thread()
        .block_on(async { tokio::task::spawn_blocking(work).await })
        .expect("the task")
        .expect("the work");
}

#[test]
fn the_facade_works_in_block_in_place() {
    let runtime = multi_thread();
    let done = runtime.block_on(async { tokio::spawn(async { tokio::task::block_in_place(work) }).await });
    done.expect("the task").expect("the work");
}

#[test]
fn the_facade_works_on_plain_threads_also_inside_a_runtimes_context() {
    std::thread::spawn(work).join().expect("the thread").expect("the work");
    let runtime = multi_thread();
    let _entered = runtime.enter();
    work().expect("the work");
}

#[test]
fn a_refused_call_leaves_the_tasks_budget_as_it_was() {
    multi_thread().block_on(async {
        assert_refusal(&refusal());
        assert!(tokio::task::coop::has_budget_remaining());
    });
}

async fn async_work(device: Device) -> Result<(), Error> {
    let buffers = futures::future::try_join_all((0..8).map(|_| device.alloc(4096))).await?;
    futures::future::try_join_all(buffers.iter().zip(0..).map(|(buffer, value)| buffer.fill(value))).await?;
    for pair in buffers.windows(2) {
        device.prepare([Use::read(&pair[0]), Use::read_write(&pair[1])]).await?.submit(|run| {
            run.host_kernel(Default::default(), |args| {
                let [a, b] = args else { unreachable!() };
                b.bytes_mut().iter_mut().zip(a.bytes()).for_each(|(b, a)| *b += a);
            })
        })?;
    }
    assert_eq!(buffers[7].read().await?, vec![28; 4096]);
    device.check()
}

#[test]
fn futures_run_on_every_executor_and_clock() {
    for name in ["sim", "sim:pcie4", "cpu"] {
        let open = || Device::options().budget(3 * 4096).open(name).expect("the device");
        futures::executor::block_on(async_work(open())).expect("futures");
        multi_thread().block_on(async_work(open())).expect("multi-thread");
        let device = open();
        let spawned = multi_thread().block_on(async { tokio::spawn(async_work(device)).await });
        spawned.expect("the task").expect("spawned");
        let current = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        current.block_on(async_work(open())).expect("current thread");
        tokio::task::LocalSet::new().block_on(&current, async_work(open())).expect("a local set");
    }
}

#[test]
fn handles_and_futures_are_send() {
    fn send<T: Send>(_: &T) {}
    fn check<T: Send + Sync + 'static>() {}
    fn future<F: Future + Send>(future: F) -> F {
        future
    }
    check::<Device>();
    check::<Buffer>();
    check::<blocking::Device>();
    check::<blocking::Buffer>();
    check::<Residency>();
    check::<Error>();
    check::<Operation<tack_residency::Alloc>>();
    fn launch<'a>(launch: Launch<'a, [Use<'a>; 1]>) -> impl Send + 'a {
        launch
    }
    let device = Device::open("sim").expect("the device");
    let buffer = device.alloc(16).wait().expect("a buffer");
    let prepared = future(device.prepare([Use::read(&buffer)]));
    send(&launch(prepared.wait().expect("resident")));
    drop(future(buffer.read()));
    drop(future(buffer.write([1u8])));
    drop(future(buffer.ensure_resident()));
    drop(future(device.idle()));
    let _ = Arc::new(buffer);
}

/// A task that never has to wait must still give way to others.
#[test]
fn a_task_that_never_waits_is_cooperative() {
    let current = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    current.block_on(async {
        let device = Device::open("sim").expect("the device");
        let buffer = device.alloc(16).await.expect("a buffer");
        let others = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = others.clone();
        tokio::spawn(async move { seen.store(true, std::sync::atomic::Ordering::Release) });
        let mut rounds = 0u64;
        while !others.load(std::sync::atomic::Ordering::Acquire) {
            drop(device.prepare([Use::read(&buffer)]).await.expect("resident"));
            rounds += 1;
            assert!(rounds < 1_000_000, "the other task never ran");
        }
    });
}
