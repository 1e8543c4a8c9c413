//! The files of unicode/tables → arrays.
//!
//! A file `forms.kinds.u16.bin` has the numbers of `forms.kinds`, each in 16 bits, little-endian.
//! generate.py, generate_forms.py and words.py write the files.
//!
//! A property of all code points is an array in two stages. `blocks` has the number of the block of
//! each run of `1 << shift` code points. The second array has the values of all different blocks.

const std = @import("std");

/// Unicode 16.0.0. `flags` are the bytes of unicode.zig's `Class`.
pub const classes = struct {
    pub const version = "16.0.0";
    pub const blocks = array(u8, "classes.blocks");
    pub const flags = array(u8, "classes.flags");
    pub const shift = shiftOf(blocks.len);
};

/// Normal forms of Unicode 9.0.0. Hangul syllables have no entries: arithmetic composes them.
pub const forms = struct {
    pub const version = "9.0.0";
    /// Combining class << 8 | two bits for each of NFC, NFD, NFKC and NFKD.
    pub const kinds = array(u16, "forms.kinds");
    pub const kinds_blocks = array(u8, "forms.kinds_blocks");
    pub const kinds_shift = shiftOf(kinds_blocks.len);
    /// The number of the entry of a code point; 0 if it has no decomposition.
    pub const entry = array(u16, "forms.entry");
    pub const entry_blocks = array(u8, "forms.entry_blocks");
    pub const entry_shift = shiftOf(entry_blocks.len);
    /// Two numbers per entry, canonical and compatible: offset in `texts` << 8 | bytes.
    pub const entries = array(u32, "forms.entries");
    /// Decompositions in canonical order, as UTF-8.
    pub const texts = array(u8, "forms.texts");
    /// First code point << 21 | second code point, ascending, and the composition of each pair.
    pub const pairs = array(u64, "forms.pairs");
    pub const composites = array(u32, "forms.composites");
};

/// Lower case in tokenizers 0.23.3. U+0130 becomes two code points: the one here and U+0307.
pub const lower = struct {
    pub const index = array(u8, "lower.index");
    pub const index_blocks = array(u8, "lower.index_blocks");
    pub const index_shift = shiftOf(index_blocks.len);
    /// The numbers to add to code points.
    pub const deltas = array(i32, "lower.deltas");
};

/// Kinds of code points in the grapheme clusters of tokenizers 0.23.3; see normalize/graphemes.zig.
pub const graphemes = struct {
    pub const kinds = array(u8, "graphemes.kinds");
    pub const kinds_blocks = array(u8, "graphemes.kinds_blocks");
    pub const kinds_shift = shiftOf(kinds_blocks.len);
};

/// Runs of the code points of \w in Rust's regex: the first one of a run, then the one after it.
pub const words = struct {
    pub const edges = array(u32, "words.edges");
};

fn file(comptime Item: type, comptime name: []const u8) []const u8 {
    return @embedFile("tables/" ++ name ++ "." ++ @typeName(Item) ++ ".bin");
}

fn array(
    comptime Item: type,
    comptime name: []const u8,
) *const [file(Item, name).len / @sizeOf(Item)]Item {
    const Aligned = struct {
        const bytes: [file(Item, name).len]u8 align(@alignOf(Item)) = file(Item, name)[0..].*;
    };
    return @ptrCast(&Aligned.bytes);
}

/// The number of bits of a code point that are an index in its block.
fn shiftOf(comptime blocks: usize) comptime_int {
    return std.math.log2_int(usize, 0x110000 / blocks);
}

test "tables: two stages have a value for each code point" {
    inline for (.{
        .{ classes.blocks, classes.flags, classes.shift },
        .{ forms.kinds_blocks, forms.kinds, forms.kinds_shift },
        .{ forms.entry_blocks, forms.entry, forms.entry_shift },
        .{ lower.index_blocks, lower.index, lower.index_shift },
        .{ graphemes.kinds_blocks, graphemes.kinds, graphemes.kinds_shift },
    }) |table| {
        const blocks, const values, const shift = table;
        try std.testing.expectEqual(0x110000, blocks.len << shift);
        const last: usize = std.mem.max(u8, blocks);
        try std.testing.expectEqual(values.len, (last + 1) << shift);
    }
    try std.testing.expectEqual(forms.pairs.len, forms.composites.len);
    try std.testing.expect(std.sort.isSorted(u64, forms.pairs, {}, std.sort.asc(u64)));
    try std.testing.expect(std.sort.isSorted(u32, words.edges, {}, std.sort.asc(u32)));
}
