//! Text → ids: added tokens are split off, the rest becomes pretokens, and each pretoken becomes
//! ids, most of them from the cache.
//!
//! Each thread has its own `Encoder`, which contains the scratch memory. It pulls the documents of
//! a text from preprocessing, and batches of pretokens from each document. Offsets and sessions
//! call the encoder batch by batch; it calls neither.

const std = @import("std");
const Allocator = std.mem.Allocator;
const cache_ = @import("../cache.zig");
const expand = @import("../merge/byte_fallback.zig");
const merge = @import("../merge.zig");
const merge_group = @import("../merge/group.zig");
const merge_long = @import("../merge/long.zig");
const merge_short = @import("../merge/short.zig");
const preprocess = @import("../preprocess.zig");
const pretokens = @import("../pretokens.zig");
const triples = @import("../units/triples.zig");
const unicode = @import("../unicode.zig");
const units = @import("../units.zig");
const vocabularies = @import("../vocabulary.zig");
const Cache = cache_.Cache;
const Characters = @import("../units/characters.zig").Characters;
const Goal = cache_.Goal;
const Merger = merge.Merger;
const Tokenizer = @import("tokenizer.zig").Tokenizer;

pub const Error = merge.Error;
pub const List = @import("list.zig").List;

/// Length of the slices of a long pretoken, and distance searched for a split point at their end.
const slice_len = 1 << 15;
const seam_reach = 256;

pub const Encoder = struct {
    gpa: Allocator,
    tokenizer: *const Tokenizer,
    cache: ?Cache = null,
    merger: Merger,
    /// Number of pretokens of the last batch that were split into fragments.
    wide_pretokens: usize = 0,
    /// Memory for documents whose bytes differ from the text.
    scratch: preprocess.Scratch,

    pub fn init(gpa: Allocator, tokenizer: *const Tokenizer) Encoder {
        const cache = if (tokenizer.isRandom()) null else tokenizer.memory.caches.take();
        return .{
            .gpa = gpa,
            .tokenizer = tokenizer,
            .cache = cache,
            .merger = .init(gpa, &tokenizer.vocabulary),
            .scratch = .{ .gpa = gpa },
        };
    }

    pub fn deinit(self: *Encoder) void {
        if (self.cache) |*cache| self.tokenizer.memory.caches.put(cache);
        self.merger.deinit();
        self.scratch.deinit();
    }

    /// Encodes any bytes. `allowed` has one byte per added token, an `added.Choice`. Null means all
    /// added tokens that are not special.
    pub fn encode(
        self: *Encoder,
        text: []const u8,
        allowed: ?[]const u8,
        list: *List,
    ) Error!void {
        const choice = self.tokenizer.preprocessor.choiceOf(allowed);
        if (self.tokenizer.preprocessor.isWhole(choice)) return self.encodeDocument(text, list);
        return self.encodePieces(.{ .text = text, .choice = choice }, list);
    }

    /// Encodes the documents and added tokens of a text.
    pub fn encodePieces(
        self: *Encoder,
        options: preprocess.PiecesOptions,
        list: *List,
    ) Error!void {
        var pieces: preprocess.Pieces = undefined;
        pieces.init(&self.tokenizer.preprocessor, &self.scratch, options);
        defer pieces.deinit();
        while (try pieces.next()) |piece| switch (piece) {
            .document => |document| try self.encodeDocument(document.bytes, list),
            .added => |token| try list.push(&.{token.id}),
        };
    }

    /// Returns the number of ids of any bytes, with all added tokens that are not special.
    pub fn count(self: *Encoder, text: []const u8) Error!usize {
        var list: List = .{ .gpa = self.gpa, .only_counts = true };
        defer list.deinit();
        try self.encode(text, null, &list);
        return list.total();
    }

    /// Encodes a document batch by batch.
    pub fn encodeDocument(self: *Encoder, document: []const u8, list: *List) Error!void {
        var batches: pretokens.Sweep = undefined;
        batches.init(self.gpa, &self.tokenizer.scheme, document);
        defer batches.deinit();
        while (try batches.next()) |batch| try self.encodeBatch(batch, list);
    }

    /// Encodes a batch of pretokens.
    pub fn encodeBatch(self: *Encoder, part: pretokens.Batch, list: *List) Error!void {
        try self.merger.pollAfter(part.len);
        if (std.debug.runtime_safety) std.debug.assert(part.isOrdered());
        if (part.ends.len == 0) return self.encodePretoken(part.bytes[0..part.len], list);
        const cache = if (self.cache) |*some| some else {
            var start: u32 = 0;
            for (part.ends) |end| {
                try self.encodePretoken(part.bytes[start..end], list);
                start = end;
            }
            return;
        };
        const out = try list.roomFor(part.len + room_extra);
        switch (list.goal()) {
            inline else => |goal| list.add(try encodeWords(goal, self, cache, part, out)),
        }
    }

    /// Encodes a long pretoken slice by slice, between safe split points, and returns the number of
    /// bytes encoded. The last bytes remain, as do stretches without split points.
    fn encodeSlices(
        self: *Encoder,
        cache: *Cache,
        chars: *const Characters,
        piece: []const u8,
        list: *List,
    ) Error!usize {
        var start: usize = 0;
        while (piece.len - start > 2 * seam_reach) {
            // Leaves readable text after the slice.
            const wanted = @min(start + slice_len, piece.len - seam_reach / 2);
            var end = wanted;
            while (!try self.isFreeSeam(piece, end)) : (end -= 1) {
                if (end <= start + 1 or wanted - end >= seam_reach) return start;
            }
            const slice = piece[start..end];
            try self.merger.pollAfter(slice.len);
            const out = try list.roomFor(slice.len + room_extra);
            list.add(try switch (list.goal()) {
                inline else => |goal| units
                    .encode(goal, &self.merger, cache, chars, slice, false, out),
            });
            start = end;
        }
        return start;
    }

    /// Whether no token can cover the boundary at `index`, which is inside the text.
    pub fn isFreeSeam(self: *Encoder, text: []const u8, index: usize) Error!bool {
        if (text[index] < 0xE0 or index == 0) return false;
        // Only called for long texts, so building the table pays off.
        const characters = self.tokenizer.charactersFor(self.gpa, 1 << 20) orelse return false;
        const before = unicode.decodeBefore(text, index);
        const left = try characters.charAt(&self.merger, text[index - before.len .. index]);
        const right = try characters.charAt(&self.merger, text[index..]);
        return characters.seams.joins(left.code_point, right.code_point) == 0 and
            characters.mayCut(left, right);
    }

    pub fn encodePretoken(self: *Encoder, piece: []const u8, list: *List) Error!void {
        if (self.isMergedAtOnce(piece)) return list.push(try self.merger.idsOf(piece));
        return self.encodeLong(piece, list);
    }

    /// Returns the number of ids of a pretoken.
    pub fn countPretoken(self: *Encoder, piece: []const u8) Error!usize {
        if (self.isMergedAtOnce(piece)) {
            const key = if (self.cache) |*cache| cache.keyOfAny(piece) else null;
            if (key) |some| if (self.cache.?.find(.number, some, piece, undefined)) |found|
                return found;
            const merged = try self.merger.idsOf(piece);
            // Words without ids are not cached.
            if (key) |some| if (merged.len > 0) self.cache.?.insert(some, piece, merged);
            return merged.len;
        }
        var list: List = .{ .gpa = self.gpa, .only_counts = true };
        defer list.deinit();
        try self.encodeLong(piece, &list);
        return list.total();
    }

    /// Whether the ids of a pretoken are merged in the merger's own memory.
    fn isMergedAtOnce(self: *const Encoder, piece: []const u8) bool {
        const vocabulary = &self.tokenizer.vocabulary;
        if (piece.len <= @max(merge_short.len_max, vocabulary.token_len_max)) return true;
        return vocabulary.leftover == .settle or vocabulary.isTied(piece) or
            self.tokenizer.isRandom();
    }

    /// Encodes a long pretoken. The list is written directly, since an intermediate one would be
    /// as large as the text.
    fn encodeLong(self: *Encoder, piece: []const u8, list: *List) Error!void {
        const vocabulary = &self.tokenizer.vocabulary;
        var rest = piece;
        if (self.cache != null and piece[0] | piece[1] >= 0xE0) {
            if (self.tokenizer.charactersFor(self.gpa, piece.len)) |characters| {
                rest = piece[try self.encodeSlices(&self.cache.?, characters, piece, list)..];
            }
        }
        if (list.only_counts) {
            const kept = merge_long.kept_max;
            const counted =
                try merge_long.count(self.gpa, vocabulary, rest, kept, &self.merger.long_ids);
            if (counted.stand_in) |id| try self.merger.refuseStandIns(&.{id});
            list.dropped += counted.ids;
            return;
        }
        const before = list.ids.items.len;
        try merge_long.merge(list.gpa, vocabulary, rest, rest.len, &list.ids);
        try self.merger.refuseStandIns(list.ids.items[before..]);
        try expand.inList(list.gpa, vocabulary, &list.ids, before);
    }
};

/// Number of buckets that are prefetched before the first one is used.
const ahead = 128;

/// The place of a pretoken in a chunk.
const Place = u8;

comptime {
    std.debug.assert(ahead <= 1 << @bitSizeOf(Place));
    std.debug.assert(merge_group.len_max == cache_.key_len_max);
    std.debug.assert(pretokens.Sweep.padded_len_max == cache_.key_len_max);
    std.debug.assert(vocabularies.token_len_limit <= cache_.piece_len_max);
}

/// Minimum number of pretokens of a batch split into fragments for which those of the next batch
/// are processed together.
const together_min = 32;

/// Minimum number of ring buffer entries found in a chunk for which those of the next are
/// prefetched.
const records_found_min = 4;

/// Number of ids that a batch needs in addition to one per byte, since whole values are written.
const room_extra = cache_.room_extra;

/// Writes the ids of a batch to `out`, and returns their number. For `.number`, the contents of
/// `out` are undefined.
fn encodeWords(
    comptime goal: Goal,
    encoder: *Encoder,
    cache: *Cache,
    batch: pretokens.Batch,
    out: [*]u32,
) Error!usize {
    var chunk: Chunk = undefined;
    chunk.bytes = batch.bytes;
    // In repeated text, whole pretokens are worth caching while they fit. Pretokens that end inside
    // a character are processed one by one, since part of a character is never split from its
    // neighbours.
    const is_new = encoder.wide_pretokens >= together_min and
        !encoder.tokenizer.scheme.cutsCharacters() and
        triples.fits(&encoder.tokenizer.vocabulary) and
        (cache.records.isFull() or !cache.comesAgain(batch.bytes[0..batch.len]));
    const together = if (is_new) encoder.tokenizer.madeCharacters() else null;
    encoder.wide_pretokens = 0;
    var written: usize = 0;
    var start: u32 = 0;
    var index: usize = 0;
    while (index < batch.ends.len) {
        const left = batch.ends[index..];
        const rest = if (goal == .ids) out + written else out;
        if (together) |characters| if (isForUnits(batch.bytes, start, left[0])) {
            const text = batch.bytes;
            const merger = &encoder.merger;
            const done =
                try triples.encode(goal, merger, cache, characters, text, start, left, true, rest);
            written += done.written;
            index += done.pretokens;
            encoder.wide_pretokens += done.pretokens;
            if (done.pretokens > 0) {
                start = left[done.pretokens - 1];
                continue;
            }
        };
        const len = @min(ahead, if (together != null) untilWide(batch.bytes, left) else left.len);
        chunk.begin(start, left[0..len]);
        start = left[len - 1];
        index += len;
        written += try encodeChunk(goal, encoder, cache, &chunk, rest);
    }
    return written;
}

/// Returns the number of pretokens before one that is better split than looked up. The first one
/// does not count.
fn untilWide(bytes: [*]const u8, ends: []const u32) usize {
    for (ends[0 .. ends.len - 1], ends[1..], 1..) |start, end, count| {
        if (isForUnits(bytes, start, end)) return count;
    }
    return ends.len;
}

/// Whether a pretoken of new text starts with a character of a large script. After a leading space
/// or similar, it must be longer than a key, because short pretokens recur.
inline fn isForUnits(bytes: [*]const u8, start: u32, end: u32) bool {
    return bytes[start] >= 0xE0 or
        (end - start > cache_.key_len_max and bytes[start] < 0x80 and bytes[start + 1] >= 0xE0);
}

inline fn encodeChunk(
    comptime goal: Goal,
    encoder: *Encoder,
    cache: *Cache,
    chunk: *Chunk,
    out: [*]u32,
) Error!usize {
    var written: usize = 0;
    chunk.prepare(cache);
    for (chunk.keys[0..chunk.ends.len], chunk.lines[0..chunk.ends.len], 0..) |key, line, at| {
        if (line.front.idsOf(key)) |value| {
            @branchHint(.likely);
            if (goal == .ids) out[written..][0..4].* = value.words;
            written += value.count;
        } else if (line.back.idsOf(key)) |value| {
            if (goal == .ids) out[written..][0..4].* = value.words;
            written += value.count;
        } else {
            const rest = if (goal == .ids) out + written else out;
            written += try encodeUncached(goal, encoder, cache, chunk, at, rest);
        }
    }
    return written;
}

/// Pretokens whose buckets are being prefetched.
const Chunk = struct {
    keys: [ahead]cache_.Key,
    lines: [ahead]*cache_.Line,
    bytes: [*]const u8,
    start: u32,
    ends: []const u32,
    /// Index of the first pretoken that `mergeMissing` has not processed.
    merged_end: usize,

    inline fn begin(self: *Chunk, start: u32, ends: []const u32) void {
        self.start = start;
        self.ends = ends;
        self.merged_end = 0;
    }

    /// Prefetches the buckets of all pretokens.
    inline fn prepare(self: *Chunk, cache: *Cache) void {
        // A local copy: the compiler can assume that it does not change.
        const near = cache.*;
        const bytes = self.bytes;
        const ends = self.ends;
        const keys = self.keys[0..ends.len];
        const lines = self.lines[0..ends.len];
        var start = self.start;
        for (ends, keys, lines) |end, *key, *line| {
            const text = bytes[start..end];
            start = end;
            if (text.len <= cache_.key_len_max) {
                @branchHint(.likely);
                key.* = near.keyOf(text.ptr, text.len);
            } else key.* = near.keyOfLong(text);
            line.* = near.lineOf(key.*);
            @prefetch(line.*, .{});
        }
        // A text that has used ring buffer entries needs more of them. The first buckets have
        // arrived by now.
        if (cache.records_found < records_found_min) return;
        cache.records_found = 0;
        for (lines, keys) |line, key| cache.prepareRecord(line, key);
    }

    fn piece(self: *const Chunk, at: usize) []const u8 {
        return self.bytes[if (at == 0) self.start else self.ends[at - 1]..self.ends[at]];
    }
};

/// Encodes a pretoken whose ids are not directly in its first bucket.
noinline fn encodeUncached(
    comptime goal: Goal,
    encoder: *Encoder,
    cache: *Cache,
    chunk: *Chunk,
    at: usize,
    out: [*]u32,
) Error!usize {
    const piece = chunk.piece(at);
    const key = chunk.keys[at];
    if (cache.find(goal, key, piece, out)) |count| return count;
    const characters = if (isWide(piece))
        encoder.tokenizer.charactersFor(encoder.gpa, piece.len)
    else
        null;
    encoder.wide_pretokens += @intFromBool(characters != null);
    if (characters == null and piece.len <= cache_.key_len_max and at >= chunk.merged_end) {
        mergeMissing(encoder, cache, chunk, at);
        if (cache.find(goal, key, piece, out)) |count| return count;
    }
    const count = if (characters) |some|
        try units.encode(.ids, &encoder.merger, cache, some, piece, true, out)
    else
        units.put(try encoder.merger.idsOf(piece), out);
    // Words without ids are not cached.
    if (count > 0) cache.insert(key, piece, out[0..count]);
    return count;
}

/// Number of words that are looked up in their second buckets together; some are found there.
const candidates_max = 2 * merge_group.words_max;

/// Inserts the uncached words from `first` on into the cache, merging many at once.
noinline fn mergeMissing(encoder: *Encoder, cache: *Cache, chunk: *Chunk, first: usize) void {
    const vocabulary = &encoder.tokenizer.vocabulary;
    chunk.merged_end = chunk.ends.len;
    var places: [candidates_max]Place = undefined;
    var count: usize = 0;
    for (first..chunk.ends.len) |at| {
        const key, const line = .{ chunk.keys[at], chunk.lines[at] };
        if (line.front.has(key) or line.back.has(key)) continue;
        const piece = chunk.piece(at);
        if (piece.len > cache_.key_len_max) continue;
        if (isWide(piece) and encoder.tokenizer.madeCharacters() != null) continue;
        if (vocabulary.isTied(piece)) continue;
        if (count == candidates_max) {
            chunk.merged_end = at;
            break;
        }
        places[count] = @intCast(at);
        cache.prepareOther(line, key);
        count += 1;
    }
    var group: merge_group.Group = undefined;
    group.count = 0;
    for (places[0..count]) |at| {
        const piece = chunk.piece(at);
        const key = chunk.keys[at];
        if (cache.contains(key, piece)) continue;
        if (!vocabulary.is_closed) if (vocabulary.find(piece)) |id| {
            cache.insert(key, piece, &.{id});
            continue;
        };
        if (group.count == merge_group.words_max) {
            chunk.merged_end = at;
            break;
        }
        places[group.count] = at;
        group.add(piece);
    }
    group.merge(vocabulary);
    for (group.words[0..group.count], places[0..group.count]) |*word, at| {
        var out: [merge_group.len_max]u32 = undefined;
        const merged = word.take(&out);
        const found = out[0..expand.inPlace(vocabulary, &out, merged)];
        const key = chunk.keys[at];
        // A repeated word is cached by now. Unknown characters are handled when the word's turn
        // comes.
        if (cache.contains(key, word.piece)) continue;
        if (vocabulary.leftover == .settle and found.len > merged) continue;
        if (std.mem.max(u32, found) >= vocabulary.ids_end) continue;
        cache.insert(key, word.piece, found);
    }
}

/// Whether the piece contains a character of three or four bytes near its start. Then it is encoded
/// fragment by fragment, with the same ids. 16 bytes must be readable.
inline fn isWide(piece: []const u8) bool {
    const first: @Vector(16, u8) = piece.ptr[0..16].*;
    const flags: u16 = @bitCast(first >= @as(@Vector(16, u8), @splat(0xE0)));
    return flags != 0 and @ctz(flags) < piece.len;
}
