"""The base model of the platform: prepared from its GGUF file, it reads and scores text as the file says it should."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import gguf
import pytest
import regex
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from trainers.engine.base_models import model_manifest, resolve_base_model, smollm2_gguf
from trainers.engine.batch import Datum
from trainers.engine.engine import Engine
from trainers.engine.sampler import SamplingParams

# "<|im_start|>user\nSay the magic word.<|im_end|>\n<|im_start|>assistant\nxylophone!<|im_end|>\n"
GOLDEN = [1, 4093, 198, 36218, 260, 9019, 2229, 30, 2, 198, 1, 520, 9531, 198, 104, 2668, 26997, 17, 2, 198]
GOLDEN_TEXT = "<|im_start|>user\nSay the magic word.<|im_end|>\n<|im_start|>assistant\nxylophone!<|im_end|>\n"
GOLDEN_SUM = 25.6457
TEXTS = [
    "Hello, world!",
    "It's 12345 + 67.89 = ?  they'll've",
    "  leading and trailing  ",
    "tabs\tand\n\nnewlines\r\n\n   \n",
    "你好，世界！这是一个测试。",
    "日本語テキスト と 한국어 텍스트",
    "🙂🚀👩‍🔬 émojis — “quotes” … ½ ② Ⅷ",
    "def f(x: int) -> str:\n    return f'{x:>10}'  # comment\n",
    "مرحبا بالعالم שלום עולם",
    "a" * 300,
    "<html><body class='x'>&nbsp;</body></html>",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "<|endoftext|> in the middle <|im_end|>of text",
    "\u0000\u200b\ufeff\u00a0|",
    "x1y22z333 3.14e-10 0x1F",
    "",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return resolve_base_model("smollm2-135m-instruct", tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def engine(folder: Path) -> Engine:
    return Engine.load(folder, threads=1)


class PlainBpe:
    """Byte-level BPE as its authors describe it, read straight from the lists in the GGUF file."""

    WORDS = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")

    def __init__(self, path: Path) -> None:
        fields = {name: field.contents() for name, field in gguf.GGUFReader(path).fields.items()}
        tokens = fields["tokenizer.ggml.tokens"]
        self.ids = {token: index for index, token in enumerate(tokens)}
        self.ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(fields["tokenizer.ggml.merges"])}
        control = [token for token, kind in zip(tokens, fields["tokenizer.ggml.token_type"], strict=True) if kind == 3]
        self.control = regex.compile("|".join(regex.escape(token) for token in sorted(control, key=len, reverse=True)))
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [byte for byte in range(256) if byte not in printable]
        self.letters = {byte: chr(byte) for byte in printable} | {b: chr(256 + i) for i, b in enumerate(others)}

    def encode(self, text: str) -> list[int]:
        ids, end = [], 0
        for match in self.control.finditer(text):
            ids += [*self._plain(text[end : match.start()]), self.ids[match.group()]]
            end = match.end()
        return ids + self._plain(text[end:])

    def _plain(self, text: str) -> list[int]:
        ids = []
        for piece in regex.findall(r"\p{N}|[^\p{N}]+", text):  # every digit stands alone
            for word in self.WORDS.findall(piece):
                ids += [self.ids[part] for part in self._merge([self.letters[byte] for byte in word.encode()])]
        return ids

    def _merge(self, parts: list[str]) -> list[str]:
        while len(parts) > 1:
            rank, at = min((self.ranks.get(pair, 10**9), i) for i, pair in enumerate(pairwise(parts)))
            if rank == 10**9:
                break
            parts = [*parts[:at], parts[at] + parts[at + 1], *parts[at + 2 :]]
        return parts


def test_the_tokenizer_encodes_as_the_gguf_says_and_decodes_back(folder):
    tokenizer, plain = AutoTokenizer.from_pretrained(folder), PlainBpe(smollm2_gguf())
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        assert ids == plain.encode(text), text
        assert tokenizer.decode(ids) == text


def test_the_tokenizer_survives_saving_and_loading(folder, tmp_path):
    first = AutoTokenizer.from_pretrained(folder)
    first.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        assert again(text)["input_ids"] == first(text)["input_ids"]
    assert (again.eos_token, again.eos_token_id, again.bos_token_id) == ("<|im_end|>", 2, 1)
    chat = [{"role": "user", "content": "hi"}]
    rendered = again.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert rendered == first.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert rendered.count("<|im_start|>") == 3 and rendered.endswith("<|im_start|>assistant\n")


def test_the_weights_give_the_golden_loss(engine):
    assert list(engine.tokenizer(GOLDEN_TEXT)["input_ids"]) == GOLDEN
    datum = Datum(GOLDEN[:-1], GOLDEN[-7:])
    one = engine.forward(None, [datum])
    assert one.loss == pytest.approx(GOLDEN_SUM, abs=2e-4)
    assert engine.forward(None, [datum] * 4).loss == pytest.approx(102.583, abs=1e-3)
    assert engine.forward(None, [datum] * 4).passed == one.passed == 19


def test_plain_transformers_reads_the_same_folder_with_the_same_loss(folder):
    config = json.loads((folder / "config.json").read_text())
    assert "quantization_config" not in config and "gguf" not in json.dumps(config).lower()
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.float32
    with torch.no_grad():
        scores = model(torch.tensor([GOLDEN])).logits[0].double().log_softmax(-1)
    assert -sum(float(scores[i - 1, GOLDEN[i]]) for i in range(13, 20)) == pytest.approx(GOLDEN_SUM, abs=2e-4)


def test_the_manifest_says_what_was_done_to_the_weights(folder):
    manifest = model_manifest(folder)
    assert manifest["quantisation"] == "Q4_1, dequantised"
    assert manifest["license"] == "Apache-2.0"
    assert len(manifest["source_sha256"]) == 64
    assert manifest["parameters"] == 134_515_008


def test_greedy_sampling_equals_generate_of_transformers(engine, folder):
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = engine.tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]
    params = SamplingParams(max_tokens=24, temperature=0, stop_tokens=(2,))
    ours = engine.sample(None, [prompt, prompt[:-3]], params)[0][0]
    model = AutoModelForCausalLM.from_pretrained(folder)
    theirs = model.generate(input_ids=torch.tensor([prompt]), max_new_tokens=24, do_sample=False)[0, len(prompt) :]
    assert ours.tokens == theirs.tolist()
    assert "Paris" in engine.tokenizer.decode(ours.tokens)


def test_sampled_logprobs_are_those_of_training(engine):
    prompts = [list(engine.tokenizer(f"Count: {n},")["input_ids"]) for n in (1, 2, 3)]
    groups = engine.sample(None, prompts, SamplingParams(max_tokens=8, n=3, seed=1))
    flat = [(prompt, c) for prompt, group in zip(prompts, groups, strict=True) for c in group]
    scored = engine.logprobs(None, [Datum([*prompt, *c.tokens[:-1]], c.tokens) for prompt, c in flat])
    for values, (_, completion) in zip(scored, flat, strict=True):
        torch.testing.assert_close(values, torch.tensor(completion.logprobs), rtol=0, atol=1e-4)
