//! Tests of the filters: on meshes whose figures others worked out, on shapes whose answers are known, and on garbage.

use super::{
    ArrayId, Filter,
    host::{Bytes, Host},
    inputs, plan,
};
use crate::{
    figures::Figures,
    mesh::{Field, Mesh, Parts, ahmed_body},
    random::Random,
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

fn prepared(mesh: &Mesh) -> (Host, Vec<Filter>) {
    let mut host = Host::default();
    inputs(mesh).into_iter().for_each(|(id, bytes)| host.add(id, bytes));
    (host, plan(mesh))
}

fn swept(mesh: &Mesh) -> Host {
    let (mut host, filters) = prepared(mesh);
    filters.into_iter().for_each(|filter| host.run(filter));
    host
}

fn figures(host: &Host) -> Figures {
    Figures::reduce(Figures::ARRAYS.map(|array| host.array(&array.into())))
}

fn array<'a, T: bytemuck::Pod>(host: &'a Host, id: &'static str) -> &'a [T] {
    bytemuck::cast_slice(host.array(&ArrayId::from(id)))
}

/// A cube of `n` cells a side, each of length 1, with `field` at its points.
fn cube(n: usize, field: impl Fn([f64; 3]) -> f64) -> Mesh {
    let line = || 0..=n;
    let at = |x: usize, y: usize, z: usize| ((z * (n + 1) + y) * (n + 1) + x) as u64;
    let mut parts = Parts { offsets: vec![0], ..Parts::default() };
    let mut values = Vec::new();
    for (z, y, x) in line().flat_map(|z| line().flat_map(move |y| line().map(move |x| (z, y, x)))) {
        let point = [x, y, z].map(|part| part as f64);
        parts.points.extend(point);
        values.push(field(point));
        if x < n && y < n && z < n {
            let floor = |z| [at(x, y, z), at(x + 1, y, z), at(x + 1, y + 1, z), at(x, y + 1, z)];
            parts.connectivity.extend(floor(z).into_iter().chain(floor(z + 1)));
            parts.offsets.push(parts.connectivity.len() as u64);
            parts.types.push(12);
        }
    }
    parts.field = Some(Field { name: "field".into(), values });
    parts.into_mesh().unwrap()
}

/// A mesh of one cell, whose points are used in order.
fn one_cell(kind: u64, points: &[[f64; 3]]) -> Mesh {
    let count = points.len() as u64;
    let parts = Parts {
        points: points.concat(),
        offsets: vec![0, count],
        connectivity: (0..count).collect(),
        types: vec![kind],
        field: None,
    };
    parts.into_mesh().unwrap()
}

/// Points, cells, links, boundary faces, edges, and the volume with how far its last printed digit reaches.
pub type Known = (&'static str, [usize; 5], f64, f64);

const KNOWN: [Known; 5] = [
    ("hexbeam.vtk", [99, 40, 320, 88, 222], 5.0, 1e-9),
    ("wheelset.vtk", [5_457, 21_934, 87_736, 6_636, 30_708], 0.158133, 5e-7),
    ("cube_cylinder.vtk", [10_490, 54_517, 218_068, 5_384, 67_698], 1.0, 1e-9),
    ("aneurysm.vtu", [65_302, 152_769, 827_396, 14_432, 279_366], 11_813.98, 5e-3),
    ("motorbike.vtu", [403_186, 315_661, 2_510_265, 193_775, 1_129_677], 854.424, 5e-4),
];

/// The meshes of the shared folder, and their figures; none without the folder. The larger two need optimised kernels.
pub fn known() -> impl Iterator<Item = (PathBuf, Known)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/meshes");
    let optimised = !cfg!(debug_assertions);
    let there = folder.is_dir();
    if !there {
        eprintln!("skipped: there is no {}", folder.display());
    } else if !optimised {
        eprintln!("skipped: the larger two meshes take long in debug builds, run with --release");
    }
    let count = if optimised { KNOWN.len() } else { 3 };
    KNOWN.into_iter().take(count).filter(move |_| there).map(move |known| (folder.join(known.0), known))
}

#[test]
fn figures_of_meshes_nobody_here_drew() {
    for (path, (file, [points, cells, links, boundary_faces, edges], volume, digit)) in known() {
        let host = swept(&Mesh::read(&path).unwrap());
        let found = figures(&host);
        assert!((found.volume - volume).abs() <= digit, "{file}: the volume is {}", found.volume);
        let wanted =
            Figures { points, cells, point_links: links as u64, boundary_faces, edges, volume: found.volume };
        assert_eq!(found, wanted, "{file}");
        // A budget of two fifths of the peak must hold the largest launch.
        let (launch_bytes, launch) = host.largest_launch;
        assert!(
            launch_bytes * 3 < host.peak_bytes,
            "{file}: {launch} needs {launch_bytes} of {}",
            host.peak_bytes
        );
    }
}

#[test]
fn figures_of_single_cells() {
    let [a, b, c, d] = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]];
    let up = |[x, y, z]: [f64; 3]| [x, y, z + 1.0];
    for (kind, points, faces, edges, volume) in [
        (10, vec![a, b, d, up(a)], 4, 6, 1.0 / 6.0),
        (11, vec![a, b, d, c, up(a), up(b), up(d), up(c)], 6, 12, 1.0),
        (12, vec![a, b, c, d, up(a), up(b), up(c), up(d)], 6, 12, 1.0),
        (13, vec![a, b, d, up(a), up(b), up(d)], 5, 9, 0.5),
        (13, vec![a, d, b, up(a), up(d), up(b)], 5, 9, 0.5),
        (14, vec![a, b, c, d, up(a)], 5, 8, 1.0 / 3.0),
        (5, vec![a, b, c], 0, 3, 0.0),
        (6, vec![a, b, d, c], 0, 5, 0.0),
        (7, vec![a, b, c, d], 0, 4, 0.0),
        (4, vec![a, b, c], 0, 2, 0.0),
        (1, vec![a], 0, 0, 0.0),
    ] {
        let host = swept(&one_cell(kind, &points));
        let found = figures(&host);
        assert_eq!((found.boundary_faces, found.edges), (faces, edges), "kind {kind}");
        assert!((found.volume - volume).abs() < 1e-12, "kind {kind}: {}", found.volume);
        assert_eq!(found.point_links as usize, points.len(), "kind {kind}");
    }
}

#[test]
fn surface_normals_point_outwards() {
    let host = swept(&cube(3, |[x, _, _]| x));
    let points: &[[f64; 3]] = array(&host, "mesh/points");
    for (point, normal) in points.iter().zip(array::<[f64; 3]>(&host, "normals/points")) {
        let outwards: f64 = point.iter().zip(normal).map(|(at, part)| (at - 1.5) * part).sum();
        let is_inner = point.iter().all(|&at| at > 0.0 && at < 3.0);
        assert!(if is_inner { *normal == [0.0; 3] } else { outwards > 1.0 }, "{point:?} {normal:?}");
    }
}

#[test]
fn gradients_of_linear_fields_are_exact() {
    let host = swept(&cube(3, |[x, y, z]| 2.0 * x - y + 0.5 * z + 7.0));
    for id in ["gradient/cells", "gradient/points"] {
        for gradient in array::<[f64; 3]>(&host, id) {
            let off = gradient.iter().zip([2.0, -1.0, 0.5]).map(|(found, wanted)| (found - wanted).abs());
            assert!(off.sum::<f64>() < 1e-12, "{id}: {gradient:?}");
        }
    }
}

#[test]
fn every_cell_is_in_one_threshold_band() {
    let mesh = cube(4, |[x, y, z]| x * x + y * z);
    let host = swept(&mesh);
    let mut cells: Vec<u32> = ["threshold/low/cells", "threshold/middle/cells", "threshold/high/cells"]
        .into_iter()
        .flat_map(|id| array::<u32>(&host, id).iter().copied())
        .collect();
    cells.sort_unstable();
    assert_eq!(cells, (0..64).collect::<Vec<u32>>());
    let (offsets, kept): (&[u32], &[u32]) =
        (array(&host, "threshold/middle/offsets"), array(&host, "threshold/middle/cells"));
    let connectivity: &[u32] = array(&host, "threshold/middle/connectivity");
    assert_eq!(offsets.last().copied().unwrap() as usize, connectivity.len());
    for (span, &cell) in offsets.windows(2).zip(kept) {
        let whole = &mesh.connectivity[mesh.offsets[cell as usize] as usize..][..8];
        assert_eq!(&connectivity[span[0] as usize..span[1] as usize], whole);
    }
}

#[test]
fn links_and_locator_hold_everything_once() {
    let mesh = ahmed_body(6).unwrap();
    let host = swept(&mesh);
    let (offsets, links): (&[u32], &[u32]) = (array(&host, "links/offsets"), array(&host, "links/cells"));
    for (point, span) in offsets.windows(2).enumerate() {
        for &cell in &links[span[0] as usize..span[1] as usize] {
            assert!(mesh.connectivity[cell as usize * 8..][..8].contains(&(point as u32)));
        }
    }
    let mut points = array::<u32>(&host, "locator/points").to_vec();
    points.sort_unstable();
    assert_eq!(points, (0..mesh.point_count() as u32).collect::<Vec<u32>>());
}

#[test]
fn isosurface_has_no_cracks() {
    let from_middle =
        |[x, y, z]: [f64; 3]| ((x - 3.1).powi(2) + (y - 2.9).powi(2) + (z - 3.0).powi(2)).sqrt();
    let host = swept(&cube(6, from_middle));
    let triangles: &[[[u32; 3]; 3]] = array(&host, "isosurface/quarter/triangles");
    assert!(triangles.len() > 50);
    let mut edges: HashMap<[[u32; 3]; 2], usize> = HashMap::new();
    for &[a, b, c] in triangles {
        for (from, to) in [(a, b), (b, c), (c, a)] {
            *edges.entry([from.min(to), from.max(to)]).or_default() += 1;
        }
    }
    assert!(edges.values().all(|&uses| uses == 2), "an edge is not between two triangles");
}

#[test]
fn two_sweeps_give_the_same_bytes() {
    let mesh = ahmed_body(8).unwrap();
    assert_eq!(swept(&mesh).arrays, swept(&mesh).arrays);
}

#[test]
fn corrupt_arrays_never_panic() {
    let mesh = crate::mesh::Mesh::parse(&crate::mesh::mixed_sample()).unwrap();
    for seed in 0..300 {
        let mut random = Random(seed);
        let (mut host, filters) = prepared(&mesh);
        for filter in filters {
            for pass in filter.passes {
                let id = host.arrays.keys().nth(random.below(host.arrays.len())).cloned();
                if let Some(bytes) = id.and_then(|id| host.arrays.get_mut(&id)).map(Bytes::as_mut_slice)
                    && !bytes.is_empty()
                {
                    let at = random.below(bytes.len());
                    bytes[at] ^= 1 << random.below(8);
                }
                host.launch(pass);
            }
        }
        figures(&host);
    }
}
