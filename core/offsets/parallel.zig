//! Text → arrays of ids and of spans, on several threads if it is long.
//!
//! If tokens and added tokens are contiguous in the text, the offsets are the prefix sums of their
//! lengths. The ids are encoded in parallel first. Then each thread measures a chunk of them. It
//! needs the byte offset and the character offset of its chunk, so byte lengths of all chunks are
//! summed up first, and character counts second. Otherwise one thread encodes ids and spans.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const normal = @import("../normalize.zig");
const batch_ = @import("../encode/batch.zig");
const spans_ = @import("../offsets.zig");
const CharacterCursor = @import("character_spans.zig").CharacterCursor;
const Encoder = @import("../encode/encoder.zig").Encoder;
const Error = @import("../encode/encoder.zig").Error;
const Tokenizer = @import("../encode/tokenizer.zig").Tokenizer;

/// A text whose ids and spans are wanted in arrays. `offsets.failureOf` must return null.
pub const Arrays = struct {
    gpa: Allocator,
    tokenizer: *const Tokenizer,
    text: []const u8,
    allowed: ?[]const u8,
    threads: usize,
    /// Whether spans are in characters, not in bytes. Then the text must not be empty.
    in_characters: bool,
    /// Called on the caller's thread.
    poll: ?platform.threads.Poll = null,
    /// Set with error.MissingByte.
    missing_byte: u8 = 0,

    pub const Found = struct { ids: []u32, spans: []normal.Place };

    /// Returns public ids and their spans, owned by the caller.
    pub fn encode(self: *Arrays) Error!Found {
        const is_parallel = batch_.isForThreads(self.text, self.threads) and
            hasContiguousTokens(self.tokenizer);
        const found = try if (is_parallel) self.encodeParallel() else self.encodeAlone();
        self.tokenizer.vocabulary.publish(found.ids);
        return found;
    }

    fn encodeAlone(self: *Arrays) Error!Found {
        var encoder: Encoder = .init(self.gpa, self.tokenizer);
        defer encoder.deinit();
        encoder.merger.poll = self.poll;
        errdefer self.missing_byte = encoder.merger.missing_byte;
        var spans: spans_.Spans = .init(self.gpa);
        defer spans.deinit();
        spans.reserve(self.text.len);
        if (self.in_characters) spans.cursor = .{ .gpa = self.gpa, .text = self.text };
        try spans_.encode(&encoder, self.text, self.allowed, &spans);
        const ids = try spans.list.ids.toOwnedSlice(self.gpa);
        errdefer self.gpa.free(ids);
        return .{ .ids = ids, .spans = try spans.spans.toOwnedSlice(self.gpa) };
    }

    fn encodeParallel(self: *Arrays) Error!Found {
        const texts = [_][]const u8{self.text};
        var batch: batch_.Batch = .{
            .gpa = self.gpa,
            .tokenizer = self.tokenizer,
            .texts = &texts,
            .allowed = self.allowed,
            .threads = self.threads,
            .poll = self.poll,
            // Lengths of tokens are found by rank.
            .is_public = false,
        };
        errdefer self.missing_byte = batch.missing_byte;
        const ragged = try batch.encode();
        self.gpa.free(ragged.offsets);
        errdefer self.gpa.free(ragged.ids);
        const spans = try measure(
            self.gpa,
            self.tokenizer,
            ragged.ids,
            self.text,
            self.in_characters,
            self.threads,
        );
        return .{ .ids = ragged.ids, .spans = spans };
    }
};

/// Whether spans follow from the ids alone, because no text is changed or dropped.
fn hasContiguousTokens(tokenizer: *const Tokenizer) bool {
    if (tokenizer.scheme == .program or tokenizer.scheme == .stages) return false;
    const preprocessor = &tokenizer.preprocessor;
    if (!preprocessor.is_plain or !preprocessor.is_local) return false;
    if (!spans_.coversAll(&tokenizer.vocabulary)) return false;
    for (preprocessor.ids, 0..) |id, index| {
        if (lenOf(tokenizer, id) != preprocessor.names.name(index).len) return false;
    }
    return true;
}

/// Returns the spans of all ids of a text, owned by the caller. `hasContiguousTokens` must hold. If
/// `in_characters`, for which the text must not be empty, the spans are in characters.
fn measure(
    gpa: Allocator,
    tokenizer: *const Tokenizer,
    all: []const u32,
    text: []const u8,
    in_characters: bool,
    threads: usize,
) Allocator.Error![]normal.Place {
    const spans = try gpa.alloc(normal.Place, all.len);
    errdefer gpa.free(spans);
    platform.memory.adviseHuge(spans);
    const count = std.math.clamp(threads, 1, platform.threads.threads_max);
    const parts = try gpa.alloc(Part, count);
    defer gpa.free(parts);
    for (parts, 0..) |*part, index| {
        const from, const to = .{ all.len * index / count, all.len * (index + 1) / count };
        part.* = .{ .ids = all[from..to], .spans = spans[from..to] };
    }
    var work: Work = .{
        .gpa = gpa,
        .tokenizer = tokenizer,
        .text = text,
        .in_characters = in_characters,
        .parts = parts,
        .queues = @splat(.{ .len = parts.len }),
    };
    platform.threads.team(count, &work, Work.do);
    if (work.failed.load(.monotonic)) return error.OutOfMemory;
    return spans;
}

/// A chunk of the ids for one thread.
const Part = struct {
    ids: []const u32,
    spans: []normal.Place,
    has_names: bool = false,
    /// Number of bytes of text that it covers, and their offset.
    bytes: u32 = 0,
    start: u32 = 0,
    /// Number of characters that begin in it, and before it.
    characters: u32 = 0,
    before: u32 = 0,
};

const Work = struct {
    gpa: Allocator,
    tokenizer: *const Tokenizer,
    text: []const u8,
    in_characters: bool,
    parts: []Part,
    /// The next chunk to sum up, to count and to measure.
    queues: [3]platform.threads.Queue,
    failed: std.atomic.Value(bool) = .init(false),

    fn do(self: *Work, _: usize, barrier: *platform.threads.Barrier) void {
        while (self.take(0)) |part| self.addUp(part);
        barrier.wait(self, place);
        if (self.in_characters) {
            while (self.take(1)) |part| {
                const end = part.start + part.bytes;
                part.characters = CharacterCursor.between(self.text, part.start, end);
            }
            barrier.wait(self, placeCharacters);
        }
        while (self.take(2)) |part| {
            self.measurePart(part) catch self.failed.store(true, .monotonic);
        }
    }

    fn take(self: *Work, phase: usize) ?*Part {
        return &self.parts[self.queues[phase].take() orelse return null];
    }

    fn addUp(self: *const Work, part: *Part) void {
        const vocabulary = &self.tokenizer.vocabulary;
        var bytes: u32 = 0;
        for (part.ids) |id| {
            const len = if (id < vocabulary.ids_end) vocabulary.tokenLen(id) else 0;
            bytes += len;
            if (len > 0) continue;
            part.has_names = true;
            bytes += lenOf(self.tokenizer, id);
        }
        part.bytes = bytes;
    }

    fn place(self: *Work) void {
        var start: u32 = 0;
        for (self.parts) |*part| {
            part.start = start;
            start += part.bytes;
        }
        platform.check(start == self.text.len, "the spans of all ids cover the text");
    }

    fn placeCharacters(self: *Work) void {
        var before: u32 = 0;
        for (self.parts) |*part| {
            part.before = before;
            before += part.characters;
        }
    }

    fn measurePart(self: *const Work, part: *const Part) Allocator.Error!void {
        const vocabulary = &self.tokenizer.vocabulary;
        var cursor: ?CharacterCursor = null;
        if (self.in_characters) cursor = .{
            .gpa = self.gpa,
            .text = self.text,
            .at = part.start,
            .before = part.before,
        };
        defer if (cursor) |*some| some.deinit();
        if (!part.has_names) {
            return spans_.follow(vocabulary, part.ids, part.start, part.spans, &cursor);
        }
        var start = part.start;
        for (part.ids, part.spans) |id, *span| {
            const end = start + lenOf(self.tokenizer, id);
            span.* = .{ .start = start, .end = end };
            start = end;
        }
        if (cursor) |*some| try some.count(part.spans);
    }
};

/// Returns the length of a token or of an added token's text.
fn lenOf(tokenizer: *const Tokenizer, id: u32) u32 {
    const vocabulary = &tokenizer.vocabulary;
    if (id < vocabulary.ids_end) {
        const len = vocabulary.tokenLen(id);
        if (len > 0) return len;
    }
    return if (tokenizer.preprocessor.nameOf(id)) |name| @intCast(name.len) else 0;
}
