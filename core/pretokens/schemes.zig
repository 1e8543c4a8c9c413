//! Tag → hand-written scanner: one of a few families of patterns, with options.
//!
//! The patterns of most models are GPT-2's, cl100k's or o200k's with small differences. Each
//! difference is a compile-time option of its family, so no scanner pays for the options of
//! another.

pub const Tag = enum {
    r50k,
    cl100k,
    llama3,
    nanochat,
    qwen2,
    qwen35,
    o200k,
    tekken,
    deepseek3,
    falcon,
    digits_r50k,
    metaspace,
    safe,
    program,
    stages,
};

pub const Family = union(enum) {
    r50k: R50k,
    cl100k: Cl100k,
    o200k: O200k,
    deepseek3,
    falcon,
    safe,
};

/// '(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s
pub const R50k = struct {
    /// Each number is a pretoken, and the pattern applies to the text between numbers.
    splits_digits: bool = false,
};

/// '(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?[W]+|\p{N}{1,n}| ?[^\s\p{N}[W]]+[\r\n]*
/// |\s*[\r\n]|\s+(?!\S)|\s
pub const Cl100k = struct {
    /// n
    numbers_max: u2,
    /// [W] is [\p{L}\p{M}] instead of \p{L}.
    has_marks: bool = false,
    /// `\s++$|` precedes `\s*[\r\n]`: whitespace at the end of a text is one pretoken, and is not
    /// split after its last newline.
    has_end: bool = false,
};

/// [^\r\n\p{L}\p{N}]?[U]*[L]+C|[^\r\n\p{L}\p{N}]?[U]+[L]*C|\p{N}{1,n}| ?[^\s\p{L}\p{N}]+[\r\n/]*
/// |\s*[\r\n]+|\s+(?!\S)|\s+
pub const O200k = struct {
    /// n
    numbers_max: u2,
    /// C is (?i:'s|'t|'re|'ve|'m|'ll|'d)? instead of empty.
    has_contractions: bool,
};

/// Returns the family of a hand-written scanner. patterns/schemes.py maps patterns to tags.
pub fn familyOf(tag: Tag) Family {
    return switch (tag) {
        .r50k => .{ .r50k = .{} },
        .digits_r50k => .{ .r50k = .{ .splits_digits = true } },
        .cl100k => .{ .cl100k = .{ .numbers_max = 3, .has_end = true } },
        .llama3 => .{ .cl100k = .{ .numbers_max = 3 } },
        .nanochat => .{ .cl100k = .{ .numbers_max = 2 } },
        .qwen2 => .{ .cl100k = .{ .numbers_max = 1 } },
        .qwen35 => .{ .cl100k = .{ .numbers_max = 1, .has_marks = true } },
        .o200k => .{ .o200k = .{ .numbers_max = 3, .has_contractions = true } },
        .tekken => .{ .o200k = .{ .numbers_max = 1, .has_contractions = false } },
        .deepseek3 => .deepseek3,
        .falcon => .falcon,
        .metaspace, .safe => .safe,
        .program, .stages => unreachable,
    };
}
