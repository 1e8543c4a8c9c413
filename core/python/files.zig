//! Hugging Face files → Python buffers.

const std = @import("std");
const api = @import("api.zig");
const buffer = @import("buffer.zig");
const core = @import("core.zig");
const files = @import("../model_files.zig");
const Text = @import("text.zig").Text;

const gpa = buffer.gpa;
const Object = api.Object;
const Args = core.Args;

/// read_model(json, seed) → (rest, bytes, lengths, ids, merges, first merge without a token or -1)
pub fn readModel(state: *core.State, args: Args) ?*Object {
    var text = Text.from(args[0]) orelse return null;
    defer text.release();
    const seed = api.PyLong_AsUnsignedLongLongMask(args[1]);
    var report: files.Report = .{};
    const found = files.readModel(gpa, text.bytes, seed, &report) catch |failure|
        return fail(state, failure, &report);
    return tupleOf(state, found);
}

/// read_vocabulary(vocab_json, merges_txt, seed) → the same; `rest` is unused
pub fn readVocabulary(state: *core.State, args: Args) ?*Object {
    var vocabulary = Text.from(args[0]) orelse return null;
    defer vocabulary.release();
    var merges = Text.from(args[1]) orelse return null;
    defer merges.release();
    const seed = api.PyLong_AsUnsignedLongLongMask(args[2]);
    var report: files.Report = .{};
    const read = files.readFiles(gpa, vocabulary.bytes, merges.bytes, seed, &report);
    const found = read catch |failure|
        return fail(state, failure, &report);
    return tupleOf(state, found);
}

/// read_spelling(names, lengths) → (bytes, lengths, kinds)
pub fn readSpelling(state: *core.State, args: Args) ?*Object {
    var names = Text.from(args[0]) orelse return null;
    defer names.release();
    const lengths = core.numbersFrom(u32, args[1]) orelse return null;
    defer gpa.free(lengths);
    var sum: usize = 0;
    for (lengths) |length| sum += length;
    if (sum != names.bytes.len) {
        return core.fail(api.valueError(), "lengths must add up to the length of names", .{});
    }
    const found = files.spelling.read(gpa, names.bytes, lengths) catch return api.PyErr_NoMemory();
    defer gpa.free(found.bytes);
    const buffer_type = state.buffer_type.?;
    return core.tupleOf(.{
        bytesOf(found.bytes),
        buffer.create(buffer_type, .u32, found.lengths),
        buffer.create(buffer_type, .u8, found.kinds),
    });
}

fn tupleOf(state: *core.State, found: files.Found) ?*Object {
    defer gpa.free(found.rest);
    defer gpa.free(found.bytes);
    const buffer_type = state.buffer_type.?;
    return core.tupleOf(.{
        bytesOf(found.rest),
        bytesOf(found.bytes),
        buffer.create(buffer_type, .u32, found.lengths),
        buffer.create(buffer_type, .u32, found.ids),
        buffer.create(buffer_type, .u32, found.merges),
        api.PyLong_FromLongLong(if (found.unmade) |place| place else -1),
    });
}

fn bytesOf(bytes: []const u8) ?*Object {
    return api.PyBytes_FromStringAndSize(bytes.ptr, @intCast(bytes.len));
}

fn fail(state: *core.State, failure: files.Error, report: *const files.Report) ?*Object {
    if (failure == error.OutOfMemory) return api.PyErr_NoMemory();
    var place_buffer: [40]u8 = undefined;
    const place = switch (report.place) {
        .none => "",
        .byte => |at| std.fmt.bufPrint(&place_buffer, "byte {d}", .{at}) catch unreachable,
        .line => |at| std.fmt.bufPrint(&place_buffer, "line {d}", .{at}) catch unreachable,
        .entry => |at| std.fmt.bufPrint(&place_buffer, "merge {d}", .{at}) catch unreachable,
    };
    const has_place = place.len > 0;
    const has_part = report.part.len > 0;
    return core.fail(state.vocabulary_error.?, "{s}{s}{s}{s}{s}{s}{s}", .{
        report.part,
        if (has_part and has_place) ", " else "",
        place,
        if (has_part or has_place) ": " else "",
        report.problem,
        if (report.name_len > 0) ": " else "",
        report.name(),
    });
}
