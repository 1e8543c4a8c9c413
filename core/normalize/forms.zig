//! Text → its normal form: NFC, NFD, NFKC or NFKD of Unicode 9.0.0, the version in Hugging Face.
//!
//! Nearly all text is in NFC already, so the main task is to detect that quickly. A character is
//! plain (it never changes, and never affects the text before it), a mark that is correct if marks
//! are in order, or suspicious. The scan skips 32 bytes at a time if no byte can begin a character
//! that is not plain, and looks up the others. At a suspicious character, the text from the plain
//! character before it to the next one is decomposed, ordered and composed separately. No form
//! crosses a plain character.
//!
//! Invalid UTF-8 is plain: it stays, and no composition crosses it.
//! Source: The Unicode Standard, section 3.11 and annex 15.

const std = @import("std");
const platform = @import("../platform.zig");
const vector = platform.vector;
const examples = @import("../examples.zig").examples;
const tables = @import("../unicode/tables.zig").forms;
const unicode = @import("../unicode.zig");
const Output = @import("output.zig").Output;

const Allocator = std.mem.Allocator;

pub const Form = enum(u8) {
    nfc,
    nfd,
    nfkc,
    nfkd,

    fn composes(form: Form) bool {
        return form == .nfc or form == .nfkc;
    }
    fn isCompatible(form: Form) bool {
        return form == .nfkc or form == .nfkd;
    }
    /// Smaller bytes begin only plain characters.
    fn byteMin(form: Form) u8 {
        return switch (form) {
            .nfc => 0xCC,
            .nfd => 0xC3,
            .nfkc, .nfkd => 0xC2,
        };
    }
};

/// How a form treats a character. unicode/generate_forms.py has the same numbers.
const Kind = enum(u2) { plain, ordered, look, _ };

inline fn entryOf(code_point: u32) u16 {
    const block: usize = tables.kinds_blocks[code_point >> tables.kinds_shift];
    const low = code_point & ((1 << tables.kinds_shift) - 1);
    return tables.kinds[block << tables.kinds_shift | low];
}

inline fn kindOf(form: Form, entry: u16) Kind {
    const shift: u3 = @intCast(@intFromEnum(form) * 2);
    return @enumFromInt(@as(u2, @truncate(entry >> shift)));
}

/// Returns the combining class of a mark, 256 for a plain character, and -1 for a suspicious one.
inline fn orderOf(comptime form: Form, code_point: u32) i32 {
    const entry = entryOf(code_point);
    const of_kind = [4]i32{ 256, 0, -1, -1 };
    return @as(i32, entry >> 8) | of_kind[@intFromEnum(kindOf(form, entry))];
}

/// Whether no form crosses the boundary before a character.
pub fn isPlain(form: Form, code_point: u21) bool {
    return kindOf(form, entryOf(code_point)) == .plain;
}

fn combiningOf(code_point: u21) u8 {
    return @intCast(entryOf(code_point) >> 8);
}

const lanes = 32;
const Bytes = @Vector(lanes, u8);
const Mask = @Int(.unsigned, lanes);

/// Returns the bytes that may begin a character that is not plain. E4 to E9 begin only ideographs,
/// and EB and EC only Hangul syllables, which are already composed.
inline fn suspects(comptime form: Form, bytes: Bytes) Mask {
    const all = vector.bits(bytes >= @as(Bytes, @splat(form.byteMin())));
    const ideographs = vector.bits(bytes -% @as(Bytes, @splat(0xE4)) < @as(Bytes, @splat(6)));
    if (!comptime form.composes()) return all & ~ideographs;
    const syllables = vector.bits(bytes -% @as(Bytes, @splat(0xEB)) < @as(Bytes, @splat(2)));
    return all & ~(ideographs | syllables);
}

/// Returns the non-ASCII character at `index` as code point << 3 | length. A struct of the two
/// would be stored and loaded with different sizes, which halves the speed.
inline fn decode(text: []const u8, index: usize) u32 {
    const first: u32 = text[index];
    if (first & 0xF0 == 0xE0 and text.len - index >= 3) {
        const second: u32 = text[index + 1] ^ 0x80;
        const third: u32 = text[index + 2] ^ 0x80;
        const code_point = (first & 0x0F) << 12 | second << 6 | third;
        // Neither an overlong encoding nor a surrogate.
        const is_right = code_point >= 0x800 and code_point -% 0xD800 >= 0x800;
        if (second | third < 0x40 and is_right) return code_point << 3 | 3;
    }
    return decodeOther(text, index);
}

noinline fn decodeOther(text: []const u8, index: usize) u32 {
    const char = unicode.decode(text, index);
    return @as(u32, char.code_point) << 3 | char.len;
}

/// The state of a scan over the characters that may not be plain.
const Scan = struct {
    /// End and combining class of the last one.
    end: usize = 0,
    combining: i32 = 0,

    /// Whether the character at `index` is correct there without decomposition. Scripts with marks
    /// have many, so a branch for each would often be mispredicted.
    inline fn isRight(self: *Scan, comptime form: Form, text: []const u8, index: usize) bool {
        const char = decode(text, index);
        const order = orderOf(form, char >> 3);
        const before = if (self.end == index) self.combining else 0;
        self.end = index + (char & 7);
        self.combining = order & 0xFF;
        return order >= before;
    }
};

/// Returns the first character from `from` that is suspicious or a mark out of order; `text.len` if
/// there is none. The character before `from` must not be a mark.
fn next(comptime form: Form, text: []const u8, from: usize) usize {
    var scan: Scan = .{};
    var index = from;
    while (text.len - index >= lanes) : (index += lanes) {
        var mask = suspects(form, text[index..][0..lanes].*);
        while (mask != 0) : (mask &= mask - 1) {
            const at = index + @ctz(mask);
            if (!scan.isRight(form, text, at)) return at;
        }
    }
    while (index < text.len) : (index += 1) {
        if (text[index] < comptime form.byteMin()) continue;
        if (!scan.isRight(form, text, index)) return index;
    }
    return index;
}

/// Returns the start of the segment around `index`: a plain character, or `least`.
fn partStart(form: Form, text: []const u8, least: usize, index: usize) usize {
    var start = index;
    while (start > least) {
        const char = unicode.decodeBefore(text, start);
        start -= char.len;
        if (isPlain(form, char.code_point)) break;
    }
    return start;
}

fn partEnd(form: Form, text: []const u8, index: usize) usize {
    var end = index;
    while (end < text.len) {
        const char = unicode.decode(text, end);
        if (isPlain(form, char.code_point)) break;
        end += char.len;
    }
    return end;
}

/// Writes the normal form of `output.old`, and returns whether it differs.
pub fn write(form: Form, output: *Output) error{OutOfMemory}!bool {
    return switch (form) {
        inline else => |known| writeForm(known, output),
    };
}

fn writeForm(comptime form: Form, output: *Output) error{OutOfMemory}!bool {
    const text = output.old;
    var index = next(form, text, 0);
    if (index == text.len) return false;
    var part: Part = .{ .gpa = output.gpa };
    defer part.deinit();
    var changed = false;
    var done: usize = 0;
    while (index < text.len) {
        const start = partStart(form, text, done, index);
        done = partEnd(form, text, index);
        try part.fill(form, text[start..done]);
        if (!part.equals(text[start..done])) {
            changed = true;
            try output.keep(start);
            for (part.chars.items) |char| try char.writeTo(output);
            // Needed if the output has no alignment, since `put` then does not advance.
            output.cursor = done;
        }
        index = next(form, text, done);
    }
    if (changed) try output.keep(text.len);
    return changed;
}

/// A character of a segment. It replaces 1 - `change` old ones.
const PartChar = struct {
    /// A code point, or an invalid sequence, which stays unchanged.
    code_point: u21,
    combining: u8,
    change: i32,
    raw: [3]u8 = undefined,
    raw_len: u2 = 0,

    fn lessThan(_: void, left: PartChar, right: PartChar) bool {
        return left.combining < right.combining;
    }

    fn encode(self: *const PartChar, buffer: *[4]u8) []const u8 {
        if (self.raw_len > 0) return self.raw[0..self.raw_len];
        const len = std.unicode.utf8Encode(self.code_point, buffer) catch unreachable;
        return buffer[0..len];
    }

    fn writeTo(self: *const PartChar, output: *Output) !void {
        var buffer: [4]u8 = undefined;
        try output.put(self.encode(&buffer), self.change);
    }
};

const Part = struct {
    gpa: Allocator,
    chars: std.ArrayList(PartChar) = .empty,

    fn deinit(self: *Part) void {
        self.chars.deinit(self.gpa);
    }

    fn fill(self: *Part, form: Form, text: []const u8) !void {
        self.chars.clearRetainingCapacity();
        var index: usize = 0;
        while (index < text.len) {
            const char = unicode.decode(text, index);
            const bytes = text[index..][0..char.len];
            index += char.len;
            if (char.code_point == unicode.replacement and !std.mem.eql(u8, bytes, "\u{FFFD}")) {
                var raw: PartChar = .{ .code_point = char.code_point, .combining = 0, .change = 0 };
                @memcpy(raw.raw[0..bytes.len], bytes);
                raw.raw_len = @intCast(bytes.len);
                try self.chars.append(self.gpa, raw);
            } else {
                try self.decompose(form, char.code_point);
            }
        }
        try self.order();
        if (form.composes()) self.compose();
    }

    fn decompose(self: *Part, form: Form, code_point: u21) !void {
        if (code_point -% hangul.first < hangul.count) return self.decomposeHangul(code_point);
        const block: usize = tables.entry_blocks[code_point >> tables.entry_shift];
        const low = code_point & ((1 << tables.entry_shift) - 1);
        const entry = tables.entry[block << tables.entry_shift | low];
        if (entry == 0) return self.append(code_point, true);
        const found = tables.entries[@as(usize, entry) * 2 + @intFromBool(form.isCompatible())];
        const text = tables.texts[found >> 8 ..][0 .. found & 0xFF];
        var index: usize = 0;
        while (index < text.len) {
            const char = unicode.decode(text, index);
            try self.append(char.code_point, index == 0);
            index += char.len;
        }
    }

    fn decomposeHangul(self: *Part, syllable: u21) !void {
        const number = syllable - hangul.first;
        const final = number % hangul.finals;
        const vowel = number / hangul.finals % hangul.vowels;
        try self.append(hangul.lead_first + number / hangul.finals / hangul.vowels, true);
        try self.append(hangul.vowel_first + vowel, false);
        if (final > 0) try self.append(hangul.final_before + final, false);
    }

    fn append(self: *Part, code_point: u21, is_first: bool) !void {
        try self.chars.append(self.gpa, .{
            .code_point = code_point,
            .combining = combiningOf(code_point),
            .change = if (is_first) 0 else 1,
        });
    }

    /// Sorts each run of marks by combining class; the sort is stable.
    fn order(self: *Part) !void {
        const chars = self.chars.items;
        var start: usize = 0;
        while (start < chars.len) : (start += 1) {
            if (chars[start].combining == 0) continue;
            var end = start + 1;
            while (end < chars.len and chars[end].combining != 0) end += 1;
            const run = chars[start..end];
            if (run.len <= 16) {
                std.sort.insertion(PartChar, run, {}, PartChar.lessThan);
            } else {
                try self.orderLong(run);
            }
            start = end - 1;
        }
    }

    /// Sorts a run by counting: linear time for runs of any length.
    fn orderLong(self: *Part, run: []PartChar) !void {
        const copy = try self.gpa.dupe(PartChar, run);
        defer self.gpa.free(copy);
        var targets: [256]usize = @splat(0);
        for (copy) |char| targets[char.combining] += 1;
        var before: usize = 0;
        for (&targets) |*count| {
            before += count.*;
            count.* = before - count.*;
        }
        for (copy) |char| {
            run[targets[char.combining]] = char;
            targets[char.combining] += 1;
        }
    }

    /// Composes a character with the last starter before it unless a character between them blocks
    /// it.
    fn compose(self: *Part) void {
        const chars = self.chars.items;
        var len: usize = 0;
        var starter: ?usize = null;
        for (chars) |char| {
            if (starter) |at| {
                // The previous character is the starter itself, or a mark that was not composed.
                const is_next = len == at + 1;
                if (is_next or chars[len - 1].combining < char.combining) {
                    if (composite(&chars[at], &char)) |code_point| {
                        chars[at].code_point = code_point;
                        chars[at].change += char.change - 1;
                        continue;
                    }
                }
            }
            if (char.combining == 0) starter = len;
            chars[len] = char;
            len += 1;
        }
        self.chars.shrinkRetainingCapacity(len);
    }

    fn equals(self: *const Part, text: []const u8) bool {
        var index: usize = 0;
        for (self.chars.items) |*char| {
            var buffer: [4]u8 = undefined;
            const bytes = char.encode(&buffer);
            if (!std.mem.startsWith(u8, text[index..], bytes)) return false;
            index += bytes.len;
        }
        return index == text.len;
    }
};

const hangul = struct {
    const first = 0xAC00;
    const count = 11172;
    const lead_first = 0x1100;
    const vowel_first = 0x1161;
    const final_before = 0x11A7;
    const leads = 19;
    const vowels = 21;
    const finals = 28;
};

fn composite(left: *const PartChar, right: *const PartChar) ?u21 {
    if (left.raw_len > 0 or right.raw_len > 0) return null;
    const a = left.code_point;
    const b = right.code_point;
    if (a -% hangul.lead_first < hangul.leads and b -% hangul.vowel_first < hangul.vowels) {
        const number = (a - hangul.lead_first) * hangul.vowels + (b - hangul.vowel_first);
        return hangul.first + number * hangul.finals;
    }
    if (a -% hangul.first < hangul.count and (a - hangul.first) % hangul.finals == 0 and
        b -% (hangul.final_before + 1) < hangul.finals - 1)
    {
        return a + (b - hangul.final_before);
    }
    const key = @as(u64, a) << 21 | b;
    const index = std.sort.binarySearch(u64, tables.pairs, key, compareKeys) orelse return null;
    return @intCast(tables.composites[index]);
}

fn compareKeys(key: u64, other: u64) std.math.Order {
    return std.math.order(key, other);
}

test "forms: bytes that the scan skips begin only plain characters" {
    inline for (comptime std.enums.values(Form)) |form| {
        var code_point: u21 = 0x80;
        while (code_point <= 0x10FFFF) : (code_point += 1) {
            if (code_point >= 0xD800 and code_point <= 0xDFFF) continue;
            var buffer: [4]u8 = undefined;
            _ = try std.unicode.utf8Encode(code_point, &buffer);
            const is_suspect = suspects(form, @splat(buffer[0])) != 0;
            try std.testing.expect(is_suspect or isPlain(form, code_point));
            try std.testing.expectEqual(code_point, decode(&buffer, 0) >> 3);
        }
    }
}

/// The reference implementation of `next`: one character at a time.
fn nextSlowly(form: Form, text: []const u8, from: usize) usize {
    var before: u8 = 0;
    var index = from;
    while (index < text.len) {
        const char = unicode.decode(text, index);
        const combining = combiningOf(char.code_point);
        switch (kindOf(form, entryOf(char.code_point))) {
            .plain => before = 0,
            .ordered => {
                if (combining < before) return index;
                before = combining;
            },
            else => return index,
        }
        index += char.len;
    }
    return index;
}

test "forms: the scan stops at the same offset as the reference, from any start" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    const parts = [_][]const u8{
        "a",        "word ",    "\u{e9}",   "\u{301}",  "\u{323}", "\u{e38}", "\u{e48}",
        "\u{e01}",  "\u{4f60}", "\u{ac00}", "\u{1161}", "\u{f73}", "\xE0",    "\xCC",
        "\xE3\x82", "\u{3099}", "\u{304b}", "\u{fb01}", "\x80",    "\u{bd}",  "\u{1d165}",
    };
    var text: [300]u8 = undefined;
    for (0..examples(20_000)) |_| {
        var kinds: [4][]const u8 = undefined;
        for (&kinds) |*kind| kind.* = parts[random.uintLessThan(usize, parts.len)];
        // Mostly plain, so that the scan gets far.
        const odd_share = random.uintLessThan(u8, 60);
        var len: usize = 0;
        while (len + 8 < text.len) {
            const odd = random.uintLessThan(u8, 100) < odd_share;
            const part = if (odd) kinds[random.uintLessThan(usize, kinds.len)] else "\u{e01}b";
            @memcpy(text[len..][0..part.len], part);
            len += part.len;
        }
        inline for (comptime std.enums.values(Form)) |form| {
            var index: usize = 0;
            while (index < len) {
                const wanted = nextSlowly(form, text[0..len], index);
                try std.testing.expectEqual(wanted, next(form, text[0..len], index));
                index = partEnd(form, text[0..len], @max(wanted, index));
                if (index < len) index += unicode.decode(text[0..len], index).len;
            }
        }
    }
}
