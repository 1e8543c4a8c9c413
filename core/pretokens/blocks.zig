//! Text → ends of many pretokens at once, 64 bytes at a time.
//!
//! A block begins at the start of a pretoken, so no state is carried from one block to the next: a
//! pretoken depends only on the text from its first byte. Of the starts in a block, those are used
//! that no later byte can change. The next block begins at the last of them. A block without such a
//! start may contain a long word, whose letters are followed through several blocks. Otherwise the
//! scalar scanner, which is also the reference implementation in tests, finds one pretoken.

const platform = @import("../platform.zig");
const unicode = @import("../unicode.zig");
const masks_ = @import("blocks/masks.zig");
const Masks = masks_.Masks;

/// Bytes that are read from the start of a block: the block, and a contraction after its last byte.
pub const reach = masks_.len + 4;

/// Longer words are left to the scalar scanner, which can resume a growing one.
pub const word_len_max = 1024;

/// Capacity for ends.
pub const ends_max = 512;

/// The ends found so far.
pub const Filled = extern struct {
    count: u32 = 0,
    /// The last of them, or 0.
    end: u32 = 0,

    /// Whether the ends in one more block fit.
    pub inline fn hasRoom(self: Filled) bool {
        return self.count + masks_.len <= ends_max;
    }
};

/// Appends the ends of the pretokens in `text[0..text_len]` to `ends`, while it has space and the
/// blocks are decidable. All bytes up to `text_len + reach` must be readable. If the text
/// `is_whole`, they are zero; otherwise the text continues there.
pub fn fill(
    comptime Scheme: type,
    text: [*]const u8,
    text_len: u32,
    is_whole: bool,
    ends: *[ends_max]u32,
    filled: Filled,
) Filled {
    var start = filled.end;
    var count = filled.count;
    while (count + masks_.len <= ends.len) {
        const left = text_len - start;
        if (left < masks_.len and (left == 0 or !is_whole)) break;
        const block = text + start;
        const count_in: u7 = @intCast(@min(left, masks_.len));
        const sure = if (Masks.nonAscii(block, count_in) == 0) blk: {
            const masks: Masks = .ofAscii(block, count_in, Scheme.letters);
            break :blk sureStarts(true, Scheme, block, &masks, left);
        } else multibyteStarts(Scheme, block, count_in, left);
        if (sure != 0) {
            @branchHint(.likely);
            count += write(ends[count..], start, sure);
            start += 63 - @as(u32, @clz(sure));
            continue;
        }
        // Long ASCII words are rare, but other long ASCII runs are not.
        if (Masks.nonAscii(block, count_in) == 0) break;
        const word_len = wordLen(Scheme, block, left);
        if (word_len == 0) break;
        start += word_len;
        ends[count] = start;
        count += 1;
    }
    return .{ .count = count, .end = start };
}

/// Not inline: nearly all blocks of English text and code are ASCII.
noinline fn multibyteStarts(
    comptime Scheme: type,
    block: [*]const u8,
    count: u7,
    left: u32,
) u64 {
    var masks: Masks = .ofAscii(block, count, Scheme.letters);
    masks.addMultibyte(block, false, Scheme.letters);
    const sure = sureStarts(false, Scheme, block, &masks, left);
    if (Scheme.letters != .pointed) return sure;
    // A block starts at a character boundary, even if pretokens are split inside characters.
    const whole = sure & masks_.firsts(block);
    return sure & masks_.low(64 - @as(u7, @clz(whole)));
}

/// Returns the length of the word at `text` if it is certain, or 0. A word is a run of letters
/// after an optional first character that the pre-tokenizer accepts before a word. In scripts
/// without spaces words can be longer than a block.
noinline fn wordLen(comptime Scheme: type, text: [*]const u8, left: u32) u32 {
    const first = unicode.decode(text[0..left], 0);
    // A byte that is not UTF-8 needs a batch of its own.
    if (first.code_point == unicode.replacement) return 0;
    const class = unicode.class(first.code_point);
    if (!class.letter and !Scheme.mayPrecedeWord(text[0], class)) return 0;
    const letters_start: u32 = if (class.letter) 0 else first.len;
    var at = letters_start;
    while (at < word_len_max and at + masks_.len <= left) {
        var masks: Masks = .ofAscii(text + at, masks_.len, Scheme.letters);
        masks.addMultibyte(text + at, at != letters_start, Scheme.letters);
        const run: u32 = @ctz(~Scheme.inWord(&masks, text + at, first.code_point));
        // The masks may end at an incomplete character, but not at the first one. A number,
        // whitespace or an invalid byte ends the masks as well as the word.
        if (run != 0 and run == masks.valid) {
            at += run;
            continue;
        }
        if (at + run == letters_start) return 0;
        return if (Scheme.maybeInWord(&masks) >> @intCast(run) & 1 == 0) at + run else 0;
    }
    return 0;
}

/// Returns the starts in a block that later bytes cannot change, except the first. `left` is the
/// number of bytes of text from the block on.
inline fn sureStarts(
    comptime ascii: bool,
    comptime Scheme: type,
    block: [*]const u8,
    masks: *const Masks,
    left: u32,
) u64 {
    const bits = Scheme.starts(ascii, block, masks) & ~@as(u64, 1);
    const unclear: u64 = if (ascii) 0 else Scheme.unclear(masks);
    // If the text ends in the block, the last pretoken ends there too.
    if (left == masks.valid and left < masks_.len and unclear == 0 and !endsInSpace(masks)) {
        return bits | @as(u64, 1) << @intCast(left);
    }
    return bits & certain(masks) & masks_.low(@ctz(unclear));
}

/// Returns the positions whose start bits do not depend on bytes after the masks.
inline fn certain(masks: *const Masks) u64 {
    if (masks.valid == 0) return 0;
    // A contraction reads two bytes ahead, a symbol the whole character after it.
    const sure = masks_.low(masks.valid -| 4);
    if (!endsInSpace(masks)) return sure;
    // The start of a run of whitespace is certain, but not its split points.
    const text_before = ~masks.space & masks_.low(masks.valid - 1);
    return sure & masks_.low(65 - @as(u7, @clz(text_before)));
}

inline fn endsInSpace(masks: *const Masks) bool {
    return masks.space >> @intCast(masks.valid - 1) & 1 != 0;
}

/// Writes the positions of the bits, eight at a time, because their number is hard to predict.
pub inline fn write(ends: []u32, start: u32, bits: u64) u32 {
    const count: u32 = @popCount(bits);
    var rest = bits;
    var index: u32 = 0;
    while (true) {
        inline for (0..8) |step| {
            ends[index + step] = start + platform.vector.scalar(@ctz(rest));
            rest &= rest -% 1;
        }
        index += 8;
        if (index >= count) return count;
    }
}
