#!/usr/bin/env python3
"""Writes the golden vectors of Unigram, by the reference implementations in Python.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install tokenizers==0.23.3 sentencepiece==0.2.3 protobuf==7.36.2
    /tmp/golden/bin/python test/golden/make_unigram_golden.py

SentencePiece trains two small vocabularies on the texts of the scripts beside this one, with replacements of its own (NFKC of the
characters of these texts, and what its table nmt_nfkc does with white space), and writes them as compiled tables. Their
tokens are put in the order of XLM-RoBERTa's. Kept are the files of Hugging Face's library, the texts, the ids of each text by each
of VARIANTS, and what the library takes for graphemes. Tests read what this writes; they need no Python.
"""

import base64
import io
import json
import pathlib
import random
import re
import tempfile
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer, normalizers

HERE = pathlib.Path(__file__).parent
SEED = 20
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
MASK = "<mask>"
PAIR = ["which runner computes?", "the runner"]
PREPENDED = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e"

TEXTS = [
    "ﬁn ﬃ ﬁ\u0301 ﷺ ½ ㈱ ⅷ", "ＡＢＣ　ｄｅｆ！", "ａ\u0301ｂ\u0301", "ｶﾞｷﾞ ﾊﾟ", "カ\u3099", "e\u0301 re\u0301sume\u0301", "é", "e\u0301\u0323", "q\u0301", "\u0301", " \u0301a", "a \u0301", "\t\u0301", "\u0301\u0302",
    "a\r\nb", "a\rb", "a\nb", "a\n\nb", "a\tb", "a\u00a0b", "a\u3000b", "a\u2003b\u2028c\u0085d", "a\u200bb\u200dc\ufeffd", "a\u00adb", "\u0600a", "\u0600ﬁ", "a\u0903b", "ﬁ\u0903", "a\u0e33", "ﬁ\u200d", "©\u200d®", "\x00ﬁ\x00", "ﬁ\x00", "👨‍👩‍👧 🇨🇭 ❤️",
    "", " ", "  ", "   the", "the   ", " the  runner  computes ", "the\u3000 \u3000runner", "▁the", "the▁runner", "the ▁runner", "the ▁▁runner", "▁ the", "▁", "▁▁", " ▁ ", "a ▁", "the▁ runner",
    "<s>", "the </s> runner", "the <mask> runner", "the  <mask>runner", "<unk>", "<pad> a", "<mask><mask>", "<x>",
    "``quoted''", "``", "'' a ''", "qzxj", "⌘", "⌘⌘", "the ⌘⌘ the", "a⌘b", "ꙮ ꙮ", "ꙮꙮꙮ", "\U0001f9ff\U0001f9ff", "ж⌘ж", "embeddingembeddingembedding", "unembeddable", "the" * 200, "ab " * 100, "東京" * 80, "⌘" * 300, "a" * 2000, "\u0301" * 50, "ﬁ" * 40,
]  # fmt: skip


def texts_of(script, name):
    source = (HERE / script).read_text()
    scope = {}
    exec(re.search(rf"^{name} = \[.*?^\]", source, re.S | re.M).group(), scope)
    return scope[name]


def all_texts():
    fixed = texts_of("make_tokenizer_golden.py", "TEXTS") + texts_of("make_wordpiece_golden.py", "TEXTS") + TEXTS
    rng = random.Random(SEED)
    characters = [c for text in fixed for c in text]
    mixed = ["".join(rng.choice(characters) for _ in range(rng.randint(1, 24))) for _ in range(150)]
    return fixed + mixed + [" ".join(rng.choice(fixed)[:20] for _ in range(4)) for _ in range(80)]


def rules(texts):
    """(characters, replacement)"""
    found = {c: unicodedata.normalize("NFKC", c) for text in texts for c in text}
    found |= {chr(code): unicodedata.normalize("NFKC", chr(code)) for code in (*range(0x2100, 0x2500), *range(0xFF01, 0xFFEF))}
    found |= {c: " " for c in "\t\n\r\u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))}
    found |= {c: "" for c in "\x01\x08\x1f\x7f\u00ad\u200b\u200e\u200f\u2060\ufeff"}
    found |= {c: "p" for c in PREPENDED}
    found |= {two: unicodedata.normalize("NFKC", two) for two in ("e\u0301", "ｶ\uff9e", "カ\u3099", "a\u0301", "A\u030a")}
    return sorted((c, to) for c, to in found.items() if to != c and c != "\x00" and len(to.encode()) < 64)


def charsmap_of(pairs, corpus, **options):
    """The model that SentencePiece trains with these replacements."""
    out = io.BytesIO()
    codes = lambda text: " ".join(f"{ord(c):X}" for c in text)
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as table:
        table.write("".join(f"{codes(c)}\t{codes(to)}\n" for c, to in pairs))
        table.flush()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus), model_writer=out, model_type="unigram", normalization_rule_tsv=table.name,
            hard_vocab_limit=False, num_threads=1, minloglevel=2, **options)  # fmt: skip
    return sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())


def file_of(model, has_bytes):
    """As transformers converts XLM-RoBERTa's model, whose first tokens are in another order."""
    pieces = [(piece.piece, piece.score) for piece in model.pieces if piece.type != 3 and piece.type != 2]
    vocab = [*((token, 0.0) for token in SPECIAL), *pieces, (MASK, 0.0)]
    added = [(index, token, False) for index, token in enumerate(SPECIAL)] + [(len(vocab) - 1, MASK, True)]
    charsmap = base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()
    special = lambda token: {"SpecialToken": {"id": token, "type_id": 0}}
    text = lambda name: {"Sequence": {"id": name, "type_id": 0}}
    return {
        "added_tokens": [
            {"id": index, "content": token, "single_word": False, "lstrip": lstrip, "rstrip": False, "normalized": False, "special": True}
            for index, token, lstrip in added],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap},
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing", "single": [special("<s>"), text("A"), special("</s>")],
            "pair": [special("<s>"), text("A"), special("</s>"), special("</s>"), text("B"), special("</s>")],
            "special_tokens": {token: {"id": token, "ids": [SPECIAL.index(token)], "tokens": [token]} for token in ("<s>", "</s>")}},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": 3, "vocab": vocab, "byte_fallback": has_bytes},
    }  # fmt: skip


def metaspace(**settings):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True, **settings}


def sequence(key, *parts):
    return {"type": "Sequence", key: parts}


def variants(charsmap):
    """Name: of which vocabulary, and the parts that differ from its file."""
    precompiled = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    spaces = lambda to: {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": to}
    quotes = [{"type": "Replace", "pattern": {"String": mark}, "content": '"'} for mark in ("``", "''")]
    strip = lambda left, right: {"type": "Strip", "strip_left": left, "strip_right": right}
    words = sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace())
    return {
        "xlm-roberta": ("plain", {"pre_tokenizer": words}),
        "older file": ("plain", {"pre_tokenizer": sequence("pretokenizers", {"type": "WhitespaceSplit"}, {
            "type": "Metaspace", "replacement": "▁", "add_prefix_space": True})}),
        "spaces": ("plain", {"normalizer": sequence("normalizers", precompiled, strip(False, True), spaces("▁")),
                             "pre_tokenizer": metaspace()}),
        "quotes": ("plain", {"normalizer": sequence("normalizers", *quotes, strip(True, True), precompiled, spaces(" ")),
                             "pre_tokenizer": metaspace()}),
        "first": ("plain", {"normalizer": None, "pre_tokenizer": metaspace(prepend_scheme="first")}),
        "never": ("plain", {"pre_tokenizer": metaspace(prepend_scheme="never", split=False)}),
        "whole": ("plain", {"pre_tokenizer": metaspace(split=False)}),
        "bytes": ("bytes", {"pre_tokenizer": words}),
    }  # fmt: skip


def ids_of(file, texts, parse_special):
    if parse_special:
        tokenizer = Tokenizer.from_str(json.dumps(file))
        return [tokenizer.encode(text).ids for text in texts]
    # Here text cannot write control tokens, so in this vocabulary they have names that no text has.
    model = file["model"]
    hidden = [(f"\U000f0000{token}" if token in (*SPECIAL, MASK) else token, score) for token, score in model["vocab"]]
    bare = {**file, "added_tokens": [], "post_processor": None, "model": {**model, "vocab": hidden}}
    tokenizer = Tokenizer.from_str(json.dumps(bare))
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def pairs_of(file):
    """Ids and types of a pair of texts, by each post-processor."""
    bert = lambda kind, **more: {"type": kind, "sep": ["</s>", 2], "cls": ["<s>", 0], **more}
    typed = json.loads(json.dumps(file["post_processor"]))
    for piece in typed["pair"][-2:]:
        next(iter(piece.values()))["type_id"] = 1
    del typed["pair"][3]
    processors = [file["post_processor"], typed, bert("BertProcessing"),
                  bert("RobertaProcessing", trim_offsets=True, add_prefix_space=False)]  # fmt: skip
    encoded = [Tokenizer.from_str(json.dumps({**file, "post_processor": one})).encode(*PAIR) for one in processors]
    return [{"post_processor": one, "ids": pair.ids, "types": pair.type_ids} for one, pair in zip(processors, encoded)]


def ranges(codes):
    """Code points in hexadecimal: `41-5a 61`."""
    found = []
    for code in codes:
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return " ".join(f"{first:x}" if first == last else f"{first:x}-{last:x}" for first, last in found)


def graphemes():
    """
    Characters that attach to the one in front of them, and to the one behind. The first character of a grapheme that has a
    replacement replaces all of it.
    """
    codes = [code for code in range(0x80, 0x10000) if not 0xD800 <= code < 0xE000]
    pairs = [("q", "Q"), *((chr(code), "P") for code in codes)]
    model = charsmap_of(pairs, ["hello world"] * 10, vocab_size=20)
    replaced = normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap).normalize_str
    return {
        "attached": ranges(code for code in codes if replaced("q" + chr(code)) == "Q"),
        "prepended": ranges(code for code in codes if replaced(chr(code) + "z") == "P"),
    }


def main():
    texts = all_texts()
    corpus = (texts_of("make_wordpiece_golden.py", "CORPUS") * 4 + texts) * 2
    corpus = [line for text in corpus for line in re.split(r"[\x00\n\r]", text) if line and len(line) < 1000]
    pairs = rules(texts)
    options = dict(vocab_size=900, character_coverage=0.98)
    files = {"plain": file_of(charsmap_of(pairs, corpus, **options), False),
             "bytes": file_of(charsmap_of(pairs, corpus, byte_fallback=True, **options), True)}  # fmt: skip
    out = {"texts": texts, "files": files, "variants": {}, "graphemes": graphemes(), "pair": PAIR}
    for name, (of, changes) in variants(files["plain"]["normalizer"]["precompiled_charsmap"]).items():
        file = {**files[of], **changes}
        plain, special = ids_of(file, texts, False), ids_of(file, texts, True)
        # null if no more differs than the tokens around the text.
        special = [None if ids == [0, *bare, 2] else ids for bare, ids in zip(plain, special)]
        out["variants"][name] = {"of": of, "changes": changes, "plain": plain, "special": special}
    words = variants(files["plain"]["normalizer"]["precompiled_charsmap"])["xlm-roberta"][1]
    out["pairs"] = pairs_of({**files["plain"], **words})
    (HERE / "unigram.json").write_text(json.dumps(out, ensure_ascii=True, separators=(",", ":")) + "\n")


main()
