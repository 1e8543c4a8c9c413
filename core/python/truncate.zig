//! The method `truncate` of a tokenizer: limits a text to a number of tokens.

const api = @import("api.zig");
const core_ = @import("core.zig");
const fronts = @import("fronts.zig");
const Encoder = @import("../encode/encoder.zig").Encoder;
const truncate_ = @import("../session/truncate.zig");
const Args = core_.Args;
const Core = core_.Core;
const Object = api.Object;
const Text = @import("text.zig").Text;

const gpa = @import("buffer.zig").gpa;

/// truncate(text, tokens_max, left) → the kept text, a str for a str, otherwise bytes
pub fn truncate(self: *Object, args: Args) ?*Object {
    const core = Core.of(self);
    const tokens_max: usize = @intCast(api.PyLong_AsLongLong(args[1]));
    const left = api.PyLong_AsLongLong(args[2]) != 0;
    var text = Text.from(args[0]) orelse return null;
    defer text.release();
    if (!fronts.allowRepeating(core, "truncate")) return null;
    var encoder: Encoder = .init(gpa, core.tokenizer.?);
    defer encoder.deinit();
    var unlocked: core_.Unlocked = .begin();
    encoder.merger.poll = unlocked.poll();
    const outcome = if (left)
        truncate_.suffixStart(&encoder, text.bytes, tokens_max)
    else
        truncate_.prefixEnd(&encoder, text.bytes, tokens_max);
    unlocked.end();
    const cut = outcome catch |failure|
        return core_.failEncoding(core, failure, encoder.merger.missing_byte);
    const kept = if (left) text.bytes[cut..] else text.bytes[0..cut];
    if (api.isUnicode(args[0])) return api.PyUnicode_DecodeUTF8(kept.ptr, @intCast(kept.len), null);
    return api.PyBytes_FromStringAndSize(kept.ptr, @intCast(kept.len));
}
