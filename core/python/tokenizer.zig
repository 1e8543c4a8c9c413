//! A tokenizer as a Python object: `tokenmill._native.Core`.
//!
//! Texts → ids, offsets, counts, and bytes. Work on more than a few kilobytes of text runs without
//! the GIL, and the objects that are read meanwhile are kept alive by the arguments.

const std = @import("std");
const api = @import("api.zig");
const arguments = @import("arguments.zig");
const batch_ = @import("../encode/batch.zig");
const batches = @import("batches.zig");
const lists = @import("lists.zig");
const merge = @import("../merge.zig");
const narrow = @import("../encode/narrow.zig");
const object_ = @import("object.zig");
const offsets = @import("../offsets.zig");
const parallel = @import("../offsets/parallel.zig");
const platform = @import("../platform.zig");
const results = @import("results.zig");
const sessions = @import("../session.zig");
const truncation = @import("../session/truncate.zig");
const Buffer = @import("buffer.zig").Buffer;
const Bytes = results.Bytes;
const Call = object_.Call;
const Class = object_.Class;
const Encoder = @import("../encode/encoder.zig").Encoder;
const Error = object_.Error;
const List = @import("../encode/encoder.zig").List;
const Object = api.Object;
const Place = @import("../normalize.zig").Place;
const Session = @import("session.zig").Session;
const Size = arguments.Size;
const Text = arguments.Text;
const Threads = arguments.Threads;
const Tokenizer = @import("../encode/tokenizer.zig").Tokenizer;
const Unlocked = object_.Unlocked;

const gpa = object_.gpa;
const hot = object_.hot;
const isForThreads = batch_.isForThreads;
const method = object_.method;

/// The ids of texts up to this length are collected on the stack.
const short_text_len = 2048;

/// The value of a Core: an immutable tokenizer.
pub const Core = struct {
    pub const class: Class = .Core;

    tokenizer: Tokenizer,
    /// Python's ints of its ids.
    ints: lists.Ints,

    /// Takes ownership of `tokenizer`, which is freed if the call fails.
    pub fn init(tokenizer: Tokenizer) Error!Core {
        var moved = tokenizer;
        const vocabulary = &moved.vocabulary;
        const ints = lists.Ints.init(vocabulary.ids_end, vocabulary.public) catch |failure| {
            moved.deinit(gpa);
            return failure;
        };
        return .{ .tokenizer = moved, .ints = ints };
    }

    pub fn deinit(self: *Core) void {
        self.ints.deinit();
        self.tokenizer.deinit(gpa);
    }
};

/// The choice of added tokens: None, or one byte per added token.
pub const Allowed = struct {
    text: ?Text,

    pub fn from(call: Call, object: *Object, name: []const u8) Error!Allowed {
        return .{ .text = try arguments.convert(?Text, call, object, name) };
    }

    pub fn release(self: *Allowed) void {
        if (self.text) |*text| text.release();
    }

    pub fn of(self: *const Allowed, call: Call, core: *const Core) Error!?[]const u8 {
        const text = self.text orelse return null;
        const failure = core.tokenizer.preprocessor.choiceFailureOf(text.bytes);
        return if (failure) |reason| call.raise(reason) else text.bytes;
    }
};

/// Encodes one text into a list or spans with `function`, without the GIL if that pays off.
fn encodeInto(
    call: Call,
    core: *Core,
    text: []const u8,
    allowed: ?[]const u8,
    result: anytype,
    comptime function: anytype,
) Error!void {
    var encoder: Encoder = .init(gpa, &core.tokenizer);
    defer encoder.deinit();
    const is_short = text.len < Unlocked.bytes_min;
    const outcome = if (is_short) function(&encoder, text, allowed, result) else blk: {
        var unlocked: Unlocked = .begin();
        defer unlocked.end();
        encoder.merger.poll = unlocked.poll();
        break :blk function(&encoder, text, allowed, result);
    };
    outcome catch |failure|
        return call.raise(merge.failureOf(failure, encoder.merger.missing_byte));
}

/// encode(text, allowed) → list of ids
fn encode(call: Call, self: *Core, args: struct { text: Text, allowed: Allowed }) Error!*Object {
    const text = args.text.bytes;
    const allowed = try args.allowed.of(call, self);
    var memory: [short_text_len + List.room_extra]u32 = undefined;
    var sink: List = .{ .gpa = gpa };
    const count_max = self.tokenizer.preprocessor.idsMax(text.len);
    if (count_max != null and count_max.? <= short_text_len) {
        // The list never exceeds this capacity.
        sink.ids = .initBuffer(&memory);
        try encodeInto(call, self, text, allowed, &sink, Encoder.encode);
        platform.check(sink.ids.items.ptr == &memory, "a short text fills its list");
        return self.ints.listOf(sink.ids.items);
    }
    defer sink.ids.deinit(gpa);
    try encodeInto(call, self, text, allowed, &sink, Encoder.encode);
    return self.ints.listOf(sink.ids.items);
}

/// encode_buffer(text, allowed, narrow, threads) → Buffer of u32, or of u16
fn encodeBuffer(call: Call, self: *Core, args: struct {
    text: Text,
    allowed: Allowed,
    narrow: bool,
    threads: Threads,
}) Error!*Object {
    const allowed = try args.allowed.of(call, self);
    if (args.narrow) try checkNarrow(call, self, &.{}, &.{});
    const numbers = try encodeText(call, self, args.text.bytes, allowed, args.threads);
    if (!args.narrow) return Buffer.create(call.state(), numbers);
    return Buffer.create(call.state(), try narrow.narrowed(gpa, numbers));
}

/// Raises an exception unless all ids fit in 16 bits.
pub fn checkNarrow(call: Call, core: *Core, before: []const u32, after: []const u32) Error!void {
    const end = core.tokenizer.idsEnd();
    if (narrow.failureOf(end, &.{ before, after })) |failure| return call.raise(failure);
}

/// Returns the public ids of one text, owned by the caller.
fn encodeText(
    call: Call,
    core: *Core,
    text: []const u8,
    allowed: ?[]const u8,
    threads: Threads,
) Error![]u32 {
    if (isForThreads(text, threads.value)) {
        const ragged = try run(.ids, call, core, &.{text}, allowed, threads, true);
        gpa.free(ragged.offsets);
        return ragged.ids;
    }
    var sink: List = .{ .gpa = gpa };
    defer sink.ids.deinit(gpa);
    batch_.reserve(&sink, text.len);
    try encodeInto(call, core, text, allowed, &sink, Encoder.encode);
    core.tokenizer.vocabulary.publish(sink.ids.items);
    return sink.ids.toOwnedSlice(gpa);
}

/// count(text, allowed, threads) → number of ids
fn count(call: Call, self: *Core, args: struct {
    text: Text,
    allowed: Allowed,
    threads: Threads,
}) Error!usize {
    if (self.tokenizer.randomFailureOf("count")) |failure| return call.raise(failure);
    const text = args.text.bytes;
    const allowed = try args.allowed.of(call, self);
    if (isForThreads(text, args.threads.value)) {
        const counts = try run(.number, call, self, &.{text}, allowed, args.threads, true);
        defer gpa.free(counts);
        return @intCast(counts[0]);
    }
    var sink: List = .{ .gpa = gpa, .only_counts = true };
    defer sink.deinit();
    try encodeInto(call, self, text, allowed, &sink, Encoder.encode);
    return sink.total();
}

pub const Goal = batch_.Goal;

pub fn Outcome(comptime goal: Goal) type {
    return if (goal == .ids) batch_.Ragged else []i64;
}

/// Encodes or counts texts on several threads, without the GIL.
pub fn run(
    comptime goal: Goal,
    call: Call,
    core: *Core,
    texts: []const []const u8,
    allowed: ?[]const u8,
    threads: Threads,
    is_public: bool,
) Error!Outcome(goal) {
    var batch: batch_.Batch = .{
        .gpa = gpa,
        .tokenizer = &core.tokenizer,
        .texts = texts,
        .allowed = allowed,
        .threads = threads.value,
        .is_public = is_public,
    };
    var unlocked: Unlocked = .begin();
    batch.poll = unlocked.poll();
    const outcome = if (goal == .ids) batch.encode() else batch.count();
    unlocked.end();
    return outcome catch |failure| call.raise(merge.failureOf(failure, batch.missing_byte));
}

// ── Offsets ──────────────────────────────────────────────────────────────────────────────────────

const Single = struct { text: Text, allowed: Allowed };

/// encode_with_offsets(text, allowed) → (ids, spans): in characters for str, otherwise in bytes
fn encodeWithOffsets(call: Call, self: *Core, args: Single) Error!struct { *Object, *Object } {
    var sink: offsets.Spans = .init(gpa);
    defer sink.deinit();
    try fill(call, self, &sink, args);
    const numbers = try self.ints.listOf(sink.list.ids.items);
    errdefer api.Py_DecRef(numbers);
    return .{ numbers, try lists.pairsOf(sink.spans.items) };
}

/// encode_words(text, allowed) → (ids, spans, the number of each id's pretoken or added token)
fn encodeWords(
    call: Call,
    self: *Core,
    args: Single,
) Error!struct { *Object, *Object, *Object } {
    var sink: offsets.Spans = .init(gpa);
    defer sink.deinit();
    sink.word_ids = .empty;
    try fill(call, self, &sink, args);
    const numbers = try self.ints.listOf(sink.list.ids.items);
    errdefer api.Py_DecRef(numbers);
    const pairs = try lists.pairsOf(sink.spans.items);
    errdefer api.Py_DecRef(pairs);
    return .{ numbers, pairs, try lists.numbersOf(sink.word_ids.?.items) };
}

fn fill(call: Call, core: *Core, sink: *offsets.Spans, args: Single) Error!void {
    const text = args.text.bytes;
    if (offsets.failureOf(text.len)) |failure| return call.raise(failure);
    sink.reserve(text.len);
    sink.cursor = cursorOf(&args.text);
    try encodeInto(call, core, text, try args.allowed.of(call, core), sink, offsets.encode);
}

/// Whether spans must be converted to characters: the text is a str, and not ASCII.
fn countsCharacters(text: *const Text) bool {
    return text.bytes.len != text.characters() orelse return false;
}

/// Returns the converter of spans to characters; null if they stay in bytes.
fn cursorOf(text: *const Text) ?offsets.CharacterCursor {
    return if (countsCharacters(text)) .{ .gpa = gpa, .text = text.bytes } else null;
}

/// encode_spans(text, allowed, threads) → (ids Buffer, spans Buffer of start, end, start, end …)
fn encodeSpans(call: Call, self: *Core, args: struct {
    text: Text,
    allowed: Allowed,
    threads: Threads,
}) Error!struct { []u32, []u32 } {
    const text = args.text.bytes;
    const allowed = try args.allowed.of(call, self);
    if (offsets.failureOf(text.len)) |failure| return call.raise(failure);
    var arrays: parallel.Arrays = .{
        .gpa = gpa,
        .tokenizer = &self.tokenizer,
        .text = text,
        .allowed = allowed,
        .threads = args.threads.value,
        .in_characters = countsCharacters(&args.text),
    };
    const outcome = if (text.len < Unlocked.bytes_min) arrays.encode() else blk: {
        var unlocked: Unlocked = .begin();
        defer unlocked.end();
        arrays.poll = unlocked.poll();
        break :blk arrays.encode();
    };
    const found = outcome catch |failure|
        return call.raise(merge.failureOf(failure, arrays.missing_byte));
    return .{ found.ids, flat(found.spans) };
}

/// encode_stretch(text, allowed, within, offset) → (ids Buffer, spans Buffer of start, end …)
/// Added tokens are found in the ranges of the text that `within` has the starts and ends of
fn encodeStretch(call: Call, self: *Core, args: struct {
    text: Text,
    allowed: Allowed,
    within: []const u32,
    offset: u32,
}) Error!struct { []u32, []u32 } {
    const text = args.text.bytes;
    const ranges: [*]const Place = @ptrCast(args.within);
    const within = ranges[0 .. args.within.len / 2];
    if (offsets.stretchFailureOf(text, within, args.offset)) |failure| return call.raise(failure);
    var sink: offsets.Spans = .init(gpa);
    defer sink.deinit();
    sink.reserve(text.len);
    const stretch: offsets.Stretch = .{ .spans = &sink, .within = within, .offset = args.offset };
    const allowed = try args.allowed.of(call, self);
    try encodeInto(call, self, text, allowed, &stretch, offsets.encodeStretch);
    const numbers = try sink.list.ids.toOwnedSlice(gpa);
    errdefer gpa.free(numbers);
    self.tokenizer.vocabulary.publish(numbers);
    return .{ numbers, flat(try sink.spans.toOwnedSlice(gpa)) };
}

/// Returns the numbers of spans, in the same memory.
fn flat(spans: []Place) []u32 {
    return @as([*]u32, @ptrCast(spans.ptr))[0 .. 2 * spans.len];
}

// ── Parts of texts, and tokens ───────────────────────────────────────────────────────────────────

/// truncate(text, tokens_max, left) → the kept text, a str for a str, otherwise bytes
fn truncate(call: Call, self: *Core, args: struct {
    text: Text,
    tokens_max: arguments.Size,
    left: bool,
}) Error!*Object {
    if (self.tokenizer.randomFailureOf("truncate")) |failure| return call.raise(failure);
    const text = args.text.bytes;
    var encoder: Encoder = .init(gpa, &self.tokenizer);
    defer encoder.deinit();
    var unlocked: Unlocked = .begin();
    encoder.merger.poll = unlocked.poll();
    const outcome = if (args.left)
        truncation.suffixStart(&encoder, text, args.tokens_max.value)
    else
        truncation.prefixEnd(&encoder, text, args.tokens_max.value);
    unlocked.end();
    const cut = outcome catch |failure|
        return call.raise(merge.failureOf(failure, encoder.merger.missing_byte));
    return args.text.like(if (args.left) text[cut..] else text[0..cut]);
}

/// session(allowed, spacing) → Session of an empty text; `spacing` is the distance in bytes of
/// offsets from which encoding resumes
fn session(
    call: Call,
    self: *object_.Object(Core),
    args: struct { allowed: Allowed, spacing: Size },
) Error!Session {
    const core = self.value.?;
    const allowed = try args.allowed.of(call, core);
    if (core.tokenizer.randomFailureOf("a session")) |failure| return call.raise(failure);
    const spacing = args.spacing.value;
    return .init(&self.head, try sessions.Session.init(gpa, &core.tokenizer, allowed, spacing));
}

/// decode(ids) → bytes; ids are a list of int, or a contiguous array of 64-bit integers
fn decode(call: Call, self: *Core, args: struct { ids: *Object }) Error!*Object {
    var bytes: std.ArrayList(u8) = .empty;
    defer bytes.deinit(gpa);
    if (!api.isList(args.ids)) {
        const numbers = try arguments.convert([]const i64, call, args.ids, "ids");
        defer gpa.free(numbers);
        for (numbers) |number| try appendBytes(call, self, &bytes, number);
        return results.bytesOf(bytes.items);
    }
    var index: api.Ssize = 0;
    // The length is read again each time, since converting an int may run other Python code.
    while (index < api.PyList_Size(args.ids)) : (index += 1) {
        const object = api.PyList_GetItem(args.ids, index) orelse return error.Raised;
        api.Py_IncRef(object);
        const number = api.PyLong_AsLongLong(object);
        api.Py_DecRef(object);
        if (number == -1 and api.PyErr_Occurred() != null) return error.Raised;
        try appendBytes(call, self, &bytes, number);
    }
    return results.bytesOf(bytes.items);
}

fn appendBytes(call: Call, core: *const Core, bytes: *std.ArrayList(u8), number: i64) Error!void {
    const known = if (std.math.cast(u32, number)) |id| core.tokenizer.idBytes(id) else null;
    const token = known orelse return call.raise(core.tokenizer.unknownIdFailure(number));
    try bytes.appendSlice(gpa, token);
}

/// find(token) → id of the token with these bytes, or -1
fn find(_: Call, self: *Core, args: struct { token: Text }) Error!i64 {
    const vocabulary = &self.tokenizer.vocabulary;
    const rank = vocabulary.findAny(args.token.bytes) orelse return -1;
    return vocabulary.publicOf(rank);
}

/// tokens() → (the bytes of all tokens, concatenated; u32 Buffer of the end of each id's bytes)
fn tokens(_: Call, self: *Core) Error!struct { Bytes, []u32 } {
    const found = try self.tokenizer.tokensById(gpa);
    return .{ .{ .owned = found.bytes }, found.ends };
}

/// empty_id() → the id of the token without bytes, or -1
fn emptyId(_: Call, self: *Core) Error!i64 {
    const vocabulary = &self.tokenizer.vocabulary;
    return if (vocabulary.empty_id) |rank| vocabulary.publicOf(rank) else -1;
}

/// ids_end() → one past the largest id of a token
fn idsEnd(_: Call, self: *Core) Error!u32 {
    return self.tokenizer.vocabulary.publicEnd();
}

const methods = [_]api.Method{
    hot("encode", encode),
    hot("encode_buffer", encodeBuffer),
    hot("count", count),
    method("encode_with_offsets", encodeWithOffsets),
    method("encode_words", encodeWords),
    method("encode_spans", encodeSpans),
    method("encode_stretch", encodeStretch),
    method("truncate", truncate),
    method("session", session),
    method("decode", decode),
    method("find", find),
    method("tokens", tokens),
    method("empty_id", emptyId),
    method("ids_end", idsEnd),
} ++ batches.methods ++ [_]api.Method{.{}};
pub const spec = object_.Object(Core).spec(&methods, null, &.{});
