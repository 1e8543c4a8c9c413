//! A batch of pretokens → ids, most of them remembered.

const std = @import("std");
const ids = @import("../ids.zig");
const pretokens = @import("../pretokens.zig");
const units = @import("units.zig");
const merge_group = @import("merge_group.zig");
const caches = @import("cache.zig");
const Cache = caches.Cache;

/// Lines that are on their way from memory before the first of them is needed.
const ahead = 128;

/// Room that a batch needs beyond one id for each byte: a value is written as a whole.
pub const room_extra = 4;

pub fn roomFor(batch: pretokens.Batch) usize {
    return batch.len + room_extra;
}

/// Writes the ids of a batch to `out`, or only counts them where that is void. Returns how many.
pub fn encode(
    encoder: *ids.Encoder,
    cache: *Cache,
    batch: pretokens.Batch,
    out: anytype,
) ids.Error!usize {
    const writes = @TypeOf(out) != void;
    var chunk: Chunk = undefined;
    chunk.bytes = batch.bytes;
    var written: usize = 0;
    var start: u32 = 0;
    var index: usize = 0;
    while (index < batch.ends.len) : (index += ahead) {
        const ends = batch.ends[index..@min(index + ahead, batch.ends.len)];
        const keys = chunk.keys[0..ends.len];
        const lines = chunk.lines[0..ends.len];
        chunk.start = start;
        chunk.ends = ends;
        chunk.learnt_end = 0;
        for (ends, keys, lines) |end, *key, *line| {
            const piece = batch.bytes[start..end];
            start = end;
            if (piece.len <= caches.key_len_max) {
                @branchHint(.likely);
                key.* = cache.keyOf(piece.ptr, piece.len);
                line.* = cache.lineOf(key.*);
                @prefetch(line.*, .{});
            } else {
                key.* = cache.keyOfLong(piece);
                line.* = &Cache.no_line;
                cache.prepareSeen(key.*);
            }
        }
        for (keys, lines, 0..) |key, line, at| {
            if (Cache.equal(line.front, key)) {
                @branchHint(.likely);
                if (writes) out[written..][0..4].* = line.front_value;
                written += line.front_value[3];
            } else if (Cache.equal(line.back, key) and line.back_value[3] <= caches.inline_max) {
                if (writes) out[written..][0..4].* = line.back_value;
                written += line.back_value[3];
                // Now and then, so that of two words the one that comes more often is in front.
                if (written % 16 == 0) Cache.promote(@constCast(line));
            } else {
                const rest = if (writes) out + written else {};
                written += try slowly(encoder, cache, &chunk, at, rest);
            }
        }
    }
    return written;
}

/// Pretokens whose lines are on their way.
const Chunk = struct {
    keys: [ahead]caches.Key,
    lines: [ahead]*const caches.Line,
    bytes: [*]const u8,
    start: u32,
    ends: []const u32,
    /// Those before it were looked at together.
    learnt_end: usize,

    fn piece(self: *const Chunk, at: usize) []const u8 {
        return self.bytes[if (at == 0) self.start else self.ends[at - 1]..self.ends[at]];
    }
};

/// Puts the words from `first` on that are not remembered into the cache, many at once.
noinline fn learn(encoder: *ids.Encoder, cache: *Cache, chunk: *Chunk, first: usize) void {
    const vocabulary = &encoder.tokenizer.vocabulary;
    chunk.learnt_end = chunk.ends.len;
    if (!vocabulary.is_closed) return;
    var group: merge_group.Group = .{};
    var places: [merge_group.words_max]u32 = undefined;
    for (first..chunk.ends.len) |at| {
        const key, const line = .{ chunk.keys[at], chunk.lines[at] };
        if (Cache.equal(line.front, key)) continue;
        const piece = chunk.piece(at);
        if (piece.len > caches.key_len_max or cache.find(key, piece) != null) continue;
        const is_cut = isWide(piece) and
            encoder.tokenizer.charactersFor(encoder.gpa, piece.len) != null;
        if (is_cut) continue;
        if (group.count == merge_group.words_max) {
            chunk.learnt_end = at;
            break;
        }
        places[group.count] = @intCast(at);
        group.add(piece);
    }
    group.merge(vocabulary);
    for (group.words[0..group.count], places[0..group.count]) |*word, at| {
        var out: [merge_group.len_max]u32 = undefined;
        const found = out[0..word.take(&out)];
        const key = chunk.keys[at];
        // The same word twice, or a byte without a token: that is an error in its turn.
        if (cache.find(key, word.piece) != null) continue;
        if (std.mem.max(u32, found) >= vocabulary.ids_end) continue;
        cache.insert(key, word.piece, found);
    }
}

/// A pretoken that is not in its line with its ids.
noinline fn slowly(
    encoder: *ids.Encoder,
    cache: *Cache,
    chunk: *Chunk,
    at: usize,
    out: anytype,
) ids.Error!usize {
    const piece = chunk.piece(at);
    const key = chunk.keys[at];
    const is_wide = isWide(piece);
    // Words come again, but what is longer, or written without blanks, mostly does not.
    const is_word = piece.len <= caches.key_len_max and
        !(is_wide and encoder.tokenizer.madeCharacters() != null);
    if (!is_word and !cache.wasSeen(key)) {
        encoder.was_cheap = false;
        const count = try compute(encoder, cache, piece, is_wide, out);
        // Units of one character are faster than finding something long.
        if (!encoder.was_cheap) cache.markSeen(key);
        return count;
    }
    if (cache.find(key, piece)) |found| return units.put(found, out);
    if (is_word and at >= chunk.learnt_end) {
        learn(encoder, cache, chunk, at);
        if (cache.find(key, piece)) |found| return units.put(found, out);
    }
    if (@TypeOf(out) == void) {
        const found = try encoder.idsOf(piece);
        cache.insert(key, piece, found);
        return found.len;
    }
    const count = try compute(encoder, cache, piece, is_wide, out);
    cache.insert(key, piece, out[0..count]);
    return count;
}

fn compute(
    encoder: *ids.Encoder,
    cache: *Cache,
    piece: []const u8,
    is_wide: bool,
    out: anytype,
) ids.Error!usize {
    if (is_wide) if (encoder.tokenizer.charactersFor(encoder.gpa, piece.len)) |characters| {
        return units.encode(encoder, cache, characters, piece, out);
    };
    return units.put(try encoder.idsOf(piece), out);
}

/// Whether there is a character of three or four bytes at the beginning: then it is encoded unit
/// by unit, which gives the same ids. 16 bytes can be read.
inline fn isWide(piece: []const u8) bool {
    const first: @Vector(16, u8) = piece.ptr[0..16].*;
    const flags: u16 = @bitCast(first >= @as(@Vector(16, u8), @splat(0xE0)));
    return flags != 0 and @ctz(flags) < piece.len;
}
