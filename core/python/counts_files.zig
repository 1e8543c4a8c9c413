//! Pretoken counts files as Python objects: `tokenmill._native.CountsFile`, and `merge_counts`.

const std = @import("std");
const api = @import("api.zig");
const buffer = @import("buffer.zig");
const core_ = @import("core.zig");
const counts = @import("../count.zig");
const counting = @import("counts.zig");
const Text = @import("text.zig").Text;
const Texts = @import("text.zig").Texts;

const gpa = buffer.gpa;
const Args = core_.Args;
const Object = api.Object;
const argumentsOf = counting.argumentsOf;
const fail = counting.fail;
const free = counting.free;
const pathFrom = counting.pathFrom;
const stateOf = counting.stateOf;
const wrap = counting.wrap;

/// An open file and its error report.
pub const File = struct {
    reader: counts.Reader,
    report: counts.Report,
    path: []u8,
};

/// An instance of `tokenmill._native.CountsFile`.
const FileInstance = extern struct {
    head: Object,
    file: ?*File,
    is_busy: bool,

    fn of(object: *Object) *FileInstance {
        return @ptrCast(@alignCast(object));
    }
};

pub fn isFile(state: *core_.State, object: *Object) bool {
    return object.type == state.counts_file_type.?;
}

/// Returns the file of a CountsFile, which is busy until `giveBack`; null if an exception is set.
pub fn borrow(object: *Object) ?*File {
    const instance = FileInstance.of(object);
    if (instance.is_busy) {
        _ = core_.fail(api.runtimeError(), "another thread is reading this file", .{});
        return null;
    }
    instance.is_busy = true;
    return instance.file.?;
}

pub fn giveBack(object: *Object) void {
    FileInstance.of(object).is_busy = false;
}

/// CountsFile(path)
fn newFile(object_type: *api.Type, tuple: *Object, _: ?*Object) callconv(.c) ?*Object {
    const args = argumentsOf(1, "CountsFile", tuple) orelse return null;
    var path = pathFrom(args[0]) orelse return null;
    defer path.release();
    var report: counts.Report = .{};
    const file = open(path.bytes, &report) catch |failure|
        return fail(stateOf(object_type), failure, &report);
    const object = api.PyType_GenericAlloc(object_type, 0) orelse {
        close(file);
        return null;
    };
    FileInstance.of(object).file = file;
    return object;
}

fn open(path: []const u8, report: *counts.Report) counts.Error!*File {
    const file = try gpa.create(File);
    errdefer gpa.destroy(file);
    const path_copy = try gpa.dupe(u8, path);
    errdefer gpa.free(path_copy);
    errdefer report.* = file.report;
    file.* = .{ .reader = undefined, .report = .{}, .path = path_copy };
    file.reader = try .open(gpa, path_copy, &file.report);
    return file;
}

fn close(file: *File) void {
    file.reader.close();
    gpa.free(file.path);
    gpa.destroy(file);
}

fn deallocFile(object: *Object) callconv(.c) void {
    if (FileInstance.of(object).file) |file| close(file);
    free(object);
}

fn fileLength(object: *Object) callconv(.c) api.Ssize {
    return @intCast(FileInstance.of(object).file.?.reader.len);
}

/// total() → the sum of all counts
fn fileTotal(self: *Object, _: Args) ?*Object {
    return api.PyLong_FromUnsignedLongLong(FileInstance.of(self).file.?.reader.total);
}

/// metadata() → bytes
fn fileMetadata(self: *Object, _: Args) ?*Object {
    const metadata = FileInstance.of(self).file.?.reader.metadata;
    return api.PyBytes_FromStringAndSize(metadata.ptr, @intCast(metadata.len));
}

/// load() → Inventory of all entries, each of them validated
fn load(self: *Object, _: Args) ?*Object {
    const state = stateOf(self.type);
    const file = borrow(self) orelse return null;
    defer giveBack(self);
    var unlocked: core_.Unlocked = .begin();
    file.reader.rewind();
    const outcome = counts.readInventory(gpa, &file.reader, std.math.maxInt(usize));
    unlocked.end();
    const inventory = outcome catch |failure| return fail(state, failure, &file.report);
    return wrap(state.inventory_type.?, inventory);
}

/// read(entries_max) → Inventory of the next entries, or None after the last; see rewind()
fn readSome(self: *Object, args: Args) ?*Object {
    const instance = FileInstance.of(self);
    const state = stateOf(self.type);
    const most = api.PyLong_AsLongLong(args[0]);
    if (most < 1) return core_.fail(api.valueError(), "entries_max must be at least 1", .{});
    if (instance.is_busy) {
        return core_.fail(api.runtimeError(), "another thread is reading this file", .{});
    }
    const file = instance.file.?;
    instance.is_busy = true;
    var unlocked: core_.Unlocked = .begin();
    const outcome = counts.readInventory(gpa, &file.reader, @intCast(most));
    unlocked.end();
    instance.is_busy = false;
    var inventory = outcome catch |failure| return fail(state, failure, &file.report);
    if (inventory.counts.len == 0) {
        inventory.deinit(gpa);
        return api.none();
    }
    return wrap(state.inventory_type.?, inventory);
}

fn rewind(self: *Object, _: Args) ?*Object {
    const instance = FileInstance.of(self);
    if (instance.is_busy) {
        return core_.fail(api.runtimeError(), "another thread is reading this file", .{});
    }
    instance.file.?.reader.rewind();
    return api.none();
}

const file_methods = [_]api.Method{
    core_.method("read", 1, readSome),
    core_.method("rewind", 0, rewind),
    core_.method("total", 0, fileTotal),
    core_.method("metadata", 0, fileMetadata),
    core_.method("load", 0, load),
    .{},
};
const file_slots = [_]api.TypeSlot{
    .{ .slot = api.tp_new, .function = @ptrCast(&newFile) },
    .{ .slot = api.tp_dealloc, .function = @ptrCast(&deallocFile) },
    .{ .slot = api.tp_methods, .function = @ptrCast(&file_methods) },
    .{ .slot = api.sq_length, .function = @ptrCast(&fileLength) },
    .{},
};
pub const file_spec: api.TypeSpec = .{
    .name = "tokenmill._native.CountsFile",
    .basicsize = @sizeOf(FileInstance),
    .flags = api.TPFLAGS_DEFAULT | api.TPFLAGS_IMMUTABLETYPE,
    .slots = &file_slots,
};

/// merge_counts(paths, weights, output, metadata): merges files of pretoken counts
pub fn mergeCounts(state: *core_.State, args: Args) ?*Object {
    if (!api.isList(args[0])) return core_.fail(api.typeError(), "paths must be a list", .{});
    var paths = Texts.from(args[0]) orelse return null;
    defer paths.release(paths.slices.len);
    const weights = core_.numbersFrom(f64, args[1]) orelse return null;
    defer gpa.free(weights);
    if (weights.len != paths.slices.len) {
        const message = "expected one weight per file, got {d} weights for {d} files";
        return core_.fail(api.valueError(), message, .{ weights.len, paths.slices.len });
    }
    for (weights) |weight| if (!(weight >= 0 and std.math.isFinite(weight))) {
        const message = "a weight must be a finite number of at least 0, got {d}";
        return core_.fail(state.input_error.?, message, .{weight});
    };
    var output = pathFrom(args[2]) orelse return null;
    defer output.release();
    var metadata = Text.from(args[3]) orelse return null;
    defer metadata.release();
    var report: counts.Report = .{};
    var unlocked: core_.Unlocked = .begin();
    const poll = unlocked.poll();
    const outcome = counts
        .mergeFiles(gpa, paths.slices, weights, output.bytes, metadata.bytes, &report, poll);
    unlocked.end();
    outcome catch |failure| return fail(state, failure, &report);
    return api.none();
}
