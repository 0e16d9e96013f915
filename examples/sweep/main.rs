//! The sweep: dataset filters over a mesh, and the figures of the mesh reduced from what they leave.
//!
//! `sweep [MESH] [--size N]` reads a `.vtk` or `.vtu` file, or makes the surroundings of the Ahmed body, and prints its figures
//! as one JSON object.

mod figures;
mod filters;
mod mesh;
#[cfg(test)]
mod random;

use figures::Figures;
use filters::host::Host;
use mesh::Mesh;
use std::{path::PathBuf, process::ExitCode, time::Instant};

/// Cells along the body of the default mesh.
const DEFAULT_CELLS: usize = 80;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (mut path, mut cells) = (None, DEFAULT_CELLS);
    while let Some(word) = words.next() {
        if word == "--size" {
            let Some(size) = words.next().and_then(|size| size.parse().ok()) else {
                eprintln!("--size needs a number: cells along the body");
                return ExitCode::from(2);
            };
            cells = size;
        } else {
            path = Some(PathBuf::from(word));
        }
    }
    let mesh = match &path {
        Some(path) => Mesh::read(path).map_err(|error| error.to_string()),
        None => mesh::ahmed_body(cells).map_err(|fault| fault.to_string()),
    };
    match mesh {
        Ok(mesh) => {
            println!("{}", sweep(&mesh));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn sweep(mesh: &Mesh) -> serde_json::Value {
    let mut host = Host::default();
    for (id, bytes) in filters::inputs(mesh) {
        host.add(id, bytes);
    }
    let mut steps = Vec::new();
    for filter in filters::plan(mesh) {
        let (name, start) = (filter.name, Instant::now());
        host.run(filter);
        steps.push(serde_json::json!({ "name": name, "seconds": start.elapsed().as_secs_f64() }));
    }
    let figures = Figures::reduce(Figures::ARRAYS.map(|array| host.array(&array.into())));
    let (launch_bytes, launch) = host.largest_launch;
    serde_json::json!({
        "field": mesh.field.name, "mesh": figures, "peak_bytes": host.peak_bytes,
        "largest_launch": { "name": launch, "bytes": launch_bytes }, "steps": steps,
    })
}
