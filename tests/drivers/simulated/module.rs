//! Modules: a text that names its kernels, each `.entry NAME`.

use super::{
    code::{self, Answer},
    kernels,
    outlet::{Outlet, Text},
    state::Library,
};

/// A module of a context.
#[derive(Debug)]
pub struct Module {
    pub context: usize,
    entries: Vec<String>,
}

/// "Module Management", cuModuleLoadData: of a text only, here; INVALID_IMAGE for what has no entry.
pub fn load(library: &Library, to: &Outlet<usize>, image: &Text) -> Answer {
    let (mut state, here) = library.enter()?;
    let text = image.get()?;
    let name = |part: &str| -> String {
        part.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let entries: Vec<String> = text.split(".entry ").skip(1).map(name).collect();
    if entries.is_empty() {
        return Err(code::INVALID_IMAGE);
    }
    let module = state.modules.add(Module { context: here.context, entries });
    to.put(module)
}

/// "Module Management", cuModuleUnload: its functions are of no use afterwards.
pub fn unload(library: &Library, module: usize) -> Answer {
    let (mut state, _here) = library.enter()?;
    state.modules.remove(module)?;
    state.functions.take(|&(of, _)| of == module);
    Ok(())
}

/// "Module Management", cuModuleGetFunction: NOT_FOUND if the module has no such entry, or nobody wrote a body for it.
pub fn find(library: &Library, to: &Outlet<usize>, module: usize, name: &Text) -> Answer {
    let (mut state, _here) = library.enter()?;
    let name = name.get()?;
    let known = state.modules.get(module)?.entries.contains(&name);
    let kernel = kernels::find(&name).filter(|_| known).ok_or(code::NOT_FOUND)?;
    let function = state.functions.add((module, kernel));
    to.put(function)
}
