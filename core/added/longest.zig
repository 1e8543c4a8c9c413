//! Text → the longest added token at each position, in time independent of the token lengths.
//!
//! If token texts share long prefixes with each other or with the text, a search that restarts at
//! each position is slow. A thousand tokens of up to a thousand letters take a million steps per
//! kilobyte. This is the automaton of Aho and Corasick (1975) for the reversed token texts, and the
//! text is read backwards too. The bytes just read are then a prefix of the remaining text. The
//! longest token that the automaton has read is therefore the longest one at that position. A text
//! is processed in windows, each extended by the length of the longest token.
//!
//! The automaton is built for one text, and only if the plain search was slow. Building takes time
//! proportional to the token texts, and text is processed byte by byte.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Names = @import("../added.zig").Names;

pub const Longest = struct {
    nodes: []const Node,
    len_max: usize,
    /// The index plus one of the longest match at each position from `start` to before `end`, or 0.
    window: []u32,
    start: usize = 0,
    end: usize = 0,

    /// A state: a suffix of a token text that the remaining text begins with.
    const Node = struct {
        /// Children are contiguous and sorted by their byte.
        children: u32 = 0,
        children_count: u16 = 0,
        byte: u8 = 0,
        /// The longest state that is a proper prefix of this one.
        shorter: u32 = 0,
        /// The index plus one of the longest token text that this begins with, or 0.
        name: u32 = 0,
    };

    const window_len_min = 4096;

    /// Builds the automaton for the token texts that a choice selects.
    pub fn init(gpa: Allocator, names: *const Names, choice: []const u8) Allocator.Error!Longest {
        const nodes = try Maker.make(gpa, names, choice);
        errdefer gpa.free(nodes);
        const len_max = names.len_max;
        const window = try gpa.alloc(u32, @max(window_len_min, len_max));
        return .{ .nodes = nodes, .len_max = len_max, .window = window };
    }

    pub fn deinit(self: *Longest, gpa: Allocator) void {
        gpa.free(self.nodes);
        gpa.free(self.window);
        self.* = undefined;
    }

    /// Must be called before another text is searched.
    pub fn forget(self: *Longest) void {
        self.start = 0;
        self.end = 0;
    }

    /// Returns the first position at or after `from` with a match, and the longest one there.
    pub fn find(self: *Longest, text: []const u8, from: usize) ?struct { usize, usize } {
        var at = from;
        while (at < text.len) : (at = self.end) {
            if (at < self.start or at >= self.end) self.fill(text, at);
            for (self.window[at - self.start .. self.end - self.start], at..) |name, place| {
                if (name != 0) return .{ place, name - 1 };
            }
        }
        return null;
    }

    fn fill(self: *Longest, text: []const u8, start: usize) void {
        self.start = start;
        self.end = @min(start + self.window.len, text.len);
        var at = @min(self.end + self.len_max, text.len);
        var node: u32 = 0;
        while (at > start) {
            at -= 1;
            node = step(self.nodes, node, text[at]);
            if (at < self.end) self.window[at - start] = self.nodes[node].name;
        }
    }

    fn step(nodes: []const Node, from: u32, byte: u8) u32 {
        var node = from;
        while (true) : (node = nodes[node].shorter) {
            if (child(nodes, node, byte)) |found| return found;
            if (node == 0) return 0;
        }
    }

    fn child(nodes: []const Node, node: u32, byte: u8) ?u32 {
        var low = nodes[node].children;
        var high = low + nodes[node].children_count;
        while (low < high) {
            const middle = low + (high - low) / 2;
            if (nodes[middle].byte == byte) return middle;
            if (nodes[middle].byte < byte) low = middle + 1 else high = middle;
        }
        return null;
    }
};

/// Builds the states in order of length, so that all shorter states exist already.
const Maker = struct {
    names: *const Names,
    /// The selected token texts, sorted by their reversed bytes.
    order: []u32,
    nodes: std.ArrayList(Longest.Node) = .empty,
    /// For each state, the range of `order` that ends with it.
    ranges: std.ArrayList(Range) = .empty,

    const Range = struct { start: u32, end: u32, depth: u32 };

    fn make(
        gpa: Allocator,
        names: *const Names,
        choice: []const u8,
    ) Allocator.Error![]const Longest.Node {
        const order = try gpa.alloc(u32, names.ends.len);
        defer gpa.free(order);
        var count: u32 = 0;
        for (names.places, 0..) |place, index| {
            if (choice[place] == 0) continue;
            order[count] = @intCast(index);
            count += 1;
        }
        std.sort.heap(u32, order[0..count], names, isLessBackwards);
        var self: Maker = .{ .names = names, .order = order[0..count] };
        defer self.ranges.deinit(gpa);
        errdefer self.nodes.deinit(gpa);
        try self.add(gpa, .{}, .{ .start = 0, .end = count, .depth = 0 });
        var index: u32 = 0;
        while (index < self.nodes.items.len) : (index += 1) try self.finish(gpa, index);
        return self.nodes.toOwnedSlice(gpa);
    }

    fn add(self: *Maker, gpa: Allocator, node: Longest.Node, range: Range) Allocator.Error!void {
        try self.nodes.append(gpa, node);
        try self.ranges.append(gpa, range);
    }

    /// Sets the match of a state, and adds its children.
    fn finish(self: *Maker, gpa: Allocator, index: u32) Allocator.Error!void {
        const range = self.ranges.items[index];
        var node = self.nodes.items[index];
        var start = range.start;
        node.name = self.nodes.items[node.shorter].name;
        // Of token texts that end with it, the one of equal length is sorted first.
        if (start < range.end and self.names.name(self.order[start]).len == range.depth) {
            node.name = self.order[start] + 1;
            start += 1;
        }
        node.children = @intCast(self.nodes.items.len);
        while (start < range.end) {
            const byte = self.byteOf(start, range.depth);
            var end = start + 1;
            while (end < range.end and self.byteOf(end, range.depth) == byte) end += 1;
            const shorter =
                if (index == 0) 0 else Longest.step(self.nodes.items, node.shorter, byte);
            const made: Longest.Node = .{ .byte = byte, .shorter = shorter };
            try self.add(gpa, made, .{ .start = start, .end = end, .depth = range.depth + 1 });
            node.children_count += 1;
            start = end;
        }
        self.nodes.items[index] = node;
    }

    fn byteOf(self: *const Maker, at: u32, depth: u32) u8 {
        const name = self.names.name(self.order[at]);
        return name[name.len - 1 - depth];
    }

    fn isLessBackwards(names: *const Names, left: u32, right: u32) bool {
        const a, const b = .{ names.name(left), names.name(right) };
        var rest = @min(a.len, b.len);
        var behind: usize = 1;
        while (rest > 0) : (rest -= 1) {
            const bytes = .{ a[a.len - behind], b[b.len - behind] };
            if (bytes[0] != bytes[1]) return bytes[0] < bytes[1];
            behind += 1;
        }
        return a.len < b.len;
    }
};
