//! 64 bytes → ends of the pretokens of ../safe.zig, which no token crosses.
//!
//! A split point depends only on the characters next to it, so all starts in a block are certain.

const std = @import("std");
const platform = @import("../../platform.zig");
const vector = platform.vector;
const blocks = @import("../blocks.zig");
const Bytes = vector.Bytes;
const bits = vector.bits;
const splat = vector.splat;
const safe_ = @import("../safe.zig");
const Safe = safe_.Safe;
const Kind = safe_.Kind;

/// A bit for each byte of a block, by the kind of its character.
const Masks = std.EnumArray(Kind, u64);

/// The last ASCII kind.
const ascii_last: Kind = .loud;

/// Like `blocks.fill`.
pub fn fill(
    safe: *const Safe,
    text: [*]const u8,
    text_len: u32,
    is_whole: bool,
    ends: *[blocks.ends_max]u32,
    filled: blocks.Filled,
) blocks.Filled {
    const kinds: Joins = .init(safe);
    var start = filled.end;
    var count = filled.count;
    while (count + vector.len <= ends.len) {
        const left = text_len - start;
        if (left < vector.len and (left == 0 or !is_whole)) break;
        const found = startsIn(&kinds, text + start, left);
        if (found != 0) {
            @branchHint(.likely);
            count += blocks.write(ends[count..], start, found);
            start += 63 - @as(u32, @clz(found));
            continue;
        }
        const len = longLen(&kinds, text + start, left, is_whole);
        if (len == 0) break;
        start += len;
        ends[count] = start;
        count += 1;
    }
    return .{ .count = count, .end = start };
}

/// Returns the starts in a block except the first byte, and the end of the text. `left` is the
/// number of bytes of text from the block on.
inline fn startsIn(kinds: *const Joins, block: [*]const u8, left: u32) u64 {
    const known = vector.low(@intCast(@min(left, vector.len)));
    const bytes = vector.load(block);
    const multibyte = bits(bytes >= splat(0x80)) & known;
    var found = if (multibyte == 0)
        kinds.starts(block) & known
    else
        kinds.multibyteStarts(block, multibyte) & known;
    if (left < vector.len) found |= @as(u64, 1) << @intCast(left);
    // A byte that is not UTF-8 needs a batch of its own.
    if (multibyte != 0) {
        const odd = bits(bytes == splat(0xFF)) & known;
        if (odd != 0) found &= odd ^ (odd - 1);
    }
    return found & ~@as(u64, 1);
}

/// Returns the length of the pretoken at `text` that does not end in its first block, or 0 if the
/// scalar scanner has to find it.
noinline fn longLen(kinds: *const Joins, text: [*]const u8, left: u32, is_whole: bool) u32 {
    var at: u32 = 0;
    while (at < blocks.word_len_max and (is_whole or at + vector.len <= left)) {
        const bytes = vector.load(text + at);
        if (bits(bytes == splat(0xFF)) != 0) return 0;
        const found = startsIn(kinds, text + at, left - at);
        if (found != 0) return at + @ctz(found);
        // The next block begins with the last character of this one, which is not a start.
        const chars = bits(bytes & splat(0xC0) != splat(0x80));
        if (chars < 2) return 0;
        at += 63 - @as(u32, @clz(chars));
    }
    return 0;
}

const Joins = struct {
    safe: *const Safe,
    has_loud: bool,

    inline fn init(safe: *const Safe) Joins {
        return .{ .safe = safe, .has_loud = !std.mem.allEqual(u8, &safe.loud, 0) };
    }

    inline fn starts(self: *const Joins, text: [*]const u8) u64 {
        return self.cutsIn(true, self.ofAscii(text));
    }

    /// Not inline: nearly all blocks of English text and code are ASCII.
    noinline fn multibyteStarts(self: *const Joins, text: [*]const u8, multibyte: u64) u64 {
        const first: Bytes = vector.load(text);
        const second: Bytes = vector.load(text + 1);
        const third: Bytes = vector.load(text + 2);
        const continued = bits(second ^ splat(0x80) < splat(0x40));
        const three = continued & bits(third ^ splat(0x80) < splat(0x40)) &
            (bits(first == splat(0xE2)) |
                (bits(first == splat(0xE3)) & bits(second == splat(0x80))) |
                (bits(first == splat(0xEF)) & bits(second == splat(0xBC))));
        const leads = three | (bits(first == splat(0xC2)) & continued);
        const punctuation = leads | leads << 1 | three << 2;
        var masks = self.ofAscii(text);
        for (std.enums.values(Kind)) |kind| masks.getPtr(kind).* &= ~multibyte;
        masks.set(.punctuation, punctuation);
        masks.set(.foreign, multibyte & ~punctuation);
        return self.cutsIn(false, masks) & ~bits(first & splat(0xC0) == splat(0x80));
    }

    inline fn ofAscii(self: *const Joins, text: [*]const u8) Masks {
        const bytes: Bytes = vector.load(text);
        var masks: Masks = .initFill(0);
        const letter = bits((bytes | splat(0x20)) -% splat('a') < splat(26));
        const digit = bits(bytes -% splat('0') < splat(10));
        const blank = bits(bytes == splat(' '));
        const newline = bits(bytes == splat('\n'));
        const loud = if (self.has_loud) self.loudIn(bytes) else 0;
        masks.set(.letter, letter);
        masks.set(.digit, digit);
        masks.set(.blank, blank);
        masks.set(.newline, newline);
        masks.set(.loud, loud);
        masks.set(.symbol, ~(letter | digit | blank | newline | loud));
        return masks;
    }

    inline fn loudIn(self: *const Joins, bytes: Bytes) u64 {
        const picks: vector.Table = .{ 1, 2, 4, 8, 16, 32, 64, 128, 0, 0, 0, 0, 0, 0, 0, 0 };
        const pick = vector.lookup(picks, bytes >> @splat(4));
        const entry = vector.lookup(self.safe.loud, bytes & splat(0x0F));
        return bits(entry & pick != splat(0));
    }

    inline fn cutsIn(self: *const Joins, comptime ascii: bool, masks: Masks) u64 {
        var joined: u64 = 0;
        inline for (comptime std.enums.values(Kind)) |right| {
            var before: u64 = 0;
            inline for (comptime std.enums.values(Kind)) |left| {
                if (ascii and @intFromEnum(left) > @intFromEnum(ascii_last)) continue;
                const flags = self.safe.joins[@intFromEnum(left)];
                before |= masks.get(left) & flags[@intFromEnum(right)];
            }
            if (ascii and @intFromEnum(right) > @intFromEnum(ascii_last)) continue;
            joined |= masks.get(right) & before << 1;
        }
        return ~joined;
    }
};
