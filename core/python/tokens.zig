//! The tokens of a tokenizer as Python objects: lookup by bytes, all tokens, and their bounds.

const api = @import("api.zig");
const buffer = @import("buffer.zig");
const core_ = @import("core.zig");
const Args = core_.Args;
const Core = core_.Core;
const Object = api.Object;
const Text = @import("text.zig").Text;

const gpa = buffer.gpa;

/// find(bytes) → id of the token with these bytes, or -1
pub fn find(self: *Object, args: Args) ?*Object {
    var text = Text.from(args[0]) orelse return null;
    defer text.release();
    const vocabulary = &Core.of(self).tokenizer.?.vocabulary;
    const rank = vocabulary.findAny(text.bytes);
    if (rank) |found| return api.PyLong_FromUnsignedLongLong(vocabulary.publicOf(found));
    return api.PyLong_FromLongLong(-1);
}

/// tokens() → (the bytes of all tokens, concatenated; u32 Buffer of the end of each id's bytes)
pub fn tokens(self: *Object, _: Args) ?*Object {
    const core = Core.of(self);
    const vocabulary = &core.tokenizer.?.vocabulary;
    if (vocabulary.ranks) |ranks| return tokensOf(core, ranks);
    const ends = gpa.dupe(u32, vocabulary.offsets[1..]) catch return api.PyErr_NoMemory();
    return core_.pairOf(
        api.PyBytes_FromStringAndSize(vocabulary.bytes.ptr, @intCast(vocabulary.bytes.len)),
        buffer.create(core.state().buffer_type.?, .u32, ends),
    );
}

/// The same if ids differ from ranks.
fn tokensOf(core: *Core, ranks: []const u32) ?*Object {
    const vocabulary = &core.tokenizer.?.vocabulary;
    const ends = gpa.alloc(u32, ranks.len) catch return api.PyErr_NoMemory();
    const all = gpa.alloc(u8, vocabulary.bytes.len) catch {
        gpa.free(ends);
        return api.PyErr_NoMemory();
    };
    defer gpa.free(all);
    var end: u32 = 0;
    for (ranks, ends, 0..) |_, *place, id| {
        const rank = vocabulary.rankOf(@intCast(id));
        const token = if (rank) |some| vocabulary.tokenBytes(some) else "";
        @memcpy(all[end..][0..token.len], token);
        end += @intCast(token.len);
        place.* = end;
    }
    return core_.pairOf(
        api.PyBytes_FromStringAndSize(all.ptr, end),
        buffer.create(core.state().buffer_type.?, .u32, ends),
    );
}

/// empty_id() → the id of the token without bytes, or -1
pub fn emptyId(self: *Object, _: Args) ?*Object {
    const vocabulary = &Core.of(self).tokenizer.?.vocabulary;
    const rank = vocabulary.empty_id orelse return api.PyLong_FromLongLong(-1);
    return api.PyLong_FromLongLong(vocabulary.publicOf(rank));
}

/// ids_end() → one past the largest id of a token
pub fn idsEnd(self: *Object, _: Args) ?*Object {
    return api.PyLong_FromUnsignedLongLong(Core.of(self).tokenizer.?.vocabulary.publicEnd());
}
