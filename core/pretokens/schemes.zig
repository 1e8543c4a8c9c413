//! Tag → hand-written scheme: one of a few families of patterns, and what is its own there.
//!
//! The patterns of most models are GPT-2's, cl100k's or o200k's but for a detail. Each detail is
//! an option of its family, known when the core is compiled: no scheme pays for another one's.

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
    /// Each number is a pretoken, and the pattern is for what lies between them.
    splits_digits: bool = false,
};

/// '(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?[W]+|\p{N}{1,n}| ?[^\s\p{N}[W]]+[\r\n]*
/// |\s*[\r\n]|\s+(?!\S)|\s
pub const Cl100k = struct {
    /// n
    numbers_max: u2,
    /// [W] is [\p{L}\p{M}] and not \p{L}.
    has_marks: bool = false,
    /// `\s++$|` comes before `\s*[\r\n]`: the white space at the end of a text is one pretoken,
    /// and not cut behind its last newline.
    has_end: bool = false,
};

/// [^\r\n\p{L}\p{N}]?[U]*[L]+C|[^\r\n\p{L}\p{N}]?[U]+[L]*C|\p{N}{1,n}| ?[^\s\p{L}\p{N}]+[\r\n/]*
/// |\s*[\r\n]+|\s+(?!\S)|\s+
pub const O200k = struct {
    /// n
    numbers_max: u2,
    /// C is (?i:'s|'t|'re|'ve|'m|'ll|'d)? and not nothing.
    has_contractions: bool,
};

/// The family of a hand-written scheme. Which patterns each stands for is in schemes.py.
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
