//! A batch of pretokens → ids, most of them remembered.

const std = @import("std");
const ids = @import("../ids.zig");
const pretokens = @import("../pretokens.zig");
const expand = @import("expand.zig");
const units = @import("units.zig");
const triples = @import("triples.zig");
const merge_group = @import("merge_group.zig");
const caches = @import("cache.zig");
const Cache = caches.Cache;

/// Lines that are on their way from memory before the first of them is needed.
const ahead = 128;

/// So many pretokens of a batch that were cut into units are worth taking those of the next one
/// together.
const together_min = 32;

/// So many records found in a chunk are worth fetching those of the next one ahead.
const records_found_min = 4;

/// Of the words that are found in the back of a line, one in so many goes to the front: the other
/// threads have to fetch the line again.
const promoted_share = 64;

/// Room that a batch needs beyond one id for each byte: a value is written as a whole.
pub const room_extra = caches.room_extra;

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
    // Where a text comes again, whole pretokens are worth remembering, as long as they fit.
    // Those that end inside of characters are taken one by one: what is left of a character is
    // never cut from its neighbours.
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
        const rest = if (writes) out + written else {};
        if (together) |characters| if (isForUnits(batch.bytes, start, left[0])) {
            const text = batch.bytes;
            const done =
                try triples.encode(encoder, cache, characters, text, start, left, true, rest);
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
        written += try encodeChunk(encoder, cache, &chunk, rest);
    }
    return written;
}

/// How many pretokens come before one that is better cut than looked for; the first does not count.
fn untilWide(bytes: [*]const u8, ends: []const u32) usize {
    for (ends[0 .. ends.len - 1], ends[1..], 1..) |start, end, count| {
        if (isForUnits(bytes, start, end)) return count;
    }
    return ends.len;
}

/// Whether a pretoken of a text that is new starts with a character of a large script. Behind a
/// blank or the like it has to be longer than a key: short ones come again and again.
inline fn isForUnits(bytes: [*]const u8, start: u32, end: u32) bool {
    return bytes[start] >= 0xE0 or
        (end - start > caches.key_len_max and bytes[start] < 0x80 and bytes[start + 1] >= 0xE0);
}

inline fn encodeChunk(
    encoder: *ids.Encoder,
    cache: *Cache,
    chunk: *Chunk,
    out: anytype,
) ids.Error!usize {
    const writes = @TypeOf(out) != void;
    var written: usize = 0;
    chunk.prepare(cache);
    for (chunk.keys[0..chunk.ends.len], chunk.lines[0..chunk.ends.len], 0..) |key, line, at| {
        if (line.front.idsOf(key)) |value| {
            @branchHint(.likely);
            if (writes) out[written..][0..4].* = value.words;
            written += value.count;
        } else if (line.back.idsOf(key)) |value| {
            if (writes) out[written..][0..4].* = value.words;
            written += value.count;
            // Now and then, so that of two words the one that comes more often is in front.
            if (written % promoted_share == 0) line.promote();
        } else {
            const rest = if (writes) out + written else {};
            written += try slowly(encoder, cache, chunk, at, rest);
        }
    }
    return written;
}

/// Pretokens whose lines are on their way.
const Chunk = struct {
    keys: [ahead]caches.Key,
    lines: [ahead]*caches.Line,
    bytes: [*]const u8,
    start: u32,
    ends: []const u32,
    /// Those before it were looked at together.
    learnt_end: usize,

    inline fn begin(self: *Chunk, start: u32, ends: []const u32) void {
        self.start = start;
        self.ends = ends;
        self.learnt_end = 0;
    }

    /// Fetches the lines of all pretokens.
    inline fn prepare(self: *Chunk, cache: *Cache) void {
        // Copies, which the compiler knows nobody else writes to.
        const near = cache.*;
        const bytes = self.bytes;
        const ends = self.ends;
        const keys = self.keys[0..ends.len];
        const lines = self.lines[0..ends.len];
        var start = self.start;
        for (ends, keys, lines) |end, *key, *line| {
            const text = bytes[start..end];
            start = end;
            if (text.len <= caches.key_len_max) {
                @branchHint(.likely);
                key.* = near.keyOf(text.ptr, text.len);
            } else key.* = near.keyOfLong(text);
            line.* = near.lineOf(key.*);
            @prefetch(line.*, .{});
        }
        // A text that needs records needs more of them: by now the first lines are there.
        if (cache.records_found < records_found_min) return;
        cache.records_found = 0;
        for (lines, keys) |line, key| cache.prepareRecord(line, key);
    }

    fn piece(self: *const Chunk, at: usize) []const u8 {
        return self.bytes[if (at == 0) self.start else self.ends[at - 1]..self.ends[at]];
    }
};

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
    if (cache.find(key, piece, out)) |count| return count;
    const characters = if (isWide(piece))
        encoder.tokenizer.charactersFor(encoder.gpa, piece.len)
    else
        null;
    encoder.wide_pretokens += @intFromBool(characters != null);
    if (characters == null and piece.len <= caches.key_len_max and at >= chunk.learnt_end) {
        learn(encoder, cache, chunk, at);
        if (cache.find(key, piece, out)) |count| return count;
    }
    const writes = @TypeOf(out) != void;
    const found = if (characters) |some| blk: {
        const room = if (writes) out else try encoder.roomFor(piece.len + room_extra);
        break :blk room[0..try units.encode(encoder, cache, some, piece, true, room)];
    } else try encoder.idsOf(piece);
    // Of a word without ids nothing is remembered.
    if (found.len > 0) cache.insert(key, piece, found);
    // Units are written where they belong.
    return if (writes and found.ptr == out) found.len else units.put(found, out);
}

/// Words that are looked for in their other lines together: some are there.
const candidates_max = 2 * merge_group.words_max;

/// Puts the words from `first` on that are not remembered into the cache, many at once.
noinline fn learn(encoder: *ids.Encoder, cache: *Cache, chunk: *Chunk, first: usize) void {
    const vocabulary = &encoder.tokenizer.vocabulary;
    chunk.learnt_end = chunk.ends.len;
    var places: [candidates_max]u8 = undefined;
    var count: usize = 0;
    for (first..chunk.ends.len) |at| {
        const key, const line = .{ chunk.keys[at], chunk.lines[at] };
        if (line.front.has(key) or line.back.has(key)) continue;
        const piece = chunk.piece(at);
        if (piece.len > caches.key_len_max) continue;
        if (isWide(piece) and encoder.tokenizer.madeCharacters() != null) continue;
        if (vocabulary.isTied(piece)) continue;
        if (count == candidates_max) {
            chunk.learnt_end = at;
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
        if (cache.knows(key, piece)) continue;
        if (!vocabulary.is_closed) if (vocabulary.find(piece)) |id| {
            cache.insert(key, piece, &.{id});
            continue;
        };
        if (group.count == merge_group.words_max) {
            chunk.learnt_end = at;
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
        // The same word twice, or a byte without a token, which is settled in its turn.
        if (cache.knows(key, word.piece)) continue;
        if (vocabulary.leftover == .settle and found.len > merged) continue;
        if (std.mem.max(u32, found) >= vocabulary.ids_end) continue;
        cache.insert(key, word.piece, found);
    }
}

/// Whether there is a character of three or four bytes at the beginning: then it is encoded unit
/// by unit, which gives the same ids. 16 bytes can be read.
inline fn isWide(piece: []const u8) bool {
    const first: @Vector(16, u8) = piece.ptr[0..16].*;
    const flags: u16 = @bitCast(first >= @as(@Vector(16, u8), @splat(0xE0)));
    return flags != 0 and @ctz(flags) < piece.len;
}
