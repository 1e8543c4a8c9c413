//! Text → ids, and the span of the text that each id covers.
//!
//! Preprocessing aligns each document with the text, and the encoder encodes its batches. Pretokens
//! are contiguous, and the tokens of a pretoken cover it completely, so the spans follow from the
//! token lengths. If a vocabulary drops characters or has an unknown token, pretokens are encoded
//! one by one instead.

const std = @import("std");
const platform = @import("platform.zig");
const examples = @import("examples.zig").examples;
const Allocator = std.mem.Allocator;
const encoder_ = @import("encode/encoder.zig");
const joined = @import("encode/joined.zig");
const normal = @import("normalize.zig");
const preprocess = @import("preprocess.zig");
const pretokens = @import("pretokens.zig");
const unicode = @import("unicode.zig");
const Document = @import("preprocess/document.zig").Document;
const Encoder = encoder_.Encoder;
const Error = encoder_.Error;
const Failure = @import("failure.zig").Failure;
const List = encoder_.List;
const Tokenizer = @import("encode/tokenizer.zig").Tokenizer;
const Vocabulary = @import("vocabulary.zig").Vocabulary;
pub const CharacterCursor = @import("offsets/character_spans.zig").CharacterCursor;

/// Returns the reason if a text of `len` bytes is too long, since a span has 32 bits per offset.
pub fn failureOf(len: usize) ?Failure {
    if (len <= std.math.maxInt(u32)) return null;
    const format = "offsets require a text of less than 4 GB, got {d} bytes; split the text";
    return .init(.value, format, .{len});
}

/// Returns the reason if a stretch of a conversation is too long or has wrong ranges.
pub fn stretchFailureOf(text: []const u8, within: []const normal.Place, offset: u32) ?Failure {
    if (failureOf(text.len + offset)) |failure| return failure;
    var from: u32 = 0;
    for (within) |range| {
        if (from <= range.start and range.start <= range.end and range.end <= text.len) {
            from = range.end;
        } else return .init(.value, "within must have ranges of the text, in order", .{});
    }
    return null;
}

/// Appends the ids and spans of any bytes of which `failureOf` returns null. `allowed` is that of
/// `Encoder.encode`.
pub fn encode(
    encoder: *Encoder,
    text: []const u8,
    allowed: ?[]const u8,
    spans: *Spans,
) Error!void {
    return encodePieces(encoder, .{
        .text = text,
        .choice = encoder.tokenizer.preprocessor.choiceOf(allowed),
        .has_source_map = true,
    }, spans);
}

/// A stretch of a conversation: added tokens are found in ranges of the text only.
pub const Stretch = struct {
    spans: *Spans,
    within: []const normal.Place,
    /// Offset of the text in the conversation.
    offset: usize,
};

/// Appends the ids and spans of a stretch of which `stretchFailureOf` returns null.
pub fn encodeStretch(
    encoder: *Encoder,
    text: []const u8,
    allowed: ?[]const u8,
    stretch: *const Stretch,
) Error!void {
    return encodePieces(encoder, .{
        .text = text,
        .offset = stretch.offset,
        .choice = encoder.tokenizer.preprocessor.choiceOf(allowed),
        .has_source_map = true,
        .within = stretch.within,
    }, stretch.spans);
}

fn encodePieces(encoder: *Encoder, options: preprocess.PiecesOptions, spans: *Spans) Error!void {
    std.debug.assert(failureOf(options.offset + options.text.len) == null);
    var pieces: preprocess.Pieces = undefined;
    pieces.init(&encoder.tokenizer.preprocessor, &encoder.scratch, options);
    defer pieces.deinit();
    while (try pieces.next()) |piece| switch (piece) {
        .document => |document| try spans.encodeDocument(encoder, document),
        .added => |token| try spans.addToken(token.id, token.span),
    };
}

/// The ids of texts and their spans, for texts of less than 4 GB.
pub const Spans = struct {
    gpa: Allocator,
    list: List,
    spans: std.ArrayList(normal.Place) = .empty,
    /// For each id, the number of its pretoken or added token; both are counted together.
    word_ids: ?std.ArrayList(u32) = null,
    word_id: u32 = 0,
    /// Converts spans to character offsets while text and spans are in the CPU's cache.
    cursor: ?CharacterCursor = null,

    pub fn init(gpa: Allocator) Spans {
        return .{ .gpa = gpa, .list = .{ .gpa = gpa } };
    }

    pub fn deinit(self: *Spans) void {
        self.list.ids.deinit(self.gpa);
        self.spans.deinit(self.gpa);
        if (self.word_ids) |*word_ids| word_ids.deinit(self.gpa);
        if (self.cursor) |*cursor| cursor.deinit();
    }

    /// Reserves capacity for most short texts, or for any long text. Failure is ignored, since the
    /// lists can grow later.
    pub fn reserve(self: *Spans, text_bytes: usize) void {
        joined.reserve(&self.list, text_bytes);
        self.spans.ensureTotalCapacity(self.gpa, text_bytes / 3 + 16) catch {};
        platform.memory.adviseHuge(self.spans.allocatedSlice());
    }

    fn addToken(self: *Spans, id: u32, span: Document.Span) Allocator.Error!void {
        try self.list.push(&.{id});
        try self.spans.append(self.gpa, placeOf(span));
        if (self.cursor) |*cursor| try cursor.count(self.spans.items[self.spans.items.len - 1 ..]);
        if (self.word_ids) |*word_ids| try word_ids.append(self.gpa, self.word_id);
        self.word_id += 1;
    }

    fn encodeDocument(self: *Spans, encoder: *Encoder, document: Document) Error!void {
        if (coversAll(&encoder.tokenizer.vocabulary)) return self.encodeBatches(encoder, document);
        return self.encodePretokens(encoder, document);
    }

    /// Increments the word number if a word ends where a pretoken ends. Some pre-tokenizers split
    /// text only for caching. There a word ends with its document, or before a space.
    fn endWord(self: *Spans, scheme: *const pretokens.Scheme, bytes: []const u8, end: usize) void {
        self.word_id += @intFromBool(end == bytes.len or switch (scheme.*) {
            .safe => false,
            .metaspace => bytes[end] == ' ',
            else => true,
        });
    }

    fn encodeBatches(self: *Spans, encoder: *Encoder, document: Document) Error!void {
        const vocabulary = &encoder.tokenizer.vocabulary;
        var batches: pretokens.Sweep = undefined;
        batches.init(self.gpa, &encoder.tokenizer.scheme, document.bytes);
        defer batches.deinit();
        var places = document.cursor();
        while (try batches.next()) |batch| {
            const before = self.list.ids.items.len;
            try encoder.encodeBatch(batch, &self.list);
            const fresh = self.list.ids.items[before..];
            try self.spans.ensureUnusedCapacity(self.gpa, fresh.len);
            const spans = self.spans.unusedCapacitySlice()[0..fresh.len];
            self.spans.items.len += fresh.len;
            if (self.word_ids) |*word_ids| {
                measure(vocabulary, fresh, 0, spans);
                const scheme = &encoder.tokenizer.scheme;
                try self.assignWords(word_ids, spans, batch, scheme, document.bytes);
            }
            if (fresh.len == 0) continue;
            if (document.straight(&places, batch.start, batch.start + batch.len)) |start| {
                var from = start;
                var done: usize = 0;
                if (batch.start == 0 and document.leading_space_end != null) {
                    // The prepended space is not in the text.
                    const len = vocabulary.tokenLen(fresh[0]);
                    spans[0] = placeOf(document.spanOf(0, len));
                    if (self.cursor) |*cursor| try cursor.count(spans[0..1]);
                    from, done = .{ start +% len, 1 };
                }
                try follow(vocabulary, fresh[done..], from, spans[done..], &self.cursor);
            } else {
                moveAll(&document, &places, vocabulary, fresh, batch.start, spans);
                if (self.cursor) |*cursor| try cursor.count(spans);
            }
        }
    }

    /// Computes the spans in the text of contiguous tokens that begin at `first` in the document.
    fn moveAll(
        document: *const Document,
        places: *normal.Places,
        vocabulary: *const Vocabulary,
        fresh: []const u32,
        first: usize,
        spans: []normal.Place,
    ) void {
        var start = first;
        var kept: Document.Stretch = .{ .shift = 0, .end = 0 };
        for (fresh, spans) |id, *span| {
            const end = start + vocabulary.tokenLen(id);
            defer start = end;
            if (end > kept.end) {
                if (document.stretch(places, start)) |some| kept = some;
                if (end > kept.end) {
                    span.* = placeOf(document.spanFrom(places, start, end));
                    continue;
                }
            }
            const at = @as(u32, @truncate(start)) +% kept.shift;
            span.* = .{ .start = at, .end = at + @as(u32, @truncate(end - start)) };
        }
    }

    /// Assigns pretoken numbers to the ids of a batch. The origin of `spans` is arbitrary.
    fn assignWords(
        self: *Spans,
        word_ids: *std.ArrayList(u32),
        spans: []const normal.Place,
        batch: pretokens.Batch,
        scheme: *const pretokens.Scheme,
        bytes: []const u8,
    ) Allocator.Error!void {
        try word_ids.ensureUnusedCapacity(self.gpa, spans.len);
        const is_lone = batch.ends.len == 0;
        var index: usize = 0;
        for (spans) |span| {
            word_ids.appendAssumeCapacity(self.word_id);
            const end = if (is_lone) batch.len else batch.ends[index];
            if (span.end -% spans[0].start < end) continue;
            self.endWord(scheme, bytes, batch.start + end);
            index += 1;
        }
    }

    /// Encodes pretoken by pretoken, if tokens do not cover the whole text. For other vocabularies
    /// it is the reference implementation.
    fn encodePretokens(self: *Spans, encoder: *Encoder, document: Document) Error!void {
        const vocabulary = &encoder.tokenizer.vocabulary;
        // Dropped characters shift all later offsets if spaces count as "▁".
        const is_wide = encoder.tokenizer.preprocessor.space_marker and vocabulary.missing == .drop;
        var pieces: pretokens.Pretokens =
            .init(self.gpa, &encoder.tokenizer.scheme, document.bytes);
        defer pieces.deinit();
        var places = document.cursor();
        while (try pieces.next()) |span| {
            defer self.endWord(pieces.scheme, document.bytes, span.end);
            try encoder.merger.pollAfter(span.end - span.start);
            const piece = document.bytes[span.start..span.end];
            const found = try encoder.merger.idsOf(piece);
            try self.list.push(found);
            try self.spans.ensureUnusedCapacity(self.gpa, found.len);
            if (self.word_ids) |*word_ids| {
                try word_ids.appendNTimes(self.gpa, self.word_id, found.len);
            }
            var start: usize = 0;
            var wide: Wide = .{ .piece = piece };
            for (found) |id| {
                const place = if (is_wide) wide.next(vocabulary.tokenBytes(id)) else blk: {
                    const end = @min(piece.len, start + lenOf(vocabulary, id, piece[start..]));
                    defer start = end;
                    break :blk Document.Span{ .start = start, .end = end };
                };
                const first = span.start + place.start;
                const in_text = document.spanFrom(&places, first, span.start + place.end);
                self.spans.appendAssumeCapacity(placeOf(in_text));
            }
            const spans = self.spans.items;
            if (self.cursor) |*cursor| try cursor.count(spans[spans.len - found.len ..]);
        }
    }

    fn placeOf(span: Document.Span) normal.Place {
        return .{ .start = @intCast(span.start), .end = @intCast(span.end) };
    }
};

/// Computes the spans of contiguous tokens that begin at byte `start` of the text.
pub fn follow(
    vocabulary: *const Vocabulary,
    fresh: []const u32,
    start: u32,
    spans: []normal.Place,
    cursor: *?CharacterCursor,
) Allocator.Error!void {
    if (cursor.*) |*some| return some.follow(vocabulary, fresh, start, spans);
    measure(vocabulary, fresh, start, spans);
}

/// The same in bytes.
fn measure(
    vocabulary: *const Vocabulary,
    fresh: []const u32,
    first: u32,
    spans: []normal.Place,
) void {
    var start = first;
    for (fresh, spans) |id, *span| {
        const end = start +% vocabulary.tokenLen(id);
        span.* = .{ .start = start, .end = end };
        start = end;
    }
}

/// Computes spans in a pretoken as Hugging Face's library does if characters are dropped: each
/// space counts as "▁" with three bytes, and dropped characters count as empty.
const Wide = struct {
    piece: []const u8,
    /// Total length of the tokens so far; a byte index, and its offset with spaces counted as "▁".
    total: usize = 0,
    at: usize = 0,
    at_wide: usize = 0,

    fn widthOf(byte: u8) usize {
        return if (byte == ' ') 3 else 1;
    }

    /// Returns the bytes that the next token covers, at least one.
    fn next(self: *Wide, token: []const u8) Document.Span {
        const start = self.find(self.total);
        for (token) |byte| self.total += widthOf(byte);
        return .{ .start = start, .end = self.find(self.total - 1) + 1 };
    }

    fn find(self: *Wide, place: usize) usize {
        while (self.at + 1 < self.piece.len) : (self.at += 1) {
            const width = widthOf(self.piece[self.at]);
            if (place < self.at_wide + width) break;
            self.at_wide += width;
        }
        return self.at;
    }
};

/// Whether the tokens of a pretoken always cover it completely.
pub fn coversAll(vocabulary: *const Vocabulary) bool {
    return vocabulary.leftover != .settle;
}

/// Returns the number of bytes that a token covers at the start of `rest`. Dropped characters count
/// as empty, as in Hugging Face's library.
fn lenOf(vocabulary: *const Vocabulary, id: u32, rest: []const u8) usize {
    const missing = if (id == vocabulary.unk) missingLen(vocabulary, rest) else 0;
    return if (missing > 0) missing else vocabulary.partLen(id);
}

/// Returns the number of bytes that the unknown token covers.
fn missingLen(vocabulary: *const Vocabulary, rest: []const u8) usize {
    var len: usize = 0;
    while (len < rest.len) {
        const char_len = if (vocabulary.characters) unicode.decode(rest, len).len else 1;
        const is_missing = vocabulary.find(rest[len..][0..char_len]) == null;
        if (!is_missing) break;
        len += char_len;
        if (!vocabulary.fuse_unk) break;
    }
    return len;
}

const testTokenizer = @import("encode/testing.zig").testTokenizer;
const testing = std.testing;

/// Encodes each document pretoken by pretoken.
fn encodeReference(encoder: *Encoder, text: []const u8, spans: *Spans) !void {
    const preprocessor = &encoder.tokenizer.preprocessor;
    var pieces: preprocess.Pieces = undefined;
    pieces.init(preprocessor, &encoder.scratch, .{
        .text = text,
        .choice = preprocessor.choiceOf(null),
        .has_source_map = true,
    });
    defer pieces.deinit();
    while (try pieces.next()) |piece| switch (piece) {
        .document => |document| try spans.encodePretokens(encoder, document),
        .added => |token| try spans.addToken(token.id, token.span),
    };
}

fn expectTwins(tokenizer: *const Tokenizer, text: []const u8) !void {
    var encoder: Encoder = .init(testing.allocator, tokenizer);
    defer encoder.deinit();
    var both: [2]Spans = @splat(.init(testing.allocator));
    defer for (&both) |*some| some.deinit();
    for (&both) |*some| some.word_ids = .empty;
    try encode(&encoder, text, null, &both[0]);
    try encodeReference(&encoder, text, &both[1]);
    try testing.expectEqualSlices(u32, both[1].list.ids.items, both[0].list.ids.items);
    try testing.expectEqualSlices(normal.Place, both[1].spans.items, both[0].spans.items);
    try testing.expectEqualSlices(u32, both[1].word_ids.?.items, both[0].word_ids.?.items);
    try testing.expectEqual(both[1].word_id, both[0].word_id);
}

test "offsets: spaces and marks are handled as in Hugging Face's tokenizers" {
    // Outputs of Metaspace and of the normalizers Prepend and Replace, with a space instead of "▁".
    const Id = struct { u32, u32, u32 };
    const cases = [_]struct { preprocess.Prefix, []const u8, []const Id }{
        .{ .missing, "bb", &.{.{ 302, 0, 2 }} },
        .{ .missing, "ebb e", &.{
            .{ ' ', 0, 1 }, .{ 'e', 0, 1 }, .{ 302, 1, 3 }, .{ ' ', 3, 4 }, .{ 'e', 4, 5 },
        } },
        .{ .missing, " e", &.{ .{ ' ', 0, 1 }, .{ 'e', 1, 2 } } },
        .{ .missing, "<a>e", &.{ .{ 300, 0, 3 }, .{ ' ', 3, 4 }, .{ 'e', 3, 4 } } },
        .{ .missing, preprocess.mark ++ "e", &.{ .{ ' ', 0, 3 }, .{ 'e', 3, 4 } } },
        .{ .missing, "c d", &.{.{ 303, 0, 3 }} },
        .{ .missing, "a b", &.{
            .{ ' ', 0, 1 }, .{ 'a', 0, 1 }, .{ ' ', 1, 2 }, .{ 'b', 2, 3 },
        } },
        .{ .missing_first, "e<a>e", &.{
            .{ ' ', 0, 1 }, .{ 'e', 0, 1 }, .{ 300, 1, 4 }, .{ 'e', 4, 5 },
        } },
        .{ .missing_first, "<a>e", &.{ .{ 300, 0, 3 }, .{ 'e', 3, 4 } } },
        .{ .never, "e" ++ preprocess.mark ++ "<a>e", &.{
            .{ 'e', 0, 1 }, .{ ' ', 1, 4 }, .{ 300, 4, 7 }, .{ 'e', 7, 8 },
        } },
        .{ .always, "a b", &.{.{ 301, 0, 3 }} },
        .{ .always, "e a" ++ preprocess.mark ++ "b", &.{
            .{ ' ', 0, 1 }, .{ 'e', 0, 1 }, .{ 301, 1, 7 },
        } },
        .{ .always, " e", &.{ .{ ' ', 0, 1 }, .{ ' ', 0, 1 }, .{ 'e', 1, 2 } } },
        .{ .always, "", &.{} },
        .{ .always, "\u{e9}", &.{ .{ ' ', 0, 2 }, .{ 0xC3, 0, 1 }, .{ 0xA9, 1, 2 } } },
    };
    for (cases) |case| {
        var tokenizer = try testTokenizer(case[0]);
        defer tokenizer.deinit(testing.allocator);
        var encoder: Encoder = .init(testing.allocator, &tokenizer);
        defer encoder.deinit();
        var spans: Spans = .init(testing.allocator);
        defer spans.deinit();
        try encode(&encoder, case[1], null, &spans);
        var list: List = .{ .gpa = testing.allocator };
        defer list.ids.deinit(testing.allocator);
        try encoder.encode(case[1], null, &list);
        try testing.expectEqualSlices(u32, spans.list.ids.items, list.ids.items);
        try testing.expectEqual(case[2].len, spans.spans.items.len);
        for (case[2], spans.list.ids.items, spans.spans.items) |expected, id, span| {
            try testing.expectEqual(expected, .{ id, span.start, span.end });
        }
    }
}

test "spans: batches produce the same spans as single pretokens" {
    var prng: std.Random.DefaultPrng = .init(testing.random_seed);
    const random = prng.random();
    const parts = [_][]const u8{
        "a",      "b",      "<a>", " ",  "bb",  "\n", "\xff", "\u{e9}", "\u{2581}",
        "the is", " c d a", ".",   "12", "c d",
    };
    for (std.enums.values(@import("preprocess.zig").Prefix)) |prefix| {
        var tokenizer = try testTokenizer(prefix);
        defer tokenizer.deinit(testing.allocator);
        for (0..examples(300)) |round| {
            var text: [9000]u8 = undefined;
            const limit = if (round % 30 == 0) text.len - 8 else random.uintLessThan(usize, 60);
            const run = parts[random.uintLessThan(usize, parts.len)];
            var len: usize = 0;
            while (len < limit) {
                const is_run = round % 60 == 0 or random.uintLessThan(u8, 4) == 0;
                const part = if (is_run) run else parts[random.uintLessThan(usize, parts.len)];
                @memcpy(text[len..][0..part.len], part);
                len += part.len;
            }
            try expectTwins(&tokenizer, text[0..len]);
        }
    }
}

test "spans: character offsets are the same when computed during encoding or afterwards" {
    const gpa = testing.allocator;
    var prng: std.Random.DefaultPrng = .init(testing.random_seed);
    const random = prng.random();
    const parts = [_][]const u8{
        "a", "\u{e9}", "\u{2581}", "\u{1f642}", "word and word ", "<a>", "bb", " ", "\u{4f60}",
    };
    for (std.enums.values(@import("preprocess.zig").Prefix)) |prefix| {
        var tokenizer = try testTokenizer(prefix);
        defer tokenizer.deinit(gpa);
        for (0..examples(300)) |_| {
            var text: std.ArrayList(u8) = .empty;
            defer text.deinit(gpa);
            for (0..1 + random.uintLessThan(usize, 90)) |_| {
                const part = parts[random.uintLessThan(usize, parts.len)];
                for (0..1 + random.uintLessThan(usize, 3)) |_| try text.appendSlice(gpa, part);
            }
            var encoder: Encoder = .init(gpa, &tokenizer);
            defer encoder.deinit();
            var both: [2]Spans = @splat(.init(gpa));
            defer for (&both) |*some| some.deinit();
            both[0].cursor = .{ .gpa = gpa, .text = text.items };
            for (&both) |*some| try encode(&encoder, text.items, null, some);
            var cursor: CharacterCursor = .{ .gpa = gpa, .text = text.items };
            defer cursor.deinit();
            try cursor.count(both[1].spans.items);
            try testing.expectEqualSlices(normal.Place, both[1].spans.items, both[0].spans.items);
        }
    }
}

test {
    _ = CharacterCursor;
}
