#!/usr/bin/env python3
"""Writes the golden vectors of published vocabularies, by the reference implementation in Python.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install tokenizers==0.23.3
    node --import tsx test/vocabularies/fetch.ts --all
    /tmp/golden/bin/python test/golden/make_vocabulary_golden.py build/vocabularies

The texts are those of make_tokenizer_golden.py and random ones made of them; they are written once for all vocabularies.
Of each vocabulary a hash of the ids of each text is kept, with literals of special tokens as text, and as tokens with the
post-processor's tokens around it; and of a megabyte made of all texts. Tests read what this writes; they need no Python.
"""

import hashlib
import json
import pathlib
import random
import re
import struct
import sys

from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).parent
SEED = 20
MIXED_BYTES = 2**20


def fixed_texts():
    """TEXTS of the script beside this one, which needs packages that this one does not."""
    source = (HERE / "make_tokenizer_golden.py").read_text()
    scope = {}
    exec(re.search(r"^TEXTS = \[.*?^\]", source, re.S | re.M).group(), scope)
    return scope["TEXTS"]


def texts():
    fixed, rng = fixed_texts(), random.Random(SEED)
    characters = [c for text in fixed for c in text]
    odd = ["'\u017f", "don'T", "'S", "> </", " </", ">  <", "\u2581", "a\u2581b", "12345", "1234567.", "\u00bd3", "e\u0301"]
    random_texts = ["".join(rng.choice(characters) for _ in range(rng.randint(1, 50))) for _ in range(250)]
    for _ in range(250):
        parts = [
            lambda: rng.choice(fixed)[:40],
            lambda: rng.choice(characters) * rng.randint(1, 9),
            lambda: " " * rng.randint(1, 6),
            lambda: "\n" * rng.randint(1, 4),
            lambda: rng.choice(odd),
        ]
        random_texts.append("".join(rng.choice(parts)() for _ in range(rng.randint(1, 6))))
    return fixed + random_texts


def mixed(all_texts):
    """A megabyte: the texts again and again, each time in the order of a linear congruential generator."""
    out, size, state = [], 0, 1
    while size < MIXED_BYTES:
        state = (state * 1103515245 + 12345) % 2**31
        text = all_texts[(state >> 8) % len(all_texts)]
        out.append(text)
        size += len(text.encode())
    return "".join(out)


def digest(ids):
    return hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest()[:8]


def write(name, value):
    (HERE / name).write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")


def golden(folder, all_texts):
    file = folder / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file))
    inputs = all_texts + [mixed(all_texts)]
    tokenizer.encode_special_tokens = True
    plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in inputs]
    tokenizer.encode_special_tokens = False
    special = [tokenizer.encode(text, add_special_tokens=True).ids for text in inputs]
    decoded = [tokenizer.decode(ids, skip_special_tokens=True) for ids in plain]
    return {
        "file": hashlib.sha256(file.read_bytes()).hexdigest(),
        "plain": [digest(ids) for ids in plain],
        "special": [digest(ids) for ids in special],
        "decoded": [hashlib.sha256(text.encode()).hexdigest()[:8] for text in decoded],
    }


def main():
    all_texts = texts()
    write("vocabulary-texts.json", all_texts)
    folders = sorted(path for path in pathlib.Path(sys.argv[1]).iterdir() if (path / "tokenizer.json").exists())
    write("vocabulary-ids.json", {folder.name: golden(folder, all_texts) for folder in folders})


main()
