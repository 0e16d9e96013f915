//! The calls that both vendors have, as C sees them: each under whichever name its vendor gives it.

/// An exported call: its name, when it may be made, what C hands it, and what it does with that.
macro_rules! face {
    ($name:ident, $entry:ident, ($($arg:ident: $kind:ty),* $(,)?) => $body:expr) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $kind),*) -> std::ffi::c_int {
            $crate::simulated::call(stringify!($name), $crate::simulated::Entry::$entry, $body)
        }
    };
}
pub(crate) use face;

/// Exports calls by their vendor's names.
macro_rules! export {
    ($($what:ident = $name:ident;)*) => { $($crate::simulated::export!(@ $what $name);)* };

    (@ init $name:ident) => { face!($name, Early, (flags: c_uint) => |library| library.init(flags)); };
    (@ driver_version $name:ident) => {
        face!($name, Early, (to: Outlet<c_int>) => |_| to.put(settings().version));
    };
    (@ device_count $name:ident) => { face!($name, Ready, (to: Outlet<c_int>) => |_| calls::count(&to)); };
    (@ device_name $name:ident) => {
        face!($name, Ready, (to: Outlet<c_char>, bytes: c_int, device: c_int) => |_| {
            calls::name(&to, bytes, device)
        });
    };
    (@ device_total $name:ident) => {
        face!($name, Ready, (to: Outlet<usize>, device: c_int) => |_| calls::total(&to, device));
    };
    (@ device_attribute $name:ident) => {
        face!($name, Ready, (to: Outlet<c_int>, attribute: c_int, device: c_int) => |_| {
            calls::attribute(&to, attribute, device)
        });
    };
    (@ device_get $name:ident) => {
        face!($name, Ready, (to: Outlet<c_int>, ordinal: c_int) => |library| {
            to.put(library.find_device(ordinal)? as c_int)
        });
    };
    (@ stream_create $name:ident) => {
        face!($name, Ready, (to: Outlet<usize>, flags: c_uint) => |library| {
            calls::stream_create(library, &to, flags)
        });
    };
    (@ stream_destroy $name:ident) => {
        face!($name, Ready, (stream: usize) => |library| calls::stream_destroy(library, stream));
    };
    (@ stream_synchronize $name:ident) => {
        face!($name, Ready, (stream: usize) => |library| calls::synchronize(library, stream));
    };
    (@ stream_wait $name:ident) => {
        face!($name, Ready, (stream: usize, event: usize, flags: c_uint) => |library| {
            calls::wait(library, stream, event, flags)
        });
    };
    (@ synchronize_all $name:ident) => {
        face!($name, Ready, () => |library| calls::synchronize_all(library));
    };
    (@ host_function $name:ident) => {
        face!($name, Ready, (stream: usize, function: HostFunction, given: *mut c_void) => |library| {
            calls::host_function(library, stream, function, given)
        });
    };
    (@ event_create $name:ident) => {
        face!($name, Ready, (to: Outlet<usize>, flags: c_uint) => |library| {
            calls::event_create(library, &to, flags)
        });
    };
    (@ event_destroy $name:ident) => {
        face!($name, Ready, (event: usize) => |library| calls::event_destroy(library, event));
    };
    (@ event_record $name:ident) => {
        face!($name, Ready, (event: usize, stream: usize) => |library| calls::record(library, event, stream));
    };
    (@ event_query $name:ident) => {
        face!($name, Ready, (event: usize) => |library| calls::query(library, event));
    };
    (@ allocate $name:ident) => {
        face!($name, Ready, (to: Outlet<u64>, bytes: usize) => |library| calls::allocate(library, &to, bytes));
    };
    (@ free $name:ident) => { face!($name, Ready, (ptr: u64) => |library| calls::free(library, ptr)); };
    (@ allocate_host $name:ident) => {
        face!($name, Ready, (to: Outlet<*mut c_void>, bytes: usize, flags: c_uint) => |library| {
            calls::allocate_host(library, &to, bytes, flags)
        });
    };
    (@ free_host $name:ident) => {
        face!($name, Ready, (start: usize) => |library| calls::free_host(library, start));
    };
    (@ copy_out $name:ident) => {
        face!($name, Ready, (to: HostPlace, from: u64, bytes: usize, stream: usize) => |library| {
            calls::copy_out(library, to, from, bytes, stream)
        });
    };
    (@ copy_in $name:ident) => {
        face!($name, Ready, (to: u64, from: HostPlace, bytes: usize, stream: usize) => |library| {
            calls::copy_in(library, to, from, bytes, stream)
        });
    };
    (@ copy $name:ident) => {
        face!($name, Ready, (to: u64, from: u64, bytes: usize, stream: usize) => |library| {
            calls::copy(library, to, from, bytes, stream)
        });
    };
    (@ fill $name:ident) => {
        face!($name, Ready, (to: u64, value: u8, bytes: usize, stream: usize) => |library| {
            calls::fill(library, to, value, bytes, stream)
        });
    };
    (@ memory_info $name:ident) => {
        face!($name, Ready, (free: Outlet<usize>, total: Outlet<usize>) => |library| {
            calls::memory_info(library, &free, &total)
        });
    };
    (@ ipc_handle $name:ident) => {
        face!($name, Ready, (to: Outlet<[u8; 64]>, ptr: u64) => |library| calls::ipc_handle(library, &to, ptr));
    };
    (@ pool_create $name:ident) => {
        face!($name, Ready, (to: Outlet<usize>, props: Outlet<[u64; 11]>) => |library| {
            calls::pool_create(library, &to, &props)
        });
    };
    (@ pool_destroy $name:ident) => {
        face!($name, Ready, (pool: usize) => |library| calls::pool_destroy(library, pool));
    };
    (@ pool_set $name:ident) => {
        face!($name, Ready, (pool: usize, attribute: c_int, value: Outlet<c_void>) => |library| {
            calls::pool_set(library, pool, attribute, &value)
        });
    };
    (@ pool_get $name:ident) => {
        face!($name, Ready, (pool: usize, attribute: c_int, to: Outlet<c_void>) => |library| {
            calls::pool_get(library, pool, attribute, &to)
        });
    };
    (@ pool_trim $name:ident) => {
        face!($name, Ready, (pool: usize, keep: usize) => |library| calls::pool_trim(library, pool, keep));
    };
    (@ pool_allocate $name:ident) => {
        face!($name, Ready, (to: Outlet<u64>, bytes: usize, pool: usize, stream: usize) => |library| {
            calls::allocate_from_pool(library, &to, bytes, pool, stream)
        });
    };
    (@ pool_free $name:ident) => {
        face!($name, Ready, (ptr: u64, stream: usize) => |library| calls::free_async(library, ptr, stream));
    };
    (@ module_load $name:ident) => {
        face!($name, Ready, (to: Outlet<usize>, image: Text) => |library| calls::load(library, &to, &image));
    };
    (@ module_unload $name:ident) => {
        face!($name, Ready, (module: usize) => |library| calls::unload(library, module));
    };
    (@ module_function $name:ident) => {
        face!($name, Ready, (to: Outlet<usize>, module: usize, name: Text) => |library| {
            calls::function(library, &to, module, &name)
        });
    };
    (@ capture_mode $name:ident) => {
        face!($name, Ready, (mode: Outlet<c_int>) => |_| calls::exchange_mode(&mode));
    };
    (@ capture_begin $name:ident) => {
        face!($name, Ready, (stream: usize, mode: c_int) => |library| calls::begin(library, stream, mode));
    };
    (@ capture_end $name:ident) => {
        face!($name, Ready, (stream: usize, to: Outlet<usize>) => |library| calls::end(library, stream, &to));
    };
    (@ graph_make $name:ident) => {
        face!($name, Ready, (to: Outlet<usize>, graph: usize, flags: u64) => |library| {
            calls::instantiate(library, &to, graph, flags)
        });
    };
    (@ graph_launch $name:ident) => {
        face!($name, Ready, (graph: usize, stream: usize) => |library| {
            calls::launch_graph(library, graph, stream)
        });
    };
    (@ graph_destroy $name:ident) => {
        face!($name, Ready, (graph: usize) => |library| calls::destroy_graph(library, graph));
    };
    (@ launch $name:ident) => {
        face!($name, Ready, (
            function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
            block_z: c_uint, _shared_bytes: c_uint, stream: usize, params: Params, _extra: *mut c_void,
        ) => |library| {
            let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
            calls::launch(library, function, grid, block, stream, &params)
        });
    };
}
pub(crate) use export;
