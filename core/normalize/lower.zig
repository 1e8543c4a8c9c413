//! Text → lower case, each character independently, like Rust's `char::to_lowercase`: without final
//! sigma, and İ becomes two characters.

const std = @import("std");
const platform = @import("../platform.zig");
const vector = platform.vector;
const tables = @import("../unicode/tables.zig").lower;
const unicode = @import("../unicode.zig");
const Output = @import("output.zig").Output;

const lanes = 32;
const Bytes = @Vector(lanes, u8);
const Mask = @Int(.unsigned, lanes);

/// Returns the number to add to a code point.
fn deltaOf(code_point: u21) i32 {
    const block: usize = tables.index_blocks[code_point >> tables.index_shift];
    const low = code_point & ((1 << tables.index_shift) - 1);
    return tables.deltas[tables.index[block << tables.index_shift | low]];
}

/// Returns the bytes that may begin a multi-byte capital. E3 to E9, which begin most ideographs,
/// are excluded.
inline fn leads(bytes: Bytes) Mask {
    const all = vector.bits(bytes >= @as(Bytes, @splat(0xC3)));
    const others = vector.bits(bytes -% @as(Bytes, @splat(0xE3)) < @as(Bytes, @splat(7)));
    const indic = vector.bits(bytes == @as(Bytes, @splat(0xE0)));
    return all & ~(others | indic);
}

/// Returns the first character from `from` that is not in lower case; `text.len` if there is none.
fn next(text: []const u8, from: usize) usize {
    var index = from;
    while (text.len - index >= lanes) : (index += lanes) {
        const bytes: Bytes = text[index..][0..lanes].*;
        const capitals = vector.bits(bytes -% @as(Bytes, @splat('A')) < @as(Bytes, @splat(26)));
        var mask = capitals | leads(bytes);
        while (mask != 0) : (mask &= mask - 1) {
            const at = index + @ctz(mask);
            if (deltaOf(unicode.decode(text, at).code_point) != 0) return at;
        }
    }
    while (index < text.len) : (index += 1) {
        const byte = text[index];
        if (byte -% 'A' >= 26 and byte < 0xC3) continue;
        if (deltaOf(unicode.decode(text, index).code_point) != 0) return index;
    }
    return index;
}

/// Writes `output.old` in lower case, and returns whether it differs.
pub fn write(output: *Output) error{OutOfMemory}!bool {
    const text = output.old;
    var index = next(text, 0);
    if (index == text.len) return false;
    while (index < text.len) : (index = next(text, index)) {
        try output.keep(index);
        const char = unicode.decode(text, index);
        const lower: u21 = @intCast(@as(i32, char.code_point) + deltaOf(char.code_point));
        var buffer: [4]u8 = undefined;
        const len = std.unicode.utf8Encode(lower, &buffer) catch unreachable;
        try output.put(buffer[0..len], 0);
        if (char.code_point == 0x130) try output.put("\u{307}", 1);
        index += char.len;
        output.cursor = index;
    }
    try output.keep(text.len);
    return true;
}
