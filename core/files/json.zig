//! JSON → its values, one after the other: strict as RFC 8259, over bytes that may be anything.
//!
//! Nothing is built: a reader asks for what should come next, and skips what it does not want.
//! Everything that is passed is checked, so what a reader has skipped is JSON too.
//!
//! **Invariant** `at` never passes the end, and moves on with every value: all of it is linear.

const std = @import("std");
const Allocator = std.mem.Allocator;

/// Values inside of values, of which real files have about ten.
pub const depth_max = 64;

pub const Error = error{ OutOfMemory, InvalidJson };

pub const Scanner = struct {
    text: []const u8,
    at: usize = 0,
    /// After an error: what is wrong at `at`.
    problem: []const u8 = "",

    pub fn fail(self: *Scanner, problem: []const u8) error{InvalidJson} {
        self.problem = problem;
        return error.InvalidJson;
    }

    /// The byte that comes next, which is no white space; null at the end.
    pub fn peek(self: *Scanner) ?u8 {
        while (self.at < self.text.len) : (self.at += 1) {
            switch (self.text[self.at]) {
                ' ', '\t', '\n', '\r' => {},
                else => |byte| return byte,
            }
        }
        return null;
    }

    /// Passes a byte that may be there.
    pub fn pass(self: *Scanner, byte: u8) bool {
        const found = self.peek() == byte;
        self.at += @intFromBool(found);
        return found;
    }

    pub fn expect(self: *Scanner, comptime byte: u8) Error!void {
        if (!self.pass(byte)) return self.fail("'" ++ .{byte} ++ "' is missing");
    }

    pub fn end(self: *Scanner) Error!void {
        if (self.peek() != null) return self.fail("something stands behind the end");
    }

    /// Whether an array or an object goes on with another value. `is_first` is for the caller to
    /// keep; `close` ends it.
    pub fn more(self: *Scanner, comptime close: u8, is_first: *bool) Error!bool {
        if (self.pass(close)) return false;
        if (!is_first.*) try self.expect(',');
        is_first.* = false;
        return true;
    }

    /// Adds the characters of a string to `out`. They may be no UTF-8.
    pub fn string(self: *Scanner, gpa: Allocator, out: *std.ArrayList(u8)) Error!void {
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

    /// Bytes of a string up to one that is not just a character.
    fn plain(self: *Scanner) []const u8 {
        const start = self.at;
        for (self.text[start..]) |byte| {
            if (byte == '"' or byte == '\\' or byte < 0x20) break;
            self.at += 1;
        }
        return self.text[start..self.at];
    }

    /// Passes what ended `plain`: a quotation mark or a backslash.
    fn stop(self: *Scanner) Error!u8 {
        if (self.at == self.text.len) return self.fail("a string has no end");
        const byte = self.text[self.at];
        if (byte < 0x20) return self.fail("a string holds a control character");
        self.at += 1;
        return byte;
    }

    /// Behind a backslash: the UTF-8 of what is meant.
    fn escape(self: *Scanner, out: *[4]u8) Error!usize {
        if (self.at == self.text.len) return self.fail("a string has no end");
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
                return self.fail("a backslash stands before something else than an escape");
            },
        };
        return 1;
    }

    fn codePoint(self: *Scanner, out: *[4]u8) Error!usize {
        var found: u21 = try self.hexadecimal();
        switch (found) {
            0xd800...0xdbff => {
                const is_escaped = std.mem.startsWith(u8, self.text[self.at..], "\\u");
                if (!is_escaped) return self.fail("half a surrogate pair");
                self.at += 2;
                const low: u21 = try self.hexadecimal();
                if (low < 0xdc00 or low > 0xdfff) return self.fail("half a surrogate pair");
                found = 0x10000 + ((found - 0xd800) << 10) + (low - 0xdc00);
            },
            0xdc00...0xdfff => return self.fail("half a surrogate pair"),
            else => {},
        }
        return std.unicode.utf8Encode(found, out) catch unreachable;
    }

    fn hexadecimal(self: *Scanner) Error!u16 {
        if (self.text.len - self.at < 4) return self.fail("\\u needs four hexadecimal digits");
        var found: u16 = 0;
        for (self.text[self.at..][0..4]) |byte| {
            const value = std.fmt.charToDigit(byte, 16) catch
                return self.fail("\\u needs four hexadecimal digits");
            found = found << 4 | value;
        }
        self.at += 4;
        return found;
    }

    /// A whole number that is not negative; at most `limit`, which has room for another digit.
    pub fn whole(self: *Scanner, limit: u32) Error!u32 {
        const first = self.peek() orelse return self.fail("a number is missing");
        if (first < '0' or first > '9') return self.fail("a whole number is needed, 0 or more");
        const start = self.at;
        var found: u64 = 0;
        while (self.digit()) |value| {
            found = found * 10 + value;
            if (found > limit) return self.fail("the number is too large");
        }
        if (first == '0' and self.at - start > 1) return self.fail("a number begins with 0");
        if (self.at < self.text.len) switch (self.text[self.at]) {
            '.', 'e', 'E' => return self.fail("a whole number is needed, 0 or more"),
            else => {},
        };
        return @intCast(found);
    }

    fn digit(self: *Scanner) ?u8 {
        if (self.at == self.text.len) return null;
        const byte = self.text[self.at];
        if (byte < '0' or byte > '9') return null;
        self.at += 1;
        return byte - '0';
    }

    fn skipDigits(self: *Scanner) Error!void {
        if (self.digit() == null) return self.fail("a digit is missing");
        while (self.digit()) |_| {}
    }

    fn skipNumber(self: *Scanner) Error!void {
        _ = self.pass('-');
        const start = self.at;
        try self.skipDigits();
        if (self.text[start] == '0' and self.at - start > 1) {
            return self.fail("a number begins with 0");
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

    /// Passes any value that stands inside of `depth` others.
    pub fn skip(self: *Scanner, depth: u32) Error!void {
        switch (self.peek() orelse return self.fail("a value is missing")) {
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
                return self.fail("this is no value of JSON");
            },
        }
    }
};

fn skipped(text: []const u8) Error!void {
    var scanner: Scanner = .{ .text = text };
    try scanner.skip(0);
    try scanner.end();
}

test "json: what RFC 8259 allows is passed, and all else is refused" {
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

test "json: values are nested up to a limit" {
    var text: [2 * depth_max + 2]u8 = undefined;
    @memset(text[0 .. depth_max + 1], '[');
    @memset(text[depth_max + 1 ..], ']');
    try skipped(text[1 .. text.len - 1]);
    try std.testing.expectError(error.InvalidJson, skipped(&text));
}

test "json: a string has its escapes replaced" {
    const gpa = std.testing.allocator;
    var out: std.ArrayList(u8) = .empty;
    defer out.deinit(gpa);
    var scanner: Scanner = .{ .text = " \"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00é\" " };
    try scanner.string(gpa, &out);
    try scanner.end();
    try std.testing.expectEqualStrings("a\"\\/\x08\x0c\n\r\té😀é", out.items);
}

test "json: a whole number is one" {
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
