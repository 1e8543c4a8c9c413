//! Blocks of files → documents as Python buffers, and `tokenmill._native.Checksum`.

const std = @import("std");
const api = @import("api.zig");
const batches = @import("batches.zig");
const buffer = @import("buffer.zig");
const core_ = @import("core.zig");
const counts = @import("counts.zig");
const documents = @import("../documents.zig");
const Text = @import("text.zig").Text;

const gpa = buffer.gpa;
const Args = core_.Args;
const Object = api.Object;
const Span = documents.Span;

/// split_documents(data, separator, is_last) → (spans, bytes used)
pub fn splitDocuments(state: *core_.State, args: Args) ?*Object {
    var data = Text.from(args[0]) orelse return null;
    defer data.release();
    var separator = Text.from(args[1]) orelse return null;
    defer separator.release();
    const is_last = isTrue(args[2]) orelse return null;
    var spans: std.ArrayList(Span) = .empty;
    defer spans.deinit(gpa);
    var unlocked: core_.Unlocked = .begin();
    const outcome = documents.split(gpa, data.bytes, separator.bytes, is_last, &spans);
    unlocked.end();
    const used = outcome catch return api.PyErr_NoMemory();
    const owned = spans.toOwnedSlice(gpa) catch return api.PyErr_NoMemory();
    return core_.pairOf(spansOf(state, owned), api.PyLong_FromUnsignedLongLong(used));
}

/// json_lines(data, is_last, field, id_field) → (text, spans, lines, problems, used, ids, lines)
pub fn jsonLines(state: *core_.State, args: Args) ?*Object {
    var data = Text.from(args[0]) orelse return null;
    defer data.release();
    const is_last = isTrue(args[1]) orelse return null;
    var field = Text.from(args[2]) orelse return null;
    defer field.release();
    var id_field: ?Text = if (api.isNone(args[3])) null else Text.from(args[3]) orelse return null;
    defer if (id_field) |*some| some.release();
    const id_name = if (id_field) |some| some.bytes else null;
    var unlocked: core_.Unlocked = .begin();
    const outcome = documents.json_lines.read(gpa, data.bytes, is_last, field.bytes, id_name);
    unlocked.end();
    const found = outcome catch return api.PyErr_NoMemory();
    defer gpa.free(found.problems);
    const buffer_type = state.buffer_type.?;
    return core_.tupleOf(.{
        buffer.create(buffer_type, .u8, found.text),
        spansOf(state, found.spans),
        spansOf(state, found.lines),
        problemsOf(found.problems),
        api.PyLong_FromUnsignedLongLong(found.used),
        if (found.ids) |ids| core_.pairOf(
            buffer.create(buffer_type, .u8, ids.text),
            spansOf(state, ids.spans),
        ) else api.none(),
        api.PyLong_FromUnsignedLongLong(found.line_count),
    });
}

/// utf8_problems(data, spans) → the indices of the documents that are not UTF-8
pub fn utf8Problems(state: *core_.State, args: Args) ?*Object {
    var data = Text.from(args[0]) orelse return null;
    defer data.release();
    const texts = batches.textsFrom(args[1], data.bytes) orelse return null;
    defer gpa.free(texts);
    var unlocked: core_.Unlocked = .begin();
    const outcome = documents.utf8.problems(gpa, texts);
    unlocked.end();
    const found = outcome catch return api.PyErr_NoMemory();
    return buffer.create(state.buffer_type.?, .i64, found);
}

/// Returns null if an exception is set.
fn isTrue(object: *Object) ?bool {
    return switch (api.PyObject_IsTrue(object)) {
        0 => false,
        1 => true,
        else => null,
    };
}

/// Takes ownership of the spans.
fn spansOf(state: *core_.State, spans: []Span) ?*Object {
    return buffer.create(state.buffer_type.?, .i64, Span.numbers(spans));
}

/// Returns a list of (start, end, line index, reason number).
fn problemsOf(problems: []const documents.json_lines.Problem) ?*Object {
    const list = api.PyList_New(@intCast(problems.len)) orelse return null;
    for (problems, 0..) |problem, index| {
        const tuple = core_.tupleOf(.{
            api.PyLong_FromLongLong(problem.line.start),
            api.PyLong_FromLongLong(problem.line.end),
            api.PyLong_FromUnsignedLongLong(problem.line_index),
            api.PyLong_FromUnsignedLongLong(@intFromEnum(problem.reason)),
        }) orelse {
            api.Py_DecRef(list);
            return null;
        };
        _ = api.PyList_SetItem(list, @intCast(index), tuple);
    }
    return list;
}

/// An instance of `tokenmill._native.Checksum`.
const Instance = extern struct {
    head: Object,
    checksum: ?*documents.Checksum,
    is_busy: bool,

    fn of(object: *Object) *Instance {
        return @ptrCast(@alignCast(object));
    }

    /// Returns the checksum; null if an exception is set.
    fn free(self: *Instance) ?*documents.Checksum {
        if (!self.is_busy) return self.checksum.?;
        _ = core_.fail(api.runtimeError(), "another thread is using this checksum", .{});
        return null;
    }
};

/// Checksum()
fn newChecksum(object_type: *api.Type, tuple: *Object, _: ?*Object) callconv(.c) ?*Object {
    _ = counts.argumentsOf(0, "Checksum", tuple) orelse return null;
    const checksum = gpa.create(documents.Checksum) catch return api.PyErr_NoMemory();
    checksum.* = .{};
    const object = api.PyType_GenericAlloc(object_type, 0) orelse {
        gpa.destroy(checksum);
        return null;
    };
    Instance.of(object).checksum = checksum;
    return object;
}

fn dealloc(object: *Object) callconv(.c) void {
    if (Instance.of(object).checksum) |checksum| gpa.destroy(checksum);
    counts.free(object);
}

/// update(bytes)
fn update(self: *Object, args: Args) ?*Object {
    const instance = Instance.of(self);
    var data = Text.from(args[0]) orelse return null;
    defer data.release();
    const checksum = instance.free() orelse return null;
    if (data.bytes.len < gil_bytes) {
        checksum.update(data.bytes);
        return api.none();
    }
    instance.is_busy = true;
    var unlocked: core_.Unlocked = .begin();
    checksum.update(data.bytes);
    unlocked.end();
    instance.is_busy = false;
    return api.none();
}

/// For fewer bytes, releasing the GIL costs more than it gains.
const gil_bytes = 1 << 16;

/// value() → the checksum of all bytes so far
fn value(self: *Object, _: Args) ?*Object {
    const checksum = Instance.of(self).free() orelse return null;
    return api.PyLong_FromUnsignedLongLong(checksum.value());
}

const checksum_methods = [_]api.Method{
    core_.method("update", 1, update),
    core_.method("value", 0, value),
    .{},
};
const checksum_slots = [_]api.TypeSlot{
    .{ .slot = api.tp_new, .function = @ptrCast(&newChecksum) },
    .{ .slot = api.tp_dealloc, .function = @ptrCast(&dealloc) },
    .{ .slot = api.tp_methods, .function = @ptrCast(&checksum_methods) },
    .{},
};
pub const checksum_spec: api.TypeSpec = .{
    .name = "tokenmill._native.Checksum",
    .basicsize = @sizeOf(Instance),
    .flags = api.TPFLAGS_DEFAULT | api.TPFLAGS_IMMUTABLETYPE,
    .slots = &checksum_slots,
};
