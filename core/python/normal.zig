//! Packed steps and a text → the normalized text as a Python object, with its alignment.

const std = @import("std");
const api = @import("api.zig");
const buffer = @import("buffer.zig");
const core = @import("core.zig");
const normals = @import("../normalize.zig");
const Text = @import("text.zig").Text;

const gpa = buffer.gpa;
const Object = api.Object;

/// Reads packed steps; null if an exception is set.
pub fn stepsFrom(state: *core.State, object: *Object) ?normals.Steps {
    var packed_steps = Text.from(object) orelse return null;
    defer packed_steps.release();
    return normals.Steps.init(gpa, packed_steps.bytes) catch |failure| {
        _ = switch (failure) {
            error.OutOfMemory => api.PyErr_NoMemory(),
            error.InvalidSteps => core.fail(
                state.vocabulary_error.?,
                "the normalizer is damaged: a map or a pattern in it cannot be read",
                .{},
            ),
        };
        return null;
    };
}

/// normalize(steps, text) → (text, alignment): a str for a str, otherwise bytes. The alignment is
/// u32 numbers, the start and the end of each byte's span; None if the text is unchanged.
pub fn normalize(state: *core.State, args: core.Args) ?*Object {
    var steps = stepsFrom(state, args[0]) orelse return null;
    defer steps.deinit(gpa);
    var text = Text.from(args[1]) orelse return null;
    defer text.release();
    var unlocked: ?core.Unlocked = if (text.bytes.len < core.gil_bytes) null else .begin();
    const outcome = steps.apply(gpa, text.bytes, true);
    if (unlocked) |*some| some.end();
    var normal = (outcome catch return api.PyErr_NoMemory()) orelse {
        if (!api.isUnicode(args[1])) return core.pairOf(objectOf(args[1], text.bytes), api.none());
        api.Py_IncRef(args[1]);
        return core.pairOf(args[1], api.none());
    };
    defer normal.deinit(gpa);
    const places = normals.spread(gpa, normal.places, normal.bytes.len, text.bytes) catch
        return api.PyErr_NoMemory();
    const numbers: []u32 = @as([*]u32, @ptrCast(places.ptr))[0 .. 2 * places.len];
    return core.pairOf(
        objectOf(args[1], normal.bytes),
        buffer.create(state.buffer_type.?, .u32, numbers),
    );
}

fn objectOf(like: *Object, bytes: []const u8) ?*Object {
    const len: api.Ssize = @intCast(bytes.len);
    if (api.isUnicode(like)) return api.PyUnicode_DecodeUTF8(bytes.ptr, len, null);
    return api.PyBytes_FromStringAndSize(bytes.ptr, len);
}
