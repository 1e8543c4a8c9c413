//! What the families of cl100k and o200k have in common, on masks.

const Masks = @import("masks.zig").Masks;

/// The places right behind an `other` character that is a run of its own.
pub inline fn afterSingle(comptime ascii: bool, m: *const Masks, run_starts: u64) u64 {
    if (ascii) return run_starts << 1;
    const multibyte = m.other_leads[0] | m.other_leads[1] | m.other_leads[2];
    var after = (run_starts & ~multibyte) << 1;
    inline for (m.other_leads, 2..) |leads, len| after |= (run_starts & leads) << len;
    return after;
}

/// \p{N}{1,3}: every third of a run starts a pretoken, or every second, or each.
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

/// \s*[\r\n]+|\s+(?!\S)|\s, where the newlines in `taken` belong to the symbols before them, and
/// what is in `edges` is the end of the text to the white space before it.
pub inline fn spaces(m: *const Masks, taken: u64, edges: u64) u64 {
    const space = m.space & ~taken;
    const plain = m.space & ~m.newline;
    // The last one before text is a start: it goes with the text, or stands alone.
    var bits = (space & ~(space << 1)) | (plain & ~(m.space >> 1) & ~(edges >> 1));
    // Behind the last newline of a run something starts, also white space.
    var behind = plain & ((m.newline & ~taken) << 1);
    // Unless that white space ends in yet another newline.
    var ends = (plain +% behind) & ~plain & m.newline;
    while (ends != 0) : (ends &= ends - 1) {
        const below = behind & ((ends & -%ends) - 1);
        behind &= ~(@as(u64, 1) << @intCast(63 - @clz(below)));
    }
    bits |= behind;
    return bits;
}
