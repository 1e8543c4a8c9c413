//! Mask operations that the families of cl100k and o200k share.

const Masks = @import("masks.zig").Masks;

/// Returns the positions after an `other` character that is a run of its own.
pub inline fn afterSingle(comptime ascii: bool, m: *const Masks, run_starts: u64) u64 {
    if (ascii) return run_starts << 1;
    const multibyte = m.other_leads[0] | m.other_leads[1] | m.other_leads[2];
    var after = (run_starts & ~multibyte) << 1;
    inline for (m.other_leads, 2..) |leads, len| after |= (run_starts & leads) << len;
    return after;
}

/// \p{N}{1,3}: a pretoken starts at every third number of a run, or every second, or each.
pub inline fn numbers(number: u64, comptime count_max: u2) u64 {
    if (count_max == 1) return number;
    var chunk = number & ~(number << 1);
    var bits = chunk;
    const long = number & number << 1 & number << (count_max - 1);
    while (true) {
        chunk = chunk << count_max & long;
        if (chunk == 0) return bits;
        bits |= chunk;
    }
}

/// \s*[\r\n]+|\s+(?!\S)|\s, where newlines in `taken` belong to the symbols before them, and
/// characters in `edges` act as the end of the text for the whitespace before them.
pub inline fn spaces(m: *const Masks, taken: u64, edges: u64) u64 {
    const space = m.space & ~taken;
    const plain = m.space & ~m.newline;
    // The last one before text is a start: it belongs to the text, or is alone.
    var bits = (space & ~(space << 1)) | (plain & ~(m.space >> 1) & ~(edges >> 1));
    // A pretoken starts after the last newline of a run, even at whitespace.
    var behind = plain & ((m.newline & ~taken) << 1);
    // Unless that whitespace ends in another newline.
    var ends = (plain +% behind) & ~plain & m.newline;
    while (ends != 0) : (ends &= ends - 1) {
        const below = behind & ((ends & -%ends) - 1);
        behind &= ~(@as(u64, 1) << @intCast(63 - @clz(below)));
    }
    bits |= behind;
    return bits;
}
