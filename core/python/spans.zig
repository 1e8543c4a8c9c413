//! The methods of a tokenizer that return ids with offsets.

const std = @import("std");
const api = @import("api.zig");
const batches = @import("batches.zig");
const buffer = @import("buffer.zig");
const core_ = @import("core.zig");
const offsets = @import("../offsets.zig");
const parallel = @import("../offsets/parallel.zig");
const lists = @import("lists.zig");
const Args = core_.Args;
const Core = core_.Core;
const Object = api.Object;
const Place = @import("../normalize.zig").Place;
const Text = @import("text.zig").Text;

const gpa = buffer.gpa;

/// encode_with_offsets(text, allowed) → (ids, spans): in characters for str, otherwise in bytes
pub fn encodeWithOffsets(self: *Object, args: Args) ?*Object {
    const core = Core.of(self);
    var sink: offsets.Spans = .init(gpa);
    defer sink.deinit();
    if (!fill(core, &sink, args)) return null;
    return core_.pairOf(core.ints.?.listOf(sink.list.ids.items), lists.pairsOf(sink.spans.items));
}

/// encode_words(text, allowed) → (ids, spans, the number of each id's pretoken or added token)
pub fn encodeWords(self: *Object, args: Args) ?*Object {
    const core = Core.of(self);
    var sink: offsets.Spans = .init(gpa);
    defer sink.deinit();
    sink.word_ids = .empty;
    if (!fill(core, &sink, args)) return null;
    const parts = [3]?*Object{
        core.ints.?.listOf(sink.list.ids.items),
        lists.pairsOf(sink.spans.items),
        lists.numbersOf(sink.word_ids.?.items),
    };
    const tuple = api.PyTuple_New(3);
    if (tuple == null or parts[0] == null or parts[1] == null or parts[2] == null) {
        for (parts) |part| if (part) |some| api.Py_DecRef(some);
        api.Py_DecRef(tuple);
        return null;
    }
    for (parts, 0..) |part, index| _ = api.PyTuple_SetItem(tuple.?, @intCast(index), part.?);
    return tuple;
}

/// Encodes (text, allowed) into a sink. False if an exception is set.
fn fill(core: *Core, sink: *offsets.Spans, args: Args) bool {
    const allowed = core_.allowedFrom(core, args[1]) orelse return false;
    var text = Text.from(args[0]) orelse return false;
    defer text.release();
    if (!fits(text.bytes)) return false;
    sink.reserve(text.bytes.len);
    sink.cursor = cursorOf(args[0], text.bytes);
    return core_.encodeInto(core, text.bytes, allowed, sink, offsets.encode);
}

/// Whether spans must be converted to characters: the text is a str, and not ASCII.
fn countsCharacters(object: *Object, text: []const u8) bool {
    return api.isUnicode(object) and api.PyUnicode_GetLength(object) != text.len;
}

/// Returns the converter of spans to characters; null if they stay in bytes.
fn cursorOf(object: *Object, text: []const u8) ?offsets.CharacterCursor {
    return if (countsCharacters(object, text)) .{ .gpa = gpa, .text = text } else null;
}

fn fits(text: []const u8) bool {
    if (text.len < 1 << 32) return true;
    const message = "offsets require a text of less than 4 GB, got {d} bytes; split the text";
    _ = core_.fail(api.valueError(), message, .{text.len});
    return false;
}

/// encode_spans(text, allowed, threads) → (ids Buffer, spans Buffer of start, end, start, end …)
pub fn encodeSpans(self: *Object, args: Args) ?*Object {
    const core = Core.of(self);
    const allowed = core_.allowedFrom(core, args[1]) orelse return null;
    var text = Text.from(args[0]) orelse return null;
    defer text.release();
    if (!fits(text.bytes)) return null;
    const is_contiguous = parallel.hasContiguousTokens(core.tokenizer.?);
    if (is_contiguous and batches.isForThreads(text.bytes, args[2])) {
        const numbers =
            batches.encodeText(core, text.bytes, allowed, args[2], false) orelse return null;
        const counted = if (countsCharacters(args[0], text.bytes)) text.bytes else null;
        const threads = batches.threadsFrom(args[2]);
        var unlocked: core_.Unlocked = .begin();
        const told = parallel.measure(gpa, core.tokenizer.?, numbers, counted, threads);
        unlocked.end();
        return finish(core, numbers, told catch {
            gpa.free(numbers);
            return api.PyErr_NoMemory();
        });
    }
    var sink: offsets.Spans = .init(gpa);
    defer sink.deinit();
    sink.reserve(text.bytes.len);
    sink.cursor = cursorOf(args[0], text.bytes);
    if (!core_.encodeInto(core, text.bytes, allowed, &sink, offsets.encode)) return null;
    const numbers = sink.list.ids.toOwnedSlice(gpa) catch return api.PyErr_NoMemory();
    const spans = sink.spans.toOwnedSlice(gpa) catch {
        gpa.free(numbers);
        return api.PyErr_NoMemory();
    };
    return finish(core, numbers, spans);
}

/// Returns two buffers, which take ownership of ids and spans.
fn finish(core: *Core, numbers: []u32, spans: []Place) ?*Object {
    core.tokenizer.?.vocabulary.publish(numbers);
    const buffer_type = core.state().buffer_type.?;
    const flat: []u32 = @as([*]u32, @ptrCast(spans.ptr))[0 .. 2 * spans.len];
    return core_.pairOf(
        buffer.create(buffer_type, .u32, numbers),
        buffer.create(buffer_type, .u32, flat),
    );
}
