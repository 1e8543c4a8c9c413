//! What a tokenizer does before it cuts text, as Python gives it → a front.

const std = @import("std");
const api = @import("api.zig");
const core_ = @import("core.zig");
const ids = @import("../ids.zig");
const normal = @import("normal.zig");
const Core = core_.Core;
const Object = api.Object;
const Text = @import("text.zig").Text;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;

const gpa = @import("buffer.zig").gpa;

/// (names sorted and end to end, lengths u32, ids u32, flags u8, packed steps, prefix) → a front.
/// `blank`: "▁" is one in texts. Null when an exception is set.
pub fn from(
    state: *core_.State,
    vocabulary: *const Vocabulary,
    tuple: *Object,
    blank: bool,
) ?ids.front.Front {
    if (api.PyTuple_Size(tuple) != 6) {
        if (api.PyErr_Occurred() == null) {
            _ = core_.fail(api.typeError(), "a front has six parts", .{});
        }
        return null;
    }
    var names = Text.from(api.PyTuple_GetItem(tuple, 0).?) orelse return null;
    defer names.release();
    const lengths = core_.numbersFrom(u32, api.PyTuple_GetItem(tuple, 1).?) orelse return null;
    defer gpa.free(lengths);
    const numbers = core_.numbersFrom(u32, api.PyTuple_GetItem(tuple, 2).?) orelse return null;
    defer gpa.free(numbers);
    const flags = core_.numbersFrom(u8, api.PyTuple_GetItem(tuple, 3).?) orelse return null;
    defer gpa.free(flags);
    // Where ids are not ranks, each name has to be a token.
    if (vocabulary.ranks != null) for (numbers) |*id| {
        id.* = vocabulary.rankOf(id.*) orelse {
            const message = "id {d} of an added token is no token of the model";
            _ = core_.fail(state.vocabulary_error.?, message, .{id.*});
            return null;
        };
    };
    const prefix = prefixFrom(api.PyTuple_GetItem(tuple, 5).?) orelse return null;
    const given: ids.front.Given = .{
        .names = names.bytes,
        .lengths = lengths,
        .ids = numbers,
        .flags = @ptrCast(flags),
        .prefix = prefix,
        .blank = blank,
    };
    const steps = normal.stepsFrom(state, api.PyTuple_GetItem(tuple, 4).?) orelse return null;
    var culprit: usize = 0;
    return ids.front.Front.init(gpa, given, steps, &culprit) catch |failure| {
        switch (failure) {
            error.OutOfMemory => _ = api.PyErr_NoMemory(),
            error.EmptyName => {
                const name = nameOf(given, culprit);
                const message = "of added token '{s}' normalising leaves nothing; " ++
                    "give it another name, or normalized=False";
                _ = core_.fail(state.vocabulary_error.?, message, .{name[0..@min(80, name.len)]});
            },
        }
        return null;
    };
}

fn nameOf(given: ids.front.Given, index: usize) []const u8 {
    var start: usize = 0;
    for (given.lengths[0..index]) |length| start += length;
    return given.names[start..][0..given.lengths[index]];
}

fn prefixFrom(object: *Object) ?ids.front.Prefix {
    var text = Text.from(object) orelse return null;
    defer text.release();
    return std.meta.stringToEnum(ids.front.Prefix, text.bytes) orelse {
        const name = text.bytes[0..@min(text.bytes.len, 80)];
        _ = core_.fail(api.valueError(), "no prefix is called '{s}'", .{name});
        return null;
    };
}

/// Whether encoding a text once more gives the same; else an exception says what needs that.
pub fn allowRepeating(core: *Core, what: []const u8) bool {
    if (!core.tokenizer.?.isRandom()) return true;
    const message = "{s} cannot work with this tokenizer, whose dropout makes each encoding of " ++
        "a text another; set the dropout of its model to None";
    _ = core_.fail(core.state().vocabulary_error.?, message, .{what});
    return false;
}
