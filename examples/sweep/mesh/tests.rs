//! Tests of the readers: each kind of file gives the same mesh, and what is wrong with one is named with its place.

use super::{Mesh, ahmed_body, samples};

fn legacy(body: &str) -> Result<Mesh, String> {
    parse(&format!("# vtk DataFile Version 3.0\ntitle\nASCII\n{body}"))
}

fn parse(text: &str) -> Result<Mesh, String> {
    Mesh::parse(text.as_bytes()).map_err(|fault| fault.to_string())
}

#[test]
fn every_kind_of_file_gives_the_same_mesh() {
    for sample in samples::all() {
        let mesh = Mesh::parse(&sample.bytes).unwrap_or_else(|fault| panic!("{}: {fault}", sample.name));
        assert_eq!(mesh.points, samples::POINTS, "{}", sample.name);
        assert_eq!(mesh.offsets, samples::OFFSETS.map(|offset| offset as u32), "{}", sample.name);
        // The voxel has become a hexahedron.
        let mut connectivity = samples::CONNECTIVITY.map(|point| point as u32);
        connectivity.swap(28, 29);
        connectivity.swap(32, 33);
        assert_eq!(mesh.connectivity, connectivity, "{}", sample.name);
        assert_eq!(mesh.types, [10, 12, 13, 14, 5, 12], "{}", sample.name);
        assert_eq!(
            (mesh.field.name.as_str(), mesh.field.values),
            ("radius", samples::FIELD.to_vec()),
            "{}",
            sample.name
        );
    }
}

#[test]
fn structured_grids_become_cells_of_their_dimension() {
    let image = legacy("DATASET STRUCTURED_POINTS\nDIMENSIONS 3 2 2\nORIGIN 0 0 0\nSPACING 1 1 2\n").unwrap();
    assert_eq!((image.point_count(), image.types.as_slice()), (12, [12, 12].as_slice()));
    assert_eq!(image.connectivity[..8], [0, 1, 4, 3, 6, 7, 10, 9]);
    let axes = "X_COORDINATES 3 float\n0 1 4\nY_COORDINATES 1 float\n0\nZ_COORDINATES 2 float\n0 1\n";
    let flat = legacy(&format!("DATASET RECTILINEAR_GRID\nDIMENSIONS 3 1 2\n{axes}")).unwrap();
    assert_eq!((flat.point_count(), flat.types.as_slice()), (6, [9, 9].as_slice()));
    let curve =
        legacy("DATASET STRUCTURED_GRID\nDIMENSIONS 1 3 1\nPOINTS 3 int\n0 0 0 0 1 0 0 2 0\n").unwrap();
    assert_eq!(
        (curve.connectivity.as_slice(), curve.types.as_slice()),
        ([0, 1, 1, 2].as_slice(), [3, 3].as_slice())
    );
}

#[test]
fn pieces_are_joined_and_their_indices_moved() {
    let piece = "<Piece NumberOfPoints=\"4\" NumberOfCells=\"1\"><Points><DataArray type=\"Float32\" \
        NumberOfComponents=\"3\" format=\"ascii\">0 0 0 1 0 0 0 1 0 0 0 1</DataArray></Points><Cells>\
        <DataArray type=\"Int32\" Name=\"connectivity\" format=\"ascii\">0 1 2 3</DataArray>\
        <DataArray type=\"Int32\" Name=\"offsets\" format=\"ascii\">4</DataArray>\
        <DataArray type=\"UInt8\" Name=\"types\" format=\"ascii\">10</DataArray></Cells></Piece>";
    let file = |pieces: &str| {
        format!("<VTKFile type=\"UnstructuredGrid\"><UnstructuredGrid>{pieces}</UnstructuredGrid></VTKFile>")
    };
    let mesh = parse(&file(&format!("{piece}{piece}"))).unwrap();
    assert_eq!((mesh.point_count(), mesh.offsets.as_slice()), (8, [0, 4, 8].as_slice()));
    assert_eq!(mesh.connectivity, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(mesh.field.name, "distance");
    let outside = parse(&file(&format!("{}{piece}", piece.replace("0 1 2 3<", "0 1 2 5<")))).unwrap_err();
    assert!(outside.starts_with("cell 0: uses point 5, which does not exist"), "{outside}");
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let grid = "DATASET UNSTRUCTURED_GRID\n";
    let tetrahedron = "POINTS 4 float\n0 0 0 1 0 0 0 1 0 0 0 1\nCELLS 1 5\n4 0 1 2 3\n";
    for (body, wanted) in [
        ("DATASET POLYDATA\n".to_owned(), "line 4: holds a POLYDATA dataset, which is not supported"),
        (grid.to_owned(), "the file: has no POINTS section"),
        (format!("{grid}POINTS 2 float\n0 0 0 1 x 0\n"), "line 6: POINTS: \"x\" is not a number"),
        (format!("{grid}POINTS 2 float\n0 0 0 1\n"), "line 7: the file ends where POINTS was expected"),
        (
            format!("{grid}POINTS 99999999999999999 float\n0"),
            "asks for 299999999999999997 values, but the file ends",
        ),
        (
            format!("{grid}POINTS 1 float\n0 0 inf\nCELLS 1 2\n1 0\nCELL_TYPES 1\n1\n"),
            "point 0: has a coordinate that is not finite",
        ),
        (
            format!("{grid}{tetrahedron}CELL_TYPES 1\n42\n"),
            "cell 0: cell type 42 (polyhedron) is not supported",
        ),
        (
            format!("{grid}{tetrahedron}CELL_TYPES 1\n12\n"),
            "cell 0: is a hexahedron of 4 points, where 8 were expected",
        ),
        (format!("{grid}{tetrahedron}CELL_TYPES 2\n10 10\n"), "cell types: number 2, but there are 1 cells"),
        (
            format!("{grid}{}CELL_TYPES 1\n10\n", tetrahedron.replace("2 3\n", "2 4\n")),
            "cell 0: uses point 4, which does not exist",
        ),
        (
            "DATASET STRUCTURED_POINTS\nDIMENSIONS 0 4000000000 1\nSPACING 1 1 1\n".to_owned(),
            "DIMENSIONS: [0, 4000000000, 1] are no points",
        ),
        (
            "DATASET STRUCTURED_POINTS\nDIMENSIONS 9999 9999 9999\nSPACING 1 1 1\n".to_owned(),
            "more points than a file of this size",
        ),
    ] {
        let found = legacy(&body).unwrap_err();
        assert!(found.contains(wanted), "{found}, where this was expected: {wanted}");
    }
    for (text, wanted) in [
        ("", "the file: is empty"),
        ("solid x\n", "byte 0: starts neither as a legacy .vtk file"),
        ("# vtk DataFile Version 9.0\n", "line 1: names a version that is not supported"),
        ("<VTKFile type=\"PolyData\"/>", "<VTKFile> has type \"PolyData\", which is not supported"),
        (
            "<VTKFile type=\"UnstructuredGrid\"><UnstructuredGrid>",
            "byte 51: the file ends inside <UnstructuredGrid>",
        ),
        (
            "<VTKFile type=\"UnstructuredGrid\" compressor=\"vtkLZMADataCompressor\"/>",
            "vtkLZMADataCompressor",
        ),
    ] {
        let found = parse(text).unwrap_err();
        assert!(found.contains(wanted), "{found}, where this was expected: {wanted}");
    }
}

#[test]
fn no_cell_around_the_ahmed_body_is_inside_out() {
    let mesh = ahmed_body(40).unwrap();
    for cell in mesh.connectivity.chunks_exact(8) {
        let at = |corner: usize| &mesh.points[cell[corner] as usize * 3..][..3];
        let edge = |from: usize, to: usize| [0, 1, 2].map(|axis| at(to)[axis] - at(from)[axis]);
        // The edges at each corner, in the order that makes their product positive.
        for [corner, x, y, z] in [
            [0, 1, 3, 4],
            [1, 2, 0, 5],
            [2, 3, 1, 6],
            [3, 0, 2, 7],
            [4, 7, 5, 0],
            [5, 4, 6, 1],
            [6, 5, 7, 2],
            [7, 6, 4, 3],
        ] {
            let [a, b, c] = [edge(corner, x), edge(corner, y), edge(corner, z)];
            let product = a[0] * (b[1] * c[2] - b[2] * c[1])
                + a[1] * (b[2] * c[0] - b[0] * c[2])
                + a[2] * (b[0] * c[1] - b[1] * c[0]);
            assert!(product > 0.0, "at corner {corner} of {cell:?}: {product}");
        }
    }
    assert!(ahmed_body(0).is_err() && ahmed_body(100_000).is_err());
}
