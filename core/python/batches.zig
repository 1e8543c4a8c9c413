//! Many texts or documents → their ids and counts, on several threads: methods of Core.

const std = @import("std");
const api = @import("api.zig");
const arguments = @import("arguments.zig");
const batch_ = @import("../encode/batch.zig");
const merge = @import("../merge.zig");
const object_ = @import("object.zig");
const ragged_ = @import("../encode/ragged.zig");
const results = @import("results.zig");
const tokenizer = @import("tokenizer.zig");
const Allowed = tokenizer.Allowed;
const Buffer = @import("buffer.zig").Buffer;
const Call = object_.Call;
const Core = tokenizer.Core;
const Data = arguments.Data;
const Error = object_.Error;
const Goal = tokenizer.Goal;
const Items = Buffer.Items;
const Kind = @import("buffer.zig").Kind;
const Object = api.Object;
const Spans = arguments.Spans;
const Texts = arguments.Texts;
const Threads = arguments.Threads;
const Unlocked = object_.Unlocked;

const gpa = object_.gpa;
const method = object_.method;
const run = tokenizer.run;

const Batch = struct { texts: Texts, allowed: Allowed, threads: Threads };

fn runBatch(
    comptime goal: Goal,
    call: Call,
    core: *Core,
    args: Batch,
    is_public: bool,
) Error!tokenizer.Outcome(goal) {
    const allowed = try args.allowed.of(call, core);
    return run(goal, call, core, args.texts.slices.items, allowed, args.threads, is_public);
}

/// encode_batch(texts, allowed, threads) → list of lists
fn encodeBatch(call: Call, self: *Core, args: Batch) Error!*Object {
    // Int objects are looked up by rank.
    const ragged = try runBatch(.ids, call, self, args, false);
    defer gpa.free(ragged.ids);
    defer gpa.free(ragged.offsets);
    const text_count = ragged.offsets.len - 1;
    // New lists of ints are not garbage. Collections after every 700 of them took a quarter of the
    // time.
    const was_enabled = api.PyGC_Disable() != 0;
    defer if (was_enabled) {
        _ = api.PyGC_Enable();
    };
    const list = api.PyList_New(@intCast(text_count)) orelse return error.Raised;
    errdefer api.Py_DecRef(list);
    for (0..text_count) |index| {
        const start: usize = @intCast(ragged.offsets[index]);
        const end: usize = @intCast(ragged.offsets[index + 1]);
        const item = try self.ints.listOf(ragged.ids[start..end]);
        _ = api.PyList_SetItem(list, @intCast(index), item);
    }
    return list;
}

const Ragged = struct { []u32, []i64 };

/// encode_ragged(texts, allowed, threads) → (ids, offsets)
fn encodeRagged(call: Call, self: *Core, args: Batch) Error!Ragged {
    const ragged = try runBatch(.ids, call, self, args, true);
    return .{ ragged.ids, ragged.offsets };
}

/// count_batch(texts, allowed, threads) → list of counts
fn countBatch(call: Call, self: *Core, args: Batch) Error!*Object {
    if (self.tokenizer.randomFailureOf("count_batch")) |failure| return call.raise(failure);
    const counts = try runBatch(.number, call, self, args, true);
    defer gpa.free(counts);
    return results.listOf(call, counts);
}

/// encode_block(data, spans, allowed, threads) → (ids, offsets) of the documents of a block
fn encodeBlock(call: Call, self: *Core, args: struct {
    data: Data,
    spans: Spans,
    allowed: Allowed,
    threads: Threads,
}) Error!Ragged {
    const texts = try args.spans.in(call, args.data.bytes);
    defer gpa.free(texts);
    const allowed = try args.allowed.of(call, self);
    const ragged = try run(.ids, call, self, texts, allowed, args.threads, true);
    return .{ ragged.ids, ragged.offsets };
}

/// encode_documents(data, spans, allowed, before, after, narrow, threads) → (ids, ends): the
/// documents of a block, each with `before` and `after` ids around its own; u16 if `narrow`
fn encodeDocuments(call: Call, self: *Core, args: struct {
    data: Data,
    spans: Spans,
    allowed: Allowed,
    before: []const u32,
    after: []const u32,
    narrow: bool,
    threads: Threads,
}) Error!*Object {
    const texts = try args.spans.in(call, args.data.bytes);
    defer gpa.free(texts);
    if (args.narrow) try tokenizer.checkNarrow(call, self, args.before, args.after);
    var batch: batch_.Batch = .{
        .gpa = gpa,
        .tokenizer = &self.tokenizer,
        .texts = texts,
        .allowed = try args.allowed.of(call, self),
        .threads = args.threads.value,
    };
    var unlocked: Unlocked = .begin();
    batch.poll = unlocked.poll();
    const outcome = batch.encodeDocuments(args.before, args.after, args.narrow);
    unlocked.end();
    const found = outcome catch |failure|
        return call.raise(merge.failureOf(failure, batch.missing_byte));
    return switch (found.ids) {
        inline else => |numbers| results.convert(call, .{ numbers, found.ends }),
    };
}

/// join(ids, offsets) → (ids, offsets): concatenates ragged arrays, passed as two lists
pub fn join(call: Call, args: struct { ids: *Object, offsets: *Object }) Error!Ragged {
    const ids_buffers = try buffersOf(.u32, call, args.ids);
    defer gpa.free(ids_buffers);
    const offsets_buffers = try buffersOf(.i64, call, args.offsets);
    defer gpa.free(offsets_buffers);
    const joined = ragged_.join(gpa, ids_buffers, offsets_buffers) catch |failure|
        return call.raise(ragged_.failureOf(failure));
    return .{ joined.ids, joined.offsets };
}

/// Returns the numbers of a list of buffers, which the list keeps alive while the GIL is held.
fn buffersOf(
    comptime kind: Kind,
    call: Call,
    list: *Object,
) Error![]@FieldType(Items, @tagName(kind)) {
    if (!api.isList(list)) return call.fail(.type, "join expects two lists of buffers", .{});
    const len: usize = @intCast(api.PyList_Size(list));
    const found = try gpa.alloc(@FieldType(Items, @tagName(kind)), len);
    errdefer gpa.free(found);
    for (found, 0..) |*items, index| {
        const object = api.PyList_GetItem(list, @intCast(index)) orelse return error.Raised;
        const is_buffer = object.type == call.state().classes.get(.Buffer).?;
        const numbers = if (is_buffer) object_.Object(Buffer).of(object).value.?.of(kind) else null;
        items.* = numbers orelse
            return call.fail(.type, "join expects lists of buffers of u32 and of i64", .{});
    }
    return found;
}

pub const methods = [_]api.Method{
    method("encode_batch", encodeBatch),
    method("encode_ragged", encodeRagged),
    method("encode_block", encodeBlock),
    method("encode_documents", encodeDocuments),
    method("count_batch", countBatch),
};
