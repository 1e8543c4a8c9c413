//! A pretoken of characters of three bytes → ids, unit by unit.
//!
//! The seams of up to 64 characters are decided before the first unit is taken, without a branch:
//! most characters are a unit of their own, but which are not is hard to predict.

const ids = @import("../ids.zig");
const units = @import("units.zig");
const characters = @import("characters.zig");
const About = characters.About;
const Cache = @import("cache.zig").Cache;
const Characters = characters.Characters;
const anything = @import("../vocabulary/seams.zig").Seams.anything;

/// Up to `len` characters, and what is read behind them.
fn Chunk(comptime len: usize) type {
    return struct {
        code_points: [len + 4]u32,
        /// Parts of the hashes of a character as the left and as the right one of a pair.
        left_hashes: [len + 4]u32,
        right_hashes: [len + 4]u32,
        about: [len]u8,
        joins: [len]u8,
    };
}

fn Bits(comptime len: usize) type {
    return @Int(.unsigned, len);
}

/// Like `units.encode`, with `len` characters at a time; null if the piece has others.
pub fn encode(
    comptime len: usize,
    encoder: *ids.Encoder,
    cache: *Cache,
    chars: *const Characters,
    piece: []const u8,
    out: anytype,
) ids.Error!?usize {
    const writes = @TypeOf(out) != void;
    var chunk: Chunk(len) = undefined;
    const total = piece.len / 3;
    var written: usize = 0;
    var unit_start: usize = 0;
    var base: usize = 0;
    while (base < total) : (base += len) {
        const count: usize = @min(total - base, len);
        const is_last = base + count == total;
        const bytes = piece[3 * base ..][0 .. 3 * count];
        if (!decode(len, &chunk, chars.seams.factors[0..2].*, bytes)) return null;
        try lookUp(len, &chunk, encoder, chars, bytes);
        var cuts = cutsOf(len, &chunk, chars, bytes, base == 0, is_last);
        if (is_last) cuts |= bitAt(len, count - 1);
        while (cuts != 0) : (cuts &= cuts - 1) {
            const at: usize = @ctz(cuts);
            const unit = piece[unit_start .. 3 * (base + at + 1)];
            unit_start += unit.len;
            if (unit.len == 3 and piece.len > 3) {
                @branchHint(.likely);
                if (writes) out[written..][0..4].* = chars.ids[chunk.code_points[at]];
                written += chunk.about[at] & About.count_mask;
            } else {
                const is_whole = unit.len == piece.len;
                const found = try units.idsOfUnit(encoder, cache, unit, is_whole);
                written += units.put(found, if (writes) out + written else {});
            }
        }
    }
    return written;
}

inline fn bitAt(comptime len: usize, index: usize) Bits(len) {
    return @as(Bits(len), 1) << @intCast(index);
}

const Four = @Vector(4, u32);

inline fn splat(number: u32) Four {
    return @splat(number);
}

/// Decodes characters of three bytes; false if there are others. 16 bytes can be read behind.
inline fn decode(
    comptime len: usize,
    chunk: *Chunk(len),
    factors: [2]u32,
    bytes: []const u8,
) bool {
    const spread = [16]i32{ 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1 };
    const zero: @Vector(1, u8) = @splat(0);
    const count = bytes.len / 3;
    var wrong: Four = @splat(0);
    var at: usize = 0;
    while (at < count) : (at += 4) {
        const read: @Vector(16, u8) = bytes.ptr[3 * at ..][0..16].*;
        const words: Four = @bitCast(@shuffle(u8, read, zero, spread));
        const code_points = ((words & splat(0xF)) << splat(12)) |
            (words >> splat(2) & splat(0xFC0)) | (words >> splat(16) & splat(0x3F));
        chunk.code_points[at..][0..4].* = code_points;
        chunk.left_hashes[at..][0..4].* = code_points *% splat(factors[0]);
        chunk.right_hashes[at..][0..4].* = code_points *% splat(factors[1]);
        // Not of three bytes, or too many bytes for the character, or a surrogate.
        const block = code_points & splat(0xF800);
        const bad = ((words ^ splat(0x8080E0)) & splat(0xC0C0F0)) |
            @select(u32, (block == splat(0)) | (block == splat(0xD800)), splat(1), splat(0));
        const index: Four = .{ 0, 1, 2, 3 };
        wrong |= @select(u32, index < splat(@intCast(count - at)), bad, splat(0));
    }
    return @reduce(.Or, wrong) == 0;
}

/// What is known about the characters and about each of them with the next one.
inline fn lookUp(
    comptime len: usize,
    chunk: *Chunk(len),
    encoder: *ids.Encoder,
    chars: *const Characters,
    bytes: []const u8,
) ids.Error!void {
    const count = bytes.len / 3;
    var known: u8 = 1;
    for (0..count) |at| {
        const about = chars.load(chunk.code_points[at]);
        chunk.about[at] = about;
        known &= @intFromBool(about != 0);
        // Behind the last character there is whatever there is.
        const hash = chunk.left_hashes[at] +% chunk.right_hashes[at + 1];
        chunk.joins[at] = @truncate(chars.seams.pairs.get(hash));
    }
    if (known != 0) return;
    for (0..count) |at| {
        const char = chunk.code_points[at];
        chunk.about[at] = @bitCast(try chars.aboutOf(encoder, char, bytes[3 * at ..][0..3]));
    }
}

/// A bit for each character behind which the piece can be cut, but for the last one.
inline fn cutsOf(
    comptime len: usize,
    chunk: *const Chunk(len),
    chars: *const Characters,
    bytes: []const u8,
    is_first: bool,
    is_last: bool,
) Bits(len) {
    const Bytes = @Vector(len, u8);
    const none: Bytes = @splat(0);
    const count = bytes.len / 3;
    const inner = bitAt(len, count - 1) - 1;
    const joins = @as(Bits(len), @bitCast(@as(Bytes, chunk.joins) != none)) & inner;
    const mask: Bytes = @splat(About.doubt_mask);
    const doubtful: Bits(len) = @bitCast(@as(Bytes, chunk.about) & mask != none);
    // What is around a pair at the edge of a chunk lies in another one.
    var around = joins;
    if (!is_first) around &= ~@as(Bits(len), 1);
    if (!is_last and count >= 2) around &= ~bitAt(len, count - 2);
    const cuts = (~joins & inner) | freeAround(len, chars, chunk.code_points[0..count], around);
    return cuts & ~forbidden(len, chunk, chars, bytes, (doubtful | doubtful >> 1) & cuts);
}

/// Those of the pairs in `joins` that no token holds together with the characters around them.
inline fn freeAround(
    comptime len: usize,
    chars: *const Characters,
    code_points: []const u32,
    joins: Bits(len),
) Bits(len) {
    var free: Bits(len) = 0;
    var rest = joins;
    while (rest != 0) : (rest &= rest - 1) {
        const at: usize = @ctz(rest);
        const before = if (at == 0) anything else code_points[at - 1];
        const behind = if (at + 2 >= code_points.len) anything else code_points[at + 2];
        const left, const right = .{ code_points[at], code_points[at + 1] };
        const joined = chars.seams.joinsAround(left, right, before, behind);
        free |= if (joined != 0) 0 else rest & -%rest;
    }
    return free;
}

/// Those of the cuts in `doubts` that tokens with parts of characters do not allow.
inline fn forbidden(
    comptime len: usize,
    chunk: *const Chunk(len),
    chars: *const Characters,
    bytes: []const u8,
    doubts: Bits(len),
) Bits(len) {
    var bits: Bits(len) = 0;
    var rest = doubts;
    while (rest != 0) : (rest &= rest - 1) {
        const at: usize = @ctz(rest);
        const left = charAt(len, chunk, bytes, at);
        const right = charAt(len, chunk, bytes, at + 1);
        bits |= if (chars.mayCut(left, right)) 0 else rest & -%rest;
    }
    return bits;
}

inline fn charAt(
    comptime len: usize,
    chunk: *const Chunk(len),
    bytes: []const u8,
    at: usize,
) characters.Char {
    return .{
        .code_point = chunk.code_points[at],
        .bytes = bytes[3 * at ..][0..3],
        .about = @bitCast(chunk.about[at]),
    };
}
