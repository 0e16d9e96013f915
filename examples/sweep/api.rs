//! The crate's two ways to be called behind one trait, so that the sweep is written once.
//!
//! The facade's calls wait before they return: its futures are ready when they are first polled.

use std::time::Duration;
use tack_residency::{Buffer, Device, Launch, Options, Result, Use, blocking};

/// What a launch uses, owned by it.
pub type Uses<'a> = Vec<Use<'a>>;

/// What a sweep calls. What does not wait is the same in both forms, and is [`Device`]'s.
pub trait Api {
    type Buffer;

    fn device(&self) -> &Device;

    fn use_of(buffer: &Self::Buffer) -> Use<'_>;

    /// Allocates for a kernel that writes every byte.
    async fn alloc(&self, bytes: u64, tag: &'static str) -> Result<Self::Buffer>;

    async fn prepare<'a>(&'a self, uses: Uses<'a>) -> Result<Launch<'a, Uses<'a>>>;

    async fn write(to: &Self::Buffer, bytes: &[u8]) -> Result<()>;

    async fn read(from: &Self::Buffer) -> Result<Vec<u8>>;

    async fn spill(buffer: &Self::Buffer) -> Result<u64>;

    async fn idle(&self) -> Result<()>;

    /// The device's clock.
    fn now(&self) -> Duration {
        self.device().driver().now()
    }
}

/// A device of the asynchronous API.
pub struct Async(pub Device);

impl Async {
    pub fn open(name: &str, budget: Option<u64>) -> Result<Async> {
        Options::default().maybe_budget(budget).open(name).map(Async)
    }
}

impl Api for Async {
    type Buffer = Buffer;

    fn device(&self) -> &Device {
        &self.0
    }

    fn use_of(buffer: &Buffer) -> Use<'_> {
        buffer.into()
    }

    async fn alloc(&self, bytes: u64, tag: &'static str) -> Result<Buffer> {
        self.0.alloc(bytes).uninitialised().tag(tag).await
    }

    async fn prepare<'a>(&'a self, uses: Uses<'a>) -> Result<Launch<'a, Uses<'a>>> {
        self.0.prepare(uses).await
    }

    async fn write(to: &Buffer, bytes: &[u8]) -> Result<()> {
        to.write(bytes).await
    }

    async fn read(from: &Buffer) -> Result<Vec<u8>> {
        from.read().await
    }

    async fn spill(buffer: &Buffer) -> Result<u64> {
        buffer.spill().await
    }

    async fn idle(&self) -> Result<()> {
        self.0.idle().await
    }
}

/// A device of the facade.
pub struct Facade(pub blocking::Device);

impl Facade {
    pub fn open(name: &str, budget: Option<u64>) -> Result<Facade> {
        blocking::Device::options().with(|options| options.maybe_budget(budget)).open(name).map(Facade)
    }
}

impl Api for Facade {
    type Buffer = blocking::Buffer;

    fn device(&self) -> &Device {
        &self.0
    }

    fn use_of(buffer: &blocking::Buffer) -> Use<'_> {
        buffer.into()
    }

    async fn alloc(&self, bytes: u64, tag: &'static str) -> Result<blocking::Buffer> {
        self.device().alloc(bytes).uninitialised().tag(tag).wait().map(Into::into)
    }

    async fn prepare<'a>(&'a self, uses: Uses<'a>) -> Result<Launch<'a, Uses<'a>>> {
        self.0.prepare(uses)
    }

    async fn write(to: &blocking::Buffer, bytes: &[u8]) -> Result<()> {
        to.write(bytes)
    }

    async fn read(from: &blocking::Buffer) -> Result<Vec<u8>> {
        from.read()
    }

    async fn spill(buffer: &blocking::Buffer) -> Result<u64> {
        buffer.spill()
    }

    async fn idle(&self) -> Result<()> {
        self.0.idle()
    }
}
