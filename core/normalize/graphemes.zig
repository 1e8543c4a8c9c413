//! Text → extended grapheme clusters of Unicode 16.0.0 (annex 29), as in the crate
//! `unicode-segmentation` that Hugging Face's tokenizers use.
//!
//! An invalid sequence is a cluster of its own.

const std = @import("std");
const tables = @import("../unicode/tables.zig").graphemes;
const unicode = @import("../unicode.zig");

/// Grapheme_Cluster_Break. unicode/generate_forms.py has the same numbers.
const Break = enum(u4) {
    other,
    cr,
    lf,
    control,
    extend,
    zwj,
    regional_indicator,
    prepend,
    spacing_mark,
    l,
    v,
    t,
    lv,
    lvt,
    _,
};

/// Indic_Conjunct_Break.
const Conjunct = enum(u2) { none, consonant, linker, extend };

const Kind = packed struct(u8) {
    @"break": Break,
    conjunct: Conjunct,
    is_pictograph: bool,
    unused: u1 = 0,
};

fn kindOf(text: []const u8, index: usize, len: *usize) Kind {
    const char = unicode.decode(text, index);
    len.* = char.len;
    const is_invalid = char.code_point == unicode.replacement and
        !std.mem.startsWith(u8, text[index..], "\u{FFFD}");
    if (is_invalid) return .{ .@"break" = .control, .conjunct = .none, .is_pictograph = false };
    const block: usize = tables.kinds_blocks[char.code_point >> tables.kinds_shift];
    const low = char.code_point & ((1 << tables.kinds_shift) - 1);
    return @bitCast(tables.kinds[block << tables.kinds_shift | low]);
}

/// The state of the rules within a cluster.
const State = struct {
    last: Break,
    /// \p{Extended_Pictographic} Extend*, and whether a ZWJ has followed.
    pictograph: enum { no, yes, joined } = .no,
    /// A consonant with extends, and whether they include a linker.
    conjunct: enum { no, yes, linked } = .no,
    /// A single regional indicator, which can be paired with the next.
    is_half_flag: bool,

    fn init(kind: Kind) State {
        return .{
            .last = kind.@"break",
            .pictograph = if (kind.is_pictograph) .yes else .no,
            .conjunct = if (kind.conjunct == .consonant) .yes else .no,
            .is_half_flag = kind.@"break" == .regional_indicator,
        };
    }

    /// Whether a character belongs to the cluster.
    fn joins(self: *const State, kind: Kind) bool {
        const next = kind.@"break";
        switch (self.last) {
            .cr => return next == .lf,
            .lf, .control => return false,
            else => {},
        }
        switch (next) {
            .cr, .lf, .control => return false,
            .extend, .zwj, .spacing_mark => return true,
            else => {},
        }
        if (self.last == .prepend) return true;
        if (self.conjunct == .linked and kind.conjunct == .consonant) return true;
        if (self.pictograph == .joined and kind.is_pictograph) return true;
        if (self.is_half_flag and next == .regional_indicator) return true;
        return switch (self.last) {
            .l => next == .l or next == .v or next == .lv or next == .lvt,
            .lv, .v => next == .v or next == .t,
            .lvt, .t => next == .t,
            else => false,
        };
    }

    fn add(self: *State, kind: Kind) void {
        const next = kind.@"break";
        self.is_half_flag = next == .regional_indicator and !self.is_half_flag;
        if (kind.is_pictograph) {
            self.pictograph = .yes;
        } else if (self.pictograph != .no) {
            self.pictograph = if (next == .zwj and self.pictograph == .yes)
                .joined
            else if (next == .extend) .yes else .no;
        }
        if (kind.conjunct == .consonant) {
            self.conjunct = .yes;
        } else if (self.conjunct != .no) {
            if (kind.conjunct == .linker) self.conjunct = .linked;
            if (kind.conjunct == .none) self.conjunct = .no;
        }
        self.last = next;
    }
};

/// Returns the end of the cluster at `start`, which must be below `text.len`.
pub fn end(text: []const u8, start: usize) usize {
    // Two ASCII characters form a cluster only if they are CR and LF.
    if (text[start] < 0x80 and text[start] != '\r') {
        if (start + 1 == text.len or text[start + 1] < 0x80) return start + 1;
    }
    var len: usize = undefined;
    var state: State = .init(kindOf(text, start, &len));
    var index = start + len;
    while (index < text.len) {
        const kind = kindOf(text, index, &len);
        if (!state.joins(kind)) break;
        state.add(kind);
        index += len;
    }
    return index;
}
