//! Python ↔ the core: the module `tokenmill._native`, the only module that uses Python's API.

const std = @import("std");
const builtin = @import("builtin");
const platform = @import("platform.zig");
const api = @import("python/api.zig");
const arguments = @import("python/arguments.zig");
const arrow = @import("python/arrow.zig");
const batch = @import("encode/batch.zig");
const batches = @import("python/batches.zig");
const caches = @import("cache/registry.zig");
const counting = @import("python/counting.zig");
const documents = @import("python/documents.zig");
const learner = @import("python/learner.zig");
const lists = @import("python/lists.zig");
const load = @import("python/load.zig");
const object_ = @import("python/object.zig");
const pretokens = @import("pretokens.zig");
const results = @import("python/results.zig");
const tokenizer = @import("python/tokenizer.zig");
const tokenizers = @import("encode/tokenizer.zig");
const unicode = @import("unicode.zig");
const Call = object_.Call;
const Class = object_.Class;
const Error = object_.Error;
const Object = api.Object;
const Size = arguments.Size;
const State = object_.State;

const function = object_.function;

/// simd_levels() → the CPU feature levels that this CPU supports, the lowest first
fn simdLevels(_: Call) Error!*Object {
    const best: usize = @intFromEnum(platform.cpu.best());
    const list = api.PyList_New(@intCast(best + 1)) orelse return error.Raised;
    errdefer api.Py_DecRef(list);
    for (std.enums.values(platform.cpu.Level)[0 .. best + 1], 0..) |level, index| {
        const name = @tagName(level);
        const item = api.PyUnicode_DecodeUTF8(name.ptr, @intCast(name.len), null) orelse
            return error.Raised;
        _ = api.PyList_SetItem(list, @intCast(index), item);
    }
    return list;
}

/// use_simd(level): for tests and measurements; results are the same at every CPU feature level
fn useSimd(call: Call, args: struct { level: arguments.Text }) Error!void {
    const level = std.meta.stringToEnum(platform.cpu.Level, args.level.bytes);
    if (level != null and pretokens.levels.use(level.?)) return;
    return call.fail(.value, "SIMD level not supported by this CPU", .{});
}

/// use_units_after(bytes): for tests and measurements; results are the same for any value
fn useUnitsAfter(_: Call, args: struct { bytes: Size }) Error!void {
    tokenizers.wide_bytes_min.store(args.bytes.value, .monotonic);
}

/// use_job_bytes(bytes): for tests and measurements; results are the same for any value
fn useJobBytes(_: Call, args: struct { bytes: Size }) Error!void {
    batch.job_bytes_max.store(args.bytes.value, .monotonic);
}

/// cache_limit() → the memory limit in bytes of the caches of all tokenizers
fn cacheLimit(_: Call) Error!usize {
    return caches.getLimit();
}

/// set_cache_limit(bytes)
fn setCacheLimit(_: Call, args: struct { bytes: Size }) Error!void {
    caches.setLimit(args.bytes.value);
}

/// after_fork(): must be called first in a forked child
fn afterFork(_: Call) Error!void {
    caches.afterFork();
}

const methods = [_]api.Method{
    function("pack_bundle", load.packBundle),
    function("load", load.loadBundle),
    function("read_model", load.readModel),
    function("read_vocabulary", load.readVocabulary),
    function("read_spelling", load.readSpelling),
    function("split", load.split),
    function("normalize", load.normalize),
    function("arrow_capsules", arrow.capsules),
    function("join", batches.join),
    function("merge_counts", counting.mergeCounts),
    function("last_cut", counting.lastCut),
    function("split_documents", documents.splitDocuments),
    function("json_lines", documents.jsonLines),
    function("utf8_problems", documents.utf8Problems),
    function("count_newlines", documents.countNewlines),
    function("cache_limit", cacheLimit),
    function("set_cache_limit", setCacheLimit),
    function("after_fork", afterFork),
    function("simd_levels", simdLevels),
    function("use_simd", useSimd),
    function("use_units_after", useUnitsAfter),
    function("use_job_bytes", useJobBytes),
    .{},
};

fn specOf(comptime class: Class) *const api.TypeSpec {
    return switch (class) {
        .Core => &tokenizer.spec,
        .Buffer => &@import("python/buffer.zig").spec,
        .Session => &@import("python/session.zig").spec,
        .Counter => &counting.counter_spec,
        .Inventory => &counting.inventory_spec,
        .Learner => &learner.spec,
        .CountsFile => &counting.file_spec,
        .Checksum => &documents.spec,
    };
}

fn exec(module: *Object) callconv(.c) c_int {
    _ = pretokens.levels.use(platform.cpu.best());
    lists.tryLayout();
    State.of(module).* = .{};
    fill(module, State.of(module)) catch return -1;
    const mode = @tagName(builtin.mode);
    if (api.PyModule_AddStringConstant(module, "build_mode", mode) < 0) return -1;
    return api.PyModule_AddStringConstant(module, "unicode_version", unicode.version);
}

/// Makes the types of the module and looks up its exceptions.
fn fill(module: *Object, state: *State) error{Raised}!void {
    inline for (comptime std.enums.values(Class)) |class| {
        const made = api.PyType_FromModuleAndSpec(module, specOf(class), null) orelse
            return error.Raised;
        state.classes.set(class, @ptrCast(made));
        if (api.PyModule_AddType(module, @ptrCast(made)) < 0) return error.Raised;
    }
    inline for (results.types, &state.results) |Type, *place| {
        place.* = results.typeOf(Type) orelse return error.Raised;
        if (api.PyModule_AddType(module, place.*.?) < 0) return error.Raised;
    }
    const errors = api.PyImport_ImportModule("tokenmill.errors") orelse return error.Raised;
    defer api.Py_DecRef(errors);
    inline for (comptime std.enums.values(State.Exception)) |exception| {
        const found = api.PyObject_GetAttrString(errors, @tagName(exception)) orelse
            return error.Raised;
        state.exceptions.set(exception, found);
    }
}

fn free(module: *Object) callconv(.c) void {
    const raw = api.PyModule_GetState(module) orelse return;
    const state: *State = @ptrCast(@alignCast(raw));
    state.deinit();
}

var slots: [3]api.ModuleSlot = @splat(.{});
var definition: api.ModuleDef = .{
    .name = "_native",
    .size = @sizeOf(State),
    .methods = &methods,
    .slots = &slots,
    .free = @ptrCast(&free),
};

export fn PyInit__native() ?*Object {
    slots[0] = .{ .slot = api.mod_exec, .value = @ptrCast(&exec) };
    // Python 3.11 rejects unknown slots. 2: one GIL per interpreter is supported.
    if (api.minorVersion() >= 12) {
        slots[1] = .{ .slot = api.mod_multiple_interpreters, .value = @ptrFromInt(2) };
    }
    return api.PyModuleDef_Init(&definition);
}
