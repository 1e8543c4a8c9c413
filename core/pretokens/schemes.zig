//! A pre-tokenizer → its scanner: one of a few families of patterns, with options.
//!
//! The patterns of most models are GPT-2's, cl100k's or o200k's with small differences. Each
//! difference is a compile-time option of its family, so no scanner pays for the options of
//! another. A new pre-tokenizer is a field of `Scheme` and a row of `familyOf`. A new family is a
//! file, too, with a row of `Scanner`.

const std = @import("std");
const Allocator = std.mem.Allocator;
const stages = @import("stages.zig");
const Program = @import("../pattern/program.zig").Program;
const Safe = @import("safe.zig").Safe;

pub const Scheme = union(enum) {
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
    /// These split at safe split points, which depend on the vocabulary.
    metaspace: Safe,
    safe: Safe,
    program: Program,
    stages: stages.Stages,

    pub const Tag = @typeInfo(Scheme).@"union".tag_type.?;

    pub fn deinit(self: *Scheme, gpa: Allocator) void {
        switch (self.*) {
            .program => |*program| program.deinit(gpa),
            .stages => |*several| several.deinit(gpa),
            else => {},
        }
    }

    /// Whether a pretoken may end inside a character.
    pub fn cutsCharacters(self: *const Scheme) bool {
        const all = switch (self.*) {
            .stages => |some| some.list,
            .falcon => return true,
            else => return false,
        };
        for (all) |stage| {
            if (stage.match == .class and stage.match.class == .spelled_digits) return true;
        }
        return false;
    }

    /// Whether a pretoken may depend on text before its start.
    pub fn looksBehind(self: *const Scheme) bool {
        return switch (self.*) {
            .program => |*program| program.looks_behind,
            .stages, .falcon => true,
            else => false,
        };
    }

    /// Returns the safe split points of a pre-tokenizer that uses them.
    pub fn safely(self: *const Scheme) ?*const Safe {
        return switch (self.*) {
            .metaspace, .safe => |*safe| safe,
            else => null,
        };
    }
};

pub const Tag = Scheme.Tag;

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

/// The scanner of a pre-tokenizer: `next`, and its `Blocks`.
pub fn Scanner(comptime tag: Tag) type {
    return switch (familyOf(tag)) {
        .r50k => |own| @import("r50k.zig").Scanner(own),
        .cl100k => |own| @import("cl100k.zig").Scanner(own),
        .o200k => |own| @import("o200k.zig").Scanner(own),
        .deepseek3 => @import("deepseek3.zig"),
        .falcon => @import("falcon.zig"),
        .safe => unreachable,
    };
}

/// The pre-tokenizers whose scanners depend on no vocabulary.
pub const hand_written = blk: {
    var all: [@intFromEnum(Tag.metaspace)]Scheme = undefined;
    for (&all, 0..) |*scheme, tag| {
        scheme.* = @unionInit(Scheme, @tagName(@as(Tag, @enumFromInt(tag))), {});
    }
    break :blk all;
};
