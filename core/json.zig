//! JSON → its values, one by one: strict as RFC 8259, over arbitrary bytes.
//!
//! No objects are built. The caller requests the value that should come next, and skips others.
//! Skipped values are validated too.
//!
//! **Invariant** `at` never passes the end, and advances with every value, so reading is linear.

const std = @import("std");
const Allocator = std.mem.Allocator;

/// Maximum nesting depth. Real files have about ten levels.
pub const depth_max = 64;

pub const Error = error{ OutOfMemory, InvalidJson };

pub const Scanner = struct {
    text: []const u8,
    at: usize = 0,
    /// After an error: the error at offset `at`.
    problem: []const u8 = "",

    pub fn fail(self: *Scanner, problem: []const u8) error{InvalidJson} {
        self.problem = problem;
        return error.InvalidJson;
    }

    /// Returns the next byte that is not whitespace; null at the end.
    pub fn peek(self: *Scanner) ?u8 {
        @setRuntimeSafety(true);
        while (self.at < self.text.len) : (self.at += 1) {
            switch (self.text[self.at]) {
                ' ', '\t', '\n', '\r' => {},
                else => |byte| return byte,
            }
        }
        return null;
    }

    /// Skips an optional byte.
    pub fn pass(self: *Scanner, byte: u8) bool {
        const found = self.peek() == byte;
        self.at += @intFromBool(found);
        return found;
    }

    pub fn expect(self: *Scanner, comptime byte: u8) Error!void {
        if (!self.pass(byte)) return self.fail("expected '" ++ .{byte} ++ "'");
    }

    pub fn end(self: *Scanner) Error!void {
        if (self.peek() != null) return self.fail("unexpected data after the end");
    }

    /// Whether an array or object has another value. The caller keeps `is_first`; `close` ends the
    /// array or object.
    pub fn more(self: *Scanner, comptime close: u8, is_first: *bool) Error!bool {
        if (self.pass(close)) return false;
        if (!is_first.*) try self.expect(',');
        is_first.* = false;
        return true;
    }

    /// Appends the characters of a string to `out`. They may not be valid UTF-8.
    pub fn string(self: *Scanner, gpa: Allocator, out: *std.ArrayList(u8)) Error!void {
        @setRuntimeSafety(true);
        try self.expect('"');
        while (true) {
            try out.appendSlice(gpa, self.plain());
            switch (try self.stop()) {
                '"' => return,
                else => {
                    var bytes: [4]u8 = undefined;
                    const len = try self.escape(&bytes);
                    try out.appendSlice(gpa, bytes[0..len]);
                },
            }
        }
    }

    fn skipString(self: *Scanner) Error!void {
        try self.expect('"');
        while (true) {
            _ = self.plain();
            if (try self.stop() == '"') return;
            var bytes: [4]u8 = undefined;
            _ = try self.escape(&bytes);
        }
    }

    /// Returns the bytes of a string up to the first that needs special handling.
    fn plain(self: *Scanner) []const u8 {
        @setRuntimeSafety(true);
        const start = self.at;
        for (self.text[start..]) |byte| {
            if (byte == '"' or byte == '\\' or byte < 0x20) break;
            self.at += 1;
        }
        return self.text[start..self.at];
    }

    /// Reads the byte that ended `plain`: a quotation mark or a backslash.
    fn stop(self: *Scanner) Error!u8 {
        @setRuntimeSafety(true);
        if (self.at == self.text.len) return self.fail("unterminated string");
        const byte = self.text[self.at];
        if (byte < 0x20) return self.fail("control character in a string");
        self.at += 1;
        return byte;
    }

    /// Reads an escape after its backslash, and writes its UTF-8.
    fn escape(self: *Scanner, out: *[4]u8) Error!usize {
        @setRuntimeSafety(true);
        if (self.at == self.text.len) return self.fail("unterminated string");
        const byte = self.text[self.at];
        self.at += 1;
        out[0] = switch (byte) {
            '"', '\\', '/' => byte,
            'b' => 0x08,
            'f' => 0x0c,
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.codePoint(out),
            else => {
                self.at -= 1;
                return self.fail("invalid escape sequence");
            },
        };
        return 1;
    }

    fn codePoint(self: *Scanner, out: *[4]u8) Error!usize {
        @setRuntimeSafety(true);
        var found: u21 = try self.hexadecimal();
        switch (found) {
            0xd800...0xdbff => {
                const is_escaped = std.mem.startsWith(u8, self.text[self.at..], "\\u");
                if (!is_escaped) return self.fail("unpaired surrogate");
                self.at += 2;
                const low: u21 = try self.hexadecimal();
                if (low < 0xdc00 or low > 0xdfff) return self.fail("unpaired surrogate");
                found = 0x10000 + ((found - 0xd800) << 10) + (low - 0xdc00);
            },
            0xdc00...0xdfff => return self.fail("unpaired surrogate"),
            else => {},
        }
        return std.unicode.utf8Encode(found, out) catch unreachable;
    }

    fn hexadecimal(self: *Scanner) Error!u16 {
        @setRuntimeSafety(true);
        if (self.text.len - self.at < 4) return self.fail("expected four hexadecimal digits");
        var found: u16 = 0;
        for (self.text[self.at..][0..4]) |byte| {
            const value = std.fmt.charToDigit(byte, 16) catch
                return self.fail("expected four hexadecimal digits");
            found = found << 4 | value;
        }
        self.at += 4;
        return found;
    }

    /// Reads a non-negative integer up to `limit`, which must leave space for another digit.
    pub fn whole(self: *Scanner, limit: u32) Error!u32 {
        @setRuntimeSafety(true);
        const first = self.peek() orelse return self.fail("expected a number");
        if (first < '0' or first > '9') return self.fail("expected a non-negative integer");
        const start = self.at;
        var found: u64 = 0;
        while (self.digit()) |value| {
            found = found * 10 + value;
            if (found > limit) return self.fail("number is too large");
        }
        if (first == '0' and self.at - start > 1) return self.fail("number with a leading zero");
        if (self.at < self.text.len) switch (self.text[self.at]) {
            '.', 'e', 'E' => return self.fail("expected a non-negative integer"),
            else => {},
        };
        return @intCast(found);
    }

    fn digit(self: *Scanner) ?u8 {
        @setRuntimeSafety(true);
        if (self.at == self.text.len) return null;
        const byte = self.text[self.at];
        if (byte < '0' or byte > '9') return null;
        self.at += 1;
        return byte - '0';
    }

    fn skipDigits(self: *Scanner) Error!void {
        if (self.digit() == null) return self.fail("expected a digit");
        while (self.digit()) |_| {}
    }

    fn skipNumber(self: *Scanner) Error!void {
        @setRuntimeSafety(true);
        _ = self.pass('-');
        const start = self.at;
        try self.skipDigits();
        if (self.text[start] == '0' and self.at - start > 1) {
            return self.fail("number with a leading zero");
        }
        if (self.at < self.text.len and self.text[self.at] == '.') {
            self.at += 1;
            try self.skipDigits();
        }
        if (self.at < self.text.len and (self.text[self.at] | 0x20) == 'e') {
            self.at += 1;
            if (self.at < self.text.len) switch (self.text[self.at]) {
                '+', '-' => self.at += 1,
                else => {},
            };
            try self.skipDigits();
        }
    }

    /// Skips any value at nesting depth `depth`.
    pub fn skip(self: *Scanner, depth: u32) Error!void {
        @setRuntimeSafety(true);
        switch (self.peek() orelse return self.fail("expected a value")) {
            '{', '[' => |open| {
                if (depth == depth_max) return self.fail("values are nested too deep");
                self.at += 1;
                var is_first = true;
                if (open == '[') {
                    while (try self.more(']', &is_first)) try self.skip(depth + 1);
                } else {
                    while (try self.more('}', &is_first)) {
                        try self.skipString();
                        try self.expect(':');
                        try self.skip(depth + 1);
                    }
                }
            },
            '"' => try self.skipString(),
            '-', '0'...'9' => try self.skipNumber(),
            else => {
                for ([_][]const u8{ "null", "true", "false" }) |name| {
                    if (std.mem.startsWith(u8, self.text[self.at..], name)) {
                        self.at += name.len;
                        return;
                    }
                }
                return self.fail("not a JSON value");
            },
        }
    }
};

fn skipped(text: []const u8) Error!void {
    var scanner: Scanner = .{ .text = text };
    try scanner.skip(0);
    try scanner.end();
}

test "json: RFC 8259 is accepted, and all other input is rejected" {
    const good = [_][]const u8{
        "null",       " true ",                         "[]",                           "{}",
        "[ ]",        "0",                              "-0",                           "10",
        "1.5e-7",     "1E+2",                           "\"\"",                         "-1.25",
        "[1,[2],{}]", "{\"a\":{\"b\":[null]},\"a\":1}", "\"\\u00e9\\ud83d\\ude00\\n\"", "false",
        "-1e1",       "\t[\r\n1 , 2 ]",
    };
    for (good) |text| try skipped(text);
    const bad = [_][]const u8{
        "",        "nul",      "nulll",              "[",             "]",        "[1,]",
        "{\"a\"}", "{a:1}",    "{\"a\":}",           "{\"a\":1,}",    "01",       "+1",
        "1.",      ".5",       "1e",                 "- 1",           "\"a",      "\"\\x\"",
        "NaN",     "\"\x01\"", "\"\\u12\"",          "[1 2]",         "1 2",      "\"\\ud800\"",
        "'a'",     "\"\\",     "\"\\u",              "\xef\xbb\xbf1", "Infinity", "\"\\udc00\"",
        "-",       "[1,,2]",   "\"\\ud800\\u0041\"",
    };
    for (bad) |text| try std.testing.expectError(error.InvalidJson, skipped(text));
}

test "json: values can be nested up to a limit" {
    var text: [2 * depth_max + 2]u8 = undefined;
    @memset(text[0 .. depth_max + 1], '[');
    @memset(text[depth_max + 1 ..], ']');
    try skipped(text[1 .. text.len - 1]);
    try std.testing.expectError(error.InvalidJson, skipped(&text));
}

test "json: escapes in a string are decoded" {
    const gpa = std.testing.allocator;
    var out: std.ArrayList(u8) = .empty;
    defer out.deinit(gpa);
    var scanner: Scanner = .{ .text = " \"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00é\" " };
    try scanner.string(gpa, &out);
    try scanner.end();
    try std.testing.expectEqualStrings("a\"\\/\x08\x0c\n\r\té😀é", out.items);
}

test "json: only non-negative integers are accepted as whole numbers" {
    const cases = .{ .{ "0", 0 }, .{ "17 ", 17 }, .{ " 99,", 99 } };
    inline for (cases) |case| {
        var scanner: Scanner = .{ .text = case[0] };
        try std.testing.expectEqual(@as(u32, case[1]), try scanner.whole(99));
    }
    for ([_][]const u8{ "100", "-1", "1.0", "1e1", "01", "", "a", "9" ** 30 }) |text| {
        var scanner: Scanner = .{ .text = text };
        try std.testing.expectError(error.InvalidJson, scanner.whole(99));
    }
}
