"""What is kept of large tokenizers: the same as the source says, or nothing."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import itertools
import json
import os
import pickle
import random
import shutil

import compiled_lies
import families
import pytest
from compiled_lies import Form
from conftest import SEED

from tokenmill import Tokenizer, _native
from tokenmill.errors import TokenmillError, VocabularyError
from tokenmill.formats import compiled

TEXTS = [
    *("", "Hello  world 1234 naïve ☃ 中文\n\n\t x!", "e\u0301 ﬁ <s> ▁▁ <pad>  x", " ไทย 한국어"),
    *("<|endoftext|> <mask> <think>", "Ã©\x00\x85"),
]
FAMILIES = [*families.BYTE_LEVEL, *families.PIECES]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKENMILL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compiled, "_SOURCE_BYTES_MIN", 0)
    return tmp_path / "cache"


def save(path, name="gpt2"):
    is_bytes = name in families.BYTE_LEVEL
    source = families.byte_level(name) if is_bytes else families.pieces(name)
    path.write_text(source, encoding="utf-8")
    return path


def came_from_cache(tokenizer):
    """Only then are the tokens not there yet."""
    return len(tokenizer._loaded.head.model.ids) == 0


def same(one, other):
    for text in TEXTS:
        for specials in (False, True):
            found = one.encode_with_offsets(text, specials=specials)
            assert found == other.encode_with_offsets(text, specials=specials), text
            assert one.encode(text, specials=specials) == found[0]
        assert one.decode(found[0]) == other.decode(found[0])
    assert one == other
    assert dict(one.specials) == dict(other.specials)
    assert one.vocab_size == other.vocab_size


@pytest.mark.parametrize("name", FAMILIES)
def test_second_load_is_the_same(cache, tmp_path, name):
    path = save(tmp_path / "tokenizer.json", name)
    first, second = Tokenizer.load(path), Tokenizer.load(path)
    assert not came_from_cache(first)
    assert came_from_cache(second)
    same(second, first)
    assert pickle.loads(pickle.dumps(second)) == first
    second.save(tmp_path / "again.json")
    first.save(tmp_path / "first.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "first.json").read_bytes()


def test_changed_source_is_read_again(cache, tmp_path):
    path = save(tmp_path / "tokenizer.json", "gpt2")
    before = Tokenizer.load(path)
    status = path.stat()
    save(path, "llama3")
    # Not even the time of the file tells.
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = Tokenizer.load(path)
    assert not came_from_cache(after)
    assert after != before
    assert came_from_cache(Tokenizer.load(path))


def test_all_files_of_a_folder_count(cache, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    save(folder / "tokenizer.json", "gpt2")
    (folder / "tokenizer_config.json").write_text("{}")
    Tokenizer.load(folder)
    assert came_from_cache(Tokenizer.load(folder))
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 5}')
    assert not came_from_cache(Tokenizer.load(folder))


def test_cache_can_go_at_any_time(cache, tmp_path):
    path = save(tmp_path / "tokenizer.json", "llama2")
    first = Tokenizer.load(path)
    second = Tokenizer.load(path)
    shutil.rmtree(cache)
    same(second, first)
    assert not came_from_cache(Tokenizer.load(path))


def test_damaged_and_foreign_files_are_as_good_as_none(cache, tmp_path):
    path = save(tmp_path / "tokenizer.json", "gpt2")
    first = Tokenizer.load(path)
    (kept,) = cache.glob("*.tmcache")
    data = kept.read_bytes()
    rng = random.Random(SEED)
    for _ in range(60):
        at = rng.randrange(len(data))
        kept.write_bytes(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
        same(Tokenizer.load(path), first)
    for size in (0, 1, 40, 96, 200, len(data) // 2, len(data) - 1):
        kept.write_bytes(data[:size])
        same(Tokenizer.load(path), first)
    kept.write_bytes(data)
    kept.chmod(0o666)
    assert not came_from_cache(Tokenizer.load(path))


def test_no_cache_where_none_is_wanted_or_possible(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "_SOURCE_BYTES_MIN", 0)
    path = save(tmp_path / "tokenizer.json", "gpt2")
    for value in ("0", "", str(path / "below a file")):
        monkeypatch.setenv("TOKENMILL_CACHE", value)
        assert not came_from_cache(Tokenizer.load(path))
        assert not came_from_cache(Tokenizer.load(path))
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]


def test_small_files_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKENMILL_CACHE", str(tmp_path / "cache"))
    Tokenizer.load(save(tmp_path / "tokenizer.json", "gpt2"))
    assert not (tmp_path / "cache").exists()


def test_old_files_go(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "_FILES_MAX", 3)
    for index in range(6):
        Tokenizer.load(save(tmp_path / f"{index}.json", "gpt2"))
    assert len(list(cache.glob("*.tmcache"))) == 3


FRONT = (b"", b"", b"", b"", b"", "never")


@functools.cache
def core_of(name):
    """The compiled core of a family."""
    is_bytes = name in families.BYTE_LEVEL
    source = families.byte_level(name) if is_bytes else families.pieces(name)
    return Tokenizer.load(_as_object(source))._core.compiled()


def load_core(data, scheme="safe"):
    return _native.from_compiled(data, scheme, FRONT, 5, False)


def test_compiled_cores_that_lie_are_refused_or_harmless():
    rng = random.Random(SEED)
    for name in ("gpt2", "llama2", "unknowns"):
        data = core_of(name)
        refused = 0
        for _ in range(400):
            changed = bytearray(data)
            for _ in range(rng.randrange(1, 4)):
                changed[rng.randrange(len(changed))] = rng.randrange(256)
            refused += not use(bytes(changed), "safe", rng, TEXTS)
        assert refused > 50
        for size in range(0, len(data), 997):
            with pytest.raises(VocabularyError):
                load_core(data[:size])


HARD_TEXTS = [
    *TEXTS,
    *(" " * 300, "ab" * 700, "中" * 900, "中文字符日本語。" * 30, "été ÉÉ 한국어 " * 30),
    *("🙂👍🏽" * 30, b"\xff\xfe\x80\xe4\xb8 \xf0\x9f\x99 a\xc3", bytes(range(256)) * 3),
]


def use(data, scheme, rng, texts):
    """Whether a core is accepted; then all that a core does is done with it."""
    try:
        core = load_core(data, scheme)
    except VocabularyError:
        return False
    for text in texts:
        with contextlib.suppress(TokenmillError):
            ids = core.encode(text, None)
            assert core.encode_buffer(text, None, False, 2) is not None
            assert len(core.encode_spans(text, None, 2)) == 2
            core.count(text, None, 1)
            core.encode_with_offsets(text, None)
            core.encode_words(text, None)
            assert max(ids, default=0) < core.ids_end()
            core.decode(ids)
        with contextlib.suppress(TokenmillError):
            core.truncate(text, rng.randrange(40), rng.random() < 0.5)
        if isinstance(text, bytes):
            continue
        with contextlib.suppress(TokenmillError):
            session = core.session(None)
            for change in (text, text + "x" + text, text[: rng.randrange(len(text) + 1)]):
                session.update(change)
            session.ids(0, session.count())
    for id_ in (0, core.ids_end() - 1, core.ids_end(), rng.randrange(1 << 32)):
        with contextlib.suppress(TokenmillError):
            core.decode([id_])
    core.tokens(), core.empty_id(), core.find(b"a")
    # It is what it says it is.
    assert load_core(core.compiled(), scheme).compiled() == core.compiled()
    return True


@pytest.mark.parametrize("name", ["gpt2", "llama3", "llama2", "unknowns_apart"])
def test_lies_about_vocabularies_are_refused_or_harmless(name):
    rng = random.Random(SEED)
    data = core_of(name)
    for lie, accepted_min in ((compiled_lies.damage, 0), (compiled_lies.invent, 12)):
        accepted = 0
        for _ in range(24):
            scheme = rng.choice(["safe", "metaspace", "cl100k"])
            texts = rng.sample(HARD_TEXTS, 5)
            accepted += use(lie(data, rng), scheme, rng, texts)
        assert accepted >= accepted_min


def test_what_a_compiled_core_says_has_to_fit_together():
    def lie(name, change):
        form = Form(core_of(name))
        change(form)
        with pytest.raises(VocabularyError):
            load_core(form.data())

    def header(**values):
        return lambda form: form.header.update(values)

    # Each of these was believed once, and ids came out that are none: offsets of tokens were read
    # behind their end.
    lie("llama2", lambda form: form.hidden.__setitem__(0, 1))
    lie("unknowns", header(leftover=compiled_lies.EXPAND))
    lie("unknowns", header(missing=compiled_lies.BYTES, leftover=compiled_lies.EXPAND))
    lie("unknowns", header(unk=Form(core_of("unknowns")).header["prefixes_start"]))
    lie("llama2", header(prefixes_start=0))
    lie("llama2", header(prefixes_start=0, prefixes_end=0))
    lie("llama2", header(leftover=compiled_lies.REFUSE))
    lie("llama2", lambda form: form.public.__setitem__(700, compiled_lies.NONE))
    lie("llama2", lambda form: form.public.__setitem__(700, form.public[701]))
    # Others made it slow, or would have, or said what it is not.
    lie("gpt2", header(token_len_max=1 << 31))
    lie("gpt2", header(token_len_max=1))
    lie("gpt2", header(token_count=1 << 31))
    lie("gpt2", header(empty_id=5))
    lie("gpt2", header(unk=5))
    lie("gpt2", header(padding=1))
    lie("gpt2", header(flags=compiled_lies.CLOSED))
    lie("gpt2", lambda form: form.hidden.__setitem__(600, 2))
    lie("gpt2", lambda form: form.hidden.__setitem__(600, 1))
    lie("gpt2", lambda form: form.merges[0].__setitem__(0, form.merges[1][0]))
    lie("gpt2", lambda form: form.merges[5].__setitem__(2, len(form.tokens)))
    lie("llama2", header(ranks_len=1 << 20))


def test_merges_of_tokens_that_are_not_found_are_refused():
    form = Form(core_of("gpt2"))
    rank = form.merges[0][2]
    form.hidden[rank] = 1
    form.header["flags"] &= ~compiled_lies.CLOSED
    with pytest.raises(VocabularyError):
        load_core(form.data())


def test_a_core_is_not_closed_that_cannot_merge_a_token():
    form = Form(core_of("gpt2"))
    del form.merges[-1]
    with pytest.raises(VocabularyError):
        load_core(form.fitting())
    form.header["flags"] &= ~compiled_lies.CLOSED
    assert load_core(form.fitting()).encode(form.tokens[-1], None)


def test_tokens_are_no_longer_than_they_may_be():
    form = Form(core_of("gpt2"))
    form.tokens.append(b"a" * ((1 << 16) + 1))
    form.hidden.append(1)
    with pytest.raises(VocabularyError):
        load_core(form.fitting())
    form.tokens[-1] = b"a" * (1 << 16)
    assert load_core(form.fitting()).decode([len(form.tokens) - 1]) == form.tokens[-1]


def repaired(data, head=None, arrays=None):
    """A kept file with another head or other arrays, and the checksums of those."""
    front = compiled._FRONT
    magic, digest, _, *sizes = front.unpack_from(data)
    ends = list(itertools.accumulate(sizes, initial=front.size))
    parts = [data[start:end] for start, end in itertools.pairwise(ends)]
    parts[0] = parts[0] if head is None else head
    parts[2] = parts[2] if arrays is None else hashlib.sha256(arrays).digest() + arrays
    check = hashlib.sha256(parts[0] + parts[1]).digest()
    return front.pack(magic, digest, check, *map(len, parts)) + b"".join(parts)


def test_heads_that_lie_are_as_good_as_none(cache, tmp_path):
    path = save(tmp_path / "tokenizer.json", "roberta")
    first = Tokenizer.load(path)
    (kept,) = cache.glob("*.tmcache")
    data = kept.read_bytes()
    start = compiled._FRONT.size
    head = json.loads(data[start : start + compiled._FRONT.unpack_from(data)[3]])
    wrong = {"type": "Pattern", "text": "(", "dialect": "oniguruma"}
    stage = {"match": wrong, "behaviour": "isolated", "invert": False}
    for lie in (
        # Twice the same name: the core has one more than Python knows.
        {"added": [*head["added"], head["added"][0]]},
        {"added": [{**head["added"][0], "content": "\ud800"}]},
        {"stages": [{**head["stages"][0], **stage}]},
        {"steps": [{"type": "Nothing"}]},
    ):
        kept.write_bytes(repaired(data, head=json.dumps({**head, **lie}).encode()))
        again = Tokenizer.load(path)
        assert not came_from_cache(again)
        same(again, first)


def test_arrays_that_lie_are_read_from_the_source(cache, tmp_path):
    path = save(tmp_path / "tokenizer.json", "llama2")
    first = Tokenizer.load(path)
    (kept,) = cache.glob("*.tmcache")
    data = kept.read_bytes()
    *_, arrays_len = compiled._FRONT.unpack_from(data)
    arrays = data[len(data) - arrays_len + 32 :]
    rng = random.Random(SEED)
    lies = [b"", arrays[:8], arrays[:100], arrays[:-1], b"\xff" + arrays[1:]]
    lies += [arrays[:9] + size.to_bytes(8, "little") + arrays[17:] for size in (1, 1 << 62)]
    lies += [arrays[:9] + b"\xff" * 8 + arrays[17:], arrays[:17] + b"\xff" * 8 + arrays[25:]]
    for _ in range(8):
        at = rng.randrange(9, 17)
        lies.append(arrays[:at] + bytes([arrays[at] ^ 1 << rng.randrange(8)]) + arrays[at + 1 :])
    for lie in lies:
        kept.write_bytes(repaired(data, arrays=lie))
        again = Tokenizer.load(path)
        assert came_from_cache(again)
        same(again, first)
    # A file that says it is larger than it is.
    front = compiled._FRONT
    fields = front.unpack_from(data)
    for sizes in ((*fields[3:5], 1 << 62), (*fields[3:5], (1 << 64) - 1), (1 << 63, 1 << 63, 0)):
        kept.write_bytes(front.pack(*fields[:3], *sizes) + data[front.size :])
        same(Tokenizer.load(path), first)


def test_a_choice_of_other_names_than_there_are_is_refused():
    core = load_core(core_of("gpt2"))
    with pytest.raises(ValueError, match="a choice of 3 names was given, and there are 0"):
        core.encode("text", b"\x01\x01\x01")


def _as_object(source):
    class Like:
        """Looks as a tokenizer of Hugging Face's does."""

        def to_str(self):
            return source

        def get_vocab_size(self):
            return len(json.loads(source)["model"]["vocab"])

    return Like()


def test_both_files_of_a_pair_count(cache, tmp_path):
    Tokenizer.load("gpt2").save(tmp_path / "vocab.json")
    Tokenizer.load(tmp_path / "vocab.json", pattern="gpt2")
    assert came_from_cache(Tokenizer.load(tmp_path / "vocab.json", pattern="gpt2"))
    lines = (tmp_path / "merges.txt").read_text(encoding="utf-8").splitlines()
    lines[1], lines[2] = lines[2], lines[1]
    (tmp_path / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert not came_from_cache(Tokenizer.load(tmp_path / "vocab.json", pattern="gpt2"))


def test_another_source_is_not_taken_for_the_one_that_was_loaded(cache, tmp_path):
    path = save(tmp_path / "tokenizer.json", "llama2")
    Tokenizer.load(path)
    kept = Tokenizer.load(path)
    save(path, "gemma")
    shutil.rmtree(cache)
    with pytest.raises(VocabularyError, match="has changed since it was loaded"):
        kept.decode([300])


def test_files_of_which_little_is_read_are_not_hashed(cache, tmp_path):
    path = tmp_path / "large.gguf"
    with path.open("wb") as file:
        file.write(b"GGUF")
        file.truncate(1 << 40)
    with pytest.raises(VocabularyError, match="large"):
        Tokenizer.load(path)
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(VocabularyError, match="large"):
        Tokenizer.load(path)
    assert not cache.exists()


def test_names_of_the_hub_are_kept_too(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = tmp_path / "hub" / "models--org--name"
    (folder / "snapshots" / "abc").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    save(folder / "snapshots" / "abc" / "tokenizer.json", "gpt2")
    first, second = Tokenizer.load("org/name"), Tokenizer.load("org/name")
    assert came_from_cache(second)
    assert first == second
    assert second.name == "name"


def test_own_files_that_lie_are_refused(tmp_path):
    path = tmp_path / "a.tokenmill"
    Tokenizer.load(_as_object(families.pieces("llama2"))).save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    added, model = document["added"], document["model"]
    odd = base64.b64encode(base64.b64decode(model["merges"])[:-4]).decode()
    twice = "added token '<unk>' is there twice; remove one"
    for lie, message in (
        ({"added": [*added, {**added[0], "id": 7}]}, twice),
        ({"model": {**model, "merges": odd}}, "half a merge at its end; save the tokenizer again"),
        ({"added": [added[0], "<s>"]}, r"added\[1\] must be an object, not '<s>'"),
        ({"added": [{**added[0], "special": 1}]}, r"added\[0\].special must be true or false"),
        ({"added": [{**added[0], "id": True}]}, r"added\[0\].id must be a whole number, not True"),
        ({"added": [{**added[0], "id": -1}]}, r"added\[0\] has content '<unk>' and id -1"),
        ({"added": [{**added[0], "content": ""}]}, r"added\[0\] has content '' and id"),
        ({"added": [{"content": "a", "id": 1}]}, r"added\[0\] has no field 'special'"),
    ):
        path.write_text(json.dumps({**document, **lie}, ensure_ascii=False), encoding="utf-8")
        with pytest.raises(VocabularyError, match=message):
            Tokenizer.load(path)
