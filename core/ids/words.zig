//! A batch of pretokens → ids, most of them remembered.

const std = @import("std");
const ids = @import("../ids.zig");
const pretokens = @import("../pretokens.zig");
const units = @import("units.zig");
const caches = @import("cache.zig");
const Cache = caches.Cache;

/// Lines that are on their way from memory before the first of them is needed.
const ahead = 64;

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
    var keys: [ahead]caches.Key = undefined;
    var lines: [ahead]*const caches.Line = undefined;
    var written: usize = 0;
    var start: u32 = 0;
    var index: usize = 0;
    while (index < batch.ends.len) : (index += ahead) {
        const ends = batch.ends[index..@min(index + ahead, batch.ends.len)];
        var from = start;
        for (ends, keys[0..ends.len], lines[0..ends.len]) |end, *key, *line| {
            const piece = batch.bytes[from..end];
            from = end;
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
        for (keys[0..ends.len], lines[0..ends.len], 0..) |key, line, at| {
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
                const piece_start = if (at == 0) start else ends[at - 1];
                const piece = batch.bytes[piece_start..ends[at]];
                const rest = if (writes) out + written else {};
                written += try slowly(encoder, cache, piece, key, rest);
            }
        }
        start = from;
    }
    return written;
}

/// A pretoken that is not in its line with its ids.
noinline fn slowly(
    encoder: *ids.Encoder,
    cache: *Cache,
    piece: []const u8,
    key: caches.Key,
    out: anytype,
) ids.Error!usize {
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
    if (cache.find(key, piece)) |found| return copy(found, out);
    if (@TypeOf(out) == void) {
        const found = try encoder.idsOf(piece);
        cache.insert(key, piece, found);
        return found.len;
    }
    const count = try compute(encoder, cache, piece, is_wide, out);
    cache.insert(key, piece, out[0..count]);
    return count;
}

fn copy(found: []const u32, out: anytype) usize {
    if (@TypeOf(out) != void) @memcpy(out[0..found.len], found);
    return found.len;
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
    return copy(try encoder.idsOf(piece), out);
}

/// Whether there is a character of three or four bytes at the beginning: then it is encoded unit
/// by unit, which gives the same ids. 16 bytes can be read.
inline fn isWide(piece: []const u8) bool {
    const first: @Vector(16, u8) = piece.ptr[0..16].*;
    const flags: u16 = @bitCast(first >= @as(@Vector(16, u8), @splat(0xE0)));
    return flags != 0 and @ctz(flags) < piece.len;
}
