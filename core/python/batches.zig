//! The methods of a tokenizer that use several threads, for long texts and for many texts.

const std = @import("std");
const api = @import("api.zig");
const buffer = @import("buffer.zig");
const core_ = @import("core.zig");
const documents = @import("../documents.zig");
const fronts = @import("fronts.zig");
const batch_ = @import("../encode/batch.zig");
const encoder_ = @import("../encode/encoder.zig");
const Args = core_.Args;
const Core = core_.Core;
const Object = api.Object;
const Text = @import("text.zig").Text;
const Texts = @import("text.zig").Texts;

const gpa = buffer.gpa;

/// A shorter text is encoded by the calling thread alone.
const long_text_len = 1 << 20;

const Goal = enum { encode, count };

fn Outcome(comptime goal: Goal) type {
    return if (goal == .encode) batch_.Ragged else []i64;
}

/// Encodes or counts texts on several threads, without the GIL. Returns null if an exception is
/// set.
fn run(
    comptime goal: Goal,
    core: *Core,
    texts: []const []const u8,
    allowed: ?[]const u8,
    threads: *Object,
    is_public: bool,
) ?Outcome(goal) {
    var batch: batch_.Batch = .{
        .gpa = gpa,
        .tokenizer = core.tokenizer.?,
        .texts = texts,
        .allowed = allowed,
        .threads = threadsFrom(threads),
        .is_public = is_public,
    };
    var unlocked: core_.Unlocked = .begin();
    batch.poll = unlocked.poll();
    const outcome = if (goal == .encode) batch.encode() else batch.count();
    unlocked.end();
    return outcome catch |failure| {
        _ = core_.failEncoding(core, failure, batch.missing_byte);
        return null;
    };
}

/// Whether a text is long enough for several threads.
pub fn isForThreads(text: []const u8, threads: *Object) bool {
    return text.len >= long_text_len and threadsFrom(threads) > 1;
}

pub fn threadsFrom(object: *Object) usize {
    return @intCast(@max(1, api.PyLong_AsLongLong(object)));
}

/// The same for a list of texts, with a method's arguments (texts, allowed, threads).
fn runList(comptime goal: Goal, core: *Core, args: Args, is_public: bool) ?Outcome(goal) {
    const allowed = core_.allowedFrom(core, args[1]) orelse return null;
    var texts = Texts.from(args[0]) orelse return null;
    defer texts.release(texts.slices.len);
    return run(goal, core, texts.slices, allowed, args[2], is_public);
}

/// encode_buffer(text, allowed, narrow, threads) → Buffer of u32, or of u16
pub fn encodeBuffer(self: *Object, args: Args) ?*Object {
    const core = Core.of(self);
    const allowed = core_.allowedFrom(core, args[1]) orelse return null;
    const narrow = api.PyLong_AsLongLong(args[2]) != 0;
    var text = Text.from(args[0]) orelse return null;
    defer text.release();
    const numbers = encodeText(core, text.bytes, allowed, args[3], true) orelse return null;
    const buffer_type = core.state().buffer_type.?;
    if (!narrow) return buffer.create(buffer_type, .u32, numbers);
    const small = narrowed(numbers) catch return api.PyErr_NoMemory();
    return buffer.create(buffer_type, .u16, small);
}

/// Converts ids to half their size, in place, and takes ownership of them: a second list of the
/// same length would cost more than half of the encoding. Each id is read before its memory is
/// overwritten.
fn narrowed(numbers: []u32) std.mem.Allocator.Error![]u16 {
    const halves: [*]u16 = @ptrCast(numbers.ptr);
    const lanes = 16;
    var index: usize = 0;
    // Vectorized by hand, since the compiler cannot vectorize aliased memory.
    while (index + lanes <= numbers.len) : (index += lanes) {
        const some: @Vector(lanes, u32) = numbers[index..][0..lanes].*;
        halves[index..][0..lanes].* = @as(@Vector(lanes, u16), @truncate(some));
    }
    while (index < numbers.len) : (index += 1) halves[index] = @truncate(numbers[index]);
    const kept = (numbers.len + 1) / 2;
    errdefer gpa.free(numbers);
    const rest = try gpa.realloc(numbers, kept);
    return @as([*]u16, @ptrCast(rest.ptr))[0..numbers.len];
}

/// Returns the ids of one text, owned by the caller; null if an exception is set.
pub fn encodeText(
    core: *Core,
    text: []const u8,
    allowed: ?[]const u8,
    threads: *Object,
    is_public: bool,
) ?[]u32 {
    if (isForThreads(text, threads)) {
        const ragged =
            run(.encode, core, &.{text}, allowed, threads, is_public) orelse return null;
        gpa.free(ragged.offsets);
        return ragged.ids;
    }
    var sink: encoder_.List = .{ .gpa = gpa };
    defer sink.ids.deinit(gpa);
    batch_.reserve(&sink, text.len);
    if (!core_.encodeInto(core, text, allowed, &sink, encoder_.Encoder.encode)) return null;
    if (is_public) core.tokenizer.?.vocabulary.publish(sink.ids.items);
    return sink.ids.toOwnedSlice(gpa) catch {
        _ = api.PyErr_NoMemory();
        return null;
    };
}

/// count(text, allowed, threads) → number of ids
pub fn count(self: *Object, args: Args) ?*Object {
    const core = Core.of(self);
    if (!fronts.allowRepeating(core, "count")) return null;
    const allowed = core_.allowedFrom(core, args[1]) orelse return null;
    var text = Text.from(args[0]) orelse return null;
    defer text.release();
    if (isForThreads(text.bytes, args[2])) {
        const texts = [_][]const u8{text.bytes};
        const counts = run(.count, core, &texts, allowed, args[2], true) orelse return null;
        defer gpa.free(counts);
        return api.PyLong_FromLongLong(counts[0]);
    }
    var sink: encoder_.List = .{ .gpa = gpa, .only_counts = true };
    defer sink.deinit();
    if (!core_.encodeInto(core, text.bytes, allowed, &sink, encoder_.Encoder.encode)) return null;
    return api.PyLong_FromUnsignedLongLong(sink.total());
}

/// encode_batch(texts, allowed, threads) → list of lists
pub fn encodeBatch(self: *Object, args: Args) ?*Object {
    const core = Core.of(self);
    // Int objects are looked up by rank.
    const ragged = runList(.encode, core, args, false) orelse return null;
    defer gpa.free(ragged.ids);
    defer gpa.free(ragged.offsets);
    const text_count = ragged.offsets.len - 1;
    // New lists of ints are not garbage. Collections after every 700 of them took a quarter of the
    // time.
    const was_enabled = api.PyGC_Disable() != 0;
    defer if (was_enabled) {
        _ = api.PyGC_Enable();
    };
    const lists = api.PyList_New(@intCast(text_count)) orelse return null;
    for (0..text_count) |index| {
        const start: usize = @intCast(ragged.offsets[index]);
        const end: usize = @intCast(ragged.offsets[index + 1]);
        const list = core.ints.?.listOf(ragged.ids[start..end]) orelse {
            api.Py_DecRef(lists);
            return null;
        };
        _ = api.PyList_SetItem(lists, @intCast(index), list);
    }
    return lists;
}

/// encode_ragged(texts, allowed, threads) → (ids Buffer, offsets Buffer)
pub fn encodeRagged(self: *Object, args: Args) ?*Object {
    const core = Core.of(self);
    return buffersOf(core, runList(.encode, core, args, true) orelse return null);
}

fn buffersOf(core: *Core, ragged: batch_.Ragged) ?*Object {
    const buffer_type = core.state().buffer_type.?;
    const numbers = buffer.create(buffer_type, .u32, ragged.ids);
    return core_.pairOf(numbers, buffer.create(buffer_type, .i64, ragged.offsets));
}

/// encode_block(data, spans, allowed, threads) → (ids, offsets) of the documents of a block
pub fn encodeBlock(self: *Object, args: Args) ?*Object {
    const core = Core.of(self);
    var data = Text.from(args[0]) orelse return null;
    defer data.release();
    const texts = textsFrom(args[1], data.bytes) orelse return null;
    defer gpa.free(texts);
    const allowed = core_.allowedFrom(core, args[2]) orelse return null;
    return buffersOf(core, run(.encode, core, texts, allowed, args[3], true) orelse return null);
}

/// encode_documents(data, spans, allowed, before, after, narrow, threads) → (ids, ends): the
/// documents of a block, each with `before` and `after` ids around its own; u16 if `narrow`
pub fn encodeDocuments(self: *Object, args: Args) ?*Object {
    const core = Core.of(self);
    var data = Text.from(args[0]) orelse return null;
    defer data.release();
    const texts = textsFrom(args[1], data.bytes) orelse return null;
    defer gpa.free(texts);
    const allowed = core_.allowedFrom(core, args[2]) orelse return null;
    const before = core_.numbersFrom(u32, args[3]) orelse return null;
    defer gpa.free(before);
    const after = core_.numbersFrom(u32, args[4]) orelse return null;
    defer gpa.free(after);
    const narrow = api.PyLong_AsLongLong(args[5]) != 0;
    if (narrow and !isNarrow(core, before, after)) return null;
    var batch: batch_.Batch = .{
        .gpa = gpa,
        .tokenizer = core.tokenizer.?,
        .texts = texts,
        .allowed = allowed,
        .threads = threadsFrom(args[6]),
    };
    if (api.PyErr_Occurred() != null) return null;
    var unlocked: core_.Unlocked = .begin();
    batch.poll = unlocked.poll();
    const outcome = batch.encodeDocuments(before, after, narrow);
    unlocked.end();
    const found = outcome catch |failure|
        return core_.failEncoding(core, failure, batch.missing_byte);
    const buffer_type = core.state().buffer_type.?;
    const numbers = switch (found.ids) {
        .wide => |numbers| buffer.create(buffer_type, .u32, numbers),
        .narrow => |numbers| buffer.create(buffer_type, .u16, numbers),
    };
    return core_.pairOf(numbers, buffer.create(buffer_type, .i64, found.ends));
}

/// Whether all ids fit in 16 bits; if not, an exception is set.
fn isNarrow(core: *Core, before: []const u32, after: []const u32) bool {
    const tokenizer = core.tokenizer.?;
    var end: u64 = tokenizer.vocabulary.publicEnd();
    for ([_][]const u32{ tokenizer.preprocessor.ids, before, after }) |numbers| {
        for (numbers) |number| end = @max(end, @as(u64, number) + 1);
    }
    if (end <= 1 << 16) return true;
    _ = core_.fail(api.valueError(), "id {d} does not fit into 16 bits", .{end - 1});
    return false;
}

/// Returns the texts in `data` whose spans are in an array of i64, start and end of each; null if
/// an exception is set.
pub fn textsFrom(object: *Object, data: []const u8) ?[][]const u8 {
    var view: api.Buffer = .{};
    if (api.PyObject_GetBuffer(object, &view, api.BUF_FORMAT | api.BUF_ND) < 0) return null;
    defer api.PyBuffer_Release(&view);
    const len: usize = @intCast(view.len);
    const format = if (view.format) |some| some[0] else 'B';
    const is_array = view.itemsize == 8 and std.mem.indexOfScalar(u8, "ql", format) != null;
    if (!is_array or len % @sizeOf(documents.Span) != 0) {
        _ = core_.fail(api.typeError(), "spans must be pairs of i64 numbers", .{});
        return null;
    }
    const texts = gpa.alloc([]const u8, len / @sizeOf(documents.Span)) catch {
        _ = api.PyErr_NoMemory();
        return null;
    };
    if (texts.len == 0) return texts;
    const spans: [*]align(1) const documents.Span = @ptrCast(view.buf.?);
    for (texts, spans) |*text, span| text.* = span.in(data) orelse {
        gpa.free(texts);
        const message = "span {d} to {d} is outside the data, which has {d} bytes";
        _ = core_.fail(api.valueError(), message, .{ span.start, span.end, data.len });
        return null;
    };
    return texts;
}

/// count_batch(texts, allowed, threads) → list of counts
pub fn countBatch(self: *Object, args: Args) ?*Object {
    if (!fronts.allowRepeating(Core.of(self), "count_batch")) return null;
    const counts = runList(.count, Core.of(self), args, true) orelse return null;
    defer gpa.free(counts);
    const list = api.PyList_New(@intCast(counts.len)) orelse return null;
    for (counts, 0..) |number, index| {
        const object = api.PyLong_FromUnsignedLongLong(@intCast(number)) orelse {
            api.Py_DecRef(list);
            return null;
        };
        _ = api.PyList_SetItem(list, @intCast(index), object);
    }
    return list;
}

/// Concatenates ragged arrays, passed as a list of ids and a list of offsets.
pub fn join(buffer_type: *api.Type, ids_list: *Object, offsets_list: *Object) ?*Object {
    const arrays: usize = @intCast(api.PyList_Size(ids_list));
    var ids_len: usize = 0;
    var texts: usize = 0;
    for (0..arrays) |index| {
        const numbers = itemsOf(.u32, buffer_type, ids_list, index) orelse return null;
        const offsets = itemsOf(.i64, buffer_type, offsets_list, index) orelse return null;
        ids_len += numbers.len;
        texts += offsets.len - 1;
    }
    const all_ids = gpa.alloc(u32, ids_len) catch return api.PyErr_NoMemory();
    const all_offsets = gpa.alloc(i64, texts + 1) catch {
        gpa.free(all_ids);
        return api.PyErr_NoMemory();
    };
    all_offsets[0] = 0;
    var text: usize = 0;
    var start: usize = 0;
    for (0..arrays) |index| {
        const numbers = itemsOf(.u32, buffer_type, ids_list, index).?;
        const offsets = itemsOf(.i64, buffer_type, offsets_list, index).?;
        @memcpy(all_ids[start..][0..numbers.len], numbers);
        for (offsets[1..]) |offset| {
            text += 1;
            all_offsets[text] = @as(i64, @intCast(start)) + offset;
        }
        start += numbers.len;
    }
    return core_.pairOf(
        buffer.create(buffer_type, .u32, all_ids),
        buffer.create(buffer_type, .i64, all_offsets),
    );
}

fn itemsOf(
    comptime kind: buffer.Kind,
    buffer_type: *api.Type,
    list: *Object,
    index: usize,
) ?@FieldType(buffer.Memory.Items, @tagName(kind)) {
    const object = api.PyList_GetItem(list, @intCast(index)) orelse return null;
    if (object.type == buffer_type) {
        const items = buffer.Instance.of(object).memory.?.items;
        if (items == kind) return @field(items, @tagName(kind));
    }
    _ = core_.fail(api.typeError(), "join expects two lists of buffers", .{});
    return null;
}
