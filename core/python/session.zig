//! A text and its ids as a Python object: `tokenmill._native.Session`. A long change runs without
//! the GIL.

const api = @import("api.zig");
const arguments = @import("arguments.zig");
const merge = @import("../merge.zig");
const object_ = @import("object.zig");
const results = @import("results.zig");
const sessions = @import("../session.zig");
const Call = object_.Call;
const Class = object_.Class;
const Core = @import("tokenizer.zig").Core;
const Encoder = @import("../encode/encoder.zig").Encoder;
const Error = object_.Error;
const Object = api.Object;
const Size = arguments.Size;
const Text = arguments.Text;
const Unlocked = object_.Unlocked;

const gpa = object_.gpa;
const method = object_.method;

/// The value of a Session.
pub const Session = struct {
    pub const class: Class = .Session;
    pub const busy_text =
        "another thread is changing this session; give each thread its own with copy()";

    /// Kept alive, since the session uses its tokenizer.
    owner: *Object,
    session: sessions.Session,

    /// Takes ownership of `session`.
    pub fn init(owner: *Object, session: sessions.Session) Session {
        api.Py_IncRef(owner);
        return .{ .owner = owner, .session = session };
    }

    pub fn deinit(self: *Session) void {
        self.session.deinit();
        api.Py_DecRef(self.owner);
    }

    fn core(self: *Session) *Core {
        return object_.Object(Core).of(self.owner).value.?;
    }
};

const Goal = union(enum) { replace_from: usize, update };

/// Returns the number of leading ids that stay unchanged.
fn change(call: Call, self: *Session, goal: Goal, text: []const u8) Error!usize {
    const session = &self.session;
    var encoder: Encoder = .init(gpa, &self.core().tokenizer);
    defer encoder.deinit();
    const again = switch (goal) {
        .replace_from => |cut| session.bytesAfterCheckpoint(cut),
        .update => 0,
    };
    const is_short = text.len + again < Unlocked.bytes_min;
    const outcome = if (is_short) run(session, &encoder, goal, text) else blk: {
        var unlocked: Unlocked = .begin();
        defer unlocked.end();
        encoder.merger.poll = unlocked.poll();
        break :blk run(session, &encoder, goal, text);
    };
    return outcome catch |failure|
        call.raise(merge.failureOf(failure, encoder.merger.missing_byte));
}

fn run(session: *sessions.Session, encoder: *Encoder, goal: Goal, text: []const u8) !usize {
    return switch (goal) {
        .replace_from => |cut| session.replace(encoder, cut, text),
        .update => session.update(encoder, text),
    };
}

/// append(text) → the number of leading ids that stay unchanged
fn append(call: Call, self: *Session, args: struct { text: Text }) Error!usize {
    return change(call, self, .{ .replace_from = self.session.text().len }, args.text.bytes);
}

/// replace_from(byte, text) → the number of leading ids that stay unchanged
fn replaceFrom(call: Call, self: *Session, args: struct { byte: Size, text: Text }) Error!usize {
    return change(call, self, .{ .replace_from = args.byte.value }, args.text.bytes);
}

/// update(text) → the number of leading ids that stay unchanged
fn update(call: Call, self: *Session, args: struct { text: Text }) Error!usize {
    return change(call, self, .update, args.text.bytes);
}

/// settled() → the number of leading ids that stay the same, whatever text is appended
fn settled(call: Call, self: *Session) Error!usize {
    var encoder: Encoder = .init(gpa, &self.core().tokenizer);
    defer encoder.deinit();
    return self.session.settled(&encoder) catch |failure|
        call.raise(merge.failureOf(failure, encoder.merger.missing_byte));
}

/// compare(text, start) → (number of leading bytes that are equal, whether the session's text is
/// less); the first `start` bytes must be equal
fn compare(_: Call, self: *Session, args: struct {
    text: Text,
    start: Size,
}) Error!struct { usize, bool } {
    const found = self.session.compare(args.text.bytes, args.start.value);
    return .{ found.common, found.is_less };
}

/// start_of_last(characters) → the byte offset of the last characters
fn startOfLast(_: Call, self: *Session, args: struct { characters: Size }) Error!usize {
    return self.session.startOfLast(args.characters.value);
}

const Range = struct {
    start: Size,
    end: Size,

    fn of(self: Range, all: []const u32) []const u32 {
        const end = @min(self.end.value, all.len);
        return all[@min(self.start.value, end)..end];
    }
};

/// ids(start, end) → list
fn idList(_: Call, self: *Session, args: Range) Error!*Object {
    return self.core().ints.listOf(args.of(self.session.inner().ids.items));
}

/// buffer(start, end) → Buffer of u32, a copy
fn idBuffer(_: Call, self: *Session, args: Range) Error![]u32 {
    const copied = try gpa.dupe(u32, args.of(self.session.inner().ids.items));
    self.core().tokenizer.vocabulary.publish(copied);
    return copied;
}

/// text(start) → bytes from offset `start` on
fn textBytes(_: Call, self: *Session, args: struct { start: Size }) Error!*Object {
    const text = self.session.text();
    return results.bytesOf(text[@min(args.start.value, text.len)..]);
}

/// text_str() → str
fn textStr(_: Call, self: *Session) Error!*Object {
    const text = self.session.text();
    return api.PyUnicode_DecodeUTF8(text.ptr, @intCast(text.len), null) orelse error.Raised;
}

/// copy() → Session
fn copy(_: Call, self: *Session) Error!Session {
    return .init(self.owner, try self.session.clone());
}

/// count(), bytes(), characters(), bytes_encoded(), memory() → int
fn number(
    comptime what: enum { ids, bytes, characters, encoded, memory },
) fn (Call, *Session) Error!usize {
    return struct {
        fn get(_: Call, self: *Session) Error!usize {
            return switch (what) {
                .ids => self.session.inner().ids.items.len,
                .bytes => self.session.text().len,
                .characters => self.session.characters,
                .encoded => self.session.inner().bytes_encoded,
                .memory => self.session.memory(),
            };
        }
    }.get;
}

const methods = [_]api.Method{
    method("append", append),
    method("replace_from", replaceFrom),
    method("update", update),
    method("settled", settled),
    method("compare", compare),
    method("start_of_last", startOfLast),
    method("ids", idList),
    method("buffer", idBuffer),
    method("text", textBytes),
    method("text_str", textStr),
    method("copy", copy),
    method("count", number(.ids)),
    method("bytes", number(.bytes)),
    method("characters", number(.characters)),
    method("bytes_encoded", number(.encoded)),
    method("memory", number(.memory)),
    .{},
};
pub const spec = object_.Object(Session).spec(&methods, null, &.{});
