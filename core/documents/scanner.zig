//! A line of JSON → its values, one by one, as Python's `json.loads` accepts them.
//!
//! The scanner of json.zig is strict and reads a whole file. Here a newline ends the line, NaN and
//! Infinity are numbers, and an unpaired surrogate is U+FFFD. Strings, which are most of a line,
//! are scanned many bytes at a time, in a fifth of the instructions. Releases run it without
//! runtime checks, since it is the inner loop of reading a corpus; `make fuzz` runs it with them.
//!
//! **Invariant** the scanner never moves past a newline or the end.

const std = @import("std");
const platform = @import("../platform.zig");
const vector = platform.vector;

const lanes = 32;
const Bytes = @Vector(lanes, u8);

pub const Scanner = struct {
    data: []const u8,
    at: usize = 0,
    /// Memory for keys with escapes: `key_room` times the longest name, plus `room_extra`.
    scratch: []u8,

    pub const Error = error{ NotJson, TooDeep };

    /// Maximum nesting depth. Python's own limit is the depth of its stack, 1000 calls.
    pub const depth_max = 1000;
    /// Number of bytes that may be written after the end of a text.
    pub const room_extra = lanes;
    /// Maximum number of bytes that an escape takes per byte of a key.
    pub const key_room = 6;

    /// The use of a string. A key keeps unpaired surrogates, so it differs from all other keys and
    /// from all names in UTF-8.
    const Goal = enum { skip, text, key };

    /// Returns the next byte that is not whitespace; 0 at the end.
    pub inline fn peek(self: *Scanner) u8 {
        while (self.at < self.data.len) : (self.at += 1) {
            switch (self.data[self.at]) {
                ' ', '\t', '\r' => {},
                else => |byte| return byte,
            }
        }
        return 0;
    }

    /// Skips an optional byte.
    pub inline fn pass(self: *Scanner, byte: u8) bool {
        const is_there = self.peek() == byte;
        self.at += @intFromBool(is_there);
        return is_there;
    }

    pub inline fn expect(self: *Scanner, byte: u8) Error!void {
        if (!self.pass(byte)) return error.NotJson;
    }

    /// Fails unless the line ends here.
    pub fn endLine(self: *Scanner) Error!void {
        if (self.peek() != '\n' and self.at < self.data.len) return error.NotJson;
    }

    /// Reads a key and its colon, up to the value. Valid until the next key.
    pub fn key(self: *Scanner) Error![]const u8 {
        if (self.peek() != '"') return error.NotJson;
        const start = self.at;
        const has_escapes = try self.skipString();
        var found = self.data[start + 1 .. self.at - 1];
        // A key that is too long for a name keeps its escapes.
        if (has_escapes and found.len <= self.scratch.len - room_extra) {
            self.at = start;
            found = self.scratch[0..try self.string(.key, self.scratch)];
        }
        try self.expect(':');
        _ = self.peek();
        return found;
    }

    /// Skips the next string. Returns whether it has escapes.
    inline fn skipString(self: *Scanner) Error!bool {
        const start = self.at + 1;
        // Fast path for short strings.
        if (start + lanes <= self.data.len) {
            const stops = stopsOf(load(self.data[start..]));
            const len = @ctz(stops);
            if (stops != 0 and self.data[start + len] == '"') {
                self.at = start + len + 1;
                return false;
            }
        }
        const len = try self.string(.skip, &.{});
        return len < self.at - 1 - start;
    }

    inline fn load(data: []const u8) Bytes {
        return @as(*align(1) const Bytes, @ptrCast(data[0..lanes])).*;
    }

    /// Reads the next string and writes its characters to `out`; they may not be valid UTF-8. `out`
    /// must have capacity for the bytes of the string and `room_extra` more. Returns the number of
    /// bytes. For a skipped string with escapes, it is less than the string's length.
    pub fn string(self: *Scanner, comptime goal: Goal, out: []u8) Error!usize {
        const data = self.data;
        var at = self.at + 1;
        var len: usize = 0;
        while (true) {
            const run = at;
            while (at + lanes <= data.len) {
                const bytes = load(data[at..]);
                if (goal != .skip) {
                    const place = out[len + (at - run) ..][0..lanes];
                    @as(*align(1) Bytes, @ptrCast(place)).* = bytes;
                }
                const stops = stopsOf(bytes);
                at += @min(lanes, @ctz(stops));
                if (stops != 0) break;
            } else while (at < data.len and !isStop(data[at])) : (at += 1) {
                if (goal != .skip) out[len + (at - run)] = data[at];
            }
            len += at - run;
            if (at == data.len) return error.NotJson;
            switch (data[at]) {
                '"' => {
                    self.at = at + 1;
                    return len;
                },
                '\\' => while (true) {
                    // Text in other scripts than Latin has runs of escapes.
                    const escape = try escapeAt(data, at, goal == .key);
                    if (goal != .skip) {
                        std.mem.writeInt(u32, out[len..][0..4], escape.bytes, .little);
                    }
                    len += escape.len;
                    at += escape.passed;
                    if (at == data.len or data[at] != '\\') break;
                },
                else => return error.NotJson,
            }
        }
    }

    inline fn stopsOf(bytes: Bytes) u32 {
        const quotes = vector.bits(bytes == @as(Bytes, @splat('"')));
        const slashes = vector.bits(bytes == @as(Bytes, @splat('\\')));
        const controls = vector.bits(bytes < @as(Bytes, @splat(0x20)));
        return quotes | slashes | controls;
    }

    fn isStop(byte: u8) bool {
        return byte == '"' or byte == '\\' or byte < 0x20;
    }

    /// Skips any value at nesting depth `depth`.
    pub fn skip(self: *Scanner, depth: u32) Error!void {
        switch (self.peek()) {
            '"' => _ = try self.skipString(),
            '{', '[' => try self.skipNested(depth),
            else => try self.skipPlain(),
        }
    }

    /// Iterative, so that no line exhausts the stack.
    fn skipNested(self: *Scanner, outside: u32) Error!void {
        var is_object: [depth_max]bool = undefined;
        var depth = outside;
        while (true) {
            // A value is next.
            var is_empty = false;
            switch (self.peek()) {
                '"' => _ = try self.skipString(),
                '{', '[' => |open| {
                    if (depth == depth_max) return error.TooDeep;
                    self.at += 1;
                    is_object[depth] = open == '{';
                    depth += 1;
                    // The codes of matching brackets differ by two.
                    is_empty = self.peek() == open + 2;
                    if (!is_empty) {
                        if (open == '{') try self.skipKey();
                        continue;
                    }
                },
                else => try self.skipPlain(),
            }
            // After a value, or before the end of an empty one.
            while (true) {
                if (depth == outside) return;
                const in_object = is_object[depth - 1];
                if (self.pass(if (in_object) '}' else ']')) {
                    depth -= 1;
                    continue;
                }
                try self.expect(',');
                if (in_object) try self.skipKey();
                break;
            }
        }
    }

    fn skipKey(self: *Scanner) Error!void {
        if (self.peek() != '"') return error.NotJson;
        _ = try self.skipString();
        try self.expect(':');
    }

    /// Skips a number or a literal.
    fn skipPlain(self: *Scanner) Error!void {
        switch (self.peek()) {
            '-', '0'...'9' => if (!self.passName("-Infinity")) try self.skipNumber(),
            'n' => if (!self.passName("null")) return error.NotJson,
            't' => if (!self.passName("true")) return error.NotJson,
            'f' => if (!self.passName("false")) return error.NotJson,
            'N' => if (!self.passName("NaN")) return error.NotJson,
            'I' => if (!self.passName("Infinity")) return error.NotJson,
            else => return error.NotJson,
        }
    }

    fn passName(self: *Scanner, name: []const u8) bool {
        if (!std.mem.startsWith(u8, self.data[self.at..], name)) return false;
        self.at += name.len;
        return true;
    }

    fn skipNumber(self: *Scanner) Error!void {
        if (self.data[self.at] == '-') self.at += 1;
        const is_zero = self.current() == '0';
        if (is_zero) self.at += 1 else try self.skipDigits();
        if (self.current() == '.') {
            self.at += 1;
            try self.skipDigits();
        }
        if (self.current() | 0x20 == 'e') {
            self.at += 1;
            if (self.current() == '+' or self.current() == '-') self.at += 1;
            try self.skipDigits();
        }
    }

    fn skipDigits(self: *Scanner) Error!void {
        const start = self.at;
        while (self.current() -% '0' < 10) self.at += 1;
        if (self.at == start) return error.NotJson;
    }

    inline fn current(self: *Scanner) u8 {
        return if (self.at < self.data.len) self.data[self.at] else 0;
    }
};

/// The UTF-8 of a character, with the first byte lowest, and the length of its escape.
const Escape = struct {
    bytes: u32,
    len: usize,
    passed: usize,

    /// Unpaired surrogates are encoded like any other code point.
    inline fn of(code_point: u32, passed: usize) Escape {
        const c = code_point;
        const tail = 0x80 | (c & 0x3f);
        const middle = 0x80 | (c >> 6 & 0x3f);
        if (c < 0x80) return .{ .bytes = c, .len = 1, .passed = passed };
        if (c < 0x800) {
            return .{ .bytes = 0xc0 | c >> 6 | tail << 8, .len = 2, .passed = passed };
        }
        if (c < 0x10000) {
            const bytes = 0xe0 | c >> 12 | middle << 8 | tail << 16;
            return .{ .bytes = bytes, .len = 3, .passed = passed };
        }
        const second = 0x80 | (c >> 12 & 0x3f);
        const bytes = 0xf0 | c >> 18 | second << 8 | middle << 16 | tail << 24;
        return .{ .bytes = bytes, .len = 4, .passed = passed };
    }
};

/// Returns the meaning of a backslash and the bytes after it.
inline fn escapeAt(data: []const u8, at: usize, keep_halves: bool) Scanner.Error!Escape {
    if (at + 1 == data.len) return error.NotJson;
    const plain = escapes[data[at + 1]];
    if (plain != 0) return .{ .bytes = plain, .len = 1, .passed = 2 };
    const unit = try unitAt(data, at);
    if (unit & 0xf800 != 0xd800) return .of(unit, 6);
    if (unit < 0xdc00 and at + 7 < data.len and data[at + 6] == '\\' and data[at + 7] == 'u') {
        const second = try unitAt(data, at + 6);
        if (second & 0xfc00 == 0xdc00) {
            return .of(0x10000 + ((unit & 0x3ff) << 10) + (second & 0x3ff), 12);
        }
    }
    return .of(if (keep_halves) unit else 0xfffd, 6);
}

const escapes: [256]u8 = blk: {
    var table: [256]u8 = @splat(0);
    for ("\"\\/bfnrt", "\"\\/\x08\x0c\n\r\t") |name, byte| table[name] = byte;
    break :blk table;
};

/// Returns the code unit of `\uXXXX`.
inline fn unitAt(data: []const u8, at: usize) Scanner.Error!u32 {
    if (data.len - at < 6 or data[at + 1] != 'u') return error.NotJson;
    var unit: u32 = 0;
    inline for (data[at + 2 ..][0..4], 0..) |byte, place| unit |= digits[place][byte];
    if (unit > 0xffff) return error.NotJson;
    return unit;
}

/// The value of each hexadecimal digit at each of four positions. Other bytes give an invalid code
/// unit.
const digits: [4][256]u32 = blk: {
    @setEvalBranchQuota(10_000);
    var tables: [4][256]u32 = @splat(@splat(1 << 16));
    for (&tables, 0..) |*table, place| {
        const shift = 4 * (3 - place);
        for ("0123456789abcdef", 0..) |byte, value| table[byte] = value << shift;
        for ("ABCDEF", 10..) |byte, value| table[byte] = value << shift;
    }
    break :blk tables;
};
