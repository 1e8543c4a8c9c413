"""Patched fast tokenizers → the results of the original tokenizers, for all calls.

Tests of compat/transformers/delegate.py and compat/transformers/fast_calls.py.
"""

from __future__ import annotations

import contextlib
import copy
import io
import os
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import small
import tokenizers
from tokenizers.decoders import DecodeStream
from transformers import AutoTokenizer, BatchEncoding, PreTrainedTokenizerFast

from tokenmill.compat import transformers as compat
from tokenmill.compat.transformers import delegate, is_patched, patch, unpatch

TEXTS = [
    "",
    " ",
    "Hello world, it's 1234 tests!",
    "  two  blanks\n\nand lines\t",
    "naïve cafe\u0301 中文 🙂👩‍👩‍👧 <s> x </s><mask> y<pad> z",
    "tokenmill foo bar tokenmills <b>bold</b> ▁▁",
    "<|im_start|>user <tool_call> x<|im_end|><|endoftext|>",
    "All human beings are born free and equal in dignity and rights.",
    small.TEXTS[1][:20],
]
OTHER = small.document("qwen2")
each_exact = pytest.mark.parametrize("name", small.EXACT)


@pytest.fixture(autouse=True)
def _unpatched() -> Iterator[None]:
    unpatch()
    yield
    unpatch()


def said(call: Callable[[], Any]) -> Any:
    """The visible result or the exception of a call."""
    try:
        return seen(call())
    except BaseException as error:  # a panic of the real library is not an Exception
        return type(error), str(error)


def seen(found: Any) -> Any:
    if isinstance(found, BatchEncoding):
        encodings = found.encodings or []
        return type(found), dict(found), list(map(of_encoding, encodings)), of_batch(found)
    return found


def of_encoding(encoding: Any) -> Any:
    names = (
        *("ids", "type_ids", "tokens", "offsets", "word_ids", "sequence_ids"),
        *("special_tokens_mask", "attention_mask", "n_sequences"),
    )
    values = [getattr(encoding, name) for name in names]
    # Of a pair there can be thousands.
    return values, [of_encoding(each) for each in encoding.overflowing[:9]], repr(encoding)


def of_batch(batch: BatchEncoding) -> Any:
    made: list[Any] = []
    for index in range(min(2, len(batch.encodings or []))):
        made += [batch.tokens(index), batch.word_ids(index), batch.sequence_ids(index)]
        for place in range(0, 12, 3):
            for call in (
                *(batch.char_to_token, batch.token_to_chars, batch.token_to_word),
                *(batch.word_to_tokens, batch.word_to_chars, batch.char_to_word),
                batch.token_to_sequence,
            ):
                made.append(said(lambda call=call, p=place: call(index, p)))  # noqa: B023
    return made


def options_of(rng: random.Random) -> dict[str, Any]:
    """Arguments of a call, which may not go together."""
    if rng.random() < 0.3:  # one option, for which there may be a faster way
        return {"return_offsets_mapping": True, "padding": rng.random() < 0.5}
    return {
        "padding": rng.choice([False, True, "longest", "max_length"]),
        "truncation": rng.choice([False, True, "longest_first", "only_first", "only_second"]),
        "max_length": rng.choice([None, 5, 9, 30]),
        "stride": rng.choice([0, 0, 2]),
        "return_overflowing_tokens": rng.random() < 0.4,
        "return_offsets_mapping": rng.random() < 0.5,
        "return_special_tokens_mask": rng.random() < 0.5,
        "return_token_type_ids": rng.choice([None, True]),
        "return_length": rng.random() < 0.3,
        "add_special_tokens": rng.random() < 0.7,
        "padding_side": rng.choice([None, "left", "right"]),
        "pad_to_multiple_of": rng.choice([None, None, 8]),
        "split_special_tokens": rng.choice([None, None, True]),
    }


def calls_of(count: int) -> list[Callable[[Any], Any]]:
    rng = random.Random(5)
    made: list[Callable[[Any], Any]] = []
    for _ in range(count):
        options, some = options_of(rng), rng.sample(TEXTS, rng.randint(1, 4))
        shape, others = rng.randrange(6), rng.sample(TEXTS, len(some))
        if shape == 0:
            made.append(lambda t, s=some, o=options: t(s[0], **o))
        elif shape == 1:
            made.append(lambda t, s=some, p=others, o=options: t(s[0], p[0], **o))
        elif shape == 2:
            made.append(lambda t, s=some, p=others, o=options: t(s, p, **o))
        elif shape == 3:
            words = [text.split() for text in some]
            made.append(lambda t, w=words, o=options: t(w, is_split_into_words=True, **o))
        else:
            made.append(lambda t, s=some, o=options: t(s, **o))
    return made


def compare(tokenizer: Any, calls: list[Callable[[Any], Any]], exact: bool = True) -> None:
    """Each call gives the same without and with the patch."""
    unpatch()
    with contextlib.redirect_stderr(io.StringIO()):
        want = [said(lambda call=call: call(tokenizer)) for call in calls]
        patch()
        assert is_patched(tokenizer) == exact
        for index, call in enumerate(calls):
            assert said(lambda call=call: call(tokenizer)) == want[index], index
    assert is_patched(tokenizer) == exact


@pytest.mark.parametrize("name", [*small.EXACT, *small.REFUSED])
def test_calls_give_the_same(name):
    compare(small.fast(name), calls_of(80), name in small.EXACT)


@each_exact
def test_other_methods_give_the_same(name):
    chat = [{"role": "user", "content": TEXTS[4]}, {"role": "assistant", "content": "Yes. "}]
    calls: list[Callable[[Any], Any]] = [
        *(lambda t, text=text: t.encode(text) for text in TEXTS),
        *(lambda t, text=text: t.tokenize(text) for text in TEXTS),
        lambda t: t.encode(TEXTS[2], TEXTS[4], truncation=True, max_length=12),
        lambda t: t.apply_chat_template(chat, tokenize=True),
        lambda t: t.apply_chat_template(chat, tokenize=True, return_dict=True),
        lambda t: t.apply_chat_template([chat, chat[:1]], add_generation_prompt=True, padding=True),
        lambda t: t.decode(t.encode(TEXTS[4])),
        lambda t: t.batch_decode(t(TEXTS)["input_ids"], skip_special_tokens=True),
        lambda t: [t.decode(t(TEXTS)["input_ids"], skip_special_tokens=x) for x in (False, True)],
        lambda t: [t.decode([id_]) for id_ in range(0, 1200, 7)],
        lambda t: t.decode(t(TEXTS[4], return_tensors="np")["input_ids"]),
        lambda t: t.decode(t.encode(TEXTS[4]), clean_up_tokenization_spaces=True),
        lambda t: t.backend_tokenizer.decode(t.encode(TEXTS[4])),
        *(
            lambda t, ids=ids: t.decode(ids)
            for ids in ([], [[]], [-1], [1 << 40], ["a"], 5, (5, 6))
        ),
        *(lambda t, ids=ids: t.batch_decode(ids) for ids in ([], [[]], [5, 6], [[5], (6, 7)])),
        *(lambda t, x=x: t(TEXTS[6], add_special_tokens=x) for x in (False, True, 1, None)),
        *(lambda t, x=x: t.encode(TEXTS[6], add_special_tokens=x) for x in (False, True, 1, None)),
        lambda t: t(TEXTS[6], TEXTS[2])["input_ids"],
        *(lambda t, x=x: t(x).n_sequences for x in (TEXTS[2], TEXTS[:2], [TEXTS[:2]])),
        lambda t: t("\ud800"),
        lambda t: t.encode("\ud800"),
        lambda t: t([]),
        lambda t: t(TEXTS, text_pair=[]),
        lambda t: t(TEXTS, text_target=TEXTS[:2]),
        lambda t: t(TEXTS, return_attention_mask=False),
        lambda t: t(tuple(TEXTS[:2]), max_length=4, truncation=True, padding="max_length"),
        lambda t: t(TEXTS[2], no_such_option=1),
        lambda t: t.pad(t(TEXTS[:4]), padding=True),
        lambda t: t(["\ud800"]),
        lambda t: t(None),
        lambda t: t(TEXTS, return_tensors="np", padding=True)["input_ids"].tolist(),
        lambda t: of_encoding(t.backend_tokenizer.encode(TEXTS[2], TEXTS[4])),
        lambda t: [each.ids for each in t.backend_tokenizer.encode_batch_fast(TEXTS)],
        lambda t: of_encoding(t._tokenizer.post_process(t(TEXTS[2]).encodings[0])),
    ]
    compare(small.fast(name), calls)


@each_exact
def test_folders_that_name_a_class_give_the_same(name, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(small.folder(name, tmp_path))
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    compare(tokenizer, calls_of(40))


def trainer() -> Any:
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    return tokenizers.trainers.BpeTrainer(vocab_size=900, initial_alphabet=alphabet)


# Each changes a tokenizer, most in a way that its ids show.
CHANGES: dict[str, Callable[[Any], Any]] = {
    "add_tokens": lambda t: t.add_tokens(["Hello", "wor"]),
    "add_special_tokens": lambda t: t.add_special_tokens(
        {"extra_special_tokens": [tokenizers.AddedToken("tests", lstrip=True)]}
    ),
    "tokens below": lambda t: t.backend_tokenizer.add_tokens(["it's"]),
    "normalizer": lambda t: setattr(
        t.backend_tokenizer, "normalizer", tokenizers.normalizers.Lowercase()
    ),
    "pre_tokenizer": lambda t: setattr(
        t.backend_tokenizer, "pre_tokenizer", tokenizers.pre_tokenizers.Digits(True)
    ),
    "pre_tokenizer in place": lambda t: setattr(
        t.backend_tokenizer.pre_tokenizer, "add_prefix_space", True
    ),
    "post_processor": lambda t: setattr(
        t.backend_tokenizer,
        "post_processor",
        tokenizers.processors.TemplateProcessing("$A <s>", None, [("<s>", t.bos_token_id)]),
    ),
    "model": lambda t: setattr(t.backend_tokenizer, "model", small.Real.from_str(OTHER).model),
    "model in place": lambda t: setattr(t.backend_tokenizer.model, "ignore_merges", True),
    "trained": lambda t: t.backend_tokenizer.train_from_iterator(small.TEXTS[:2], trainer()),
    "processor in place": lambda t: setattr(t.backend_tokenizer.post_processor, "sep", ("a", 65)),
    "processor by state": lambda t: t.backend_tokenizer.post_processor.__setstate__(
        tokenizers.processors.RobertaProcessing(("a", 65), ("b", 66)).__getstate__()
    ),
    "decoder": lambda t: setattr(t.backend_tokenizer, "decoder", tokenizers.decoders.Fuse()),
    "truncation": lambda t: t.backend_tokenizer.enable_truncation(5),
    "padding": lambda t: t.backend_tokenizer.enable_padding(length=40),
    "split_special_tokens": lambda t: setattr(t, "split_special_tokens", True),
    "add_eos_token": lambda t: setattr(t, "add_eos_token", False),
}


WITHOUT_EFFECT = ("split_special_tokens", "model in place", "decoder")  # on these ids


@pytest.mark.parametrize("change", CHANGES)
def test_change_reaches_the_delegate(change):
    def after(patched: bool) -> Any:
        tokenizer = small.fast("byte_level")
        if patched:
            patch()
            assert is_patched(tokenizer) and tokenizer(TEXTS[2])
        # Not by this one, since the real library has ids of words that it remembers.
        before = copy.deepcopy(tokenizer).backend_tokenizer.encode(TEXTS[2]).ids
        CHANGES[change](tokenizer)
        inner = [of_encoding(tokenizer.backend_tokenizer.encode(text)) for text in TEXTS]
        if patched:
            assert is_patched(tokenizer)
        texts = [tokenizer.decode(ids) for ids in (before, [*range(300)])]
        outer = [said(lambda text=text: tokenizer(text)) for text in (TEXTS[2], TEXTS)]
        return before, inner, texts, outer

    want = after(False)
    assert after(True) == want
    # The real library copies a post-processor when it is read.
    if "processor " not in change and change not in WITHOUT_EFFECT:
        assert want[1][2][0][0] != want[0]


def test_every_component_reports_its_changes():
    """A change is seen because all classes inherit the method that sets an attribute."""
    patch()
    for name, family in compat._FAMILIES.items():
        module = getattr(tokenizers, name)
        ours = getattr(module, family).__setattr__
        assert ours is not object.__setattr__
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, getattr(module, family)):
                assert each.__setattr__ is ours
    steps = tokenizers.pre_tokenizers
    tokenizer = small.fast("byte_level")
    first, more = tokenizer.backend_tokenizer.pre_tokenizer, steps.Digits(False)
    tokenizer.backend_tokenizer.pre_tokenizer = steps.Sequence([more, first])
    assert is_patched(tokenizer)
    before = tokenizer("1234").word_ids()
    tokenizer.backend_tokenizer.pre_tokenizer[0] = steps.Digits(True)
    after = tokenizer("1234").word_ids()
    unpatch()
    assert tokenizer("1234").word_ids() == after != before
    assert steps.PreTokenizer.__setattr__ is object.__setattr__


def test_class_that_overrides_a_method_keeps_it():
    class Mine(PreTrainedTokenizerFast):
        def _encode_plus(self, text: Any, **options: Any) -> Any:
            return super()._encode_plus(text=text.upper(), **options)

        def _decode(self, *args: Any, **options: Any) -> str:
            return super()._decode(*args, **options) + "!"

    patch()
    tokenizer = Mine(tokenizer_object=small.fast("byte_level").backend_tokenizer)
    plain = small.fast("byte_level")
    assert tokenizer("a b").input_ids == tokenizer.encode("a b") == plain("A B").input_ids
    assert tokenizer.decode([70]) == plain.decode([70]) + "!"


def test_loading_makes_the_delegate(tmp_path, monkeypatch):
    folder = small.folder("byte_level", tmp_path)
    patch()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    monkeypatch.setattr(delegate.Delegate, "_update", None)
    assert tokenizer("a b").input_ids and is_patched(tokenizer)


def test_inexact_tokenizer_stays_unpatched():
    patch()
    tokenizer = small.fast("byte_level")
    assert is_patched(tokenizer)
    tokenizer.backend_tokenizer.model.dropout = 0.5
    assert not is_patched(tokenizer)
    tokenizer.backend_tokenizer.model.dropout = None
    assert is_patched(tokenizer)
    tokenizer.backend_tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    was = is_patched(tokenizer)
    assert tokenizer("A b")["input_ids"] and is_patched(tokenizer) == was

    class Mine:
        def pre_tokenize(self, text: Any) -> None:
            pass

    custom = tokenizers.pre_tokenizers.PreTokenizer.custom(Mine())
    tokenizer.backend_tokenizer.pre_tokenizer = custom
    assert not is_patched(tokenizer)
    assert tokenizer("A b")["input_ids"]


def test_differing_delegate_is_not_used(monkeypatch):
    real = small.fast("byte_level")
    want = real(TEXTS)["input_ids"]
    wrong = delegate.Tokenizer.from_str(OTHER)
    monkeypatch.setattr(delegate.Tokenizer, "from_str", staticmethod(lambda _: wrong))
    patch()
    assert not is_patched(real)
    assert real(TEXTS)["input_ids"] == want


@each_exact
def test_copies_are_patched_too(name):
    want = small.fast(name)(TEXTS)["input_ids"]
    patch()
    tokenizer = small.fast(name)
    assert tokenizer(TEXTS)["input_ids"] == want
    made = [copy.copy(tokenizer), copy.deepcopy(tokenizer), pickle.loads(pickle.dumps(tokenizer))]
    for each in made:
        assert is_patched(each) and each(TEXTS)["input_ids"] == want
    made[1].add_tokens(["Hello"])
    assert tokenizer(TEXTS)["input_ids"] == want != made[1](TEXTS)["input_ids"]


@each_exact
def test_saving_and_training_again(name, tmp_path):
    small.fast(name).save_pretrained(tmp_path / "plain")
    new = small.fast(name).train_new_from_iterator(small.TEXTS[:3], 500, show_progress=False)
    patch()
    tokenizer = small.fast(name)
    assert is_patched(tokenizer)
    tokenizer.save_pretrained(tmp_path / "patched")
    for path in (tmp_path / "plain").iterdir():
        assert path.read_bytes() == (tmp_path / "patched" / path.name).read_bytes()
    found = tokenizer.train_new_from_iterator(small.TEXTS[:3], 500, show_progress=False)
    assert is_patched(found)
    assert found(TEXTS)["input_ids"] == new(TEXTS)["input_ids"]


def test_the_tokenizer_below_is_the_real_one():
    patch()
    tokenizer = small.fast("byte_level")
    real = tokenizer.backend_tokenizer
    assert type(real) is tokenizers.Tokenizer and real is tokenizer._tokenizer
    stream = DecodeStream(skip_special_tokens=True)
    ids = tokenizer.encode("Hello wörld")
    assert "".join(stream.step(real, id_) or "" for id_ in ids) == "Hello wörld"
    assert type(real.encode("a")) is not type(small.Real.from_str(OTHER).encode("a"))
    found = pickle.loads(pickle.dumps(tokenizer(TEXTS)))
    assert seen(found) == seen(tokenizer(TEXTS))


@each_exact
def test_streams_are_those_of_the_real_library(name):
    tokenizer = small.fast(name)

    def pieces(text: str, skip: bool) -> list[str | None]:
        stream = tokenizers.decoders.DecodeStream(skip_special_tokens=skip)
        return [stream.step(tokenizer.backend_tokenizer, id_) for id_ in tokenizer.encode(text)]

    want = [pieces(text, skip) for text in TEXTS for skip in (False, True)]
    patch()
    assert [pieces(text, skip) for text in TEXTS for skip in (False, True)] == want


def steps(real, ids: list[int], prompt: list[int], skip: bool) -> list[str | None]:
    """The texts of a stream; the last one is an error."""
    stream = tokenizers.decoders.DecodeStream(prompt, skip_special_tokens=skip)
    found: list[str | None] = []
    try:
        found.extend(stream.step(real, id_) for id_ in ids)
    except Exception as error:
        found.append(str(error))
    return found


@each_exact
def test_streams_of_any_ids_are_those_of_the_real_library(name):
    """Also of long runs that give no text: bytes that are not UTF-8, and skipped tokens."""
    tokenizer, rng = small.fast(name), random.Random(5)
    real = tokenizer.backend_tokenizer
    silent = [id_ for id_ in range(len(tokenizer)) if tokenizer.decode([id_]).endswith("\ufffd")]
    silent += tokenizer.all_special_ids
    cases = []
    for index in range(120):
        some = [*rng.sample(silent, 2), *(rng.randrange(len(tokenizer)) for _ in range(index % 4))]
        ids = rng.choices(some, k=60) + tokenizer.encode("naïve 中🙂", add_special_tokens=False)
        # A prompt with U+FFFD at the end is repeated by the real library alone.
        prompt = tokenizer.encode("the mill") if index % 2 else []
        cases.append((ids + rng.choices(some, k=5), prompt, index % 3 == 0))
    want = [steps(real, *case) for case in cases]
    patch()
    assert [steps(real, *case) for case in cases] == want


@pytest.mark.parametrize("name", ["byte_level", "llama2"])
def test_a_stream_without_text_decodes_each_id_a_few_times(name, monkeypatch):
    tokenizer = small.fast(name)
    real = tokenizer.backend_tokenizer
    high = next(id_ for id_ in range(len(tokenizer)) if tokenizer.decode([id_]) == "\ufffd")
    patch()
    counted, decode = 0, tokenizers.Tokenizer.decode

    def count(real, ids, *args):
        nonlocal counted
        counted += len(ids)
        return decode(real, ids, *args)

    monkeypatch.setattr(tokenizers.Tokenizer, "decode", count)
    for id_ in (high, tokenizer.all_special_ids[0]):
        assert steps(real, [id_] * 2000, [], True) == [None] * 2000
    assert counted < 20 * 4000


def test_a_stream_begins_inside_a_character():
    tokenizer = small.fast("byte_level")
    ids = tokenizer.encode("naïve 中🙂 x", add_special_tokens=False)
    theirs = DecodeStream()
    want = [theirs.step(tokenizer.backend_tokenizer, id_) for id_ in ids]
    patch()
    streams = tokenizers.decoders
    assert streams.DecodeStream is not DecodeStream
    for start in range(len(ids)):
        stream = streams.DecodeStream(ids[:start])
        found = [stream.step(tokenizer.backend_tokenizer, id_) for id_ in ids[start:]]
        assert found == want[start:], start
    unpatch()
    assert streams.DecodeStream is DecodeStream


def test_patch_twice_and_unpatch_restores_the_library():
    encode_batch = tokenizers.Tokenizer.encode_batch
    model = vars(tokenizers.Tokenizer)["model"]
    tokenizer = small.fast("gpt2")
    want = tokenizer(TEXTS)["input_ids"]
    assert not is_patched(tokenizer)
    patch()
    patch()
    assert is_patched(tokenizer) and tokenizer(TEXTS)["input_ids"] == want
    unpatch()
    unpatch()
    assert not is_patched(tokenizer)
    assert tokenizers.Tokenizer.encode_batch is encode_batch
    assert vars(tokenizers.Tokenizer)["model"] is model
    assert PreTrainedTokenizerFast._tokenizer is None
    # The next patch uses changes that were made in between.
    tokenizer.add_tokens(["Hello"])
    want = tokenizer(TEXTS)["input_ids"]
    patch()
    assert is_patched(tokenizer) and tokenizer(TEXTS)["input_ids"] == want


def test_tokenizer_outside_a_fast_one_stays_unpatched():
    patch()
    found = small.Real.from_str(OTHER).encode_batch(["a b"])
    assert type(found[0]) is tokenizers.Encoding
    assert not is_patched(object()) and not is_patched(None)


def test_64_threads_may_use_one_tokenizer():
    """TOKENMILL_FUZZ=100 makes 100,000 calls."""
    tokenizer = small.fast("byte_level")
    calls = 1000 * int(os.environ.get("TOKENMILL_FUZZ", "5")) // 64
    cut = {"truncation": True, "max_length": 6, "padding": True}
    want = [tokenizer(text)["input_ids"] for text in TEXTS], tokenizer(TEXTS, **cut)["input_ids"]
    patch()
    failures: list[object] = []

    def work(number: int) -> None:
        try:
            for index in range(calls):
                place = (number + index) % len(TEXTS)
                ids = tokenizer.encode(TEXTS[place])
                if ids != want[0][place] or tokenizer.decode(ids) != texts[place]:
                    failures.append(place)
        except Exception as error:  # it must not end the thread silently
            failures.append(error)

    texts = [tokenizer.decode(ids) for ids in want[0]]
    threads = [threading.Thread(target=work, args=[number]) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and tokenizer(TEXTS, **cut)["input_ids"] == want[1]


def test_threads_may_use_different_settings():
    """Truncation and padding are settings of the tokenizer, which each call changes."""
    tokenizer = small.fast("byte_level")
    calls: list[Callable[[str, int], Any]] = [
        lambda text, n: tokenizer(text, truncation=True, max_length=5 + n),
        lambda text, n: tokenizer([text, text[:9]], padding=True),
        lambda text, n: tokenizer(text),
        lambda text, n: tokenizer.encode(text, add_special_tokens=False),
        lambda text, n: tokenizer(text, text[:9], truncation=True, max_length=9 + n),
    ]

    def results(number: int) -> list[Any]:
        places = range(number, number + 20)
        return [
            said(lambda i=i: calls[i % 5](small.TEXTS[i % len(small.TEXTS)][:400], number))
            for i in places
        ]

    want, found = [results(number) for number in range(64)], [list[Any]()] * 64
    patch()

    def work(number: int) -> None:
        found[number] = results(number)

    threads = [threading.Thread(target=work, args=[number]) for number in range(64)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert found == want and is_patched(tokenizer)


def test_tokenmill_alone_imports_neither_library():
    code = (
        "import sys, tokenmill, tokenmill.compat.transformers as t\n"
        "assert not t.is_patched(None)\n"
        "assert not {'transformers', 'tokenizers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_patch_is_a_context_manager():
    tokenizer = small.fast("byte_level")
    with patch():
        with patch():
            assert is_patched(tokenizer)
        assert is_patched(tokenizer)  # the first call still lasts
    assert not is_patched(tokenizer)
